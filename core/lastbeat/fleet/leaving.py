"""Takes runs out of a fleet, and back into it.

An *archived* run keeps its record, with a note of that. A *forgotten* one keeps only the note. Both are written by
compare-and-set before any other change. So after a crash in between, or during it, a watcher finds the run left out,
never half forgotten.
"""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from lastbeat.fleet.index import newest_of
from lastbeat.fleet.index_store import drop_from_index
from lastbeat.model import runid
from lastbeat.model.group import LEDGER, Ledger
from lastbeat.model.record import LeftOut, Record
from lastbeat.model.status import Status
from lastbeat.stores.port import Entry, Store
from lastbeat.watch.decide.leaving import back, taken_out
from lastbeat.watch.effects.blindness import state_key
from lastbeat.watch.observe.listing import run_files
from lastbeat.watch.record.codec import LEDGER_LIMIT_BYTES
from lastbeat.watch.record.repository import RecordRepository, drop_old_words, leave_word


@dataclass(frozen=True, slots=True)
class Removed:
    """Number and size of the deleted files of training."""

    count: int = 0
    size_bytes: int = 0


@dataclass(frozen=True)
class Leaving:
    """Takes runs out of the fleet in ``store``; ``state`` is the state directory. All methods raise
    :class:`StoreError`."""

    store: Store
    by: str
    state: Store | None = None

    def archive(self, run_id: str, *, alive: bool = False) -> int:
        """Leave the run out of passes and views. Returns the number of open deliveries that this cancels. ``alive``
        says that the run still beats; it then stays out until its next attempt."""
        left = self._left_out(run_files(self.store, run_id), alive=alive)
        dropped = 0

        def change(record: Record | None) -> Record:
            nonlocal dropped
            known = record or Record(run_id)
            after = taken_out(known, left)
            dropped = _open(known) - _open(after)
            return after

        self._change(run_id, change)
        return dropped

    def undo(self, run_id: str) -> bool:
        """Take an archived run back. Returns whether it was archived."""
        done = False

        def change(record: Record | None) -> Record | None:
            nonlocal done
            done = record is not None and record.left_out is not None and not record.left_out.forgotten
            return back(record) if record is not None and done else None

        self._change(run_id, change)
        return done

    def forget(self, run_id: str, *, alive: bool = False, delete: bool = False) -> Removed:
        """Remove the run's record, and with ``delete`` also training's files.

        1. Replace the record by a note that the run is forgotten. The note stays as long as training's files do, or the
           next pass would find a new run.
        2. Delete the files, the record last. For a run that had not ended a note is left, or its absence would be news.
        3. Remove the run from the rest of the passes' state.
        """
        files = run_files(self.store, run_id)
        left = replace(self._left_out(files, alive=alive and not delete), forgotten=True)
        if delete:
            # Any file that is written from now on belongs to a new run.
            left = replace(left, newest=left.at)
        lives, known = alive, False

        def change(record: Record | None) -> Record:
            nonlocal lives, known
            known = record is not None
            lives = alive or (record is not None and record.status is Status.RUNNING)
            return taken_out(record or Record(run_id), left)

        removed = Removed()
        stays = any(name != runid.RECORD for name in files)
        if stays:
            self._change(run_id, change)
        if delete:
            if lives:
                leave_word(self.store, taken_out(Record(run_id), left))
            removed = self._delete(run_id)
        elif not stays:
            self.store.delete(f"{run_id}/{runid.RECORD}")
            if not self.store.list(f"{run_id}/", limit=1).entries:
                self.store.clear(f"{run_id}/")
        if not (delete and lives):
            self.store.delete(runid.waiting_record(run_id))
        if self.state is not None:
            for kind in ("records", "blind"):
                self.state.delete(state_key(kind, self.store.url, run_id))
        return removed

    def tidy(self, run_ids: Collection[str]) -> None:
        """Remove forgotten runs from the fleet's index and ledger."""
        drop_from_index(self.store, run_ids)
        ledger = RecordRepository(
            self.store, LEDGER, self._token(), proven=True, kind=Ledger, limit_bytes=LEDGER_LIMIT_BYTES
        )
        ledger.update(lambda record: _without_members(record, frozenset(run_ids)))
        drop_old_words(self.store, self.store.clock())

    def _delete(self, run_id: str) -> Removed:
        count = size = 0
        more = True
        while more:
            cleared = self.store.clear(f"{run_id}/", keep=runid.RECORD)
            count, size, more = count + cleared.count, size + cleared.size_bytes, cleared.more
        self.store.clear(f"{run_id}/")
        return Removed(count, size)

    def _left_out(self, files: dict[str, Entry], *, alive: bool) -> LeftOut:
        newest = None
        if not alive:
            newest = datetime.fromtimestamp(newest_of(files), tz=timezone.utc)
        return LeftOut(self.store.clock(), self.by, newest)

    def _change(self, run_id: str, change: Callable[[Record | None], Record | None]) -> None:
        RecordRepository(self.store, f"{run_id}/{runid.RECORD}", self._token(), proven=True).update(change)

    @staticmethod
    def _token() -> str:
        return os.urandom(6).hex()


def _open(record: Record) -> int:
    return sum(not each.settled for alert in record.outbox for each in alert.deliveries.values())


def _without_members(record: Record | None, run_ids: frozenset[str]) -> Record | None:
    if not isinstance(record, Ledger):
        return None
    groups = tuple(
        replace(group, members={name: each for name, each in group.members.items() if name not in run_ids})
        for group in record.groups
    )
    alone = tuple(each for each in record.alone if each.run_id not in run_ids)
    return None if (groups, alone) == (record.groups, record.alone) else replace(record, groups=groups, alone=alone)
