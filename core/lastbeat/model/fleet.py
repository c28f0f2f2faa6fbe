"""What one pass over a fleet covers, and what it found."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import ClassVar, Final

from lastbeat.model.alert import Message
from lastbeat.model.data import dataclass
from lastbeat.model.figures import Figures, HasFigures
from lastbeat.model.persisted import TRANSIENT, Form, UnixTime
from lastbeat.model.record import Transition
from lastbeat.model.status import Status

LINES_LIMIT = 100
"""The most runs that a report names; it counts all of them."""
FIGURES_LIMIT = 1000
"""The most runs whose figures a report has."""


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
    """One run in a pass report. ``UNKNOWN``: this pass could not observe it."""

    FORM: ClassVar[Form] = Form.ROW

    run_id: str
    status: Status
    reason: str = ""
    cause: str | None = None
    action: str | None = None
    conditions: tuple[str, ...] = ()
    since: UnixTime | None = None
    attempt: int = 1
    owner: str | None = field(default=None, metadata=TRANSIENT)
    """Whose run it is, as it says. The index keeps it apart, since few runs have one."""
    looked_at: datetime | None = field(default=None, metadata=TRANSIENT)
    """When the conditions were found; None for a run without any."""


@dataclass(frozen=True, slots=True)
class RunFigures(HasFigures):
    """One run in numbers, as a pass knows it. What is not known, or was not read by this process yet, is None."""

    line: RunLine
    beat_age_s: float | None = None
    """Age in s of the last heartbeat, by the store's clock, at the last check of the run; None if this pass could not
    observe it."""
    figures: Figures = field(default_factory=Figures)
    step_at: datetime | None = None
    """When the document with step and loss was stored. A pass need not read it again."""
    pending: int = 0
    """Deliveries that still have to go out."""


@dataclass(frozen=True, slots=True)
class PlannedAlert:
    """What a dry pass would send."""

    message: Message
    channels: tuple[str, ...]
    """Identities of the channels that would get it."""
    transitions: int = 1
    """How many alerts of runs it stands for: a notice of a group for many."""


@dataclass(frozen=True)
class PassReport:
    """What one pass did."""

    at: datetime
    """When it began, by the store's clock, or by this host's while that cannot be read."""
    seconds: float = 0.0
    blind: str | None = None
    """Why the fleet could not be observed at all; then nothing below counts."""
    advice: str = ""
    complete: bool = True
    """False: time ran out, and the next pass continues here."""
    plan: str = "list"
    """``list``: everything was listed; ``probe``: the runs that are known to be active were asked one by one."""
    statuses: Mapping[str, int] = field(default_factory=dict)
    """Status → runs that have it, of those that run or ended within a day; ``RUNNING (WARNING)`` is counted apart."""
    finished: int = 0
    """Runs that ended earlier, which are no longer looked at."""
    looked: int = 0
    """Runs whose evidence this pass read and judged. The others had not changed."""
    transitions: tuple[tuple[str, Transition], ...] = ()
    """Run id and transition, as decided by this pass."""
    lines: tuple[RunLine, ...] = ()
    """At most :data:`LINES_LIMIT` runs, those that need attention first."""
    figures: tuple[RunFigures, ...] = ()
    """At most :data:`FIGURES_LIMIT` runs, those that need attention first."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Run id → why it could not be observed, at most :data:`LINES_LIMIT`."""
    unreadable_count: int = 0
    ignored: tuple[str, ...] = ()
    """Folders whose names no run may have, at most ten."""
    unrecorded: int = 0
    """Runs whose decision could not be recorded, so their alerts are outstanding."""
    sent: int = 0
    """Deliveries of this pass."""
    failed: int = 0
    """Deliveries that failed in this pass."""
    pending: int = 0
    """Deliveries that still have to go out."""
    requests: Mapping[str, int] = field(default_factory=dict)
    """Requests to the store: ``LIST``, ``GET``, ``PUT``, ``DELETE`` → how many."""
    oldest_observation_s: float = 0.0
    """Age of the oldest look that any run's known status rests on."""
    notes: tuple[str, ...] = ()
    """Remarks on the watching itself."""
    would_send: tuple[PlannedAlert, ...] | None = None
    """The alerts that a dry pass would send; None for any other pass."""

    @property
    def exit_status(self) -> int:
        """By the convention of monitoring plug-ins: that of the worst run."""
        counts = self.statuses
        if self.blind is not None:
            return 3
        if any(counts.get(status.value) for status in (Status.FAILED, Status.TIMED_OUT, Status.CANCELLED)):
            return 2
        if self.unreadable_count:
            return 3
        ended_badly = any(line.conditions and line.status is Status.SUCCEEDED for line in self.lines)
        warned = counts.get("RUNNING (WARNING)") or counts.get(Status.PREEMPTED.value)
        return 1 if warned or ended_badly else 0
