"""Runs that time out together are told of together, as people know it from Alertmanager."""

from collections.abc import Callable

import pytest

from lastbeat.alerts.document import document
from lastbeat.alerts.plain import render
from lastbeat.model.policy import FleetPolicy
from support.channel import ListChannel, down
from support.groups import Grouper, GroupWorld
from support.row_by_row import labelled

MINUTE = 60.0
Act = Callable[[GroupWorld], object]
Step = tuple[float, Act]


def nothing(_world: GroupWorld) -> None:
    pass


def silence(*numbers: int) -> Act:
    return lambda s: s.silence([s.run_ids[number] for number in numbers])


def wake(*numbers: int) -> Act:
    return lambda s: s.wake([s.run_ids[number] for number in numbers])


def fail(number: int) -> Act:
    return lambda s: s.run(s.run_ids[number]).error("boom")


HISTORIES: list[tuple[str, list[Step], list[str]]] = [
    ("fewer than the threshold are told of one by one, at once", [(60, silence(0, 1))],
     ["TIMED_OUT run-00", "TIMED_OUT run-01"]),
    ("from the threshold on one alert tells of all of them, at once", [(60, silence(0, 1, 2, 3)), (60, nothing)],
     ["TIMED_OUT 4: run-00 run-01 run-02 run-03"]),
    ("those that were told of one by one count, and are not told of again", [(60, silence(0, 1)), (60, silence(2, 3))],
     ["TIMED_OUT run-00", "TIMED_OUT run-01", "TIMED_OUT 2: run-02 run-03"]),
    ("those that timed out longer ago than the window do not count", [(60, silence(0, 1)), (6 * MINUTE, silence(2))],
     ["TIMED_OUT run-00", "TIMED_OUT run-01", "TIMED_OUT run-02"]),
    ("one that times out soon after joins, and is told of with the next notice",
     [(60, silence(0, 1, 2)), (60, silence(3)), (60, silence(4)), (60, nothing), (60, nothing), (60, nothing)],
     ["TIMED_OUT 3: run-00 run-01 run-02", "TIMED_OUT 2: run-03 run-04"]),
    ("one that times out long after is told of by itself", [(60, silence(0, 1, 2)), (6 * MINUTE, silence(3))],
     ["TIMED_OUT 3: run-00 run-01 run-02", "TIMED_OUT run-03"]),
    ("those that come back are told of together",
     [(60, silence(0, 1, 2)), (6 * MINUTE, wake(0, 1)), (60, wake(2)), (6 * MINUTE, nothing)],
     ["TIMED_OUT 3: run-00 run-01 run-02", "RECOVERED 2: run-00 run-01", "RECOVERED 1: run-02"]),
    ("those that come back soon after are told of no sooner than after the interval",
     [(60, silence(0, 1, 2)), (60, wake(0)), (60, wake(1, 2)), (60, nothing), (60, nothing), (60, nothing)],
     ["TIMED_OUT 3: run-00 run-01 run-02", "RECOVERED 3: run-00 run-01 run-02"]),
    ("the return of those that were told of one by one is told with the others'",
     [(60, silence(0, 1)), (60, silence(2, 3)), (6 * MINUTE, wake(0, 1, 2, 3))],
     ["TIMED_OUT run-00", "TIMED_OUT run-01", "TIMED_OUT 2: run-02 run-03",
      "RECOVERED 4: run-00 run-01 run-02 run-03"]),
    ("a member that fails is told of by itself and leaves",
     [(60, silence(0, 1, 2)), (60, fail(0)), (6 * MINUTE, wake(1, 2))],
     ["TIMED_OUT 3: run-00 run-01 run-02", "FAILED run-00", "RECOVERED 2: run-01 run-02"]),
    ("one that came back and failed before the notice of its return is told of in that order, and at once",
     [(60, silence(0, 1, 2)), (60, wake(0)), (60, fail(0)), (6 * MINUTE, wake(1, 2))],
     ["TIMED_OUT 3: run-00 run-01 run-02", "RECOVERED run-00", "FAILED run-00", "RECOVERED 2: run-01 run-02"]),
    ("one that joined late and failed before the next notice is told of in that order, and at once",
     [(60, silence(0, 1, 2)), (60, silence(3)), (60, fail(3)), (6 * MINUTE, nothing)],
     ["TIMED_OUT 3: run-00 run-01 run-02", "TIMED_OUT run-03", "FAILED run-03"]),
    ("a group that is over is over: who times out then is counted anew",
     [(60, silence(0, 1, 2)), (6 * MINUTE, wake(0, 1, 2)), (60, silence(0))],
     ["TIMED_OUT 3: run-00 run-01 run-02", "RECOVERED 3: run-00 run-01 run-02", "TIMED_OUT run-00"]),
    ("a member that times out again is told of with the next notice",
     [(60, silence(0, 1, 2)), (6 * MINUTE, wake(0)), (60, silence(0)), (6 * MINUTE, nothing)],
     ["TIMED_OUT 3: run-00 run-01 run-02", "RECOVERED 1: run-00", "TIMED_OUT 1: run-00"]),
    ("one for whose notice no pass came in time went out alone, and the notice does not tell of it again",
     [(60, silence(0, 1, 2)), (60, silence(3)), (60 * MINUTE, nothing), (60, nothing)],
     ["TIMED_OUT 3: run-00 run-01 run-02", "TIMED_OUT run-03"]),
    ("a group that lasts is told of once", [(60, silence(0, 1, 2)), *[(3600, nothing)] * 12],
     ["TIMED_OUT 3: run-00 run-01 run-02"]),
]  # fmt: skip


@pytest.mark.parametrize("restarted", [pytest.param(True, id="--once"), pytest.param(False, id="loop")])
@pytest.mark.parametrize(("steps", "told"), labelled(HISTORIES))
def test_history(steps: list[Step], told: list[str], restarted: bool) -> None:
    world = GroupWorld(6)
    world.grouper.sweep()
    for seconds, act in steps:
        world.after(seconds)
        act(world)
        (Grouper(world) if restarted else world.grouper).sweep()
    assert world.alerts() == told
    assert world.unsettled() == set()


def test_a_notice_says_what_they_share_and_how_many_are_watched() -> None:
    world = GroupWorld(10, FleetPolicy(group_runs=5))
    for run_id in world.run_ids[:6]:
        world.facts[run_id] = {"zone": "us-east-1a", "instance_type": "p5.48xlarge", "host": f"ip-{run_id}"}
    world.facts["run-00"]["zone"] = "us-east-1b"
    world.grouper.sweep()
    world.after(60)
    world.silence(world.run_ids[:6])
    world.grouper.sweep()
    (notice,) = world.channel.sent
    assert notice.shared == {
        "Instance type": "p5.48xlarge (all 6)",
        "Zone": "us-east-1a (5 of 6)",
        "Phase": "train (all 6)",
        "Reason": "Both heartbeats stale (>10m); no progress.json was ever written (all 6)",
    }
    assert notice.reason == "6 of the 10 runs being watched timed out together"


def test_a_group_that_lasts_is_told_again_only_where_asked_for() -> None:
    world = GroupWorld(3, FleetPolicy(group_runs=3, repeat_s=3600.0))
    world.silence(world.run_ids)
    for _ in range(125):
        world.grouper.sweep()
        world.after(60)
    assert world.alerts() == ["TIMED_OUT 3: run-00 run-01 run-02"] * 3
    assert "still are, after 1h" in world.channel.sent[1].reason
    assert len({message.key for message in world.channel.sent}) == 3


def test_a_large_group_names_all_to_programs_and_fifty_to_people() -> None:
    world = GroupWorld(60)
    world.silence(world.run_ids)
    world.grouper.sweep()
    (notice,) = world.channel.sent
    assert (notice.members, notice.member_count) == (world.run_ids, 60)
    assert document(notice)["members_left_out"] == 0
    assert render(notice).endswith("run-49\n│   and 10 more")
    assert world.unsettled() == set()


@pytest.mark.parametrize("delivered", [True, False])
def test_a_changed_address_gets_the_notice_only_if_nobody_did(delivered: bool) -> None:
    world = GroupWorld(4)
    world.grouper.sweep()
    world.after(60)
    world.silence(world.run_ids)
    if not delivered:
        world.channel.fault = down
    world.grouper.sweep()
    world.channel = ListChannel("list:changed")
    for _ in range(5):
        world.after(60)
        Grouper(world).sweep()
    assert world.alerts() == ([] if delivered else ["TIMED_OUT 4: run-00 run-01 run-02 run-03"])
    world.after(360)
    world.wake(world.run_ids)
    Grouper(world).sweep()
    assert world.alerts()[-1] == "RECOVERED 4: run-00 run-01 run-02 run-03", "what is new goes to the new address"
