"""Looking at one run of a fleet: what the threads of a pass do."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from lastbeat.fleet.findings import Findings
from lastbeat.fleet.groups import Gathered, Groups, hand_over
from lastbeat.fleet.memory import FleetMemory, Glimpse, RunMemory, after_look, newest_of, wake_of
from lastbeat.fleet.probe import Probe
from lastbeat.fleet.screen import screen, share
from lastbeat.fleet.watches import Watches
from lastbeat.model import runid
from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import FleetPolicy, Policy
from lastbeat.model.status import Status
from lastbeat.observe.listing import ask_files, run_files
from lastbeat.stores.port import Entry, Store, StoreError

_LOOK_GETS = 2
"""What a look costs that finds both heartbeats moved on and nothing else."""


@dataclass(frozen=True)
class Looking:
    """What a pass does with a single run. Nothing here raises for what the store or a channel does."""

    store: Store
    policy: Policy
    fleet: FleetPolicy
    watches: Watches
    groups: Groups
    memory: FleetMemory
    found: Findings
    late: Findings
    """Where a look leaves what it found when its pass is over."""
    refresh: Callable[[], None]
    """Learns what other sweeps have written of the fleet; may raise :class:`StoreError`."""

    def is_history(self, run_id: str, files: Mapping[str, Entry], now: float) -> bool:
        """Whether a run that is not among those being watched needs no look either."""
        newest = newest_of(files)
        ended = self.memory.finished.get(run_id)
        if ended is not None:
            # The folder of an old run, unless somebody has begun it again.
            return newest <= ended
        # Nobody ever watched it, and it ended before anybody could: no news.
        return runid.RECORD not in files and now - newest > self.fleet.news_s

    def shelve(self, run_id: str, files: Mapping[str, Entry]) -> None:
        """Remember that nothing is to be expected of it."""
        with self.memory.lock:
            self.memory.finished[run_id] = int(newest_of(files)) + 1

    def still(self, known: RunMemory, glimpse: Glimpse, newest: float = 0.0) -> None:
        """It is as the last look left it; ``newest`` as far as it is known, see :func:`newest_of`."""
        metadata, progress = glimpse.files.get(runid.METADATA), glimpse.files.get(runid.PROGRESS)
        with self.memory.lock:
            self.memory.runs[known.line.run_id] = replace(
                known,
                seen_at=glimpse.at,
                moved=metadata[0] if metadata else known.moved,
                progressed=progress[0] if progress else known.progressed,
                newest=max(newest, known.newest),
            )

    def look(
        self,
        run_id: str,
        files: Mapping[str, Entry] | None = None,
        at: datetime | None = None,
        *,
        find: Callable[[Store, str], dict[str, Entry]] = run_files,
    ) -> None:
        """Read, judge, record, tell. ``files`` are as the fleet's listing had them at ``at``; None: ``find`` them."""
        known = self.memory.runs.get(run_id)
        watch = self.watches.take(run_id)
        try:
            if files is None or at is None:
                at = self.store.clock()
                files = find(self.store, run_id)
            if not files and known is not None:
                # Another sweep may know better why it is gone.
                self.refresh()
                known = self.memory.runs.get(run_id)
                if known is None or (known.line.status is not Status.RUNNING and not known.pending):
                    with self.memory.lock:
                        self.memory.runs.pop(run_id, None)
                    return
            if known is not None:
                # Should the record be gone, be it with everything else or before it.
                watch.remember(known.seed())
            outcome = watch.tick(files, at)
            version = watch.record_version
        except StoreError as error:
            self._could_not(run_id, str(error))
            return
        finally:
            self.watches.put_back(watch)
        if outcome.status is Status.UNKNOWN:
            self._could_not(run_id, outcome.reason)
        else:
            self._could(outcome, files, at, version, known)

    def probe(self, probe: Probe) -> None:
        """Ask how it is, and look if that is not as expected."""
        try:
            glimpse = probe.ask()
        except StoreError as error:
            self._could_not(probe.run.line.run_id, str(error))
            return
        run_id = probe.run.line.run_id
        # What only the text of a heartbeat tells can wait for the listing, after which reading costs less.
        read_s = float("inf") if probe.between else self.fleet.read_s
        if run_id in self.memory.unseen or screen(probe.run, glimpse, self.policy, read_s):
            # Of logs only a listing knows the names.
            self.look(run_id, find=run_files if probe.run.by_log else ask_files)
        else:
            self.still(probe.run, glimpse)
            with self.memory.lock:
                self.found.answered += 1

    def hand_over(self, gathered: Gathered, run_id: str) -> None:
        """Write down in the run's record which of its alerts a group tells, and send the others."""
        watch = self.watches.take(run_id)
        try:
            tally = hand_over(gathered, watch, self.store.clock())
            version = watch.record_version
        finally:
            self.watches.put_back(watch)
        with self.memory.lock:
            run = self.memory.runs.get(run_id)
            if run is not None and version is not None:
                files = {**run.files, runid.RECORD: (run.seen_at, version)}
                # Its wake stays: it may be due for something else, and then a look too few would be one too late.
                wake = run.seen_at if tally.pending else run.wake
                self.memory.runs[run_id] = replace(run, files=files, pending=tally.pending, wake=wake)

    def look_soon(self, run_ids: Collection[str]) -> None:
        """See to it that the next pass looks at these, changed or not."""
        with self.memory.lock:
            for run_id in run_ids:
                run = self.memory.runs.get(run_id)
                if run is not None:
                    self.memory.runs[run_id] = replace(run, wake=run.seen_at)

    def _could(
        self,
        outcome: Outcome,
        files: Mapping[str, Entry],
        at: datetime,
        version: str | None,
        known: RunMemory | None,
    ) -> None:
        run = after_look(outcome, files, at, version, known)
        wakes = [wake_of(outcome, known, run.files, self.policy)]
        if known is None and outcome.status is Status.RUNNING:
            # A fleet that was all new at once is not read all at once ever after.
            wakes.append(at.timestamp() + self.fleet.read_s * share(outcome.run_id))
        run = replace(run, wake=min((wake for wake in wakes if wake is not None), default=None))
        held = self.groups.held_of(outcome)
        memory = self.memory
        with memory.lock:
            found = self.late if self.found.closed else self.found
            found.looked += 1
            found.answered += 1
            memory.unsaved += self.store.traits.prices.dollars({"GET": _LOOK_GETS})
            memory.finished.pop(outcome.run_id, None)
            if outcome.recorded:
                memory.runs[outcome.run_id] = run
            elif known is not None:
                # What was decided stands nowhere yet: the next look has to begin with what this one began with.
                memory.runs[outcome.run_id] = replace(known, wake=at.timestamp())
            found.held.extend(held)
            found.unrecorded += not outcome.recorded
            if outcome.transition is not None and outcome.recorded:
                found.transitions.append((outcome.run_id, outcome.transition))
            if memory.unseen.pop(outcome.run_id, None) is not None:
                found.seen_again.append(outcome.run_id)
            new = [note for note in outcome.notes if note not in found.notes]
            # Notes are about the store more than about the run: a few will do.
            found.notes.extend(new[: max(0, 10 - len(found.notes))])
        if outcome.record is not None and outcome.record.conditional_writes is not False and version is not None:
            self.watches.prove()

    def _could_not(self, run_id: str, why: str) -> None:
        now = self.store.clock().timestamp()
        with self.memory.lock:
            found = self.late if self.found.closed else self.found
            found.looked += 1
            found.unreadable[run_id] = why
            self.memory.unseen.setdefault(run_id, now)
            known = self.memory.runs.get(run_id)
            if known is not None:
                self.memory.runs[run_id] = replace(known, wake=now)
