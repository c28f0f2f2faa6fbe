"""A pass with its mark, its ping and its page: what comes after what, and what a blind one leaves out."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from lastbeat.fleet.deadlines import PassTimes
from lastbeat.fleet.mark import MarkWriter, read_mark
from lastbeat.fleet.ping import Ping
from lastbeat.fleet.sweep import Sweep
from lastbeat.model.fleet import PassReport, RunLine
from lastbeat.model.runid import SWEEP_MARK
from lastbeat.model.status import Status
from lastbeat.stores.counting import CountingStore, Tally
from lastbeat.stores.port import StoreError, UnreachableError
from support.channel import down
from support.http_sink import Answer, HttpSink
from support.memory import START
from support.paged import PagedStore
from support.row_by_row import labelled
from support.there import there
from support.waiting import until
from support.world import World, running

FOREVER = float("inf")


@dataclass
class Pages:
    """Notes what a page was asked for, and whether the mark was there by then. Writing one costs ``cost``."""

    world: World
    cost: Mapping[str, int] = field(default_factory=lambda: {"LIST": 7})
    asked: list[tuple[PassReport, float, bool]] = field(default_factory=list)

    def write(self, report: PassReport, until: float) -> PassReport:
        self.asked.append((report, until, SWEEP_MARK in self.world.store.held))
        requests = {kind: count + self.cost.get(kind, 0) for kind, count in report.requests.items()}
        return replace(report, notes=("a page",), requests=requests)


def sweep_of(world: World, *, ping: str | None = None, page: Pages | None = None) -> Sweep:
    """One process that sweeps and leaves marks; its requests are counted."""
    tally = Tally()
    world.through = CountingStore(world.store, tally)
    mark = MarkWriter(world.through, world.fleet)
    return world.fresh_sweep(tally=tally, mark=mark, ping=Ping(ping) if ping else None, views=page)


ROWS = [
    pytest.param("sees", ["/x/start", "/x"], True, id="a pass that could see is pinged and marked"),
    pytest.param("blind", [], False, id="of a blind one nobody hears, and there is neither mark nor page"),
    pytest.param("cannot deliver", ["/x/start", "/x/fail"], True, id="one that could not deliver failed"),
]


@pytest.mark.parametrize(("how", "told", "marked"), ROWS)
def test_a_pass(sink: HttpSink, how: str, told: list[str], marked: bool) -> None:
    world = running(30)
    page = Pages(world)
    sweep = sweep_of(world, ping=f"{sink.url}/x", page=page)
    if how == "blind":
        world.store.refuse("any", UnreachableError("503"))
    if how == "cannot deliver":
        world.run("run-0000").error()
        world.channel.fault = down
    report = sweep.run()
    assert (report.blind is not None) is (how == "blind"), report
    assert report.failed == (how == "cannot deliver")
    # The beginning is told from the side.
    until(lambda: len(sink.requests) >= len(told))
    assert [request.path for request in sink.requests] == told
    assert (SWEEP_MARK in world.store.held) is marked
    assert len(page.asked) == marked


def test_the_beginning_of_a_pass_is_told_when_the_store_has_answered_not_when_all_is_listed(sink: HttpSink) -> None:
    world = World(store=PagedStore(20))
    for number in range(30):
        world.run(f"run-{number:04}").both(1)
    pages = 0

    def second_page_waits(operation: str, _key: str) -> None:
        nonlocal pages
        pages += operation == "list"
        if operation == "list" and pages == 2:
            until(lambda: sink.requests)

    world.store.before = second_page_waits
    assert sweep_of(world, ping=f"{sink.url}/x").run().statuses == {"RUNNING": 30}
    assert sink.requests[0].path == "/x/start"


def test_the_progress_is_told_while_looks_go_on() -> None:
    told: list[tuple[int, int]] = []
    sweep_of(running(3)).run(progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (3, 3)
    assert told == sorted(told)


TIMES = [
    pytest.param(3600.0, (True, True, False), 6.0, id="of a long time, what the mark and the ping may take"),
    pytest.param(3600.0, (True, True, True), 17.0, id="with a page, what that may take too"),
    pytest.param(3600.0, (False, False, False), 0.0, id="nothing, if nothing follows"),
    pytest.param(8.0, (True, True, False), 2.0, id="of a short time, a quarter"),
    pytest.param(-5.0, (True, True, True), 0.0, id="of a time that is over, nothing"),
]


@pytest.mark.parametrize(("seconds", "follows", "kept_s"), TIMES)
def test_of_the_time_a_part_is_kept_for_what_comes_after(
    seconds: float, follows: tuple[bool, bool, bool], kept_s: float
) -> None:
    deadline = time.monotonic() + seconds
    assert deadline - PassTimes(deadline, *follows).sweep == pytest.approx(kept_s, abs=1.0)


def test_a_sweep_that_hangs_leaves_its_time_to_what_comes_after(sink: HttpSink) -> None:
    world, over = running(2), threading.Event()

    def hangs(operation: str, key: str) -> None:
        if operation == "read" and key.startswith("run-"):
            over.wait()

    world.store.before = hangs
    page = Pages(world)
    sweep = sweep_of(world, ping=f"{sink.url}/x", page=page)

    def leaves_time() -> bool:
        """A pass; a busy machine may stand still for all the time that one leaves."""
        deadline = time.monotonic() + 3
        page.asked.clear()
        sweep.run(deadline=deadline)
        return SWEEP_MARK in world.store.held and [deadline - 2 < by <= deadline for _, by, _ in page.asked] == [True]

    try:
        until(leaves_time)
    finally:
        over.set()


def test_neither_the_mark_nor_the_ping_can_spoil_a_pass(sink: HttpSink) -> None:
    sink.otherwise = Answer(500)
    world = running(1)
    world.store.refuse("write", StoreError("the disk is full"), under=SWEEP_MARK)
    report = sweep_of(world, ping=f"{sink.url}/x").run()
    assert report.statuses == {"RUNNING": 1}
    assert any("the disk is full" in note for note in report.notes)


def test_what_the_mark_cost_is_in_the_report() -> None:
    world = running(1)
    marked = sweep_of(world)
    report = marked.run()
    assert report.requests == _asked_of(world)
    world.after(60)
    world.beat_all()
    world.store.calls.clear()
    report = marked.run()
    assert report.requests == _asked_of(world)
    assert ("write", SWEEP_MARK) in world.store.calls
    assert ("read", SWEEP_MARK) not in world.store.calls, "a process remembers its passes"


def _asked_of(world: World) -> dict[str, int]:
    kinds = {"list": "LIST", "read": "GET", "write": "PUT", "delete": "DELETE"}
    operations = [operation for operation, _ in world.store.calls]
    return {kind: operations.count(operation) for operation, kind in kinds.items()}


def test_a_page_comes_last_and_what_became_of_it_is_in_the_report() -> None:
    world = running(1)
    page = Pages(world)
    made = sweep_of(world, page=page).run()
    [(report, by, marked)] = page.asked
    assert (by, marked, made.notes) == (FOREVER, True, ("a page",))
    assert report.requests["PUT"] > 0


@pytest.mark.parametrize("processes", ["one process", "a process for each pass"])
def test_what_the_page_cost_is_in_the_mark_too(processes: str) -> None:
    world = running(1)
    marked: list[int] = []
    sweep = sweep_of(world, page=Pages(world))
    for _ in range(3):
        made = sweep.run()
        mark = there(read_mark(world.store))
        assert mark.recent[-1].requests == made.requests
        marked = [each.requests["LIST"] for each in mark.recent]
        world.after(60)
        world.beat_all()
        if processes != "one process":
            sweep = sweep_of(world, page=Pages(world))
    assert [listed >= 8 for listed in marked] == [True] * 3


def test_what_costs_less_than_a_mark_is_told_by_the_next() -> None:
    world = running(1)
    sweep = sweep_of(world, page=Pages(world, {"GET": 1}))
    made, told = [], []
    for _ in range(3):
        made.append(sweep.run().requests["GET"])
        mark = there(read_mark(world.store))
        told.append([each.requests["GET"] for each in mark.recent])
        world.after(60)
        world.beat_all()
    first, second, third = made
    assert told == [[first - 1], [first, second - 1], [first, second, third - 1]]
    assert [key for operation, key in world.store.calls if operation == "write"].count(SWEEP_MARK) == 3


def test_a_mark_that_cannot_be_written_again_is_no_harm() -> None:
    world = running(1)
    written = []

    def once(what: str, key: str) -> None:
        written.append((what, key))
        if written.count(("write", SWEEP_MARK)) == 2:
            raise StoreError("full")

    world.store.before = once
    made = sweep_of(world, page=Pages(world)).run()
    assert written.count(("write", SWEEP_MARK)) == 2
    assert made.notes == ("a page",)


EXITS: list[tuple[str, PassReport, int]] = [
    ("no run at all is fine", PassReport(START), 0),
    ("a run that timed out", PassReport(START, statuses={"RUNNING": 3, "TIMED_OUT": 1}), 2),
    ("one that a person ended", PassReport(START, statuses={"CANCELLED": 1, "PREEMPTED": 1}), 2),
    ("one that left early with a checkpoint", PassReport(START, statuses={"RUNNING": 3, "PREEMPTED": 1}), 1),
    ("a run that nobody could read outranks a warning", PassReport(
        START, statuses={"RUNNING (WARNING)": 1}, unreadable_count=1), 3),
    ("a success whose loss is no number", PassReport(
        START, statuses={"SUCCEEDED": 1},
        lines=(RunLine("a", Status.SUCCEEDED, "done", conditions=("loss_nan",)),)), 1),
]  # fmt: skip


@pytest.mark.parametrize(("report", "status"), labelled(EXITS))
def test_its_exit_status_is_that_of_the_worst_run(report: PassReport, status: int) -> None:
    assert report.exit_status == status
