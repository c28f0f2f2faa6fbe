"""Limits that watchers learn from the steps that they see, for a run that states none."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.learned_limits import CEILING_S, FACTOR, IDLE_FLOOR_S, LEAST_SAMPLES
from lastbeat.model.limits import RunLimits
from lastbeat.model.policy import Policy
from lastbeat.model.record import HeartbeatMemory, StepWaits
from lastbeat.stores.port import UnreachableError
from lastbeat.watch.decide.step_waits import handed_on_s, limit_s, news, noted
from support.laws import examples
from support.memory import START
from support.there import there
from support.world import World

MINUTE, HOUR = 60.0, 3600.0
LEARNS = Policy(learns=True, stale_s=12 * HOUR)
"""Beats of these runs say nothing of how they are: they are written with their steps."""


def waits(world: World) -> StepWaits | None:
    record = world.record_after_look()
    return there(record.progress).waits


def train(world: World, steps: int = LEAST_SAMPLES + 1, step_s: float = MINUTE, look_s: float = MINUTE) -> None:
    """``steps`` of ``step_s``, by a watcher that begins anew with each look."""
    for _ in range(steps):
        step = getattr(world, "step", 0) + 1
        world.step = step  # type: ignore[attr-defined]
        world.both(step)
        for _ in range(round(step_s / look_s)):
            world.look()
            world.after(look_s)


def status_after(world: World, seconds: float, look_s: float = MINUTE) -> str:
    for _ in range(round(seconds / look_s)):
        world.after(look_s)
        world.look()
    return world.look().status.value


@pytest.mark.parametrize("skew_s", [0.0, -3600.0])
def test_a_run_that_stands_still_for_longer_than_it_ever_did_is_timed_out(skew_s: float) -> None:
    world = World(LEARNS, skew_s=skew_s)
    train(world, LEAST_SAMPLES + 3)
    assert status_after(world, 28 * MINUTE) == "RUNNING"
    assert status_after(world, 2 * MINUTE) == "TIMED_OUT"
    train(world, 1)
    assert world.look().status.value == "RUNNING"
    assert [event for event in world.channel.events if event != "WARNING"] == ["TIMED_OUT", "RECOVERED"]


def test_the_reason_says_what_is_usual_and_the_record_by_which_limit() -> None:
    world = World(LEARNS)
    train(world, step_s=10 * MINUTE)
    known = there(waits(world))
    assert 400.0 <= known.longest_s <= 600.0, "two thirds of what it takes, at least"
    status_after(world, 41 * MINUTE)
    outcome = world.look()
    assert outcome.reason == "No step for 51m (usual 8m, limit 40m): still at step 17"
    assert outcome.record is not None
    assert outcome.record.exceeded is not None
    exceeded = outcome.record.exceeded
    assert (exceeded.name.value, exceeded.limit_s, exceeded.source) == ("stall", 2400.0, "learned from its steps")


@pytest.mark.parametrize(
    ("policy", "steps"),
    [
        pytest.param(Policy(stale_s=12 * HOUR), LEAST_SAMPLES + 1, id="nobody wants that"),
        pytest.param(LEARNS, LEAST_SAMPLES - 1, id="too few steps were seen"),
        pytest.param(LEARNS.of_fleet(RunLimits(stall=(0.0, "*"))), LEAST_SAMPLES + 1,
                     id="its fleet says that it may stand still"),
        pytest.param(LEARNS.of_fleet(RunLimits(stall=(10 * HOUR, "*"))), LEAST_SAMPLES + 1, id="its fleet has a limit"),
        pytest.param(LEARNS.of_run(None, 10 * HOUR), LEAST_SAMPLES + 1, id="the run states a limit of its own"),
    ],
)  # fmt: skip
def test_where_nothing_is_learned_a_run_may_stand_still(policy: Policy, steps: int) -> None:
    world = World(policy)
    train(world, steps)
    assert status_after(world, 3 * HOUR, 10 * MINUTE) == "RUNNING"


@pytest.mark.parametrize(
    ("name", "document"),
    [
        pytest.param(
            "metadata.json", '{"sections": [{"name": "evaluation", "open_s": 60}]}', id="it says what it is in"
        ),
        pytest.param("metadata.json", "{ torn", id="its metadata.json cannot be read"),
        pytest.param("progress.json", "{ torn", id="its progress.json cannot be read"),
        pytest.param("progress.json", "{}", id="it says no step any more"),
        pytest.param("progress.json", '{"step": 17, "total_steps": 17}', id="its last step is done"),
        pytest.param("progress.json", '{"step": 17, "total_steps": 18}', id="and steps are counted from 0"),
    ],
)
def test_where_nobody_can_tell_that_it_stands_still_nothing_follows(name: str, document: str) -> None:
    world = World(LEARNS)
    train(world)
    world.put(name, document)
    assert status_after(world, HOUR) == "RUNNING"


def test_a_time_without_looks_teaches_nothing() -> None:
    world = World(LEARNS)
    train(world)

    world.store.refuse("any", UnreachableError("away"))
    for _ in range(30):
        world.after(MINUTE)
        world.look()
    world.store.heal()
    world.after(5 * HOUR)
    train(world)
    assert there(waits(world)).longest_s <= MINUTE


def test_a_wait_teaches_when_it_is_over_and_not_while_it_lasts() -> None:
    world = World(LEARNS)
    train(world)
    assert status_after(world, 40 * MINUTE) == "TIMED_OUT"
    during = there(waits(world))
    assert limit_s(during, None) == IDLE_FLOOR_S, "a hang does not make its own limit longer"
    train(world, 2)
    assert status_after(world, 40 * MINUTE) == "RUNNING", "it went on after such a wait before"


def begin_anew(world: World, attempt: int = 2) -> None:
    world.after(1)
    world.beat(attempt=attempt, start_time=world.instance_now.isoformat())
    world.look()
    world.after(1)
    world.progress(1)
    world.look()


def test_a_new_attempt_counts_its_own_steps() -> None:
    world = World(LEARNS)
    train(world, step_s=10 * MINUTE)
    begin_anew(world)
    assert waits(world) == StepWaits(1)


def go_on(world: World, steps: int, step_s: float, attempt: int = 2) -> None:
    """``steps`` more of the present attempt."""
    world.progress_step = getattr(world, "progress_step", 1)  # type: ignore[attr-defined]
    for _ in range(steps):
        world.progress_step += 1  # type: ignore[attr-defined]
        world.progress(world.progress_step)  # type: ignore[attr-defined]
        for _ in range(round(step_s / MINUTE)):
            world.look()
            world.after(MINUTE)


@pytest.mark.parametrize(
    ("own", "step_s", "lasts_s", "status"),
    [
        pytest.param(0, MINUTE, 3 * HOUR, "RUNNING", id="while it loads and compiles it has no limit"),
        pytest.param(3, MINUTE, 38 * MINUTE, "RUNNING", id="then it has that of the attempt before"),
        pytest.param(3, MINUTE, 43 * MINUTE, "TIMED_OUT", id="and is told when it stands still for longer"),
        pytest.param(3, 20 * MINUTE, HOUR, "RUNNING", id="unless its own steps take longer already"),
        pytest.param(20, MINUTE, 33 * MINUTE, "RUNNING", id="after enough steps of its own the mean of both counts"),
        pytest.param(20, MINUTE, 38 * MINUTE, "TIMED_OUT", id="which is less where it is quicker"),
    ],
)
def test_a_new_attempt_begins_with_the_limit_of_those_before(
    own: int, step_s: float, lasts_s: float, status: str
) -> None:
    world = World(LEARNS)
    train(world, step_s=10 * MINUTE)
    begin_anew(world)
    go_on(world, own, step_s)
    assert status_after(world, lasts_s - MINUTE) == status


def test_steps_that_take_too_long_to_tell_a_hang_from_one_are_remembered_as_such() -> None:
    known = StepWaits(40, LEAST_SAMPLES, longest_s=4.5 * HOUR)
    assert limit_s(known, None) is None
    assert limit_s(known, IDLE_FLOOR_S) is None
    assert handed_on_s(known, IDLE_FLOOR_S) is None, "the next attempt learns anew, and has no shorter limit"
    assert handed_on_s(StepWaits(40, 2, longest_s=4.5 * HOUR), IDLE_FLOOR_S) == IDLE_FLOOR_S


@pytest.mark.parametrize(
    ("earlier_s", "limit"),
    [(-1e12, IDLE_FLOOR_S), (0.0, IDLE_FLOOR_S), (1e12, (IDLE_FLOOR_S + CEILING_S) / 2)],
)
def test_a_record_that_was_tampered_with_switches_nothing_off(earlier_s: float, limit: float) -> None:
    assert limit_s(StepWaits(40, LEAST_SAMPLES), earlier_s) == limit


def test_what_earlier_attempts_taught_outlives_one_that_dies_at_once() -> None:
    world = World(LEARNS)
    train(world, step_s=10 * MINUTE)
    for attempt in (2, 3, 4):
        begin_anew(world, attempt)
    record = world.record_after_look()
    assert record.earlier_step_limit_s == 2400.0


def test_a_healthy_run_is_written_seldom() -> None:
    world = World(LEARNS)
    train(world, 20)
    before = world.record_writes()
    train(world, 240)
    as_with_a_limit = 240 * MINUTE / (IDLE_FLOOR_S / 4) + 1
    assert world.record_writes() - before <= as_with_a_limit


class Looks:
    """Looks at a run each ``every_s``, which keep what is written down and nothing else."""

    def __init__(self, every_s: float) -> None:
        self.known: StepWaits | None = None
        self.earlier_s: float | None = None
        self.every_s, self._now, self._next, self._step = every_s, 0.0, every_s, 0

    def wait(self, seconds: float) -> bool:
        """A step, and then nothing for so long. Whether a look would have told."""
        self._step += 1
        at, told = self._now, False
        self._now += seconds
        while self._next < self._now:
            memory = HeartbeatMemory(START, step=self._step, step_at=START + timedelta(seconds=at))
            found = noted(self.known, memory, START + timedelta(seconds=self._next))
            self.known = found if news(self.known, found) else self.known
            limit = limit_s(found, self.earlier_s)
            told = told or (limit is not None and self._next - at > limit)
            self._next += self.every_s
        return told


WAITS = st.lists(st.floats(1.0, 4 * HOUR), min_size=1, max_size=40)


@settings(max_examples=examples(30, 3000))
@given(WAITS, WAITS, st.sampled_from([20.0, 60.0, 450.0, 800.0]))
def test_a_wait_like_one_before_is_never_late_and_a_hang_is_found(
    attempt_before: list[float], before: list[float], every_s: float
) -> None:
    earlier = Looks(every_s)
    for seconds in attempt_before:
        earlier.wait(seconds)
    looks = Looks(every_s)
    looks.earlier_s = handed_on_s(earlier.known, None)
    longest_s = 0.0
    anew = Looks(every_s)
    for seconds in before:
        told = looks.wait(seconds)
        anew.wait(seconds)
        assert not (told and seconds <= longest_s)
        longest_s = max(longest_s, seconds)
    assert looks.known is None or looks.known.longest_s <= longest_s, "no wait is taken for a longer one"
    if limit_s(anew.known, None) is not None:
        assert limit_s(looks.known, looks.earlier_s) is not None, "attempts before switch nothing off"
    if looks.known is not None and limit_s(looks.known, looks.earlier_s) is not None:
        most_s = max(FACTOR * longest_s, IDLE_FLOOR_S, looks.earlier_s or 0.0)
        assert looks.wait(min(most_s, CEILING_S) + 2 * every_s)
