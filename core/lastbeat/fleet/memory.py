"""What a sweep remembers of a fleet: an index that spares requests, and nothing that a listing could not bring back.

The records beside the runs are the truth. What stands here decides only whether a run needs a look.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Final

from lastbeat.decide.flapping import steady_at
from lastbeat.decide.verdict import last_alive
from lastbeat.model import runid
from lastbeat.model.fleet import RunLine
from lastbeat.model.observation import Heartbeat
from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import Policy
from lastbeat.model.record import Attempt, HeartbeatMemory, Record
from lastbeat.model.status import METADATA_STALE, Status
from lastbeat.model.text import fit, one_line
from lastbeat.observe.run import newest_log
from lastbeat.stores.port import Entry

SETTLED_S: Final = 86400.0
"""A run that ended this long ago is asked about no more, but for what a listing shows by itself."""
REASON_LIMIT: Final = 200
"""Characters of a reason."""
Files = Mapping[str, tuple[float, str] | None]
"""Name → when it was stored (unix seconds) and its version; None: it is not there. What is left out was not asked."""
_SENTINELS = (runid.ERROR, runid.COMPLETE)
_BEATS = (runid.METADATA, runid.PROGRESS)
LOG: Final = runid.LOG
"""Stands for whichever log was written last, and may have another name."""


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What is known of a run's files without reading one. A name that is left out was not asked about."""

    at: float
    """Unix seconds of the store's clock, before the asking."""
    files: Files


@dataclass(frozen=True, slots=True)
class RunMemory:
    """One run as the last look at it left it; times in unix seconds of the store's clock."""

    line: RunLine
    looked_at: float
    seen_at: float
    """When its files were last asked about, changed or not."""
    files: Files
    """Sentinels, heartbeats and record, as in a :class:`Glimpse`, as the last look had them."""
    moved: float = 0.0
    """When metadata.json was stored that was last seen, looked at or not."""
    wake: float | None = None
    """When a look is needed even if nothing changes."""
    pending: int = 0
    """Deliveries that still have to go out."""
    start_time: datetime | None = None
    transitions: int = 0
    alerts: int = 0
    newest: float = 0.0
    """When the newest of what training wrote was stored, see :func:`newest_of`."""
    beating: bool = False
    """It is over or timed out, and went on writing without anything following from it."""
    by_log: bool = False
    """Its logs stand in for a heartbeat that this attempt has not written."""
    progressed: float = 0.0
    """When progress.json was stored that was last seen by this process, looked at or not."""
    step_source: Heartbeat | None = None
    """What told step and loss at the last look of this process."""

    @property
    def beat_at(self) -> float | None:
        """When the newest heartbeat was stored; where there is none, the newest log."""
        beats = [file[0] for file in map(self.files.get, _BEATS) if file is not None]
        log = self.files.get(LOG)
        if not beats:
            return log[0] if log is not None else None
        return max(*beats, self.moved, self.progressed)

    def settled(self, now: float) -> bool:
        """Whether it ended long ago and everybody was told."""
        over = self.line.status.finished or self.line.status.is_foreign
        if not over or self.pending:
            return False
        since = self.line.since.timestamp() if self.line.since else self.looked_at
        return now - max(since, self.newest) > SETTLED_S

    def seed(self) -> Record:
        """What is left of the record when all of the run's files are gone."""
        beats = [_beat(self.files.get(name)) for name in _BEATS]
        return Record(
            self.line.run_id,
            status=self.line.status,
            reason=self.line.reason,
            since=self.line.since,
            attempt=Attempt(self.line.attempt, self.start_time),
            metadata=beats[0],
            progress=beats[1],
            log=_beat(self.files.get(LOG)),
            transitions=self.transitions,
            alerts=self.alerts,
            conditional_writes=True,
        )


@dataclass(frozen=True, slots=True)
class Round:
    """How far everything was listed, a few pages a pass, since ``began_at``."""

    began_at: float = 0.0
    """Unix seconds of the store's clock."""
    pages: int = 0
    reached: str = ""
    """The folder that was listed last."""
    done: bool = True


@dataclass
class FleetMemory:
    """Everything that is known of one shard. Looks that outlast their pass still change it: whoever reads or changes
    more than one line of it holds ``lock``."""

    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    runs: dict[str, RunMemory] = field(default_factory=dict)
    """Those that live, or ended within a day."""
    finished: dict[str, int] = field(default_factory=dict)
    """Those that ended earlier → unix seconds of the newest of their files."""
    cursor: str = ""
    """The run that an unfinished pass came to last."""
    pages: int = 0
    """What the last whole listing cost, in requests."""
    listed_at: float = 0.0
    """When the fleet was last listed as a whole."""
    round: Round = Round()
    passes: int = 0
    unseen: dict[str, float] = field(default_factory=dict)
    """Runs that passes cannot observe → since when."""
    cuts: tuple[str, ...] = ()
    """The runs that the parts end with that the fleet was last split into."""
    just_listed: bool = False
    """The last pass of this process listed everything."""
    unsaved: float = 0.0
    """What it would cost another process to find out what this one has since it saved this, in dollars."""

    def known(self) -> list[RunMemory]:
        """Every run that lives or ended within a day, as of now."""
        with self.lock:
            return list(self.runs.values())

    def unseen_since(self, run_id: str) -> datetime | None:
        """Since when passes have not been able to observe the run; None where that is not known."""
        since = self.unseen.get(run_id)
        return None if since is None else datetime.fromtimestamp(since, tz=timezone.utc)


def newest_of(files: Mapping[str, Entry]) -> float:
    """When the newest of what training wrote was stored, in unix seconds; 0 when it wrote nothing."""
    return max((entry.modified.timestamp() for name, entry in files.items() if name != runid.RECORD), default=0.0)


def glimpse_of(files: Mapping[str, Entry], at: datetime) -> Glimpse:
    """What a listing shows of a run."""
    names = (*_SENTINELS, *_BEATS, runid.RECORD)
    shown = {**{name: files.get(name) for name in names}, LOG: newest_log(files)}
    return Glimpse(
        at.timestamp(),
        {name: (entry.modified.timestamp(), entry.version) if entry else None for name, entry in shown.items()},
    )


def after_look(
    outcome: Outcome, listed: Mapping[str, Entry], at: datetime, record_version: str | None, known: RunMemory | None
) -> RunMemory:
    """The memory of a run that could be observed. ``listed`` are the files, as of ``at``, that the look began with,
    and ``known`` is what was known before it."""
    record, glimpse = outcome.record, glimpse_of(listed, at)
    by_log = record is None or record.metadata is None or record.progress is None
    files = {**glimpse.files, runid.RECORD: (glimpse.at, record_version) if record_version else None}
    metadata, progress = files.get(runid.METADATA), files.get(runid.PROGRESS)
    return RunMemory(
        line=RunLine(
            outcome.run_id,
            outcome.status,
            fit(one_line(outcome.reason), REASON_LIMIT)
            if outcome.status is not Status.RUNNING or outcome.conditions
            else "",
            outcome.cause,
            outcome.action,
            tuple(outcome.conditions),
            record.since if record else None,
            record.attempt.number if record else 1,
        ),
        looked_at=glimpse.at,
        seen_at=glimpse.at,
        files=files,
        moved=metadata[0] if metadata else 0.0,
        wake=None,
        pending=outcome.pending,
        start_time=record.attempt.start_time if record else None,
        transitions=record.transitions if record else 0,
        alerts=record.alerts if record else 0,
        newest=newest_of(listed),
        beating=outcome.status is not Status.RUNNING
        and known is not None
        and known.line.status is outcome.status
        and any(_later(files.get(name), known.files.get(name)) for name in beats_of(files, by_log=by_log)),
        by_log=by_log,
        progressed=progress[0] if progress else 0.0,
        step_source=outcome.step_source,
    )


def beats_of(files: Files, *, by_log: bool) -> tuple[str, ...]:
    """The files that tell of life and progress: the logs stand in for a heartbeat that is not there, or is a leftover
    (``by_log``)."""
    return _BEATS if not by_log and all(files.get(name) for name in _BEATS) else (*_BEATS, LOG)


def wake_of(outcome: Outcome, known: RunMemory | None, files: Files, policy: Policy) -> float | None:
    """When something falls due that no listing shows: a delivery, a file that is gone or only seems to live.

    What is past has been judged by this look; what it could not settle waits for a file to change.
    """
    record, now = outcome.record, outcome.at.timestamp()
    if record is None or not outcome.recorded:
        return now
    times = [now] if outcome.pending else []
    open_ = [d for alert in record.outbox for d in alert.deliveries.values() if not d.settled]
    if outcome.pending and open_:
        times = [min(max((d.not_before or outcome.at), (d.claimed_until or outcome.at)).timestamp() for d in open_)]
    steady = steady_at(record)
    if steady is not None:
        times.append(steady.timestamp())
    if outcome.status is Status.RUNNING:
        named = ((runid.METADATA, record.metadata), (runid.PROGRESS, record.progress))
        memories = [(name, memory) for name, memory in named if memory is not None]
        gone_or_rewritten = [m for _, m in memories if m.missing_since is not None or m.alive_at != m.modified]
        dues = [last_alive(memory).timestamp() + policy.stale_s + 1 for memory in gone_or_rewritten]
        dues += [due.timestamp() + policy.stale_s + 1 for due in _dues_of_log(record, files)]
        if not memories and record.log is None and record.first_looked_at is not None:
            dues.append(record.first_looked_at.timestamp() + max(policy.start_grace_s, policy.stale_s) + 1)
        times += [due for due in dues if due > now]
        # A second look tells a slow clock from an old document, if there is something new to look at.
        times += [
            now for name, m in memories if m.suspect and (known is None or files.get(name) != known.files.get(name))
        ]
    return min(times, default=None)


def _dues_of_log(record: Record, files: Files) -> list[datetime]:
    """What ages in a log although the file itself is young: text that was only stored again, text without a step."""
    log, file = record.log, files.get(LOG)
    if log is None:
        return []
    gone_or_stored_again = file is None or file[0] - log.modified.timestamp() > 1
    dues = [last_alive(log)] if record.metadata is None and gone_or_stored_again else []
    if log.step_at is not None and record.progress is None and METADATA_STALE in record.conditions:
        dues.append(log.step_at)
    return dues


def _later(file: tuple[float, str] | None, known: tuple[float, str] | None) -> bool:
    return file is not None and known is not None and file[0] > known[0]


def _beat(file: tuple[float, str] | None) -> HeartbeatMemory | None:
    if file is None:
        return None
    modified = datetime.fromtimestamp(file[0], tz=timezone.utc)
    return HeartbeatMemory(modified, alive_at=modified)
