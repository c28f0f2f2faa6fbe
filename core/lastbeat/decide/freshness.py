"""When was a heartbeat last alive, if neither its clock nor the rewriting of its file can be trusted alone?

The store's ``LastModified`` is the clock that counts. A document's own timestamp tells two other things: how far
the instance's clock is off, and whether whoever rewrites the file still is the training (a sync tool that
uploads the same old document again and again is no life).

The difficult case is a timestamp far behind ``LastModified``: a slow clock, or an old document? One look cannot
tell, so the first gets the benefit of the doubt (``suspect``). The next look tells: if the timestamp advanced, it
was the clock, and its offset is learned; if the file was rewritten and the timestamp stayed, it was the document.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from lastbeat.model.observation import Heartbeat
from lastbeat.model.record import HeartbeatMemory

SKEW_TOLERANCE_S = 60.0
"""A clock that is off by less is not worth a word; uploads take time, too."""


def remember(memory: HeartbeatMemory | None, seen: Heartbeat, stale_s: float, now: datetime) -> HeartbeatMemory:
    """What is known of a heartbeat after ``seen``; ``alive_at`` is its last proof of life in store time."""
    fresh = _alive(memory, seen, stale_s, now)
    if seen.step is None:
        known = memory or fresh
        return replace(fresh, step=known.step, step_at=known.step_at)
    if memory is not None and memory.step == seen.step:
        return replace(fresh, step=seen.step, step_at=memory.step_at)
    return replace(fresh, step=seen.step, step_at=fresh.alive_at)


def _alive(memory: HeartbeatMemory | None, seen: Heartbeat, stale_s: float, now: datetime) -> HeartbeatMemory:
    own = seen.own_time
    if memory is not None and seen.modified == memory.modified and own in {memory.own_time, None}:
        return replace(memory, missing_since=None)
    # A file from the future (copied with its times, or written before a clock was set right) was written by now.
    written = min(seen.modified, now)
    now_alive = HeartbeatMemory(modified=seen.modified, own_time=own, alive_at=written)
    if own is None:
        # Nothing to compare: the file was written, and that is all there is to know.
        return (
            now_alive
            if memory is None
            else replace(memory, modified=seen.modified, alive_at=written, missing_since=None)
        )
    lag_s = (written - own).total_seconds()
    now_alive = replace(now_alive, lag_s=lag_s)
    if memory is None or memory.own_time is None or own < memory.own_time:
        return _first_sight(now_alive, memory)
    if own == memory.own_time:
        return _rewritten(memory, now_alive)
    drift_s = lag_s - memory.skew_s
    if memory.suspect:
        return replace(now_alive, skew_s=_offset(lag_s))
    if drift_s > max(SKEW_TOLERANCE_S, stale_s / 2):
        return replace(now_alive, skew_s=memory.skew_s, suspect=True)
    return replace(now_alive, skew_s=memory.skew_s if abs(drift_s) <= SKEW_TOLERANCE_S else _offset(lag_s))


def _first_sight(now_alive: HeartbeatMemory, memory: HeartbeatMemory | None) -> HeartbeatMemory:
    if now_alive.lag_s <= SKEW_TOLERANCE_S:
        # In step, or ahead: a time in the future can only come from a clock that is fast.
        return replace(now_alive, skew_s=_offset(now_alive.lag_s))
    return replace(now_alive, skew_s=memory.skew_s if memory else 0.0, suspect=True)


def _rewritten(memory: HeartbeatMemory, now_alive: HeartbeatMemory) -> HeartbeatMemory:
    """The same timestamp in a file written later: not a proof of life at the later time."""
    alive_at = memory.alive_at or memory.modified
    if memory.suspect and memory.own_time is not None:
        alive_at = min(alive_at, memory.own_time + timedelta(seconds=memory.skew_s))
    return replace(now_alive, alive_at=alive_at, skew_s=memory.skew_s, lag_s=memory.lag_s, suspect=memory.suspect)


def _offset(lag_s: float) -> float:
    return 0.0 if abs(lag_s) <= SKEW_TOLERANCE_S else round(lag_s, 1)
