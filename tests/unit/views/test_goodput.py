"""What a look at a run, and at a fleet, tells of its time; and what it costs."""

import pytest

from lastbeat.model.timesheet import TimeUse
from lastbeat.stores.port import UnreachableError
from lastbeat.views.goodput import fleet_goodput
from support.looked import view_of
from support.there import there
from support.world import RUN, World

LOG = "logs/train.log"


def test_a_run_that_lives_is_told_with_the_step_that_it_wrote_since_it_was_recorded() -> None:
    world = World()
    for step in (1, 2):
        world.store.pass_time(60)
        world.both(step)
        world.look()
    world.store.pass_time(600)
    world.both(50)
    found = there(view_of(world).goodput)
    # From the first step that was seen to the last one that was written, recorded or not.
    assert found.spent[TimeUse.PRODUCTIVE] == pytest.approx(660)
    assert found.wall_s == pytest.approx(sum(found.spent.values()))


def test_a_run_that_writes_steps_into_its_log_alone() -> None:
    world = World()
    for step in (1, 2):
        world.store.pass_time(60)
        world.put(LOG, f"step {step}/100 loss 2.5\n")
        world.look()
    world.store.pass_time(600)
    world.put(LOG, "step 1/100 loss 2.5\nstep 50/100 loss 2.5\n")
    view = view_of(world)
    assert view.goodput is not None
    assert view.times[-1].last_step == 50
    assert sum(view.goodput.spent.values()) == pytest.approx(view.goodput.wall_s)


def test_a_failure_that_no_pass_has_seen_yet_goes_on_unnoticed() -> None:
    world = World()
    world.both(1)
    world.look()
    world.store.pass_time(60)
    world.both(2)
    world.error("boom")
    world.store.pass_time(3600)
    found = there(view_of(world).goodput)
    assert found.spent[TimeUse.UNNOTICED] == pytest.approx(3600)


def test_a_fleet_costs_a_read_for_a_run_that_is_over_and_two_for_one_that_lives() -> None:
    world = World()
    world.both(1)
    world.look()
    world.store.calls.clear()
    fleet_goodput(world.store, [RUN], world.store.now)
    assert world.store.calls == [("read", f"{RUN}/_watchdog.json"), ("read", f"{RUN}/progress.json")]
    world.put("_complete", "")
    world.look()
    world.store.calls.clear()
    found = fleet_goodput(world.store, [RUN, "never-recorded"], world.store.now)
    assert sorted(world.store.calls) == [("read", f"{RUN}/_watchdog.json"), ("read", "never-recorded/_watchdog.json")]
    assert ([each.run_id for each in found.runs], found.unrecorded) == ([RUN], 1)


def test_a_store_that_does_not_answer_and_a_time_that_is_over_are_told_run_by_run() -> None:
    world = World()
    world.both(1)
    world.look()

    world.store.refuse("any", UnreachableError("no answer", ""))
    found = fleet_goodput(world.store, [RUN], world.store.now)
    assert [(each.run_id, each.fault) for each in found.unread] == [(RUN, "no answer")]
    late = fleet_goodput(world.store, [RUN], world.store.now, until=0.0)
    assert [each.fault for each in late.unread] == ["there was no time left to read it"]


def test_starts_in_place_that_no_watcher_saw_count_as_training_says() -> None:
    world = World()
    starter = {"token": "launch-2", "restarts": 2, "left": 1, "takes_s": 60}
    world.beat(attempt=3, start_time=world.now.isoformat(), in_place=starter)
    world.progress(15)
    for recorded in (False, True):
        if recorded:
            world.look()
        found = there(view_of(world).goodput)
        assert (found.attempts, found.failures) == (3, 2)
