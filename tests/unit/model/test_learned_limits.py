"""Limits that a run learns: against the rule done by hand, and laws that hold for any history."""

import json
import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.learned_limits import (
    BETWEEN,
    CEILING_S,
    FACTOR,
    FLOOR_S,
    LEAST_OF_A_RANK,
    LEAST_SAMPLES,
    LIMIT_BYTES,
    MOST_SPANS,
    OUTSIDE,
    STARTING,
    LearnedLimit,
    LearnedState,
    SpanKey,
    Taken,
    encode_state,
    learned,
    read_state,
    read_taken,
    taken_fields,
    together,
)

SAVING = SpanKey("section", "checkpointing")


def test_a_job_that_was_killed_at_nine_minutes_teaches_at_least_nine() -> None:
    assert learned({}, {SAVING: Taken(16, 60.0, 540.0)})[SAVING].limit_s == 2700.0


def test_out_of_sections_an_attempt_has_to_have_ended_before_less_than_half_an_hour_counts() -> None:
    first = learned({}, {BETWEEN: Taken(5000, 0.4), OUTSIDE: Taken(500, 700.0)})
    assert (first[BETWEEN].limit_s, first[OUTSIDE].limit_s) == (1800.0, 3500.0)
    second = learned(first, {BETWEEN: Taken(5000, 0.4)})
    assert second[BETWEEN].limit_s == 930.0


def test_what_all_ranks_do_together_is_seen_once() -> None:
    first = together([{SAVING: Taken(1, 20.0)}] * 128)
    assert learned({}, first)[SAVING] == LearnedLimit(Taken(128, 20.0, of_a_rank=1)), "128 ranks, and one save"
    fourth = together([{SAVING: Taken(4, 20.0)}] * 128)
    assert learned({}, fourth)[SAVING].limit_s == 100.0
    known: dict[SpanKey, LearnedLimit] = {}
    for _ in range(4):
        assert SAVING not in known or known[SAVING].limit_s is None
        known = learned(known, first)
    assert known[SAVING].limit_s == 100.0, "four attempts have seen one each"


SECONDS = st.floats(0.001, 20_000.0)
SPANS = st.lists(SECONDS, min_size=1, max_size=40)


@given(st.lists(st.lists(SPANS, min_size=1, max_size=4), min_size=1, max_size=5))
def test_as_brute_force_has_it(attempts: list[list[list[float]]]) -> None:
    """``attempts``: of each its ranks, of each rank its spans."""
    known: dict[SpanKey, LearnedLimit] = {}
    limit, carried = None, list[Fraction]()
    seen = of_a_rank = 0
    for ranks in attempts:
        told = [{SAVING: Taken(len(spans), max(spans))} for spans in ranks]
        known = learned(known, together(told))
        everything = [Fraction(span) for spans in ranks for span in spans]
        most = max(len(spans) for spans in ranks)
        seen, of_a_rank = seen + len(everything), of_a_rank + most
        alone = len(everything) >= LEAST_SAMPLES and most >= LEAST_OF_A_RANK
        carried = everything if alone else carried + everything
        if seen >= LEAST_SAMPLES and of_a_rank >= LEAST_OF_A_RANK:
            own = min(max(int(FACTOR) * max(carried), Fraction(FLOOR_S)), Fraction(CEILING_S))
            limit = own if limit is None else (own + limit) / 2
            limit = limit if limit >= max(carried) * 3 / 2 else None
        found = known[SAVING].limit_s
        assert (found is None) == (limit is None)
        if limit is not None and found is not None:
            assert math.isclose(found, float(limit), rel_tol=1e-9)


@given(SPANS, SPANS)
def test_a_repeat_of_this_attempt_or_the_one_before_it_is_never_late(first: list[float], second: list[float]) -> None:
    known: dict[SpanKey, LearnedLimit] = {}
    for spans in (first, second):
        known = learned(known, {SAVING: Taken(len(spans), max(spans))})
    limit_s = known[SAVING].limit_s
    if limit_s is not None:
        assert limit_s >= 1.5 * max(second)
        assert FLOOR_S <= limit_s <= CEILING_S
        if 5 * max(first) <= CEILING_S and len(first) >= LEAST_SAMPLES:
            assert limit_s >= max(first)


@given(st.lists(st.tuples(st.integers(0, 9), SECONDS, SECONDS), max_size=9))
def test_ranks_may_be_told_of_in_any_order(ranks: list[tuple[int, float, float]]) -> None:
    told = [{OUTSIDE: Taken(*each)} for each in ranks]
    assert together(told) == together(reversed(told))


KEYS = st.one_of(
    st.just(BETWEEN),
    st.just(OUTSIDE),
    st.just(STARTING),
    st.builds(lambda n: SpanKey("section", n), st.text(max_size=60)),
)


@given(
    st.dictionaries(
        KEYS, st.builds(Taken, st.integers(1, 1 << 40), SECONDS, st.just(0.0), st.none() | st.just(0)), max_size=12
    )
)
def test_what_is_written_is_read_again(times: dict[SpanKey, Taken]) -> None:
    assert read_taken(json.loads(json.dumps(taken_fields(times)))).keys() == times.keys()
    state = LearnedState("2026-11-23T08:00:00.000Z", {}, learned({}, times), applied=True, forgotten_at="then")
    again = read_state(encode_state(state))
    assert again is not None
    assert (again.attempt, again.applied, again.forgotten_at) == (state.attempt, True, "then")
    for key, known in state.learned.items():
        found = again.learned[key]
        assert (found.taken.samples, found.taken.most) == (known.taken.samples, known.taken.most)
        assert (found.limit_s is None) == (known.limit_s is None)
        assert found.limit_s is None or known.limit_s is None or abs(found.limit_s - known.limit_s) < 0.001


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(
        ["kind", "name", "samples", "of_a_rank", "longest_s", "limit_s", "learned", "before"]), inner, max_size=6),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
def test_a_hostile_file_teaches_nothing_that_is_no_limit(document: object) -> None:
    state = read_state(json.dumps(document).encode())
    for known in () if state is None else (*state.learned.values(), *state.before.values()):
        assert known.limit_s is None or FLOOR_S <= known.limit_s <= CEILING_S
        assert 0 <= known.taken.longest_s < math.inf
    read_taken(document)


def test_what_is_no_state_is_none() -> None:
    assert read_state(b"{ torn") is None
    assert read_state(b"[" * 100_000) is None
    assert read_state(b"7") is None


def test_a_million_names_are_few_in_a_file() -> None:
    times = {SpanKey("section", f"{'x' * 500}{number}"): Taken(number, 1.0) for number in range(20_000)}
    assert len(taken_fields(times)) == MOST_SPANS
    known = learned({}, times)
    assert len(known) == MOST_SPANS
    assert len(encode_state(LearnedState("", known, known))) < LIMIT_BYTES
