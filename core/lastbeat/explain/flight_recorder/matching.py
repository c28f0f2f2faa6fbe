"""Matches the calls of all ranks, and finds the collective in which they are stuck. Pure.

The ranks of a group number its collectives alike. So a rank whose last number is smaller than the one in which the
others wait never joined it, and a rank that made another call under the same number left the common order there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Final

from lastbeat.explain.flight_recorder.dump import P2P, Call, ProcessGroup, RankDump
from lastbeat.model.stuck_collective import (
    ABSENT,
    DTYPES,
    LEFT,
    NO_DUMP,
    NOT_STARTED,
    OTHER,
    PAST,
    ROWS_LIMIT,
    SIZES,
    WAITS,
    RanksAlike,
    StuckCollective,
    ranges,
)

_ALIKE: Final = frozenset(
    {
        "all_reduce", "allreduce", "allreduce_coalesced", "broadcast", "reduce", "barrier", "all_reduce_barrier",
        "_all_gather_base", "all_gather_into_tensor_coalesced", "all_gather_single", "_reduce_scatter_base",
        "reduce_scatter_single", "reduce_scatter_tensor_coalesced", "_broadcast_oop", "_reduce_oop",
    }
)  # fmt: skip
"""Collectives in which all ranks pass the same sizes and types. In others, as gather, they may differ."""
_MISMATCH: Final = (OTHER, SIZES, DTYPES)
_FEW: Final = 4
"""Ranks without a dump are suspects if they are less than one in this many."""

Calls = Mapping[int, Sequence[Call]]
_Deed = tuple[int, str, str, Call | None]
"""A rank, what it does, that call for display, and the call."""


@dataclass(slots=True)
class _Wait:
    """One group in which ranks wait, or are at odds."""

    group: ProcessGroup
    members: tuple[int, ...]
    call: Call
    """A waiting one."""
    waiting: dict[int, Call]
    others: dict[int, tuple[str, Call | None]]
    """Rank → what it does instead, and the call that shows it."""
    undecided: bool = False
    """As many ranks do the one as the other."""
    into: dict[int, tuple[ProcessGroup, Call]] = field(default_factory=dict)
    """Rank → where it waits itself."""

    @property
    def since_ns(self) -> int:
        return min((call.at_ns for call in self.waiting.values() if call.at_ns), default=1 << 63)

    @property
    def suspects(self) -> list[int]:
        """The ranks that do not wait for others themselves; without a dump only if they are few."""
        found = [rank for rank, (does, _) in self.others.items() if does != NO_DUMP and rank not in self.into]
        gone = [rank for rank, (does, _) in self.others.items() if does == NO_DUMP]
        if not found and not self.into and 0 < len(gone) <= max(1, len(self.members) // _FEW):
            return sorted(gone)
        return sorted(found)

    @property
    def is_alone(self) -> bool:
        """Whether a single rank made a call that several others did not make, and they wait for nothing."""
        absent = [rank for rank, (does, _) in self.others.items() if does == ABSENT]
        return len(self.waiting) == 1 and len(absent) > 1 and not self.into


def stuck_collective(
    dumps: Mapping[int, RankDump],
    *,
    world_size: int | None = None,
    ended: Iterable[int] = (),
    files: Mapping[int, str] | None = None,
) -> StuckCollective | None:
    """The collective that keeps the ranks of ``dumps`` from going on, or None if none does.

    ``ended`` are ranks that are known to have ended well. ``files`` names the dump of each rank.

    1. In each group, find the first number under which ranks made different calls. Else find the first call that has
       not ended, and the ranks that never made it. Do likewise for each pair of sender and receiver.
    2. Different calls outrank a missing one. Of waits, take one whose missing rank waits for none: the others follow
       from it. If each of them waits, they wait in a circle; take the one with the fewest missing ranks.
    """
    world = tuple(range(world_size)) if world_size is not None else tuple(sorted(dumps))
    waits = [wait for group, members, calls in _groups(dumps, world) if (wait := _judged(group, members, calls, dumps))]
    waits += [wait for rank, dump in sorted(dumps.items()) for wait in _transfers(rank, dump, dumps)]
    if not waits:
        return None
    for wait in waits:
        for other in waits:
            for rank, call in other.waiting.items():
                if rank in wait.others and not (other is wait or call.done or wait.others[rank][0] in _MISMATCH):
                    wait.into[rank] = other.group, call
    best = min(waits, key=_order)
    newest = max((call.at_ns for dump in dumps.values() if (last := dump.last) for call in [last[1]]), default=0)
    return _finding(best, dumps, set(ended), files or {}, newest)


def _order(wait: _Wait) -> tuple[int, float, int]:
    if any(does in _MISMATCH for does, _ in wait.others.values()):
        return 0, 0.0, wait.since_ns
    if wait.suspects:
        # The nearest to those to blame: none but them is missing in it.
        return 1 + all(call.done for call in wait.waiting.values()), len(wait.into), wait.since_ns
    return 3, len(wait.others) / len(wait.waiting) if wait.others else 1e9, wait.since_ns


def _groups(
    dumps: Mapping[int, RankDump], world: tuple[int, ...]
) -> Iterator[tuple[ProcessGroup, tuple[int, ...], dict[int, Sequence[Call]]]]:
    """Each group with its members and their calls. Members that are not recorded are those that made a call."""
    groups: dict[tuple[str, tuple[int, ...]], tuple[ProcessGroup, dict[int, Sequence[Call]]]] = {}
    known: dict[str, set[tuple[int, ...]]] = {}
    for rank, dump in sorted(dumps.items()):
        for group, own in dump.calls.items():
            groups.setdefault((group.name, group.ranks), (group, {}))[1][rank] = own
            if group.ranks:
                known.setdefault(group.name, set()).add(group.ranks)
    for (name, ranks), (group, calls) in groups.items():
        same = known.get(name, set())
        if ranks or len(same) != 1:
            # A rank whose dump does not list the members belongs to the group of that name.
            _, unlisted = groups.get((name, ()), (group, {})) if ranks and len(same) == 1 else (group, {})
            made = {**{rank: each for rank, each in unlisted.items() if rank in ranks}, **calls}
            members = ranks or (world if group.is_default else tuple(sorted(made)))
            yield group, members, {rank: made.get(rank, ()) for rank in members if rank in dumps}


def _judged(group: ProcessGroup, members: tuple[int, ...], calls: Calls, dumps: Mapping[int, RankDump]) -> _Wait | None:
    numbered = {rank: {call.seq: call for call in each} for rank, each in calls.items()}
    return _at_odds(group, members, numbered) or _waited_for(group, members, numbered, dumps)


def _at_odds(group: ProcessGroup, members: tuple[int, ...], numbered: Mapping[int, Mapping[int, Call]]) -> _Wait | None:
    """The first number under which the ranks made different calls."""
    by_number: dict[int, dict[int, Call]] = {}
    for rank, calls in numbered.items():
        for number, call in calls.items():
            by_number.setdefault(number, {})[rank] = call
    for number in sorted(by_number):
        at = by_number[number]
        for does in _MISMATCH:
            tally = Counter(value for call in at.values() if (value := _compared(does, call)))
            if len(tally) < 2 or (does != OTHER and not _has_to_agree(at.values())):
                continue
            (usual, most), (_, next_most) = tally.most_common(2)
            waiting = {rank: call for rank, call in at.items() if _compared(does, call) == usual}
            others: dict[int, tuple[str, Call | None]] = {
                rank: (does, call) for rank, call in at.items() if _compared(does, call) not in {usual, ""}
            }
            return _Wait(group, members, next(iter(waiting.values())), waiting, others, undecided=most == next_most)
    return None


def _compared(does: str, call: Call) -> str:
    """What has to be the same; empty if the dump does not say."""
    return call.name if does == OTHER else (call.sizes if does == SIZES else call.dtypes).strip(" →")


def _has_to_agree(calls: Iterable[Call]) -> bool:
    """Whether different sizes are a mistake: the collective wants them alike, and not all ranks got past it."""
    calls = list(calls)
    return calls[0].name in _ALIKE and not all(call.done and call.nccl for call in calls)


def _waited_for(
    group: ProcessGroup,
    members: tuple[int, ...],
    numbered: Mapping[int, Mapping[int, Call]],
    dumps: Mapping[int, RankDump],
) -> _Wait | None:
    """The first call that some ranks wait in, and those that are not in it."""
    last = {rank: max(calls, default=0) for rank, calls in numbered.items()}
    undone = {
        rank: call
        for rank, calls in numbered.items()
        if (call := next((calls[number] for number in sorted(calls) if not calls[number].done), None)) is not None
    }
    if not undone and any(call.nccl for calls in numbered.values() for call in calls.values()):
        return None
    # The one in which most ranks are. Some get past it, as the source of a broadcast does, and some are still behind.
    tally = Counter(call.seq for call in undone.values())
    number = max(tally, key=lambda each: (tally[each], -each)) if tally else max(last.values(), default=0)
    behind = {rank: seq for rank, seq in last.items() if seq < number and not dumps[rank].fault}
    if not undone and not behind:
        return None
    waiting = {rank: call for rank, call in undone.items() if call.seq == number}
    waiting = waiting or {rank: calls[number] for rank, calls in numbered.items() if number in calls}
    others = _others(number, behind, undone, numbered)
    waiting = {rank: call for rank, call in waiting.items() if rank not in others}
    first = min(behind.values(), default=number) + 1
    if first < number and any(first in calls for calls in numbered.values()):
        number = first
    for rank in members:
        if rank not in waiting and rank not in others and (rank not in dumps or dumps[rank].fault):
            others[rank] = (NO_DUMP, None)
    shown = next((calls[number] for calls in numbered.values() if number in calls), next(iter(waiting.values())))
    return _Wait(group, members, shown, waiting, others)


def _others(
    number: int, behind: Mapping[int, int], undone: Mapping[int, Call], numbered: Mapping[int, Mapping[int, Call]]
) -> dict[int, tuple[str, Call | None]]:
    """What the ranks do that do not wait in the call ``number``: those that never made it, else those whose GPU has not
    begun it, else those that are past it."""
    found: dict[int, tuple[str, Call | None]] = {}
    for rank, seq in sorted(behind.items()):
        found[rank] = ABSENT, numbered[rank].get(seq)
    found.update(
        {rank: (NOT_STARTED, call) for rank, call in undone.items() if call.seq < number and rank not in found}
    )
    if found:
        return found
    idle = {rank: call for rank, call in undone.items() if call.nccl and call.seq == number and not call.started}
    if 0 < len(idle) < sum(call.seq == number for call in undone.values()):
        return {rank: (NOT_STARTED, call) for rank, call in idle.items()}
    past = {rank: calls[number] for rank, calls in numbered.items() if number in calls and calls[number].done}
    return {rank: (PAST, call) for rank, call in past.items()} if undone else {}


def _transfers(rank: int, dump: RankDump, dumps: Mapping[int, RankDump]) -> Iterator[_Wait]:
    """The first transfer of ``rank`` in each group that has not ended, if its other end did not begin it."""
    for group, calls in dump.transfers.items():
        call = next((call for call in calls if not call.done), None)
        found = None if call is None else P2P.search(call.name)
        if call is None or found is None:
            continue
        own, peer = (int(found[2]), int(found[3]))
        other_end = f"recv {peer}<-{own}" if found[1] == "send" else f"send {peer}->{own}"
        whose = group.ranks[peer] if peer < len(group.ranks) else peer
        met = [
            each
            for there, known in (dumps[whose].transfers.items() if whose in dumps else ())
            for each in known
            if there.name == group.name and each.name == other_end and not each.done
        ]
        if met:
            continue
        theirs = dumps[whose].last if whose in dumps else None
        does = (ABSENT if whose in dumps else NO_DUMP, None if theirs is None else theirs[1])
        yield _Wait(group, group.ranks or (own, peer), call, {rank: call}, {whose: does})


def _finding(
    wait: _Wait, dumps: Mapping[int, RankDump], ended: set[int], files: Mapping[int, str], newest_ns: int
) -> StuckCollective:
    suspects = wait.suspects
    circular = not suspects and bool(wait.into)
    root = None if wait.undecided else next(iter(suspects or sorted(wait.into)), None)
    if wait.is_alone:
        root = next(iter(wait.waiting))
    others: list[_Deed] = []
    for rank, (does, last) in sorted(wait.others.items()):
        if rank in wait.into:
            group, call = wait.into[rank]
            others.append((rank, OTHER, f"{_shown(call)} of {group.shown}", call))
        elif last is None and rank in dumps and (elsewhere := dumps[rank].last) is not None:
            group, call = elsewhere
            others.append((rank, LEFT if rank in ended else does, f"{_shown(call)} of {group.shown}", call))
        else:
            others.append((rank, LEFT if rank in ended else does, _shown(last) if last is not None else "", last))
    waiting: list[_Deed] = [(rank, WAITS, _shown(call), call) for rank, call in sorted(wait.waiting.items())]
    others.sort(key=lambda each: (each[0] not in suspects, each[1] == NO_DUMP, each[0]))
    late = any(
        call.timed_out or (call.nccl and 0 < call.limit_ns <= newest_ns - call.at_ns) for call in wait.waiting.values()
    )
    rows = [*_rows(others)[: ROWS_LIMIT - 2], *_rows(waiting)[:2]]
    return StuckCollective(
        f"{wait.call.name} #{wait.call.seq}" if not P2P.search(wait.call.name) else wait.call.name,
        wait.group.shown,
        len(wait.members),
        None if wait.since_ns >= 1 << 63 else _time(wait.since_ns),
        tuple(rows),
        root,
        open=not all(call.done for call in wait.waiting.values()),
        late=late,
        file=next((files[rank] for rank in (root, *wait.waiting) if rank is not None and rank in files), ""),
        circular=circular,
    )


def _rows(found: Iterable[_Deed]) -> list[RanksAlike]:
    alike: dict[tuple[str, str, str], list[tuple[int, Call | None]]] = {}
    for rank, does, about, call in found:
        alike.setdefault((does, about, call.frame if call is not None else ""), []).append((rank, call))
    rows = []
    for (does, about, frame), each in alike.items():
        ranks = [rank for rank, _ in each]
        times = [call.at_ns for _, call in each if call is not None and call.at_ns]
        since = _time(min(times)) if times else None
        rows.append(RanksAlike(ranges(ranks), len(ranks), does, about, since, frame, min(ranks)))
    return rows


def _shown(call: Call) -> str:
    number = "" if P2P.search(call.name) else f" #{call.seq}"
    sizes, types = (
        (one if one == other else f"{one} → {other}").strip(" →")
        for one, _, other in (call.sizes.partition(" → "), call.dtypes.partition(" → "))
    )
    return f"{call.name}{number} {sizes} {types}".strip()


def _time(at_ns: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(at_ns // 1_000_000_000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
