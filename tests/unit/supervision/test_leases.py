"""Of several supervisors of one run one works until the run is over. The others see whose turn it is, and take over
when that one is gone."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from lastbeat.jobs.launchers import processes
from lastbeat.jobs.supervision import loop
from lastbeat.jobs.supervision.lease import LEASE_S, RENEWED_BELOW_S, Machine, SupervisorLease
from lastbeat.model.job import JobState
from lastbeat.model.record import Record
from lastbeat.model.restart import LeaseHolder
from lastbeat.model.status import Status
from lastbeat.stores.port import DeniedError, UnreachableError
from lastbeat.watch.effects.runner import ACTION_LEASE_S
from support.jobs import FakeLauncher, SupervisedScene
from support.memory import Killed
from support.restart_protocol import ModelMachine
from support.row_by_row import labelled
from support.there import there
from unit.supervision.test_supervised import running

HERE = Machine("login1 1234", "boot-1", "pid:[1]")
ELSEWHERE = Machine("login2 5678", "boot-2", "pid:[1]")


def lease(name: str, machine: Machine = ELSEWHERE) -> SupervisorLease:
    return SupervisorLease(f"{name}@somewhere", name, machine)


def taken(scene: SupervisedScene, who: SupervisorLease) -> str:
    """Who has the lease after ``who`` wanted it."""
    record, other = who.take(scene.repository(), scene.store.now)
    holder = other if other is not None else record.seat
    assert holder is not None
    return holder.token


def test_the_first_one_has_it_and_the_second_one_waits_until_it_is_left() -> None:
    scene = running(SupervisedScene())
    one, two = lease("one"), lease("two", HERE)
    assert (taken(scene, one), taken(scene, two), taken(scene, one)) == ("one", "one", "one")
    one.release(scene.repository(), scene.store.now)
    two.release(scene.repository(), scene.store.now)
    assert (taken(scene, two), taken(scene, one)) == ("two", "two")


def test_of_one_that_died_elsewhere_it_is_free_after_five_minutes() -> None:
    scene = running(SupervisedScene())
    assert taken(scene, lease("dead")) == "dead"
    scene.store.pass_time(LEASE_S - 1)
    assert taken(scene, lease("next", HERE)) == "dead"
    scene.store.pass_time(1)
    assert taken(scene, lease("next", HERE)) == "next"


def test_who_has_lost_it_while_it_slept_does_not_take_it_from_the_next_one_by_leaving() -> None:
    scene = running(SupervisedScene())
    slept, awake = lease("slept"), lease("awake", HERE)
    assert taken(scene, slept) == "slept"
    scene.store.pass_time(LEASE_S)
    assert taken(scene, awake) == "awake"
    slept.release(scene.repository(), scene.store.now)
    assert taken(scene, lease("third")) == "awake"


def test_a_supervisor_that_ticks_keeps_it_with_a_write_every_two_minutes() -> None:
    scene = running(SupervisedScene())
    one = lease("one")
    taken(scene, one)
    watch = scene.watch(lease=one)
    scene.store.calls.clear()
    for _ in range(60):
        scene.store.pass_time(30)
        watch.tick()
        assert taken(scene, lease("two", HERE)) == "one"
    writes = [key for operation, key in scene.store.calls if operation == "write" and key.endswith("_watchdog.json")]
    assert len(writes) <= 1800 / (LEASE_S - RENEWED_BELOW_S)


MACHINES = [
    ("a process that has ended, of this very boot", {}, True),
    ("one that lives", {"alive": True}, False),
    ("one of this machine, which has been started again since", {"boot": "an earlier one"}, True),
    ("one of another machine", {"boot": "another", "machine": "login2 5678"}, False),
    ("one of a machine without a name of its own", {"boot": "another", "machine": ""}, False),
    ("one of another container on this machine", {"namespace": "pid:[9]"}, False),
    ("one that an operating system without /proc knows", {"started": 0}, False),
]


@pytest.mark.parametrize(("how", "free"), labelled(MACHINES))
def test_whether_the_seat_of_a_silent_supervisor_is_free_at_once(how: dict[str, object], free: bool) -> None:
    scene = running(SupervisedScene())
    machine = replace(HERE, boot=processes.boot())
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    me = there(processes.identity(os.getpid()))
    known = {"pid": ended.pid, "started": 1, "boot": machine.boot, "namespace": "pid:[1]", "machine": machine.name}
    if how.pop("alive", False):
        known |= {"pid": me.pid, "started": me.started}
    until = scene.store.now.replace(year=2100)
    left = LeaseHolder("silent", "ada@login1", scene.store.now, until, **{**known, **how})  # type: ignore[arg-type]
    repository = scene.repository()
    record = there(repository.reload())
    repository.save(replace(record, seat=left), scene.store.now)
    assert taken(scene, lease("next", machine)) == ("next" if free else "silent")


@pytest.mark.parametrize(
    ("launcher", "place", "starts"),
    [
        pytest.param("local", HERE, True, id="of this machine, which starts its jobs itself"),
        pytest.param("slurm", HERE, False, id="whose sbatch may go on without it"),
        pytest.param("local", replace(HERE, boot="boot-0"), False,
                     id="of this machine before it was started again, or of another one of its name"),
        pytest.param("local", ELSEWHERE, False, id="of another machine, of which nobody knows whether it lives"),
    ],
)  # fmt: skip
def test_the_start_that_a_dead_supervisor_had_claimed_is_made_at_once(
    launcher: str, place: Machine, starts: bool
) -> None:
    scene = SupervisedScene(launcher=FakeLauncher(kind=launcher))
    dead: set[int] = set()
    first = SupervisorLease("ada@here", "first", ModelMachine(place.name, place.boot, place.namespace, 1, dead))
    scene.begin(first)
    taken(scene, first)
    scene.launcher.die_at(0, Killed, before=True)
    with pytest.raises(Killed):
        scene.watch(lease=first).tick()
    scene.heal()
    (claimed,) = scene.record().actions
    assert (claimed.claimed_by, scene.launcher.submitted) == ("first", [])
    dead.add(1)
    if place.name != HERE.name:
        scene.store.pass_time(LEASE_S - 1)
        assert taken(scene, lease("next", HERE)) == "first"
        return
    second = SupervisorLease("ada@here", "second", ModelMachine(HERE.name, HERE.boot, HERE.namespace, 2, dead))
    assert taken(scene, second) == "second"
    scene.watch(lease=second).tick()
    assert scene.launcher.submitted == (["run-r0"] if starts else [])
    scene.store.pass_time(ACTION_LEASE_S)
    scene.watch(lease=second).tick()
    assert scene.launcher.submitted == ["run-r0"]


def test_who_begins_the_run_anew_has_it_and_the_one_before_notices() -> None:
    scene = running(SupervisedScene())
    one = lease("one", HERE)
    taken(scene, one)
    watch = scene.watch(lease=one)
    scene.end("run-r0", JobState.SUCCEEDED)
    watch.tick()
    scene.begin(lease("two"))
    outcome = watch.tick()
    assert outcome.record is not None
    assert outcome.record.seat is not None
    assert outcome.record.seat.token == "two"
    holder = there(one.holder(outcome.record, outcome.at))
    assert holder.by == "two@somewhere"


LEAVES = 20
"""A supervisor of these tests has to leave after this number of waits."""


def waits(scene: SupervisedScene, *then: Callable[[], object]) -> Callable[[float], bool]:
    """Waits that pass the scene's time; after each one the next of ``then`` happens."""
    left, count = list(then), 0

    def wait(seconds: float) -> bool:
        nonlocal count
        scene.store.pass_time(max(0.0, seconds))
        count += 1
        if left:
            left.pop(0)()
        return count >= LEAVES

    return wait


def take(scene: SupervisedScene, wait: Callable[[float], bool]) -> tuple[Record | None, list[str]]:
    """What ``take_lease`` returns to ``next``, and for whom it waited."""
    holders: list[str] = []

    def waits_for(_record: Record, holder: LeaseHolder) -> None:
        holders.append(holder.token)

    return loop.take_lease(lease("next", HERE), scene.repository(), wait, 30.0, waits_for), holders


def test_a_holder_is_waited_for_and_named_once() -> None:
    scene = running(SupervisedScene())
    first = lease("first")
    first.take(scene.repository(), scene.store.now)

    record, holders = take(
        scene, waits(scene, *[lambda: None] * 3, lambda: loop.leave_lease(first, scene.repository()))
    )

    assert record is not None
    assert holders == ["first"]


def test_a_supervisor_that_has_to_leave_takes_no_lease() -> None:
    scene = running(SupervisedScene())
    lease("first").take(scene.repository(), scene.store.now.replace(year=2100))

    record, holders = take(scene, waits(scene))

    assert (record, holders) == (None, ["first"])


def test_a_run_without_a_supervision_has_no_lease() -> None:
    scene = SupervisedScene()

    with pytest.raises(LookupError):
        take(scene, waits(scene))


def test_a_store_that_does_not_answer_is_asked_again_and_one_that_refuses_is_not() -> None:
    scene = running(SupervisedScene())
    scene.store.refuse("any", UnreachableError("no answer"))
    assert take(scene, waits(scene, lambda: None, scene.store.heal))[0] is not None
    scene.store.refuse("any", DeniedError("not allowed"))
    with pytest.raises(DeniedError):
        take(scene, waits(scene))


def test_passes_end_with_the_run() -> None:
    scene = SupervisedScene()
    scene.begin()
    own = lease("own")

    found = list(loop.passes(scene.watch(lease=own), own, 30.0, waits(scene, lambda: None, lambda: _succeed(scene))))

    assert [each.is_last for each in found] == [False] * (len(found) - 1) + [True]
    assert found[-1].outcome.status is Status.SUCCEEDED
    assert not any(each.is_taken for each in found)


def _succeed(scene: SupervisedScene) -> None:
    scene.end("run-r0", JobState.SUCCEEDED, 0)


def test_passes_end_when_another_supervisor_holds_the_lease() -> None:
    scene = running(SupervisedScene())
    own, other = lease("own", HERE), lease("other")
    own.take(scene.repository(), scene.store.now)

    def sleep_too_long() -> None:
        scene.store.pass_time(LEASE_S)
        other.take(scene.repository(), scene.store.now)

    found = list(loop.passes(scene.watch(lease=own), own, 30.0, waits(scene, sleep_too_long)))

    assert [(each.is_last, each.is_taken) for each in found] == [(False, False), (False, True)]
