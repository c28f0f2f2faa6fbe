"""Finds ranks of a distributed run that fell silent while others beat. Pure.

The file times of a listing show which ranks seem silent. Only the last reports of those few are read, for a rank that
is done stops beating, too. All ages are by the store's clock.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.observation import RankBeat, RankFiles, Seen
from lastbeat.model.record import Attempt
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import format_duration

_BEAT_S: Final = 60.0
"""Beat interval, in seconds, of a rank that reports none: the SDK's default."""
_MISSED: Final = 4
_UPLOAD_S: Final = 5.0
_NAMED: Final = 3
_NAME_LIMIT: Final = 80
_LIMIT: Final = 300
_OVER: Final = frozenset({"completed", "cancelled", "failed", "preempted"})
"""A rank's last reported status when its training is over. A rank that failed has left an error."""


def silence_limit_s(beat_s: float | None) -> float:
    """The age of its last beat, in seconds, at which a rank that beats each ``beat_s`` is silent."""
    return _MISSED * (beat_s or _BEAT_S) + _UPLOAD_S


def limit_of(metadata: Heartbeat | None, stale_s: float) -> float:
    """The age of its last beat, in seconds, at which a rank of this run is silent. If the beat interval of ranks is
    unknown, that is the run's own limit or ``stale_s``: scripts may beat at any pace."""
    if metadata is None:
        return stale_s
    return silence_limit_s(metadata.rank_beat_s) if metadata.rank_beat_s else metadata.stale_s or stale_s


def seeming_silent(files: RankFiles, now: datetime, limit_s: float) -> tuple[int, ...]:
    """The ranks whose files are older than ``limit_s`` while another rank's is not, in ascending order.

    Files of an earlier attempt, and of finished ranks, are among them: reading them shows which.
    """
    old = [rank for rank, at in files.beats.items() if (now - at).total_seconds() > limit_s]
    return tuple(sorted(old)) if len(old) < len(files.beats) else ()


def is_of_attempt(at: datetime, attempt: Attempt) -> bool:
    """Whether a file stored at ``at`` may belong to ``attempt``: nothing older than its beginning does."""
    began = attempt.begun_at or attempt.began_at
    # Stores that stamp whole seconds stamp a file written right after the start as older than it.
    return began is None or at >= began.replace(microsecond=0)


def silent_ranks(seen: Seen, attempt: Attempt, now: datetime) -> str | None:
    """One line that names the ranks of ``attempt`` that fell silent while others beat. None if there are none, or if
    the ranks were not checked.

    While a restart may be in progress the answer is None: the next attempt's ranks begin before rank 0 reports it.
    """
    silent, alive = _silent(seen, attempt, now)
    return _sentence(silent, alive, now) if silent else None


def heard_s_ago(seen: Seen, attempt: Attempt, now: datetime) -> float | None:
    """Seconds since the last heartbeat of any silent rank, or None if no rank is silent."""
    silent, _ = _silent(seen, attempt, now)
    return _shortest_s(silent, now) if silent else None


def _silent(seen: Seen, attempt: Attempt, now: datetime) -> tuple[Sequence[RankBeat], int]:
    """The ranks that fell silent, and how many others beat."""
    looked, metadata = seen.ranks, seen.metadata
    if looked is None:
        return (), 0
    world = metadata.world_size if metadata is not None else None
    limit_s = looked.limit_s
    beats = {rank: at for rank, at in looked.files.beats.items() if world is None or rank < world}
    alive = sum((now - at).total_seconds() <= limit_s for at in beats.values())
    silent = sorted(
        (rank for rank in looked.read if rank.number in beats and _is_silent(rank, attempt, now, limit_s)),
        key=lambda rank: rank.number,
    )
    leader_lives = metadata is not None and (now - metadata.modified).total_seconds() <= limit_s
    if not silent or not alive or not (leader_lives or alive > len(silent)):
        return (), alive
    return silent, alive


def _shortest_s(silent: Sequence[RankBeat], now: datetime) -> float:
    return min((now - rank.modified).total_seconds() for rank in silent)


def _is_silent(rank: RankBeat, attempt: Attempt, now: datetime, limit_s: float) -> bool:
    other = None not in {rank.attempt, attempt.declared} and rank.attempt != attempt.declared
    if rank.status in _OVER or other or not is_of_attempt(rank.modified, attempt):
        return False
    own_s = silence_limit_s(rank.beat_s) if rank.beat_s else 0.0
    return (now - rank.modified).total_seconds() > max(limit_s, own_s)


def _sentence(silent: Sequence[RankBeat], alive: int, now: datetime) -> str:
    who = [f"rank {rank.number}{_where(rank)}" for rank in silent[:_NAMED]]
    more = len(silent) - len(who)
    named = ", ".join(who) + (f" and {more} more" if more else "")
    shortest = _shortest_s(silent, now)
    least = " at least" if len(silent) > 1 else ""
    others = f"{alive} other{'' if alive == 1 else 's'} alive"
    return fit(f"{named} silent for {format_duration(shortest)}{least}, {others}", _LIMIT)


def _where(rank: RankBeat) -> str:
    return f" on {fit(one_line(rank.host), _NAME_LIMIT)}" if rank.host else ""
