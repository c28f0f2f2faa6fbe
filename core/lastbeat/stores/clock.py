"""Clocks. The store's time is measured rarely and carried forward by a clock that cannot be set.

measured            now                     measured again
───┬────────────────┬───────────────────────┬──────────────►
   store's time     + what CLOCK_BOOTTIME    kept when it agrees to within 2 s,
                      says has passed        so that ages do not jump about
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

_log = logging.getLogger(__name__)

MEASURE_EVERY_S = 3600.0
"""Time in s between two measurements."""
TRY_AGAIN_S = 300.0
"""Time in s to the next measurement after a failed one."""
AGREES_S = 2.0
"""Smallest difference in s that counts. An HTTP ``Date`` counts whole seconds, and a request takes a moment."""

# Unlike the monotonic clock it advances while the machine sleeps. Only Linux has it.
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def steady() -> float:
    """Seconds since a fixed instant, by a clock that no time service or user sets."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


def steady_clock() -> Callable[[], datetime]:
    """A clock that starts at this host's time and then advances monotonically, so that jumps cause no blindness."""
    began, at = datetime.now(timezone.utc), steady()
    return lambda: began + timedelta(seconds=steady() - at)


def next_due(due: float, now: float, interval_s: float) -> float:
    """The first time after ``now`` that is a whole number of intervals from ``due``.

    Missed times are skipped. Neither the duration of a pass nor an extra pass shifts later times.
    """
    return due + interval_s * max(0, math.floor((now - due) / interval_s) + 1)


class StoreClock:
    """Calling it gives the store's time now; it never raises.

    ``measure`` returns the store's time in seconds since the epoch, with an error of up to half its duration, or None
    if it is unknown. This machine's clock then serves instead. That is logged once, at ``level``, and only after
    :meth:`answered`, because an unreachable store has to be reported first.
    """

    def __init__(
        self,
        measure: Callable[[], float | None],
        name: str,
        *,
        level: int = logging.WARNING,
        local: Callable[[], float] = time.time,
        steady: Callable[[], float] = steady,
    ) -> None:
        self._measure = measure
        self._name = name
        self._level = level
        self._local = local
        self._steady = steady
        self._lock = threading.Lock()
        self._base: tuple[float, float] | None = None
        """Store time, and the steady clock at that instant."""
        self._next = 0.0
        self._has_answered = False
        self._is_silent = False
        self._warned = False

    def __call__(self) -> datetime:
        with self._lock:
            if self._base is None or self._steady() >= self._next:
                self._base = self._measured()
            return datetime.fromtimestamp(self._carried(self._base), tz=timezone.utc)

    def answered(self) -> None:
        """Note that the store has answered a request, so that a missing clock is a separate fault."""
        if self._has_answered:
            return
        with self._lock:
            self._has_answered = True
            self._warn()

    def _measured(self) -> tuple[float, float]:
        asked = self._steady()
        store_time = self._measure()
        expected = self._local() if self._base is None else self._carried(self._base)
        at = self._steady()
        self._next = at + (TRY_AGAIN_S if store_time is None else MEASURE_EVERY_S)
        self._is_silent = store_time is None
        if store_time is None:
            self._warn()
            return expected, at
        took_s = at - asked
        if abs(store_time - expected) < AGREES_S + took_s / 2:
            return expected, at
        # One odd answer (a broken proxy, a cached header) must not time out every run, so a second one has to agree.
        again = self._measure()
        then = self._steady()
        doubt_s = AGREES_S + (then - asked) / 2
        if again is None or abs(again - store_time - (then - at)) > doubt_s:
            self._next = at + TRY_AGAIN_S
            _log.warning("%s tells two different times; ages are measured by this machine's clock", self._name)
            return expected, at
        _log.info("the clock of %s is %+.0f s from ours, and counts", self._name, store_time - self._local())
        return (store_time, at) if took_s <= then - at else (again, then)

    def _warn(self) -> None:
        if self._is_silent and self._has_answered and not self._warned:
            self._warned = True
            _log.log(self._level, "%s does not tell its time; ages are measured by this machine's clock", self._name)

    def _carried(self, base: tuple[float, float]) -> float:
        store_time, at = base
        return store_time + (self._steady() - at)
