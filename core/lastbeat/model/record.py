"""The record: the watchdog's whole memory of one run, a small versioned document beside the run's evidence."""

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from enum import Enum

from lastbeat.model.action import Action
from lastbeat.model.alert import Alert
from lastbeat.model.data import dataclass
from lastbeat.model.job import JobMemory
from lastbeat.model.persisted import FLAT, OMITTED, Persisted
from lastbeat.model.reaction import ReactionMemory
from lastbeat.model.restart import (
    FoundCheckpoint,
    LeaseHolder,
    RestartEntry,
    RestartRequest,
    RestartRuling,
    Supervision,
)
from lastbeat.model.state import RecordedCause, State
from lastbeat.model.status import Status
from lastbeat.model.times import format_time
from lastbeat.model.timesheet import Timesheet

SCHEMA = 1


@dataclass(frozen=True)
class Attempt(Persisted):
    """One life of a run. A restart begins the next."""

    number: int = 1
    start_time: datetime | None = None
    """From the run's metadata, by the instance's clock."""
    start_skew_s: tuple[float, float] | None = None
    """How far the store's clock was ahead of the instance's at the start: least and most. None: not known yet. It does
    not change if the clock jumps later."""
    declared: int | None = None
    """The number in the run's metadata, if any."""
    earlier_starts: tuple[datetime, ...] = ()
    """Start times of earlier attempts: a document with one of them is a leftover."""
    spent: tuple[str, ...] = ()
    """Tokens of files from earlier attempts, which say nothing about this one."""
    job: str | None = None
    """The life of the supervised job that it is, see ``JobMemory.key``."""
    begun_at: datetime | None = None
    """When that job was submitted, by the store's clock: no file that is older belongs to it."""

    @property
    def began_at(self) -> datetime | None:
        """When it began, by the store's clock; None if unknown."""
        if self.start_time is None:
            return None
        return self.start_time + timedelta(seconds=(self.start_skew_s or (0.0, 0.0))[0])


@dataclass(frozen=True)
class StepWaits(Persisted):
    """How long the steps of an attempt took, as looks saw them, see ``decide.step_waits``."""

    step: int
    """The newest that was counted."""
    seen: int = 0
    """Number of checks that found a newer one than the check before, up to the limit that matters."""
    longest_s: float = 0.0
    """The longest wait for a step that is over."""
    waited_s: float = 0.0
    """For how long ``step`` was seen to be the newest."""


@dataclass(frozen=True)
class UsualNumbers(Persisted):
    """What is usual for an attempt, see ``decide.numbers``. The next one is compared with it."""

    attempt: int
    step: int
    """The last one when ``loss`` was seen."""
    step_s: float | None = None
    """Time of a step."""
    loss: float | None = None
    """Level of the loss, as a logarithm."""
    world_size: int | None = None
    """Ranks that shared a step."""
    tokens: float | None = None
    """Tokens of a step."""
    node: str | None = None


@dataclass(frozen=True)
class HeartbeatMemory(Persisted):
    """What is known of one heartbeat, see ``decide.freshness``."""

    modified: datetime
    own_time: datetime | None = None
    alive_at: datetime | None = None
    """The last proof of life, in the store's time: when ``own_time`` was first seen."""
    skew_s: float = 0.0
    """Store clock minus instance clock, as far as known."""
    lag_s: float = 0.0
    """``modified`` minus ``own_time`` when both were last known: skew plus upload."""
    suspect: bool = False
    """The timestamp lags, due either to a slow clock or to an old document that is rewritten."""
    step: int | None = None
    step_at: datetime | None = None
    """Store time at which ``step`` was first seen."""
    missing_since: datetime | None = None
    """Since when the file has been gone after it was seen."""
    gap_s: float = 0.0
    """Of logs: the longest time between two steps where one was overdue. Some programs print one every 15 minutes."""
    mark: str = ""
    """Of logs: digest of their text, see ``model.log_report``."""
    stale_s: float | None = None
    """Of metadata.json: the run's own limit for silence, as it last stated it."""
    stall_s: float | None = None
    """The same for standing still."""
    owner: str | None = None
    """Of metadata.json: whose run it is, as it last said."""
    team: str | None = None
    waits: StepWaits | None = None
    """Of progress.json, where watchers learn how long steps take; of a supervised run always, and of its logs."""


class LimitName(str, Enum):
    """Which limit a run can exceed; the words of the settings."""

    STALE = "stale"
    STALL = "stall"
    INACTIVITY = "inactivity"
    START = "start"
    """It never began."""


@dataclass(frozen=True)
class ExceededLimit(Persisted):
    """The limit by which a run was TIMED_OUT, as the watcher that decided it had it."""

    name: LimitName
    limit_s: float
    source: str = ""
    """Whose limit it was: the run's own, the fleet's with its glob, or that watcher's."""
    section: str | None = None
    """The section that exceeded its limit, empty outside any section; None if no step came for too long."""


@dataclass(frozen=True)
class Finding(Persisted):
    """A log line that says the run failed, see ``decide.logs``."""

    line: str
    """Identifies the line."""
    seen_at: datetime
    """The store's time by which it had been printed."""
    alone: bool = False
    """The run is FAILED, or CANCELLED, because of this line alone."""
    acquitted: bool = False
    """Training went on after it."""
    doubted: bool = False
    """An earlier one of this attempt was acquitted, so this one counts only after a while."""
    interrupted: bool = False
    """A person pressed Ctrl-C: the run is CANCELLED, not FAILED."""


@dataclass(frozen=True)
class ToldWarning(Persisted):
    """A line of a log that warned and got its alert, see ``decide.logs.noted``."""

    line: int
    """Its number, as far as known: the same text further on is another line."""
    until: datetime
    """Until when it counts as news."""


@dataclass(frozen=True)
class Transition(Persisted):
    """One change of status, numbered from 1 over the life of the record."""

    number: int
    at: datetime
    before: Status | None
    after: Status
    reason: str
    attempt: int
    cause: str | None = None
    silenced: str | None = None
    """Why it raised no alert: the silence, with its author."""
    step: int | None = None
    """The last step of its attempt that was known then."""
    confidence: float | None = None
    """How sure the cause was, from 0 to 1. None: it is no finding in a log."""
    subsystem: str | None = None
    signal: str | None = None
    """Name of the signal that showed the cause."""
    fingerprint: str | None = None
    """The same for the same cause, see ``Cause.fingerprint``."""
    node: str | None = None
    """Where the cause was found, else where training said that it ran."""


@dataclass(frozen=True)
class LeftOut(Persisted):
    """Somebody took the run out of its fleet: passes and views leave it out until training writes again."""

    at: datetime
    by: str
    """``user@host``."""
    newest: datetime | None = None
    """When training's newest file was stored. None: the run beat, and stays out until its next attempt."""
    forgotten: bool = False
    """Nothing else of the record counts: what comes back is a new run."""


@dataclass(frozen=True)
class Acknowledgement(Persisted):
    """A person looks after a run that needs attention."""

    at: datetime
    by: str
    """``user@host``."""
    note: str = ""
    transition: int = 0
    """Number of the run's last transition then."""
    conditions: tuple[str, ...] = ()
    """Names of the conditions that stood then and have not ended since."""

    def without_ended(self, standing: Collection[str]) -> "Acknowledgement":
        """The same, for those of its conditions that are ``standing``: one that comes back is new."""
        return replace(self, conditions=tuple(name for name in self.conditions if name in standing))

    @property
    def text(self) -> str:
        """Who looks after the run, since when, and the note: ``ana@desk, 2026-11-26T08:00:00Z: moving it``."""
        who = f"{self.by}, {format_time(self.at.replace(microsecond=0))}"
        return f"{who}: {self.note}" if self.note else who


INTERVENTIONS_LIMIT = 20
"""The most interventions that a record keeps."""


@dataclass(frozen=True)
class Intervention(Persisted):
    """What a person did to the run through lastbeat."""

    at: datetime
    by: str
    """``user@host``, or the name and the place from which the page or Slack was used."""
    what: str
    """``asked for its end: wrong data``."""


@dataclass(frozen=True)
class Record(Persisted):
    """Status, reason, attempt, history, outbox, actions, in the order in which people read them. ``seq`` grows by one
    with every write."""

    run_id: str
    state: State | None = field(default=None, metadata=FLAT)
    """None: nothing was decided about it yet."""
    since: datetime | None = None
    """When it was seen to be so."""
    happened_at: datetime | None = None
    """When it came to be so, as far as the evidence tells: the sentinel, the last beat, the last line."""
    exceeded: ExceededLimit | None = None
    """Why it is TIMED_OUT."""
    stopped_by: str | None = None
    """The person who requested the end of a CANCELLED run through lastbeat. No policy restarts such a run."""
    in_place_told: int | None = None
    """Number of the attempt of which people were last told that it was restarted in place."""
    flapping_since: datetime | None = None
    """Since when it flaps, see ``decide.flapping``: flips are recorded but raise no alerts. None: it does not."""
    attempt: Attempt = field(default_factory=Attempt)
    seq: int = 0
    written_at: datetime | None = None
    writer: str = ""
    """Token of the write: a writer that got no answer recognizes by it that its write succeeded."""
    first_looked_at: datetime | None = None
    fleet_watched: bool = False
    """Passes over its fleet were made before that look: what it shows may have gone unnoticed since."""
    conditional_writes: bool | None = None
    """False if the store ignores write conditions, which is tested when the record is created."""
    metadata: HeartbeatMemory | None = None
    progress: HeartbeatMemory | None = None
    earlier_step_limit_s: float | None = None
    """How long the run may be without a new step, as attempts before this one have taught watchers."""
    numbers: UsualNumbers | None = None
    """What is usual for this attempt."""
    earlier_numbers: UsualNumbers | None = None
    """The same for the attempt before."""
    log: HeartbeatMemory | None = None
    """The logs as a heartbeat. ``modified`` is when text was last new."""
    log_lines: Mapping[str, datetime] = field(default_factory=dict)
    """For absence rules: signal name → when such a line was last new."""
    warned: Mapping[str, ToldWarning] = field(default_factory=dict)
    """The latest lines that warned: digest of the line → its alert. No line gets a second alert."""
    finding: Finding | None = None
    raised: tuple[str, ...] = ()
    """Ids of the latest alerts of training that are settled: sent, or too old to be."""
    sentinels: tuple[str, ...] = ()
    """Tokens of this attempt's sentinels, so that they never count for the next one."""
    left_out: LeftOut | None = None
    """It was archived or forgotten."""
    acknowledgement: Acknowledgement | None = None
    """The last one, over or not, see :attr:`acknowledged`."""
    interventions: tuple[Intervention, ...] = field(default=(), metadata=OMITTED)
    """The latest, oldest first."""
    continues: str | None = None
    """In a copy kept elsewhere: the version of the record beside the run that it continues."""
    transitions: int = 0
    """Number of the last transition; ``history`` keeps only the latest ones."""
    alerts: int = 0
    """Number of the last alert."""
    delivered: int = 0
    """Deliveries settled as sent, over the life of the record."""
    dropped: int = 0
    """Unsettled alerts dropped from a full outbox, over the life of the record."""
    supervision: Supervision | None = None
    """How its jobs are started; None without supervision."""
    seat: LeaseHolder | None = None
    """Which supervisor looks after it now."""
    job: JobMemory | None = None
    """Its present job."""
    old_outputs: tuple[str, ...] = ()
    """Files with the output of jobs before it: a scheduler may still write into them."""
    ruling: RestartRuling | None = None
    """What was decided about the last job that ended."""
    restarts: tuple[RestartEntry, ...] = ()
    """The latest restarts, from which budgets are counted."""
    restart_request: RestartRequest | None = field(default=None, metadata=OMITTED)
    """A person wants its job to be restarted, and no supervisor has seen that yet."""
    reactions: ReactionMemory | None = None
    """What its policy's ``on:`` has answered already, and what came of it."""
    timesheet: Timesheet | None = None
    """When its attempts were submitted, began, stepped and died; see ``decide.timesheet``."""
    checkpoint: FoundCheckpoint | None = None
    """Its last complete checkpoint; None if none was found or looked for."""
    history: tuple[Transition, ...] = ()
    outbox: tuple[Alert, ...] = ()
    """Alerts: at least once each."""
    receipts: Mapping[str, str] = field(default_factory=dict)
    """What channels keep from one alert to the next: channel identity, and after a slash the topic if it has one → see
    ``deliver.port``. The latest ones."""
    actions: tuple[Action, ...] = ()
    """Actions: at most once each, see ``effects.actions``."""

    def with_intervention(self, at: datetime, by: str, what: str) -> "Record":
        """The record with one more intervention."""
        kept = (*self.interventions, Intervention(at, by, what))[-INTERVENTIONS_LIMIT:]
        return replace(self, interventions=kept)

    # The fields of its state, under their own names.

    @property
    def status(self) -> Status | None:
        return self.state.status if self.state is not None else None

    @property
    def reason(self) -> str:
        return self.state.reason if self.state is not None else ""

    @property
    def cause(self) -> str | None:
        return self.state.cause if self.state is not None else None

    @property
    def action(self) -> str | None:
        return self.state.action if self.state is not None else None

    @property
    def conditions(self) -> Mapping[str, str]:
        return self.state.conditions if self.state is not None else {}

    @property
    def explained(self) -> RecordedCause | None:
        return self.state.explained if self.state is not None else None

    @property
    def acknowledged(self) -> Acknowledgement | None:
        """The acknowledgement that holds. The next transition ends it, and so does a condition that is new."""
        given = self.acknowledgement
        if given is None or given.transition != self.transitions or set(self.conditions) - set(given.conditions):
            return None
        return given

    @property
    def came_to_be_at(self) -> datetime | None:
        """When it came to be what it is, as far as the evidence tells; else when that was seen. A run that has been
        RUNNING since its attempt began came to be so then, whenever a watcher first saw it."""
        began = self.attempt.began_at
        if began is not None and self.since is not None and self.status is Status.RUNNING and self._runs_since_start:
            return min(began, self.since)
        return self.happened_at or self.since

    @property
    def _runs_since_start(self) -> bool:
        """Whether the last transition is the first look at the run, or at its present attempt."""
        if not self.history:
            return False
        last = self.history[-1]
        return last.before is None or (len(self.history) > 1 and self.history[-2].attempt != last.attempt)

    @property
    def step_seen(self) -> tuple[int, datetime] | None:
        """The newest step that is recorded, and when the run reached it, as far as watchers saw."""
        beats = (self.progress, self.metadata, self.log)
        known = ((beat.step, beat.step_at) for beat in beats if beat is not None)
        return next(((step, at) for step, at in known if step is not None and at is not None), None)

    @property
    def owner(self) -> str | None:
        """Whose run it is, as its metadata.json last said."""
        return self.metadata.owner if self.metadata is not None else None

    @property
    def team(self) -> str | None:
        """Its owner's team, likewise."""
        return self.metadata.team if self.metadata is not None else None

    @property
    def last_metadata_at(self) -> datetime | None:
        """When metadata.json was last alive."""
        return self.metadata.alive_at if self.metadata is not None else None

    @property
    def last_progress_at(self) -> datetime | None:
        """When progress was last seen: in progress.json, or in the logs if that was never written."""
        if self.progress is not None:
            return self.progress.alive_at
        return self.log.step_at if self.log is not None else None
