"""How long a run may be silent, by its heartbeat's own beat interval. Pure."""

from typing import Final

from lastbeat.model.heartbeat import Heartbeat

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
