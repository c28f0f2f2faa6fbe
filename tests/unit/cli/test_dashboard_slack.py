"""``/lastbeat`` in Slack, through the dashboard's application: only what Slack has signed, from the alerts' channel."""

import io
import json
import threading
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from lastbeat.alerts.slack_blocks import head
from lastbeat.alerts.slack_bot import channels
from lastbeat.model.alert import Message
from lastbeat.model.record import Record
from lastbeat.model.state import State
from lastbeat.model.status import Event, Status
from lastbeat.settings import load
from lastbeat.stores.port import UnreachableError
from lastbeat.views.served.fleet import FleetLook
from lastbeat.views.served.slack import SlackConsole
from lastbeat.views.watching import fleet_watch
from lastbeat.watch.record.codec import decode_record, encode
from lastbeat.watch.record.silences import Silences
from support.dashboard_app import Got, app, ask
from support.doors import ENVIRON, SECRET, slack_request
from support.doors import pressed as press
from support.memory import Killed, MemoryStore
from support.there import there

TOKEN = ENVIRON["SLACK_BOT_TOKEN"].split()[0]
NOW = 1_800_000_000
SETTINGS = load(
    {"root": "s3://bucket/runs"},
    ENVIRON,
    Path("/nonexistent"),
)


@pytest.fixture
def store() -> MemoryStore:
    """A run that failed."""
    made = MemoryStore()
    record = Record("run-1", State(Status.FAILED, "boom <!channel> `x`"), transitions=3, since=made.clock())
    made.put_text("run-1/_watchdog.json", encode(record).decode())
    made.put_text("run-1/_error", "boom <!channel> `x`")
    made.put_text("run-1/metadata.json", "{}")
    return made


def sent(
    store: MemoryStore, text: str, *, limit_s: float = 60.0, posted: list[Any] | None = None, **changed: str
) -> Got:
    """The answer to ``/lastbeat TEXT``, but for what is ``changed`` of the request."""
    given = json.loads(changed.pop("form", "null"))
    form = given or {"command": "/lastbeat", "text": text,
            "user_id": "U1", "user_name": "ana", "channel_name": "alerts",
            "channel_id": changed.pop("channel", "C0123456789")}  # fmt: skip
    body, headers = slack_request(form, at=changed.pop("at", str(NOW)), secret=changed.pop("secret", SECRET))
    environ: dict[str, Any] = {
        **{f"HTTP_{name.upper()}": value for name, value in headers.items()},
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO((changed.pop("body", "") or body).encode()),
        **changed,
    }
    told: list[Any] = [] if posted is None else posted
    console = SlackConsole(
        SETTINGS, store, FleetLook(fleet_watch(SETTINGS, at=store), lambda _: {}, interval_s=5, epoch="").current_view,
        clock=lambda: NOW, left_s=lambda: limit_s, post=lambda url, document: told.append((url, document)),
    )  # fmt: skip
    return ask(app(slack=console.answer), "/slack", method="POST", environ=environ)


def acknowledged(store: MemoryStore) -> tuple[str, str] | None:
    given = decode_record(there(store.read("run-1/_watchdog.json", 10**6)).body).acknowledged
    return None if given is None else (given.by, given.note)


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        pytest.param({}, 200, id="as Slack sends it"),
        pytest.param({"at": str(NOW - 299)}, 200, id="one that was long on its way"),
        pytest.param({"at": str(NOW - 301)}, 401, id="one that is older than five minutes"),
        pytest.param({"at": str(NOW + 301)}, 401, id="one from the future"),
        pytest.param({"at": "now"}, 401, id="no time"),
        pytest.param({"body": "text=silence+*"}, 401, id="another body under its signature"),
        pytest.param({"HTTP_X_SLACK_SIGNATURE": "v0=é"}, 401, id="a signature that is none"),
        pytest.param({"HTTP_X_SLACK_REQUEST_TIMESTAMP": str(NOW - 1)}, 401, id="another time under its signature"),
    ],
)
def test_only_what_slack_has_just_signed_does_something(
    store: MemoryStore, changed: dict[str, Any], status: int
) -> None:
    got = sent(store, "ack run-1 bad node", **changed)
    assert got.status == status
    assert acknowledged(store) == (("ana, in Slack", "bad node") if status == 200 else None)


def test_one_that_died_after_its_claim_has_done_nothing_and_is_not_repeated(store: MemoryStore) -> None:
    def die(operation: str, key: str) -> None:
        if operation == "write" and key.endswith("silences.json"):
            raise Killed

    store.before = die
    assert "may have been done" in sent(store, "silence run-*").json["text"]
    store.before = lambda _operation, _key: None
    assert "done already" in sent(store, "silence run-*").json["text"]
    assert Silences(store).all(store.clock()) == ()


def test_another_channel_learns_and_does_nothing(store: MemoryStore) -> None:
    for text in ("fleet", "show run-1", "ack run-1"):
        assert "Type it in the channel" in sent(store, text, channel="C9").json["text"]
    assert acknowledged(store) is None


def test_a_store_that_fails_or_hangs_is_said_in_time(store: MemoryStore) -> None:
    store.refuse("read", UnreachableError("s3://b: lost", "try again"))
    assert (
        sent(store, "ack run-1")
        .json["text"]
        .startswith("```\nNot known to be done: look again in a moment. s3://b: lost")
    )
    go = threading.Event()

    def hang(_operation: str, _key: str) -> None:
        go.wait(60)

    store.before = hang
    try:
        assert "look again in a moment" in sent(store, "ack run-1", at=str(NOW - 2), limit_s=0.01).json["text"]
    finally:
        go.set()


ALERT = Message(
    run_id="run-1", event=Event.FAILED, status=Status.FAILED, reason="boom",
    at=datetime(2026, 8, 5, tzinfo=timezone.utc), restart="not restarted: boom",
)  # fmt: skip


def pressed(store: MemoryStore, action: str, value: str = "run-1 1 FAILED", at: int = NOW, channel: str = "C0123456789",
            **changed: Any) -> list[Any]:  # fmt: skip
    """What updates the message after a press of the button ``action``."""
    payload = press(action, value, ALERT, channel={"id": channel, "name": "privategroup"}) | changed
    told: list[Any] = []
    got = sent(store, "", posted=told, form=json.dumps({"payload": json.dumps(payload)}), at=str(at))
    assert (got.status, got.json) == ((200, {}) if not changed else (401, got.json))
    return told


def buttons(document: Any) -> list[str]:
    return [
        each["action_id"] for block in document["blocks"] if block["type"] == "actions" for each in block["elements"]
    ]


def test_a_press_acts_and_its_message_loses_the_button_and_says_by_whom(store: MemoryStore) -> None:
    assert buttons(head(ALERT, buttons=True)) == [f"lastbeat-{each}" for each in ("ack", "silence", "restart", "show")]
    ((url, document),) = pressed(store, "ack")
    assert url == "https://hooks.slack.com/actions/T1/2/x"
    assert acknowledged(store) == ("ana, in Slack", "")
    assert document["replace_original"] is True
    assert "lastbeat-ack" not in buttons(document)
    assert document["blocks"][-1]["elements"][0]["text"] == "run-1 is acknowledged by ana, in Slack."
    assert "done already" in pressed(store, "ack")[0][1]["text"], "the same request again"
    assert "acknowledged already" in pressed(store, "ack", at=NOW - 1)[0][1]["text"], "another press"


@pytest.mark.parametrize(
    ("action", "more", "says"),
    [
        pytest.param("show", {}, "Run run-1: FAILED", id="the cause"),
        pytest.param("restart", {}, "run-1 is not supervised", id="a restart of what nobody supervises"),
        pytest.param("stop", {}, "run run-1 is over", id="the end of what is over"),
        pytest.param("ack", {"value": "run-1 2 FAILED"}, "has changed since this message", id="another attempt"),
        pytest.param("ack", {"value": "run-1 1 TIMED_OUT"}, "has changed since this message", id="another status"),
        pytest.param("ack", {"value": "../x"}, "contains '/'", id="no run"),
        pytest.param("sing", {}, "knows no button", id="a button of a newer version"),
        pytest.param("ack", {"channel": "C9"}, "Only the buttons in", id="another channel"),
    ],
)
def test_what_becomes_of_a_press(store: MemoryStore, action: str, more: dict[str, Any], says: str) -> None:
    ((_, document),) = pressed(store, action, **more)
    told = document["blocks"][-1]["elements"][0]["text"] if document["replace_original"] else document["text"]
    assert says in told
    assert acknowledged(store) is None


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"response_url": "https://evil.example/x"}, id="an answer to another host"),
        pytest.param({"actions": []}, id="no button"),
        pytest.param({"message": None}, id="no message"),
    ],
)
def test_what_is_no_press_does_nothing(store: MemoryStore, changed: dict[str, Any]) -> None:
    assert pressed(store, "ack", **changed) == []
    assert acknowledged(store) is None


def test_only_an_app_whose_clicks_are_answered_has_buttons() -> None:
    assert buttons(head(ALERT)) == []
    running = replace(ALERT, status=Status.TIMED_OUT, event=Event.TIMED_OUT)
    assert [*buttons(head(running, buttons=True))][-2:] == ["lastbeat-stop", "lastbeat-show"]
    for block in head(running, buttons=True)["blocks"][-1]["elements"]:
        assert ("confirm" in block) is (block["action_id"] in {"lastbeat-restart", "lastbeat-stop"})
        assert len(block["value"]) <= 2000
    (bot,) = channels(SETTINGS.values)
    assert (bot.buttons, bot.token) == (True, TOKEN)
