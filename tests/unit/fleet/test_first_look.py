"""The first pass over a fleet that nobody has watched: one alert for all that had ended, and none twice."""

from collections.abc import Callable

import pytest

from lastbeat.model.group import LEDGER
from lastbeat.model.policy import FleetPolicy, Policy
from lastbeat.model.status import Event
from lastbeat.stores.port import StoreError, UnreachableError
from support.channel import ListChannel, down
from support.row_by_row import labelled
from support.world import World

NEEDY = [f"failed-{number}" for number in range(4)]
WELL = [f"done-{number}" for number in range(3)]
SILENT = ["silent-0"]


def ended(world: World) -> None:
    """Four failed, three succeeded, one fell silent; one lives."""
    for run_id in NEEDY:
        world.run(run_id).beat(age_s=4000)
        world.run(run_id).error("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", age_s=3600)
    for run_id in WELL:
        world.run(run_id).beat(age_s=4000)
        world.run(run_id).complete(age_s=3600)
    for run_id in SILENT:
        world.run(run_id).both(1, age_s=3600)
    world.run("lives").both(1)


def untouched() -> World:
    world = World()
    ended(world)
    return world


def test_what_had_ended_is_one_alert_that_names_those_that_need_people() -> None:
    world = untouched()
    report = world.sweep()
    (notice,) = world.channel.sent
    assert notice.event is Event.FIRST_LOOK
    assert notice.reason == "First look at this fleet: 4 failed (4 oom), 1 timed out, 3 succeeded"
    assert notice.members == (*NEEDY, *SILENT)
    assert (notice.subject, notice.severity) == ("5 runs", "warning")
    assert (report.sent, report.pending) == (1, 0)
    assert len(report.transitions) == 9, "each run's own transition is recorded all the same"
    for run_id in (*NEEDY, *WELL, *SILENT):
        record = world.run(run_id).record
        assert record is not None
        assert [d.told_by for a in record.outbox for d in a.deliveries.values()] == [notice.key]


def test_what_ends_from_then_on_is_told_by_itself() -> None:
    world = untouched()
    world.sweep()
    for number in range(6):
        world.run(f"later-{number}").both(1)
    world.after(60)
    world.run("lives").error("boom")
    for number in range(6):
        world.run(f"later-{number}").error("boom")
    world.run("between").error("began and ended between two passes")
    for _ in range(3):
        world.sweep(restarted=True)
        world.after(60)
    told = sorted(message.run_id for message in world.channel.sent[1:])
    assert told == sorted(["lives", "between", *(f"later-{number}" for number in range(6))])


def test_a_run_that_ends_during_the_first_pass_is_told_by_itself() -> None:
    world = untouched()

    def end(operation: str, key: str) -> None:
        if operation == "list":
            world.after(1)
            world.run("lives").error("boom")
            world.store.heal()

    world.store.before = end
    world.sweep()
    assert sorted(message.event.value for message in world.channel.sent) == ["FAILED", "FIRST_LOOK"]
    assert world.told("lives") == ["FAILED"]


def test_only_what_people_want_to_hear_of_counts() -> None:
    world = World(policy=Policy(alert_on=frozenset({Event.FAILED})), fleet=FleetPolicy(group_runs=3))
    ended(world)
    world.sweep()
    (notice,) = world.channel.sent
    assert notice.reason == "First look at this fleet: 4 failed (4 oom)"


def test_all_well_is_no_reason_to_hurry() -> None:
    world = World()
    for number in range(6):
        world.run(f"done-{number}").complete(age_s=3600)
    world.sweep()
    (notice,) = world.channel.sent
    assert (notice.severity, notice.action, notice.member_count) == ("info", None, 6)


@pytest.mark.parametrize("lost", ["index", "all of it"])
def test_a_fleet_that_was_watched_is_not_looked_at_for_the_first_time(lost: str) -> None:
    world = World()
    for number in range(12):
        world.run(f"run-{number:02}").both(1)
    world.fresh_sweep().run()
    world.store.put_text("_watchdog/last_pass.json", "{}")
    world.after(60)
    for number in range(6):
        world.run(f"run-{number:02}").error("boom")
        world.run(f"new-{number:02}").error("began and ended between two passes", age_s=30)
    under = "_watchdog/fleet.json.z" if lost == "index" else "_watchdog/"
    for key in [key for key in world.store.held if key.startswith(under)]:
        world.store.held.pop(key)
    world.sweep(restarted=True)
    assert sorted(message.event.value for message in world.channel.sent) == ["FAILED"] * 12


FAULTS: list[tuple[str, Callable[[str, str], bool]]] = [
    ("before the ledger is written", lambda op, key: op == "write" and key == LEDGER),
    ("before any record is settled", lambda op, key: op == "read" and key == LEDGER),
    ("before the index is written", lambda op, key: op == "write" and key.endswith("fleet.json.z")),
]


@pytest.mark.parametrize("when", labelled(FAULTS))
def test_passes_that_die_only_delay(when: Callable[[str, str], bool]) -> None:
    world = untouched()

    def die(operation: str, key: str) -> None:
        if when(operation, key):
            raise UnreachableError("the process is gone, as far as the store can tell")

    world.store.before = die
    for _ in range(2):
        world.sweep(restarted=True)
        world.after(60)
    world.store.heal()
    for _ in range(6):
        world.sweep(restarted=True)
        world.after(60)
    assert [message.event.value for message in world.channel.sent] == ["FIRST_LOOK"]


def test_two_first_passes_at_once_tell_all_and_nothing_twice() -> None:
    world = untouched()
    other = world.fresh_sweep()
    begun: list[str] = []

    def overtake(operation: str, key: str) -> None:
        if operation == "write" and key == LEDGER and not begun:
            begun.append(key)
            other.run()

    world.store.before = overtake
    world.sweep()
    world.after(60)
    world.sweep()
    assert [message.event.value for message in world.channel.sent] == ["FIRST_LOOK"]


def test_a_channel_that_is_down_gets_it_later_once() -> None:
    world = untouched()
    world.channel.fault = down
    world.sweep()
    world.channel.fault = lambda _message: None
    for _ in range(5):
        world.after(60)
        world.sweep(restarted=True)
    assert [message.event.value for message in world.channel.sent] == ["FIRST_LOOK"]
    world.channel = ListChannel("list:changed")
    world.after(60)
    world.sweep(restarted=True)
    assert world.channel.sent == []


def test_a_ledger_that_is_refused_costs_the_digest_not_the_alerts() -> None:
    world = untouched()
    world.store.refuse("write", StoreError("403"), under=LEDGER)
    world.sweep()
    assert len(world.channel.sent) == 8
