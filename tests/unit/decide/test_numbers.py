"""What is said of a run's numbers: when it slows down, when its loss leaves its level, and when nothing is."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.codec import codec
from lastbeat.model.curve import Curve, CurvePoint, curve_point, read_curve
from lastbeat.model.document_field import Reading
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.observation import Seen
from lastbeat.model.record import Attempt, Record, UsualNumbers
from lastbeat.watch.decide.levels import level, returned
from lastbeat.watch.decide.numbers import judged
from lastbeat.watch.decide.pace import SLOW, pace
from support.laws import examples
from support.numbered import START, Looks, SimulatedRun, healthy, watched
from support.there import there
from support.world import World

MINUTE, HOUR = 60.0, 3600.0
PLAIN = SimulatedRun(1, hours=3.0, step_s=2.0, spike_hours=0.0)
ONCE = UsualNumbers(1, 5000, step_s=1.0, loss=math.log(2.4), world_size=8, node="gpu-3")


def first(run: SimulatedRun, name: str) -> tuple[float, float] | None:
    """Hours and height of the loss when ``name`` is raised first, or None if it never is."""
    return next(((hours, ratio) for hours, ratio, found in watched(run) if name in found), None)


def after(began: float, times: float) -> Callable[[float], float]:
    """1, and ``times`` after ``began`` hours."""
    return lambda hours: times if hours >= began else 1.0


# The pace.


@pytest.mark.parametrize(("step_s", "hours"), [(0.1, 1.5), (20.0, 2.0), (90.0, 8.0)])
def test_a_doubled_step_time_is_reported_within_fifteen_minutes(step_s: float, hours: float) -> None:
    run = replace(PLAIN, hours=hours, step_s=step_s, slower=after(hours - 1, 2.0))
    found = there(first(run, "slowdown"))
    # A slot of a run with long steps takes more than ten minutes.
    limit_s = max(15 * MINUTE, 40 * step_s)
    assert (found[0] - hours + 1) * HOUR > 0
    assert (found[0] - hours + 1) * HOUR <= limit_s


def test_a_slowdown_tells_since_when_and_ends_with_it() -> None:
    run = replace(PLAIN, hours=3.5, slower=lambda hours: 2.0 if 2.0 <= hours < 3.0 else 1.0)
    found = [(hours, conditions) for hours, _, conditions in watched(run)]
    text = next(conditions["slowdown"] for _, conditions in found if conditions)
    began = int(text.split("since step ")[1].split()[0])
    assert abs(began - 3600) < 200, "the step at which it began"
    stands = [hours for hours, conditions in found if "slowdown" in conditions]
    assert 2.1 < stands[0] < 2.25
    assert 3.0 < stands[-1] < 3.2
    assert len(stands) == sum(stands[0] <= hours <= stands[-1] for hours, _ in found), "once"
    assert {conditions["slowdown"] for _, conditions in found if "slowdown" in conditions} == {text}


def steady(step_s: float, count: int = 400, first_step: int = 0, at: float = 0.0) -> Curve:
    points = Curve()
    for number in range(count):
        point = curve_point(at + 30.0 * number, first_step + int(30 * number / step_s), 2.4 + 0.01 * (number % 7), 1e-4)
        points = points.extended(point)
    return points


@pytest.mark.parametrize(
    ("earlier", "ranks", "is_slow"),
    [
        pytest.param(ONCE, 8, True, id="an attempt that is slower than the one before"),
        pytest.param(replace(ONCE, step_s=1.9), 8, False, id="one that is about as fast"),
        pytest.param(ONCE, 4, False, id="one with fewer ranks is not compared"),
        pytest.param(replace(ONCE, step_s=None), 8, False, id="nothing is known of the one before"),
    ],
)
def test_an_attempt_is_compared_with_the_one_before(earlier: UsualNumbers, ranks: int, *, is_slow: bool) -> None:
    curve = steady(2.0)
    shown = Heartbeat(START, "", step=1, curve=curve)
    seen = Seen(progress=shown, curve=curve, metadata=Heartbeat(START, "", world_size=ranks, host="gpu-8"))
    found = judged(Record("run", earlier_numbers=earlier), Attempt(2), seen, is_new=False)
    assert found.pace is not None
    assert (found.pace.slow is not None) is is_slow
    assert found.usual is None or found.usual.attempt == 2


@pytest.mark.parametrize(
    ("tokens_per_s", "is_slow"),
    [
        pytest.param(8192.0, False, id="twice the batch of the attempt before takes twice the time"),
        pytest.param(4096.0, True, id="its very batch takes twice the time"),
    ],
)
def test_each_look_at_an_attempt_compares_its_batch_with_the_one_before(tokens_per_s: float, *, is_slow: bool) -> None:
    curve, before = steady(2.0), Record("run", earlier_numbers=replace(ONCE, tokens=8200.0))
    shown = Heartbeat(START, "", step=1, curve=curve, steps_per_s=0.5, tokens_per_s=tokens_per_s)
    seen = Seen(progress=shown, curve=curve, metadata=Heartbeat(START, "", world_size=8, host="gpu-8"))
    for _ in range(3):
        found = judged(before, Attempt(2), seen, is_new=False)
        assert found.pace is not None
        assert (found.pace.slow is not None) is is_slow
        before = replace(before, numbers=found.usual)


# The levels.


@pytest.mark.parametrize(("minutes", "noise"), [(20, 0.01), (150, 0.06)])
def test_a_divergence_is_reported_before_the_loss_is_twice_what_it_was(minutes: int, noise: float) -> None:
    run = replace(PLAIN, hours=5.0, noise=noise, higher=lambda hours: 2 ** max(0.0, (hours - 2) * 60 / minutes))
    found = there(first(run, "loss_diverging"))
    assert 1.0 < found[1] < 2.0


def test_a_jump_that_stays_is_reported_after_a_hundred_steps() -> None:
    run = replace(PLAIN, step_s=10.0, higher=after(2.0, 1.8))
    found = there(first(run, "loss_spike"))
    assert 100 * 10 <= (found[0] - 2.0) * HOUR <= 160 * 10


QUIET = [
    ("a step that takes a fifth longer", replace(PLAIN, slower=after(2.0, 1.2))),
    ("five slow minutes", replace(PLAIN, slower=lambda hours: 3.0 if 2.0 <= hours < 2.0 + 5 / 60 else 1.0)),
    ("one long evaluation", replace(PLAIN, pause_minutes=40.0, pause_every_minutes=130.0)),
    ("steps of very different lengths", replace(PLAIN, jitter=0.6)),
    ("a slow beginning", replace(PLAIN, slower=lambda hours: 3.0 if hours < 0.3 else 1.0)),
    ("a run that has become faster", replace(PLAIN, slower=after(2.0, 0.5))),
    ("spikes of the loss that come back", replace(PLAIN, spike_hours=0.25)),
    ("a jump of the loss that comes back within a hundred steps",
     replace(PLAIN, step_s=10.0, higher=lambda hours: 3.0 if 2.0 <= hours < 2.0 + 80 * 10 / HOUR else 1.0)),
    ("noise of a third", replace(PLAIN, noise=0.3, heavy=True)),
    ("a loss that is reported each 500 steps", replace(PLAIN, report_every=500, noise=0.1)),
    ("a little higher after new data", replace(PLAIN, higher=after(2.0, 1.1))),
    ("a loss below zero", replace(PLAIN, start_loss=-2.0, end_loss=-3.0, higher=after(2.0, 0.2))),
]  # fmt: skip


@pytest.mark.parametrize("run", [row[1] for row in QUIET], ids=[row[0] for row in QUIET])
def test_nothing_is_said_of(run: SimulatedRun) -> None:
    found = {name for _, _, conditions in watched(run, every_s=2 * MINUTE) for name in conditions}
    assert found == set()


def test_nothing_is_said_in_the_first_twentieth_or_before_two_hundred_steps() -> None:
    young = replace(PLAIN, hours=20.0, step_s=10.0, higher=after(0.4, 3.0), slower=after(0.5, 3.0))
    for hours, _, conditions in watched(young):
        if hours > 0.9:
            break
        assert conditions == {}
    looks, few = Looks(), [curve_point(60.0 * n, n, 2.0 if n < 150 else 9.0, 1e-4) for n in range(199)]
    curve = Curve()
    for point in few:
        curve = curve.extended(point)
        assert looks.look(curve, curve.points[-1].at) == {}


@pytest.mark.parametrize("seed", range(2))
def test_healthy_runs_raise_nothing(seed: int) -> None:
    run = replace(healthy(100 + seed), hours=4.0)
    assert {name for _, _, conditions in watched(run) for name in conditions} == set()


REAL = json.loads((Path(__file__).parent / "real_curves.json").read_text("utf-8"))


@pytest.mark.parametrize("real", REAL, ids=[each["source"] for each in REAL])
def test_curves_of_public_runs_raise_nothing_and_their_divergence_does(real: dict[str, Any]) -> None:
    losses: list[float] = real["loss"]
    # From the end on, the loss doubles within 60 reports.
    for after, grows in ((losses, False), ([*losses, *(losses[-1] * 2 ** (n / 60) for n in range(60))], True)):
        looks, curve, found, height = Looks(), Curve(), set[str](), 0.0
        for number, loss in enumerate(after):
            at = START.timestamp() + 30.0 * number
            curve = curve.extended(curve_point(at, real["each"] * (number + 1), loss, 1e-4))
            named = set(looks.look(curve, at)) - {"slowdown"}
            height = height or (loss / losses[-1] if named else 0.0)
            found |= named
        assert found == ({"loss_diverging"} if grows else set())
        assert height < 2


HIGH = [2.0, 2.01] * 40


@pytest.mark.parametrize(
    ("values", "says"),
    [
        pytest.param([*HIGH, 5.0, 4.0, *HIGH[:20]], (2.005, 5.0, 800, 20), id="a spike of two reports"),
        pytest.param([*HIGH, 5.0, *HIGH, 6.0, *HIGH[:9]], (2.005, 6.0, 1610, 10), id="the latest of two"),
        pytest.param([*HIGH, *([5.0] * 30)], None, id="a jump that stays"),
        pytest.param([*HIGH, 2.3, *HIGH[:9]], None, id="one by less than a quarter"),
        pytest.param([8.0, 7.0, 6.0, 5.0, 4.0, 3.0, *HIGH], None, id="a curve that falls"),
        pytest.param([5.0, 2.0], None, id="too few reports"),
    ],
)
def test_a_spike_that_comes_back_is_known(values: list[float], says: tuple[float, ...] | None) -> None:
    found = returned(curve_of(values), math.log(1.25))
    assert (found is None) is (says is None)
    if found is not None and says is not None:
        assert (found.before, found.now, found.step, found.lasts) == pytest.approx(says, rel=1e-3)


# Laws.


def curve_of(values: list[float], rate: float = 1e-4) -> list[CurvePoint]:
    return [CurvePoint(30.0 * at, 10 * at, value, rate) for at, value in enumerate(values)]


@settings(max_examples=examples(30, 1000))
@given(st.integers(0, 10**6), st.integers(-30, 30), st.floats(0.1, 100.0))
def test_the_scale_of_the_loss_and_the_unit_of_time_do_not_matter(seed: int, power: int, unit: float) -> None:
    chance = Random(seed)
    times = [1.0] * 150 + [1.4 + 0.1 * at for at in range(chance.randrange(40))]
    values = [height * math.exp(chance.gauss(0, 0.05)) for height in times]
    points = curve_of(values)
    found = there(level(points, math.log(1.25), None, stood=False))
    scaled = [each._replace(loss=each.loss * 2.0**power, at=each.at * unit) for each in points]
    other = there(level(scaled, math.log(1.25), None, stood=False))
    assert (found.rise is None) is (other.rise is None)
    if found.rise is not None and other.rise is not None:
        assert found.rise[2:] == other.rise[2:]
        assert other.rise.now == pytest.approx(found.rise.now * 2.0**power)


@settings(max_examples=examples(30, 1000))
@given(st.lists(st.floats(0.7, 1.15), min_size=20, max_size=30))
def test_a_loss_that_hovers_around_the_limit_is_reported_once(heights: list[float]) -> None:
    limit, changes, stood = math.log(1.25), 0, False
    for height in heights:
        # Next to no noise, so the least rise is the limit.
        points = curve_of([2.0, 2.0001] * 75 + [2.0 * math.exp(limit * height), 2.0001 * math.exp(limit * height)] * 15)
        found = there(level(points, limit, None, stood=stood))
        changes += (found.rise is not None) is not stood
        stood = found.rise is not None
    assert changes <= 1


@settings(max_examples=examples(30, 1000))
@given(st.lists(st.floats(1.2, 1.45), min_size=20, max_size=30))
def test_a_pace_that_hovers_around_the_limit_is_reported_once(factors: list[float]) -> None:
    points = [CurvePoint(100.0 * at, 1000 * at) for at in range(60)]
    changes, stood = 0, False
    for factor in factors:
        last = points[-1]
        points.append(CurvePoint(last.at + 100.0, last.step + round(1000 / factor)))
        found = there(pace(points, None, stood=stood))
        changes += (found.slow is not None) is not stood
        stood = found.slow is not None
    assert changes <= 1
    if all(1 / factor < SLOW - 0.01 for factor in factors[-8:]):
        assert stood


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just("NaN"),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ROW = st.lists(
    st.floats() | st.integers(-(10**20), 10**20) | st.sampled_from(["NaN", "Infinity", "x", None]), max_size=5
)
STEPS = st.integers(-5, 10**6)
LIKELY = st.tuples(st.floats(1.7e9, 1.8e9), STEPS, st.floats() | st.just(0.0), st.floats() | st.none()).map(list)


@settings(max_examples=examples(50, 3000))
@given(
    st.fixed_dictionaries(
        {"recent": st.lists(ROW | LIKELY, max_size=120) | ANYTHING, "step": STEPS | ANYTHING, "loss": ANYTHING},
        optional={"metric_points": st.dictionaries(st.just("grad_norm"), st.lists(LIKELY, max_size=90)) | ANYTHING},
    )
)
def test_no_document_raises_or_poisons_the_record(document: dict[str, Any]) -> None:
    curve = read_curve(document, Reading(START, str), START.timestamp())
    looks = Looks()
    for _ in range(2):
        looks.look(curve, START.timestamp())
        kept = codec(Record).document(looks.record)
        assert codec(Record).read(kept) == looks.record
    for point in curve.points:
        assert point.step >= 0
        assert not math.isinf(point.loss)


def test_a_run_that_goes_back_to_a_checkpoint_or_whose_clock_jumps_is_still_judged() -> None:
    curve = steady(1.0, 200)
    for point in steady(1.0, 100, first_step=3000, at=100_000.0).points:
        curve = curve.extended(curve_point(point.at, point.step, point.loss, point.rate))
    assert judged(
        Record("run"), Attempt(), Seen(progress=Heartbeat(START, "", step=1), curve=curve), is_new=False
    ).points
    assert Looks().look(curve, 103_000.0) == {}


# Looks.


def go(world: World, minutes: int, steps_a_minute: int, **more: Any) -> None:
    """Minutes of a run that writes its documents by hand, each with a look."""
    for _ in range(minutes):
        world.after(MINUTE)
        world.hand_step = getattr(world, "hand_step", 0) + steps_a_minute  # type: ignore[attr-defined]
        world.beat()
        world.progress(world.hand_step, total_steps=10**6, loss=2.0 + 0.01 * (world.hand_step % 13), **more)  # type: ignore[attr-defined]
        world.look(restarted=False)


def slow_world() -> World:
    world = World()
    world.hand_step = 100_000  # type: ignore[attr-defined]
    go(world, 60, 60)
    go(world, 15, 30)
    return world


@pytest.mark.parametrize(
    ("tokens_per_s", "warnings"),
    [
        pytest.param(8000.0, [], id="twice the batch takes twice the time"),
        pytest.param(5000.0, ["WARNING"], id="a batch that is a little larger takes twice the time"),
        pytest.param(None, ["WARNING"], id="training no longer says how many tokens"),
    ],
)
def test_a_larger_batch_is_no_slowdown(tokens_per_s: float | None, warnings: list[str]) -> None:
    world = World()
    world.hand_step = 100_000  # type: ignore[attr-defined]
    go(world, 60, 60, steps_per_second=1.0, tokens_per_second=8000.0)
    go(world, 15, 30, steps_per_second=0.5, tokens_per_second=tokens_per_s)
    assert world.channel.events == warnings


@pytest.mark.parametrize("tokens_per_s", [1e13, 1e308])
def test_no_speed_that_training_claims_damages_the_record(tokens_per_s: float) -> None:
    world = World()
    world.hand_step = 100_000  # type: ignore[attr-defined]
    go(world, 60, 60, steps_per_second=0.9, tokens_per_second=tokens_per_s)
    numbers = world.record_after_look().numbers
    assert numbers is not None
    assert numbers.step_s is not None
    assert numbers.tokens is None


def test_a_watch_sees_the_curve_of_documents_without_points_and_one_that_has_seen_little_changes_nothing() -> None:
    world = slow_world()
    assert world.channel.events == ["WARNING"]
    assert "2 s a step since step 103" in world.channel.sent[0].conditions["slowdown"]
    assert "slowdown" in world.record_after_look().conditions
    go(world, 3, 60)
    assert "slowdown" in world.record_after_look(restarted=False).conditions
    assert world.channel.events == ["WARNING"]


def test_a_new_attempt_knows_what_was_usual_before() -> None:
    world = World()
    world.hand_step = 100_000  # type: ignore[attr-defined]
    go(world, 60, 60)
    world.after(MINUTE)
    world.beat(attempt=2)
    record = world.record_after_look(restarted=False)
    assert record.attempt.number == 2
    assert record.numbers is None
    assert record.earlier_numbers is not None
    assert (record.earlier_numbers.attempt, record.earlier_numbers.step_s) == (1, 1.0)


def test_a_healthy_run_writes_its_usual_numbers_seldom() -> None:
    world = World()
    world.hand_step = 100_000  # type: ignore[attr-defined]
    go(world, 120, 60)
    held = there(world.record)
    assert held.numbers is not None
    assert held.seq <= 2
