"""A new attempt that had been beating for a while when it was first seen: what it wrote meanwhile is its own."""

import pytest

from lastbeat.model.policy import Policy
from support.scene import Scene

MINUTE = 60.0

restarts = pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])


def seen_after_its_first_step(scene: Scene, *, restarted: bool) -> str:
    """An attempt dies; the next one beats, takes a step, and beats on; only now somebody looks. Its start."""
    scene.beat(start_time=scene.instance_now.isoformat(), attempt=1)
    scene.progress(500)
    scene.look(restarted=restarted)
    scene.after(MINUTE)
    start = scene.instance_now.isoformat()
    scene.beat(start_time=start, attempt=2)
    scene.after(10)
    scene.progress(3)
    scene.after(20)
    scene.beat(start_time=start, attempt=2)
    return start


@restarts
def test_its_progress_counts(restarted: bool) -> None:
    scene = Scene()
    seen_after_its_first_step(scene, restarted=restarted)
    outcome = scene.look(restarted=restarted)
    assert outcome.record is not None
    assert (outcome.record.attempt.number, outcome.record.attempt.spent) == (2, ())
    assert outcome.record.progress is not None
    assert outcome.record.progress.step == 3


@restarts
def test_a_hang_right_after_a_restart_is_seen(restarted: bool) -> None:
    scene = Scene(Policy(stall_s=10 * MINUTE))
    start = seen_after_its_first_step(scene, restarted=restarted)
    shown = []
    for _ in range(30):
        outcome = scene.look(restarted=restarted)
        shown.append(outcome.status.value + ("!" if "stalled" in outcome.conditions else ""))
        scene.after(MINUTE)
        scene.beat(start_time=start, attempt=2)
    assert shown[0] == "RUNNING"
    assert "RUNNING!" in shown
    assert shown[-1] == "TIMED_OUT"


@restarts
def test_what_the_attempt_before_left_behind_does_not(restarted: bool) -> None:
    scene = Scene()
    scene.beat(start_time=scene.instance_now.isoformat(), attempt=1)
    scene.look(restarted=restarted)
    scene.after(MINUTE)
    scene.progress(500)
    scene.after(1.5)
    start = scene.instance_now.isoformat()
    for _ in range(3):
        scene.beat(start_time=start, attempt=2)
        scene.after(30)
    outcome = scene.look(restarted=restarted)
    assert outcome.record is not None
    assert outcome.record.progress is None


@restarts
def test_its_own_failure_counts_though_it_beat_once_more(restarted: bool) -> None:
    scene = Scene()
    start = seen_after_its_first_step(scene, restarted=restarted)
    scene.put("_error", "CUDA out of memory")
    scene.after(5)
    scene.beat(start_time=start, attempt=2, status="failed")
    assert scene.look(restarted=restarted).status.value == "FAILED"
