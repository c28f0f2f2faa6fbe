"""``stale: learned``: a run whose own beats show that it is no more is TIMED_OUT before the fixed limit."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.policy import Policy
from lastbeat.watch.decide.freshness import learned_limit_s, silence_limit_s
from support.laws import examples
from support.memory import START
from support.world import World

MINUTE = 60.0
LEARNED = Policy(learned=True, learned_from="fleet limit for m-*")
HISTORY = {"beat_seconds": 30, "longest_gap_s": 35}


def silent(policy: Policy, fields: dict[str, Any], silent_s: float, *, progress: bool = True) -> World:
    world = World(policy)
    world.beat(**fields)
    if progress:
        world.progress(50)
    world.look()
    world.after(silent_s)
    return world


@pytest.mark.parametrize(
    ("policy", "fields", "silent_s", "status"),
    [
        pytest.param(LEARNED, HISTORY, 249, "RUNNING", id="it may miss eight beats"),
        pytest.param(LEARNED, HISTORY, 252, "TIMED_OUT", id="and no more"),
        pytest.param(Policy(), HISTORY, 252, "RUNNING", id="where nobody chose that, the fixed limit holds"),
        pytest.param(LEARNED, {"beat_seconds": 30}, 9 * MINUTE, "RUNNING", id="without a longest gap it does, too"),
        pytest.param(LEARNED, {"longest_gap_s": 35}, 9 * MINUTE, "RUNNING", id="or without saying how often it beats"),
        pytest.param(LEARNED, {}, 601, "TIMED_OUT", id="and then it decides"),
        pytest.param(LEARNED, {"beat_seconds": 1, "longest_gap_s": 1}, 119, "RUNNING", id="two minutes are the least"),
        pytest.param(LEARNED, {"beat_seconds": 1, "longest_gap_s": 1}, 121, "TIMED_OUT", id="for who beats often, too"),
        pytest.param(LEARNED, {"beat_seconds": 30, "longest_gap_s": 120}, 480, "RUNNING",
                     id="four times a gap that it had before are allowed"),
        pytest.param(LEARNED, {"beat_seconds": 30, "longest_gap_s": 120}, 492, "TIMED_OUT", id="and no more than that"),
        pytest.param(LEARNED, {"beat_seconds": 30, "longest_gap_s": 3000}, 601, "TIMED_OUT",
                     id="never later than the fixed limit"),
        pytest.param(LEARNED, {**HISTORY, "stale_minutes": 8}, 470, "RUNNING",
                     id="its own limit outranks what is learned"),
        pytest.param(LEARNED, {**HISTORY, "start_time": "2026-01-01T11:56:00Z"}, 9 * MINUTE, "RUNNING",
                     id="a run that began a moment ago has no history"),
        pytest.param(LEARNED, {**HISTORY, "start_time": "2026-01-01T11:54:00Z"}, 252, "TIMED_OUT",
                     id="one that has beaten ten times has"),
    ],
)  # fmt: skip
def test_silence(policy: Policy, fields: dict[str, Any], silent_s: float, status: str) -> None:
    assert silent(policy, fields, silent_s).look().status.value == status


def test_the_reason_says_which_limit_and_why_and_the_record_keeps_it() -> None:
    outcome = silent(LEARNED, HISTORY, 252).look()
    assert outcome.reason == (
        "Both heartbeats stale (>4m 10s, learned from its beats: beats each 30s, 35s apart at most)"
    )
    assert outcome.record is not None
    assert outcome.record.exceeded is not None
    exceeded = outcome.record.exceeded
    assert (exceeded.name.value, exceeded.limit_s) == ("stale", 250.0)
    assert exceeded.source == "learned from its beats, fleet limit for m-*"


def test_progress_is_a_sign_of_life() -> None:
    world = silent(LEARNED, HISTORY, 200)
    world.progress(51)
    world.after(100)
    assert world.look().status.value == "RUNNING"


def test_it_is_recovered_by_a_beat_and_not_by_a_watcher_that_does_not_learn() -> None:
    world = silent(LEARNED, HISTORY, 252)
    assert world.look().status.value == "TIMED_OUT"
    world.policy = Policy()
    assert world.look().status.value == "TIMED_OUT"
    world.beat(**HISTORY)
    assert world.look().status.value == "RUNNING"


SPANS = st.none() | st.floats(0.1, 5000.0)


@settings(max_examples=examples(40, 5000))
@given(beat_s=SPANS, gap_s=SPANS, silent_s=st.floats(0.0, 4000.0), stale_s=st.sampled_from([60.0, 600.0, 3600.0]))
def test_what_is_learned_is_never_later_than_the_fixed_limit_nor_sooner_than_its_history(
    beat_s: float | None, gap_s: float | None, silent_s: float, stale_s: float
) -> None:
    fields = {name: span for name, span in (("beat_seconds", beat_s), ("longest_gap_s", gap_s)) if span is not None}
    silent_s = float(int(silent_s))
    fixed = silent(Policy(stale_s=stale_s), fields, silent_s).look()
    learned = silent(Policy(stale_s=stale_s, learned=True), fields, silent_s).look()
    if fixed.status.value == "TIMED_OUT":
        assert (learned.status, learned.reason) == (fixed.status, fixed.reason)
    elif learned.status.value == "TIMED_OUT":
        assert beat_s is not None
        assert gap_s is not None
        assert silent_s > max(120.0, 8 * beat_s, 4 * gap_s)
        assert "beats_missed" in fixed.conditions, "it was a warning before"
    else:
        assert learned.conditions == fixed.conditions


@given(beat_s=SPANS, gap_s=SPANS)
def test_what_is_learned_comes_after_the_warning(beat_s: float | None, gap_s: float | None) -> None:
    beat = Heartbeat(modified=START, version="1", beat_s=beat_s, longest_gap_s=gap_s)
    warning_s, learned_s = silence_limit_s(beat), learned_limit_s(beat)
    assert learned_s is None or (warning_s is not None and learned_s > warning_s)
