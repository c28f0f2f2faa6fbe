"""Silences that somebody else wrote, or that broke: told, honoured by nobody, replaced only on purpose."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.silence import SILENCES, Silence
from lastbeat.stores.port import StoreError
from lastbeat.watch.record.fleet_document import LIMIT_BYTES
from lastbeat.watch.record.silences import Silences
from support.memory import START, MemoryStore


def silence() -> Silence:
    return Silence("0000000a", "mistral-*", START, START + timedelta(hours=2), "moving", "ana@desk")


def _entry(number: int = 1, **fields: object) -> dict[str, object]:
    return {
        "id": f"{number:08x}", "runs": "*", "starts_at": "2026-01-01T12:00:00Z", "until": "2026-01-01T14:00:00Z",
        "why": "moving", "by": "ana@desk", **fields,
    }  # fmt: skip


def _held(*entries: object) -> str:
    return json.dumps({"schema": 1, "silences": list(entries)})


DAMAGED = [
    pytest.param("", id="nothing"),
    pytest.param("{", id="half a document"),
    pytest.param('{"silences": []}', id="no schema"),
    pytest.param('{"schema": true, "silences": []}', id="a schema that is no number"),
    pytest.param('{"schema": 1}', id="no silences"),
    pytest.param(_held("x"), id="a silence that is no object"),
    pytest.param(_held(_entry(runs="a/b")), id="a glob that can be none"),
    pytest.param(_held(_entry(runs="[z-a]*[")), id="or is no glob"),
    pytest.param(_held(_entry(until="tomorrow")), id="an end that is no time"),
    pytest.param(_held(_entry(until=None)), id="no end at all"),
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
    note = Silences(store).add(silence(), START).note
    assert note is not None
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
