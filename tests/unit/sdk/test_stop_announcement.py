"""Rank 0 announces the call at which all ranks stop where torch.distributed does not connect them."""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.times import format_time
from lastbeat.training.sdk.agreement import ALONE_S, DELIVERY_S, PATIENCE_S, POLL_S, StopAnnouncement
from lastbeat.training.sdk.first_error import rank_zero_state
from lastbeat.training.sdk.run import Run
from support.memory import MemoryStore

WHY = "received signal 15 (SIGTERM)"


class Clock:
    """Turned by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Process:
    """One rank: training's thread makes calls, and the beat thread writes or reads metadata.json."""

    number: int
    world: int
    clock: Clock
    store: MemoryStore
    stopped_at: int | None = None
    run: Run = field(init=False)
    own: StopAnnouncement = field(init=False)
    began: datetime = field(init=False)
    """By the store's clock."""

    def __post_init__(self) -> None:
        self.run = Run("run-1", None)
        self.run.world, self.run.leads = self.world, self.number == 0
        self.own = StopAnnouncement(self.run, self.clock)
        self.began = self.store.clock()

    def asked(self, *, ends_soon: bool = True) -> None:
        self.run.ask_to_stop(WHY, "asked", ends_soon=ends_soon)

    def call(self) -> None:
        if self.stopped_at is None and self.own.ask(here=self.run.stop_wanted is not None):
            self.stopped_at = self.own.calls

    def beat(self, **more: object) -> None:
        if self.number == 0:
            began = {"attempt": 1, "start_time": format_time(self.began)}
            document = {**began, "begun": True, "status": "running", **self.own.fields(), **more}
            self.store.put_text("run-1/metadata.json", json.dumps(document))
        else:
            self.own.follow(rank_zero_state(self.store, "run-1", self.began))


class World:
    """Ranks that train together."""

    def __init__(self, ranks: int = 3) -> None:
        self.clock, self.store = Clock(), MemoryStore()
        self.ranks = [Process(number, ranks, self.clock, self.store) for number in range(ranks)]

    def trains(self, seconds: float, *, step_s: float = 0.5, beats: bool = True) -> None:
        """All ranks make one call a step; rank 0 beats after each, and the others read every :data:`POLL_S`."""
        until, poll = self.clock.now + seconds, self.clock.now
        while self.clock.now < until:
            self.clock.now += step_s
            for rank in self.ranks:
                rank.call()
            if beats:
                self.ranks[0].beat()
            if beats and self.clock.now >= poll + POLL_S:
                poll = self.clock.now
                for rank in self.ranks[1:]:
                    rank.beat()


def test_ranks_that_a_scheduler_signals_at_once_wait_for_the_word_of_rank_0() -> None:
    world = World()
    world.trains(20)
    for rank in world.ranks:
        rank.asked()
    world.trains(60)
    assert len({rank.stopped_at for rank in world.ranks}) == 1


@given(step_s=st.floats(0.01, 8.0), before_s=st.floats(0.0, 60.0))
def test_whatever_the_pace_and_the_moment_no_rank_stops_at_another_call(step_s: float, before_s: float) -> None:
    world = World()
    world.trains(before_s, step_s=step_s)
    world.ranks[0].asked()
    world.trains(PATIENCE_S + 2 * (POLL_S + DELIVERY_S) + 6 * step_s, step_s=step_s)
    assert len({rank.stopped_at for rank in world.ranks}) == 1
    assert world.ranks[0].stopped_at is not None
    assert [rank.own.why for rank in world.ranks] == [WHY, *[f"rank 0 was told to stop: {WHY}"] * 2]


def test_the_call_stays_what_it_was_whatever_happens_after() -> None:
    world = World()
    world.trains(20)
    world.ranks[0].asked()
    world.ranks[0].call()
    chosen = world.ranks[0].own.fields()
    world.ranks[0].run.ask_to_stop("something later", "asked again")
    world.trains(3, beats=False)
    assert world.ranks[0].own.fields() == chosen


def test_a_rank_that_reads_too_late_stops_at_once_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    world = World(ranks=2)
    world.trains(20)
    late = world.ranks[1]
    world.ranks[0].asked()
    world.trains(60, beats=False)
    world.ranks[0].beat()
    late.beat()
    late.call()
    assert late.stopped_at == late.own.calls
    assert "this rank reads that only now, and stops" in caplog.text


ALONE = [
    pytest.param(True, 1, ALONE_S - 1, False, id="a rank that will be ended soon waits for rank 0"),
    pytest.param(True, 1, ALONE_S + 1, True, id="and stops alone where rank 0 says nothing"),
    pytest.param(False, 1, 10 * ALONE_S, False, id="after a person's request it trains on"),
    pytest.param(False, 0, 3 * PATIENCE_S, True, id="rank 0 itself stops in either case"),
]


@pytest.mark.parametrize(("ends_soon", "number", "seconds", "stops"), ALONE)
def test_where_no_word_arrives(ends_soon: bool, number: int, seconds: float, stops: bool) -> None:
    world = World()
    world.trains(20)
    world.ranks[number].asked(ends_soon=ends_soon)
    world.trains(seconds, beats=False)
    assert (world.ranks[number].stopped_at is not None) is stops


def test_a_rank_that_reads_only_after_rank_0_has_stopped_stops_as_well() -> None:
    world = World(ranks=2)
    world.trains(20)
    world.ranks[0].asked()
    world.trains(60, beats=False)
    world.ranks[0].beat(status="preempted")
    world.ranks[1].beat()
    world.ranks[1].call()
    assert world.ranks[1].stopped_at == world.ranks[1].own.calls


NO_WORD = [
    pytest.param({"begun": False, "stop_call": 1}, id="rank 0 has not begun this attempt"),
    pytest.param({"status": "completed", "stop_call": 1}, id="rank 0 came to its end"),
    pytest.param({"stop_call": "soon"}, id="no number"),
    pytest.param({"stop_call": 1.5}, id="no whole number"),
]


@pytest.mark.parametrize("document", NO_WORD)
def test_what_is_no_announcement_stops_no_rank(document: dict[str, object]) -> None:
    world = World(ranks=2)
    world.ranks[0].beat(**document)
    world.ranks[1].beat()
    world.ranks[1].call()
    assert world.ranks[1].stopped_at is None


LAST_ATTEMPT = [
    pytest.param(timedelta(seconds=-1), {}, False, id="written before this rank started"),
    pytest.param(timedelta(seconds=1), {"start_time": "2020-01-01T00:00:00Z"}, False, id="a rank 0 that still saves"),
    pytest.param(timedelta(seconds=1), {"start_time": None}, False, id="a rank 0 that names no start"),
    pytest.param(timedelta(seconds=1), {}, True, id="this attempt's own is heard"),
    pytest.param(
        timedelta(seconds=1), {"start_time": "2020-01-01T00:00:00Z", "clock_offset_s": 3e8}, True,
        id="also where the clock of rank 0 is years behind the store's",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("after", "document", "heard"), LAST_ATTEMPT)
def test_only_this_attempts_word_stops_a_rank(after: timedelta, document: dict[str, object], heard: bool) -> None:
    world = World(ranks=2)
    world.ranks[0].beat(**{"stop_call": 1, "stop_reason": "it was preempted", **document})
    state = rank_zero_state(world.store, "run-1", world.ranks[1].began - after)
    world.ranks[1].own.follow(state)
    assert (world.ranks[1].own.at is not None) is heard


def test_many_ranks_read_less_often() -> None:
    few, many = Run("run-1", None), Run("run-1", None)
    few.world, many.world = 8, 100_000
    assert StopAnnouncement(few).poll_s == POLL_S
    assert POLL_S < StopAnnouncement(many).poll_s < ALONE_S
