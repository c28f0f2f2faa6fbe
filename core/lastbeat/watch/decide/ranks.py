"""Finds ranks of a distributed run that failed, fell silent, or are behind the others. Pure.

All ages are by the store's clock, so the ranks' own clocks do not matter. Nothing is guessed: a rank that beats like
the others, or that nothing is known of, does not stand out.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from lastbeat.explain.signals.error_types import traits_of
from lastbeat.model.cause import Cause
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.observation import RanksSeen
from lastbeat.model.text import counted, fit, one_line
from lastbeat.model.times import format_duration
from lastbeat.watch.decide.freshness import silent_after_s

_NAMED: Final = 3
_LIMIT: Final = 400
_NAME_LIMIT: Final = 80
_BEAT_S: Final = 60.0
"""Beat interval, in seconds, of a rank that reports none: the SDK's default."""
Ranks = Mapping[int, Heartbeat]
"""Rank → its heartbeat."""


def suspects(
    seen: RanksSeen, now: datetime, *, named: int | None = None, over: bool = False, since: datetime | None = None
) -> str | None:
    """One line that names the ranks that stand out, or None if none does or if fewer than two ranks are known.

    ``named``: the rank that ``_error`` names. ``over``: the run has ended, so no rank waits and silence shows nothing.
    ``since``: when training last made progress; steps are compared only if their ranks wrote them after that.

    1. The rank that ``_error`` names, else those that report a failure.
    2. Those that are silent while others beat. If all are silent, the first of them.
    3. Those that never beat.
    4. Those that are behind most others, or ahead of all.
    """
    ranks = dict(sorted(seen.ranks.items()))
    if named is not None and named in ranks and (over or len(ranks) > 1):
        return fit(_who(named, ranks[named]), _LIMIT)
    if len(ranks) + seen.left_out < 2:
        return None
    failed = {rank: beat for rank, beat in ranks.items() if beat.status == "failed"}
    if failed:
        return _sentence(failed, ranks, now, over=over, what="it failed")
    if over:
        return None
    alive = {rank: beat for rank, beat in ranks.items() if not beat.is_last}
    silent = {rank: beat for rank, beat in alive.items() if _is_silent(beat, now)}
    if len(silent) < len(alive):
        if silent:
            return _sentence(silent, alive, now, over=False)
        return _missing(seen, now) or _compared(alive, since, seen.left_out)
    return _all_silent(silent, seen.left_out, now) if silent else None


def failed_rank(cause: Cause | None) -> int | None:
    """The rank that failed with ``cause``, or None if unknown or if the line's rank only saw another one fail."""
    if cause is None or cause.evidence.rank is None:
        return None

    return None if traits_of(cause.error_type).is_vague else cause.evidence.rank


def _who(rank: int, beat: Heartbeat, now: datetime | None = None) -> str:
    host = f" on {fit(one_line(beat.host), _NAME_LIMIT)}" if beat.host else ""
    step = f", last step {beat.step}" if beat.step is not None and abs(beat.step) < 10**15 else ""
    silent = f", silent for {format_duration(_age(beat, now))}" if now is not None else ""
    return f"rank {rank}{host}{step}{silent}"


def _sentence(found: Ranks, ranks: Ranks, now: datetime, *, over: bool, what: str = "") -> str:
    named = list(found.items())[:_NAMED]
    parts = [_who(rank, beat, None if what else now) + (f": {what}" if what else "") for rank, beat in named]
    if len(found) > _NAMED:
        parts.append(f"{len(found) - _NAMED} more like these")
    waiting = 0 if over else sum(rank not in found and not _is_silent(beat, now) for rank, beat in ranks.items())
    if waiting:
        parts.append(_waits(waiting))
    return fit("; ".join(parts), _LIMIT)


def _waits(count: int) -> str:
    return f"{count} other{' waits' if count == 1 else 's wait'}"


def _all_silent(silent: Ranks, left_out: int, now: datetime) -> str:
    """The text about ranks that are all silent. The first stands out if it fell silent clearly before the others."""
    by_time = sorted(silent.items(), key=lambda each: each[1].modified)
    (first, beat), (_, youngest) = by_time[0], by_time[-1]
    before = by_time[1][1].modified - beat.modified if len(by_time) > 1 else timedelta(0)
    if before.total_seconds() > _limit_s(beat) / 2:
        return fit(f"{_who(first, beat)}, fell silent {format_duration(before)} before any other", _LIMIT)
    count = len(silent) + left_out
    return f"all {count} ranks are silent, for {format_duration(_age(youngest, now))} at least"


def _missing(seen: RanksSeen, now: datetime) -> str | None:
    """The ranks of a world of known size that never wrote although each has had time to, in words; or None."""
    if seen.world_size is None or seen.left_out or seen.began is None or not seen.ranks:
        return None
    patience_s = max(map(_limit_s, seen.ranks.values()))
    count = seen.world_size - len(seen.ranks)
    if count <= 0 or (now - seen.began).total_seconds() < patience_s:
        return None
    # Only this many numbers have to be tried to find enough.
    tried = range(min(seen.world_size, len(seen.ranks) + _NAMED))
    missing = [number for number in tried if number not in seen.ranks][:_NAMED]
    if count == 1:
        return f"rank {missing[0]} of {seen.world_size} has never beaten"
    more = f" and {count - len(missing)} more" if count > len(missing) else ""
    return f"ranks {', '.join(map(str, missing))}{more} of {seen.world_size} have never beaten"


def _compared(alive: Ranks, since: datetime | None, left_out: int) -> str | None:
    """The ranks that are behind most of the others, or ahead of all of them, in words; or None."""
    reached = {
        rank: beat.step
        for rank, beat in alive.items()
        if beat.step is not None and (since is None or beat.modified > since)
    }
    if len(reached) < 2:
        return None
    top, least = max(reached.values()), min(reached.values())
    behind = [rank for rank, step in reached.items() if step != top]
    if not behind:
        all_read = len(reached) == len(alive) and not left_out
        who = f"all {len(reached)} ranks" if all_read else f"the {len(reached)} ranks that were read"
        return f"{who} beat and stand at step {top}" if abs(top) < 10**15 else None
    ahead = [rank for rank, step in reached.items() if step == top]
    if len(behind) <= len(ahead):
        parts = [_who(rank, alive[rank]) for rank in behind[:_NAMED]]
        if len(behind) > _NAMED:
            parts.append(f"{len(behind) - _NAMED} more behind")
        return fit(f"{'; '.join(parts)}; {_waits(len(ahead))} at step {top}", _LIMIT)
    if len(ahead) == 1 and all(reached[rank] == least for rank in behind):
        first = _who(ahead[0], alive[ahead[0]])
        return fit(f"{first}, ahead of {counted(len(behind), 'other')} at step {least}", _LIMIT)
    return None


def _age(beat: Heartbeat, now: datetime) -> float:
    return max(0.0, (now - beat.modified).total_seconds())


def _limit_s(beat: Heartbeat) -> float:
    return silent_after_s(beat.beat_s or _BEAT_S)


def _is_silent(beat: Heartbeat, now: datetime) -> bool:
    return _age(beat, now) > _limit_s(beat)
