"""Finds ranks of a distributed run that failed, fell silent, or are behind the others. Pure.

All ages are by the store's clock, so the ranks' own clocks do not matter. Nothing is guessed: a rank that beats like
the others, or that nothing is known of, does not stand out.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from lastbeat.explain.signals.error_types import traits_of
from lastbeat.model.cause import Cause
from lastbeat.model.observation import RankBeat, RanksSeen
from lastbeat.model.text import counted, fit, one_line
from lastbeat.model.times import format_duration
from lastbeat.watch.decide.silent_ranks import silence_limit_s

_NAMED: Final = 3
_LIMIT: Final = 400
_NAME_LIMIT: Final = 80
_OVER: Final = frozenset({"completed", "cancelled", "preempted"})


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
    ranks = sorted(seen.ranks, key=lambda rank: rank.number)
    known = next((rank for rank in ranks if rank.number == named), None)
    if known is not None and (over or len(ranks) > 1):
        return fit(_who(known), _LIMIT)
    if len(ranks) + seen.left_out < 2:
        return None
    failed = [rank for rank in ranks if rank.status == "failed"]
    if failed:
        return _sentence(failed, ranks, now, over=over, what="it failed")
    if over:
        return None
    alive = [rank for rank in ranks if rank.status not in _OVER]
    silent = [rank for rank in alive if _is_silent(rank, now)]
    if len(silent) < len(alive):
        missing = _missing(seen, now)
        if silent:
            return _sentence(silent, alive, now, over=False)
        return missing or _compared(alive, since, seen.left_out)
    return _all_silent(silent, seen.left_out, now) if silent else None


def failed_rank(cause: Cause | None) -> int | None:
    """The rank that failed with ``cause``, or None if unknown or if the line's rank only saw another one fail."""
    if cause is None or cause.evidence.rank is None:
        return None

    return None if traits_of(cause.error_type).is_vague else cause.evidence.rank


def _who(rank: RankBeat, now: datetime | None = None) -> str:
    host = f" on {fit(one_line(rank.host), _NAME_LIMIT)}" if rank.host else ""
    step = f", last step {rank.step}" if rank.step is not None and abs(rank.step) < 10**15 else ""
    silent = f", silent for {format_duration(_age(rank, now))}" if now is not None else ""
    return f"rank {rank.number}{host}{step}{silent}"


def _sentence(found: list[RankBeat], ranks: Sequence[RankBeat], now: datetime, *, over: bool, what: str = "") -> str:
    parts = [_who(rank, None if what else now) + (f": {what}" if what else "") for rank in found[:_NAMED]]
    if len(found) > _NAMED:
        parts.append(f"{len(found) - _NAMED} more like these")
    waiting = 0 if over else sum(rank not in found and not _is_silent(rank, now) for rank in ranks)
    if waiting:
        parts.append(_waits(waiting))
    return fit("; ".join(parts), _LIMIT)


def _waits(count: int) -> str:
    return f"{count} other{' waits' if count == 1 else 's wait'}"


def _all_silent(silent: list[RankBeat], left_out: int, now: datetime) -> str:
    """The text about ranks that are all silent. The first stands out if it fell silent clearly before the others."""
    by_time = sorted(silent, key=lambda rank: rank.modified)
    first, youngest = by_time[0], by_time[-1]
    before = by_time[1].modified - first.modified if len(by_time) > 1 else timedelta(0)
    if before.total_seconds() > silence_limit_s(first.beat_s) / 2:
        return fit(f"{_who(first)}, fell silent {format_duration(before)} before any other", _LIMIT)
    count = len(silent) + left_out
    return f"all {count} ranks are silent, for {format_duration(_age(youngest, now))} at least"


def _missing(seen: RanksSeen, now: datetime) -> str | None:
    """The ranks of a world of known size that never wrote although each has had time to, in words; or None."""
    if seen.world_size is None or seen.left_out or seen.began is None or not seen.ranks:
        return None
    patience_s = max(silence_limit_s(rank.beat_s) for rank in seen.ranks)
    there = {rank.number for rank in seen.ranks}
    count = seen.world_size - len(there)
    if count <= 0 or (now - seen.began).total_seconds() < patience_s:
        return None
    # Only this many numbers have to be tried to find enough.
    missing = [number for number in range(min(seen.world_size, len(there) + _NAMED)) if number not in there][:_NAMED]
    if count == 1:
        return f"rank {missing[0]} of {seen.world_size} has never beaten"
    more = f" and {count - len(missing)} more" if count > len(missing) else ""
    return f"ranks {', '.join(map(str, missing))}{more} of {seen.world_size} have never beaten"


def _compared(alive: list[RankBeat], since: datetime | None, left_out: int) -> str | None:
    """The ranks that are behind most of the others, or ahead of all of them, in words; or None."""
    told = [rank for rank in alive if rank.step is not None and (since is None or rank.modified > since)]
    steps = [rank.step for rank in told if rank.step is not None]
    if len(told) < 2:
        return None
    top, least = max(steps), min(steps)
    behind = [rank for rank in told if rank.step != top]
    if not behind:
        all_read = len(told) == len(alive) and not left_out
        who = f"all {len(told)} ranks" if all_read else f"the {len(told)} ranks that were read"
        return f"{who} beat and stand at step {top}" if abs(top) < 10**15 else None
    if 2 * len(behind) <= len(told):
        parts = [_who(rank) for rank in behind[:_NAMED]]
        if len(behind) > _NAMED:
            parts.append(f"{len(behind) - _NAMED} more behind")
        return fit(f"{'; '.join(parts)}; {_waits(len(told) - len(behind))} at step {top}", _LIMIT)
    ahead = [rank for rank in told if rank.step == top]
    if len(ahead) == 1 and steps.count(least) == len(told) - 1:
        return fit(f"{_who(ahead[0])}, ahead of {counted(len(told) - 1, 'other')} at step {least}", _LIMIT)
    return None


def _age(rank: RankBeat, now: datetime) -> float:
    return max(0.0, (now - rank.modified).total_seconds())


def _is_silent(rank: RankBeat, now: datetime) -> bool:
    return _age(rank, now) > silence_limit_s(rank.beat_s)
