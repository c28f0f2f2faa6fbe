"""Records that a newer lastbeat wrote: what this one does not know it leaves as it is, and watches on."""

import json
from typing import Any

import pytest

from support.cluster import Cluster, ClusterExecutor
from support.scene import Scene

MINUTE = 60.0
ALERT_OF_TOMORROW: dict[str, Any] = {
    "number": 7,
    "event": "NAPPING",
    "created_at": "2026-01-01T11:59:00Z",
    "deliveries": {"list": {"tries": 0, "sent_at": None, "colour": "red"}},
    "message": {
        "run_id": "r",
        "event": "NAPPING",
        "status": "RESTING",
        "reason": "it naps",
        "at": "2026-01-01T11:59:00Z",
    },
}
CHANGE_OF_TOMORROW: dict[str, Any] = {
    "number": 9, "at": "2026-01-01T11:50:00Z", "before": "RUNNING", "after": "RESTING", "reason": "x", "attempt": 1,
    "cause": None, "silenced": None, "step": None, "confidence": None, "subsystem": None, "signal": None,
    "fingerprint": None, "node": None,
    "mood": "calm",
}  # fmt: skip
ACTION_OF_TOMORROW: dict[str, Any] = {
    "name": "mistral-nap", "kind": "nap", "asked_at": "2026-01-01T11:59:00Z", "asked_by": "a policy", "why": "tired",
    "attempt": 1, "details": {"where": "sofa"}, "not_before": None, "claims": 0, "claimed_by": None,
    "claimed_until": None, "done_at": None, "result": None, "failed": None, "last_error": None, "in_doubt": False,
    "begun": False, "dream": ["sheep"],
}  # fmt: skip


def record_of(scene: Scene) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(scene.store.held[f"{scene.watch.run_id}/_watchdog.json"].body)
    return document


def written_by_tomorrow(scene: Scene, **fields: Any) -> None:
    """The record as it is, with what a later build adds to it."""
    document = record_of(scene)
    document["weather"] = {"rain": [1, 2.5, None]}
    document["attempt"]["flavour"] = "sweet"
    document["metadata"]["pulse"] = [60]
    document["history"] += [CHANGE_OF_TOMORROW]
    document["outbox"] += [ALERT_OF_TOMORROW]
    document["actions"] += [ACTION_OF_TOMORROW]
    scene.put("_watchdog.json", json.dumps({**document, **fields}))


def unknown_parts(document: dict[str, Any]) -> list[Any]:
    return [
        document["weather"],
        document["attempt"]["flavour"],
        document["metadata"]["pulse"],
        [each for each in document["history"] if "mood" in each],
        [each for each in document["outbox"] if each["event"] == "NAPPING"],
        document["actions"],
    ]


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_what_a_newer_lastbeat_wrote_survives_ten_passes_that_write(restarted: bool) -> None:
    scene = Scene()
    cluster = Cluster()
    scene.executors = [ClusterExecutor(cluster)]
    scene.both(1)
    scene.look()
    written_by_tomorrow(scene)
    before = unknown_parts(record_of(scene))
    writes = scene.record_writes()
    for step in range(5):
        scene.after(11 * MINUTE)
        outcome = scene.look(restarted=restarted)
        assert outcome.status.value == "TIMED_OUT"
        scene.both(step + 2)
        outcome = scene.look(restarted=restarted)
        assert outcome.status.value == "RUNNING"
        assert unknown_parts(record_of(scene)) == before
    assert scene.record_writes() - writes >= 8, "these passes did write"
    assert "NAPPING" not in scene.channel.events, "nor is it told"
    assert not cluster.asked, "nor done"


def test_that_a_newer_lastbeat_wrote_there_is_said() -> None:
    scene = Scene()
    scene.both(1)
    scene.look()
    written_by_tomorrow(scene)
    (note,) = [note for note in scene.look().notes if "newer lastbeat" in note]
    assert "outbox" in note
    assert "Upgrade lastbeat on this machine" in note


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_a_status_of_a_newer_lastbeat_stands_while_the_run_lives_or_went_silent_with_it(restarted: bool) -> None:
    scene = Scene()
    scene.both(1)
    scene.look()
    scene.after(1)
    since = scene.now.isoformat()
    written_by_tomorrow(scene, status="RESTING", reason="it rests", since=since, cause="weariness", action="wait")
    for _ in range(14):
        outcome = scene.look(restarted=restarted)
        assert (str(outcome.status), outcome.reason, outcome.cause, outcome.action) == (
            "RESTING", "it rests", "weariness", "wait",
        )  # fmt: skip
        scene.after(MINUTE)
    assert record_of(scene)["status"] == "RESTING"
    assert scene.channel.events == []


@pytest.mark.parametrize(
    ("deed", "status", "events"),
    [
        pytest.param("complete", "SUCCEEDED", ["SUCCEEDED"], id="a sentinel"),
        pytest.param("error", "FAILED", ["FAILED"], id="a failure"),
        pytest.param("attempt", "RUNNING", [], id="a new attempt"),
        pytest.param("silence", "TIMED_OUT", ["TIMED_OUT"], id="silence after later life"),
    ],
)
def test_what_it_could_not_know_is_watched_all_the_same(deed: str, status: str, events: list[str]) -> None:
    scene = Scene()
    scene.both(1)
    scene.look()
    scene.after(1)
    written_by_tomorrow(scene, status="RESTING", since=scene.now.isoformat())
    scene.after(MINUTE)
    scene.both(2)
    assert str(scene.look().status) == "RESTING"
    scene.after(MINUTE)
    if deed == "attempt":
        scene.beat(attempt=2, start_time=scene.now.isoformat())
    elif deed == "silence":
        scene.after(15 * MINUTE)
    else:
        scene.put(f"_{deed}")
    assert str(scene.look().status) == status
    assert scene.channel.events == events
