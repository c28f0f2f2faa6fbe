"""A supervisor waits for the lease, and makes passes until its run is over or the lease is another's."""

from collections.abc import Callable

import pytest

from lastbeat.jobs.supervision import loop
from lastbeat.jobs.supervision.lease import LEASE_S, Machine, SupervisorLease
from lastbeat.model.job import JobState
from lastbeat.model.record import Record
from lastbeat.model.restart import LeaseHolder
from lastbeat.model.status import Status
from lastbeat.stores.port import DeniedError, UnreachableError
from support.jobs import SupervisedScene
from unit.supervision.test_supervised import running

HERE = Machine("login1 1234", "boot-1", "pid:[1]")
ELSEWHERE = Machine("login2 5678", "boot-2", "pid:[1]")
LEAVES = 20
"""A supervisor of these tests has to leave after this number of waits."""


def lease(name: str, machine: Machine = ELSEWHERE) -> SupervisorLease:
    return SupervisorLease(f"{name}@somewhere", name, machine)


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


def test_a_free_lease_is_taken_at_once() -> None:
    scene = running(SupervisedScene())

    record, holders = take(scene, waits(scene))

    assert record is not None
    assert record.seat is not None
    assert (record.seat.token, holders) == ("next", [])


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


def test_passes_end_when_the_supervisor_has_to_leave() -> None:
    scene = running(SupervisedScene())

    found = list(loop.passes(scene.watch(), None, 30.0, waits(scene)))

    assert len(found) == LEAVES
    assert not found[-1].is_last
