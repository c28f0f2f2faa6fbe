"""What was seen of a run at one instant. "Could not see" is a type of its own, never an empty value."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from lastbeat.model.data import dataclass
from lastbeat.model.health import HealthCondition
from lastbeat.model.in_place import InPlace
from lastbeat.model.job import JobSight
from lastbeat.model.log_report import LogReport
from lastbeat.model.preemption import Preemption
from lastbeat.model.raised_alert import RaisedAlert
from lastbeat.model.rerun import RerunReport
from lastbeat.model.stop_request import StopRequest
from lastbeat.model.stragglers_told import StragglersTold

_LOG_NOTES = 3


@dataclass(frozen=True, slots=True)
class OpenSection:
    """A section that training was in when it wrote a heartbeat, as that says. ``name`` is hostile text."""

    name: str | None
    """None: in no section."""
    open_s: float
    """For how long, by its monotonic clock."""
    limit_s: float | None = None
    """For how long it may be."""
    usual_s: float | None = None
    """How long it usually takes at most, where its limit was learned."""
    awaited_s: float | None = None
    """For so long other ranks may wait for it, where its limit is yet to be learned."""


@dataclass(frozen=True, slots=True)
class LeftSection:
    """A section that training had left when it wrote a heartbeat, as that says."""

    took_s: float
    """How long it lasted, by training's monotonic clock."""
    ago_s: float
    """How long it had been left by then."""
    limit_s: float
    """For how long it might last."""


@dataclass(frozen=True)
class Heartbeat:
    """One heartbeat document as it lay in the store."""

    modified: datetime
    """The store's ``LastModified``."""
    version: str
    """The store's token for this content (an ETag)."""
    own_time: datetime | None = None
    """The document's own timestamp, by the clock of the training instance."""
    zoned: bool = True
    """The timestamp names its zone or is an epoch number. Otherwise it was read as UTC."""
    clock_offset_s: float | None = None
    """How far the store's clock is ahead of the instance's, as the document says."""
    beat_s: float | None = None
    """How often it is written, in seconds, as it says."""
    longest_gap_s: float | None = None
    """The longest time between two of them so far in this attempt, as it says."""
    stale_s: float | None = None
    """The run's own limit for silence, in seconds."""
    stall_s: float | None = None
    """The run's own limit for standing still, in seconds."""
    fault: str | None = None
    """Why the document could not be parsed. It still counts as a heartbeat at ``modified``."""

    phase: str | None = None
    instance_id: str | None = None
    zone: str | None = None
    instance_type: str | None = None
    host: str | None = None
    start_time: datetime | None = None
    attempt: int | None = None
    owner: str | None = None
    """Whose run it is, as it says."""
    team: str | None = None
    thread_error: str | None = None
    """The exception that ended a thread of training. By itself it does not end the run."""

    world_size: int | None = None
    """How many ranks a distributed training has, as it says."""
    rank_beat_s: float | None = None
    """How often each of them writes its own heartbeat, in seconds, as it says."""

    sections: tuple[OpenSection, ...] = ()
    """What training was in."""
    left_sections: tuple[LeftSection, ...] = ()
    """What else it was in lately, for seconds and more."""
    stragglers: StragglersTold | None = None
    """Which of its ranks are slow, as it says. None: nothing looks for that, or has not yet."""
    health: tuple[HealthCondition, ...] | None = None
    """What its node says of itself. None: it says nothing."""
    in_place: InPlace | None = None
    """Who has started it ends it when it hangs, and starts it again in its place, as it says."""
    rerun: RerunReport | None = None
    """What re-runs of its steps have shown, as it says."""

    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    """May be NaN or infinite: the document said so."""
    not_finite_since: int | None = None
    """The step since which the loss has been NaN or infinite, as far as the document's latest points tell."""
    first_point: tuple[datetime, int] | None = None
    """The first of its points: time by the instance's clock, and step."""
    step_reached_at: datetime | None = None
    """When training reached ``step``, by the instance's clock. None: its newest points do not tell."""

    @property
    def stood_s(self) -> float:
        """Seconds that training had been at ``step`` when it wrote this, by its own clock; 0 where that is unknown."""
        # Points are in Unix time. A naive own time may be local time, and their difference then says nothing.
        if self.step_reached_at is None or self.own_time is None or not self.zoned:
            return 0.0
        return max(0.0, (self.own_time - self.step_reached_at).total_seconds())


@dataclass(frozen=True, slots=True)
class RankBeat:
    """One rank's heartbeat, as ranks/{rank}.json tells. ``host`` and ``status`` are hostile text."""

    number: int
    modified: datetime
    """The store's ``LastModified``."""
    step: int | None = None
    host: str | None = None
    status: str | None = None
    beat_s: float | None = None
    """How often it is written, in seconds, as it says."""

    attempt: int | None = None
    """Of the run, as it says."""
    sections: tuple[OpenSection, ...] = ()
    """What it was in."""


@dataclass(frozen=True, slots=True)
class IllNode:
    """The node of one rank, as ranks/N.health tells of it. ``host`` is hostile text."""

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
    read: tuple[RankBeat, ...] = ()
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

    ranks: tuple[RankBeat, ...] = ()
    left_out: int = 0
    """So many more have written and were not read."""
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
    """None: nobody has read it."""


@dataclass(frozen=True)
class StopAsked:
    """``_stop``: somebody asked for the run's end."""

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
    """Its job, as the launcher tells of it. None: nobody asked."""
    ranks: RanksLookedAt | None = None
    """Its ranks. None: this look was not shown their files."""

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
