"""Runs that time out together: the members of each group, and the notices sent about it.

The *ledger* decides for each deferred alert whether it is sent alone or told by a group. It is changed by
compare-and-set, so two sweeps never decide on the same alert twice. It is a record with an outbox of its own.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import Enum
from typing import ClassVar, Final

from lastbeat.model.alert import Message
from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Form, Persisted
from lastbeat.model.record import Record
from lastbeat.model.status import Event

LEDGER: Final = "_watchdog/groups.json"
"""Its key, beside the runs."""
LEDGER_ID: Final = "_groups"
"""In a group's alerts it takes the place of the run id. No run can have it."""

FACTS: Final = ("Instance type", "Zone", "Host", "Phase", "Reason")
"""What runs may have in common, in the order in which alerts list it."""


@dataclass(frozen=True, slots=True)
class DeferredAlert:
    """An alert of one run that waits until it is known whether a group tells it."""

    run_id: str
    number: int
    """The alert's number in the run's record."""
    event: Event
    message: Message
    facts: Mapping[str, str] = field(default_factory=dict)
    """The known ones of :data:`FACTS`."""
    found_ended: bool = False
    """As of :class:`lastbeat.model.alert.Alert`."""
    holds_up: bool = False
    """A newer alert of the run, which no group tells, waits for this one."""


class MemberState(str, Enum):
    """What became of a member of a group."""

    OUT = "out"
    """Still timed out."""
    BACK = "back"
    """It recovered."""
    LEFT = "left"
    """It ended, or came back without an alert."""


@dataclass(frozen=True)
class Member(Persisted):
    """One run in a group. Numbers are those of the alerts in the run's record."""

    FORM: ClassVar = Form.ROW

    state: MemberState = MemberState.OUT
    waiting: tuple[int, ...] = ()
    """TIMED_OUT alerts for the next notice."""
    back: tuple[int, ...] = ()
    """RECOVERED alerts for the next notice."""
    told: Mapping[int, int] = field(default_factory=dict)
    """Number of the run's alert → number of the notice that told it. The latest few."""


@dataclass(frozen=True)
class Group(Persisted):
    """Runs that timed out together."""

    number: int
    opened_at: datetime
    grew_at: datetime
    told_at: datetime | None = None
    """When the last notice was decided."""
    closed_at: datetime | None = None
    members: Mapping[str, Member] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Fact → value → how many members had it when they joined; the most frequent ones."""
    having: Mapping[str, int] = field(default_factory=dict)
    """Fact → how many members had any value."""

    @property
    def out(self) -> tuple[str, ...]:
        """The members that are still timed out."""
        return tuple(run_id for run_id, member in self.members.items() if member.state is MemberState.OUT)


@dataclass(frozen=True)
class SingleTimeout(Persisted):
    """A time-out that got an alert of its own. It counts towards opening a group with later ones."""

    FORM: ClassVar = Form.ROW

    run_id: str
    number: int
    at: datetime
    back: bool = False


@dataclass(frozen=True)
class FirstLook(Persisted):
    """The first look at a fleet without a watcher so far. It may take several passes."""

    began_at: datetime
    closed_at: datetime | None = None
    """When a pass came to its end."""
    told: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Run id → number of its alert → number of the notice that told it. Kept for a while."""


@dataclass(frozen=True)
class Ledger(Record):
    """The groups of a fleet, and the outbox of their notices."""

    opened: int = 0
    """Number of the last group."""
    groups: tuple[Group, ...] = ()
    """Open groups, and closed ones for a while."""
    alone: tuple[SingleTimeout, ...] = ()
    first_look: FirstLook | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """One alert of a group: TIMED_OUT for runs that timed out, RECOVERED for those that came back."""

    number: int
    """Number of its alert in the ledger."""
    event: Event
    runs: tuple[str, ...]
    """The runs it tells about."""
    out: tuple[str, ...]
    """The members that are timed out now."""
    size: int
    """How many members the group has had."""
    opened_at: datetime
    first: bool = False
    repeated: bool = False
    """Nothing is new: a reminder."""
    earlier: int = 0
    """Members that had alerts of their own before the group was opened."""
    shared: Mapping[str, str] = field(default_factory=dict)
    group: int = 0
    """Number of the group."""
