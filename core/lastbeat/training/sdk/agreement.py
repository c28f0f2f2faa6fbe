"""Stops all ranks of a run at the same step once one of them has a request to stop.

The ranks agree by torch.distributed if that is in use; this module never imports torch. Otherwise rank 0 announces the
call::

    rank 0    must stop ── chooses call 250 ── metadata.json: stop_call 250 ····· its call 250: stops
    rank 1    ······················· its beat thread reads metadata.json ······· its call 250: stops

Rank 0 chooses a call that lies so far ahead that every rank has read it by then, at the fastest pace lately. The choice
never changes. No rank ever waits: one that reads of the call too late stops at once, and logs that.
"""

import logging
import math
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from lastbeat.training.sdk.safe_log import safe_log

if TYPE_CHECKING:
    from lastbeat.training.sdk.first_error import RankZeroState
    from lastbeat.training.sdk.run import Run


POLL_S: Final = 5.0
"""Time in s between two reads of metadata.json by a rank other than 0."""
_POLL_LIMIT_S: Final = 8.0
"""Longest time in s between two reads, however many ranks there are."""
_READS_PER_S: Final = 200
"""Most reads per second by all ranks together, as far as :data:`_POLL_LIMIT_S` allows."""
DELIVERY_S: Final = 3.0
"""Time in s that the store may take to write the announcement, and to let a rank read it."""
_SPEED_UP: Final = 1.5
"""Factor by which steps may become faster after the choice."""
_WINDOW_S: Final = 1.0
"""Shortest window in s that yields a reliable pace."""
_MIN_WINDOWS: Final = 4
"""Fewest windows that yield a pace. The first ones include compilation, and later ones are many times as fast."""
_RECENT_WINDOWS: Final = 12
PATIENCE_S: Final = 10.0
"""Longest time in s that rank 0 waits for its pace before it chooses by what it knows."""
ALONE_S: Final = 20.0
"""A rank that will be ended soon stops alone if it reads of no call within this time in s."""


class Pace:
    """Calls per second of training, at its fastest lately. Training that evaluates or saves makes no calls, and its
    pace afterwards is what counts."""

    def __init__(self) -> None:
        self.due = 1
        """The number of calls at which to sample again."""
        self._last: tuple[float, int] | None = None
        self._windows: deque[float] = deque(maxlen=_RECENT_WINDOWS)

    def sample(self, now: float, calls: int) -> None:
        """Note that training made ``calls`` calls until ``now``, by the monotonic clock."""
        if self._last is None:
            self._last, self.due = (now, calls), calls + 1
            return
        window_s, made = now - self._last[0], calls - self._last[1]
        if window_s < _WINDOW_S:
            # Sample again when the window is full at this pace, or after twice the calls where the clock stands still.
            missing = made * (_WINDOW_S / window_s - 1.0) if window_s > 0.0 else made
            self.due = calls + max(1, math.ceil(min(missing, made)))
            return
        per_s = made / window_s
        self._windows.append(per_s)
        self._last, self.due = (now, calls), calls + max(1, int(per_s * _WINDOW_S))

    @property
    def is_known(self) -> bool:
        """Whether enough windows are known."""
        return len(self._windows) >= _MIN_WINDOWS

    @property
    def per_s(self) -> float:
        """Calls per second, as far as known."""
        return max(self._windows, default=0.0)


class StopAnnouncement:
    """One rank's side. :meth:`ask` belongs to training's thread, :meth:`follow` and :meth:`fields` to the beat thread.

    ``poll_s`` is the time in s between two reads of a rank other than 0.
    """

    def __init__(self, run: "Run", clock: Callable[[], float] = time.monotonic) -> None:
        self.poll_s = min(_POLL_LIMIT_S, max(POLL_S, run.world / _READS_PER_S))
        self.calls = 0
        """Number of calls of :meth:`ask`."""
        self.at: int | None = None
        """The call at which this rank stops."""
        self.why = ""
        """Why all ranks stop, once a call is announced."""
        self._run = run
        self._clock = clock
        self._pace = Pace()
        self._asked_since: float | None = None
        """When this rank first got a request to stop."""
        self._ends_since: float | None = None
        """When this rank first got a request from something that will end it soon."""

    def ask(self, *, here: bool) -> bool:
        """Whether this rank stops now. ``here`` says that it has a request to stop. Never waits, never raises."""
        self.calls = calls = self.calls + 1
        if calls >= self._pace.due:
            self._pace.sample(self._clock(), calls)
        if here and self.at is None:
            self._choose(calls)
        at = self.at
        return at is not None and calls >= at

    def _choose(self, calls: int) -> None:
        """Choose the call on rank 0. Let another rank that will be ended soon stop alone after :data:`ALONE_S`."""
        now = self._clock()
        if self._asked_since is None:
            self._asked_since = now
        if self._run.leads:
            if self._pace.is_known or now - self._asked_since >= PATIENCE_S:
                ahead_s = self.poll_s + DELIVERY_S
                self.why = self._run.stop_wanted or ""
                self.at = calls + 1 + math.ceil(self._pace.per_s * _SPEED_UP * ahead_s)
                self._run.beat_now()
                self._log_step(self.at - calls)
            return
        if self._ends_since is None and self._run.ends_soon:
            self._ends_since = now
        if self._ends_since is not None and now - self._ends_since >= ALONE_S:
            self.why = self._run.stop_wanted or ""
            what = "rank 0 announced no stop to this rank within %.0f s: this rank stops alone"
            safe_log(logging.WARNING, what, now - self._ends_since)
            self.at = calls

    def follow(self, rank_zero: "RankZeroState") -> None:
        """Adopt the call that rank 0 has announced, if any."""
        at = rank_zero.stop_call
        if self.at is not None or at is None:
            return
        ahead = at - self.calls
        self.why = f"rank 0 was told to stop{rank_zero.stop_reason and ': '}{rank_zero.stop_reason}"
        self.at = at
        if ahead > 0:
            self._log_step(ahead)
        else:
            what = "all ranks were to stop %d steps ago; this rank reads that only now, and stops: %s"
            safe_log(logging.WARNING, what, -ahead, self.why)

    def _log_step(self, ahead: int) -> None:
        what = "all %d ranks stop at the same step, %d from here: %s"
        safe_log(logging.WARNING, what, self._run.world, ahead, self.why)

    def fields(self) -> dict[str, Any]:
        """The announcement in metadata.json; empty before a call is chosen."""
        return {} if self.at is None else {"stop_call": self.at, "stop_reason": self.why}


class StopAgreement:
    """One rank's side of the agreement. Every rank has to call :meth:`ask` equally often, as for any collective.

    With torch.distributed, one call in ``every`` is an all-reduce of one number; the others return at once. So once any
    rank has raised its flag, the same call returns True on all of them. Without torch.distributed rank 0 of ``run``
    announces the call. ``run`` is None if this process is alone.
    """

    def __init__(self, every: int = 1, run: "Run | None" = None) -> None:
        self._every = max(1, every)
        self._asked = 0
        self._agreed = False
        self._run = run
        self._announcement: StopAnnouncement | None = None

    @property
    def why(self) -> str:
        """Why all ranks stop."""
        return (self._announcement.why if self._announcement is not None else "") or "another rank was told to stop"

    def ask(self, *, here: bool) -> bool:
        """Whether all ranks stop now. ``here`` says that this rank has a request to stop; a rank that is alone follows
        it at once. Raises what the all-reduce raises when a peer has died."""
        dist = in_use()
        if dist is None:
            if self._run is not None and self._announcement is None:
                self._announcement = self._run.announcement = StopAnnouncement(self._run)
                # The beat thread looks for the announcement from now on.
                self._run.beat_now()
            return here if self._announcement is None else self._announcement.ask(here=here)
        if self._run is not None:
            # torch.distributed may not have been initialised at the first call.
            self._announcement = self._run.announcement = None
            self._run = None
        self._asked += 1
        if not self._agreed and (self._asked - 1) % self._every == 0:
            torch = sys.modules["torch"]
            flag = torch.tensor([int(here)], dtype=torch.int32, device=device_for(torch, str(dist.get_backend())))
            dist.all_reduce(flag, op=dist.ReduceOp.MAX)
            self._agreed = bool(flag.item())
        return self._agreed


def device_for(torch: Any, backend: str) -> Any:
    """The device on which a backend reduces: the CPU for gloo, this rank's device for NCCL and the like."""
    if "gloo" in backend:
        return "cpu"
    if torch.cuda.is_available():
        return f"cuda:{torch.cuda.current_device()}"
    # PyTorch before 2.6 has no such module.
    accelerator = getattr(torch, "accelerator", None)
    return accelerator.current_accelerator() if accelerator is not None and accelerator.is_available() else "cpu"


def in_use() -> Any:
    """The module torch.distributed if it connects several ranks, or None."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized() or dist.get_world_size() < 2:
        return None
    return dist
