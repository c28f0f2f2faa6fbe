"""Selects the runs of a fleet that a pass works on, by listing everything or by asking the runs known to be live.

Selecting only requests listings from the store. The work on each run is in :mod:`lastbeat.fleet.one_pass`.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from lastbeat.fleet.asking import is_asked
from lastbeat.fleet.context import SweepContext
from lastbeat.fleet.index import FileSnapshot, FleetIndex, IndexedRun, newest_of, snapshot_of
from lastbeat.fleet.scan_plan import ScanPlan, lists_rarely
from lastbeat.fleet.screen import screen
from lastbeat.model import runid
from lastbeat.model.fleet import Shard
from lastbeat.model.limits import LIMITS
from lastbeat.model.runid import is_hardly_a_run
from lastbeat.model.status import Status
from lastbeat.stores.port import Entry, StoreError
from lastbeat.watch.observe.fleet import FleetListing, RunFiles
from lastbeat.watch.observe.listing import RANK_PAGES

_NEW_AT_ONCE = 200
_FREE_READS = 6
"""Number of runs read in each pass if requests are free, for a fleet of any size."""
_LEDGER = "groups.json"
_LIMITS = LIMITS.partition("/")[2]
_NAMED_LIMIT = 5
"""Most closed folders that a note names."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One run for the pass to work on."""

    run_id: str
    listed: RunFiles | None = None
    """Its files, if a listing has just shown them."""
    asked: IndexedRun | None = None
    """The entry of a run to ask first; a look follows only if something changed."""


class Selection:
    """Selects the runs of one pass by ``plan``, and keeps its progress in ``index``.

    Iterate over :meth:`runs`, work on each run as it comes, and call :meth:`close` with those that were left over.
    Nothing more is listed after ``until``, a time of ``time.monotonic()``. ``sighted`` is called whenever the store has
    answered a listing.
    """

    def __init__(
        self, on: SweepContext, index: FleetIndex, plan: ScanPlan, until: float, sighted: Callable[[], None]
    ) -> None:
        self._on = on
        self._index = index
        self.plan = plan
        """The plan in use; :attr:`ScanPlan.ASK` once a listing has failed and runs are asked in its place."""
        self._until = until
        self._half = (time.monotonic() + until) / 2
        self._sighted = sighted
        self._order: list[str] = []
        """Runs in the order in which the listing showed them."""
        self._begin = ""
        self._done = True
        self._read_s = on.fleet.read_s
        """A listed run whose heartbeats were read this long ago is looked at."""
        self._now = datetime.fromtimestamp(0.0, timezone.utc)
        self._closed: dict[str, str] = {}
        """Unreadable folder that does not count as a run → why it cannot be read."""
        self._notes: list[str] = []
        self.busy: set[str] = set()
        """Listed runs that a worker still works on, perhaps since an earlier pass."""
        self.ignored: tuple[str, ...] = ()
        """Folders with names that no run may have."""
        self.ledger: Entry | None = None
        """The ledger of groups, as the listing showed it."""

    def runs(self, now: float) -> Iterator[Wanted]:
        """The runs to work on; ``now`` is the store's time in unix seconds when the pass began.

        Raises :class:`StoreError` if the plan is to list everything and not even the first page can be read.
        """
        self._index.just_listed = self._index.broke_off = False
        self._now = datetime.fromtimestamp(now, timezone.utc)
        return self._by_listing(now) if self.plan is ScanPlan.LIST else self._by_asking(now)

    @property
    def notes(self) -> list[str]:
        """Notes for the report."""
        limits = self._on.limits.note
        closed = [_closed_note(self._closed)] if self._closed else []
        return [*self._notes, *closed, *([limits] if limits else [])]

    def close(self, left: Collection[str]) -> bool:
        """Remember where the next pass continues: before the first of the runs ``left``, for which there was no time.
        Returns whether the pass was complete."""
        if self.plan is ScanPlan.LIST:
            self._index.cursor = self._cursor(left)
            self._index.just_listed = self._done and not left
        return self._done and not left

    # By listing everything.

    def _by_listing(self, now: float) -> Iterator[Wanted]:
        """List everything. If listings are rare and this one fails, ask the live runs instead."""
        try:
            yield from self._list_all(now)
        except StoreError as error:
            self._index.broke_off = time.monotonic() >= self._until
            if not lists_rarely(self._index, self._on.fleet):
                raise
            self._notes.append(f"Runs that are new or began again could not be looked for: {error}")
            # The next listing begins before the page that could not be read.
            self._index.cursor, self.plan, self._done = "", ScanPlan.ASK, True
            yield from self._by_asking(now)

    def _list_all(self, now: float) -> Iterator[Wanted]:
        """List everything.

        1. List from where the last pass stopped, then the part before that. Known runs that need a look come as they
           are listed; new runs come after them, 200 at a time. A pass that continues another, or has used half its
           time, takes new runs as they are listed.
        2. If the listing came to its end, runs that it did not show are gone, and each may be news.
        """
        index, self._begin = self._index, self._index.cursor
        begin, shard = self._begin, self._on.shard
        pages, self._done, self._read_s = 0, True, self._reading_s()
        for after, until in ((begin, ""), ("", begin)) if begin else (("", ""),):
            part = Shard(after or shard.after, until or shard.until)
            listing = FleetListing(self._on.timely, part, until=self._until, rank_pages=RANK_PAGES)
            yield from self._list(listing, patient=not begin)
            self._done = listing.done and self._done
            pages += listing.pages
            if not self._done:
                break
        self._sighted()
        if not self._done:
            index.broke_off = True
            return
        index.pages, index.listed_at = pages, now
        yield from self._gone(frozenset(self._order))

    def _cursor(self, left: Collection[str]) -> str:
        """The last run before the first that was left over; empty if there was time for all."""
        place = next((place for place, run_id in enumerate(self._order) if run_id in left), None)
        if place is None:
            return "" if self._done or not self._order else self._order[-1]
        return self._order[place - 1] if place else self._begin

    def _gone(self, seen: frozenset[str]) -> Iterator[Wanted]:
        """Known runs that a listing of everything did not show."""
        index = self._index
        with index.lock:
            index.finished = {run_id: at for run_id, at in index.finished.items() if run_id in seen or not at}
            index.unseen = {run_id: at for run_id, at in index.unseen.items() if run_id in seen}
            index.left_out = {run_id: left for run_id, left in index.left_out.items() if run_id in seen}
            gone = [run_id for run_id in index.runs if run_id not in seen]
        for run_id in gone:
            run = index.runs.get(run_id)
            if run is None:
                continue
            if self._on.shard.holds(run_id) and (run.line.status is Status.RUNNING or run.pending):
                yield Wanted(run_id)
            else:
                # The removal of a finished run is no news.
                index.drop(run_id)

    def _by_asking(self, now: float) -> Iterator[Wanted]:
        # Longest unseen first, so that runs that this pass has no time for come first in the next.
        for run in sorted(self._index.recent_runs(), key=lambda each: each.seen_at):
            if is_asked(run, now):
                yield Wanted(run.line.run_id, asked=run)

    def _list(self, listing: FleetListing, *, patient: bool) -> Iterator[Wanted]:
        """The runs of a listing that need a look.

        Ends early, with a note, if a page in the middle cannot be read. Raises :class:`StoreError` if the first cannot.
        """
        new: list[RunFiles] = []
        limits_passed = False
        try:
            for run in listing:
                self._sighted()
                if listing.own_known and not limits_passed:
                    limits_passed = True
                    self._pass_on_limits(listing)
                if not self._on.shard.holds(run.run_id):
                    continue
                self._order.append(run.run_id)
                yield from self._screened(run, new)
                if len(new) >= (_NEW_AT_ONCE if patient and time.monotonic() < self._half else 1):
                    yield from _take(new)
                if time.monotonic() >= self._until:
                    break
        except StoreError as error:
            if not listing.pages and not self._order:
                raise
            self._notes.append(f"The listing broke off, and the next pass goes on from there: {error}")
        if listing.own_known and not limits_passed:
            self._pass_on_limits(listing)
        yield from _take(new)
        self._read_own_files(listing)

    def _pass_on_limits(self, listing: FleetListing) -> None:
        """Pass on the listed version of the fleet's limits, which are read again only if it has changed."""
        self._on.limits.listed(listing.own_entry(_LIMITS), self._now)

    def _read_own_files(self, listing: FleetListing) -> None:
        """Process the watchdogs' own files in the listing."""
        if listing.own_fault is not None:
            self._notes.append(f"What watchdogs know of the fleet could not be looked at: {listing.own_fault}")
        own = listing.own.get(self._on.index_store.name)
        if own is not None:
            try:
                self._on.index_store.refresh(own)
            except StoreError as error:
                self._notes.append(f"What other sweeps know of the fleet could not be read: {error}")
        self.ledger = listing.own.get(_LEDGER, self.ledger)
        self.ignored = (*self.ignored, *listing.ignored)[:10]

    def _screened(self, run: RunFiles, new: list[RunFiles]) -> Iterator[Wanted]:
        """The listed run, if it needs a look at once; an unknown run is added to ``new`` instead."""
        if run.fault is not None:
            yield from self._closed_folder(run.run_id, run.fault)
            return
        if self._on.pool.is_busy(run.run_id):
            self.busy.add(run.run_id)
            return
        known = self._index.runs.get(run.run_id)
        files = snapshot_of(run.files, run.at, run.ranks, known.silent_rank_s if known is not None else None)
        left = self._index.left_out.get(run.run_id)
        if known is None and left is not None and left.stands(run.files, files.at):
            return
        if known is None:
            if self._is_history(run, files.at):
                self._index.retire(run.run_id, newest_of(run.files))
            else:
                # Known runs come first, because their news may be bad.
                new.append(run)
        elif run.run_id in self._index.unseen or self._needs_look(known, files, run):
            yield Wanted(run.run_id, run)
        else:
            self._index.unchanged(known, files, newest_of(run.files))

    def _needs_look(self, known: IndexedRun, files: FileSnapshot, run: RunFiles) -> bool:
        return screen(known, files, self._on.policy_of(run.run_id, run.at), self._read_s) is not None

    def _reading_s(self) -> float:
        fleet = self._on.fleet
        if self._on.store.traits.prices.free:
            return min(fleet.read_s, fleet.interval_s * len(self._index.recent_runs()) / _FREE_READS)
        if lists_rarely(self._index, fleet):
            # Reading a run costs less after a listing, which shows the names of its files, than after asking the run.
            return max(fleet.read_s - fleet.discover_s, fleet.read_s / 2)
        return fleet.read_s

    def _is_history(self, run: RunFiles, now: float) -> bool:
        """Whether a run without an entry needs no look either."""
        newest = newest_of(run.files)
        ended = self._index.finished.get(run.run_id)
        if ended is not None:
            # The folder of an old run, unless the run has begun again.
            return newest <= ended
        # It ended before any watcher saw it, so it is no news.
        return runid.RECORD not in run.files and now - newest > self._on.fleet.news_s

    def _closed_folder(self, run_id: str, fault: StoreError) -> Iterator[Wanted]:
        """A folder that the listing could not look into."""
        known = run_id in self._index.runs
        if not known and (run_id in self._index.finished or is_hardly_a_run(run_id)):
            # No run is expected there. A check that reports it for ever would never be green.
            self._closed[run_id] = str(fault)
        else:
            # A look tries again, and reports that the run cannot be observed.
            yield Wanted(run_id)


def _take(new: list[RunFiles]) -> Iterator[Wanted]:
    taken: Sequence[RunFiles] = tuple(new)
    new.clear()
    for run in taken:
        yield Wanted(run.run_id, run)


def _closed_note(closed: Mapping[str, str]) -> str:
    """The note that names closed folders with their reasons."""
    named = "; ".join(f"{name}: {why}" for name, why in list(closed.items())[:_NAMED_LIMIT])
    more = f"; and {len(closed) - _NAMED_LIMIT} more" if len(closed) > _NAMED_LIMIT else ""
    return f"Not taken for live runs, because they are closed to this user: {named}{more}"
