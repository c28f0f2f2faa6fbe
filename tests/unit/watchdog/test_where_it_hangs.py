"""An alert of a run that makes no progress shows where its main thread is."""

import pytest

from lastbeat.deliver.plain import render
from lastbeat.model.policy import Policy
from lastbeat.model.status import Event, Status
from lastbeat.stores.port import DeniedError
from support.scene import RUN, Scene

STACKS = """No new step for 10m, at step 5, 2026-01-01T12:00:00.000Z

Thread "MainThread" (main), most recent call last:
  File "train.py", line 90, in main
  File "loader.py", line 12, in fetch token=abcdef0123456789

Thread "pin_memory", most recent call last:
  File "other.py", line 1, in run
"""
FRAMES = ('File "train.py", line 90, in main', 'File "loader.py", line 12, in fetch token=***')


@pytest.fixture
def scene() -> Scene:
    return Scene(Policy(stall_s=600.0))


def stand_still(scene: Scene, seconds: float, step: int = 5) -> None:
    """It beats, and makes no step."""
    for _ in range(int(seconds / 60)):
        scene.both(step)
        scene.look()
        scene.after(60)
    scene.both(step)


def test_stalled_and_timed_out_alerts_show_the_innermost_frames(scene: Scene) -> None:
    stand_still(scene, 540)
    scene.put("logs/stacks.txt", STACKS)
    scene.put("logs/training_log_latest.txt", "step 5 loss 2.5\n")
    stand_still(scene, 1260)
    scene.look()
    sent = scene.channel.sent
    assert [message.event for message in sent] == [Event.WARNING, Event.TIMED_OUT]
    assert [message.stack for message in sent] == [FRAMES, FRAMES]
    shown = render(sent[0])
    assert shown.index("Where it hangs") < shown.index("train.py") < shown.index("Last log lines")


def test_a_run_that_fell_silent_while_it_hung_shows_them_too(scene: Scene) -> None:
    scene.both(5)
    scene.put("logs/stacks.txt", STACKS)
    scene.look()
    scene.after(3600)
    assert scene.look().alerts[0].stack == FRAMES


def test_alerts_about_anything_else_do_not(scene: Scene) -> None:
    scene.both(5)
    scene.put("logs/stacks.txt", STACKS)
    scene.look()
    scene.put("_error", "RuntimeError: boom")
    outcome = scene.look()
    assert outcome.status is Status.FAILED
    assert outcome.alerts[0].stack == ()
    assert ("read", f"{RUN}/logs/stacks.txt") not in scene.store.calls


def test_stacks_of_an_earlier_attempt_are_not_shown(scene: Scene) -> None:
    scene.put("logs/stacks.txt", STACKS)
    scene.after(60)
    scene.beat(start_time=scene.now.isoformat(), attempt=2)
    scene.after(3600)
    outcome = scene.look()
    assert outcome.status is Status.TIMED_OUT
    assert outcome.alerts[0].stack == ()


def test_they_are_read_only_when_an_alert_goes_out(scene: Scene) -> None:
    scene.put("logs/stacks.txt", STACKS)
    stand_still(scene, 1740)
    assert scene.store.calls.count(("read", f"{RUN}/logs/stacks.txt")) == len(scene.channel.sent) == 2


def test_stacks_that_cannot_be_read_stop_no_alert(scene: Scene) -> None:
    scene.both(5)
    scene.put("logs/stacks.txt", STACKS)
    scene.look()
    scene.after(3600)

    def refuse(operation: str, key: str) -> None:
        if operation == "read" and key.endswith("stacks.txt"):
            raise DeniedError("access denied")

    scene.store.before = refuse
    (alert,) = scene.look().alerts
    assert alert.stack == ()
    assert "The stacks could not be read: access denied" in alert.notes
