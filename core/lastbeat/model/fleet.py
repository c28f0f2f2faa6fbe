"""What one pass over a fleet was told to do, and what it found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final

from lastbeat.model.persisted import Form, UnixTime
from lastbeat.model.record import Transition
from lastbeat.model.status import Status

LINES_LIMIT = 100
"""How many runs a report names; it counts all of them."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a fleet by the order of run ids: those after ``after`` up to and including ``until``; empty is open."""

    after: str = ""
    until: str = ""

    def holds(self, run_id: str) -> bool:
        """Whether the run belongs to this part."""
        place = f"{run_id}/"
        return place > f"{self.after}/" * bool(self.after) and (not self.until or place <= f"{self.until}/")


WHOLE: Final = Shard()
"""All of a fleet."""


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run as a pass knows it. ``UNKNOWN``: this pass could not observe it."""

    FORM: ClassVar[Form] = Form.ROW

    run_id: str
    status: Status
    reason: str = ""
    cause: str | None = None
    action: str | None = None
    conditions: tuple[str, ...] = ()
    since: UnixTime | None = None
    attempt: int = 1


@dataclass(frozen=True)
class PassReport:
    """What one pass did."""

    at: datetime
    """When it began, by the store's clock; by ours while that cannot be asked."""
    seconds: float = 0.0
    blind: str | None = None
    """Why the fleet could not be seen at all; then everything below says nothing."""
    advice: str = ""
    complete: bool = True
    """False: the time ran out, and the next pass goes on where this one was."""
    plan: str = "list"
    """``list``: everything was listed; ``probe``: the runs that are known to be active were asked one by one."""
    statuses: Mapping[str, int] = field(default_factory=dict)
    """Status → runs that have it, of those that run or ended within a day; ``RUNNING (WARNING)`` is counted apart."""
    finished: int = 0
    """Older ones, which nothing is asked about any more."""
    looked: int = 0
    """Runs whose evidence was read and judged in this pass; of the others it was enough that nothing had changed."""
    transitions: tuple[tuple[str, Transition], ...] = ()
    """Run id and transition, of those that this pass decided."""
    lines: tuple[RunLine, ...] = ()
    """At most :data:`LINES_LIMIT` runs, those that need people first."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Run id → why it could not be observed, at most :data:`LINES_LIMIT`."""
    unreadable_count: int = 0
    ignored: tuple[str, ...] = ()
    """Folders whose names no run may have, at most ten."""
    unrecorded: int = 0
    """Runs whose decision could not be written down, so that its alerts are still to come."""
    sent: int = 0
    """Deliveries of this pass."""
    failed: int = 0
    """Deliveries that this pass tried in vain."""
    pending: int = 0
    """Deliveries that still have to go out."""
    requests: Mapping[str, int] = field(default_factory=dict)
    """What the store was asked: ``LIST``, ``GET``, ``PUT``, ``DELETE`` → how often."""
    oldest_observation_s: float = 0.0
    """Age of the oldest look that a run's known status rests on."""
    notes: tuple[str, ...] = ()
    """What people must know about the watching itself."""

    @property
    def exit_status(self) -> int:
        """By the convention of monitoring plug-ins, as for one run: the worst there is."""
        counts = self.statuses
        if self.blind is not None:
            return 3
        if counts.get(Status.FAILED.value) or counts.get(Status.TIMED_OUT.value):
            return 2
        if self.unreadable_count:
            return 3
        return 1 if counts.get("RUNNING (WARNING)") else 0
