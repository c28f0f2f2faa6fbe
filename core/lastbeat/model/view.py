"""What people are shown of a fleet and of one run: frozen data, bounded, cleaned of what a terminal would interpret.

Text in it came from training and stays hostile: each output escapes it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from lastbeat.model.figures import Figures, HasFigures
from lastbeat.model.goodput import Goodput
from lastbeat.model.job import JobMemory, JobState
from lastbeat.model.named_view import NamedView
from lastbeat.model.reaction import CommandRun, PolicyNote
from lastbeat.model.record import Acknowledgement, Intervention, Transition
from lastbeat.model.resources import Resources
from lastbeat.model.restart import Budget, FoundCheckpoint, RestartRuling
from lastbeat.model.silence import Silence
from lastbeat.model.state import HasShownState, RecordedCause, ShownState
from lastbeat.model.status import Status
from lastbeat.model.times import format_duration, format_minutes
from lastbeat.model.timesheet import AttemptTimes

SPARK_POINTS = 24
"""Most losses in a row, oldest first."""
STRIP_S = 86400.0
"""How far back a row tells its statuses."""


@dataclass(frozen=True, slots=True)
class Span:
    """From ``since`` on a run had ``status``, until the next span or now."""

    since: datetime
    status: Status
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class JobGist:
    """The job of a supervised run, as far as a row has room for it."""

    launcher: str
    id: str | None = None
    """None: the first one has not started yet."""
    state: JobState | None = None
    """The launcher's last word on it."""
    restarts: int = 0
    attempt: str = ""
    """``2/3``: the last restart's number in its mode, and how many there may be. Empty: there was none."""
    waits: bool = False
    """Another job is to be started."""
    starts_at: datetime | None = None
    """The earliest time for that; None: now."""

    @property
    def text(self) -> str:
        """``812 r2/3``: its id, and its restarts."""
        count = self.attempt or (str(self.restarts) if self.restarts else "")
        return " ".join(filter(None, [self.id or "starts", f"r{count}" if count else ""]))


@dataclass(frozen=True, slots=True)
class Row(HasFigures, HasShownState):
    """One run in the table of a fleet. What is not known, or was not read yet, is None or empty."""

    run_id: str
    state: ShownState
    """The recorded status, else the one that a check decides. ``UNKNOWN``: the run could not be read."""
    recorded: bool = True
    """False: no pass has recorded it yet, so ``state`` is what a first look says."""
    since: datetime | None = None
    """When it came to be so, as far as the evidence tells."""
    attempt: int = 1
    phase: str | None = None
    figures: Figures = field(default_factory=Figures)
    step_at: datetime | None = None
    """When it reached ``step``, by the store's clock; it may have been earlier."""
    still_after_s: float = math.inf
    """Seconds without a new step that are normal for it."""
    stands_still: bool = False
    """It is RUNNING, and without a new step for longer than normal. Then nothing tells how long it will take."""
    stall_limited: bool | None = None
    """Whether a limit for standing still holds for it. None: unknown."""
    eta_s: float | None = None
    """Seconds that are left, of a run that gets on."""
    losses: tuple[float | None, ...] = ()
    """For a sparkline; None where it was no number."""
    steps_per_s: float | None = None
    tokens_per_s: float | None = None
    beat_at: datetime | None = None
    """When the store last got a heartbeat, or where there is none log text."""
    host: str | None = None
    """Instance or host, as metadata.json names it."""
    owner: str | None = None
    """Whose run it is, as metadata.json says."""
    team: str | None = None
    tags: tuple[str, ...] = ()
    """By which people find it, as metadata.json says."""
    config: Mapping[str, str | float | bool] = field(default_factory=dict)
    """What training was configured with, as far as its values are short."""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """Training's own figures, as of the last step."""
    gpus: int | None = None
    """GPUs that it trains on, where it sees any."""
    started: datetime | None = None
    """When its attempt began, as metadata.json says."""
    strip: tuple[Span, ...] = ()
    """The last :data:`STRIP_S`, oldest first; the first span begins where what is known begins."""
    watched_since: datetime | None = None
    """When a watcher first looked at it: what ``strip`` has of before that comes from its files. None: unknown."""
    pending: int = 0
    """Alerts that wait to be sent."""
    doubt: str | None = None
    """Why the status may be out of date: it is silent for longer than the limit and no pass has judged that."""
    fault: str | None = None
    """Why something of it could not be read; the rest stands as it was last read."""
    complete: bool = True
    """False: something of it is still to be read."""
    silence: Silence | None = None
    """Why people are not told of it now."""
    acknowledged: Acknowledgement | None = None
    """Who looks after it, if a person said so."""
    job: JobGist | None = None
    """The job of a supervised run."""

    @property
    def gpu_hours(self) -> float | None:
        """GPU-hours of this attempt, until its last beat."""
        if self.gpus is None or self.started is None or self.beat_at is None:
            return None
        return self.gpus * max(0.0, (self.beat_at - self.started).total_seconds()) / 3600

    @property
    def shown(self) -> str:
        """The status as people read it: ``RUNNING (WARNING)`` with conditions."""
        return "RUNNING (WARNING)" if self.status is Status.RUNNING and self.conditions else str(self.status)


@dataclass(frozen=True, slots=True)
class WatchState:
    """Whether the fleet is watched, by the last mark of a pass."""

    last_pass_at: datetime | None = None
    """Figures of the last pass that left a mark; not each pass does."""
    interval_s: float | None = None
    """Time between two passes."""
    overdue: bool = False
    """Marks were left, and have stopped to come."""
    known: bool = True
    """False: what passes leave could not be looked at."""
    recorded_at: datetime | None = None
    """Where no passes come: when a run's record was last written, by who watches single runs. None: not since the last
    pass."""


@dataclass(frozen=True, slots=True)
class StoreOutage:
    """Why the store cannot be seen, and since when; what is shown is as it last was seen."""

    reason: str
    advice: str = ""
    since: datetime | None = None


@dataclass(frozen=True)
class FleetView:
    """A fleet as of ``at``. ``rows`` are in the order in which they need people, see ``views.order``."""

    root: str
    at: datetime | None
    """The store's time right before the last listing that was answered; None: none was yet."""
    rows: tuple[Row, ...] = ()
    older: int = 0
    """Runs that ended, or fell silent, longer ago than was asked for: counted, and not read."""
    unread: int = 0
    """Documents that are still to be read."""
    watching: WatchState = WatchState()
    fault: StoreOutage | None = None
    ignored: tuple[str, ...] = ()
    """Folders whose names no run may have."""
    notes: tuple[str, ...] = ()
    silences: tuple[Silence, ...] = ()
    """Those that are not over, whether or not they cover a run."""
    views: tuple[NamedView, ...] = ()
    """The team's."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Status as shown → how many runs."""
        counted: dict[str, int] = {}
        for row in self.rows:
            counted[row.shown] = counted.get(row.shown, 0) + 1
        return counted

    @property
    def silenced(self) -> int:
        """How many of the runs are silenced."""
        return sum(row.silence is not None for row in self.rows)


@dataclass(frozen=True, slots=True)
class HeartbeatFile:
    """One heartbeat file of a run."""

    name: str
    """Below the run's folder: ``metadata.json``."""
    modified: datetime
    """By the store's clock."""
    own_time: datetime | None = None
    """By the document's own."""
    fault: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    """What else stands in it, for people; few."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a run's curves."""

    at: datetime
    step: int
    loss: float | None = None
    learning_rate: float | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """Training's own figures that it told with this step."""


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """From ``since`` on (the instance's clock) training was in ``phase``, until the next span or now."""

    since: datetime
    phase: str


@dataclass(frozen=True, slots=True)
class RankLine:
    """One rank, as ranks/{rank}.json tells."""

    rank: int
    modified: datetime
    step: int | None = None
    loss: float | None = None
    phase: str | None = None
    status: str | None = None
    host: str | None = None
    behind: int | None = None
    """Steps behind the foremost rank of this attempt."""
    fault: str | None = None
    beat_s: float | None = None
    """How often it beats, as it says."""


@dataclass(frozen=True, slots=True)
class SentAlert:
    """One alert, and what became of it on each channel."""

    number: int
    event: str
    at: datetime
    reason: str
    deliveries: tuple[tuple[str, str, datetime | None], ...] = ()
    """Channel (``slack``), then ``sent``, ``waiting``, ``failed`` or ``told by a group``, then when."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some lines of a log."""

    file: str
    lines: tuple[str, ...]
    first_line: int | None = None
    """Number of the first of them, from 1; None: not known."""
    marked: int | None = None
    """Index of the line that is the evidence."""
    modified: datetime | None = None
    size_bytes: int | None = None
    note: str | None = None
    """Why there is less than people would expect."""


@dataclass(frozen=True, slots=True)
class NodeCurves:
    """The last hours of the node of rank 0."""

    began_at: datetime
    """Time of the first values."""
    each_s: float
    series: Mapping[str, tuple[float | None, ...]]
    """Shares from 0 to 1, °C and W: the mean of each ``each_s`` seconds. None: not known."""


@dataclass(frozen=True, slots=True)
class LimitInForce:
    """A limit that holds for a run."""

    name: str
    """``stale``, ``learned``, ``stall``, ``inactivity`` or ``start``."""
    limit_s: float | None
    """None: it is not watched."""
    source: str
    """Whose it is: ``its own``, ``fleet limit for mistral-*``, ``settings here``."""

    @property
    def what(self) -> str:
        """In words."""
        if self.limit_s is None:
            return "no stall limit"
        minutes = self.limit_s / 60
        shown = format_minutes(self.limit_s) if round(minutes, 1) == minutes else format_duration(self.limit_s)
        return f"{_AFTER.get(self.name, self.name)} {shown}"

    @property
    def text(self) -> str:
        """The same, with where it comes from."""
        return f"{self.what} ({self.source})"


_AFTER: Final = {
    "stale": "stale after",
    "learned": "learned from its beats: stale after",
    "stall": "stalled after",
    "inactivity": "no line and no step for",
    "start": "to begin within",
}


@dataclass(frozen=True)
class JobLine:
    """The job of a supervised run, and what was decided about restarts."""

    policy: str
    """Name of the restart policy; empty: nothing is restarted."""
    job: JobMemory | None = None
    """None: the first one has not started yet."""
    ruling: RestartRuling | None = None
    """What was decided about the last job that ended."""
    next_job: str | None = None
    """The job that is about to start."""
    starts_at: datetime | None = None
    """The earliest time for that."""
    restarts: int = 0
    """How many there were since the supervision began."""
    launcher: str = ""
    budgets: tuple[Budget, ...] | None = None
    """How much of each budget is used. None: not known."""
    checkpoint: FoundCheckpoint | None = None
    """The last complete one, as the last survey found it."""
    supervised_by: str | None = None
    """Its supervisor, as ``user@host``; None without one at present."""
    supervised_since: datetime | None = None
    over: bool = False
    """Whether its job has ended and no other one is to be started, so that it needs no supervisor."""
    notes: tuple[PolicyNote, ...] = ()
    """What the policy's ``on:`` noted, oldest first."""
    commands: tuple[CommandRun, ...] = ()
    """What it ran, oldest first."""


@dataclass(frozen=True)
class RunView:
    """All about one run, as of ``at``."""

    row: Row
    at: datetime
    where: str
    """Path or ``s3://`` URL of its files."""
    link: str | None = None
    """A web address of its files (https), where there is one."""
    stale_s: float | None = None
    """Silence for longer than this is a reason to worry."""
    limits: tuple[LimitInForce, ...] = ()
    """Which limits hold for it, and from where."""
    exceeded: LimitInForce | None = None
    """The limit behind a TIMED_OUT, as the watcher had it."""
    seen_at: datetime | None = None
    """When a watchdog saw the run to be what it is; the row's ``since`` is when it came to be so."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    explained: RecordedCause | None = None
    evidence: Excerpt | None = None
    """The line that shows the cause, in its log context."""
    beats: tuple[HeartbeatFile, ...] = ()
    points: tuple[Point, ...] = ()
    keeps_curves: bool = False
    """Whether it has files with more points."""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    learning_rate: float | None = None
    epoch: float | None = None
    config: Mapping[str, str | float | bool] = field(default_factory=dict)
    """What training was configured with."""
    training_notes: str | None = None
    """What training says that people should know of it."""
    resources: Resources | None = None
    node: NodeCurves | None = None
    phases: tuple[PhaseSpan, ...] = ()
    ranks: tuple[RankLine, ...] = ()
    ranks_left_out: int = 0
    suspects: str | None = None
    """Which ranks stand out of a run that failed or hangs, in one line."""
    world_size: int | None = None
    history: tuple[Transition, ...] = ()
    """The latest transitions, oldest first."""
    interventions: tuple[Intervention, ...] = ()
    """What people did to it, oldest first."""
    transitions: int | None = 0
    """How many there were in all; None, as of alerts: its record could not be read."""
    job: JobLine | None = None
    """The job of a supervised run."""
    goodput: Goodput | None = None
    """What its wall time went into. None: nothing of that is known."""
    times: tuple[AttemptTimes, ...] = ()
    """The latest attempts with their times, oldest first."""
    attempts: tuple[Span, ...] = ()
    """When each attempt began that history knows of, and its latest status."""
    alerts: tuple[SentAlert, ...] = ()
    """Those that the record still knows, oldest first."""
    alerts_pending: int | None = 0
    alerts_delivered: int | None = 0
    alerts_dropped: int | None = 0
    log: Excerpt | None = None
    """The end of the newest log."""
    logs: tuple[tuple[str, datetime, int], ...] = ()
    """Every log file: name below the run's folder, when it was written, bytes."""
    stacks: Excerpt | None = None
    """Where each thread hangs."""
    error_text: str | None = None
    """The beginning of ``_error``."""
    notes: tuple[str, ...] = ()
