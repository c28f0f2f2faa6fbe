"""Acknowledges a run in its record, so that passes and views on every machine know who looks after it."""

import os
from dataclasses import replace

from lastbeat.model.record import Acknowledgement, Record
from lastbeat.model.runid import RECORD
from lastbeat.stores.port import Store, StoreError
from lastbeat.watch.record.repository import RecordRepository


class NotAcknowledgedError(StoreError):
    """There is nothing of what its author saw to acknowledge."""


def acknowledge(store: Store, run_id: str, given: Acknowledgement) -> None:
    """Record ``given``, which has the transition and the conditions that its author saw. A later one takes its place.

    Raises :class:`NotAcknowledgedError` if no watcher has seen the run, or if it has had another transition or warning
    since, and :class:`StoreError`.
    """

    def change(record: Record | None) -> Record:
        if record is None or record.status is None:
            raise NotAcknowledgedError(f"no watcher has seen {run_id} yet", "acknowledge it after its first alert")
        if record.transitions != given.transition:
            now = f"{run_id} is {record.status} since: {record.reason}"
            raise NotAcknowledgedError(f"what you saw is over; {now}", "acknowledge that, if you look after it")
        unseen = [name for name in record.conditions if name not in given.conditions]
        if unseen:
            raise NotAcknowledgedError(f"{run_id} has a new warning: {', '.join(unseen)}", "look at that first")
        held = replace(record, acknowledgement=given.without_ended(record.conditions))
        what = f"acknowledged it: {given.note}" if given.note else "acknowledged it"
        return held if record.acknowledged == held.acknowledged else held.with_intervention(given.at, given.by, what)

    _repository(store, run_id).update(change)


def withdraw(store: Store, run_id: str, by: str) -> bool:
    """Remove the acknowledgement that holds. Returns whether there was one. Raises :class:`StoreError`."""
    held, now = False, store.clock()

    def change(record: Record | None) -> Record | None:
        nonlocal held
        held = record is not None and record.acknowledged is not None
        if record is None or not held:
            return None
        return replace(record, acknowledgement=None).with_intervention(now, by, "withdrew the acknowledgement")

    _repository(store, run_id).update(change)
    return held


def note_intervention(store: Store, run_id: str, by: str, what: str) -> str | None:
    """Add to the run's history what ``by`` has done in the silences, or beside the run. A run that no watcher has seen
    has no history. Returns None, or a sentence that says why it is not there: what was done is done all the same."""
    now = store.clock()

    def change(record: Record | None) -> Record | None:
        return None if record is None else record.with_intervention(now, by, what)

    try:
        _repository(store, run_id).update(change)
    except StoreError as error:
        return f"the history of {run_id} could not be written, and does not say so: {error}"
    return None


def _repository(store: Store, run_id: str) -> RecordRepository:
    return RecordRepository(store, f"{run_id}/{RECORD}", os.urandom(6).hex(), proven=True)
