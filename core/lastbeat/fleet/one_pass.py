"""One pass: which runs it looks at, in which order, and until when."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from lastbeat.fleet.findings import Findings, Sendings, report, take_over
from lastbeat.fleet.groups import Gathered
from lastbeat.fleet.looking import Looking
from lastbeat.fleet.memory import FleetMemory, Round, glimpse_of, newest_of
from lastbeat.fleet.plans import moved_on, rolled
from lastbeat.fleet.probe import Probe
from lastbeat.fleet.screen import screen
from lastbeat.fleet.stand import Stand
from lastbeat.fleet.steps import half_until
from lastbeat.model.fleet import PassReport, Shard
from lastbeat.model.group import DeferredAlert
from lastbeat.model.runid import is_hardly_a_run
from lastbeat.model.status import Status
from lastbeat.observe.fleet import FleetListing, RunFiles
from lastbeat.stores.port import Entry, StoreError

_AHEAD = 6
"""Looks that a pass takes before they are needed, where they cost nothing."""
_SMALL = 100
"""In a fleet of more runs than this, so few looks would make no difference."""
_NEW_AT_ONCE = 200
_LEDGER = "groups.json"
_NAMED = 5
"""So many folders that are closed, and hardly runs, are named."""


@dataclass(frozen=True)
class _Part:
    """What a pass listed of a round."""

    before: Round
    listing: FleetListing
    done: bool


class Pass:
    """One pass over a shard's ``memory``, which it changes. Looks end ``until`` (``time.monotonic()``)."""

    def __init__(
        self,
        stand: Stand,
        memory: FleetMemory,
        until: float,
        progress: Callable[[int, int], None] | None,
        on_sight: Callable[[], None] | None,
    ) -> None:
        self._on = stand
        self._memory = memory
        self._until = until
        self._half = (time.monotonic() + until) / 2
        self._progress = progress
        self._on_sight = on_sight
        self._submitted = 0
        self._order: list[str] = []
        """Runs in the order in which this pass came to them."""
        self._left: set[str] = set()
        """Those that it had no time for."""
        self._busy: set[str] = set()
        """Those that an earlier pass's threads are still at."""
        self._mine: set[str] = set()
        """Those that its threads are at."""
        self._read_s = stand.fleet.read_s
        self._closed: dict[str, str] = {}
        """Folders that nobody may look into and that are taken for no runs, and why."""
        self._ledger: Entry | None = None
        self._sendings = Sendings.of(stand.channels)
        self.found = Findings()
        self._looking = Looking(
            store=stand.store,
            policy=stand.policy,
            fleet=stand.fleet,
            watches=stand.watches,
            groups=stand.groups,
            memory=memory,
            found=self.found,
            late=stand.late,
            refresh=stand.archive.refresh,
        )
        with memory.lock:
            memory.passes += 1
            take_over(stand.late, self.found)

    def by_listing(self, now: float) -> None:
        """List everything from where the last pass stopped, then what lies before that.

        ``now`` is the store's time when the pass began, in unix seconds. Raises :class:`StoreError` when not even the
        first page is to be had.
        """
        memory, begin = self._memory, self._memory.cursor
        memory.just_listed = False
        ahead: list[tuple[float, RunFiles]] = []
        pages, done = 0, True
        for after, until in ((begin, ""), ("", begin)) if begin else (("", ""),):
            part = Shard(after or self._on.shard.after, until or self._on.shard.until)
            listing = FleetListing(self._on.timely, part, until=self._until)
            # What is known goes first, but for a pass that goes on where another stopped, or has used half its time.
            done = self._list(listing, ahead, patient=not begin) and done
            pages += listing.pages
            if not done:
                break
        self._sight()
        if done:
            memory.pages, memory.listed_at, memory.just_listed = pages, now, True
            memory.round = Round(now + self._on.fleet.interval_s, done=False)
            self._forget(frozenset(self._order))
            if len(ahead) <= _SMALL and self._on.store.traits.prices.free:
                for _, run in sorted(ahead, key=lambda each: each[0])[:_AHEAD]:
                    self._submit(run)
        self._finish()
        self.found.complete = done and not self._left
        memory.cursor = self._cursor(begin, done=done)

    def by_probing(self, now: float, *, between: bool) -> None:
        """Ask the runs that are known to live, and list a part of everything; ``between`` two passes that list all of
        it only ask.

        ``now`` as in :meth:`by_listing`. Raises :class:`StoreError` when the store does not answer.
        """
        memory = self._memory
        memory.just_listed = False
        # Where there is no time for both, either comes first in every second pass.
        ask_first = between or memory.passes % 2 == 0
        if ask_first:
            self._ask(now, between=between)
        part = None if between else self._roll(now)
        if not ask_first:
            self._ask(now, between=between)
        self._finish()
        self.found.complete = not self._left
        if part is not None:
            self._keep_place(part)
        if not self.found.answered and (part is None or self._submitted):
            # Is it these runs, or is it the store?
            self._on.timely.list("", limit=1)
            if self._submitted and not self.found.unreadable:
                raise StoreError(f"{self._on.store.url}: no read was answered in time, of {self._submitted} runs")
        self._sight()

    def _ask(self, now: float, *, between: bool) -> None:
        # Those first that were last seen longest ago: whom this pass has no time for comes first in the next.
        for run in sorted(self._memory.known(), key=lambda each: each.seen_at):
            probe = Probe(self._on.store, run, self._memory.passes, self._on.policy, between)
            if probe.due(now):
                self._task(run.line.run_id, partial(self._looking.probe, probe))

    def _roll(self, now: float) -> "_Part | None":
        """List this pass's part of everything, for what is new and what began again; None where nothing was listed."""
        shard, fleet = self._on.shard, self._on.fleet
        before, pages = rolled(self._memory, now, fleet)
        if not pages:
            return None
        # Of a run that is listed the names are known, so that reading it costs less here than when it is asked.
        self._read_s = max(fleet.read_s - fleet.discover_s, fleet.read_s / 2)
        rest = Shard(before.reached or shard.after, shard.until)
        listing = FleetListing(self._on.timely, rest, until=self._until, most_pages=pages)
        try:
            done = self._list(listing, [], patient=True)
        except StoreError as error:
            self._note(f"Runs that are new or began again could not be looked for: {error}")
            return None
        return _Part(before, listing, done)

    def _keep_place(self, part: "_Part") -> None:
        """Where the next pass goes on: where this one stopped, or before the first run that it had no time for."""
        memory, before, done = self._memory, part.before, part.done
        reached = part.listing.reached or before.reached
        left = next((place for place, run_id in enumerate(self._order) if run_id in self._left), None)
        if left is not None:
            done, reached = False, self._order[left - 1] if left else before.reached
        memory.round = moved_on(before, part.listing.pages, reached, done=done)
        memory.unsaved += part.listing.pages * self._on.store.traits.prices.per_request["LIST"]
        if done:
            memory.pages = memory.round.pages

    def _forget(self, seen: frozenset[str]) -> None:
        """What a listing of everything did not show."""
        memory = self._memory
        with memory.lock:
            memory.finished = {run_id: at for run_id, at in memory.finished.items() if run_id in seen or not at}
            memory.unseen = {run_id: at for run_id, at in memory.unseen.items() if run_id in seen}
            gone = [run_id for run_id in memory.runs if run_id not in seen]
        for run_id in gone:
            self._gone(run_id)

    def _cursor(self, begin: str, *, done: bool) -> str:
        """The run that everything this pass had time for ends with; empty when it had time for all."""
        left = next((place for place, run_id in enumerate(self._order) if run_id in self._left), None)
        if left is None:
            return "" if done or not self._order else self._order[-1]
        return self._order[left - 1] if left else begin

    def give_up(self) -> None:
        """It cannot see: what it has found all the same, and what its looks still find, is for the next pass."""
        with self._memory.lock:
            self.found.closed = True
            take_over(self.found, self._on.late)

    def close(self, now: datetime, plan: str, deadline: float) -> PassReport:
        """Tell what belongs together, forget what is long over, and report; a part of the time until ``deadline`` is
        left for what comes after it."""
        memory = self._memory
        live = sum(run.line.status in {Status.RUNNING, Status.TIMED_OUT} for run in memory.known())
        with memory.lock:
            self.found.closed = True
            held = tuple(self.found.held)
        gathered = self._gathered(held, live, half_until(deadline))
        # What was decided is handed over even if the looks have used up their time.
        self._until = half_until(deadline)
        self._left.clear()
        for run_id in gathered.run_ids:
            self._task(run_id, partial(self._looking.hand_over, gathered, run_id))
        self._finish()
        # What could not be found out to belong together is held, and by the next pass held anew and asked about again.
        waiting = {each.run_id for each in held}.difference(gathered.run_ids)
        self._looking.look_soon(self._left | (self._busy & set(gathered.run_ids)) | waiting)
        if gathered.note:
            self._note(gathered.note)
        if self._closed:
            self._note(_told(self._closed))
        with memory.lock:
            at = now.timestamp()
            for run_id, run in list(memory.runs.items()):
                if run.settled(at):
                    del memory.runs[run_id]
                    memory.finished[run_id] = int(run.newest) + 1
            return report(self.found, memory, self._sendings, gathered.tally.pending, now, plan)

    def _gathered(self, held: tuple[DeferredAlert, ...], live: int, until: float) -> Gathered:
        """What belongs together, unless finding that out takes longer than there is time."""
        on, ledger = self._on, self._ledger
        gathered = on.steps.take(
            "the ledger of groups",
            lambda: on.groups.gather(held, live, on.store.clock(), ledger, self._status_of, until=until),
            until,
        )
        if gathered is not None:
            return gathered
        late = f"there was no time to find out which of {len(held)} alerts belong together: a later pass tells them"
        return Gathered(note=late if held else None)

    def _list(self, listing: FleetListing, ahead: list[tuple[float, RunFiles]], *, patient: bool) -> bool:
        """Whether it came to the end in time."""
        new: list[RunFiles] = []
        try:
            for run in listing:
                self._sight()
                if not self._on.shard.holds(run.run_id):
                    continue
                self._order.append(run.run_id)
                self._see(run, new, ahead)
                if len(new) >= (_NEW_AT_ONCE if patient and time.monotonic() < self._half else 1):
                    self._look_at(new)
                if time.monotonic() >= self._until:
                    break
        except StoreError as error:
            if not listing.pages and not self._order:
                raise
            self._note(f"The listing broke off, and the next pass goes on from there: {error}")
        self._look_at(new)
        if listing.own_fault is not None:
            self._note(f"What watchdogs know of the fleet could not be looked at: {listing.own_fault}")
        own = listing.own.get(self._on.archive.name)
        if own is not None:
            self._learn(own)
        self._ledger = listing.own.get(_LEDGER, self._ledger)
        self.found.ignored = (*self.found.ignored, *listing.ignored)[:10]
        return listing.done

    def _learn(self, own: Entry) -> None:
        try:
            self._on.archive.refresh(own)
        except StoreError as error:
            self._note(f"What other sweeps know of the fleet could not be read: {error}")

    def _see(self, run: RunFiles, new: list[RunFiles], ahead: list[tuple[float, RunFiles]]) -> None:
        if run.fault is not None:
            self._miss(run.run_id, run.fault)
            return
        if self._on.looks.is_open(run.run_id):
            # It is being asked this very moment, or still hangs since an earlier pass.
            self._busy.add(run.run_id)
            return
        glimpse = glimpse_of(run.files, run.at)
        known = self._memory.runs.get(run.run_id)
        if known is None:
            if self._looking.is_history(run.run_id, run.files, glimpse.at):
                self._looking.shelve(run.run_id, run.files)
            else:
                # What is known goes first: its news may be bad.
                new.append(run)
        elif run.run_id in self._memory.unseen or screen(known, glimpse, self._on.policy, self._read_s):
            self._submit(run)
        else:
            self._looking.still(known, glimpse, newest_of(run.files))
            if known.line.status is Status.RUNNING:
                ahead.append((known.looked_at, run))

    def _miss(self, run_id: str, fault: StoreError) -> None:
        """The listing could not look at it."""
        known = run_id in self._memory.runs
        if not known and (run_id in self._memory.finished or is_hardly_a_run(run_id)):
            # Nothing is expected of it, and what can never be looked into must not be told for ever.
            self._closed[run_id] = str(fault)
        else:
            # A look of its own tries again, and is what tells that it cannot be seen.
            self._task(run_id, partial(self._looking.look, run_id))

    def _look_at(self, new: list[RunFiles]) -> None:
        for run in new:
            self._submit(run)
        new.clear()

    def _gone(self, run_id: str) -> None:
        """Known, and not in the listing any more."""
        run = self._memory.runs.get(run_id)
        if run is None:
            return
        if not self._on.shard.holds(run_id) or (run.line.status is not Status.RUNNING and not run.pending):
            # Whoever tidied up after a run that is over wants to hear nothing of it.
            with self._memory.lock:
                self._memory.runs.pop(run_id, None)
            return
        self._task(run_id, partial(self._looking.look, run_id))

    def _submit(self, run: RunFiles) -> None:
        self._task(run.run_id, partial(self._looking.look, run.run_id, run.files, run.at))

    def _task(self, run_id: str, task: Callable[[], None]) -> None:
        began = time.monotonic() < self._until and self._on.looks.submit(run_id, task, self._until)
        if began is False:
            self._left.add(run_id)
        elif began is None:
            self._busy.add(run_id)
        else:
            self._submitted += 1
            self._mine.add(run_id)
            self._tell()

    def _finish(self) -> None:
        late, given_up = self._on.looks.finish(self._mine, self._until, self._tell)
        self._mine.clear()
        self._left |= given_up
        if late:
            self._left |= late
            self._note(f"{len(late)} looks did not end in time, that at {min(late)} among them")

    def _note(self, note: str) -> None:
        with self._memory.lock:
            self.found.notes.append(note)

    def _status_of(self, run_id: str) -> Status | None:
        run = self._memory.runs.get(run_id)
        return run.line.status if run is not None else None

    def _sight(self) -> None:
        if self._on_sight is not None:
            self._on_sight()
            self._on_sight = None

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self.found.looked, self._submitted)


def _told(closed: Mapping[str, str]) -> str:
    """Which folders are closed, and why."""
    named = "; ".join(f"{name}: {why}" for name, why in list(closed.items())[:_NAMED])
    more = f"; and {len(closed) - _NAMED} more" if len(closed) > _NAMED else ""
    return f"Taken for no runs that live, for nobody may look into them: {named}{more}"
