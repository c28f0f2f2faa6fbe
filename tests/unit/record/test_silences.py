"""The silences of a fleet: kept, honoured, ended, whoever writes at the same time and whatever lies there."""

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.silence import SILENCES, Silence
from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.watch.record.fleet_document import LIMIT_BYTES
from lastbeat.watch.record.silences import MOST, Silences
from support.memory import START, MemoryStore
from support.there import there


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def silence(number: int = 1, runs: str = "", *, hours: float = 2.0, now: datetime = START) -> Silence:
    """Those numbered 1 to 3 cover ``mistral-7b``; each has a glob of its own."""
    glob = runs or {1: "mistral-*", 2: "mistral-?*", 3: "mistral-7*"}.get(number, f"run-{number}*")
    return Silence(f"{number:08x}", glob, now, now + timedelta(hours=hours), "moving", "ana@desk")


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_a_silence_is_honoured_listed_and_lifted(store: MemoryStore) -> None:
    assert Silences(store).all(START) == ()
    assert Silences(store).why("mistral-7b", START) is None
    assert Silences(store).add(silence(), START).silence == silence()
    assert Silences(store).all(START) == (silence(),)
    why = Silences(store).why("mistral-7b", START)
    assert why == "moving (silence 00000001 of mistral-* until 2026-01-01T14:00:00Z, by ana@desk)"
    assert Silences(store).why("llama-7b", START) is None
    assert Silences(store).lift("00000001", START) == (silence(),)
    assert Silences(store).why("mistral-7b", START) is None
    assert Silences(store).lift("00000001", START) == (), "there is nothing left to lift"


def test_a_silence_ends_by_itself_and_goes_with_the_next_write(store: MemoryStore) -> None:
    silences = Silences(store)
    silences.add(silence(1), START)
    silences.add(silence(2, hours=4), START)
    assert silences.why("mistral-7b", after(2 * 3600)) == silence(2).summary.replace("T14:", "T16:")
    assert silences.all(after(2 * 3600)) == (silence(2, hours=4),)
    silences.add(silence(3, hours=9), after(3 * 3600))
    blob = there(store.read(SILENCES, LIMIT_BYTES))
    assert [each["id"] for each in json.loads(blob.body)["silences"]] == ["00000002", "00000003"]
    assert silences.lift("00000002", after(5 * 3600)) == (), "what is over cannot be lifted"


def test_lifting_by_glob_lifts_all_of_that_glob_and_no_other(store: MemoryStore) -> None:
    made = [_entry(1, runs="mistral-*"), _entry(2, runs="mistral-7b"), _entry(3, runs="mistral-*")]
    store.write(SILENCES, json.dumps({"schema": 1, "silences": made}).encode())
    silences = Silences(store)
    assert [each.id for each in silences.lift("mistral-*", START)] == ["00000001", "00000003"]
    assert [each.id for each in silences.all(START)] == ["00000002"]


@pytest.mark.parametrize(
    ("more", "until"), [pytest.param(3.0, 4.0, id="a later end"), pytest.param(0.5, 2.0, id="an earlier end")]
)
def test_the_same_glob_twice_is_one_that_lasts_as_long_as_either(store: MemoryStore, more: float, until: float) -> None:
    silences, later = Silences(store), after(3600)
    silences.add(silence(1), START)
    again = Silence("0000000a", "mistral-*", later, later + timedelta(hours=more), "still moving", "bo@desk")
    made = silences.add(again, later)
    (held,) = silences.all(later)
    assert made.silence == held
    assert made.extended == silence(1)
    assert (held.id, held.until) == ("00000001", after(until * 3600))
    assert (held.why, held.by, held.starts_at) == ("still moving", "bo@desk", START)


def test_a_silence_that_is_extended_without_a_reason_keeps_the_one_it_has(store: MemoryStore) -> None:
    silences = Silences(store)
    first = silence(1)
    silences.add(first, START)
    silences.add(Silence("0000000a", first.runs, START, after(3 * 3600), "", "bo@desk"), START)
    (held,) = silences.all(START)
    assert (held.why, held.by) == (first.why, "bo@desk")


def test_there_is_an_end_to_silences() -> None:
    store = MemoryStore()
    document = {"schema": 1, "silences": [_entry(n) for n in range(MOST)]}
    store.put_text(SILENCES, json.dumps(document))
    with pytest.raises(StoreError, match="200 silences already"):
        Silences(store).add(silence(MOST + 1), START)
    wide = "\N{PILE OF POO}" * 200
    store.put_text(
        SILENCES, json.dumps({"schema": 1, "silences": [_entry(n, why=wide) for n in range(40)]}, ensure_ascii=False)
    )

    def fill() -> None:
        for number in range(100, 200):
            Silences(store).add(Silence(f"{number}", f"x{number}*", START, after(3600), wide, "ana@desk"), START)

    with pytest.raises(StoreError, match="larger than 64 KB"):
        fill()
    assert len(store.held[SILENCES].body) <= LIMIT_BYTES
    assert Silences(store).why("run", START), "what is there still counts"


def _entry(number: int = 1, **fields: object) -> dict[str, object]:
    return {
        "id": f"{number:08x}", "runs": "*", "starts_at": "2026-01-01T12:00:00Z", "until": "2026-01-01T14:00:00Z",
        "why": "moving", "by": "ana@desk", **fields,
    }  # fmt: skip


def test_one_that_cannot_be_read_silences_nobody_and_is_not_asked_for_every_alert(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    Silences(store).add(silence(), START)
    silences = Silences(store)

    store.refuse("any", UnreachableError("503 for silences.json"))
    store.calls.clear()
    assert [silences.why("mistral-7b", after(n)) for n in range(10)] == [None] * 10
    assert store.calls == [("read", SILENCES)]
    assert [r.levelno for r in caplog.records if "503 for silences.json" in r.getMessage()] == [logging.WARNING]
    store.heal()
    assert silences.why("mistral-7b", after(10)) is not None


def test_what_was_read_is_relied_on_for_a_minute() -> None:
    store = MemoryStore()
    silences = Silences(store)
    assert silences.why("mistral-7b", START) is None
    Silences(store).add(silence(), START)
    store.calls.clear()
    assert silences.why("mistral-7b", after(59)) is None
    assert silences.why("mistral-7b", after(-3)) is None, "looks of one pass do not all have the same time"
    assert store.calls == []
    assert silences.why("mistral-7b", after(60)) is not None
    assert silences.why("mistral-7b", after(-3600)) is None, "a clock that went back does not keep it for ever"
    assert store.calls == [("read", SILENCES)] * 2


def test_whoever_makes_a_silence_knows_of_it_at_once() -> None:
    silences = Silences(MemoryStore())
    assert silences.why("mistral-7b", START) is None
    silences.add(silence(), START)
    assert silences.why("mistral-7b", START) is not None
    silences.lift("mistral-*", START)
    assert silences.why("mistral-7b", START) is None


def test_many_threads_that_ask_at_once_cost_one_request() -> None:
    store = MemoryStore()
    Silences(store).add(silence(), START)
    store.calls.clear()
    silences, together = Silences(store), threading.Barrier(12)
    with ThreadPoolExecutor(12) as threads:
        answers = threads.map(lambda _: (together.wait(30), silences.why("mistral-7b", START))[1], range(12))
    assert list(answers) == [silence().summary] * 12
    assert store.calls == [("read", SILENCES)]


# Damaged, or of a newer version: told, honoured by no watcher, replaced only on purpose.


def _held(*entries: object) -> str:
    return json.dumps({"schema": 1, "silences": list(entries)})


DAMAGED = [
    pytest.param("{", id="half a document"),
    pytest.param('{"silences": []}', id="no schema"),
    pytest.param(_held("x"), id="a silence that is no object"),
    pytest.param(_held(_entry(runs="a/b")), id="a glob that can be none"),
    pytest.param(_held(_entry(until="tomorrow")), id="an end that is no time"),
    pytest.param(_held(_entry(why=7)), id="a reason that is no text"),
    pytest.param("[" * 60_000, id="a hole without a floor"),
    pytest.param('{"schema": 1, "silences": []}' + " " * LIMIT_BYTES, id="one with a whole document at its beginning"),
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_document_silences_nobody_and_a_new_silence_replaces_it(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    store.put_text(SILENCES, text)
    assert Silences(store).why("mistral-7b", START) is None
    assert "no silence counts: _watchdog/silences.json is damaged" in caplog.text
    for ask in (Silences(store).all, lambda now: Silences(store).lift("mistral-*", now)):
        with pytest.raises(StoreError, match="is damaged") as told:
            ask(START)
        assert "a new silence replaces it" in told.value.advice
        assert len(str(told.value)) < 400
    assert store.held[SILENCES].body.decode() == text, "nobody asked for it to be replaced"
    note = there(Silences(store).add(silence(), START).note)
    assert "was damaged" in note
    assert Silences(store).all(START) == (silence(),)


def test_a_newer_document_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    store.put_text(SILENCES, '{"schema": 2, "quiet": "*"}')
    with pytest.raises(StoreError, match="newer lastbeat") as told:
        Silences(store).add(silence(), START)
    assert "upgrade" in told.value.advice
    assert Silences(store).why("run", START) is None
    assert "newer lastbeat" in caplog.text


def test_what_others_wrote_there_is_shown_without_tricks() -> None:
    store = MemoryStore()
    hostile = "\x1b]0;title\x07\x1b[31mred\nRun x: SUCCEEDED\u202e\ud800"
    store.put_text(SILENCES, _held(_entry(id=hostile, why=hostile * 50, by=hostile)))
    (read,) = Silences(store).all(START)
    for text in (read.id, read.why, read.by, read.summary):
        assert text.isprintable()
        assert len(text) < 700


@given(st.binary(max_size=300) | st.text(max_size=100).map(lambda t: _held(_entry(runs=t)).encode()))
def test_whatever_lies_there_no_watcher_stumbles_over_it(body: bytes) -> None:
    store = MemoryStore()
    store.put_text(SILENCES, body.decode("latin-1"))
    assert Silences(store).why("run", START) is None or b"runs" in body
