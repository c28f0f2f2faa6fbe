"""An older lastbeat looks at the same run in between: it knows fewer words, and carries along what it cannot read."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.scene import RUN, Scene

MINUTE = 60.0
Change = Callable[[dict[str, Any], Scene], None]


def rewrite(scene: Scene, change: Change) -> None:
    """As 0.1.0 leaves the record: its own fields changed, those that it does not know as they were."""
    key = f"{RUN}/_watchdog.json"
    blob = scene.store.read(key, 1 << 20)
    assert blob is not None
    record = json.loads(blob.body)
    change(record, scene)
    record["seq"] += 1
    scene.store.write(key, json.dumps(record).encode())


def becomes(status: str, reason: str) -> Change:
    def change(record: dict[str, Any], scene: Scene) -> None:
        number = record["transitions"] + 1
        last = {
            "number": number, "at": scene.now.isoformat(), "before": record["status"], "after": status,
            "reason": reason, "attempt": 1,
        }  # fmt: skip
        history = [*record["history"], last]
        record.update(status=status, reason=reason, since=scene.now.isoformat(), transitions=number, history=history)

    return change


def without_conditions(record: dict[str, Any], _scene: Scene) -> None:
    record["conditions"] = {}


def test_a_ctrl_c_that_it_told_as_a_failure_stays_one() -> None:
    scene = Scene()
    scene.beat(attempt=1)
    scene.look()
    scene.put("_error", "Cancelled: KeyboardInterrupt (Ctrl-C)")
    scene.look()
    for _ in range(3):
        rewrite(scene, becomes("FAILED", "Cancelled: KeyboardInterrupt (Ctrl-C)"))
        scene.after(60)
        assert scene.look().status.value == "FAILED"
    assert scene.channel.events == []


@pytest.mark.parametrize("ended", [True, False], ids=["a success with a NaN loss", "a silence"])
def test_a_condition_that_it_dropped_is_told_once(ended: bool) -> None:
    scene = Scene()
    scene.beat(beat_seconds=30)
    scene.look()
    if ended:
        scene.progress(7, loss="NaN")
        scene.put("_complete")
    scene.after(150)
    scene.look()
    told = list(scene.channel.events)
    for _ in range(3):
        rewrite(scene, without_conditions)
        scene.after(60)
        scene.look()
    assert scene.channel.events == told == (["SUCCEEDED"] if ended else ["WARNING"])


def test_the_limit_of_an_earlier_time_out_is_not_taken_for_that_of_a_later_one() -> None:
    scene = Scene()
    scene.look()
    scene.both(1)
    assert scene.look().status.value == "RUNNING"
    scene.after(11 * MINUTE)
    rewrite(scene, becomes("TIMED_OUT", "Both heartbeats stale (>10m)"))
    scene.after(60)
    scene.both(2)
    assert scene.look().status.value == "RUNNING"
    assert scene.channel.events == ["TIMED_OUT", "STARTED", "RECOVERED"]
