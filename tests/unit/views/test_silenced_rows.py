"""Silences as people see them who look at a fleet or a run."""

from datetime import timedelta

from lastbeat.model.silence import SILENCES, Silence
from lastbeat.views.documents import fleet_document
from lastbeat.watch.record.silences import Silences
from support.fleet_views import HOUR, Looked


def silence(looked: Looked, runs: str, hours: float = 2.0, why: str = "node repair") -> None:
    now = looked.now
    made = Silence(f"{runs:.4}", runs, now, now + timedelta(hours=hours), why, "ana@desk")
    Silences(looked.store).add(made, now)


def silenced(looked: Looked) -> dict[str, str]:
    return {row.run_id: row.silence.why for row in looked.table.round().rows if row.silence is not None}


def test_rows_and_their_count_say_who_is_silenced_from_its_making_to_its_end() -> None:
    looked = Looked()
    looked.beats("mistral-1", "mistral-2", "llama-1")
    looked.passes()
    assert looked.table.open().silenced == 0
    silence(looked, "mistral-*")
    silence(looked, "mistral-1", 4.0, "its own")
    assert silenced(looked) == {"mistral-1": "its own", "mistral-2": "node repair"}
    document = fleet_document(looked.table.view())
    assert document["silenced"] == 2
    looked.after(3 * HOUR)
    assert silenced(looked) == {"mistral-1": "its own"}, "one that ends by itself, though nothing is written"
    Silences(looked.store).lift("mistral-1", looked.now)
    assert silenced(looked) == {}


def test_they_are_read_when_they_changed_and_never_where_there_are_none() -> None:
    looked = Looked(paid=True)
    looked.beats("a")
    looked.passes()
    looked.table.open()
    assert looked.asked()[SILENCES] == 0
    silence(looked, "a")
    looked.asked()
    for _ in range(20):
        looked.table.round()
    assert looked.asked()[SILENCES] == 1
    assert looked.row("a", looked.table.view()).silence is not None


def test_a_document_that_is_damaged_hides_no_run() -> None:
    looked = Looked()
    looked.beats("a")
    looked.store.put_text(SILENCES, "{")
    assert [(row.run_id, row.silence) for row in looked.table.open().rows] == [("a", None)]
