"""The rhythm of a watch: when the next pass is due, when it is over, and how a person stops it."""

import math
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from types import TracebackType

from lastbeat.decide.over import is_over, retry_in_s
from lastbeat.model.outcome import Outcome
from lastbeat.stores.clock import steady


class Stop:
    """Ctrl-C and SIGTERM, or other ``signals``, as a wish: the pass that is under way ends well, and a sleep ends at
    once. Python loses the exception that a Ctrl-C is by itself where it comes in a finalizer or a callback.

    A second signal has its usual effect, also on a pass that hangs in a library: it ends the process.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, signals: Sequence[signal.Signals] = SIGNALS) -> None:
        self.asked = False
        self._signals = signals
        # A pipe and not a threading.Event, whose lock the handler could find held by the very thread it interrupts.
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    def __enter__(self) -> "Stop":
        self._before = {number: signal.signal(number, self._caught) for number in self._signals}
        # Python runs a handler in the main thread, when that next comes to it; what wakes it from a sleep that it was
        # just about to begin, or from a signal that another thread got, is this byte from the C handler.
        self._woken_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        signal.set_wakeup_fd(self._woken_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def _caught(self, *_: object) -> None:
        for each in self._signals:
            signal.signal(each, signal.SIG_DFL)
        self.ask()

    def ask(self) -> None:
        """Stop after the pass that is under way."""
        if not self.asked:
            self.asked = True
            os.write(self._write, b".")

    def wait(self, seconds: float) -> bool:
        """Sleep, or less when asked to stop; whether it was."""
        until = time.monotonic() + seconds
        while not self.asked:
            left = until - time.monotonic()
            if left <= 0:
                return False
            if select.select([self._read], [], [], left)[0]:
                self.hear()
        return True

    def fileno(self) -> int:
        """What becomes readable with a signal, for who waits for other things as well; then :meth:`hear` it."""
        return self._read

    def hear(self) -> None:
        """Take in that a signal came, whichever it was."""
        os.read(self._read, 512)


def next_due(due: float, now: float, interval_s: float) -> float:
    """The next beat after ``now`` of the rhythm that has one at ``due``.

    Missed ones are left out, the time that a pass takes does not shift those after it, and neither does a
    pass between two beats.
    """
    return due + interval_s * max(0, math.floor((now - due) / interval_s) + 1)


def follow(
    tick: Callable[[], Outcome],
    show: Callable[[Outcome, float | None], None],
    stop: Stop,
    interval_s: float,
    *,
    dry_run: bool = False,
) -> Outcome:
    """Make passes until the watch is over or somebody stops it; the last outcome.

    ``show`` gets each outcome and when the next pass is due, by ``time.monotonic()``; None after the last.
    """
    due = time.monotonic()
    while True:
        outcome = tick()
        now = time.monotonic()
        due = next_due(due, now, interval_s)
        sooner = retry_in_s(outcome) if outcome.status.finished else None
        at = due if sooner is None else min(due, now + sooner)
        over = is_over(outcome, dry_run=dry_run) or stop.asked
        show(outcome, None if over else at)
        if over or stop.wait(at - time.monotonic()):
            return outcome


def steady_clock() -> Callable[[], datetime]:
    """This host's time as it was at the start, carried on by a clock that nobody sets: a jump is no blindness."""
    began, at = datetime.now(timezone.utc), steady()
    return lambda: began + timedelta(seconds=steady() - at)
