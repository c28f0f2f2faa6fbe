"""Ranks agree through the store on the call at which all of them stop: who asks, who answers, who decides, and what
becomes of races, deaths, lost answers and documents of other attempts."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.stop_plan import KEY, StopAnswer, StopPlan, encode_plan, read_answer, read_plan, stop_call
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.run import Run, RunPlace
from lastbeat.training.sdk.store_agreement import ALONE_S, ROLL_CALL_S, TAKE_OVER_S, StoreAgreement, look_s, quick_s
from support.memory import MemoryStore

START = "2026-01-01T12:00:00.000000Z"
WHY = "received signal 15 (SIGTERM)"


def began(store: MemoryStore, attempt: int = 2, start: str = START, **more: object) -> None:
    """Rank 0 has begun an attempt."""
    document = {"attempt": attempt, "start_time": start, "begun": True, "status": "running", **more}
    store.put_text("run-1/metadata.json", json.dumps(document))


class Clock:
    """Turned by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Process:
    """One rank: training's thread and the asking one, each of which moves when it is told to."""

    number: int
    world: int
    store: MemoryStore
    clock: Clock
    every: int = 1
    stopped_at: int | None = None
    run: Run = field(init=False)
    own: StoreAgreement = field(init=False)

    def __post_init__(self) -> None:
        self.run = Run("run-1", None)
        self.own = StoreAgreement(self.run, self.every, self.clock)
        self.place = RunPlace(self.store, Rank(self.number, self.world, host=f"host-{self.number}"), self.clock.now)

    def told(self, *, ends_soon: bool = True) -> None:
        self.run.ask_to_stop(WHY, "told", ends_soon=ends_soon)

    def steps(self, count: int = 1) -> None:
        for _ in range(count):
            if self.stopped_at is None and self.own.ask(here=self.run.stop_wanted is not None):
                self.stopped_at = self.own.calls

    def look(self) -> None:
        if self.own.at is None:
            self.own.look(self.place)

    def plan(self) -> StopPlan | None:
        held = self.store.held.get(f"run-1/{KEY}")
        return read_plan(held.body) if held is not None else None


def processes(store: MemoryStore, world: int, every: int = 1) -> tuple[Clock, list[Process]]:
    clock = Clock()
    ranks = [Process(number, world, store, clock, every) for number in range(world)]
    for _ in range(5):
        # So that each knows its pace.
        for rank in ranks:
            rank.look()
            rank.steps(4)
        clock.now += 1.0
    return clock, ranks


def all_stop(clock: Clock, ranks: list[Process], rounds: int = 200) -> int:
    """Let a second pass again and again, with four steps of each rank and a look; the call at which all stop."""
    for _ in range(rounds):
        clock.now += 1.0
        for rank in ranks:
            rank.look()
            rank.steps(4)
        if all(rank.stopped_at is not None for rank in ranks):
            (at,) = {rank.stopped_at for rank in ranks}
            assert at is not None
            return at
    raise AssertionError(f"they stopped at {[rank.stopped_at for rank in ranks]}")


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    began(made)
    return made


def test_one_is_told_and_all_stop_at_the_same_call(store: MemoryStore) -> None:
    clock, ranks = processes(store, 4)
    for rank in ranks:
        rank.steps(rank.number)
    ranks[3].told()
    at = all_stop(clock, ranks)
    assert {rank.own.why for rank in ranks} == {f"rank 3 on host-3 was told to stop: {WHY}"}
    assert ranks[0].plan() == StopPlan(2, START, "rank 3 on host-3", WHY, at)
    assert not [key for key in store.held if key.startswith("run-1/stopping/")], "each takes its answer away"


def test_nobody_asks_and_nothing_is_written(store: MemoryStore) -> None:
    clock, ranks = processes(store, 3)
    with pytest.raises(AssertionError):
        all_stop(clock, ranks, 20)
    assert {operation for operation, _ in store.calls} == {"read"}


def test_it_is_a_call_that_the_all_reduce_would_have_answered(store: MemoryStore) -> None:
    clock, ranks = processes(store, 2, every=10)
    ranks[1].told()
    assert all_stop(clock, ranks) % 10 == 1


def test_two_that_ask_at_once_are_one(store: MemoryStore) -> None:
    clock, ranks = processes(store, 2)
    for rank in ranks:
        rank.told()
        rank.steps()

    def faster(operation: str, _key: str) -> None:
        if operation == "write":
            store.heal()
            ranks[1].look()

    store.before = faster
    ranks[0].look()
    assert all_stop(clock, ranks)
    assert ranks[0].own.why == f"rank 1 on host-1 was told to stop: {WHY}"


def test_one_that_has_just_begun_is_waited_for(store: MemoryStore) -> None:
    """It compiles, and would be gone by the time that it hears of anything."""
    clock, ranks = processes(store, 2)
    late = Process(2, 3, store, clock)
    late.steps()
    ranks = [*(Process(number, 3, store, clock) for number in (0, 1)), late]
    for rank in ranks[:2]:
        rank.told()
        rank.steps()
    for _ in range(10):
        clock.now += 1.0
        for rank in ranks:
            rank.look()
    assert [rank.own.at for rank in ranks] == [None] * 3
    assert all_stop(clock, ranks)


def test_one_that_evaluates_may_go_on_as_fast_as_before(store: MemoryStore) -> None:
    clock, ranks = processes(store, 2)
    for _ in range(60):
        clock.now += 5.0
        for rank in ranks:
            rank.look()
    ranks[0].told()
    ranks[0].steps()
    for _ in range(2):
        for rank in ranks:
            rank.look()
    plan = ranks[1].plan()
    assert plan is not None
    assert plan.at is not None
    assert plan.at > ranks[0].own.calls + 4.0 * 3.0


def test_one_that_runs_far_ahead_is_waited_for_by_its_call(store: MemoryStore) -> None:
    clock, ranks = processes(store, 2)
    clock.now += 100.0
    ranks[1].steps(500)
    ranks[0].told()
    assert all_stop(clock, ranks) > 500


def test_one_that_never_looks_is_not_waited_for_long(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    clock, ranks = processes(store, 3)
    ranks[0].told()
    began_at = clock.now
    assert all_stop(clock, ranks[:2])
    assert clock.now - began_at > ROLL_CALL_S
    assert "1 of 3 ranks did not answer within 12 s (2), and are not waited for" in caplog.text


@pytest.mark.parametrize("call", range(5))
@pytest.mark.parametrize("before", [True, False], ids=["before its request", "after it"])
def test_who_was_told_and_rank_0_die_and_the_others_stop(store: MemoryStore, call: int, before: bool) -> None:
    """At any point: without a word in the store nobody asks, and nobody stops."""
    clock, ranks = processes(store, 4)
    ranks[0].told()
    ranks[0].steps()
    left = call

    def die(_operation: str, _key: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise StoreError("killed")

    setattr(store, "before" if before else "after", die)
    with pytest.raises(StoreError):
        ranks[0].look()
    store.heal()
    plan = ranks[1].plan()
    if plan is None:
        with pytest.raises(AssertionError):
            all_stop(clock, ranks[1:], 20)
        return
    began_at = clock.now
    assert all_stop(clock, ranks[1:])
    assert clock.now - began_at > ROLL_CALL_S + TAKE_OVER_S


LEFT = [
    pytest.param(encode_plan(StopPlan(1, START, "rank 0", WHY, 1)), id="what an earlier attempt decided"),
    pytest.param(encode_plan(StopPlan(2, "2025-12-31T00:00:00Z", "rank 0", WHY, 1)), id="one with the same number"),
    pytest.param(encode_plan(StopPlan(1, START, "rank 0", WHY)), id="what an earlier attempt only asked"),
    pytest.param(b"{", id="no document"),
    pytest.param(b"[" * 100_000, id="a deep one"),
    pytest.param(b'{"attempt": 2, "start_time": "%s", "at": -1}' % START.encode(), id="no call"),
    pytest.param(b'{"attempt": 2, "start_time": "%s", "at": 1e300}' % START.encode(), id="one that never comes"),
    pytest.param(b'{"attempt": 2, "start_time": 7, "at": 1}', id="a start that is none"),
    pytest.param(b'{"attempt": "2", "at": true}', id="none at all"),
    pytest.param(bytes(range(256)), id="bytes"),
]


@pytest.mark.parametrize("body", LEFT)
def test_what_was_there_before_stops_nobody_and_is_overwritten(store: MemoryStore, body: bytes) -> None:
    store.write(f"run-1/{KEY}", body)
    clock, ranks = processes(store, 2)
    with pytest.raises(AssertionError):
        all_stop(clock, ranks, 20)
    assert store.held[f"run-1/{KEY}"].body == body
    ranks[1].told()
    assert all_stop(clock, ranks)


def test_a_process_that_an_earlier_attempt_left_behind_disturbs_nobody(store: MemoryStore) -> None:
    clock, (left, *_) = processes(store, 2)
    left.told()
    left.steps()
    ours = encode_plan(StopPlan(3, "2026-01-02T12:00:00Z", "rank 1", WHY))
    store.write(f"run-1/{KEY}", ours)
    for _ in range(20):
        left.look()
        clock.now += 1.0
    assert store.held[f"run-1/{KEY}"].body == ours


NOT_BEGUN = [
    pytest.param({"begun": False}, id="rank 0 has not begun"),
    pytest.param({"status": "preempted"}, id="rank 0 has ended: that is an attempt before this one"),
    pytest.param({"start_time": None}, id="nobody knows when"),
]


@pytest.mark.parametrize("said", NOT_BEGUN)
def test_before_the_attempt_is_known_nobody_stops_by_what_is_there(store: MemoryStore, said: dict[str, object]) -> None:
    began(store, **said)  # type: ignore[arg-type]
    store.write(f"run-1/{KEY}", encode_plan(StopPlan(2, START, "rank 0", WHY, 1)))
    clock, ranks = processes(store, 2)
    with pytest.raises(AssertionError):
        all_stop(clock, ranks, 20)
    began(store)
    assert [rank.own.at for rank in ranks] == [None, None]


HOSTILE = ["0-1-1", "x", "0-99999999999999-0-0", "7-5-1-1", "-1-5-1-1", "0-5-1-1/x", "٣-1-1-1"]


def test_answers_of_nobody_count_for_nothing(store: MemoryStore) -> None:
    clock, ranks = processes(store, 2)
    folder = StopPlan(2, START, "", "").folder
    for name in HOSTILE:
        store.put_text(f"run-1/{folder}{name}", "")
    ranks[0].told()
    assert all_stop(clock, ranks) < 500


def test_one_that_hears_of_it_too_late_stops_then_and_says_so(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    _, ranks = processes(store, 2)
    ranks[0].steps(38)
    ranks[0].look()
    store.write(f"run-1/{KEY}", encode_plan(StopPlan(2, START, "rank 1", WHY, 40)))
    ranks[0].look()
    ranks[0].steps()
    assert ranks[0].stopped_at == 59
    assert "all ranks were to stop 18 steps ago" in caplog.text


AWAY = [
    pytest.param(UnreachableError("no answer"), id="no answer"),
    pytest.param(DeniedError("refused"), id="no leave"),
    pytest.param(ValueError("what is this"), id="anything else"),
]


@pytest.mark.parametrize("fault", AWAY)
def test_a_store_that_is_away_raises_nothing_into_training(store: MemoryStore, fault: Exception) -> None:
    _, (rank, _) = processes(store, 2)

    def fail(_operation: str, _key: str) -> None:
        raise fault

    store.before = fail
    rank.told()
    rank.steps(100)
    with pytest.raises(type(fault)):
        rank.look()
    rank.steps(100)
    assert rank.stopped_at is None


def test_one_whose_store_hangs_or_is_not_known_yet_stops_alone_in_time(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """No look ever returns."""
    clock, (rank, _) = processes(store, 2)
    rank.told()
    rank.steps(100)
    clock.now += ALONE_S - 0.1
    rank.steps(100)
    assert rank.stopped_at is None
    clock.now += 0.1
    rank.steps(100)
    assert rank.stopped_at == rank.own.calls == 221
    assert rank.own.why == WHY
    assert "lastbeat could not agree with the other ranks within 20 s: this one stops alone" in caplog.text


def test_one_for_which_no_thread_can_start_stops_alone_at_once(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    _, (rank, _) = processes(store, 2)
    rank.own.start()
    rank.steps(10)
    assert rank.stopped_at is None
    rank.told()
    rank.steps()
    assert rank.stopped_at == 31


def test_one_whose_asking_thread_has_ended_stops_alone_at_once() -> None:
    run = Run("run-1", None)
    own = StoreAgreement(run)
    own.start()
    assert not own.ask(here=False)
    own.close()
    run.ask_to_stop(WHY, "told")
    assert own.ask(here=True)


def test_one_that_a_person_asks_never_stops_alone_until_a_scheduler_does(store: MemoryStore) -> None:
    clock, (rank, _) = processes(store, 2)
    rank.told(ends_soon=False)
    for _ in range(100):
        rank.steps()
        clock.now += 10.0
    assert rank.stopped_at is None
    rank.told()
    for _ in range(3):
        rank.steps()
        clock.now += ALONE_S / 2
    assert rank.stopped_at == rank.own.calls


def test_all_that_are_told_while_they_compile_stop_at_the_same_call(store: MemoryStore) -> None:
    """The only pace that is known then is that of the step in which they compiled."""
    clock = Clock()
    ranks = [Process(number, 3, store, clock) for number in range(3)]
    _compile(clock, ranks, 60.0)
    for rank in ranks:
        rank.told()
    began_at = clock.now
    assert _in_step(clock, ranks) < 200
    assert clock.now - began_at < ALONE_S


@pytest.mark.parametrize("ends_soon", [True, False], ids=["by a scheduler", "by a person"])
def test_one_that_is_told_before_all_compile_waits_for_the_others(
    store: MemoryStore, caplog: pytest.LogCaptureFixture, ends_soon: bool
) -> None:
    clock = Clock()
    ranks = [Process(number, 3, store, clock) for number in range(3)]
    ranks[0].told(ends_soon=ends_soon)
    _compile(clock, ranks, 90.0)
    _in_step(clock, ranks)
    assert "did not answer" not in caplog.text


def _compile(clock: Clock, ranks: list[Process], seconds: float) -> None:
    """In the first step, before which each asks."""
    for rank in ranks:
        rank.steps()
    for _ in range(round(2 * seconds)):
        for rank in ranks:
            rank.look()
        clock.now += 0.5


def _in_step(clock: Clock, ranks: list[Process]) -> int:
    """Ten steps a second, for which all wait for one another, and looks that are not at the same moments."""
    for tenth in range(3000):
        for rank in ranks:
            rank.steps()
            if tenth % 5 == rank.number:
                rank.look()
        clock.now += 0.1
        if any(rank.stopped_at is not None for rank in ranks):
            break
    (at,) = {rank.stopped_at for rank in ranks}
    assert at is not None
    return at


def test_looks_of_many_ranks_are_fewer() -> None:
    assert (look_s(4, free=True), look_s(4, free=False), look_s(10_000, free=False)) == (2.0, 5.0, 8.0)
    assert (quick_s(4), quick_s(10_000)) == (0.5, 5.0)
    assert ALONE_S > ROLL_CALL_S > look_s(10**6, free=False)


# Laws.

answers = st.builds(StopAnswer, st.integers(0, 10**6), st.integers(0, 10**9), st.floats(0, 1e5), st.floats(0, 600))


@given(answers)
def test_an_answer_is_the_name_of_its_file(answer: StopAnswer) -> None:
    found = read_answer(answer.name)
    assert found is not None
    assert (found.rank, found.calls) == (answer.rank, answer.calls)
    assert 0 <= found.per_s - answer.per_s <= 0.0011
    assert 0 <= found.reaction_s - answer.reaction_s <= 0.0011


@given(st.text() | st.from_regex(r"\d{1,30}-\d{1,30}-\d{1,30}-\d{1,30}", fullmatch=True))
def test_any_name_of_a_file_is_an_answer_or_none(name: str) -> None:
    found = read_answer(name)
    assert found is None or (found.calls < 10**12 and found.per_s <= 1e6 and found.reaction_s <= 900)


@given(
    st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_any_document_is_a_plan_or_none(body: bytes) -> None:
    plan = read_plan(body)
    assert plan is None or plan.at is None or plan.at > 0


@given(st.lists(answers, min_size=1, max_size=5), st.floats(0, 100), st.integers(1, 50))
def test_the_call_lies_ahead_of_everybody_and_is_the_first_such_one(
    found: list[StopAnswer], since_s: float, every: int
) -> None:
    at = stop_call(found, since_s, every)
    assert at > max(each.calls for each in found)
    assert (at - 1) % every == 0
    assert at - every < stop_call(found, since_s) <= at


class World:
    """Ranks with a pace of their own, in a store that forgets answers and loses races: whatever hypothesis draws."""

    def __init__(self, data: st.DataObject, world: int) -> None:
        self.store = MemoryStore()
        began(self.store)
        self.clock, self.ranks = processes(self.store, world, data.draw(st.integers(1, 3), "every"))
        self.data = data
        self.decided = set[int]()

    def nested(self, depth: int = 2) -> None:
        """Other ranks look between any two requests of one."""

        def between(operation: str, _key: str) -> None:
            if depth and operation == "write":
                self.store.heal()
                for rank in self.data.draw(st.lists(st.sampled_from(self.ranks), max_size=2), "look in between"):
                    self.looks(rank)
                self.nested(depth - 1)

        self.store.before = between

    def looks(self, rank: Process) -> None:
        with suppress(StoreError):
            rank.look()
        plan = rank.plan()
        if plan is not None and plan.at is not None:
            self.decided.add(plan.at)


@given(st.data())
def test_whatever_happens_one_call_is_decided_and_who_knows_it_in_time_stops_there(data: st.DataObject) -> None:
    """No assumption on pace, looks, deaths or the store: ranks stop and never come back, requests fail before or after
    they are done."""
    world = World(data, data.draw(st.integers(2, 4), "ranks"))
    in_time: dict[int, int] = {}
    for _ in range(data.draw(st.integers(1, 30), "events")):
        rank = data.draw(st.sampled_from(world.ranks), "rank")
        what = data.draw(st.sampled_from(["look", "look", "steps", "told", "time", "fault before", "fault after"]))
        if what == "steps":
            rank.steps(data.draw(st.integers(1, 20), "steps"))
        elif what == "told":
            # None of them ends alone.
            rank.told(ends_soon=False)
            rank.steps()
        elif what == "time":
            world.clock.now += data.draw(st.sampled_from([0.5, 5.0, 20.0]), "seconds")
        else:
            if what == "look":
                world.nested()
            else:
                setattr(world.store, what.removeprefix("fault "), _fails(data.draw(st.integers(0, 4), "at request")))
            world.looks(rank)
            world.store.heal()
        if rank.own.at is not None and rank.own.calls < rank.own.at:
            in_time[rank.number] = rank.own.at
    assert len(world.decided) <= 1
    for rank in world.ranks:
        rank.steps(20 if rank.own.at is None else max(1, rank.own.at - rank.own.calls))
        assert (rank.stopped_at is not None) is (rank.own.at is not None)
        if rank.number in in_time:
            assert {rank.stopped_at} == world.decided
        elif rank.stopped_at is not None:
            assert rank.stopped_at >= min(world.decided)


def _fails(at: int) -> Callable[[str, str], None]:
    left = at

    def fail(_operation: str, _key: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise UnreachableError("no answer")

    return fail


@given(st.data())
def test_ranks_that_look_as_often_as_they_say_all_stop_at_the_same_call(data: st.DataObject) -> None:
    """Each at its own pace, which may grow by half, with a few requests that fail, and with any of them told."""
    world = World(data, data.draw(st.integers(2, 4), "ranks"))
    paces = [data.draw(st.sampled_from([1, 4, 20]), "steps a second") for _ in world.ranks]
    hurry = data.draw(st.sampled_from([1.0, 1.4]), "later steps")
    evaluation = data.draw(st.tuples(st.integers(0, 30), st.integers(0, 30)), "an evaluation from, for seconds")
    told = data.draw(st.sets(st.sampled_from(range(len(paces))), min_size=1), "told")
    faults = data.draw(st.sets(st.integers(0, 30), max_size=3), "rounds with a fault")
    for number in range(data.draw(st.integers(0, 12), "seconds before")):
        _a_second(world, [float(pace) for pace in paces], set(), number)
    for number in told:
        world.ranks[number].told()
    for number in range(600):
        evaluates = evaluation[0] <= number < sum(evaluation)
        _a_second(world, [0.0 if evaluates else pace * hurry for pace in paces], faults, number)
        if all(rank.stopped_at for rank in world.ranks):
            break
    assert {rank.stopped_at for rank in world.ranks} == world.decided


def _a_second(world: World, paces: list[float], faults: set[int], number: int) -> None:
    """Two looks of each rank, and its steps. In a round with a fault an answer to rank 0 is lost."""
    for half in (0, 1):
        world.clock.now += 0.5
        for rank, pace in zip(world.ranks, paces, strict=True):
            if half == 0 and rank.number == 0 and number in faults:
                world.store.after = _fails(0)
            world.looks(rank)
            world.store.heal()
            rank.steps(round(pace * (number + half / 2 + 0.5)) - round(pace * (number + half / 2)))
