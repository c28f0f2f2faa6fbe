"""Silences and acknowledgements of the page: what may be asked for, what is kept of it, and what is answered."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.named_view import NamedView
from lastbeat.model.record import Record
from lastbeat.model.silence import SILENCES
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.model.stop_request import read_request
from lastbeat.model.text import one_line
from lastbeat.settings import load
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from lastbeat.views.named_views import read_views
from lastbeat.views.served.changes import InvalidChangeError, StoredChanges, page_author, read_change
from lastbeat.watch.record.codec import decode_record, encode
from lastbeat.watch.record.silences import Silences
from support.jobs import SupervisedScene
from support.memory import MemoryStore
from support.there import there
from unit.supervision.test_calling_off import waiting
from unit.supervision.test_supervised import running

FROM = "10.0.0.7"
SETTINGS = load({"root": "s3://bucket/runs"}, {}, Path("/nonexistent"))
SEEN = {"acknowledge": "mistral-1", "transition": 3}
WISH = {"runs": "mistral-*", "for_s": 3600, "why": "node repair"}


def ask(store: MemoryStore, **asked: object) -> tuple[int, Any]:
    got = StoredChanges(SETTINGS, store, wait_s=60.0).answer(json.dumps(asked).encode(), FROM)
    return int(got.status.split()[0]), json.loads(got.body.plain)


def held(store: MemoryStore) -> list[tuple[str, str, str, float]]:
    now = store.clock()
    silences = Silences(store).all(now)
    return [(each.runs, each.why, each.by, (each.until - now).total_seconds()) for each in silences]


def test_a_silence_is_made_extended_and_lifted() -> None:
    store = MemoryStore()
    store.put_text("mistral-1/metadata.json", "{}")
    status, told = ask(store, **WISH, by="Ada")
    assert (status, told["matches"], told["notes"]) == (200, 1, [])
    assert held(store) == [("mistral-*", "node repair", f"Ada, on the page from {FROM}", 3600)]
    status, again = ask(store, **{**WISH, "for_s": 7200})
    assert (status, again["silences"][0]["id"]) == (200, told["silences"][0]["id"]), "the same glob twice is one"
    assert held(store) == [("mistral-*", "node repair", f"token holder, on the page from {FROM}", 7200)]
    status, lifted = ask(store, lift=told["silences"][0]["id"])
    assert (status, lifted["silences"][0]["runs"], held(store)) == (200, "mistral-*", [])
    assert ask(store, lift=told["silences"][0]["id"])[0] == 404


@pytest.mark.parametrize("why", [{}, {"why": ""}, {"why": " \n"}], ids=["left out", "empty", "blank"])
def test_a_reason_is_optional(why: dict[str, str]) -> None:
    store = MemoryStore()
    status, told = ask(store, runs="mistral-*", for_s=3600, **why)
    assert (status, told["silences"][0]["why"]) == (200, "")
    assert held(store) == [("mistral-*", "", f"token holder, on the page from {FROM}", 3600)]


def test_that_it_matches_no_run_is_said() -> None:
    status, told = ask(MemoryStore(), **WISH)
    assert (status, told["matches"]) == (200, 0)
    assert "matches 0 runs" in told["notes"][0]


def failed(store: MemoryStore, transitions: int) -> None:
    record = Record("mistral-1", State(Status.FAILED, "boom"), transitions=transitions)
    store.put_text("mistral-1/_watchdog.json", encode(record).decode())


def acknowledged(store: MemoryStore) -> tuple[str, str] | None:
    blob = there(store.read("mistral-1/_watchdog.json", 10**6))
    given = decode_record(blob.body).acknowledged
    return None if given is None else (given.by, given.note)


def test_a_run_is_acknowledged_and_that_is_withdrawn() -> None:
    store = MemoryStore()
    failed(store, 3)
    status, told = ask(store, **SEEN, note="bad node", by="Ada")
    assert (status, told["acknowledged"]["by"]) == (200, f"Ada, on the page from {FROM}")
    assert acknowledged(store) == (f"Ada, on the page from {FROM}", "bad node")
    assert ask(store, withdraw="mistral-1") == (200, {"acknowledged": None})
    assert acknowledged(store) is None


def test_a_view_of_the_team_is_saved_replaced_and_removed() -> None:
    store, view = MemoryStore(), {"view": "ooms", "filter": "cause:oom", "columns": "run!~200,lr"}
    assert ask(store, **view) == (200, {"done": "Saved"})
    assert ask(store, **{**view, "sort": "-lr"}) == (200, {"done": "Replaced"})
    by = f"token holder, on the page from {FROM}"
    assert read_views(store) == (NamedView("ooms", "cause:oom", "", "-lr", "run!~200,lr", "", by),)
    assert ask(store, view="ooms") == (200, {"done": "Removed"})
    assert ask(store, view="ooms")[0] == 400, "there is nothing to save"
    assert ask(store, view="two\nlines", filter="x")[1]["error"] == "A name has one line of at most 60 characters."


def test_a_transition_that_nobody_saw_is_not_acknowledged() -> None:
    store = MemoryStore()
    failed(store, 4)
    status, told = ask(store, **SEEN)
    assert (status, acknowledged(store)) == (409, None)
    assert told["error"] == "What you saw is over; mistral-1 is FAILED since: boom."


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        pytest.param({**WISH, "lift": "1"}, "nothing else", id="two things at once"),
        pytest.param({"lift": "x" * 201}, "by its id", id="to lift a long text"),
        pytest.param({**WISH, "why": "x" * 201}, "200 is the most", id="a long reason"),
        pytest.param({**WISH, "why": None}, "have to be texts", id="a reason that is no text"),
        pytest.param({**WISH, "by": "x" * 51}, "50 is the most", id="a long name"),
        pytest.param({**WISH, "runs": "a/b"}, "can match no run", id="a glob that matches no run"),
        pytest.param({**WISH, "runs": "_watchdog"}, "kept for the watchdog", id="the watchdog's own folder"),
        pytest.param({**WISH, "for_s": 59}, "from 60 to 2592000", id="too short"),
        pytest.param({**WISH, "for_s": 30 * 86400 + 1}, "from 60 to 2592000", id="too long"),
        pytest.param({**WISH, "for_s": 3600.5}, "whole number", id="a part of a second"),
        pytest.param({**WISH, "for_s": "3600"}, "whole number", id="a number as a text"),
        pytest.param({"withdraw": "../x"}, "un id", id="a run that cannot be"),
        pytest.param({**SEEN, "acknowledge": 7}, "un id", id="a run that is no text"),
        pytest.param({**SEEN, "runs": "*"}, "nothing else", id="an acknowledgement of many"),
        pytest.param({**SEEN, "transition": None}, "by its number", id="no transition"),
        pytest.param({**SEEN, "transition": True}, "by its number", id="a transition that is no number"),
        pytest.param({**SEEN, "conditions": [7]}, "by their names", id="a condition that is no text"),
        pytest.param({**SEEN, "conditions": "slow"}, "by their names", id="conditions that are no list"),
        pytest.param({**SEEN, "note": "x" * 201}, "200 is the most", id="a long note"),
        pytest.param({"stop": "mistral-1", "note": "x"}, "nothing else", id="an end with a note"),
        pytest.param({"restart": "mistral-1", "seen": 7}, "as it was shown", id="a restart of what is no text"),
        pytest.param({"view": 7}, "all of them texts", id="a view whose name is no text"),
    ],
)
def test_what_cannot_be_done_is_refused_and_said(asked: dict[str, object], says: str) -> None:
    store = MemoryStore()
    status, told = ask(store, **asked)
    assert status == 400
    assert says in told["error"]
    assert store.read(SILENCES, 100) is None


@given(st.binary(max_size=200) | st.text(max_size=80).map(lambda text: json.dumps(text).encode()))
def test_whatever_else_comes_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidChangeError):
        read_change(body)


def test_deep_json_is_refused() -> None:
    with pytest.raises(InvalidChangeError):
        read_change(b"[" * 4000)


@given(st.text(max_size=60), st.text(max_size=60))
def test_an_author_is_one_harmless_line_of_bounded_length(name: str, address: str) -> None:
    by = page_author(name, address)
    assert len(by) <= 100
    assert one_line(by) == by


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        pytest.param(DeniedError("s3://b: no\nwrites", "allow s3:PutObject"), 503, id="refused: it is not done"),
        pytest.param(UnreachableError("s3://b: lost", "try again"), 504, id="no answer: nobody knows"),
    ],
)
def test_a_store_that_fails_is_told_of(fault: StoreError, status: int) -> None:
    store = MemoryStore()

    store.refuse("write", fault)
    got, told = ask(store, **WISH)
    assert got == status
    assert told["error"]
    assert told["advice"] == fault.advice
    assert "\n" not in told["error"]
    assert "silences" not in told


def test_a_store_that_hangs_keeps_nobody_waiting_for_good() -> None:
    store, go, hanging = MemoryStore(), threading.Event(), threading.Semaphore(0)

    def wait(_operation: str, _key: str) -> None:
        go.wait(60)

    def hang(operation: str, key: str) -> None:
        hanging.release()
        wait(operation, key)

    body = json.dumps(WISH).encode()
    silent = MemoryStore()
    silent.before = wait
    assert StoredChanges(SETTINGS, silent, wait_s=0.01).answer(body, FROM).status[:3] == "504"
    store.before = hang
    silences = StoredChanges(SETTINGS, store)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(silences.answer, body, FROM) for _ in range(4)]
        for _ in asked:
            assert hanging.acquire(timeout=60)
        assert [silences.answer(body, FROM).status[:3] for _ in range(2)] == ["503"] * 2
        go.set()
    assert {each.result().status[:3] for each in asked} <= {"200", "504"}


def done_by(store: MemoryStore) -> list[tuple[str, str]]:
    record = decode_record(there(store.read("run/_watchdog.json", 10**6)).body)
    return [(each.by, each.what) for each in record.interventions]


def test_a_run_is_stopped_by_whom_the_page_has_said_what_happens() -> None:
    scene = running(SupervisedScene())
    scene.store.put_text("run/metadata.json", '{"stop_seconds": 30, "attempt": 1}')
    status, told = ask(scene.store, stop="run")
    assert (status, scene.store.read("run/_stop", 1000)) == (200, None), "a question changes nothing"
    assert "No restart policy undoes that." in told["outlook"]
    assert ask(scene.store, stop="run", seen="attempt 7")[0] == 409, "what was seen is another attempt"
    for _ in range(2):
        status, _ = ask(scene.store, stop="run", seen=told["seen"], why="wrong data", by="Ada")
        assert status == 200
    request = there(read_request(there(scene.store.read("run/_stop", 1000)).body))
    assert (request.by, request.why, request.attempt) == (f"Ada, on the page from {FROM}", "wrong data", 1)
    assert done_by(scene.store) == [(f"Ada, on the page from {FROM}", "asked for its end: wrong data")]


def test_a_waiting_restart_is_made_now_or_called_off() -> None:
    scene = waiting()
    _, now = ask(scene.store, restart="run")
    assert "run-r1 starts now, instead of in" in now["outlook"][0]
    _, never = ask(scene.store, stop="run")
    assert (now["seen"], never["seen"]) == ("run-r1", "run-r1")
    assert ask(scene.store, stop="run", seen="run-r1", by="Ada")[0] == 200
    assert ask(scene.store, restart="run", seen="run-r1")[0] == 200, "the same job, asked for anew"
    assert [what for _, what in done_by(scene.store)] == ["called off job run-r1", "asked for job run-r1"]
