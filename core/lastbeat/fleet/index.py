"""The index of a fleet: the state of each run at its last look, so that an unchanged run costs no request.

The records beside the runs are authoritative. The index only decides whether a run needs a look, and a listing restores
any part of it that is lost.
"""

import threading
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Annotated, ClassVar, Final

from lastbeat.model import runid
from lastbeat.model.fleet import RunLine
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.observation import RankFiles, Seen
from lastbeat.model.outcome import Outcome
from lastbeat.model.persisted import TRANSIENT, Columns, Form, UnixTime, part
from lastbeat.model.policy import Policy
from lastbeat.model.record import Attempt, HeartbeatMemory, Record
from lastbeat.model.state import State
from lastbeat.model.status import METADATA_STALE, Status
from lastbeat.model.text import fit, one_line
from lastbeat.stores.port import Entry
from lastbeat.watch.decide.evidence import last_alive
from lastbeat.watch.decide.flapping import settles_at
from lastbeat.watch.decide.freshness import learned_limit_s, silence_limit_s
from lastbeat.watch.decide.late_sections import when_late
from lastbeat.watch.decide.silent_ranks import seeming_silent
from lastbeat.watch.observe.run import newest_log

SETTLED_S: Final = 86400.0
"""Time in s after its end until a run is no longer polled. A listing still shows when it begins again."""
STOOD_S: Final = 600.0
"""Least age in s of a step that is kept; the next look finds another than a younger one."""
REASON_LIMIT: Final = 200
"""Most characters of a reason that are kept."""
Files = Mapping[str, tuple[float, str] | None]
"""Name → when it was stored (unix seconds) and its version, or None if the file does not exist. Files that were not
checked are left out."""
_BEATS = (runid.METADATA, runid.PROGRESS)
LOG: Final = runid.LOG
"""Key in :data:`Files` of the newest log, under any name."""


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """Times and versions of a run's files, without their contents."""

    at: float
    """Unix seconds of the store's clock, taken before the store was asked."""
    files: Files
    troubled: int | None = None
    """Checksum of the ranks that seem silent, or report lateness or an unhealthy node; 0 for none. None if the ranks'
    files were not listed."""


_FILES = Columns((runid.ERROR, runid.COMPLETE, runid.METADATA, runid.PROGRESS, runid.RECORD, LOG))
_TIMES = part("times")
_COUNTS = part("counts")


@dataclass(frozen=True, slots=True)
class IndexedRun:
    """One run as the last look left it. Times are unix seconds of the store's clock."""

    FORM: ClassVar[Form] = Form.ROW

    line: RunLine
    looked_at: float = field(metadata=_TIMES)
    seen_at: float = field(metadata=_TIMES)
    """When its files were last checked, changed or not."""
    moved: float = field(default=0.0, metadata=_TIMES)
    """When the last metadata.json that any watcher saw was stored, read or not."""
    wake: float | None = field(default=None, metadata=_TIMES)
    """When a look is needed even if nothing changes."""
    newest: float = field(default=0.0, metadata=_TIMES)
    """When training's newest file was stored, see :func:`newest_of`."""
    beating: bool = field(default=False, metadata=_TIMES)
    """Whether it ended or timed out, and still writes heartbeats, which change nothing."""
    by_log: bool = field(default=False, metadata=_TIMES)
    """Whether its logs stand in for a heartbeat that this attempt has not written."""
    silence_limit_s: float | None = field(default=None, metadata=_TIMES)
    """Age in s of its last beat from which a RUNNING run misses beats; None if its beat interval is unknown."""
    stale_s: float | None = field(default=None, metadata=_TIMES)
    """The run's own limit for silence in s, if it states one."""
    stall_s: float | None = field(default=None, metadata=_TIMES)
    """The run's own limit for a stall in s, if it states one."""
    outlier_s: float | None = field(default=None, metadata=_TIMES)
    """Age in s of its last beat from which a RUNNING run counts as dead by the pattern of its beats, if known."""
    limited_by: int = field(default=0, metadata=_TIMES)
    """The limits of the fleet that the last look applied, see :attr:`Policy.fleet_token`."""
    silent_rank_s: float | None = field(default=None, metadata=_TIMES)
    """Age in s of its last heartbeat from which a rank seems silent; None if the ranks were not checked."""
    troubled: int = field(default=0, metadata=_TIMES)
    """:attr:`FileSnapshot.troubled` when the ranks were last checked."""
    files: Annotated[Files, _FILES] = field(default_factory=dict)
    """Sentinels, heartbeats, record and log at the last look."""
    pending: int = field(default=0, metadata=_COUNTS)
    """Number of deliveries still to be made."""
    start_time: UnixTime | None = field(default=None, metadata=_COUNTS)
    transitions: int = field(default=0, metadata=_COUNTS)
    alerts: int = field(default=0, metadata=_COUNTS)
    supervised: bool = field(default=False, metadata=_COUNTS)
    """Whether lastbeat starts its jobs."""
    preempted: tuple[float, str] | None = field(default=None, metadata=_COUNTS)
    """Its ``_preempted``, in the form of ``files``; few runs have one."""
    first_looked_at: UnixTime | None = field(default=None, metadata=_COUNTS)
    """When a watcher first looked at it."""
    stood_at: tuple[int, UnixTime] | None = field(default=None, metadata=_COUNTS)
    """Its step and when it reached that, if the last look found it there for longer than :data:`STOOD_S`."""
    acknowledged: bool = field(default=False, metadata=_COUNTS)
    """Whether a person said that they look after it."""
    progressed: float = field(default=0.0, metadata=TRANSIENT)
    """When the last progress.json that this process saw was stored, read or not."""
    step_source: Heartbeat | None = field(default=None, metadata=TRANSIENT)
    """The heartbeat that gave step and loss at the last look of this process."""

    @property
    def lives(self) -> bool:
        """Whether it runs, or may run again without a new attempt."""
        return self.line.status in {Status.RUNNING, Status.TIMED_OUT}

    @property
    def beat_at(self) -> float | None:
        """When the newest heartbeat was stored; without a heartbeat, when the newest log was."""
        beats = [file[0] for file in map(self.files.get, _BEATS) if file is not None]
        log = self.files.get(LOG)
        if not beats:
            return log[0] if log is not None else None
        return max(*beats, self.moved, self.progressed)

    def settled(self, now: float) -> bool:
        """Whether it ended long ago and all its alerts are delivered."""
        over = self.line.status.finished or self.line.status.is_foreign
        if not over or self.pending:
            return False
        since = self.line.since.timestamp() if self.line.since else self.looked_at
        return now - max(since, self.newest) > SETTLED_S

    def seed(self) -> Record:
        """A record to start from when all of the run's files are gone, including its record."""
        beats = [_beat(self.files.get(name)) for name in _BEATS]
        return Record(
            self.line.run_id,
            State(self.line.status, self.line.reason),
            since=self.line.since,
            attempt=Attempt(self.line.attempt, self.start_time),
            metadata=replace(beats[0], owner=self.line.owner) if beats[0] is not None else None,
            progress=beats[1],
            log=_beat(self.files.get(LOG)),
            transitions=self.transitions,
            alerts=self.alerts,
            conditional_writes=True,
        )


@dataclass(frozen=True, slots=True)
class LeftOutRun:
    """A run that a user took out of the fleet, as of the last look. Times are unix seconds."""

    FORM: ClassVar[Form] = Form.ROW

    record: str
    """Version of its record."""
    newest: float
    """Training's newest file is no younger than this."""
    again_at: float | None = None
    """Time of the next look, even if it writes before; None for a look as soon as it writes."""

    def stands(self, files: Mapping[str, Entry], at: float) -> bool:
        """Whether a look would find nothing new, by a listing made at ``at``."""
        record = files.get(runid.RECORD)
        if record is None or record.version != self.record:
            return False
        return newest_of(files) <= self.newest if self.again_at is None else at < self.again_at


@dataclass
class FleetIndex:
    """The known runs of one shard of a fleet.

    Looks that outlast their pass still change it, so hold ``lock`` to read or change more than one entry.
    """

    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    runs: dict[str, IndexedRun] = field(default_factory=dict)
    """Runs that are live, or ended within a day."""
    finished: dict[str, int] = field(default_factory=dict)
    """Runs that ended earlier → unix seconds of their newest file."""
    left_out: dict[str, LeftOutRun] = field(default_factory=dict)
    """Runs that a user took out of the fleet."""
    cursor: str = ""
    """Last run that an unfinished pass handled."""
    pages: int = 0
    """Number of requests of the last whole listing."""
    listed_at: float = 0.0
    """When the fleet was last listed as a whole."""
    unseen: dict[str, float] = field(default_factory=dict)
    """Runs that cannot be observed → since when."""
    cuts: tuple[str, ...] = ()
    """Last run of each shard, from the last split of the fleet."""
    just_listed: bool = False
    """Whether the last pass of this process listed everything."""
    broke_off: bool = False
    """Whether the last pass of this process listed only a part, for lack of time or because a page was unreadable."""
    unsaved: int = 0
    """Number of reads that another process would need to learn the changes since the index was last saved."""

    def recent_runs(self) -> list[IndexedRun]:
        """A copy of the runs that are live, or ended within a day."""
        with self.lock:
            return list(self.runs.values())

    def unseen_since(self, run_id: str) -> datetime | None:
        """Since when the run cannot be observed; None if no pass has failed to observe it."""
        since = self.unseen.get(run_id)
        return None if since is None else datetime.fromtimestamp(since, tz=timezone.utc)

    def unchanged(self, known: IndexedRun, files: FileSnapshot, newest: float = 0.0) -> None:
        """Note that ``files`` show no change of the run since the last look. ``newest`` is :func:`newest_of`, if
        known."""
        metadata, progress = files.files.get(runid.METADATA), files.files.get(runid.PROGRESS)
        with self.lock:
            self.runs[known.line.run_id] = replace(
                known,
                seen_at=files.at,
                moved=metadata[0] if metadata else known.moved,
                progressed=progress[0] if progress else known.progressed,
                newest=max(newest, known.newest),
            )

    def retire(self, run_id: str, newest: float) -> None:
        """Stop polling the run until it has a file newer than ``newest`` (unix seconds)."""
        with self.lock:
            self.runs.pop(run_id, None)
            self.finished[run_id] = int(newest) + 1

    def retire_settled(self, now: float) -> None:
        """:meth:`retire` the runs that ended long ago. The caller holds ``lock``."""
        for run_id, run in list(self.runs.items()):
            if run.settled(now):
                del self.runs[run_id]
                self.finished[run_id] = int(run.newest) + 1

    def leave_out(self, run_id: str, run: LeftOutRun) -> None:
        """Skip the run while ``run`` stands."""
        with self.lock:
            self.runs.pop(run_id, None)
            self.finished.pop(run_id, None)
            self.unseen.pop(run_id, None)
            self.left_out[run_id] = run

    def drop(self, run_id: str) -> None:
        """Forget a run that is gone."""
        with self.lock:
            self.runs.pop(run_id, None)

    def look_soon(self, run_ids: Collection[str]) -> None:
        """Make the next pass look at these runs, changed or not."""
        with self.lock:
            for run_id in run_ids:
                run = self.runs.get(run_id)
                if run is not None:
                    self.runs[run_id] = replace(run, wake=run.seen_at)


def newest_of(files: Mapping[str, Entry]) -> float:
    """When training's newest file was stored, in unix seconds; 0 without files."""
    return max((entry.modified.timestamp() for name, entry in files.items() if name != runid.RECORD), default=0.0)


def snapshot_of(
    files: Mapping[str, Entry], at: datetime, ranks: RankFiles | None = None, silent_rank_s: float | None = None
) -> FileSnapshot:
    """A run's files in a listing made at ``at``, and its ranks if ``silent_rank_s``, the age in s at which they seem
    silent, is known."""
    names = (*runid.SENTINELS, *_BEATS, runid.RECORD, runid.ALERTS)
    shown = {**{name: files.get(name) for name in names}, LOG: newest_log(files)}
    return FileSnapshot(
        at.timestamp(),
        {name: (entry.modified.timestamp(), entry.version) if entry else None for name, entry in shown.items()},
        None if ranks is None or silent_rank_s is None else _troubled(ranks, at, silent_rank_s),
    )


def _troubled(ranks: RankFiles, at: datetime, silent_rank_s: float) -> int:
    # A mark counts by its version, so one that is set again differs from one that was left behind.
    found = (
        seeming_silent(ranks, at, silent_rank_s),
        tuple(sorted(ranks.late.items())),
        tuple(sorted(ranks.health.items())),
    )
    return zlib.crc32(repr(found).encode()) or 1 if any(found) else 0


def after_look(
    outcome: Outcome,
    listed: Mapping[str, Entry],
    at: datetime,
    record_version: str | None,
    known: IndexedRun | None,
    limited_by: int = 0,
) -> IndexedRun:
    """The entry of an observed run. The look began with the files ``listed`` at ``at`` and the limits ``limited_by``;
    ``known`` is the entry before it."""
    record, seen = outcome.record, outcome.observation if isinstance(outcome.observation, Seen) else Seen()
    ranks, silent_rank_s = seen.ranks, known.silent_rank_s if known is not None else None
    troubled = known.troubled if known is not None else 0
    snapshot = snapshot_of(listed, at)
    if ranks is not None:
        silent_rank_s = ranks.limit_s
        # Files of ranks that could not be read are read again.
        troubled = 0 if ranks.unread else _troubled(ranks.files, at, silent_rank_s)
    by_log = record is None or record.metadata is None or record.progress is None
    files = {**snapshot.files, runid.RECORD: (snapshot.at, record_version) if record_version else None}
    # Its time alone shows whether it is new.
    del files[runid.ALERTS]
    metadata, progress = files.get(runid.METADATA), files.get(runid.PROGRESS)
    return IndexedRun(
        line=RunLine(
            outcome.run_id,
            outcome.status,
            fit(one_line(_reason(outcome)), REASON_LIMIT),
            outcome.cause,
            outcome.action,
            tuple(outcome.conditions),
            record.came_to_be_at if record else None,
            record.attempt.number if record else 1,
            record.owner if record else None,
        ),
        looked_at=snapshot.at,
        seen_at=snapshot.at,
        files=files,
        moved=metadata[0] if metadata else 0.0,
        wake=None,
        pending=outcome.pending,
        start_time=record.attempt.start_time if record else None,
        transitions=record.transitions if record else 0,
        alerts=record.alerts if record else 0,
        supervised=record is not None and record.supervision is not None,
        preempted=files.pop(runid.PREEMPTED),
        first_looked_at=record.first_looked_at if record else None,
        stood_at=_stood_at(record, at) if record else None,
        acknowledged=record is not None and record.acknowledged is not None,
        newest=newest_of(listed),
        beating=outcome.status is not Status.RUNNING
        and known is not None
        and known.line.status is outcome.status
        and any(_later(files.get(name), known.files.get(name)) for name in beats_of(files, by_log=by_log)),
        by_log=by_log,
        silence_limit_s=_of_beats(outcome, silence_limit_s),
        outlier_s=_of_beats(outcome, learned_limit_s),
        limited_by=limited_by,
        silent_rank_s=silent_rank_s,
        troubled=troubled,
        stale_s=seen.metadata.stale_s if seen.metadata is not None else None,
        stall_s=seen.metadata.stall_s if seen.metadata is not None else None,
        progressed=progress[0] if progress else 0.0,
        step_source=outcome.step_source,
    )


def _reason(outcome: Outcome) -> str:
    """The reason of the status; for a RUNNING run, the texts of its warnings."""
    if outcome.status is not Status.RUNNING:
        return outcome.reason
    return "; ".join(f"{name}: {text}" for name, text in outcome.conditions.items())


def _stood_at(record: Record, at: datetime) -> tuple[int, datetime] | None:
    seen = record.step_seen
    return seen if seen is not None and (at - seen[1]).total_seconds() > STOOD_S else None


def _of_beats(outcome: Outcome, limit_s: Callable[[Heartbeat | None], float | None]) -> float | None:
    seen = outcome.observation
    return limit_s(seen.metadata) if isinstance(seen, Seen) and outcome.status is Status.RUNNING else None


def beats_of(files: Files, *, by_log: bool) -> tuple[str, ...]:
    """The files that show life and progress. The log stands in for a heartbeat that is missing, or was left behind by
    another attempt (``by_log``)."""
    return _BEATS if not by_log and all(files.get(name) for name in _BEATS) else (*_BEATS, LOG)


def wake_of(outcome: Outcome, known: IndexedRun | None, files: Files, policy: Policy) -> float | None:
    """Unix time at which a look is needed even if no file changes; None if never. ``policy`` has the fleet's limits for
    the run.

    1. Without a written record: at once, to decide again.
    2. Deliveries: when the first of them may be tried, or its claim ends.
    3. Flapping: when the run has been steady for long enough.
    4. A RUNNING run: when a heartbeat that is gone, or was only stored again, would be stale. No listing shows that.
    5. A heartbeat of doubtful time: at once if it changed, because a second look settles it.
    6. An end that is left to the run's supervisor: when the supervisor has been silent for too long.
    7. A RUNNING run with a silent rank: when the rank's section overruns its limit.

    This look has judged all past times. Anything that it could not settle waits for a file to change.
    """
    record, now, section_stale_s = outcome.record, outcome.at.timestamp(), policy.stale_s
    if record is None or not outcome.recorded:
        return now
    if isinstance(outcome.observation, Seen) and outcome.observation.metadata is not None:
        stated = outcome.observation.metadata
        policy = policy.of_run(stated.stale_s, stated.stall_s)
        section_stale_s = policy.stale_s
        learned_s = learned_limit_s(stated) if policy.learned else None
        if learned_s is not None:
            policy = replace(policy, stale_s=min(policy.stale_s, learned_s))
    times = [now] if outcome.pending else []
    open_ = [d for alert in record.outbox for d in alert.deliveries.values() if not d.settled]
    if outcome.pending and open_:
        times = [min(max((d.not_before or outcome.at), (d.claimed_until or outcome.at)).timestamp() for d in open_)]
    if outcome.left_until is not None:
        times.append(outcome.left_until.timestamp() + 1)
    steady = settles_at(record)
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
        if isinstance(outcome.observation, Seen):
            limit_s = silence_limit_s(outcome.observation.metadata)
            late_at = when_late(outcome.observation, record.attempt, limit_s, section_stale_s, outcome.at)
            times += [late_at.timestamp() + 1] if late_at is not None else []
        # A second look distinguishes a slow clock from an old document, but only once there is a new document.
        times += [
            now for name, m in memories if m.suspect and (known is None or files.get(name) != known.files.get(name))
        ]
    return min(times, default=None)


def _dues_of_log(record: Record, files: Files) -> list[datetime]:
    """Times from which a log goes stale although its file is young: its text was only stored again, or has no step."""
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
