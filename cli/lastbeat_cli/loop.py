"""The loop of a watch: when the next pass is due, when the watch is over, and how the user stops it."""

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from lastbeat.model.outcome import Outcome
from lastbeat.stores.clock import next_due
from lastbeat.watch.decide.over import is_over, retry_in_s


class Stop:
    """Turns Ctrl-C and SIGTERM, or other ``signals``, into a request: the current pass finishes, a sleep ends at once.

    Python's own KeyboardInterrupt would get lost in a finalizer or a callback. A second signal ends the process, even
    if a pass hangs in a library.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, signals: Sequence[signal.Signals] = SIGNALS) -> None:
        self.asked = False
        self._signals = signals
        # A pipe, because the handler may interrupt the thread that holds the lock of a threading.Event.
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    def __enter__(self) -> "Stop":
        self._before = {number: signal.signal(number, self._caught) for number in self._signals}
        # Python runs handlers later, in the main thread. This byte from the C handler wakes the main thread from a
        # sleep that it is just about to begin, also if another thread received the signal.
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
        """Request a stop after the current pass."""
        if not self.asked:
            self.asked = True
            os.write(self._write, b".")

    def wait(self, seconds: float) -> bool:
        """Sleep for ``seconds``, or until a stop is requested. Returns whether it is."""
        until = time.monotonic() + seconds
        while not self.asked:
            left = until - time.monotonic()
            if left <= 0:
                return False
            if select.select([self._read], [], [], left)[0]:
                self.hear()
        return True

    def fileno(self) -> int:
        """The descriptor that becomes readable with a signal, for use in ``select``; then call :meth:`hear`."""
        return self._read

    def hear(self) -> None:
        """Read the bytes that signals wrote."""
        os.read(self._read, 512)


def follow(
    tick: Callable[[], Outcome],
    show: Callable[[Outcome], None],
    stop: Stop,
    interval_s: float,
    *,
    dry_run: bool = False,
) -> Outcome:
    """Make passes until the watch is over or the user stops it. ``show`` gets each outcome. Returns the last one."""
    due = time.monotonic()
    while True:
        outcome = tick()
        now = time.monotonic()
        due = next_due(due, now, interval_s)
        sooner = retry_in_s(outcome) if outcome.status.finished else None
        at = due if sooner is None else min(due, now + sooner)
        over = is_over(outcome, dry_run=dry_run) or stop.asked
        show(outcome)
        if over or stop.wait(at - time.monotonic()):
            return outcome
