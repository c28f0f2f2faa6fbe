"""``exec``: beats for any program, and tells how it died."""

import codecs
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click

from lastbeat import settings as configuration
from lastbeat import training
from lastbeat.guardian.start import WRAPPED
from lastbeat.sdk import child as children
from lastbeat.sdk.capture import Capture
from lastbeat.sdk.death import Death, describe
from lastbeat.sdk.descriptors import streams as open_streams
from lastbeat.sdk.logs import Printed, TrainingLog
from lastbeat.sdk.output import Output
from lastbeat.sdk.reporter import Reporter, Surroundings
from lastbeat.sdk.resources import Meter
from lastbeat.sdk.run import Run
from lastbeat.sdk.signals_in import Signals, die_of
from lastbeat.sdk.stacks import Stacks
from lastbeat.sdk.witness import Witness
from lastbeat.settings import Settings, SettingsError
from lastbeat_cli import logs, options, report, values

log = logging.getLogger(__name__)

EPILOG = """\
\b
Exit status: that of the command, and
  126  the command could not be started
  127  the command was not found
  3    wrong arguments; nothing was started
A command that a signal killed: lastbeat ends by the same signal, which shells show as 128 + its number.

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
@options.option("--run-id", metavar="ID", group=report.WHAT, help="The run: its folder's name below the fleet root.")
@options.option("--phase", metavar="P", default="training", group=report.WHAT, help="What it does [training].")
@options.option("--total-steps", metavar="N", group=report.WHAT, help="How many steps it will take.")
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
    name = report.run_id(run_id, faults)
    steps = values.whole("--total-steps", total_steps, faults, least=1)
    if not command:
        faults.append("the command is missing; use for example -- ./train.sh")
    settings = _settings(arguments, faults)
    if faults:
        raise SettingsError(faults)
    with Signals() as signals, closing(Witness(signals.heeded, apart=children.on_terminal(streams))) as witness:
        output = Output()
        printed = Capture()
        meter = Meter(wraps=True)
        run = Run(name, _reporter(settings, printed, meter) if settings is not None else None, steps)
        run.set_phase(phase)
        program = os.path.basename(command[0])  # noqa: PTH119 - of a name as the shell gave it
        if settings is not None:
            # The command's own lastbeat.run of this run needs no guardian: we see how it ends.
            os.environ[WRAPPED] = name
        try:
            child = children.start(command, streams, _telling(run, output, printed), signals, witness)
        except children.NotStartedError as fault:
            print(f"Error: {fault}", file=sys.stderr)
            run.fail(f"Not started: {fault}")
            return fault.status
        meter.root = child.process
        try:
            death = child.wait()
            ending = threading.Thread(target=_end, args=(run, death, program, output), name="lastbeat-end", daemon=True)
            if settings is not None:
                _begin(ending)
            child.until(lambda: not ending.is_alive())
        finally:
            child.leave()
    return die_of(-death.status) if death.status < 0 else death.status


def _settings(arguments: dict[str, str], faults: list[str]) -> Settings | None:
    """The settings; ``faults`` gets what is wrong with the arguments. None where something else is."""
    try:
        settings = configuration.load(arguments)
    except SettingsError as wrong:
        try:
            configuration.load(arguments, environ={}, directory=Path(os.devnull))
        except SettingsError as typed:
            faults.extend(typed.faults)
            return None
        # What was typed is right, so whoever started this may not even know of the fault. Training comes first.
        log.error("nothing watches this command, which runs all the same: %s", wrong)  # noqa: TRY400 - no trace
        return None
    logs.follow(settings)
    return settings


def _reporter(settings: Settings, printed: Capture, meter: Meter) -> Reporter:
    def prepare() -> Surroundings:
        # In the beat thread: connecting must not hold up the start of training.
        around = training.surroundings(settings)
        # The stacks of this process would tell nothing about the command's.
        return replace(around, extras=tuple(extra for extra in around.extras if not isinstance(extra, Stacks)))

    return Reporter(prepare, [TrainingLog(Printed(printed))], meter=meter)


def _telling(run: Run, output: Output, printed: Capture) -> Callable[[int, bytes], None]:
    known_total = run.total_steps is not None
    decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in (1, 2)}

    def tell(stream: int, chunk: bytes) -> None:
        printed.add(decoders[stream].decode(chunk))
        if output.take(stream, chunk):
            progress = output.progress
            if not known_total:
                run.total_steps = progress.total_steps
            run.step(progress.step, loss=progress.loss, learning_rate=progress.learning_rate, epoch=progress.epoch)

    return tell


def _begin(ending: threading.Thread) -> None:
    try:
        ending.start()
    except RuntimeError:  # No more threads: so be it that a signal does not cut this short.
        ending.run()


def _end(run: Run, death: Death, program: str, output: Output) -> None:
    written = run.complete() if death.well else run.fail(describe(death, program, output.error, output.tail))
    if not written:
        log.warning("lastbeat could not write how %s ended, and gives up", program)
