"""Finds ranks of a distributed run that fell silent while others beat. Pure.

The file times of a listing show which ranks seem silent. Only the last reports of those few are read, for a rank that
is done stops beating, too. All ages are by the store's clock.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.observation import RankFiles, Seen
from lastbeat.model.record import Attempt
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import format_duration
from lastbeat.watch.decide.freshness import silence_limit_s, silent_after_s

_NAMED: Final = 3
_NAME_LIMIT: Final = 80
_LIMIT: Final = 300


def limit_of(metadata: Heartbeat | None, stale_s: float) -> float:
    """The age of its last beat, in seconds, at which a rank of this run is silent. If the beat interval of ranks is
    unknown, that is the run's own limit or ``stale_s``: scripts may beat at any pace."""
    if metadata is None:
        return stale_s
    return silent_after_s(metadata.rank_beat_s) if metadata.rank_beat_s else metadata.stale_s or stale_s


def seeming_silent(files: RankFiles, now: datetime, limit_s: float) -> tuple[int, ...]:
    """The ranks whose files are older than ``limit_s`` while another rank's is not, in ascending order.

    Files of an earlier attempt, and of finished ranks, are among them: reading them shows which.
    """
    old = [rank for rank, at in files.beats.items() if (now - at).total_seconds() > limit_s]
    return tuple(sorted(old)) if len(old) < len(files.beats) else ()


def is_of_attempt(at: datetime, attempt: Attempt, number: int | None = None) -> bool:
    """Whether a file stored at ``at`` may belong to ``attempt``: nothing older than its beginning does, and nothing
    that names another attempt. ``number`` is the attempt that the file names, if any."""
    if None not in {number, attempt.declared} and number != attempt.declared:
        return False
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


def _silent(seen: Seen, attempt: Attempt, now: datetime) -> tuple[Mapping[int, Heartbeat], int]:
    """The ranks that fell silent, in ascending order, and how many others beat."""
    looked, metadata = seen.ranks, seen.metadata
    if looked is None:
        return {}, 0
    world = metadata.world_size if metadata is not None else None
    limit_s = looked.limit_s
    beats = {rank: at for rank, at in looked.files.beats.items() if world is None or rank < world}
    alive = sum((now - at).total_seconds() <= limit_s for at in beats.values())
    silent = {
        rank: beat
        for rank, beat in sorted(looked.read.items())
        if rank in beats and _is_silent(beat, attempt, now, limit_s)
    }
    leader_lives = metadata is not None and (now - metadata.modified).total_seconds() <= limit_s
    if not silent or not alive or not (leader_lives or alive > len(silent)):
        return {}, alive
    return silent, alive


def _shortest_s(silent: Mapping[int, Heartbeat], now: datetime) -> float:
    return min((now - beat.modified).total_seconds() for beat in silent.values())


def _is_silent(beat: Heartbeat, attempt: Attempt, now: datetime, limit_s: float) -> bool:
    if beat.is_last or not is_of_attempt(beat.modified, attempt, beat.attempt):
        return False
    return (now - beat.modified).total_seconds() > max(limit_s, silence_limit_s(beat) or 0.0)


def _sentence(silent: Mapping[int, Heartbeat], alive: int, now: datetime) -> str:
    who = [f"rank {rank}{_where(beat)}" for rank, beat in list(silent.items())[:_NAMED]]
    more = len(silent) - len(who)
    named = ", ".join(who) + (f" and {more} more" if more else "")
    shortest = _shortest_s(silent, now)
    least = " at least" if len(silent) > 1 else ""
    others = f"{alive} other{'' if alive == 1 else 's'} alive"
    return fit(f"{named} silent for {format_duration(shortest)}{least}, {others}", _LIMIT)


def _where(beat: Heartbeat) -> str:
    return f" on {fit(one_line(beat.host), _NAME_LIMIT)}" if beat.host else ""
