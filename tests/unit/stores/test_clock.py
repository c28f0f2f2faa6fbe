"""The store's time: measured rarely, carried forward by a clock that nobody sets."""

import logging
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.stores.clock import MEASURE_EVERY_S, TRY_AGAIN_S, StoreClock
from lastbeat.stores.endpoint import ask_endpoint, goes_through_proxy
from support.row_by_row import labelled

BEGIN = 1_800_000_000.0


@dataclass
class World:
    """``true`` is the store's time; our wall clock is ``wall_off`` seconds from it and can be set."""

    true: float = BEGIN
    wall_off: float = 0.0
    uptime: float = 50.0
    reachable: bool = True
    asked: int = 0
    slow: tuple[tuple[float, float], ...] = ()
    """How long each request takes that is still to come, before and after the store writes down its time."""

    def measure(self) -> float | None:
        self.asked += 1
        (before, after), *rest = self.slow or ((0.0, 0.0),)
        self.slow = tuple(rest)
        self.pass_time(before)
        told = float(int(self.true)) + 0.5
        self.pass_time(after)
        # Nobody knows at what moment of the request it was written down.
        return told + (before + after) / 2 if self.reachable else None

    def clock(self) -> StoreClock:
        return StoreClock(self.measure, "s3://b", local=lambda: self.true + self.wall_off, steady=lambda: self.uptime)

    def pass_time(self, seconds: float) -> None:
        self.true += seconds
        self.uptime += seconds


@pytest.mark.parametrize("wall_off", [-3600.0, 0.0])
@pytest.mark.parametrize("slow", [((6.0, 0.0),), ((0.0, 6.0),), ((0.0, 0.0), (6.0, 0.0)), ((0.0, 0.0), (0.0, 6.0))])
def test_a_slow_answer_is_no_other_time(
    slow: tuple[tuple[float, float], ...], wall_off: float, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(wall_off=wall_off, slow=slow)
    clock = world.clock()
    assert abs(clock().timestamp() - world.true) < 2.6
    assert [r.message for r in caplog.records if r.levelno >= logging.WARNING] == []


def test_it_asks_once_an_hour() -> None:
    world = World()
    clock = world.clock()
    for _ in range(100):
        clock()
        world.pass_time(MEASURE_EVERY_S / 100)
    assert world.asked == 1
    clock()
    assert world.asked == 2


def test_a_silent_store_leaves_our_own_clock_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World(wall_off=600.0, reachable=False)
    clock = world.clock()
    clock.answered()
    for _ in range(3):
        assert clock().timestamp() == pytest.approx(world.true + 600)
        world.pass_time(TRY_AGAIN_S)
    assert world.asked == 3
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    world.reachable = True
    assert clock().timestamp() == pytest.approx(world.true, abs=1)


def test_a_store_that_has_answered_nothing_is_not_blamed_for_its_clock(caplog: pytest.LogCaptureFixture) -> None:
    world = World(reachable=False)
    clock = world.clock()
    clock()
    world.pass_time(TRY_AGAIN_S)
    clock()
    assert caplog.records == []
    clock.answered()
    clock.answered()
    assert [r.getMessage() for r in caplog.records] == [
        "s3://b does not tell its time; ages are measured by this machine's clock"
    ]


@given(
    wall_off=st.floats(-1e6, 1e6),
    steps=st.lists(st.tuples(st.floats(0, 5000), st.booleans(), st.floats(-1e5, 1e5)), max_size=20),
)
def test_it_stays_near_the_stores_time_whatever_happens_to_ours(
    wall_off: float, steps: list[tuple[float, bool, float]]
) -> None:
    world = World(wall_off=wall_off)
    clock = world.clock()
    clock()
    for seconds, reachable, set_by in steps:
        world.pass_time(seconds)
        world.reachable = reachable
        world.wall_off += set_by
        assert abs(clock().timestamp() - world.true) < 2.6


@pytest.mark.parametrize(("env", "expected"), labelled([
    ("no proxy", {}, False),
    ("a proxy for the scheme", {"https_proxy": "http://proxy:3128"}, True),
    ("a proxy for everything", {"ALL_PROXY": "socks5://proxy"}, True),
    ("a proxy for another scheme", {"http_proxy": "http://proxy:3128"}, False),
    ("a domain without", {"https_proxy": "p", "no_proxy": "a.b, example.com"}, False),
    ("nothing through it", {"https_proxy": "p", "NO_PROXY": "*"}, False),
    ("the end of a name is no domain", {"https_proxy": "p", "no_proxy": "ample.com"}, True),
]))  # fmt: skip
def test_a_proxy_is_noticed(env: dict[str, str], expected: bool) -> None:
    assert goes_through_proxy("https://s3.example.com:9000", env) is expected


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", "https://127.0.0.1:1", "http://127.0.0.1:notaport"])
def test_an_endpoint_where_nobody_is_answers_nothing(endpoint: str) -> None:
    assert ask_endpoint(endpoint, "bucket", timeout_s=0.5) is None
