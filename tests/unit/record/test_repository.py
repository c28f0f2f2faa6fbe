"""Where a record lies, and who wins it."""

from dataclasses import replace

import pytest

from lastbeat.model.record import Record
from lastbeat.stores.port import ConflictError
from lastbeat.watch.record.repository import RecordRepository
from support.memory import MemoryStore


def test_a_record_that_waits_is_read_again_after_a_lost_race() -> None:
    store = MemoryStore()

    def repository(token: str) -> RecordRepository:
        return RecordRepository(store, "run/_watchdog.json", token, waiting_key="_watchdog/unseen/run/r", homeless=True)

    mine, other = repository("mine"), repository("other")
    mine.load(None)
    mine.save(Record("run", reason="first"), store.now)
    other.load(None)
    other.save(replace(other.record or Record("run"), reason="theirs"), store.now)
    assert mine.record is not None
    with pytest.raises(ConflictError):
        mine.save(replace(mine.record, reason="mine"), store.now)
    again = mine.reload()
    assert again is not None
    assert again.reason == "theirs"
    assert mine.save(replace(again, reason="after"), store.now).seq == 3
