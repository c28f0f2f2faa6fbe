"""The page and Slack through both doors, the dashboard's application and the function: the very same acting."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from lastbeat.model.record import Record
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.stores.directory import DirectoryStore
from lastbeat.watch.record.codec import decode_record, encode
from lastbeat.watch.record.silences import Silences
from support.doors import ENVIRON, OPERATE, VIEW, Served
from support.row_by_row import labelled

pytest.importorskip("apig_wsgi", reason="apig-wsgi is not installed; the group dev has it")
BOOM = "boom <!channel> `x`"


@pytest.fixture(params=["dashboard", "function"])
def door(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    """A door to a run that fails and one that lives. Nothing of Slack's leaves this machine."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    for name, files in RUNS.items():
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
    return Served(request.param, tmp_path)


RUNS = {
    "fails": {
        "metadata.json": "{}",
        "_error": BOOM,
        "_watchdog.json": encode(Record("fails", State(Status.FAILED, BOOM), transitions=3)).decode(),
    },
    "lives": {
        "metadata.json": json.dumps({"run_id": "lives", "status": "RUNNING", "attempt": 1, "stop_seconds": 30}),
        "_watchdog.json": encode(Record("lives", State(Status.RUNNING, ""), transitions=1)).decode(),
    },
}


def done(root: Path) -> dict[str, object]:
    """What acting has left in the fleet."""
    store = DirectoryStore(root)
    record = decode_record((root / "fails" / "_watchdog.json").read_bytes())
    return {
        "silenced": [each.runs for each in Silences(store).all(store.clock())],
        "acknowledged": record.acknowledged is not None,
        "stopped": (root / "lives" / "_stop").exists(),
    }


NOTHING = {"silenced": [], "acknowledged": False, "stopped": False}
ACK = {"acknowledge": "fails", "transition": 3, "note": "bad node", "by": "Ada"}
CHANGES: list[Any] = [
    ("a silence", {"runs": "fails", "for_s": 3600}, 200, '"matches":1', {"silenced": ["fails"]}),
    ("an acknowledgement", ACK, 200, "Ada, on the page from 192.0.2.7", {"acknowledged": True}),
    ("an end that is confirmed", {"stop": "lives", "seen": "attempt 1"}, 200, "Asked for the end", {"stopped": True}),
    ("a restart of what is not supervised", {"restart": "fails"}, 409, "not supervised", {}),
    ("what is no change", {"delete": "fails"}, 400, "ilence has runs", {}),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "status", "says", "left"), labelled(CHANGES))
def test_what_the_page_changes(
    door: Served, tmp_path: Path, asked: dict[str, object], status: int, says: str, left: dict[str, object]
) -> None:
    told = door.change(**asked)
    assert (told.status, says in told.text) == (status, True), told.text
    assert done(tmp_path) == NOTHING | left


def test_only_the_token_to_operate_acts(door: Served, tmp_path: Path) -> None:
    fleet = {token: door.ask("/data/fleet", cookie=door.cookie(token)) for token in (OPERATE, VIEW)}
    assert [each.headers.get("x-lastbeat-may") for each in fleet.values()] == ["operate", None]
    assert door.change(VIEW, runs="fails", for_s=3600).status == 403
    assert done(tmp_path) == NOTHING


COMMANDS: list[Any] = [
    ("the fleet", "fleet", "2 runs, 1 need attention", {}),
    ("a run", "show fails", "Run fails: FAILED", {}),
    ("a run that is not there", "show run-9", "There is no run run-9", {}),
    ("no run", "show ../x", "Use /lastbeat", {}),
    ("an acknowledgement", "ack fails bad node", "acknowledged by ana, in Slack: bad node", {"acknowledged": True}),
    ("an acknowledgement of no run", "ack run-9", "Not done.", {}),
    ("a silence", "silence fails 2h", "silenced for 2h", {"silenced": ["fails"]}),
    ("a silence without an end", "silence fails never", "no time from 1m", {}),
    ("a glob that matches none", "silence a/b", "can match no run", {}),
    ("what there is not", "delete fails", "Use /lastbeat fleet", {}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says", "left"), labelled(COMMANDS))
def test_what_slack_asks(door: Served, tmp_path: Path, text: str, says: str, left: dict[str, object]) -> None:
    assert door.slack(text, secret="0" * 32).status == 401
    assert done(tmp_path) == NOTHING
    now = time.time()
    told = door.slack(text, at=now)
    assert (told.status, says in told.json["text"]) == (200, True), told.text
    assert (told.json["response_type"] == "in_channel") is bool(left)
    assert ("<!channel>" in told.text, told.json["text"].count("`")) == (False, 6), "nothing ends the code block"
    if left:
        assert "done already" in door.slack(text, at=now).json["text"], "the same request again"
    assert done(tmp_path) == NOTHING | left


PRESSES: list[Any] = [
    ("an acknowledgement", "ack", "fails 1 FAILED", {"acknowledged": True}),
    ("a silence", "silence", "fails 1 FAILED", {"silenced": ["fails"]}),
    ("an end", "stop", "lives 1 RUNNING", {"stopped": True}),
    ("an end of another attempt", "stop", "lives 2 RUNNING", {}),
]  # fmt: skip


@pytest.mark.parametrize(("action", "value", "left"), labelled(PRESSES))
def test_what_a_press_does(door: Served, tmp_path: Path, action: str, value: str, left: dict[str, object]) -> None:
    told = door.press(action, value)
    assert (told.status, told.json) == (200, {})
    assert done(tmp_path) == NOTHING | left


def test_the_page_and_slack_share_one_look_an_interval(door: Served) -> None:
    assert "2 runs" in door.slack("fleet").json["text"]
    listed = door.asked.counts["LIST"]
    assert len(door.ask("/data/fleet", cookie=door.cookie()).json["runs"]) == 2
    assert "2 runs" in door.slack("fleet", at=time.time() - 1).json["text"]
    assert (door.asked.counts["LIST"], listed > 0) == (listed, True)


def test_a_second_press_of_silence_neither_prolongs_it_nor_counts_as_another(door: Served, tmp_path: Path) -> None:
    store, now = DirectoryStore(tmp_path), time.time()
    door.press("silence", "fails 1 FAILED", at=now)
    first = Silences(store).all(store.clock())
    door.press("silence", "fails 1 FAILED", at=now - 1)
    assert Silences(store).all(store.clock()) == first
    record = decode_record((tmp_path / "fails" / "_watchdog.json").read_bytes())
    assert [each.what for each in record.interventions] == ["silenced it for 4h 00m"]


@pytest.mark.parametrize("kind", ["dashboard", "function"])
def test_without_the_apps_secret_slack_gets_no_answer(kind: str, tmp_path: Path) -> None:
    told = Served(kind, tmp_path, {"LASTBEAT_DASHBOARD_TOKEN": ENVIRON["LASTBEAT_DASHBOARD_TOKEN"]}).slack("fleet")
    assert told.status == 404
