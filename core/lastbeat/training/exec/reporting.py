"""How ``lastbeat exec`` reports a command: heartbeats, progress from its output, and its exit."""

import codecs
import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from lastbeat.settings import Settings
from lastbeat.settings.table import EXIT_SIGNAL
from lastbeat.training import features, sdk
from lastbeat.training.exec.child.exit_reason import ChildExit, sentinel_text
from lastbeat.training.exec.child.output_summary import OutputSummary
from lastbeat.training.node.resources import ResourceMeter, send_to_tree, tree_of
from lastbeat.training.sdk.beat_tasks import RunEnvironment, RunSharing
from lastbeat.training.sdk.capture import Capture
from lastbeat.training.sdk.log_shipping import CaptureFeed, LogShipping
from lastbeat.training.sdk.reporter import Reporter
from lastbeat.training.sdk.run import Run

log = logging.getLogger(__name__)


class _CommandRun(RunSharing):
    """The run of a command that may report itself, as soon as it is started."""

    def __init__(self, meter: ResourceMeter) -> None:
        self._meter = meter

    @property
    def wraps(self) -> bool:
        return self._meter.root is not None


def as_it_is(environment: RunEnvironment) -> RunEnvironment:
    """``environment`` unchanged."""
    return environment


def reporter(
    settings: Settings,
    printed: Capture,
    summary: OutputSummary,
    meter: ResourceMeter,
    adapt: Callable[[RunEnvironment], RunEnvironment] = as_it_is,
    dumps: str | None = None,
) -> Reporter:
    """The reporter of the command that ``meter`` measures. ``adapt`` makes the last changes to its environment.
    ``dumps`` is the folder for the dumps of its flight recorders."""

    def prepare() -> RunEnvironment:
        # In the beat thread: connecting must not delay the command.
        command = features.CommandAccess(meter, dump, summary.count, partial(_send, meter))
        environment = features.run_environment(settings, options=features.RunOptions(command=command))
        return adapt(replace(environment, sharing=_CommandRun(meter)))

    def dump(head: str) -> bytes:
        from lastbeat.training.exec.child.waiting import dump_waiting  # noqa: PLC0415 - only for a command that hangs

        root = meter.root
        return dump_waiting(root, tree_of(root), head) if root is not None else head.encode()

    recorder = [sdk.flight_recorder.FlightDumps(dumps)] if dumps is not None else []
    return Reporter(prepare, [*recorder, LogShipping(CaptureFeed(printed))])


def ask_child(settings: Settings, meter: ResourceMeter) -> None:
    """Ask the command to save and exit. Its worker processes must live until it has saved."""
    _send(meter, settings[EXIT_SIGNAL] or signal.SIGTERM, forks=False)


def _send(meter: ResourceMeter, number: int, *, forks: bool = True) -> None:
    if meter.root is not None:
        send_to_tree(meter.root, number, forks=forks)


def on_output(run: Run, summary: OutputSummary, printed: Capture) -> Callable[[int, bytes], None]:
    """A function that takes each chunk of output: captures it, and reads the run's progress from it."""
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


def start_or_run(thread: threading.Thread) -> None:
    """Start ``thread``. If no thread can start, do its work in this one."""
    try:
        thread.start()
    except RuntimeError:  # A signal cannot interrupt the work then.
        thread.run()


def write_sentinel(run: Run, ended: ChildExit, program: str, summary: OutputSummary, text: str | None = None) -> None:
    """Write how the command ended. ``text`` replaces the text of ``_error`` made from its exit and output."""
    if text is None and ended.succeeded and run.stop_wanted is not None and not run.is_done:
        written = run.left_early()
    elif text is None and ended.succeeded:
        written = run.complete()
    else:
        said = sentinel_text(ended, program, summary.error, summary.tail) if text is None else text
        written = run.fail(said) if run.stopped is None else run.cancel(f"KeyboardInterrupt ({run.stopped}); {said}")
    if not written:
        log.warning("lastbeat could not write how %s ended, and gives up", program)
