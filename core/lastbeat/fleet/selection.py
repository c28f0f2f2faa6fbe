"""Which runs of a fleet a pass works on: found by listing everything, or by asking the runs that are known to live.

Selecting asks the store for listings alone. What a pass does with each run is in :mod:`lastbeat.fleet.one_pass`.
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
from lastbeat.observe.fleet import FleetListing, RunFiles
from lastbeat.observe.listing import RANK_PAGES
from lastbeat.stores.port import Entry, StoreError

_NEW_AT_ONCE = 200
_FREE_READS = 6
"""Runs that are read in each pass where requests are free, however large the fleet is."""
_LEDGER = "groups.json"
_LIMITS = LIMITS.partition("/")[2]
_NAMED_LIMIT = 5
"""Closed folders that a note names."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One run for the pass to work on."""

    run_id: str
    listed: RunFiles | None = None
    """Its files, where a listing has just shown them."""
    asked: IndexedRun | None = None
    """Ask the run first, known by this entry; a look follows only if something changed."""


class Selection:
    """Selects the runs of one pass by ``plan``, and keeps in ``index`` how far it came.

    Iterate over :meth:`runs`, work on each run as it comes, and call :meth:`close` with those that were left over.
    ``until`` is a time of ``time.monotonic()``, after which nothing more is listed. ``sighted`` is called whenever the
    store has answered a listing.
    """

    def __init__(
        self, on: SweepContext, index: FleetIndex, plan: ScanPlan, until: float, sighted: Callable[[], None]
    ) -> None:
        self._on = on
        self._index = index
        self.plan = plan
        """How the runs are found; :attr:`ScanPlan.ASK` once a listing has failed and runs are asked in its place."""
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
        """Folders that nobody may look into and that are not taken for runs → why."""
        self._notes: list[str] = []
        self.busy: set[str] = set()
        """Listed runs that a worker is still at, perhaps since an earlier pass."""
        self.ignored: tuple[str, ...] = ()
        """Folders with names that no run may have."""
        self.ledger: Entry | None = None
        """The ledger of groups, as the listing showed it."""

    def runs(self, now: float) -> Iterator[Wanted]:
        """The runs to work on; ``now`` is the store's time in unix seconds when the pass began.

        Raises :class:`StoreError` if everything is to be listed and not even the first page can be had.
        """
        self._index.just_listed = self._index.broke_off = False
        self._now = datetime.fromtimestamp(now, timezone.utc)
        return self._by_listing(now) if self.plan is ScanPlan.LIST else self._by_asking(now)

    @property
    def notes(self) -> list[str]:
        """What people must know of the selecting."""
        limits = self._on.limits.note
        closed = [_closed_note(self._closed)] if self._closed else []
        return [*self._notes, *closed, *([limits] if limits else [])]

    def close(self, left: Collection[str]) -> bool:
        """Remember where the next pass goes on: before the first of the runs ``left``, for which there was no time.
        Returns whether the pass was complete."""
        if self.plan is ScanPlan.LIST:
            self._index.cursor = self._cursor(left)
            self._index.just_listed = self._done and not left
        return self._done and not left

    # By listing everything.

    def _by_listing(self, now: float) -> Iterator[Wanted]:
        """List everything. Where that is done rarely, ask the live runs if it fails."""
        try:
            yield from self._list_all(now)
        except StoreError as error:
            self._index.broke_off = time.monotonic() >= self._until
            if not lists_rarely(self._index, self._on.fleet):
                raise
            self._notes.append(f"Runs that are new or began again could not be looked for: {error}")
            # The next listing begins with what lies before the page that could not be had.
            self._index.cursor, self.plan, self._done = "", ScanPlan.ASK, True
            yield from self._by_asking(now)

    def _list_all(self, now: float) -> Iterator[Wanted]:
        """List everything.

        1. List from where the last pass stopped, then what lies before that. Runs that are known and need a look come
           as they are listed; new runs come after them, 200 at a time. A pass that goes on where another stopped, or
           has used half its time, takes new runs as they are listed.
        2. If the listing came to its end: runs that it did not show are gone, and each may be news.
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
                # Nobody wants to hear that a run that is over was tidied away.
                index.drop(run_id)

    def _by_asking(self, now: float) -> Iterator[Wanted]:
        # Longest unseen first, so that runs that this pass has no time for come first in the next.
        for run in sorted(self._index.known(), key=lambda each: each.seen_at):
            if is_asked(run, now):
                yield Wanted(run.line.run_id, asked=run)

    def _list(self, listing: FleetListing, *, patient: bool) -> Iterator[Wanted]:
        """The runs of a listing that need a look.

        Ends early, and says so in a note, when a page in the middle cannot be had; raises :class:`StoreError` when the
        first cannot.
        """
        new: list[RunFiles] = []
        limits_told = False
        try:
            for run in listing:
                self._sighted()
                if listing.own_known and not limits_told:
                    limits_told = True
                    self._tell_limits(listing)
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
        if listing.own_known and not limits_told:
            self._tell_limits(listing)
        yield from _take(new)
        self._read_own_files(listing)

    def _tell_limits(self, listing: FleetListing) -> None:
        """The fleet's limits are read anew only where they have changed."""
        self._on.limits.listed(listing.own_entry(_LIMITS), self._now)

    def _read_own_files(self, listing: FleetListing) -> None:
        """What the listing showed of the watchdogs' own files."""
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
        """The listed run, if it needs a look at once; a run that is not known is added to ``new`` instead."""
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
                # Known runs go first: their news may be bad.
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
            return min(fleet.read_s, fleet.interval_s * len(self._index.known()) / _FREE_READS)
        if lists_rarely(self._index, fleet):
            # Reading a run costs less after a listing, which shows the names of its files, than after asking the run.
            return max(fleet.read_s - fleet.discover_s, fleet.read_s / 2)
        return fleet.read_s

    def _is_history(self, run: RunFiles, now: float) -> bool:
        """Whether a run without an entry needs no look either."""
        newest = newest_of(run.files)
        ended = self._index.finished.get(run.run_id)
        if ended is not None:
            # The folder of an old run, unless somebody has begun it again.
            return newest <= ended
        # It ended before anybody watched it: no news.
        return runid.RECORD not in run.files and now - newest > self._on.fleet.news_s

    def _closed_folder(self, run_id: str, fault: StoreError) -> Iterator[Wanted]:
        """A folder that the listing could not look into."""
        known = run_id in self._index.runs
        if not known and (run_id in self._index.finished or is_hardly_a_run(run_id)):
            # Nothing is expected of it. A check that reports it for ever would never be green.
            self._closed[run_id] = str(fault)
        else:
            # A look of its own tries again, and reports that the run cannot be observed.
            yield Wanted(run_id)


def _take(new: list[RunFiles]) -> Iterator[Wanted]:
    taken: Sequence[RunFiles] = tuple(new)
    new.clear()
    for run in taken:
        yield Wanted(run.run_id, run)


def _closed_note(closed: Mapping[str, str]) -> str:
    """Which folders are closed, and why."""
    named = "; ".join(f"{name}: {why}" for name, why in list(closed.items())[:_NAMED_LIMIT])
    more = f"; and {len(closed) - _NAMED_LIMIT} more" if len(closed) > _NAMED_LIMIT else ""
    return f"Taken for no runs that live, for nobody may look into them: {named}{more}"
