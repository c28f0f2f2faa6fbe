"""``exec``: reports any command as a run, and says how it exited."""

import codecs
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from lastbeat import opening, training
from lastbeat import settings as configuration
from lastbeat.child import process as child_process
from lastbeat.child.descriptors import open_streams
from lastbeat.child.exit_reason import ChildExit, sentinel_text
from lastbeat.child.group_signals import GroupSignalMonitor
from lastbeat.child.output_summary import OutputSummary
from lastbeat.child.signal_queue import SignalQueue, exit_by_signal
from lastbeat.guardian.start import WRAPPED
from lastbeat.sdk.capture import Capture
from lastbeat.sdk.log_shipping import CaptureFeed, LogShipping
from lastbeat.sdk.reporter import Reporter, RunEnvironment
from lastbeat.sdk.resources import ResourceMeter, send_to_tree, tree_of
from lastbeat.sdk.run import Run
from lastbeat.sdk.stacks import StackDump
from lastbeat.sdk.stop_check import StopCheck
from lastbeat.settings import Settings, SettingsError
from lastbeat.settings.table import EXIT_SIGNAL, TIME_MARGIN_SECONDS
from lastbeat_cli import logs, options, report, values

log = logging.getLogger(__name__)

EPILOG = """\
\b
Exit status: that of the command, and
  126  the command could not be started
  127  the command was not found
  3    wrong arguments; nothing was started
If a signal kills the command, lastbeat ends by the same signal, which shells show as 128 + its number.

\b
Examples:
  lastbeat exec --run-id mistral-20250804-171621 -- torchrun --nproc-per-node 8 train.py
  nohup lastbeat exec --run-id nightly --bucket my-bucket -- ./train.sh > train.log 2>&1 &

Step, loss and learning rate are read from the output of Megatron, the Hugging Face Trainer, Lightning, nanoGPT and
lines like 'step 100/1000 loss 2.5'. A store that is down neither delays the command nor changes its exit status.
"""


@click.command(
    "exec",
    cls=options.Grouped,
    epilog=EPILOG,
    context_settings={"allow_interspersed_args": False},
    no_args_is_help=False,
)
@options.option("--run-id", metavar="ID", group=report.WHAT, help="The run: its folder's name [made of job or time].")
@options.option("--phase", metavar="P", default="training", group=report.WHAT, help="What it does [training].")
@options.option("--total-steps", metavar="N", group=report.WHAT, help="How many steps it will take.")
@options.option("--owner", metavar="NAME", group=report.WHAT, help="Whose run it is [LASTBEAT_OWNER, SLURM_JOB_USER].")
@options.option("--team", metavar="NAME", group=report.WHAT, help="The owner's team [LASTBEAT_TEAM].")
@options.option(
    "--time-margin",
    metavar="SECONDS",
    group=report.WHAT,
    help="So long before the end of its Slurm job it gets SIGTERM, or LASTBEAT_EXIT_SIGNAL [never].",
)
@options.place
@options.option("-v", "--verbose", is_flag=True, help="Say on stderr what is done, with tracebacks.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARG]...")
def command(
    *,
    run_id: str | None,
    phase: str,
    total_steps: str | None,
    verbose: bool,
    command: tuple[str, ...],
    **given: str | None,
) -> int:
    """Run a command as it would run by itself, and report it: heartbeats, progress, and how it ended.

    Its input, output, terminal, signals and exit status pass through unchanged.
    """
    streams = open_streams()
    logs.verbose(on=verbose)
    arguments = options.arguments(given)
    faults: list[str] = []
    made = run_id is None and command
    name = report.made_run_id(_script(command)) if made else report.run_id(run_id, faults)
    steps = values.whole("--total-steps", total_steps, faults, least=1)
    if not command:
        faults.append("the command is missing; use for example -- ./train.sh")
    settings = _settings(arguments, faults)
    if faults:
        raise SettingsError(faults)
    if made and settings is not None:
        report.tell(opening.root_url(settings), name, given)
    return _report(command, streams, name, phase, steps, settings)


def _script(command: Sequence[str]) -> str:
    """What people call the command: its script, behind python or torchrun."""
    return next((word for word in command if word.endswith((".py", ".sh"))), command[0])


def _report(
    command: Sequence[str], streams: Sequence[int], name: str, phase: str, steps: int | None, settings: Settings | None
) -> int:
    """Run ``command`` and report it as the run ``name``. Returns the exit status, or dies by the command's signal.

    1. Block the signals to forward, and fork the group monitor: both must come before the first thread.
    2. Start the run, and with it the beat thread, so that a command which cannot be started is reported too.
    3. Start the command. Its output feeds the run's progress, its log, and the summary for ``_error``.
    4. Wait for its exit, forwarding signals.
    5. Write the sentinel in a thread, so that a signal can end the wait for a slow store.
    6. Restore the terminal, and exit as the command did.

    Without ``settings`` the command runs all the same, and nothing is reported.
    """
    apart = child_process.needs_terminal(streams)
    with SignalQueue() as signals, closing(GroupSignalMonitor(signals.forwarded, own_session=apart)) as group_signals:
        summary = OutputSummary()
        printed = Capture()
        meter = ResourceMeter(wraps=True)
        run = Run(name, _reporter(settings, printed, summary, meter) if settings is not None else None, steps)
        run.set_phase(phase)
        program = os.path.basename(command[0])  # noqa: PTH119 - of a name as the shell gave it
        if settings is not None:
            run.on_stop, run.heeds_stop = partial(_ask_child, settings, meter), True
            # If the command itself calls lastbeat.run with this id, it needs no guardian: we see how it ends.
            os.environ[WRAPPED] = name
        try:
            child = child_process.start(command, streams, _on_output(run, summary, printed), signals, group_signals)
        except child_process.NotStartedError as fault:
            print(f"Error: {fault}", file=sys.stderr)
            run.fail(f"Not started: {fault}")
            return fault.status
        meter.root = child.pid
        try:
            ended = child.wait()
            arguments = (run, ended, program, summary)
            ending = threading.Thread(target=_write_sentinel, args=arguments, name="lastbeat-end", daemon=True)
            if settings is not None:
                _start_or_run(ending)
            child.wait_for(lambda: not ending.is_alive())
        finally:
            child.restore_terminals()
    return exit_by_signal(-ended.status) if ended.status < 0 else ended.status


def _settings(arguments: dict[str, str], faults: list[str]) -> Settings | None:
    """The settings; None if they are wrong. ``faults`` gets only what is wrong with the arguments."""
    try:
        settings = configuration.load(arguments)
    except SettingsError as wrong:
        try:
            configuration.load(arguments, environ={}, directory=Path(os.devnull))
        except SettingsError as typed:
            faults.extend(typed.faults)
            return None
        # The arguments are right, so the user may not know of the fault in the environment. Training comes first.
        log.error("nothing watches this command, which runs all the same: %s", wrong)  # noqa: TRY400 - no trace
        return None
    logs.follow(settings)
    return settings


def _reporter(settings: Settings, printed: Capture, summary: OutputSummary, meter: ResourceMeter) -> Reporter:
    def prepare() -> RunEnvironment:
        # In the beat thread: connecting must not delay the command.
        environment = training.run_environment(settings)
        # The stacks of this process would say nothing of the command.
        tasks = [
            StackDump(task.stall_s, task.beat_s, dump=dump, printed=summary.count)
            if isinstance(task, StackDump)
            else task
            for task in environment.tasks
            if not isinstance(task, StopCheck)
        ]
        if environment.stop_s is not None:
            tasks.append(StopCheck(max(1, round(environment.stop_s / environment.beat_s)), send))
        limit = environment.time_limit if settings[TIME_MARGIN_SECONDS] is not None else None
        # Without a handler of its own the signal would end the program long before its machine goes.
        notices = environment.notices if settings[EXIT_SIGNAL] is not None else None
        return replace(environment, tasks=tuple(tasks), time_limit=limit, notices=notices)

    def dump(head: str) -> bytes:
        from lastbeat.child.waiting import dump_waiting  # noqa: PLC0415 - only for a command that hangs

        root = meter.root
        return dump_waiting(root, tree_of(root), head) if root is not None else head.encode()

    def send(number: int) -> None:
        _send(meter, number)

    return Reporter(prepare, [LogShipping(CaptureFeed(printed))], meter=meter)


def _ask_child(settings: Settings, meter: ResourceMeter) -> None:
    """Tell the command to save what it has and to end. Its workers have to live until it has."""
    _send(meter, settings[EXIT_SIGNAL] or signal.SIGTERM, forks=False)


def _send(meter: ResourceMeter, number: int, *, forks: bool = True) -> None:
    if meter.root is not None:
        send_to_tree(meter.root, number, forks=forks)


def _on_output(run: Run, summary: OutputSummary, printed: Capture) -> Callable[[int, bytes], None]:
    total_given = run.total_steps is not None
    decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in (1, 2)}

    def on_output(stream: int, chunk: bytes) -> None:
        printed.add(decoders[stream].decode(chunk))
        if summary.add(stream, chunk):
            progress = summary.progress
            if not total_given:
                run.total_steps = progress.total_steps
            run.step(progress.step, loss=progress.loss, learning_rate=progress.learning_rate, epoch=progress.epoch)

    return on_output


def _start_or_run(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError:  # No thread can start. Then a signal cannot cut this short.
        thread.run()


def _write_sentinel(run: Run, ended: ChildExit, program: str, summary: OutputSummary) -> None:
    if ended.succeeded and run.stop_wanted is not None and not run.is_done:
        written = run.left_early()
    elif ended.succeeded:
        written = run.complete()
    else:
        text = sentinel_text(ended, program, summary.error, summary.tail)
        written = run.fail(text) if run.stopped is None else run.cancel(f"KeyboardInterrupt ({run.stopped}); {text}")
    if not written:
        log.warning("lastbeat could not write how %s ended, and gives up", program)
