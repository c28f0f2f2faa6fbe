"""Single runs for all browsers: one look an interval however many look, and no more looks than a listing has pages."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from lastbeat.model.as_json import Json
from lastbeat.model.figures import Figures
from lastbeat.model.state import ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import Row, RunView
from lastbeat.stores.port import UnreachableError
from lastbeat.views.curves import CurvesAsked
from lastbeat.views.served.app import TooManyOpenError
from lastbeat.views.served.runs import RunLooks
from support.memory import START
from support.waiting import LIMIT_S


@dataclass
class World:
    """What the runs are, how many pages a listing of the fleet has, and the time."""

    now: float = 100.0
    looks: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    fault: Exception | None = None
    missing: bool = False
    during: Callable[[], Any] = lambda: None
    pages: int = 1

    def looking(self, *, free: bool = True) -> RunLooks:
        return RunLooks(
            self._make,
            self._document,
            interval_s=5,
            reads_an_interval=None if free else lambda: self.pages,
            steady=lambda: self.now,
        )

    def _make(self, run_id: str) -> "_Looking":
        self.made.append(run_id)
        return _Looking(self, run_id)

    @staticmethod
    def _document(view: RunView) -> dict[str, object]:
        return {"step": view.row.step}


@dataclass
class _Looking:
    world: World
    run_id: str

    def look(self, *, log_lines: int = 40) -> RunView | None:
        self.world.during()
        self.world.looks.append(self.run_id)
        if self.world.fault is not None:
            raise self.world.fault
        row = Row(self.run_id, ShownState(Status.RUNNING), figures=Figures(len(self.world.looks)))
        return None if self.world.missing else RunView(row, START, "/runs")

    def curves(self, asked: CurvesAsked) -> Json:
        return {"by": asked.by, "of": self.run_id}


@pytest.fixture
def world() -> World:
    return World()


def step(looks: RunLooks, run_id: str = "a") -> bytes | None:
    body = looks.document(run_id)
    return body.plain if body is not None else None


def test_however_many_browsers_look_at_a_run_it_is_read_once_an_interval(world: World) -> None:
    looks = world.looking()
    began = threading.Barrier(12)

    def browse() -> bytes | None:
        began.wait()
        return step(looks)

    with ThreadPoolExecutor(12) as pool:
        got = {each.result() for each in [pool.submit(browse) for _ in range(12)]}
    assert got == {b'{"step":1}'}
    world.now += 4.9
    assert step(looks) == b'{"step":1}'
    world.now += 0.2
    assert step(looks) == b'{"step":2}'
    assert world.looks == ["a", "a"]


def test_more_than_a_few_runs_at_once_have_to_wait_and_are_told_so(world: World) -> None:
    looks = world.looking()
    inside, leave = threading.Semaphore(0), threading.Event()
    world.during = lambda: (inside.release(), leave.wait(30))
    with ThreadPoolExecutor(4) as pool:
        reading = [pool.submit(step, looks, name) for name in "abcd"]
        for _ in reading:
            assert inside.acquire(timeout=LIMIT_S)
        with pytest.raises(TooManyOpenError):
            step(looks, "e")
        leave.set()
        assert all(each.result() for each in reading)
    assert step(looks, "e") == b'{"step":5}'


def test_a_run_that_cannot_be_seen_is_tried_again_once_an_interval(world: World) -> None:
    looks = world.looking()
    world.fault = UnreachableError("no answer")
    for _ in range(5):
        with pytest.raises(UnreachableError, match="no answer"):
            step(looks)
    assert len(world.looks) == 1
    world.fault = None
    world.now += 6
    assert step(looks) == b'{"step":2}'


def test_a_run_that_is_not_there_may_come_and_one_that_is_may_go(world: World) -> None:
    looks = world.looking()
    world.missing = True
    assert step(looks) is None
    world.now, world.missing = world.now + 6, False
    assert step(looks) is not None
    world.now, world.missing = world.now + 6, True
    assert step(looks) is None


def test_only_so_many_runs_are_remembered_and_those_that_were_looked_at_last(world: World) -> None:
    looks = world.looking()
    for number in range(70):
        step(looks, f"run-{number}")
        step(looks, "kept")
        world.now += 1
    assert len(world.made) == 71
    step(looks, "run-69")
    assert len(world.made) == 71
    step(looks, "run-0")
    assert len(world.made) == 72


def test_more_runs_than_can_be_remembered_are_not_opened_anew_each_time(world: World) -> None:
    looks = world.looking(free=False)
    told: list[bool] = []
    for _ in range(20):
        world.now += 5
        looks.turn()
        told = [_answered(looks, f"run-{number}") for number in range(90)]
    # Who has a place keeps it, and is read again for what is given to runs; the others are told to wait.
    assert told.count(True) == 64
    assert len(world.made) == 64
    assert len(world.looks) <= 64 + 20


def _answered(looks: RunLooks, run_id: str) -> bool:
    try:
        return step(looks, run_id) is not None
    except TooManyOpenError:
        return False


def test_a_run_whose_store_hangs_says_so_and_keeps_nobody_else_waiting(world: World) -> None:
    looks = world.looking()
    step(looks, "known")
    world.now += 6
    inside, leave = threading.Semaphore(0), threading.Event()
    world.during = lambda: (inside.release(), leave.wait(30))
    hang = ["known", "b", "c", "d"]
    with ThreadPoolExecutor(len(hang)) as pool:
        reading = [pool.submit(step, looks, name) for name in hang]
        for _ in hang:
            assert inside.acquire(timeout=LIMIT_S)
        assert step(looks, "known") == b'{"step":1}'
        world.now += 60
        world.during = lambda: None
        assert step(looks, "other") == b'{"step":2}'
        for name in hang:
            with pytest.raises(UnreachableError, match="has not answered"):
                step(looks, name)
        leave.set()
        for each in reading:
            each.result()
    assert step(looks, "known") is not None


def test_where_requests_cost_nothing_the_fleet_always_has_its_turn(world: World) -> None:
    looks = world.looking()
    step(looks)
    assert [looks.turn() for _ in range(4)] == [True] * 4


def test_while_people_look_at_runs_the_fleet_gives_them_every_other_interval(world: World) -> None:
    looks = world.looking(free=False)
    assert [looks.turn() for _ in range(3)] == [True] * 3
    step(looks)
    assert [looks.turn() for _ in range(4)] == [False, True, False, True]
    world.now += 60
    assert [looks.turn() for _ in range(3)] == [True] * 3


def test_an_interval_for_runs_reads_no_more_of_them_than_a_listing_has_pages(world: World) -> None:
    world.pages, intervals = 3, 200
    looks = world.looking(free=False)
    for number in range(10):
        step(looks, f"run-{number}")
    opened = len(world.looks)
    rounds = 0
    for _ in range(intervals):
        world.now += 5
        rounds += looks.turn()
        for number in range(10):
            step(looks, f"run-{number}")
    assert rounds == intervals // 2
    assert len(world.looks) - opened == (intervals - rounds) * world.pages


def test_where_there_is_not_enough_for_everybody_it_goes_round(world: World) -> None:
    looks = world.looking(free=False)
    for _ in range(60):
        world.now += 5
        looks.turn()
        # The first of them asks first each time.
        for name in "abc":
            step(looks, name)
    counts = [world.looks.count(name) for name in "abc"]
    assert min(counts) > 5
    assert max(counts) - min(counts) <= 1


def test_a_run_whose_read_hangs_takes_no_other_runs_turn(world: World) -> None:
    world.pages = 1
    looks = world.looking(free=False)
    step(looks, "hangs")
    step(looks, "well")
    inside, leave = threading.Event(), threading.Event()
    world.during = lambda: (inside.set(), leave.wait(30))
    with ThreadPoolExecutor(1) as pool:
        while looks.turn():
            world.now += 6
        reading = pool.submit(step, looks, "hangs")
        assert inside.wait(LIMIT_S)
        world.during = lambda: None
        seen = set()
        for _ in range(20):
            world.now += 6
            looks.turn()
            with suppress(UnreachableError):
                step(looks, "hangs")
            seen.add(step(looks, "well"))
        leave.set()
        reading.result()
    assert len(seen) == 11, "what was known, and what each interval for runs brought"


def test_curves_cost_no_look_of_their_own(world: World) -> None:
    looks = world.looking()
    step(looks, "a")
    curves, compared = looks.curves("a", CurvesAsked("at")), looks.comparison(["a", "b"], CurvesAsked())
    assert curves is not None
    assert json.loads(curves.plain) == {"by": "at", "of": "a"}
    told = json.loads(compared.plain)
    assert ([run["run_id"] for run in told["runs"]], list(told["tables"])) == (["a", "b"], ["a", "b"])
    assert world.looks == ["a", "b"]


def test_a_run_that_is_gone_has_no_curves_and_is_not_compared(world: World) -> None:
    world.missing = True
    looks = world.looking()
    assert looks.curves("a", CurvesAsked()) is None
    assert json.loads(looks.comparison(["a"], CurvesAsked()).plain)["runs"] == []
