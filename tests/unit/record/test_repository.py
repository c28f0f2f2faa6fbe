"""Where a record lies, and who wins it."""

import pytest

from lastbeat.model.record import Record
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.stores.port import ConflictError
from lastbeat.watch.record.repository import RecordRepository
from support.memory import MemoryStore
from support.states import with_state


def test_a_record_that_waits_is_read_again_after_a_lost_race() -> None:
    store = MemoryStore()

    def repository(token: str) -> RecordRepository:
        return RecordRepository(store, "run/_watchdog.json", token, waiting_key="_watchdog/unseen/run/r", homeless=True)

    mine, other = repository("mine"), repository("other")
    mine.load(None)
    mine.save(Record("run", State(Status.RUNNING, "first")), store.now)
    other.load(None)
    assert other.record is not None
    other.save(with_state(other.record, reason="theirs"), store.now)
    assert mine.record is not None
    with pytest.raises(ConflictError):
        mine.save(with_state(mine.record, reason="mine"), store.now)
    again = mine.reload()
    assert again is not None
    assert again.reason == "theirs"
    assert mine.save(with_state(again, reason="after"), store.now).seq == 3
