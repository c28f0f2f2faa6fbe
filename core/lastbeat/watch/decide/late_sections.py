"""Finds ranks that have been in a section for longer than its limit. Pure.

A heartbeat reports how long each of its sections has been open by its own monotonic clock, so no clock's offset
matters. While a rank beats, only its own report counts: it may have left the section since. For a silent rank, the time
since its last beat counts, too, by the store's clock. A silence that is not stale yet
counts nothing: training may just not reach the store.

If rank 0 alone saves or evaluates, the others wait for it. The time that it takes for that, within its limit, does not
count against them.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from lastbeat.model.data import dataclass
from lastbeat.model.heartbeat import OpenSection
from lastbeat.model.observation import Seen
from lastbeat.model.record import Attempt
from lastbeat.model.text import counted, fit, one_line
from lastbeat.model.times import format_duration
from lastbeat.watch.decide.freshness import silence_limit_s
from lastbeat.watch.decide.silent_ranks import is_of_attempt

_LIMIT: Final = 200
_NAME_LIMIT: Final = 60
_STEP: Final = "step"
_TWO: Final = 2


@dataclass(frozen=True, slots=True)
class LateSection:
    """A section in which a rank has been for longer than its limit."""

    rank: int | None
    """None if training is not distributed."""
    section: OpenSection
    open_s: float
    """Seconds until now if the rank is silent, else until its last heartbeat."""
    limit_s: float
    silent: bool
    step: int | None = None
    """The last step that this rank reported, or None."""


@dataclass(frozen=True, slots=True)
class _Told:
    """The last report of one rank."""

    rank: int | None
    modified: datetime
    sections: Sequence[OpenSection]
    silent_after_s: float | None
    """The age of a beat at which the rank is silent, in s; None if it is unknown how often it beats."""
    step: int | None = None

    def waited_less(self, section: OpenSection, worked: Sequence[tuple[datetime, datetime]]) -> float:
        """Seconds that it had been in ``section``, without the time spans ``worked``, which do not overlap."""
        began = self.modified - timedelta(seconds=section.open_s)
        spent = sum((min(until, self.modified) - max(since, began)).total_seconds()
                    for since, until in worked if until > began and since < self.modified)  # fmt: skip
        return section.open_s - spent

    def is_silent(self, now: datetime, least_s: float = 0.0) -> bool:
        """Whether the rank has missed beats, and for longer than ``least_s`` seconds."""
        limit_s = self.silent_after_s
        return limit_s is not None and (now - self.modified).total_seconds() > max(limit_s, least_s)


def late_sections(
    seen: Seen, attempt: Attempt, silent_after_s: float | None, stale_s: float, now: datetime
) -> tuple[LateSection, ...]:
    """The late sections of ``attempt`` that ``seen`` shows, the longest first. ``silent_after_s`` is the age of a beat
    at which metadata.json is silent, or None if unknown. A silence shorter than ``stale_s`` shows nothing.

    If steps show that one rank is behind the others, its section comes first: they wait for it."""
    found = list[LateSection]()
    worked = _leader_worked(seen, silent_after_s, stale_s, now)
    for told in _reported(seen, attempt, silent_after_s):
        silent = told.is_silent(now, stale_s)
        since_s = (now - told.modified).total_seconds() if silent else 0.0
        late = [
            LateSection(told.rank, each, each.open_s + since_s, each.limit_s, silent, told.step)
            for each in told.sections
            if each.limit_s is not None and each.open_s + since_s > each.limit_s
            if silent or not told.rank or not _may_wait(each) or told.waited_less(each, worked) > each.limit_s
        ]
        # Of nested sections the innermost says most.
        found += sorted(late, key=lambda each: each.open_s)[:1]
    last = behind({each.rank: each.step for each in found})
    return tuple(sorted(found, key=lambda each: (last is None or each.rank != last, -each.open_s, each.rank or 0)))


def behind(steps: Mapping[int | None, int | None]) -> int | None:
    """The one rank whose step is less than that of all others, which share one step; or None if there is no such rank.
    Where ranks wait for each other, the others wait for this one."""
    known = [(step, rank) for rank, step in steps.items() if step is not None]
    if len(known) < len(steps) or len({step for step, _ in known}) != _TWO:
        return None
    least = min(step for step, _ in known)
    slow = [rank for step, rank in known if step == least]
    return slow[0] if len(slow) == 1 else None


def leader_step(seen: Seen, since: datetime) -> int | None:
    """The step of rank 0 if it was written at ``since`` or later, else None. Rank 0 writes it beside its heartbeat, and
    not with every beat."""
    if seen.metadata is not None and seen.metadata.step is not None:
        return seen.metadata.step
    return seen.progress.step if seen.progress is not None and seen.progress.modified >= since else None


def when_late(
    seen: Seen, attempt: Attempt, silent_after_s: float | None, stale_s: float, now: datetime
) -> datetime | None:
    """When the next section of a silent rank will be late if the rank stays silent, or None if none will be."""
    dues = [
        told.modified + timedelta(seconds=max(each.limit_s - each.open_s, stale_s, told.silent_after_s or 0.0))
        for told in _reported(seen, attempt, silent_after_s)
        if told.is_silent(now)
        for each in told.sections
        if each.limit_s is not None
    ]
    return min((due for due in dues if due >= now), default=None)


def told_of(late: Sequence[LateSection]) -> str:
    """One line: ``rank 3: checkpointing for 14m (usual 2m 10s, limit 10m 50s)``; ``usual`` where it was learned."""
    first = late[0]
    who = "" if first.rank is None else f"rank {first.rank}: "
    name = fit(one_line(first.section.name or ""), _NAME_LIMIT)
    what = name or "in no section"
    usual_s = first.section.usual_s
    usual = "" if usual_s is None else f"usual {format_duration(usual_s)}, "
    line = f"{who}{what} for {format_duration(first.open_s)} ({usual}limit {format_duration(first.limit_s)})"
    others = len(late) - 1
    if others and first.rank == behind({each.rank: each.step for each in late}) and first.step is not None:
        line += f", behind the others at step {first.step:,}"
    if others:
        line += f"; {counted(others, 'other rank')}, too"
    return fit(line, _LIMIT)


def _may_wait(section: OpenSection) -> bool:
    """Whether a rank that waits for another one may be in this section."""
    return section.name in {None, "", _STEP}


def _leader_worked(
    seen: Seen, silent_after_s: float | None, stale_s: float, now: datetime
) -> list[tuple[datetime, datetime]]:
    """The spans in which rank 0 was in a section other than a step, within its limit, by the store's clock. A span ends
    when rank 0 left the section, or now if it still beats. Oldest first, without overlaps."""
    metadata = seen.metadata
    if metadata is None or metadata.fault is not None:
        return []
    at, found = metadata.modified, list[tuple[datetime, datetime]]()
    for left in metadata.left_sections:
        until = at - timedelta(seconds=left.ago_s)
        if left.took_s <= left.limit_s:
            found.append((until - timedelta(seconds=left.took_s), until))
    age_s = (now - at).total_seconds()
    beats = age_s <= (stale_s if silent_after_s is None else silent_after_s)
    for each in metadata.sections:
        limit_s = each.awaited_s if each.limit_s is None else each.limit_s
        if beats and not _may_wait(each) and limit_s is not None and each.open_s + age_s <= limit_s:
            found.append((at - timedelta(seconds=each.open_s), now))
    joined = list[tuple[datetime, datetime]]()
    for since, until in sorted(found):
        if joined and since <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(until, joined[-1][1]))
        else:
            joined.append((since, until))
    return joined


def _reported(seen: Seen, attempt: Attempt, silent_after_s: float | None) -> Iterator[_Told]:
    metadata = seen.metadata
    distributed = metadata is not None and (metadata.world_size or 1) > 1
    if metadata is not None and metadata.fault is None and metadata.sections:
        waited_s = min(each.open_s for each in metadata.sections)
        step = leader_step(seen, metadata.modified - timedelta(seconds=waited_s))
        yield _Told(0 if distributed else None, metadata.modified, metadata.sections, silent_after_s, step)
    for rank, beat in seen.ranks.read.items() if seen.ranks is not None else ():
        beyond = metadata is not None and metadata.world_size is not None and rank >= metadata.world_size
        known = rank == 0 and metadata is not None
        counts = not (beyond or known or beat.is_last) and is_of_attempt(beat.modified, attempt, beat.attempt)
        if beat.sections and counts:
            yield _Told(rank, beat.modified, beat.sections, silence_limit_s(beat), beat.step)
