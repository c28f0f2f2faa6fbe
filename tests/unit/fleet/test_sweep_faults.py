"""A sweep over a store, channels and a clock that do what they do in real life."""

import logging
import threading
from math import inf

import pytest

from lastbeat.model.fleet import PassReport
from lastbeat.model.group import LEDGER
from lastbeat.model.policy import Policy
from lastbeat.model.status import Event
from lastbeat.stores.port import DeniedError, MissingStoreError, StoreError, UnreachableError
from support.waiting import until
from support.world import World, running, told_of


@pytest.mark.parametrize(
    ("error", "restarted"),
    [(UnreachableError("503"), True), (DeniedError("403"), False), (MissingStoreError("no such bucket"), True)],
)
def test_a_fleet_that_cannot_be_seen_is_told_once_and_nothing_follows_from_it(
    error: Exception, restarted: bool
) -> None:
    world = running(10)
    world.sweep()
    world.store.refuse("any", error)
    for _ in range(30):
        world.after(60)
        report = world.sweep(restarted=restarted)
        assert report.blind
        assert report.exit_status == 3
    assert [(m.event, m.run_id) for m in world.channel.sent] == [(Event.BLIND, world.store.url)]
    world.store.heal()
    world.beat_all()
    assert world.sweep(restarted=restarted).statuses == {"RUNNING": 10}
    assert world.channel.events == ["BLIND", "SIGHTED"]


def test_a_listing_that_breaks_off_in_the_middle_goes_on_there() -> None:
    world = running(600)
    pages = 0

    def second_page_fails(operation: str, _key: str) -> None:
        nonlocal pages
        pages += operation == "list"
        if operation == "list" and pages == 2:
            raise UnreachableError("503")

    world.store.before = second_page_fails
    report = world.sweep()
    assert not report.complete
    assert report.blind is None
    assert 0 < report.statuses["RUNNING"] < 600
    assert world.sweep().statuses == {"RUNNING": 600}


def test_passes_that_have_too_little_time_still_come_round() -> None:
    # On a busy machine pass after pass may have no time for anything, which is blindness, and another matter.
    world = running(120, policy=Policy(blind_s=inf))

    def slow(operation: str, _key: str) -> None:
        if operation == "read":
            threading.Event().wait(0.012)

    world.store.before = slow
    names = [f"run-{number:04}" for number in range(120)]
    for name in names:
        world.run(name).error()

    def short_pass() -> PassReport:
        world.after(61)
        return world.sweep(deadline=0.24)

    until(short_pass, lambda report: (report.statuses.get("FAILED"), report.complete, report.pending) == (120, True, 0))
    # A busy machine may see few of them fail in one pass, or enough of them for one notice of all. A notice that was
    # sent as the time ran out may come again.
    told = {run_id for message in world.channel.sent for run_id in told_of(message)}
    assert sorted(told) == names


def test_a_first_look_that_could_not_be_written_down_is_told_by_the_next() -> None:
    world = World()
    world.run("x").both(1)
    world.run("x").complete()
    world.store.refuse("write", UnreachableError("503"), under="x/")
    assert world.sweep().unrecorded == 1
    world.store.heal()
    world.after(60)
    world.sweep()
    assert world.told("x") == ["SUCCEEDED"]


BROKEN = [
    pytest.param(["read", "list"], False, id="at the first look"),
    pytest.param(["read"], True, id="at a later one"),
    pytest.param(["write"], True, id="while its record is written"),
]


@pytest.mark.parametrize(("operations", "known"), BROKEN)
def test_a_look_that_breaks_by_our_own_fault_leaves_a_run_that_could_not_be_observed(
    operations: list[str], known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = running(3)
    world.options["mask"] = lambda text: text.replace("xyzzy", "***")
    if known:
        world.sweep()
    for number in range(3):
        world.run(f"run-{number:04}").both(2)
        world.run(f"run-{number:04}").complete()

    def breaks(operation: str, key: str) -> None:
        if operation in operations and key.startswith("run-0001/"):
            raise ZeroDivisionError("a token: xyzzy\nand more")

    world.store.before = breaks
    for _ in range(2):
        world.after(60)
        with caplog.at_level(logging.ERROR):
            report = world.sweep()
        (why,) = report.unreadable.values()
        assert list(report.unreadable) == ["run-0001"]
        assert "ZeroDivisionError: a token: *** and more" in why
        assert "lastbeat itself" in why
        assert report.unreadable_count == 1
        assert report.exit_status == 3
        assert "run-0001" in caplog.text
        assert "Traceback" in caplog.text, "who mends it needs to know where"
    assert {line.run_id: line.status.value for line in report.lines}.get("run-0001") == ("UNKNOWN" if known else None)
    assert report.statuses["SUCCEEDED"] == 2, "the others are none the worse"
    world.store.heal()
    world.after(60)
    report = world.sweep()
    assert (report.statuses, report.exit_status) == ({"SUCCEEDED": 3}, 0)
    assert world.told("run-0001") == ["SUCCEEDED"]


def test_people_are_told_of_a_run_whose_looks_break_for_long() -> None:
    world = running(3)
    world.sweep()
    world.run("run-0001").error()
    world.store.refuse("read", ZeroDivisionError, under="run-0001/")
    world.sweeps(30, but=("run-0001",))
    assert world.told("run-0001") == ["BLIND"]


def test_alerts_that_could_not_be_handed_over_by_our_own_fault_are_by_a_later_pass() -> None:
    world = running(6)
    world.sweep()
    world.after(world.policy.stale_s + 60)
    broken: list[str] = []

    def breaks(operation: str, key: str) -> None:
        settled = operation == "write" and key == "run-0001/_watchdog.json" and world.store.held.get(LEDGER)
        if settled and not broken:
            broken.append(key)
            raise ZeroDivisionError

    world.store.before = breaks
    report = world.sweep()
    assert broken
    assert list(report.unreadable) == ["run-0001"]
    world.after(60)
    report = world.sweep()
    assert (report.unreadable, report.pending) == ({}, 0)
    assert [message.member_count for message in world.channel.sent] == [6]


NAME = "run-1"


@pytest.mark.parametrize("earlier", [0, 6], ids=["a small record", "a record too large to be kept for nothing"])
def test_a_run_is_not_forgotten_while_something_is_unsettled(earlier: int) -> None:
    world = World()
    run = world.run(NAME)
    run.both(1)
    world.sweep()
    for number in range(earlier):
        world.after(60)
        if number % 2:
            run.delete("_error")
            run.both(number + 2, age_s=-1)
        else:
            run.error()
        world.sweep()
    told = len(world.channel.sent)
    world.after(60)
    if earlier % 2 == 0:
        run.error()

    def refuse(operation: str, _key: str) -> None:
        if operation == "write" and len(world.channel.sent) > told:
            raise StoreError("the disk is full")

    world.store.before = world.state.before = refuse
    world.sweep()
    assert len(world.channel.sent) == told + 1
    world.store.heal()
    world.state.heal()
    world.after(60)
    assert world.sweep().pending == 0
    world.after(world.policy.lease_s + 1)
    world.sweep(restarted=True)
    assert len(world.channel.sent) == told + 1
    record = run.record
    assert record is not None
    assert record.delivered == len(world.channel.sent)
