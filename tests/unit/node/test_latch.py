"""When a fact is said, and when it is taken back: laws over any sequence of looks."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lastbeat.training.node.judging import Latch

RAISE_S, CLEAR_S = 120.0, 600.0
looks = st.lists(
    st.tuples(st.floats(1, 400), st.sampled_from([True, False, None])), min_size=1, max_size=60
)  # seconds since the look before, and what it showed


def told(sequence: list[tuple[float, bool | None]]) -> list[tuple[float, bool | None, bool]]:
    """Time, what was seen and what was said, look by look."""
    latch, now, found = Latch(RAISE_S, CLEAR_S), 0.0, []
    for span_s, holds in sequence:
        now += span_s
        found.append((now, holds, latch.update(holds, now)))
    return found


@given(looks)
def test_what_nobody_has_seen_for_long_enough_is_never_said(sequence: list[tuple[float, bool | None]]) -> None:
    found = told(sequence)
    for place, (now, _, said) in enumerate(found):
        if said and not (place and found[place - 1][2]):
            since = [(at, holds) for at, holds, _ in found[: place + 1] if now - at <= RAISE_S]
            assert all(holds is True for _, holds in since)


@given(looks)
def test_it_is_said_no_more_often_than_its_spans_allow(sequence: list[tuple[float, bool | None]]) -> None:
    found = told(sequence)
    raised = [now for (_, _, before), (now, _, said) in pairwise([(0.0, None, False), *found]) if said and not before]
    assert all(later - earlier >= RAISE_S + CLEAR_S for earlier, later in pairwise(raised))


@given(st.lists(st.floats(1, 10_000), min_size=1, max_size=60))
def test_what_is_not_known_raises_nothing_and_clears_nothing(spans: list[float]) -> None:
    assert not any(said for _, _, said in told([(span, None) for span in spans]))
    raised = told([(1.0, True), (RAISE_S, True), *((span, None) for span in spans)])
    assert all(said for _, _, said in raised[1:])


@given(looks)
def test_what_holds_long_enough_is_said_and_what_is_over_long_enough_is_not(
    sequence: list[tuple[float, bool | None]],
) -> None:
    assert told([*sequence, (1.0, True), (RAISE_S + 1, True)])[-1][2]
    assert not told([*sequence, (1.0, False), (CLEAR_S + 1, False)])[-1][2]


def test_since_when_is_told_from_the_beginning() -> None:
    latch = Latch(60.0, 60.0)
    for now in (10.0, 40.0, 70.0):
        latch.update(True, now)
    assert latch.since == 10.0
