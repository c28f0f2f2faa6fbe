"""Runs that time out together: who belongs to which group, and what people have been told of each.

The *ledger* is the one place where each held alert is given away, to be sent alone or told by a group: it is changed
by compare-and-set, so two sweeps never give away the same alert twice. It is a record with an outbox of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import ClassVar, Final

from lastbeat.model.alert import Message
from lastbeat.model.persisted import Form, Persisted
from lastbeat.model.record import Record
from lastbeat.model.status import Event

LEDGER: Final = "_watchdog/groups.json"
"""Where it lies, beside the runs."""
LEDGER_ID: Final = "_groups"
"""Stands in a group's alerts where the run id stands in others; no run can have it."""

FACTS: Final = ("Instance type", "Zone", "Host", "Phase", "Reason")
"""What runs may have in common, in the order in which people are told."""


@dataclass(frozen=True, slots=True)
class DeferredAlert:
    """An alert of one run that no pass sends until it is known whether a group tells it."""

    run_id: str
    number: int
    """The alert's number in the run's record."""
    event: Event
    message: Message
    facts: Mapping[str, str] = field(default_factory=dict)
    """Of :data:`FACTS`, those that are known."""


class State(str, Enum):
    """What a member of a group is now."""

    OUT = "out"
    """Still timed out."""
    BACK = "back"
    """It recovered."""
    LEFT = "left"
    """It ended, or came back without anybody having to be told."""


@dataclass(frozen=True)
class Member(Persisted):
    """One run in a group. Numbers are those of the alerts in the run's record."""

    FORM: ClassVar = Form.ROW

    state: State = State.OUT
    waiting: tuple[int, ...] = ()
    """TIMED_OUT alerts that the next notice tells."""
    back: tuple[int, ...] = ()
    """RECOVERED alerts that the next notice tells."""
    told: Mapping[int, int] = field(default_factory=dict)
    """Number of the run's alert → number of the notice that told it; the latest few."""


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
        """The members that still are timed out."""
        return tuple(run_id for run_id, member in self.members.items() if member.state is State.OUT)


@dataclass(frozen=True)
class Alone(Persisted):
    """A time-out that was told by itself. It counts when the next ones are counted."""

    FORM: ClassVar = Form.ROW

    run_id: str
    number: int
    at: datetime
    back: bool = False


@dataclass(frozen=True)
class Ledger(Record):
    """The groups of a fleet, and the outbox of their notices."""

    opened: int = 0
    """Number of the last group."""
    groups: tuple[Group, ...] = ()
    """Those that are open, and for a while those that were."""
    alone: tuple[Alone, ...] = ()


@dataclass(frozen=True, slots=True)
class Notice:
    """One alert of a group: TIMED_OUT for those that went out, RECOVERED for those that came back."""

    number: int
    """Of the alert in the ledger."""
    event: Event
    runs: tuple[str, ...]
    """Those that this notice tells of."""
    out: tuple[str, ...]
    """Those that are timed out now."""
    size: int
    """All members that the group has had."""
    opened_at: datetime
    first: bool = False
    repeated: bool = False
    """Nothing is new: it only still is so."""
    earlier: int = 0
    """Members that had been told of one by one before it was known that they are many."""
    shared: Mapping[str, str] = field(default_factory=dict)
