"""One pass over a fleet: works on the runs that need it within a time limit, groups related alerts, and reports."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from math import inf

from lastbeat.fleet.asking import ask
from lastbeat.fleet.context import SweepContext
from lastbeat.fleet.deadlines import half_until
from lastbeat.fleet.groups import GroupedAlerts, WatchedRuns, apply_to
from lastbeat.fleet.index import FleetIndex, IndexedRun, LeftOutRun, after_look, newest_of, wake_of
from lastbeat.fleet.pass_results import DeliveryBaseline, PassResults, planned, report
from lastbeat.fleet.scan_plan import SMALL_PAGES, ScanPlan
from lastbeat.fleet.screen import screen, share
from lastbeat.fleet.selection import Selection, Wanted
from lastbeat.model import runid
from lastbeat.model.fleet import PassReport
from lastbeat.model.group import DeferredAlert
from lastbeat.model.observation import RankFiles
from lastbeat.model.outcome import Outcome
from lastbeat.model.status import Status
from lastbeat.model.text import counted, fit, one_line
from lastbeat.stores.port import Entry, Store, StoreError
from lastbeat.stores.selftest import conditions_ignored
from lastbeat.watch.decide.first_look import FirstPass
from lastbeat.watch.observe.listing import ask_files, run_files

log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called repeatedly with the number of runs looked at, and the number of runs submitted so far."""
_LOOK_READS = 2
"""Number of reads of a look that finds only two changed heartbeats."""
_SENTINELS_EVERY = 3
"""One in this many passes that ask runs reads the sentinels of a beating run."""
_FAULT_LIMIT = 200
"""Most characters of an unexpected error in a report."""


class Pass:
    """One pass over the shard that ``index`` describes; it keeps the index up to date.

    Call :meth:`run`, then :meth:`close`; or :meth:`give_up` if it raised. ``now`` is the store's time when the pass
    began. No work begins after ``until`` (``time.monotonic()``). ``on_sight`` is called once, when the store has first
    answered. ``first_look`` is the time before which the fleet was never watched, or None if it was.
    """

    def __init__(  # noqa: PLR0913 - every argument of a pass by its name
        self,
        on: SweepContext,
        index: FleetIndex,
        now: datetime,
        until: float,
        progress: Progress | None = None,
        on_sight: Callable[[], None] | None = None,
        *,
        first_look: datetime | None = None,
    ) -> None:
        self._on = on
        self._index = index
        self._now = now
        self._until = until
        self._progress = progress
        self._on_sight = on_sight
        self._first_look = first_look
        self._plan = ScanPlan.LIST
        self._ledger: Entry | None = None
        self._submitted = 0
        self._mine: set[str] = set()
        """Runs that workers of this pass work on."""
        self._busy: set[str] = set()
        """Runs that workers of an earlier pass still work on."""
        self._left: set[str] = set()
        """Runs that this pass had no time for."""
        self._deliveries = DeliveryBaseline.of(on.channels)
        self.results = PassResults()
        with index.lock:
            on.late.move_to(self.results)

    def run(self, plan: ScanPlan) -> None:
        """Work on every run that ``plan`` selects, in parallel. Raises :class:`StoreError` if the store cannot be read.

        1. Select runs, and hand each to the worker pool as it comes, so that looks overlap the listing.
        2. Wait for the workers, until the pass's time is over.
        3. Remember where the next pass continues.
        4. If runs were only asked and none answered, check whether the store can be read at all.
        """
        selection = Selection(self._on, self._index, plan, self._until, self._sighted)
        for wanted in selection.runs(self._now.timestamp()):
            self._submit(wanted.run_id, partial(self._work_on, wanted))
        self._finish()
        self._plan = selection.plan
        self._busy |= selection.busy
        self._ledger = selection.ledger
        with self._index.lock:
            self.results.complete = selection.close(self._left)
            self.results.ignored = selection.ignored
            self.results.notes.extend(selection.notes)
        if self._plan is ScanPlan.ASK and not self.results.answered:
            # Raises if the store as a whole does not answer, not only these runs.
            self._on.timely.list("", limit=1)
            if self._submitted and not self.results.unreadable:
                raise StoreError(
                    f"{self._on.store.url}: no read was answered in time, of {counted(self._submitted, 'run')}"
                )
        self._sighted()

    def give_up(self) -> None:
        """End a pass that cannot read the store. The next pass reports its results so far, and those of late looks."""
        with self._index.lock:
            self.results.closed = True
            self.results.move_to(self._on.late)

    def close(self, deadline: float) -> PassReport:
        """End a pass that could read the store, and return its report.

        1. Decide which deferred alerts share a notice, and send the notices.
        2. Write the decision into the record of each run, and send the alerts that are sent alone.
        3. Retire the runs that ended long ago, and report.

        Steps 1 and 2 each take at most half of the time that is then left until ``deadline``.
        """
        index = self._index
        with index.lock:
            self.results.closed = True
            deferred = tuple(self.results.deferred)
        decision = self._group(deferred, half_until(deadline))
        if self._on.dry_run:
            return self._dry_report(decision)
        # The decision is recorded even if the looks have used up their time.
        self._until = half_until(deadline)
        self._left.clear()
        for run_id in decision.run_ids:
            self._submit(run_id, partial(self._apply, decision, run_id))
        self._finish()
        # Alerts without a decision stay deferred; the next look defers them again and asks again.
        waiting = {each.run_id for each in deferred}.difference(decision.run_ids)
        index.look_soon(self._left | (self._busy & set(decision.run_ids)) | waiting)
        if decision.note:
            self._note(decision.note)
        with index.lock:
            index.retire_settled(self._now.timestamp())
            waiting_count = decision.counts.pending
            return report(self.results, index, self._deliveries, waiting_count, self._now, self._plan.value)

    def _dry_report(self, decision: GroupedAlerts) -> PassReport:
        identities = [channel.identity for channel in self._on.channels]
        with self._index.lock:
            found = report(self.results, self._index, self._deliveries, 0, self._now, self._plan.value)
            return replace(found, would_send=planned(self.results.unsent, decision, identities, self._now))

    def _group(self, deferred: tuple[DeferredAlert, ...], until: float) -> GroupedAlerts:
        """The decision about the deferred alerts, or a note that ``until`` came first."""
        on, ledger = self._on, self._ledger
        looking = None
        if self._first_look is not None:
            looking = FirstPass(self._first_look, self.results.watched, self.results.complete)
        live = sum(run.lives for run in self._index.recent_runs())
        decision = on.calls.call(
            "the ledger of groups",
            lambda: on.groups.gather(
                deferred,
                WatchedRuns(live, self._status_of, self._owner_of),
                on.store.clock(),
                ledger,
                until=until,
                looking=looking,
            ),
            until,
        )
        if decision is not None:
            return decision
        of = counted(len(deferred), "alert")
        late = f"there was no time to find out which of {of} belong together: a later pass tells them"
        return GroupedAlerts(note=late if deferred else None)

    def _status_of(self, run_id: str) -> Status | None:
        run = self._index.runs.get(run_id)
        return run.line.status if run is not None else None

    def _owner_of(self, run_id: str) -> str | None:
        run = self._index.runs.get(run_id)
        return run.line.owner if run is not None else None

    # Handing work to the pool.

    def _submit(self, run_id: str, work: Callable[[], None]) -> None:
        in_time = time.monotonic() < self._until
        begun = in_time and self._on.pool.submit(run_id, partial(self._guarded, run_id, work), self._until)
        if begun is False:
            self._left.add(run_id)
        elif begun is None:
            self._busy.add(run_id)
        else:
            self._submitted += 1
            self._mine.add(run_id)
            self._tell_progress()

    def _finish(self) -> None:
        late, given_up = self._on.pool.finish(self._mine, self._until, self._tell_progress)
        self._mine.clear()
        self._left |= given_up
        if late:
            self._left |= late
            self._note(f"{counted(len(late), 'look')} did not end in time, that at {min(late)} among them")

    def _guarded(self, run_id: str, work: Callable[[], None]) -> None:
        """Do ``work``. If it raises, which is a bug of lastbeat, the run counts as not observed."""
        try:
            work()
        except Exception as error:
            log.exception("the look at %s broke", run_id)
            what = fit(one_line(self._on.mask(f"{type(error).__name__}: {error}")), _FAULT_LIMIT)
            why = f"lastbeat itself broke over this run, please report it with the watchdog's log: {what}"
            self._could_not(run_id, why, self._now.timestamp(), self.results)

    # One run, on a thread of the pool.

    def _work_on(self, wanted: Wanted) -> None:
        if wanted.asked is not None:
            self._ask(wanted.asked)
        elif wanted.listed is not None:
            self._look(wanted.run_id, wanted.listed.files, wanted.listed.at, wanted.listed.ranks)
        else:
            self._look(wanted.run_id)

    def _ask(self, run: IndexedRun) -> None:
        """Poll a run, and look at it if it is not as expected."""
        run_id = run.line.run_id
        fleet, policy, now = self._on.fleet, self._on.policy_of(run_id, self._now), self._now.timestamp()
        # A beating run may have ended, because a rank may have failed. So its sentinels are read now and then if
        # listings are rare, and each time when a listing is overdue.
        overdue = not 0 <= now - self._index.listed_at < fleet.discover_s
        its_turn = int(now / fleet.interval_s + _SENTINELS_EVERY * share(run_id)) % _SENTINELS_EVERY == 0
        reads_all = overdue or (its_turn and self._index.pages > SMALL_PAGES)
        still_before = inf if reads_all else now - fleet.interval_s
        try:
            files = ask(self._on.store, run, policy, still_before)
        except StoreError as error:
            self._could_not(run_id, str(error), self._on.store.clock().timestamp())
            return
        # Reading costs less after a listing, and the next pass may list.
        read_s = fleet.read_s + fleet.interval_s
        if files is None or run_id in self._index.unseen or screen(run, files, policy, read_s):
            # Only a listing shows the names of logs.
            self._look(run_id, find=run_files if run.by_log else ask_files)
        else:
            self._index.unchanged(run, files)
            with self._index.lock:
                self.results.answered += 1

    def _look(
        self,
        run_id: str,
        files: Mapping[str, Entry] | None = None,
        at: datetime | None = None,
        ranks: RankFiles | None = None,
        *,
        find: Callable[[Store, str], dict[str, Entry]] = run_files,
    ) -> None:
        """One tick of the run's watch. ``files`` and those of its ``ranks`` are from a listing at ``at``. Without them,
        ``find`` reads them."""
        on, index = self._on, self._index
        known = index.runs.get(run_id)
        watch = on.watches.take(run_id)
        try:
            if files is None or at is None:
                at = on.store.clock()
                files = find(on.store, run_id)
            if not files and known is not None:
                # Another sweep's index may show why it is gone.
                on.index_store.refresh()
                known = index.runs.get(run_id)
                if known is None or (known.line.status is not Status.RUNNING and not known.pending):
                    index.drop(run_id)
                    with index.lock:
                        self.results.answered += 1
                    return
            if known is not None:
                # For the case that its record is gone, alone or with all other files.
                watch.remember(known.seed())
            # The limits as of now. If one changes during the look, the next pass looks again.
            policy = on.policy_of(run_id, at)
            limited_by = policy.fleet_token if policy.unread is None or known is None else known.limited_by
            outcome = watch.tick(
                files, at, ranks=ranks, first_look=self._first_look, fleet_watched=self._first_look is None
            )
            version = watch.record_version
        except StoreError as error:
            self._could_not(run_id, str(error), on.store.clock().timestamp())
            return
        finally:
            on.watches.put_back(watch)
        if outcome.left_out is not None:
            self._leave_out(outcome, files, version)
        elif outcome.status is Status.UNKNOWN:
            self._could_not(run_id, outcome.reason, on.store.clock().timestamp())
        else:
            self._could(outcome, after_look(outcome, files, at, version, known, limited_by), known)

    def _leave_out(self, outcome: Outcome, files: Mapping[str, Entry], version: str | None) -> None:
        """Note that a user took the run out of the fleet, and it has not come back."""
        left, again_at = outcome.left_out, None
        if left is None or left.newest is None:
            again_at = outcome.at.timestamp() + self._on.fleet.read_s
        self._index.leave_out(outcome.run_id, LeftOutRun(version or "", newest_of(files), again_at))
        with self._index.lock:
            self.results.looked += 1
            self.results.answered += 1

    def _could(self, outcome: Outcome, run: IndexedRun, known: IndexedRun | None) -> None:
        """Note that the run was observed. ``run`` is its new entry, ``known`` the previous one."""
        on, index, run_id = self._on, self._index, outcome.run_id
        wakes = [wake_of(outcome, known, run.files, on.policy_of(run_id, outcome.at))]
        if known is None and outcome.status is Status.RUNNING:
            # Spread runs that were new at the same time, so that later reads do not coincide.
            wakes.append(run.looked_at + on.fleet.read_s * share(run_id))
        run = replace(run, wake=min((wake for wake in wakes if wake is not None), default=None))
        deferred = on.groups.deferred_by(outcome)
        with index.lock:
            index.unsaved += _LOOK_READS
            index.finished.pop(run_id, None)
            index.left_out.pop(run_id, None)
            if outcome.recorded:
                index.runs[run_id] = run
            elif known is not None:
                # The decision was not recorded, so the next look has to begin where this one began.
                index.runs[run_id] = replace(known, wake=run.looked_at)
            seen_again = index.unseen.pop(run_id, None) is not None
            results = on.late if self.results.closed else self.results
            results.add(outcome, deferred, seen_again=seen_again)
            if on.dry_run and outcome.pending and outcome.record is not None:
                results.unsent[run_id] = outcome.record
        record, written = outcome.record, run.files.get(runid.RECORD) is not None
        if record is not None and record.conditional_writes is not False and written:
            on.watches.prove()
        if record is not None and record.conditional_writes is False:
            self._note(conditions_ignored(on.store))

    def _could_not(self, run_id: str, why: str, now: float, results: PassResults | None = None) -> None:
        """Note that the run could not be observed; ``now`` is in unix seconds."""
        index = self._index
        with index.lock:
            results = results or (self._on.late if self.results.closed else self.results)
            results.looked += 1
            results.unreadable[run_id] = why
            index.unseen.setdefault(run_id, now)
            known = index.runs.get(run_id)
            if known is not None:
                index.runs[run_id] = replace(known, wake=now)

    def _apply(self, decision: GroupedAlerts, run_id: str) -> None:
        """Write into the run's record which of its alerts a notice covers, and send the others."""
        on, index = self._on, self._index
        watch = on.watches.take(run_id)
        try:
            counts = apply_to(watch, decision, on.store.clock())
            version = watch.record_version
        finally:
            on.watches.put_back(watch)
        with index.lock:
            run = index.runs.get(run_id)
            if run is not None and version is not None:
                files = {**run.files, runid.RECORD: (run.seen_at, version)}
                # Its wake stays even if nothing is pending: another reason may be behind it.
                wake = run.seen_at if counts.pending else run.wake
                index.runs[run_id] = replace(run, files=files, pending=counts.pending, wake=wake)

    # Reports during the pass.

    def _note(self, note: str) -> None:
        with self._index.lock:
            self.results.note(note)

    def _sighted(self) -> None:
        if self._on_sight is not None:
            self._on_sight()
            self._on_sight = None

    def _tell_progress(self) -> None:
        if self._progress is not None:
            self._progress(self.results.looked, self._submitted)
