"""A sweep hears of missed beats within a pass, and reads nothing more for them."""

import json

import pytest

from support.fleet import FleetScene


def beat(scene: FleetScene, beat_s: float) -> None:
    document = {"last_update": scene.now.isoformat(), "beat_seconds": beat_s}
    scene.store.put_text("r/metadata.json", json.dumps(document), modified=scene.now)


@pytest.mark.parametrize("fresh", [True, False], ids=["a process a pass", "one process"])
def test_a_run_that_misses_its_beats_is_warned_of_once_until_it_beats_again(fresh: bool) -> None:
    scene = FleetScene()

    def sweep() -> list[str]:
        scene.sweep(restarted=fresh)
        return list(scene.channel.events)

    beat(scene, 30)
    for _ in range(3):
        scene.after(30)
        beat(scene, 30)
        assert sweep() == []
    scene.after(120)
    assert sweep() == []
    scene.after(10)
    assert sweep() == ["WARNING"]
    assert "beats_missed" in scene.channel.sent[-1].conditions
    scene.after(60)
    assert sweep() == ["WARNING"]
    beat(scene, 30)
    sweep()
    assert scene.last is not None
    assert [line.conditions for line in scene.last.lines] == [()]


@pytest.mark.parametrize("fresh", [True, False], ids=["a process a pass", "one process"])
def test_a_sweep_holds_a_run_against_its_own_limit(fresh: bool) -> None:
    scene = FleetScene()
    document = {"last_update": scene.now.isoformat(), "stale_minutes": 2}
    scene.store.put_text("r/metadata.json", json.dumps(document), modified=scene.now)
    seen = []
    for _ in range(5):
        scene.sweep(restarted=fresh)
        assert scene.last is not None
        seen.append([line.status.value for line in scene.last.lines])
        scene.after(50)
    assert seen == [["RUNNING"]] * 3 + [["TIMED_OUT"]] * 2
    assert scene.channel.events == ["TIMED_OUT"]
