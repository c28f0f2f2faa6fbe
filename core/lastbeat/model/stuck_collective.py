"""The collective in which ranks wait for others, as their flight recorders show it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Persisted
from lastbeat.model.text import counted

ROWS_LIMIT = 8
"""Most rows of the table of ranks."""
_RANGES = 6
"""Most ranges of ranks that are named."""

WAITS = "waits"
ABSENT = "never joined"
OTHER = "joined another"
SIZES = "other sizes"
DTYPES = "other types"
NOT_STARTED = "not started on its GPU"
PAST = "finished it and went on"
LEFT = "finished and left"
NO_DUMP = "no dump"


def ranges(ranks: Sequence[int]) -> str:
    """``0-4, 6, 7``."""
    found: list[list[int]] = []
    for rank in sorted(ranks):
        if found and rank == found[-1][1] + 1:
            found[-1][1] = rank
        else:
            found.append([rank, rank])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in found[:_RANGES]]
    return ", ".join([*shown, *(["…"] if len(found) > _RANGES else [])])


@dataclass(frozen=True)
class RanksAlike(Persisted):
    """Ranks that do the same: a row of the table. Its texts from dumps are hostile."""

    ranks: str
    """``0-4, 6``."""
    count: int
    does: str
    """:data:`WAITS`, :data:`ABSENT`, …"""
    call: str = ""
    """The call in which they wait, or their last one: ``all_reduce #4182 [4096] → [4096]``."""
    since: datetime | None = None
    """When the first of them made that call."""
    frame: str = ""
    """Where they made it: ``train.py:88 in step``. Empty: unknown."""
    first: int = 0
    """The lowest rank."""
    host: str | None = None
    """The host of :attr:`first`, if known."""

    @property
    def name(self) -> str:
        """``rank 5 on h100-3``, ``ranks 0-4, 6``."""
        if self.count > 1:
            return f"ranks {self.ranks}"
        return f"rank {self.first}{f' on {self.host}' if self.host else ''}"


@dataclass(frozen=True)
class StuckCollective(Persisted):
    """Who waits in which collective, and what the others did instead."""

    call: str
    """``all_reduce #4182``."""
    group: str
    """``tp (1)``."""
    size: int
    """How many ranks the group has, as far as known."""
    since: datetime | None
    """Since when the first rank waits."""
    rows: tuple[RanksAlike, ...] = field(default=())
    """Who has to be looked at first, then who waits; at most :data:`ROWS_LIMIT`."""
    root: int | None = None
    """The rank that keeps the others waiting. None: the dumps do not tell which."""
    open: bool = True
    """Whether a call has not ended yet, so that ranks wait indeed."""
    late: bool = False
    """Whether NCCL's time limit for the call is over."""
    file: str = ""
    """The dump that shows it."""
    circular: bool = False
    """Whether the ranks to look at wait for others themselves."""

    @property
    def culprits(self) -> tuple[RanksAlike, ...]:
        """The rows of ranks that do not wait in it."""
        return tuple(row for row in self.rows if row.does != WAITS)

    @property
    def root_host(self) -> str | None:
        return next((row.host for row in self.rows if row.first == self.root), None)

    @property
    def sentence(self) -> str:
        """``all_reduce #4182 of group tp (1): rank 5 on h100-3 never joined; ranks 0-4, 6 wait since 12:03:14 UTC``."""
        since = f" since {self.since:%H:%M:%S} UTC" if self.since is not None else ""
        who = [f"{row.name} {_verb(row)}" for row in self.culprits[:3]]
        left = len(self.culprits) - len(who)
        who += [f"{counted(left, 'other group')} of ranks differ" if left > 1 else "others differ"] if left > 0 else []
        waiting = next((row for row in self.rows if row.does == WAITS), None)
        count = sum(row.count for row in self.rows if row.does == WAITS)
        if waiting is not None:
            one = waiting.name if count == waiting.count else counted(count, "rank")
            who.append(f"{one} {'waits' if count == 1 else 'wait'}{since}")
        if not self.culprits:
            who.append("all of them joined, and it does not end: look at the network and at the GPUs")
        return f"{self.call} of group {self.group}: {'; '.join(who)}"

    @property
    def places(self) -> str:
        """``rank 5 was last at data.py:12 in load (all_gather #77, 12:03:10); ranks 0-4, 6 wait at train.py:88 in
        step``; empty if no frame is known."""
        return "; ".join(filter(None, map(_place, (*self.culprits[:2], *self._waiting[:2]))))

    @property
    def _waiting(self) -> tuple[RanksAlike, ...]:
        return tuple(row for row in self.rows if row.does == WAITS)

    def masked(self, mask: Callable[[str], str]) -> "StuckCollective":
        """A copy with ``mask`` applied to what comes from training."""
        rows = tuple(
            replace(
                row,
                call=mask(row.call),
                frame=mask(row.frame),
                host=None if row.host is None else mask(row.host),
            )
            for row in self.rows[:ROWS_LIMIT]
        )
        return replace(self, call=mask(self.call), group=mask(self.group), file=mask(self.file), rows=rows)

    def located(self, hosts: Mapping[int, str]) -> "StuckCollective":
        """A copy in which rows have these hosts, by rank."""
        rows = tuple(replace(row, host=hosts.get(row.first, row.host)) for row in self.rows)
        return replace(self, rows=rows)


def _verb(row: RanksAlike) -> str:
    several = row.count > 1
    if row.does == OTHER:
        return f"joined {row.call} instead"
    if row.does in {SIZES, DTYPES}:
        return f"joined with {row.does} ({row.call.partition(' ')[2].partition(' ')[2] or row.call})"
    if row.does == NO_DUMP:
        return "left no dump"
    if row.does == NOT_STARTED:
        return f"{'have' if several else 'has'} not started it on {'their GPUs' if several else 'its GPU'}"
    return row.does


def _place(row: RanksAlike) -> str:
    if not row.frame:
        return ""
    if row.does == WAITS:
        return f"{row.name} {'wait' if row.count > 1 else 'waits'} at {row.frame}"
    at = f", {row.since:%H:%M:%S}" if row.since is not None else ""
    last = f" ({row.call.partition(' [')[0]}{at})" if row.call else ""
    return f"{row.name} {'were' if row.count > 1 else 'was'} last at {row.frame}{last}"
