"""The latest points: few, and reaching back to the first."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lastbeat.sdk.documents import MAX_POINTS, RecentPoints


def taken(count: int) -> RecentPoints:
    recent = RecentPoints()
    for n in range(count):
        recent.add((float(n), n, None, None))
    return recent


@given(st.integers(min_value=0, max_value=5000))
def test_the_law_of_thinning(count: int) -> None:
    points = taken(count).points
    steps = [step for _, step, *_ in points]
    assert len(points) <= MAX_POINTS
    assert steps == sorted(set(steps))
    if count:
        assert (steps[0], steps[-1]) == (0, count - 1)
    # No part of the past is forgotten: gaps are even, but for the newest point.
    gaps = [b - a for a, b in pairwise(steps)]
    assert not gaps or max(gaps[:-1], default=gaps[0]) == min(gaps[:-1], default=gaps[0])
    if count >= MAX_POINTS:
        assert len(points) >= MAX_POINTS // 2


def test_few_points_are_all_kept() -> None:
    assert [step for _, step, *_ in taken(100).points] == list(range(100))


def test_asking_changes_nothing() -> None:
    recent = taken(777)
    assert recent.points == recent.points
    recent.points.clear()
    assert recent.points
