"""One start of the command that ``lastbeat exec`` runs, reported as a run: heartbeats, progress from its output, and
its exit."""

import codecs
import logging
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lastbeat.settings import Settings
from lastbeat.settings.table import EXIT_SIGNAL
from lastbeat.training import features, sdk
from lastbeat.training.exec.child.exit_reason import ChildExit, sentinel_text
from lastbeat.training.exec.child.output_summary import OutputSummary
from lastbeat.training.exec.child.process import ChildProcess
from lastbeat.training.exec.tensorboard import TensorBoardLogs
from lastbeat.training.node.resources import ResourceMeter, send_to_tree, tree_of
from lastbeat.training.sdk.beat_tasks import RunEnvironment, RunSharing
from lastbeat.training.sdk.capture import Capture
from lastbeat.training.sdk.log_shipping import CaptureFeed, LogShipping
from lastbeat.training.sdk.reporter import Reporter
from lastbeat.training.sdk.run import Run

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WrappedCommand:
    """A command and its run."""

    command: Sequence[str]
    streams: Sequence[int]
    """Its standard input, output and error, as descriptors of this process."""
    name: str
    """The run's id."""
    phase: str
    steps: int | None
    """How many steps it will take; None if unknown."""
    dumps: str | None = None
    """The folder for the dumps of its flight recorders; None if lastbeat has nothing to do with them."""
    tensorboard: str | None = None
    """The folder with TensorBoard's logs of it, if its progress is read from there."""

    @property
    def program(self) -> str:
        """The name of its program, for display."""
        return os.path.basename(self.command[0])  # noqa: PTH119 - a name as typed, which need be no path


class _CommandRun(RunSharing):
    """The run of a command that may report itself, as soon as it is started."""

    def __init__(self, meter: ResourceMeter) -> None:
        self._meter = meter

    @property
    def wraps(self) -> bool:
        return self._meter.root is not None


class CommandStart:
    """One start of a command, reported from now on unless ``settings`` is None. The features of its run reach the
    command through it."""

    child: ChildProcess

    def __init__(self, wrapped: WrappedCommand, settings: Settings | None) -> None:
        self._wrapped = wrapped
        self.summary, self._captured, self.meter = OutputSummary(), Capture(), ResourceMeter(wraps=True)
        self._decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in (1, 2)}
        self.reporter: Reporter | None = None
        folder = wrapped.tensorboard
        self._logs = TensorBoardLogs(folder, self.summary.progress) if folder is not None else None
        if settings is not None:
            recorder = [sdk.flight_recorder.FlightDumps(wrapped.dumps)] if wrapped.dumps is not None else []
            logged = [self._logs] if self._logs is not None else []
            tasks = [*recorder, *logged, LogShipping(CaptureFeed(self._captured))]
            # In the beat thread, because connecting must not delay the command.
            self.reporter = Reporter(lambda: self.environment(settings), tasks)
        self.run = Run(wrapped.name, self.reporter, wrapped.steps)
        self.run.set_phase(wrapped.phase)
        if settings is not None:
            number = settings[EXIT_SIGNAL] or signal.SIGTERM
            # Its worker processes must live until it has saved.
            self.run.on_stop, self.run.heeds_stop = lambda: self.send(number, forks=False), True

    def environment(self, settings: Settings) -> RunEnvironment:
        """What the command is reported to, and with which features. May raise."""
        environment = features.run_environment(settings, features.FeatureOptions(command=self))
        return replace(environment, sharing=_CommandRun(self.meter))

    def take(self, stream: int, chunk: bytes) -> None:
        """Capture a chunk of output, and read the run's progress from it unless TensorBoard's logs show that."""
        self._captured.add(self._decoders[stream].decode(chunk))
        if self.summary.add(stream, chunk) and self._logs is None:
            progress = self.summary.progress
            if self._wrapped.steps is None:
                self.run.total_steps = progress.total_steps
            self.run.step(progress.step, loss=progress.loss, learning_rate=progress.learning_rate, epoch=progress.epoch)

    def printed(self) -> int:
        """Number of bytes that the command has printed."""
        return self.summary.count()

    def dump(self, head: str) -> bytes:
        """Where its processes wait, below the line ``head``."""
        from lastbeat.training.exec.child.waiting import dump_waiting  # noqa: PLC0415 - only for a command that hangs

        root = self.meter.root
        return dump_waiting(root, tree_of(root), head) if root is not None else head.encode()

    def send(self, number: int, *, forks: bool = True) -> None:
        """Send a signal to its processes; without ``forks`` not to its workers."""
        if self.meter.root is not None:
            send_to_tree(self.meter.root, number, forks=forks)

    def write_sentinel(self, ended: ChildExit, text: str | None = None) -> None:
        """Write how the command ended. ``text`` replaces the text of ``_error`` made from its exit and output."""
        run, summary, program = self.run, self.summary, self._wrapped.program
        if text is None and ended.succeeded and run.stop_wanted is not None and not run.is_done:
            written = run.left_early()
        elif text is None and ended.succeeded:
            written = run.complete()
        else:
            said = sentinel_text(ended, program, summary.error, summary.tail) if text is None else text
            stopped = run.stopped
            written = run.fail(said) if stopped is None else run.cancel(f"KeyboardInterrupt ({stopped}); {said}")
        if not written:
            log.warning("lastbeat could not write how %s ended, and gives up", program)
