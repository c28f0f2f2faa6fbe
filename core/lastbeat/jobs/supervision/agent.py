"""Looks after every run of a fleet whose jobs its launcher can be asked about, and carries out what others decided.

A pass lists the fleet. A record that did not change since this agent read it is not read again, unless its run is one
that it looks after: that one gets the same tick as under a supervisor of its own.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.supervision.commands import unfinished
from lastbeat.jobs.supervision.pass_reports import PassReports
from lastbeat.jobs.supervision.restart_decisions import just_started, present_job
from lastbeat.model import runid
from lastbeat.model.codec import DamagedError
from lastbeat.model.outcome import Outcome
from lastbeat.model.reaction import STOP_KIND
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND, Supervision
from lastbeat.stores.port import Entry, Store, StoreError
from lastbeat.watch.effects import actions
from lastbeat.watch.observe.fleet import FleetListing, RunFiles
from lastbeat.watch.observe.listing import RANK_PAGES
from lastbeat.watch.record.agent_mark import AgentMark, leave_mark
from lastbeat.watch.record.codec import RECORD_LIMIT_BYTES, decode_record
from lastbeat.watch.watchdog import Watch

T = TypeVar("T")
log = logging.getLogger(__name__)

AT_ONCE: Final = 8
"""Runs that are looked at in parallel: a scheduler dislikes more."""


class UnfitError(Exception):
    """A run cannot be looked after as it was begun; ``str()`` says why."""


@dataclass
class _Known:
    """What an agent remembers of a run."""

    version: str
    """Version of its record, as last read or written."""
    supervision: Supervision | None = None
    """None: it is not for this agent, as long as its record stays as it is."""
    watch: Watch | None = None
    free_at: datetime | None = None
    """Until then a supervisor of its own looks after it."""
    due_at: datetime | None = None
    """When something waits to be done for it."""
    job: str | None = None
    """Id of its present job, if that had not ended when its record was read or written."""


@dataclass
class AgentPass:
    """What a pass did."""

    outcomes: list[Outcome] = field(default_factory=list)
    """Outcomes of the runs that were checked."""
    others: int = 0
    """Runs that have a supervisor of their own."""
    faults: dict[str, str] = field(default_factory=dict)
    """Run → why it was not looked at."""
    blind: str | None = None
    """Why the fleet, or the launcher, could not be asked at all."""


class Agent:
    """Looks after the runs whose jobs run in the place of its launcher."""

    def __init__(
        self,
        store: Store,
        reports: PassReports,
        watch: Callable[[str, Supervision], Watch],
        *,
        trusts: Callable[[str], bool],
        by: str,
        interval_s: float,
    ) -> None:
        """``watch`` makes the watch of a run that supervises it and goes by ``reports``, or raises :class:`UnfitError`.
        ``trusts`` returns whether the record of a run id may decide what is run here. ``by`` is ``user@host``."""
        self._store = store
        self._launcher = reports.launcher
        self._watch = watch
        self._trusts = trusts
        self._by = by
        self._interval_s = interval_s
        self._reports = reports
        self._place: str | None = None
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()
        self._said: set[str] = set()

    def run(self) -> AgentPass:
        """One pass. Never raises for anything that the store, the launcher or a run does.

        1. Find out which place the launcher serves: jobs of another cluster, or machine, are not for this agent.
        2. List the fleet; read the records that changed since, some in parallel.
        3. Ask the launcher about the jobs of all runs that are for this agent, with one query where it knows such.
        4. Look after these runs, some in parallel.
        5. Leave the mark that shows others that an agent carries out restarts.
        """
        done = AgentPass()
        try:
            self._place = self._place or self._launcher.place()
        except LauncherError as error:
            done.blind = error.told
            return done
        now = self._store.clock()
        listing, listed, noted = FleetListing(self._store, rank_pages=RANK_PAGES), set[str](), list[RunFiles]()
        try:
            for run in _noted(listing, listed):
                noted.append(run)
        except StoreError as error:
            # The runs that it listed before are looked after all the same.
            done.blind = error.told
        with ThreadPoolExecutor(AT_ONCE, "lastbeat-agent") as pool:
            read = pool.map(lambda run: (run, self._read(run, now, done)), noted)
            ours = [(run, known) for run, known in read if known is not None]
            with self._reports.asked([known.job for _, known in ours if known.job is not None]):
                list(pool.map(lambda each: self._look(each[0].run_id, each[1], done, each[0]), ours))
        if done.blind is not None:
            return done
        if listing.done:
            for gone in self._known.keys() - listed:
                del self._known[gone]
        leave_mark(self._store, self._launcher.kind, AgentMark(now, self._by, self._interval_s))
        return done

    @property
    def due_at(self) -> datetime | None:
        """When :meth:`look_soon` has something to do, by the store's clock. None: not before the next pass."""
        return min((each.due_at for each in self._known.values() if each.due_at is not None), default=None)

    def look_soon(self) -> AgentPass:
        """Look after the runs for which something has fallen due since the last pass, without listing the fleet: a
        restart after its delay, an old job that was being ended. Never raises, as :meth:`run`."""
        done, now = AgentPass(), self._store.clock()
        due = [(run_id, each) for run_id, each in self._known.items() if each.due_at is not None and each.due_at <= now]
        with ThreadPoolExecutor(AT_ONCE, "lastbeat-agent") as pool:
            list(pool.map(lambda each: self._look(each[0], each[1], done), due))
        return done

    def _read(self, run: RunFiles, now: datetime, done: AgentPass) -> _Known | None:
        """What is known of the run, or None if it is not for this agent now."""
        known = self._guarded(run.run_id, lambda: self._remembered(run.run_id, run.files[runid.RECORD], now), done)
        if known is not None and known.free_at is not None:
            with self._lock:
                done.others += 1
        return None if known is None or known.supervision is None else known

    def _look(self, run_id: str, known: _Known, done: AgentPass, listed: RunFiles | None = None) -> None:
        outcome = self._guarded(run_id, lambda: self._tick(run_id, known, listed), done)
        if outcome is not None:
            with self._lock:
                done.outcomes.append(outcome)

    def _tick(self, run_id: str, known: _Known, listed: RunFiles | None) -> Outcome | None:
        if known.supervision is None:
            return None
        known.watch = known.watch or self._watch(run_id, known.supervision)
        if listed is None:
            outcome = known.watch.tick()
        else:
            outcome = known.watch.tick(listed.files, listed.at, ranks=listed.ranks)
        record = outcome.record
        known.version = known.watch.record_version or known.version
        if record is not None:
            known.job = _live_job(record, self._launcher.kind)
        known.due_at = None if record is None else _due_at(record, outcome.at)
        if record is not None and _is_over(record, known.supervision):
            self._known[run_id] = _Known(known.version)
        return outcome

    def _guarded(self, run_id: str, work: Callable[[], T], done: AgentPass) -> T | None:
        """What ``work`` returns, or None if it failed: then ``done`` says why."""
        try:
            return work()
        except LauncherError as error:
            why = error.told
        except (StoreError, UnfitError) as error:
            why = str(error)
        except Exception as error:
            log.exception("the look at %s broke", run_id)
            why = f"lastbeat itself broke over it: {type(error).__name__}"
        with self._lock:
            done.faults[run_id] = why
        return None

    def _remembered(self, run_id: str, entry: Entry, now: datetime) -> _Known:
        """What is known of the run, read again if another writer has changed its record."""
        known = self._known.get(run_id)
        if known is not None and known.version == entry.version and (known.free_at is None or known.free_at > now):
            return known
        blob = self._store.read(f"{run_id}/{runid.RECORD}", RECORD_LIMIT_BYTES)
        fresh = self._known[run_id] = _Known(blob.version if blob is not None else entry.version)
        try:
            record = decode_record(blob.body) if blob is not None else None
        except DamagedError as error:
            # Until its record changes.
            self._say_once(f"{run_id} is left alone: its record cannot be read: {error}")
            return fresh
        if record is not None:
            fresh.supervision, fresh.free_at = self._mine(record, now)
            fresh.job = _live_job(record, self._launcher.kind)
        if known is not None and known.supervision == fresh.supervision:
            # It keeps what it has read of the run's logs.
            fresh.watch, fresh.due_at = known.watch, known.due_at
        return fresh

    def _mine(self, record: Record, now: datetime) -> tuple[Supervision | None, datetime | None]:
        """How the run is to be looked after; None: not by this agent, and until when it is certainly not."""
        supervision = record.supervision
        if supervision is None or supervision.launcher != self._launcher.kind or record.left_out is not None:
            return None, None
        if _is_over(record, supervision):
            return None, None
        if supervision.place != self._place:
            where = supervision.place or "a place that their records do not name"
            self._say_once(f"runs of {where} are left alone: this agent serves {self._place}")
            return None, None
        if not self._trusts(record.run_id):
            self._say_once(
                f"{record.run_id} is left alone: its folder belongs to another user, whose commands are not run here"
            )
            return None, None
        lease = record.seat
        if lease is not None and lease.until is not None and lease.until > now:
            return None, lease.until
        return supervision, None

    def _say_once(self, what: str) -> None:
        with self._lock:
            new = what not in self._said
            self._said.add(what)
        if new:
            log.warning("%s", what)


def _noted(listing: FleetListing, listed: set[str]) -> Iterator[RunFiles]:
    """Runs that have a record; each run that is listed is added to ``listed``."""
    for run in listing:
        listed.add(run.run_id)
        if run.fault is None and runid.RECORD in run.files:
            yield run


def _live_job(record: Record, kind: str) -> str | None:
    job = present_job(record, kind)
    return None if job is None or job.state.ended else job.id


def _due_at(record: Record, now: datetime) -> datetime | None:
    wake = actions.wake_at(record, {RESTART_KIND, STOP_KIND}, now)
    return now if wake is None and just_started(record) else wake


def _is_over(record: Record, supervision: Supervision) -> bool:
    """Whether nothing is left to do for its jobs."""
    if record.restart_request is not None or any(not each.settled for each in record.actions) or unfinished(record):
        return False
    job = present_job(record, supervision.launcher)
    if job is None:
        # Its first job was refused for good.
        return True
    if not job.state.ended or any(not each.settled for alert in record.outbox for each in alert.deliveries.values()):
        return False
    ruling = record.ruling
    if ruling is None or ruling.number < job.number:
        return False
    return not ruling.restart or any(each.failed is not None for each in record.actions if each.kind == RESTART_KIND)
