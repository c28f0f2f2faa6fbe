"""The handle that training holds. Its methods only set attributes; a thread of its own does the rest."""

import logging
import os
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import time
from types import TracebackType
from typing import Protocol

from lastbeat.sdk.values import text, whole

log = logging.getLogger("lastbeat")

CANCELLED = "Cancelled: "
"""How the text of an ``_error`` begins that is no crash."""
TEXT_LIMIT = 200_000
"""Characters of a sentinel, at most."""
PHASES = 60
"""So many changes of phase are kept."""
STARTING = "starting"
"""The phase of a run until its first step, or until training names another."""
END_WAIT_S = 15.0
"""How long the end of a run waits for its sentinel to be written, at most."""


class Reports(Protocol):
    """What writes for a run; see :class:`lastbeat.sdk.reporter.Reporter`."""

    def start(self, run: "Run") -> None:
        """Begin to beat."""
        ...

    def finish(self, wait_s: float) -> bool:
        """Write what is left; whether it was written within ``wait_s``."""
        ...


class Run:
    """One run as training sees it. Nothing here raises into training, waits for the store or reads a tensor.

    ``run.step(...)`` and ``run.phase(...)`` replace one attribute each; the beat thread reads them when it beats.
    """

    def __init__(self, run_id: str, reports: Reports | None, total_steps: int | None = None) -> None:
        self.run_id = run_id
        self.total_steps = total_steps
        self.latest: tuple[object, object, object, object, dict[str, object]] | None = None
        """step, loss, learning rate, epoch, metrics, as training gave them; untouched, for they may be tensors."""
        self.steps = 0
        """How often ``step`` was called, raised after ``latest`` was set."""
        self.tokens = 0
        self.phase_now: tuple[str, str | None] = (STARTING, None)
        self.phases: deque[tuple[float, object]] = deque([(time(), STARTING)], PHASES)
        """Unix time and name of the latest changes of phase, oldest first."""
        self.ending: tuple[str, str] | None = None
        """Sentinel to write and its text, once the run is over."""
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
        thread, and only those of the step at which it beats. ``tokens`` (or samples) are those of this step.
        """
        self.latest = (step, loss, learning_rate, epoch, metrics)
        self.steps += 1
        if self.phase_now[0] is STARTING:
            self.set_phase("training")
        if type(tokens) is int:
            self.tokens += tokens
        else:
            self._count(tokens)

    def _count(self, tokens: object) -> None:
        # A tensor would have to be waited for; numpy's numbers are at hand.
        if type(tokens).__module__ == "numpy":
            self.tokens += whole(tokens) or 0

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

    def complete(self, note: str = "", *, wait_s: float = END_WAIT_S) -> bool:
        """End the run as succeeded: write ``_complete``. Whether that was written within ``wait_s``."""
        return self._end("_complete", describe(note), wait_s)

    def fail(self, error: BaseException | str, *, wait_s: float = END_WAIT_S) -> bool:
        """End the run as failed: write ``_error`` with the message, then the stack trace with its causes.

        Whether that was written within ``wait_s``; if not, it is tried for as long as the process lives.
        """
        return self._end("_error", describe(error), wait_s)

    def cancel(self, why: str, *, wait_s: float = END_WAIT_S) -> bool:
        """End the run as cancelled by somebody: an ``_error`` that says so, and is no crash."""
        return self._end("_error", f"{CANCELLED}{why}", wait_s)

    def end_with(self, error: BaseException | None) -> None:
        """End the run as its block or its process ends: with this exception, or with none."""
        if error is None:
            self.complete()
        elif isinstance(error, SystemExit):
            if went_well(error.code):
                self.complete()
            else:
                self.fail(f"SystemExit: training exited with {text(error.code)!r}")
        elif isinstance(error, KeyboardInterrupt):
            self.cancel("KeyboardInterrupt (Ctrl-C)")
        else:
            self.fail(error)

    @property
    def ended(self) -> bool:
        return self.ending is not None

    def __enter__(self) -> "Run":
        if self.phase_now[0] is STARTING:
            self.set_phase("training")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_with(error)

    def _end(self, sentinel: str, body: str, wait_s: float) -> bool:
        if self._reports is None or os.getpid() != self._process:
            # Watching is off, or this is a forked child: a DataLoader worker's end is not the run's.
            return False
        if self.ending is None:
            self.ending = (sentinel, body)
        return self._reports.finish(wait_s)


def went_well(code: object) -> bool:
    """Whether the argument of ``sys.exit`` means success."""
    return code is None or (isinstance(code, int) and code == 0)


def describe(error: BaseException | str) -> str:
    """The text of ``_error``: the message in the first line, then the trace with chained causes. Never raises."""
    if isinstance(error, str):
        return _bounded(error)
    try:
        message = "".join(traceback.format_exception_only(type(error), error)).rstrip()
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception as broken:  # noqa: BLE001 - an exception whose __str__ raises is still one to report
        return f"{type(error).__name__} (its text could not be made: {type(broken).__name__})"
    # The first line of _error is what people read. A SyntaxError's message begins with the source, which is indented.
    first = next((line for line in message.splitlines() if line and not line[0].isspace()), type(error).__name__)
    return _bounded(f"{first[: TEXT_LIMIT // 4]}\n\n{trace}")


def _bounded(whole_text: str) -> str:
    """Both ends of a text that is too long: the message stands first, what raised stands last."""
    if len(whole_text) <= TEXT_LIMIT:
        return whole_text
    half = TEXT_LIMIT // 2
    return f"{whole_text[:half]}\n… {len(whole_text) - 2 * half} characters left out …\n{whole_text[-half:]}"
