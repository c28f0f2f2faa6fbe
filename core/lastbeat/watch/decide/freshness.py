"""When a heartbeat was last alive; ``verdict`` decides whether that is too old.

Neither its clock nor a rewrite of its file can be trusted alone.

A heartbeat is as old as its file by the store's clock (``LastModified``), or as its document's own time says if that is
older: a copy or a sync tool that stores an old document again is no sign of life. But the instance's clock may be off.

    the document's own time, at the first look            is believed
    ──────────────────────────────────────────            ───────────
    in step with its file, or ahead of it                 the file; a clock that is ahead is fast
    behind, and the offset of its clock is known          brought to the store's clock by that offset
    behind, and it names its zone                         as it is: stale if it says so
    behind by whole quarter hours, without a zone         the file, for now: it looks like local time
    behind otherwise, without a zone                      as it is, in UTC

The next look knows more, whatever was believed: if the document's time advanced, its clock is off by that much, and the
offset is learned; if only the file was rewritten, that is no sign of life.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.record import HeartbeatMemory

SKEW_TOLERANCE_S: Final = 60.0
"""Offsets up to this many seconds are not reported; uploads take time, too."""
_ZONE_STEP_S: Final = 900.0
"""Time zones differ from UTC by multiples of this many seconds, a quarter of an hour."""


def remember(
    memory: HeartbeatMemory | None, seen: Heartbeat, stale_s: float, now: datetime, offset_s: float | None = None
) -> HeartbeatMemory:
    """What is known of a heartbeat after ``seen``. ``alive_at`` is its last proof of life, in the store's time.

    ``offset_s``: how far the store's clock is ahead of the instance's, if another document of the instance showed it.
    """
    fresh = _alive(memory, seen, stale_s, now, offset_s)
    if seen.step is None:
        before = memory or fresh
        return replace(fresh, step=before.step, step_at=before.step_at)
    if memory is not None and memory.step == seen.step:
        return replace(fresh, step=seen.step, step_at=memory.step_at)
    step_at = fresh.alive_at
    if step_at is not None and (memory is None or memory.step is None):
        # No watcher saw it reach this step; its own points may show how long ago that was.
        step_at -= timedelta(seconds=seen.stood_s)
    return replace(fresh, step=seen.step, step_at=step_at)


def looks_local(seen: Heartbeat, lag_s: float) -> bool:
    """Whether a document whose time lags by ``lag_s`` may have been written in local time without a zone."""
    quarters = round(lag_s / _ZONE_STEP_S)
    return not seen.zoned and quarters > 0 and abs(lag_s - quarters * _ZONE_STEP_S) <= SKEW_TOLERANCE_S


def _alive(
    memory: HeartbeatMemory | None, seen: Heartbeat, stale_s: float, now: datetime, offset_s: float | None
) -> HeartbeatMemory:
    """The steps, in order:

    1. The same write of the file as before: nothing changes.
    2. No time in the document: believe the file's.
    3. The document states its clock offset: correct its time by that.
    4. The first time ever seen, or one that went back: as the table above says.
    5. The same time in a file written later: no sign of life.
    6. A later time: correct it by the known offset, or learn the offset now.
    """
    own = seen.own_time
    if memory is not None and seen.modified == memory.modified and own in {memory.own_time, None}:
        return replace(memory, missing_since=None)
    # A file from the future (copied with its times, or from before a clock was corrected) was written by now.
    written = min(seen.modified, now)
    if own is None:
        if memory is None:
            return HeartbeatMemory(seen.modified, alive_at=written)
        return replace(memory, modified=seen.modified, alive_at=written, missing_since=None)
    lag_s = (written - own).total_seconds()
    unknown = memory.unknown if memory is not None else {}
    fresh = HeartbeatMemory(seen.modified, own, alive_at=written, lag_s=lag_s, unknown=unknown)
    if seen.clock_offset_s is not None:
        return _with_stated_offset(memory, fresh, own, seen.clock_offset_s)
    if memory is None or memory.own_time is None:
        return _first_seen(fresh, own, looks_local(seen, lag_s), offset_s)
    if own < memory.own_time:
        return _gone_back(fresh, memory)
    if own == memory.own_time:
        return _rewritten(memory, fresh)
    if memory.suspect:
        return replace(fresh, skew_s=_offset(lag_s))
    drift_s = lag_s - memory.skew_s
    if drift_s > max(SKEW_TOLERANCE_S, stale_s / 2):
        return replace(fresh, skew_s=memory.skew_s, suspect=True)
    return replace(fresh, skew_s=memory.skew_s if abs(drift_s) <= SKEW_TOLERANCE_S else _offset(lag_s))


def _with_stated_offset(
    memory: HeartbeatMemory | None, fresh: HeartbeatMemory, own: datetime, offset_s: float
) -> HeartbeatMemory:
    alive_at = own + timedelta(seconds=offset_s)
    if fresh.alive_at is not None:
        alive_at = min(alive_at, fresh.alive_at)
    if memory is not None and memory.alive_at is not None:
        # An old document takes nothing back.
        alive_at = max(alive_at, memory.alive_at)
    return replace(fresh, alive_at=alive_at, skew_s=_offset(offset_s))


def _first_seen(fresh: HeartbeatMemory, own: datetime, looks_local: bool, offset_s: float | None) -> HeartbeatMemory:
    lag_s = fresh.lag_s
    if lag_s <= max(0.0, offset_s or 0.0) + SKEW_TOLERANCE_S:
        # In step with its file. A time in the future can only come from a fast clock.
        return replace(fresh, skew_s=_offset(lag_s))
    if offset_s is not None:
        return replace(fresh, alive_at=own + timedelta(seconds=offset_s), skew_s=_offset(offset_s))
    if looks_local:
        return replace(fresh, suspect=True)
    return replace(fresh, alive_at=own, suspect=True)


def _gone_back(fresh: HeartbeatMemory, memory: HeartbeatMemory) -> HeartbeatMemory:
    """The clock was set back, or it is an old document: the next look decides."""
    if fresh.lag_s <= SKEW_TOLERANCE_S:
        return replace(fresh, skew_s=_offset(fresh.lag_s))
    return replace(fresh, skew_s=memory.skew_s, suspect=True)


def _rewritten(memory: HeartbeatMemory, fresh: HeartbeatMemory) -> HeartbeatMemory:
    """The same timestamp in a file written later proves no life at that later time."""
    alive_at = memory.alive_at or memory.modified
    if memory.suspect and memory.own_time is not None:
        alive_at = min(alive_at, memory.own_time + timedelta(seconds=memory.skew_s))
    return replace(fresh, alive_at=alive_at, skew_s=memory.skew_s, lag_s=memory.lag_s, suspect=memory.suspect)


def _offset(lag_s: float) -> float:
    return 0.0 if abs(lag_s) <= SKEW_TOLERANCE_S else round(lag_s, 1)


MISSED_BEATS: Final = 4
"""A run is silent after this many missed beats: chance does not explain that."""
OUTLIER_FACTOR: Final = 2.0
"""A gap of at most this many times the longest gap so far is normal."""
UPLOAD_S: Final = 5.0
"""Seconds that a beat may take to reach the store."""
LEARNED_TIMEOUT_FACTOR: Final = 2.0
"""A run is TIMED_OUT after this many times its silence limit, if its fleet learns that from its beats."""
LEARNED_TIMEOUT_FLOOR_S: Final = 120.0
"""Lower bound of the learned limit, in seconds: a store may be slow for a moment."""
_YOUNG_BEATS: Final = 10
"""A run has too few beats for a history before this many."""


def silent_after_s(beat_s: float) -> float:
    """The age of its last beat, in seconds, at which a process that beats each ``beat_s`` is silent."""
    return MISSED_BEATS * beat_s + UPLOAD_S


def silence_limit_s(beat: Heartbeat | None) -> float | None:
    """The age of the last beat, in seconds, at which a run is silent, or None if its beat interval is unknown."""
    if beat is None or beat.beat_s is None:
        return None
    return max(silent_after_s(beat.beat_s), OUTLIER_FACTOR * (beat.longest_gap_s or 0.0) + UPLOAD_S)


def learned_limit_s(beat: Heartbeat | None) -> float | None:
    """The age of the last beat, in seconds, at which a run's own beats show that it is dead. None if it does not report
    its beat interval and its longest gap, or if it has just begun."""
    limit_s = silence_limit_s(beat)
    if beat is None or limit_s is None or beat.beat_s is None or beat.longest_gap_s is None:
        return None
    if beat.start_time is not None and beat.own_time is not None:
        beaten_s = (beat.own_time - beat.start_time).total_seconds()
        if beaten_s < _YOUNG_BEATS * beat.beat_s:
            return None
    return max(LEARNED_TIMEOUT_FLOOR_S, LEARNED_TIMEOUT_FACTOR * limit_s)
