"""A pass with its mark and its ping: what comes after what, and what a blind one leaves out."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from lastbeat.fleet.mark import Mark
from lastbeat.fleet.passes import Passes, Progress
from lastbeat.fleet.ping import Ping
from lastbeat.model.fleet import FleetPolicy, PassReport
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
