"""Records that a newer lastbeat wrote: what this one does not know it leaves as it is, and watches on."""

import json
from typing import Any

import pytest

from support.cluster import Cluster, ClusterExecutor
from support.world import World

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


def record_of(world: World) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(world.store.held[f"{world.watch.run_id}/_watchdog.json"].body)
    return document


def written_by_tomorrow(world: World, **fields: Any) -> None:
    """The record as it is, with what a later build adds to it."""
    document = record_of(world)
    document["weather"] = {"rain": [1, 2.5, None]}
    document["attempt"]["flavour"] = "sweet"
    document["metadata"]["pulse"] = [60]
    document["history"] += [CHANGE_OF_TOMORROW]
    document["outbox"] += [ALERT_OF_TOMORROW]
    document["actions"] += [ACTION_OF_TOMORROW]
    world.put("_watchdog.json", json.dumps({**document, **fields}))


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
    world = World()
    cluster = Cluster()
    world.options["executors"] = [ClusterExecutor(cluster)]
    world.both(1)
    world.look()
    written_by_tomorrow(world)
    before = unknown_parts(record_of(world))
    writes = world.record_writes()
    for step in range(5):
        world.after(11 * MINUTE)
        outcome = world.look(restarted=restarted)
        assert outcome.status.value == "TIMED_OUT"
        world.both(step + 2)
        outcome = world.look(restarted=restarted)
        assert outcome.status.value == "RUNNING"
        assert unknown_parts(record_of(world)) == before
    assert world.record_writes() - writes >= 8, "these passes did write"
    assert "NAPPING" not in world.channel.events, "nor is it told"
    assert not cluster.asked, "nor done"


def test_that_a_newer_lastbeat_wrote_there_is_said() -> None:
    world = World()
    world.both(1)
    world.look()
    written_by_tomorrow(world)
    (note,) = [note for note in world.look().notes if "newer lastbeat" in note]
    assert "outbox" in note
    assert "Upgrade lastbeat on this machine" in note


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_a_status_of_a_newer_lastbeat_stands_while_the_run_lives_or_went_silent_with_it(restarted: bool) -> None:
    world = World()
    world.both(1)
    world.look()
    world.after(1)
    since = world.now.isoformat()
    written_by_tomorrow(world, status="RESTING", reason="it rests", since=since, cause="weariness", action="wait")
    for _ in range(14):
        outcome = world.look(restarted=restarted)
        assert (str(outcome.status), outcome.reason, outcome.cause, outcome.action) == (
            "RESTING", "it rests", "weariness", "wait",
        )  # fmt: skip
        world.after(MINUTE)
    assert record_of(world)["status"] == "RESTING"
    assert world.channel.events == []


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
    world = World()
    world.both(1)
    world.look()
    world.after(1)
    written_by_tomorrow(world, status="RESTING", since=world.now.isoformat())
    world.after(MINUTE)
    world.both(2)
    assert str(world.look().status) == "RESTING"
    world.after(MINUTE)
    if deed == "attempt":
        world.beat(attempt=2, start_time=world.now.isoformat())
    elif deed == "silence":
        world.after(15 * MINUTE)
    else:
        world.put(f"_{deed}")
    assert str(world.look().status) == status
    assert world.channel.events == events
