"""What ``exec`` reports of a command: heartbeats, progress from its output, and how it exited."""

import codecs
import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from lastbeat import training
from lastbeat.child.exit_reason import ChildExit, sentinel_text
from lastbeat.child.output_summary import OutputSummary
from lastbeat.sdk.capture import Capture
from lastbeat.sdk.log_shipping import CaptureFeed, LogShipping
from lastbeat.sdk.reporter import Reporter, RunEnvironment
from lastbeat.sdk.resources import ResourceMeter, send_to_tree, tree_of
from lastbeat.sdk.run import Run
from lastbeat.sdk.stacks import StackDump
from lastbeat.sdk.stop_check import StopCheck
from lastbeat.settings import Settings
from lastbeat.settings.table import EXIT_SIGNAL, TIME_MARGIN_SECONDS

log = logging.getLogger(__name__)


def as_it_is(environment: RunEnvironment) -> RunEnvironment:
    """``environment``."""
    return environment


def reporter(
    settings: Settings,
    printed: Capture,
    summary: OutputSummary,
    meter: ResourceMeter,
    adapt: Callable[[RunEnvironment], RunEnvironment] = as_it_is,
) -> Reporter:
    """Reports the command that ``meter`` measures; ``adapt`` has the last word on where to."""

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
        notices = environment.on_entered if settings[EXIT_SIGNAL] is not None else ()
        return adapt(replace(environment, tasks=tuple(tasks), time_limit=limit, on_entered=notices))

    def dump(head: str) -> bytes:
        from lastbeat.child.waiting import dump_waiting  # noqa: PLC0415 - only for a command that hangs

        root = meter.root
        return dump_waiting(root, tree_of(root), head) if root is not None else head.encode()

    def send(number: int) -> None:
        _send(meter, number)

    return Reporter(prepare, [LogShipping(CaptureFeed(printed))], meter=meter)


def ask_child(settings: Settings, meter: ResourceMeter) -> None:
    """Tell the command to save what it has and to end. Its workers have to live until it has."""
    _send(meter, settings[EXIT_SIGNAL] or signal.SIGTERM, forks=False)


def _send(meter: ResourceMeter, number: int, *, forks: bool = True) -> None:
    if meter.root is not None:
        send_to_tree(meter.root, number, forks=forks)


def on_output(run: Run, summary: OutputSummary, printed: Capture) -> Callable[[int, bytes], None]:
    """What is done with each chunk of its output."""
    total_given = run.total_steps is not None
    decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in (1, 2)}

    def take(stream: int, chunk: bytes) -> None:
        printed.add(decoders[stream].decode(chunk))
        if summary.add(stream, chunk):
            progress = summary.progress
            if not total_given:
                run.total_steps = progress.total_steps
            run.step(progress.step, loss=progress.loss, learning_rate=progress.learning_rate, epoch=progress.epoch)

    return take


def say(line: str) -> None:
    """A line for people on stderr, wherever that leads: a full disk or a reader that left ends nothing."""
    with suppress(OSError):
        os.write(2, f"{line}\n".encode("utf-8", "backslashreplace"))


def start_or_run(thread: threading.Thread) -> None:
    """Start ``thread``; where none can start, do its work here."""
    try:
        thread.start()
    except RuntimeError:  # No thread can start. Then a signal cannot cut this short.
        thread.run()


def write_sentinel(run: Run, ended: ChildExit, program: str, summary: OutputSummary, text: str | None = None) -> None:
    """Write how the command ended. ``text`` is that of ``_error``, if another one than its exit and its output say."""
    if text is None and ended.succeeded and run.stop_wanted is not None and not run.is_done:
        written = run.left_early()
    elif text is None and ended.succeeded:
        written = run.complete()
    else:
        said = sentinel_text(ended, program, summary.error, summary.tail) if text is None else text
        written = run.fail(said) if run.stopped is None else run.cancel(f"KeyboardInterrupt ({run.stopped}); {said}")
    if not written:
        log.warning("lastbeat could not write how %s ended, and gives up", program)
