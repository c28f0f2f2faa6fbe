"""How soon a sweep of a store that takes money finds what is new, and what began again."""

import pytest

from lastbeat.model.fleet import PassReport
from support.fleet import FleetScene

DAY_S = 86_400.0


def _scene() -> FleetScene:
    scene = FleetScene()
    # A store that takes money.
    scene.store.in_s3()
    return scene


def test_the_first_run_of_an_empty_bucket_is_told_of_by_the_next_pass() -> None:
    scene = _scene()
    for _ in range(10):
        scene.sweep()
        scene.after(1)
    scene.run("first").error()
    assert scene.sweep().statuses == {"FAILED": 1}
    assert scene.told("first") == ["FAILED"]


@pytest.mark.parametrize("living", [1, 3, 12, 13, 40])
@pytest.mark.parametrize("shift", [0, 1], ids=["before the one pass", "before the other"])
@pytest.mark.parametrize("restarted", [False, True], ids=["one process", "a process for each pass"])
def test_in_a_small_fleet_a_new_run_is_found_within_two_passes(living: int, shift: int, restarted: bool) -> None:
    scene = _scene()
    _passes(scene, living, 6 + shift, restarted=restarted)
    scene.run("new").error()
    _passes(scene, living, 2, restarted=restarted)
    assert scene.told("new") == ["FAILED"]


@pytest.mark.parametrize("living", [0, 1, 3, 40])
@pytest.mark.parametrize("shift", [0, 1], ids=["before the one pass", "before the other"])
@pytest.mark.parametrize("restarted", [False, True], ids=["one process", "a process for each pass"])
@pytest.mark.parametrize("ended", ["complete", "error", "silent"])
def test_in_a_small_fleet_a_run_that_ended_days_ago_and_begins_again_is_found_within_two_passes(
    ended: str, living: int, shift: int, restarted: bool
) -> None:
    scene = _scene()
    old = scene.run("old")
    old.both(1)
    scene.sweep()
    if ended != "silent":
        getattr(old, ended)()
    for _ in range(15):
        _passes(scene, living, 1)
    scene.after(2 * DAY_S)
    assert _passes(scene, living, 8 + shift, restarted=restarted).finished == 1
    before = scene.told("old")
    old.beat(attempt=2, start_time=scene.now.isoformat())
    assert _passes(scene, living, 2, restarted=restarted).statuses == {"RUNNING": living + 1}
    # And dies without a word.
    _passes(scene, living, 12, restarted=restarted)
    assert scene.told("old")[len(before) :][-1] == "TIMED_OUT"


def _passes(scene: FleetScene, living: int, count: int, *, restarted: bool = False) -> PassReport:
    """A minute before each of them, in which so many runs beat."""
    for _ in range(count):
        scene.after(60)
        for number in range(living):
            scene.run(f"live-{number:02}").both(1)
        report = scene.sweep(restarted=restarted)
    return report


def test_a_log_that_is_still_empty_is_no_news() -> None:
    # python train.py > …/logs/train.log: a file from the first moment, a line after the imports.
    scene = FleetScene()
    scene.run("new").put("logs/train.log", "")
    scene.sweep()
    scene.after(60)
    scene.run("new").put("logs/train.log", "step 1 loss 2.5\n")
    scene.sweep()
    assert scene.told("new") == []


def test_a_log_that_stays_empty_is_told_of_once() -> None:
    scene = FleetScene()
    scene.run("new").put("logs/train.log", "")
    scene.after(30)
    for _ in range(25):
        scene.sweep()
        scene.after(30)
    assert scene.told("new") == ["TIMED_OUT"]
