"""What people are shown of a fleet and of one run: frozen data, bounded, cleaned of what a terminal would interpret.

Text in it came from training and stays hostile: whoever shows it escapes it for where it is shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lastbeat.model.record import RecordedCause, Transition
from lastbeat.model.status import Status

SPARK_POINTS = 24
"""So many losses a row has at most, oldest first."""
STRIP_S = 86400.0
"""How far back a row tells its statuses."""


@dataclass(frozen=True, slots=True)
class Span:
    """From ``since`` on a run had ``status``, until the next span or now."""

    since: datetime
    status: Status
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Row:
    """One run in the table of a fleet. What is not known, or was not read yet, is None or empty."""

    run_id: str
    status: Status
    """As recorded; where nobody recorded one, as one look decides. ``UNKNOWN``: it could not be read."""
    recorded: bool = True
    """False: no pass has recorded it yet, so ``status`` is what a first look says."""
    reason: str = ""
    cause: str | None = None
    action: str | None = None
    conditions: tuple[str, ...] = ()
    since: datetime | None = None
    """When it came to be so, as far as the evidence tells."""
    attempt: int = 1
    phase: str | None = None
    step: int | None = None
    total_steps: int | None = None
    eta_s: float | None = None
    """Seconds that are left, of a run that lives."""
    loss: float | None = None
    """May be NaN or infinite."""
    losses: tuple[float | None, ...] = ()
    """For a sparkline; None where it was no number."""
    steps_per_s: float | None = None
    tokens_per_s: float | None = None
    beat_at: datetime | None = None
    """When the store last got a heartbeat, or where there is none log text."""
    host: str | None = None
    """Instance or host, as metadata.json names it."""
    strip: tuple[Span, ...] = ()
    """The last :data:`STRIP_S`, oldest first; the first span begins where what is known begins."""
    pending: int = 0
    """Alerts that wait to be sent."""
    doubt: str | None = None
    """Why the status may be out of date: it is silent for longer than the limit and no pass has judged that."""
    fault: str | None = None
    """Why something of it could not be read; the rest stands as it was last read."""
    complete: bool = True
    """False: something of it is still to be read."""

    @property
    def shown(self) -> str:
        """The status as people read it: ``RUNNING (WARNING)`` with conditions."""
        return "RUNNING (WARNING)" if self.status is Status.RUNNING and self.conditions else str(self.status)


@dataclass(frozen=True, slots=True)
class WatchState:
    """Whether anybody watches the fleet, as the last mark of a pass tells."""

    last_pass_at: datetime | None = None
    """Of the last pass that left its mark, which not each does."""
    interval_s: float | None = None
    """Time between two passes."""
    overdue: bool = False
    """Marks were left, and have stopped to come."""
    known: bool = True
    """False: what passes leave could not be looked at."""


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

    @property
    def counts(self) -> Mapping[str, int]:
        """Status as shown → how many runs."""
        counted: dict[str, int] = {}
        for row in self.rows:
            counted[row.shown] = counted.get(row.shown, 0) + 1
        return counted


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
class Gpu:
    """One GPU of the instance."""

    name: str
    utilization: float | None = None
    """From 0 to 1."""
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Resources:
    """What training uses, as its metadata.json tells."""

    cpu: float | None = None
    """Cores in use by the process; 1.5: one and a half."""
    rss_bytes: int | None = None
    memory_available_bytes: int | None = None
    memory_total_bytes: int | None = None
    gpus: tuple[Gpu, ...] = ()


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
    seen_at: datetime | None = None
    """When a watchdog saw the run to be what it is; the row's ``since`` is when it came to be so."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    explained: RecordedCause | None = None
    evidence: Excerpt | None = None
    """The line that shows the cause, in its log context."""
    beats: tuple[HeartbeatFile, ...] = ()
    points: tuple[Point, ...] = ()
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    learning_rate: float | None = None
    epoch: float | None = None
    resources: Resources | None = None
    phases: tuple[PhaseSpan, ...] = ()
    ranks: tuple[RankLine, ...] = ()
    ranks_left_out: int = 0
    world_size: int | None = None
    history: tuple[Transition, ...] = ()
    """The latest transitions, oldest first."""
    transitions: int | None = 0
    """How many there were in all; None, as of alerts: its record could not be read."""
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
