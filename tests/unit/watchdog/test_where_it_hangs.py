"""An alert of a run that makes no progress shows where its main thread is."""

import pytest

from lastbeat.alerts.plain import render
from lastbeat.model.policy import Policy
from lastbeat.model.status import Event, Status
from lastbeat.stores.port import DeniedError
from support.world import RUN, World

STACKS = """No new step for 10m, at step 5, 2026-01-01T12:00:00.000Z

Thread "MainThread" (main), most recent call last:
  File "train.py", line 90, in main
  File "loader.py", line 12, in fetch token=abcdef0123456789

Thread "pin_memory", most recent call last:
  File "other.py", line 1, in run
"""
FRAMES = ('File "train.py", line 90, in main', 'File "loader.py", line 12, in fetch token=***')


@pytest.fixture
def world() -> World:
    return World(Policy(stall_s=600.0))


def stand_still(world: World, seconds: float, step: int = 5) -> None:
    """It beats, and makes no step."""
    for _ in range(int(seconds / 60)):
        world.both(step)
        world.look()
        world.after(60)
    world.both(step)


def test_stalled_and_timed_out_alerts_show_the_innermost_frames(world: World) -> None:
    stand_still(world, 540)
    world.put("logs/stacks.txt", STACKS)
    world.log("step 5 loss 2.5\n")
    stand_still(world, 1260)
    world.look()
    sent = world.channel.sent
    assert [message.event for message in sent] == [Event.WARNING, Event.TIMED_OUT]
    assert [message.stack for message in sent] == [FRAMES, FRAMES]
    shown = render(sent[0])
    assert shown.index("Where it hangs") < shown.index("train.py") < shown.index("Last log lines")


def test_alerts_about_anything_else_do_not(world: World) -> None:
    world.both(5)
    world.put("logs/stacks.txt", STACKS)
    world.look()
    world.error("RuntimeError: boom")
    outcome = world.look()
    assert outcome.status is Status.FAILED
    assert outcome.alerts[0].stack == ()
    assert ("read", f"{RUN}/logs/stacks.txt") not in world.store.calls


def test_they_are_read_only_when_an_alert_goes_out(world: World) -> None:
    world.put("logs/stacks.txt", STACKS)
    stand_still(world, 1740)
    assert world.store.calls.count(("read", f"{RUN}/logs/stacks.txt")) == len(world.channel.sent) == 2


def test_stacks_that_cannot_be_read_stop_no_alert(world: World) -> None:
    world.both(5)
    world.put("logs/stacks.txt", STACKS)
    world.look()
    world.after(3600)

    world.store.refuse("read", DeniedError("access denied"), named="stacks.txt")
    (alert,) = world.look().alerts
    assert alert.stack == ()
    assert "The stacks could not be read: access denied" in alert.notes
