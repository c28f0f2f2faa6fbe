"""A pass with its mark and its ping: what comes after what, and what a blind one leaves out."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest

from lastbeat.fleet.mark import Mark, read_mark
from lastbeat.fleet.passes import Passes, Progress
from lastbeat.fleet.ping import Ping
from lastbeat.model.fleet import PassReport
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.runid import SWEEP_MARK
from lastbeat.stores.port import StoreError
from support.http_sink import Answer, HttpSink, http_sink
from support.memory import START, MemoryStore

LIMIT_S = 30.0


@dataclass
class Sweeping:
    """Makes a pass whose report is known before."""

    report: PassReport
    sees: bool = True
    asked: list[tuple[float | None, Progress | None]] = field(default_factory=list)

    def run(
        self,
        *,
        deadline: float | None = None,
        progress: Progress | None = None,
        on_sight: Callable[[], None] | None = None,
    ) -> PassReport:
        self.asked.append((deadline, progress))
        if self.sees and on_sight is not None:
            on_sight()
        return self.report


@pytest.fixture
def sink() -> Iterator[HttpSink]:
    with http_sink() as sink:
        yield sink


GOOD = PassReport(at=START, statuses={"RUNNING": 1}, requests={"LIST": 1})
BLIND = PassReport(at=START, blind="no answer")

ROWS = [
    pytest.param(GOOD, True, ["/x/start", "/x"], True, id="a pass that could see is pinged and marked"),
    pytest.param(BLIND, False, [], False, id="of a blind one nobody hears, and the old mark stays"),
    pytest.param(BLIND, True, ["/x/start"], False, id="one that turned blind began, and never ended well"),
    pytest.param(
        PassReport(at=START, failed=1), True, ["/x/start", "/x/fail"], True, id="one that could not deliver failed"
    ),
]


@pytest.mark.parametrize(("report", "sees", "told", "marked"), ROWS)
def test_a_pass(sink: HttpSink, report: PassReport, sees: bool, told: list[str], marked: bool) -> None:
    store = MemoryStore()
    passes = Passes(Sweeping(report, sees), Mark(store, FleetPolicy()), Ping(f"{sink.url}/x"))
    made = passes.make()
    assert (made.blind, made.failed) == (report.blind, report.failed)
    until = time.monotonic() + LIMIT_S
    while len(sink.requests) < len(told) and time.monotonic() < until:
        time.sleep(0.01)  # The beginning is told from the side.
    assert [request.path for request in sink.requests] == told
    assert (SWEEP_MARK in store.held) is marked


def progress(_done: int, _of: int) -> None:
    """Asked of nobody here."""


def test_the_progress_reaches_the_sweep_and_no_deadline_is_none() -> None:
    sweep = Sweeping(GOOD)
    Passes(sweep, Mark(MemoryStore(), FleetPolicy())).make(progress=progress)
    assert sweep.asked == [(None, progress)]


@pytest.mark.parametrize(
    ("seconds", "kept_s"),
    [
        pytest.param(3600.0, 6.0, id="of a long time, what the mark and the ping may take"),
        pytest.param(8.0, 2.0, id="of a short time, a quarter"),
        pytest.param(-5.0, 0.0, id="of a time that is over, nothing"),
    ],
)
def test_of_the_time_a_part_is_kept_for_what_comes_after(sink: HttpSink, seconds: float, kept_s: float) -> None:
    sweep = Sweeping(GOOD)
    deadline = time.monotonic() + seconds
    Passes(sweep, Mark(MemoryStore(), FleetPolicy()), Ping(f"{sink.url}/x")).make(deadline=deadline)
    ((until, _),) = sweep.asked
    assert until is not None
    assert deadline - until == pytest.approx(kept_s, abs=1.0)


def test_neither_the_mark_nor_the_ping_can_spoil_a_pass(sink: HttpSink) -> None:
    def fail(_operation: str, _key: str) -> None:
        raise StoreError("the disk is full")

    sink.otherwise = Answer(500)
    store = MemoryStore()
    store.before = fail
    report = Passes(Sweeping(GOOD), Mark(store, FleetPolicy()), Ping(f"{sink.url}/x")).make()
    assert report.statuses == GOOD.statuses
    assert "the disk is full" in report.notes[0]


def test_what_the_mark_cost_is_in_the_report() -> None:
    passes = Passes(Sweeping(GOOD), Mark(MemoryStore(), FleetPolicy()))
    assert passes.make().requests == {"LIST": 1, "GET": 1, "PUT": 1, "DELETE": 0}
    assert passes.make().requests == {"LIST": 1, "GET": 0, "PUT": 1, "DELETE": 0}


@dataclass
class Paging:
    """Notes what a page was asked for, and what was there by then."""

    store: MemoryStore
    cost: Mapping[str, int] = field(default_factory=lambda: {"LIST": 7})
    asked: list[tuple[PassReport, float, bool]] = field(default_factory=list)

    def write(self, report: PassReport, until: float) -> PassReport:
        self.asked.append((report, until, SWEEP_MARK in self.store.held))
        requests = {kind: count + self.cost.get(kind, 0) for kind, count in report.requests.items()}
        return replace(report, notes=("a page",), requests=requests)


def test_a_page_comes_last_and_what_became_of_it_is_in_the_report() -> None:
    store = MemoryStore()
    page = Paging(store)
    made = Passes(Sweeping(GOOD), Mark(store, FleetPolicy()), page=page).make()
    [(report, until, marked)] = page.asked
    assert (until, marked, made.notes) == (float("inf"), True, ("a page",))
    assert report.requests["PUT"] == 1


@pytest.mark.parametrize("processes", ["one process", "a process for each pass"])
def test_what_the_page_cost_is_in_the_mark_too(processes: str) -> None:
    store = MemoryStore()
    marked = []
    passes = Passes(Sweeping(GOOD), Mark(store, FleetPolicy()), page=Paging(store))
    for _ in range(3):
        made = passes.make()
        mark = read_mark(store)
        assert mark is not None
        assert mark.recent[-1].requests == made.requests
        marked = [each.requests["LIST"] for each in mark.recent]
        if processes != "one process":
            passes = Passes(Sweeping(GOOD), Mark(store, FleetPolicy()), page=Paging(store))
    assert marked == [8, 8, 8]


def test_what_costs_less_than_a_mark_is_told_by_the_next() -> None:
    store = MemoryStore()
    passes = Passes(Sweeping(GOOD), Mark(store, FleetPolicy()), page=Paging(store, {"GET": 1}))
    gets = []
    for _ in range(3):
        assert passes.make().requests["PUT"] == 1
        mark = read_mark(store)
        assert mark is not None
        gets.append([each.requests["GET"] for each in mark.recent])
    assert gets == [[1], [2, 0], [2, 1, 0]]


def test_a_mark_that_cannot_be_written_again_is_no_harm() -> None:
    store = MemoryStore()
    written = []

    def once(what: str, key: str) -> None:
        written.append((what, key))
        if written.count(("write", SWEEP_MARK)) == 2:
            raise StoreError("full")

    store.before = once
    made = Passes(Sweeping(GOOD), Mark(store, FleetPolicy()), page=Paging(store)).make()
    assert made.notes == ("a page",)


def test_a_blind_pass_leaves_the_page_alone() -> None:
    store = MemoryStore()
    page = Paging(store)
    Passes(Sweeping(BLIND), Mark(store, FleetPolicy()), page=page).make()
    assert page.asked == []


def test_a_page_is_given_a_part_of_the_time_and_never_more_than_there_is() -> None:
    store = MemoryStore()
    for left_s in (60.0, 4.0, -5.0):
        page, sweep = Paging(store), Sweeping(GOOD)
        deadline = time.monotonic() + left_s
        Passes(sweep, Mark(store, FleetPolicy()), page=page).make(deadline=deadline)
        [(until, _)] = sweep.asked
        assert until is not None
        assert deadline - 2 <= page.asked[0][1] <= deadline
        assert deadline - max(0.0, left_s) / 4 - 1 <= until <= deadline
        assert until < deadline or left_s < 0
