"""When was a heartbeat last alive, if neither its clock nor the rewriting of its file can be trusted alone?

A heartbeat is as old as its file by the store's clock (``LastModified``), or as its document's own time says if that is
older: a copy or a sync tool that stores an old document again is no life. But the instance's clock may be off.

    the document's own time, at the first look            is believed
    ──────────────────────────────────────────            ───────────
    in step with its file, or ahead of it                 the file; a clock that is ahead is fast
    behind, and the offset of its clock is known          brought to the store's clock by that offset
    behind, and it names its zone                         as it is: stale if it says so
    behind by whole quarter hours, without a zone         not yet: it looks like local time
    behind otherwise, without a zone                      as it is, in UTC

Whatever was believed, the next look knows more: if the document's time advanced, its clock is off by that much, and the
offset is learned; if only the file was written again, nothing lives.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.model.observation import Heartbeat
from lastbeat.model.record import HeartbeatMemory

SKEW_TOLERANCE_S: Final = 60.0
"""A clock that is off by less is not worth a word; uploads take time, too."""
_ZONE_STEP_S: Final = 900.0
"""Zones differ from UTC by whole quarter hours."""


def remember(
    memory: HeartbeatMemory | None, seen: Heartbeat, stale_s: float, now: datetime, offset_s: float | None = None
) -> HeartbeatMemory:
    """What is known of a heartbeat after ``seen``; ``alive_at`` is its last proof of life, in store time.

    ``offset_s`` is how far the store's clock is known to be ahead of the instance's, be it from another document of it.
    """
    fresh = _alive(memory, seen, stale_s, now, offset_s)
    if seen.step is None:
        before = memory or fresh
        return replace(fresh, step=before.step, step_at=before.step_at)
    if memory is not None and memory.step == seen.step:
        return replace(fresh, step=seen.step, step_at=memory.step_at)
    return replace(fresh, step=seen.step, step_at=fresh.alive_at)


def looks_local(seen: Heartbeat, lag_s: float) -> bool:
    """Whether a document whose time lags by ``lag_s`` may have been written in local time, without its zone."""
    quarters = round(lag_s / _ZONE_STEP_S)
    return not seen.zoned and quarters > 0 and abs(lag_s - quarters * _ZONE_STEP_S) <= SKEW_TOLERANCE_S


def _alive(
    memory: HeartbeatMemory | None, seen: Heartbeat, stale_s: float, now: datetime, offset_s: float | None
) -> HeartbeatMemory:
    """1. Nothing new: as before.
    2. No time in the document: the file's.
    3. A document that says how far its clock is off: its time, brought to the store's clock.
    4. The first time that is seen, or one that goes back: see above.
    5. The same time in a file written later: no life.
    6. A later time: by the offset that is known, or learned now.
    """
    own = seen.own_time
    if memory is not None and seen.modified == memory.modified and own in {memory.own_time, None}:
        return replace(memory, missing_since=None)
    # A file from the future (copied with its times, or written before a clock was set right) was written by now.
    written = min(seen.modified, now)
    unknown = memory.unknown if memory is not None else {}
    now_alive = HeartbeatMemory(modified=seen.modified, own_time=own, alive_at=written, unknown=unknown)
    if own is None:
        if memory is None:
            return now_alive
        return replace(memory, modified=seen.modified, alive_at=written, missing_since=None)
    lag_s = (written - own).total_seconds()
    now_alive = replace(now_alive, lag_s=lag_s)
    if seen.clock_offset_s is not None:
        return _told_offset(memory, now_alive, own, seen.clock_offset_s)
    if memory is None or memory.own_time is None:
        return _first_sight(now_alive, own, looks_local(seen, lag_s), offset_s)
    if own < memory.own_time:
        return _gone_back(now_alive, memory)
    if own == memory.own_time:
        return _rewritten(memory, now_alive)
    if memory.suspect:
        return replace(now_alive, skew_s=_offset(lag_s))
    drift_s = lag_s - memory.skew_s
    if drift_s > max(SKEW_TOLERANCE_S, stale_s / 2):
        return replace(now_alive, skew_s=memory.skew_s, suspect=True)
    return replace(now_alive, skew_s=memory.skew_s if abs(drift_s) <= SKEW_TOLERANCE_S else _offset(lag_s))


def _told_offset(
    memory: HeartbeatMemory | None, now_alive: HeartbeatMemory, own: datetime, offset_s: float
) -> HeartbeatMemory:
    alive_at = own + timedelta(seconds=offset_s)
    if now_alive.alive_at is not None:
        alive_at = min(alive_at, now_alive.alive_at)
    if memory is not None and memory.alive_at is not None:
        # An old document takes nothing back.
        alive_at = max(alive_at, memory.alive_at)
    return replace(now_alive, alive_at=alive_at, skew_s=_offset(offset_s))


def _first_sight(
    now_alive: HeartbeatMemory, own: datetime, looks_local: bool, offset_s: float | None
) -> HeartbeatMemory:
    lag_s = now_alive.lag_s
    if lag_s <= max(0.0, offset_s or 0.0) + SKEW_TOLERANCE_S:
        # In step with its file, as far as clocks go. A time in the future can only come from a clock that is fast.
        return replace(now_alive, skew_s=_offset(lag_s))
    if offset_s is not None:
        return replace(now_alive, alive_at=own + timedelta(seconds=offset_s), skew_s=_offset(offset_s))
    if looks_local:
        return replace(now_alive, suspect=True)
    return replace(now_alive, alive_at=own, suspect=True)


def _gone_back(now_alive: HeartbeatMemory, memory: HeartbeatMemory) -> HeartbeatMemory:
    """A clock that was set back, or an old document: the next look tells."""
    if now_alive.lag_s <= SKEW_TOLERANCE_S:
        return replace(now_alive, skew_s=_offset(now_alive.lag_s))
    return replace(now_alive, skew_s=memory.skew_s, suspect=True)


def _rewritten(memory: HeartbeatMemory, now_alive: HeartbeatMemory) -> HeartbeatMemory:
    """The same timestamp in a file written later: not a proof of life at the later time."""
    alive_at = memory.alive_at or memory.modified
    if memory.suspect and memory.own_time is not None:
        alive_at = min(alive_at, memory.own_time + timedelta(seconds=memory.skew_s))
    return replace(now_alive, alive_at=alive_at, skew_s=memory.skew_s, lag_s=memory.lag_s, suspect=memory.suspect)


def _offset(lag_s: float) -> float:
    return 0.0 if abs(lag_s) <= SKEW_TOLERANCE_S else round(lag_s, 1)
