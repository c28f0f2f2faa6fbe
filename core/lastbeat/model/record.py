"""The watchdog's whole memory of one run: a small versioned document beside the run's evidence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from lastbeat.model.action import Action
from lastbeat.model.alert import Alert
from lastbeat.model.cause import Cause
from lastbeat.model.persisted import FLAT, Persisted
from lastbeat.model.status import Status

SCHEMA = 1


@dataclass(frozen=True)
class Attempt(Persisted):
    """One life of a run. A restart begins the next."""

    number: int = 1
    start_time: datetime | None = None
    """As the run's metadata gave it, by the instance's clock."""
    start_skew_s: tuple[float, float] | None = None
    """How far the store's clock was ahead of the instance's at the start, at least and at most; None: not known
    yet. It stays what it was when the clock jumps later."""
    declared: int | None = None
    """The number that the run's metadata gave, if it gave one."""
    earlier_starts: tuple[datetime, ...] = ()
    """Start times of attempts before this one: documents that carry one of them are leftovers."""
    spent: tuple[str, ...] = ()
    """Tokens of files that lie there from earlier attempts and so say nothing about this one."""


@dataclass(frozen=True)
class HeartbeatMemory(Persisted):
    """What the last recorded look knew of one heartbeat; see ``decide.freshness``."""

    modified: datetime
    own_time: datetime | None = None
    alive_at: datetime | None = None
    """Store time at which ``own_time`` was first seen, so the last proof of life."""
    skew_s: float = 0.0
    """Store clock minus instance clock, as far as it is known."""
    lag_s: float = 0.0
    """``modified`` minus ``own_time`` when both were last known together: skew and upload, before any judgement."""
    suspect: bool = False
    """The timestamp lags in a way that a slow clock and an old document that is rewritten have in common."""
    step: int | None = None
    step_at: datetime | None = None
    """Store time at which ``step`` was first seen."""
    missing_since: datetime | None = None
    """Since when the file, once seen, has been gone."""
    gap_s: float = 0.0
    """Of logs: the longest time between two steps, where one was missed. Some print one a quarter of an hour."""
    mark: str = ""
    """Of logs: what stood in them, see ``model.log_report``."""


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


@dataclass(frozen=True)
class Finding(Persisted):
    """A line that says that the run failed, as logs show it; see ``decide.logs``."""

    line: str
    """Names the line."""
    seen_at: datetime
    """Store time at which it was there at the latest."""
    alone: bool = False
    """The run is FAILED on the strength of it alone."""
    acquitted: bool = False
    """Training went on after it."""
    doubted: bool = False
    """An earlier one of the same attempt was acquitted, so this one is believed only after a while."""


@dataclass(frozen=True)
class Explained(Persisted):
    """Why a run failed or fell silent, as people were told."""

    cause: Cause = field(metadata=FLAT)
    also_seen: tuple[str, ...] = ()
    """What followed from it or may have been the cause as well, a line each; few."""


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
    """Why nobody was told of it, and by whose wish."""


@dataclass(frozen=True)
class Record(Persisted):
    """Status, reason, attempt, history, outbox, actions. ``seq`` grows by one with every write. Its fields stand in the
    order in which a person wants to read them."""

    run_id: str
    status: Status | None = None
    reason: str = ""
    cause: str | None = None
    action: str | None = None
    since: datetime | None = None
    """When it was seen to be so."""
    happened_at: datetime | None = None
    """When it came to be so, as far as the evidence tells: the sentinel, the last beat, the last line."""
    exceeded: ExceededLimit | None = None
    """Why it is TIMED_OUT."""
    flapping_since: datetime | None = None
    """Since when it flaps, see ``decide.flapping``: flips are recorded and not told. None: it does not."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Condition name → what was seen, for people."""
    attempt: Attempt = field(default_factory=Attempt)
    seq: int = 0
    written_at: datetime | None = None
    writer: str = ""
    """Token of the pass that wrote it: how a writer whose answer got lost finds out that it had won."""
    first_looked_at: datetime | None = None
    conditional_writes: bool | None = None
    """False once the store was found to ignore conditions, which is tested when the record is created."""
    metadata: HeartbeatMemory | None = None
    progress: HeartbeatMemory | None = None
    log: HeartbeatMemory | None = None
    """What logs tell of life and progress; ``modified`` is when text was last new."""
    log_lines: Mapping[str, datetime] = field(default_factory=dict)
    """Of lines that have to appear again and again: signal name → when one was last new."""
    finding: Finding | None = None
    explained: Explained | None = None
    """``cause`` and ``action`` with what shows them, of the present status."""
    sentinels: tuple[str, ...] = ()
    """Tokens of the sentinels of this attempt, so that they never decide for the next one too."""
    continues: str | None = None
    """Of a copy kept elsewhere: the version of the record beside the run that it goes on from."""
    transitions: int = 0
    """Number of the last transition; ``history`` keeps only the latest ones."""
    alerts: int = 0
    """Number of the last alert."""
    delivered: int = 0
    """Deliveries settled as sent, over the life of the record."""
    dropped: int = 0
    """Alerts given up because the outbox was full, over the life of the record."""
    history: tuple[Transition, ...] = ()
    outbox: tuple[Alert, ...] = ()
    """What people are told: at least once each."""
    actions: tuple[Action, ...] = ()
    """What is done to the world: at most once each, see ``effects.actions``."""

    @property
    def last_metadata_at(self) -> datetime | None:
        """When metadata.json was last alive."""
        return self.metadata.alive_at if self.metadata is not None else None

    @property
    def last_progress_at(self) -> datetime | None:
        """When progress was last seen: in progress.json, or in the logs where that was never written."""
        if self.progress is not None:
            return self.progress.alive_at
        return self.log.step_at if self.log is not None else None
