"""The mark of a run whose files were deleted before its end: its silence is no news."""

import logging
from datetime import datetime, timedelta
from typing import Final

from lastbeat.model.codec import DamagedError
from lastbeat.model.record import Record
from lastbeat.model.runid import RECORD, waiting_record
from lastbeat.stores.port import Store, StoreError
from lastbeat.watch.record.codec import RECORD_LIMIT_BYTES, decode_record, encode

log = logging.getLogger(__name__)

_KEPT: Final = timedelta(days=1)
"""A mark is kept for this long: every pass has seen it by then."""
_FOLDER: Final = "_watchdog/unseen/"


def forgotten(store: Store, run_id: str) -> Record | None:
    """The mark of the run, or None if there is none or it cannot be read."""
    try:
        blob = store.read(waiting_record(run_id), RECORD_LIMIT_BYTES)
        record = decode_record(blob.body) if blob is not None else None
    except (StoreError, DamagedError) as error:
        log.debug("whether %s was forgotten is not known: %s", run_id, error)
        return None
    return record if record is not None and record.left_out is not None and record.left_out.forgotten else None


def leave_word(store: Store, record: Record) -> None:
    """Write ``record``, that of a run to be forgotten, where the record of an unseen run waits. Raises
    :class:`StoreError`."""
    store.write(waiting_record(record.run_id), encode(record))


def drop_old_words(store: Store, now: datetime) -> None:
    """Delete marks that every pass has seen by now, at most a page of them. Raises :class:`StoreError`."""
    for entry in store.list(_FOLDER).entries:
        run_id = entry.key.removeprefix(_FOLDER).removesuffix(f"/{RECORD}")
        if now - entry.modified > _KEPT and "/" not in run_id and forgotten(store, run_id) is not None:
            store.delete(entry.key)
