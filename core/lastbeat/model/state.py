"""What a run is: its status, and why. Verdict, record and outcome pass it on as one value."""

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar

from lastbeat.model.cause import Cause, MissingRanks
from lastbeat.model.data import dataclass
from lastbeat.model.persisted import FLAT, Form, Persisted
from lastbeat.model.similar import SimilarFailure
from lastbeat.model.status import Status
from lastbeat.model.stuck_collective import StuckCollective


@dataclass(frozen=True)
class RecordedCause(Persisted):
    """The cause of a failure or a silence, as alerts gave it."""

    cause: Cause = field(metadata=FLAT)
    also_seen: tuple[str, ...] = ()
    """Downstream errors and other candidates, a line each; few."""
    similar: SimilarFailure | None = None
    """The latest earlier failure of the same cause. None: none was known."""
    second: Cause | None = None
    """What it may be as well, where it is undecided which of the two, see ``model.cause.UNDECIDED``."""
    missing: MissingRanks | None = None
    """The ranks to look at, if the cause is a timeout that all others report."""
    stuck: StuckCollective | None = None
    """The collective in which ranks wait, if flight recorders show the cause."""


@dataclass(frozen=True)
class State:
    """The status of a run, and why it has it."""

    status: Status
    reason: str = ""
    cause: str | None = None
    """Error type."""
    action: str | None = None
    """What people can do about it."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Condition name → what was seen, for people."""
    explained: RecordedCause | None = None
    """``cause`` and ``action`` of the present status with their evidence."""

    @property
    def why(self) -> str:
        """Why the run is worth a look: what its conditions say while it is RUNNING, else the reason."""
        return "; ".join(self.conditions.values()) if self.status is Status.RUNNING else self.reason


@dataclass(frozen=True)
class ShownState:
    """A state in texts that are fit to be shown, with its conditions' names alone."""

    FORM: ClassVar = Form.SPARSE

    status: Status
    reason: str = ""
    """As of :attr:`State.why`."""
    cause: str | None = None
    action: str | None = None
    conditions: tuple[str, ...] = ()


class _HasEither:
    """Base of what holds a state in either form: the fields that both have, under their own names."""

    __slots__ = ()
    state: State | ShownState

    @property
    def status(self) -> Status:
        return self.state.status

    @property
    def reason(self) -> str:
        return self.state.reason

    @property
    def cause(self) -> str | None:
        return self.state.cause

    @property
    def action(self) -> str | None:
        return self.state.action


class HasState(_HasEither):
    """Base of what holds a :class:`State`."""

    __slots__ = ()
    state: State

    @property
    def conditions(self) -> Mapping[str, str]:
        return self.state.conditions

    @property
    def explained(self) -> RecordedCause | None:
        return self.state.explained


class HasShownState(_HasEither):
    """Base of what holds a :class:`ShownState`."""

    __slots__ = ()
    state: ShownState

    @property
    def conditions(self) -> tuple[str, ...]:
        return self.state.conditions
