"""The rhythm of a watch: when the next pass is due, when it is over, and how a person stops it."""

import math
import os
import select
import signal
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from types import TracebackType

from lastbeat.decide.logs import DOUBT_S
from lastbeat.model.outcome import Outcome
from lastbeat.model.status import Status
from lastbeat.stores.clock import steady


class Stop:
    """Ctrl-C and SIGTERM as a wish: the pass that is under way ends well, and a sleep ends at once.

    A second signal has its usual effect, also on a pass that hangs in a library: it ends the process.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.asked = False
        # A pipe and not a threading.Event, whose lock the handler could find held by the very thread it interrupts.
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    def __enter__(self) -> "Stop":
        self._before = {number: signal.signal(number, self._caught) for number in self.SIGNALS}
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
        for each in self.SIGNALS:
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
                os.read(self._read, 512)
        return True


def next_due(due: float, now: float, interval_s: float) -> float:
    """The next beat after ``now`` of the rhythm that has one at ``due``.

    Missed ones are left out, the time that a pass takes does not shift those after it, and neither does a
    pass between two beats.
    """
    return due + interval_s * max(0, math.floor((now - due) / interval_s) + 1)


def retry_in_s(outcome: Outcome) -> float | None:
    """Seconds from the pass until a waiting delivery may be tried again; None when none waits for a time."""
    alerts = outcome.record.outbox if outcome.record is not None else ()
    waits: list[datetime] = []
    for alert in alerts:
        for delivery in alert.deliveries.values():
            times = [at for at in (delivery.not_before, delivery.claimed_until) if at is not None]
            # What is due already, and was not sent, waits for something else.
            if not delivery.settled and times and max(times) > outcome.at:
                waits.append(max(times))
    return max(1.0, (min(waits) - outcome.at).total_seconds()) if waits else None


def is_over(outcome: Outcome, *, dry_run: bool) -> bool:
    """Whether a watch has nothing left to wait for: the run is finished and everybody was told."""
    # That a flapping run is TIMED_OUT is told only when it has been for an hour.
    told = outcome.recorded and outcome.pending == 0 and (outcome.record is None or not outcome.record.flapping_since)
    told = told and outcome.left_until is None
    return outcome.status.finished and (dry_run or told) and not _may_be_taken_back(outcome)


def _may_be_taken_back(outcome: Outcome) -> bool:
    """Whether a log alone says that the run has ended, which has beaten since: an error that it got over, perhaps."""
    record = outcome.record
    if record is None or record.finding is None or not record.finding.alone:
        return False
    if outcome.status not in {Status.FAILED, Status.CANCELLED}:
        return False
    seen_at = record.finding.seen_at
    beats = [memory.alive_at for memory in (record.metadata, record.progress) if memory is not None]
    lives = any(at is not None and at > seen_at for at in beats)
    return lives and (outcome.at - seen_at).total_seconds() < DOUBT_S


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
