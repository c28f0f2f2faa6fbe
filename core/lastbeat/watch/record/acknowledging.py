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
        return replace(record, acknowledgement=given.without_ended(record.conditions))

    _repository(store, run_id).update(change)


def withdraw(store: Store, run_id: str) -> bool:
    """Remove the acknowledgement that holds. Returns whether there was one. Raises :class:`StoreError`."""
    held = False

    def change(record: Record | None) -> Record | None:
        nonlocal held
        held = record is not None and record.acknowledged is not None
        return replace(record, acknowledgement=None) if record is not None and held else None

    _repository(store, run_id).update(change)
    return held


def _repository(store: Store, run_id: str) -> RecordRepository:
    return RecordRepository(store, f"{run_id}/{RECORD}", os.urandom(6).hex(), proven=True)
