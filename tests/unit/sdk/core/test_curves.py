"""The latest points: few, and reaching back to the first."""

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from lastbeat.training.sdk.curves import MAX_POINTS, SAMPLED, RecentPoints, sampled


def taken(count: int) -> RecentPoints:
    recent = RecentPoints()
    for n in range(count):
        recent.add((float(n), n, None, None))
    return recent


@given(st.lists(st.floats(0, 10) | st.none() | st.just("NaN"), max_size=420))
def test_the_law_of_thinning(losses: list[float | str | None]) -> None:
    recent = RecentPoints()
    for step, loss in enumerate(losses):
        recent.add((float(step), step, loss, None))
    points = recent.points
    steps = [step for _, step, *_ in points]
    assert len(points) <= MAX_POINTS
    assert steps == sorted(set(steps))
    if losses:
        assert (steps[0], steps[-1]) == (0, len(losses) - 1)
    if len(losses) >= MAX_POINTS:
        assert len(points) >= MAX_POINTS // 3
        # No part of the past is forgotten.
        assert max(b - a for a, b in pairwise(steps)) <= 12 * len(losses) / MAX_POINTS
    numbers = [loss for loss in losses if isinstance(loss, float)]
    if len(numbers) == len(losses) and numbers:
        kept = [loss for _, _, loss, _ in points if isinstance(loss, float)]
        assert (min(numbers), max(numbers)) == (min(kept), max(kept)), "no peak gets lost"
    assert ("NaN" in losses) == ("NaN" in [loss for _, _, loss, _ in points])


@given(st.integers(3, 200), st.integers(0, 10**6))
def test_a_sample_has_the_ends_and_the_extremes(count: int, seed: int) -> None:
    chance = Random(seed)
    points = [(float(step), step, chance.uniform(-1, 1), None) for step in range(count)]
    found = sampled(points)
    assert len(found) <= max(SAMPLED, 4)
    assert (found[0], found[-1]) == (points[0], points[-1])
    by_loss = sorted(points, key=lambda point: point[2])
    assert {by_loss[0], by_loss[-1]} <= set(found)
    assert found == sorted(found)


def test_a_straight_line_needs_two_points() -> None:
    assert len(sampled([(float(step), step, 5.0 - step / 100, None) for step in range(300)])) == 2


def test_few_points_are_all_kept() -> None:
    assert [step for _, step, *_ in taken(100).points] == list(range(100))


def test_asking_changes_nothing() -> None:
    recent = taken(777)
    assert recent.points == recent.points
    recent.points.clear()
    assert recent.points
