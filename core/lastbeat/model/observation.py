"""What was seen of a run at one instant. "Could not see" is a type of its own, never an empty value."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from lastbeat.model.cause import NOTHING, Explanation
from lastbeat.model.curve import Curve
from lastbeat.model.data import dataclass
from lastbeat.model.health import HealthCondition
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.job import JobSight
from lastbeat.model.log_report import LogReport
from lastbeat.model.preemption import Preemption
from lastbeat.model.raised_alert import RaisedAlert
from lastbeat.model.stop_request import StopRequest

_LOG_NOTES = 3


@dataclass(frozen=True, slots=True)
class IllNode:
    """The node of one rank, from ranks/N.health. ``host`` is hostile text."""

    rank: int
    modified: datetime
    """The store's ``LastModified``."""
    host: str | None
    attempt: int | None
    conditions: tuple[HealthCondition, ...]


@dataclass(frozen=True, slots=True)
class RankFiles:
    """The files of a run's ranks, as a listing shows them."""

    beats: Mapping[int, datetime] = field(default_factory=dict)
    """Rank → when its heartbeat was stored."""
    late: Mapping[int, datetime] = field(default_factory=dict)
    """Rank → since when it says that it has been in a section for too long."""
    health: Mapping[int, datetime] = field(default_factory=dict)
    """Rank → when it last said that something about its node is worth a warning."""


@dataclass(frozen=True, slots=True)
class RanksLookedAt:
    """What a look saw of a run's ranks: times from the listing, and the text of those few that seem silent or late."""

    files: RankFiles
    limit_s: float
    """The age of its last heartbeat, in s, at which a rank seems silent."""
    read: Mapping[int, Heartbeat] = field(default_factory=dict)
    """Rank → its heartbeat, of those that were read."""
    ill: tuple[IllNode, ...] = ()
    """Nodes of other ranks than 0 that are not well."""
    ill_left: bool = False
    """More nodes say so than could be read yet."""
    unread: bool = False
    """The store did not give what was asked for of one of them, at least."""
    denied: bool = False
    """This watcher may not read one of them, at least, and never will."""


@dataclass(frozen=True, slots=True)
class RanksSeen:
    """The ranks of one attempt, as far as they were read."""

    ranks: Mapping[int, Heartbeat] = field(default_factory=dict)
    """Rank → its heartbeat."""
    left_out: int = 0
    """Number of further ranks that have written and were not read."""
    world_size: int | None = None
    began: datetime | None = None
    """When the attempt began, by the store's clock."""


@dataclass(frozen=True)
class Sentinel:
    """A file that says how training ended. ``text`` is hostile, bounded and may be empty."""

    modified: datetime
    version: str
    size_bytes: int
    text: str = ""
    fault: str | None = None
    """Why ``text`` could not be read. The sentinel's existence still counts."""


@dataclass(frozen=True)
class PreemptedSentinel(Sentinel):
    """``_preempted``, without its text."""

    said: Preemption | None = None
    """Its content; None if it was not read."""


@dataclass(frozen=True)
class StopAsked:
    """``_stop``: a request to end the run."""

    modified: datetime
    request: StopRequest


@dataclass(frozen=True)
class RaisedDocument:
    """``_alerts.json``: its text is hostile and bounded."""

    modified: datetime
    version: str
    alerts: tuple[RaisedAlert, ...] = ()


@dataclass(frozen=True)
class LogFile:
    """A log file as the listing shows it. Its text is read only when needed."""

    modified: datetime
    version: str
    size_bytes: int


@dataclass(frozen=True)
class Seen:
    """The run has at least one of its files."""

    metadata: Heartbeat | None = None
    progress: Heartbeat | None = None
    error: Sentinel | None = None
    complete: Sentinel | None = None
    preempted: PreemptedSentinel | None = None
    stop: StopAsked | None = None
    """Looked at only where there is an error, training was preempted, or its job has ended."""
    raised: RaisedDocument | None = None
    """What training has raised itself. None: nothing, or it was not looked at."""
    log: LogFile | None = None
    stacks: LogFile | None = None
    """``logs/stacks.txt``, which exists while training hangs."""
    logs: LogReport | None = None
    """What the logs say. None: none were read, which proves nothing."""
    job: JobSight | None = None
    """Its job, as the launcher reports it; None if the launcher was not asked."""
    ranks: RanksLookedAt | None = None
    """Its ranks. None: this look was not shown their files."""
    curve: Curve = Curve()
    """Its latest points: those of progress.json, else those that this watcher has seen."""

    @property
    def end(self) -> Sentinel | None:
        """The sentinel that counts: an error outranks a success, and either a preemption."""
        return self.error or self.complete or self.preempted

    @property
    def knows_step(self) -> Heartbeat | None:
        """The source of the step: progress.json, else a metadata.json with one, else the logs."""
        found = (beat for beat in (self.progress, self.metadata, self._from_logs) if beat is not None)
        return next((beat for beat in found if beat.step is not None or beat.loss is not None), None)

    @property
    def explanation(self) -> Explanation:
        """What the logs say of the cause; nothing if none were read."""
        return self.logs.explanation if self.logs is not None else NOTHING

    @property
    def log_notes(self) -> tuple[str, ...]:
        """Remarks on the reading of the logs; few."""
        return self.logs.notes[:_LOG_NOTES] if self.logs is not None else ()

    @property
    def _from_logs(self) -> Heartbeat | None:
        logs = self.logs
        at = None if logs is None else logs.progress_at or logs.written_at
        if logs is None or at is None:
            return None
        return Heartbeat(
            at,
            "",
            step=logs.step,
            total_steps=logs.total_steps,
            loss=logs.loss,
            not_finite_since=logs.not_finite_since,
        )


@dataclass(frozen=True)
class NeverSeen:
    """The store answered, and none of the run's files is there."""


@dataclass(frozen=True)
class Unreadable:
    """The store could not be read. Nothing follows about the run."""

    reason: str
    """What went wrong and where, in one line without secrets."""
    advice: str = ""
    """What to do about it."""


Observation = Seen | NeverSeen | Unreadable
