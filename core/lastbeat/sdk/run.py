"""The handle that training holds. Its methods only set attributes; a thread of its own does the rest."""

import logging
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from lastbeat.sdk.aside import once
from lastbeat.sdk.describing import describe, described_shortly
from lastbeat.sdk.recent import Between
from lastbeat.sdk.saying import say
from lastbeat.sdk.values import counted, seconds, type_name

if TYPE_CHECKING:
    from lastbeat.sdk.threads import ThreadError

CANCELLED = "Cancelled: "
"""How the text of an ``_error`` begins that is no crash."""
PHASES = 60
"""So many changes of phase are kept."""
STARTING = "starting"
"""The phase of a run until its first step, or until training names another."""
END_WAIT_S = 15.0
"""How long the end of a run waits for its sentinel to be written, in all, unless its caller says how long."""
_LOOK_S = 1.0


class Reports(Protocol):
    """What writes for a run; see :class:`lastbeat.sdk.reporter.Reporter`."""

    def start(self, run: "Run") -> None:
        """Begin to beat."""
        ...

    def finish(self, until: float) -> bool:
        """Write what is left; whether it was written before ``until``, by the monotonic clock."""
        ...

    def soon(self) -> None:
        """Beat now: there is something to tell."""
        ...

    @property
    def writing(self) -> bool:
        """Whether something is left and may still be written."""
        ...


class Run:
    """One run as training sees it. Nothing here raises into training, waits for the store or reads a tensor.

    ``run.step(...)`` and ``run.phase(...)`` replace one attribute each; the beat thread reads them when it beats.
    """

    def __init__(self, run_id: str, reports: Reports | None, total_steps: object = None) -> None:
        self.run_id = run_id
        self.total_steps = total_steps
        """As training gave it, as all else is."""
        self.latest: tuple[object, object, object, object, dict[str, object]] | None = None
        """step, loss, learning rate, epoch, metrics, as training gave them; untouched, for they may be tensors."""
        self.between = Between()
        """The steps since the last beat, whose thread takes it away then and leaves another."""
        self.steps = 0
        """How often ``step`` was called, raised after ``latest`` was set."""
        self.tokens = 0
        self.uncounted: str | None = None
        """What tokens were given as, where they could not be counted."""
        self.phase_now: tuple[str, str | None] = (STARTING, None)
        self.phases: deque[tuple[float, object]] = deque([(time(), STARTING)], PHASES)
        """Unix time and name of the latest changes of phase, oldest first."""
        self.ending: tuple[str, str] | None = None
        """Sentinel to write and its text, once the run is over."""
        self.thread_error: ThreadError | None = None
        """The first exception that ended one of training's threads."""
        self.until: float | None = None
        """Until when its end is waited for, by the monotonic clock: one wait in all, however often it is ended."""
        self._reports = reports
        self._process = os.getpid()
        if reports is not None:
            reports.start(self)

    def step(
        self,
        step: object,
        *,
        loss: object = None,
        learning_rate: object = None,
        tokens: int = 0,
        epoch: object = None,
        **metrics: object,
    ) -> None:
        """Say how far training is. Costs well under a microsecond.

        Numbers may be Python's, numpy's or tensors; they are read, and so synchronised with their device, by the beat
        thread, and only those of the step at which it beats. Of the steps between two beats the curve has those losses
        that are Python's own floats, and the latest metrics of each kind. ``tokens`` (or samples) are those of this
        step; being added up they are read at once, and a tensor, which would have to be waited for, is not.
        """
        self.latest = (step, loss, learning_rate, epoch, metrics)
        self.steps += 1
        self.between.add(step, loss, learning_rate, metrics)
        if self.phase_now[0] is STARTING:
            self.set_phase("training")
        if type(tokens) is int:
            self.tokens += tokens
        else:
            self._count(tokens)

    def _count(self, tokens: object) -> None:
        found = counted(tokens)
        if found is None:
            self.uncounted = type_name(tokens)
        else:
            self.tokens += found

    @contextmanager
    def phase(self, name: str, detail: str | None = None) -> Iterator[None]:
        """Name what training is doing; the phase before comes back with the end of the block."""
        before = self.phase_now
        self.set_phase(name, detail)
        try:
            yield
        finally:
            self.set_phase(*before)

    def set_phase(self, name: str, detail: str | None = None) -> None:
        """Name what training is doing from now on."""
        # Not by what they say: nobody knows what training gives us, and what comparing it would do.
        if name is not self.phase_now[0]:
            self.phases.append((time(), name))
        self.phase_now = (name, detail)

    def complete(self, note: object = "", *, wait_s: float | None = None) -> bool:
        """End the run as succeeded: write ``_complete``. Whether that was written within ``wait_s``.

        By default the end of a run is waited for 15 s in all, however often it is ended.
        """
        return self._end("_complete", lambda: self._completed(note), wait_s)

    def _completed(self, note: object) -> str:
        error = self.thread_error
        if error is None:
            return describe(note)
        what = "a thread of this training ended with an exception (%s); the process ends well, and so the run succeeds"
        say(logging.WARNING, what, error.line)
        return f"{describe(note)}\n\n{error.text}".lstrip()

    def fail(self, error: object, *, wait_s: float | None = None) -> bool:
        """End the run as failed: write ``_error`` with the message, then the stack trace with its causes.

        Whether that was written within ``wait_s``, see :meth:`complete`; if not, it is tried for as long as the process
        lives.
        """
        return self._end("_error", lambda: describe(error), wait_s)

    def fail_unexplained(self, message: str, *, wait_s: float | None = None) -> bool:
        """:meth:`fail` where nobody says why: what ended a thread before may be the reason."""
        error = self.thread_error
        return self._end("_error", lambda: f"{message}\n\n{error.text}" if error is not None else message, wait_s)

    def cancel(self, why: object, *, wait_s: float | None = None) -> bool:
        """End the run as cancelled by somebody: an ``_error`` that says so, and is no crash."""
        return self._end("_error", lambda: f"{CANCELLED}{describe(why)}", wait_s)

    def end_with(self, error: BaseException | None, *, wait_s: float | None = None) -> bool:
        """End the run as its block or its process ends: with this exception, or with none."""
        if error is None:
            return self.complete(wait_s=wait_s)
        if issubclass(type(error), SystemExit):
            code = exit_code(error)
            if went_well(code):
                return self.complete(wait_s=wait_s)
            said = f"SystemExit: training exited with {described_shortly(code)!r}"
            return self.fail_unexplained(said, wait_s=wait_s)
        if issubclass(type(error), KeyboardInterrupt):
            return self.cancel("KeyboardInterrupt (Ctrl-C)", wait_s=wait_s)
        return self.fail(error, wait_s=wait_s)

    def thread_died(self, error: "ThreadError") -> None:
        """An exception has ended a thread of training. The first one is told, and at once: it may be the last word."""
        if self.thread_error is None and not self.ended and self._reports is not None:
            self.thread_error = error
            self._reports.soon()

    @property
    def ended(self) -> bool:
        return self.ending is not None

    @property
    def waits(self) -> bool:
        """Whether its end is said, not yet written, and may still be."""
        return self.ended and self._reports is not None and self._reports.writing

    def __enter__(self) -> "Run":
        if self.phase_now[0] is STARTING:
            self.set_phase("training")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_with(error)

    def _end(self, sentinel: str, text: Callable[[], str], wait_s: object) -> bool:
        if self._reports is None or os.getpid() != self._process:
            # Watching is off, or this is a forked child: a DataLoader worker's end is not the run's.
            return False
        if self.ending is None:
            body = text()
            # A signal may have ended it meanwhile.
            self.ending = self.ending or (sentinel, body)
        if wait_s is not None:
            return self._reports.finish(monotonic() + seconds(wait_s, END_WAIT_S))
        if self.until is None:
            self.until = monotonic() + END_WAIT_S
        return self._reports.finish(self.until)


def exit_code(error: BaseException) -> object:
    """What a SystemExit exits with."""
    if type(error) is SystemExit:
        return error.code
    return once(lambda: getattr(error, "code", None), _LOOK_S, None)


def went_well(code: object) -> bool:
    """Whether the argument of ``sys.exit`` means success."""
    return code is None or (issubclass(type(code), int) and int.__int__(code) == 0)  # type: ignore[arg-type]
