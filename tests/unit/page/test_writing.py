"""The page that passes leave: when it is written, what is in it, what it costs, and what becomes of one that cannot."""

import base64
import gzip
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from lastbeat.fleet.all_records import MOST
from lastbeat.model.fleet import PassReport
from lastbeat.model.record import Record, Transition
from lastbeat.model.state import ShownState, State
from lastbeat.model.status import Status
from lastbeat.model.view import FleetView, Row, RunView, StoreOutage
from lastbeat.stores.counting import CountingStore, Tally
from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.views.fleet_losses import LossReader
from lastbeat.views.page.writing import KEY, PageOfFleet
from lastbeat.watch.record.codec import encode
from support.memory import START, MemoryStore
from support.there import there

EVERY_S = 300.0
REPORT = PassReport(START, requests={"LIST": 2, "GET": 1, "PUT": 1, "DELETE": 0}, notes=("before",))


@dataclass
class World:
    """A fleet that is as the test says, in a store that counts."""

    store: MemoryStore = field(default_factory=MemoryStore)
    tally: Tally = field(default_factory=Tally)
    rows: list[Row] = field(default_factory=list)
    fault: StoreOutage | None = None
    broken: dict[str, Exception] = field(default_factory=dict)
    looks: list[str] = field(default_factory=list)
    opened: int = 0
    tells_losses: bool = False
    most_losses: int = MOST
    slowly: Callable[[], None] = lambda: None

    def writer(self) -> PageOfFleet:
        """What one process has; another one knows nothing of it."""
        through = CountingStore(self.store, self.tally)
        return PageOfFleet(
            through, self, lambda run_id: _Looking(self, run_id), EVERY_S, stale_s=600, tally=self.tally,
            losses=LossReader(through, "/runs", most=self.most_losses) if self.tells_losses else None,
        )  # fmt: skip

    def open(self, until: float = float("inf"), on_progress: Callable[[int, int], None] | None = None) -> FleetView:
        self.opened += 1
        self.tally.add("LIST")
        self.slowly()
        at = None if self.fault is not None else self.store.now
        return FleetView("/runs", at, tuple(self.rows), fault=self.fault)

    @property
    def data(self) -> dict[str, Any]:
        found = there(re.search(rb'id="data">([A-Za-z0-9+/=]+)</script>', self.store.held[KEY].body))
        read: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
        return read


@dataclass
class _Looking:
    world: World
    run_id: str

    def look(self, *, log_lines: int = 40) -> RunView | None:
        self.world.looks.append(self.run_id)
        if self.run_id in self.world.broken:
            raise self.world.broken[self.run_id]
        row = next((row for row in self.world.rows if row.run_id == self.run_id), None)
        return None if row is None else RunView(row, self.world.store.now, "/runs")


@pytest.fixture
def world() -> World:
    return World(rows=[row("failed", Status.FAILED), row("lives", Status.RUNNING)])


def row(run_id: str, status: Status) -> Row:
    return Row(run_id, ShownState(status), since=START - timedelta(hours=1))


def write(page: PageOfFleet, *, within_s: float = 60.0) -> PassReport:
    return page.write(REPORT, time.monotonic() + within_s)


def test_it_has_every_run_and_their_details_in_the_order_of_need(world: World) -> None:
    assert write(world.writer()).notes == REPORT.notes
    assert [each["run_id"] for each in world.data["fleet"]["runs"]] == ["failed", "lives"]
    assert list(world.data["runs"]) == ["failed", "lives"]
    fleet = world.data["fleet"]
    assert (fleet["live"], fleet["interval_s"], fleet["made_at"]) == (False, EVERY_S, "2026-01-01T12:00:00Z")


def test_what_it_cost_is_in_the_report(world: World) -> None:
    assert write(world.writer()).requests == {"LIST": 3, "GET": 2, "PUT": 2, "DELETE": 0}


@pytest.mark.parametrize(
    ("after_s", "written"),
    [
        pytest.param(0, False, id="at once"),
        pytest.param(EVERY_S - 1, False, id="too early"),
        pytest.param(EVERY_S, True, id="when it is time"),
    ],
)
@pytest.mark.parametrize("restarted", [False, True], ids=["by the same process", "by another process"])
def test_it_is_written_again_only_when_it_is_time(world: World, after_s: float, written: bool, restarted: bool) -> None:
    page = world.writer()
    write(page)
    world.store.pass_time(after_s)
    write(world.writer() if restarted else page)
    assert world.store.held[KEY].modified == (world.store.now if written else START)
    assert world.opened == 1 + written


def test_a_page_from_the_future_does_not_keep_new_ones_away(world: World) -> None:
    world.store.put_text(KEY, "old", modified=START + timedelta(days=400))
    write(world.writer())
    assert world.data["fleet"]["runs"]


def test_a_run_that_did_not_change_is_not_read_again(world: World) -> None:
    page = world.writer()
    write(page)
    world.store.pass_time(EVERY_S)
    write(page)
    assert sorted(world.looks) == ["failed", "lives"]
    world.rows[0] = replace(world.rows[0], pending=1)
    world.store.pass_time(EVERY_S)
    write(page)
    assert sorted(world.looks) == ["failed", "failed", "lives"]


def test_a_run_that_cannot_be_read_has_none(world: World) -> None:
    world.rows = [row("one", Status.FAILED), row("two", Status.FAILED)]
    world.broken = {"one": StoreError("denied")}
    assert write(world.writer()).notes == REPORT.notes
    assert list(world.data["runs"]) == ["two"]
    assert "no details of 1 run " in world.data["fleet"]["notes"][0]


def test_runs_that_there_is_no_time_for_have_none(world: World) -> None:
    world.rows = [row(f"run-{number:03}", Status.FAILED) for number in range(40)]
    world.slowly = lambda: time.sleep(1.2)
    write(world.writer(), within_s=3.0)
    assert len(world.data["fleet"]["runs"]) == 40
    assert len(world.data["runs"]) < 40
    assert f"no details of {40 - len(world.data['runs'])} run" in world.data["fleet"]["notes"][0]


def test_a_fleet_that_cannot_be_seen_leaves_the_old_page(world: World) -> None:
    write(world.writer())
    before = world.store.held[KEY]
    world.store.pass_time(EVERY_S)
    world.fault = StoreOutage("no answer")
    report = write(world.writer())
    assert world.store.held[KEY] == before
    assert "an older one stands: no answer" in report.notes[-1]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(UnreachableError("no answer"), id="a store that does not answer"),
        pytest.param(ValueError("unforeseen"), id="a defect"),
    ],
)
@pytest.mark.parametrize("operation", ["read", "write"])
def test_what_goes_wrong_is_a_note_and_is_not_tried_in_each_pass(
    world: World, fault: Exception, operation: str
) -> None:
    world.store.refuse(operation, fault, key=KEY)
    page = world.writer()
    assert str(fault) in write(page).notes[-1]
    world.store.heal()
    opened = world.opened
    if operation == "write":
        write(page)
        assert world.opened == opened
        world.store.pass_time(EVERY_S)
    write(page)
    assert world.data["fleet"]["runs"]


def test_a_store_that_hangs_does_not_hold_up_the_pass_and_the_page_comes_late(world: World) -> None:
    hangs, leave = threading.Event(), threading.Event()

    def hang(what: str, key: str) -> None:
        if (what, key) == ("write", KEY):
            hangs.set()
            leave.wait(30)

    world.store.before = hang
    page = world.writer()
    assert "not ready in time" in write(page, within_s=2.5).notes[-1]
    assert hangs.is_set()
    assert "not ready in time" in write(page, within_s=0.1).notes[-1]
    assert world.opened == 1
    leave.set()
    assert write(page).notes == REPORT.notes
    assert world.data["fleet"]["runs"]


def costly(world: World, runs: int = 1) -> World:
    """A fleet of which so many runs have failed an hour ago."""
    at = START - timedelta(hours=1)
    for number in range(runs):
        failed = Transition(1, at, None, Status.FAILED, "boom", 1, "oom", fingerprint="aa")
        record = Record(f"run-{number}", State(Status.FAILED), history=(failed,), transitions=1)
        world.store.write(f"run-{number}/_watchdog.json", encode(record))
    return replace(world, tells_losses=True)


def record_reads(world: World) -> int:
    return sum(operation == "read" and key.endswith("_watchdog.json") for operation, key in world.store.calls)


def test_it_says_what_failures_cost_and_reads_no_record_twice(world: World) -> None:
    world = costly(world, runs=3)
    page = world.writer()
    write(page)
    assert [(each["name"], each["failures"]) for each in world.data["causes"]["causes"]] == [("aa", 3)]
    for _ in range(15):
        world.store.pass_time(EVERY_S)
        write(page)
        assert world.data["causes"]["total"]["failures"] == 3
    assert record_reads(world) == 3


def test_a_large_past_is_read_a_part_at_a_time_and_the_page_says_how_much(world: World) -> None:
    world = costly(world, runs=350)
    page, read = world.writer(), []
    for _ in range(2):
        write(page)
        costs = world.data["causes"]
        read.append((costs["total"]["failures"], costs["unread"]))
        world.store.pass_time(EVERY_S)
    assert read == [(300, 50), (350, 0)]


def test_where_what_failures_cost_cannot_be_read_the_page_is_written_without(world: World) -> None:
    world = costly(world)

    world.store.refuse("list", UnreachableError("503"))
    assert write(world.writer()).notes == REPORT.notes
    assert "causes" not in world.data
