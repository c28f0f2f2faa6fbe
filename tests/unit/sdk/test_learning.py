"""What a rank sees of its sections, and what rank 0 makes of what all of them tell."""

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from lastbeat.model import runid
from lastbeat.model.learned_limits import (
    BETWEEN,
    MOST_SPANS,
    OUTSIDE,
    STARTING,
    LearnedLimit,
    LearnedState,
    SpanKey,
    Taken,
    encode_state,
    read_state,
    taken_fields,
)
from lastbeat.stores.port import DeniedError, UnreachableError
from lastbeat.training.sdk.beat_tasks import Beat
from lastbeat.training.sdk.learning import Learning, SpanTimes, with_learned
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.sections import SectionLimits
from support.memory import MemoryStore
from support.reporting import start
from support.there import there

STATE = f"r/{runid.LEARNED}"
SAVING, STEPPING = SpanKey("section", "checkpointing"), SpanKey("section", "step")


def training(learning: Learning, **times: float) -> Run:
    """A run that has been 16 times in each of these sections, for so long at most."""
    run = Run("r", None)
    learning.begin(start(run))
    spend(run, **times)
    return run


def spend(run: Run, **times: float) -> None:
    assert run.sections.times is not None
    for name, seconds in times.items():
        for _ in range(16):
            run.sections.times.add(SpanKey("section", name), seconds)


def beat(run: Run, store: MemoryStore, attempt: int = 1, *, ending: bool = False) -> Beat:
    return Beat(run, store, "r/", 0.0, ("_complete", "") if ending else None, f"start {attempt}", attempt)


def rank(store: MemoryStore, number: int, attempt: int = 1, sections: Any = (), **times: float) -> None:
    taken = {SpanKey("section", name): Taken(16, seconds) for name, seconds in times.items()}
    document = {"rank": number, "attempt": attempt, "status": "running", "section_times": taken_fields(taken)}
    store.write(f"r/ranks/{number}.json", json.dumps({**document, "sections": sections}).encode())


def kept(store: MemoryStore) -> LearnedState:
    return there(read_state(store.held[STATE].body))


def limits(run: Run) -> dict[str, float]:
    return dict(run.sections.limits.sections)


def test_of_the_first_steps_nothing_is_learned_and_of_each_save_it_is() -> None:
    times = SpanTimes()
    for seconds in (90.0, 40.0, 30.0, 2.0, 3.0):
        times.add(STEPPING, seconds)
        times.add(OUTSIDE, seconds)
        times.add(SAVING, seconds)
    assert times.taken() == {STEPPING: Taken(2, 3.0), OUTSIDE: Taken(2, 3.0), SAVING: Taken(5, 90.0)}


def test_many_names_and_threads_cost_no_memory() -> None:
    times = SpanTimes()

    def many(first: int) -> None:
        for number in range(first, first + 5_000):
            times.add(SpanKey("section", f"name {number}"), 1.0)
            times.add(SAVING, 1.0)

    threads = [threading.Thread(target=many, args=(each * 5_000,)) for each in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(times.taken()) <= MOST_SPANS + len(threads)


def test_the_time_of_a_run_is_counted_as_what_its_limit_is_of() -> None:
    run = training(Learning(SectionLimits()))
    times = there(run.sections.times)
    with run.section("setup"):
        run.step(0)
    for step in range(8):
        run.step(step)
    assert times.taken().keys() == {STARTING, SpanKey("section", "setup"), BETWEEN}
    with run.section("step"):
        run.step(9)
    for step in range(8):
        run.step(step)
    assert OUTSIDE in times.taken(), "once it has a section of that name"


def test_rank_0_learns_from_all_ranks_and_the_next_attempt_begins_with_that() -> None:
    store, learning = MemoryStore(), Learning(SectionLimits())
    run = training(learning, checkpointing=100.0)
    rank(store, 0, checkpointing=9000.0)
    rank(store, 3, checkpointing=130.0, loading=20.0)
    learning.write(beat(run, store))
    assert limits(run) == {"checkpointing": 650.0, "loading": 100.0}
    assert run.sections.limits.usual_s == {SAVING: 130.0, SpanKey("section", "loading"): 20.0}

    again = Learning(SectionLimits())
    run = training(again)
    again.write(beat(run, store, 2))
    assert limits(run) == {"checkpointing": 650.0, "loading": 100.0}, "and no evidence of the last attempt counts twice"
    spend(run, checkpointing=70.0)
    again.write(beat(run, store, 2, ending=True))
    assert limits(run)["checkpointing"] == 500.0
    again.write(beat(run, store, 2, ending=True))
    assert kept(store).learned[SAVING].limit_s == 500.0, "however often it is learned from"


def test_a_run_that_is_killed_after_minutes_has_kept_what_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    store, learning = MemoryStore(), Learning(SectionLimits())
    run, now = training(learning), 1000.0
    monkeypatch.setattr("lastbeat.training.sdk.learning.time.monotonic", lambda: now)
    learning.write(beat(run, store))
    spend(run, checkpointing=100.0)
    rank(store, 3, checkpointing=130.0)
    kept_at = []
    for now in (1030.0, 1060.0, 1090.0, 1330.0, 1360.0):
        before = len(store.calls)
        learning.write(beat(run, store))
        if len(store.calls) > before:
            kept_at.append(now)
    assert kept_at == [1060.0, 1360.0]
    assert kept(store).learned[SAVING].limit_s == 650.0


def test_a_rank_takes_what_rank_0_has_learned() -> None:
    store, leader, follower = MemoryStore(), Learning(SectionLimits()), Learning(SectionLimits(), every_s=0.0)
    run = training(follower, checkpointing=1.0)
    follower.follow(beat(run, store))
    assert limits(run) == {}
    leader.write(beat(training(leader, checkpointing=130.0), store))
    follower.follow(replace(beat(run, store), has_heartbeat=False))
    assert limits(run) == {}, "it reads no more often than it writes"
    follower.follow(beat(run, store))
    assert limits(run) == {"checkpointing": 650.0}


BY_HAND = [
    pytest.param(SectionLimits(), {"checkpointing": 650.0, "step": 60.0}, 90.0, 2000.0, id="nothing is said by hand"),
    pytest.param(SectionLimits({"step": 7.0}, 300.0, 1800.0), {"checkpointing": 650.0, "step": 7.0}, 90.0, 2000.0,
                 id="a section has a limit by hand"),
    pytest.param(SectionLimits({}, 44.0, 1800.0, outside_by_hand=True), {"checkpointing": 650.0, "step": 60.0}, 44.0,
                 1800.0, id="the time out of all sections has one"),
    pytest.param(SectionLimits(outside_by_hand=True), {"checkpointing": 650.0, "step": 60.0}, None, None,
                 id="it is not to be watched"),
]  # fmt: skip


@pytest.mark.parametrize(("by_hand", "sections", "outside", "starting"), BY_HAND)
def test_what_is_said_by_hand_outranks_what_is_learned(
    by_hand: SectionLimits, sections: dict[str, float], outside: float | None, starting: float | None
) -> None:
    known = {
        SAVING: LearnedLimit(Taken(16, 130.0), 650.0),
        STEPPING: LearnedLimit(Taken(99, 2.0), 60.0),
        OUTSIDE: LearnedLimit(Taken(99, 3.0), 90.0),
        STARTING: LearnedLimit(Taken(16, 400.0), 2000.0),
        BETWEEN: LearnedLimit(Taken(99, 9.0), 45.0),
        SpanKey("section", "rare"): LearnedLimit(Taken(3, 400.0)),
    }
    found = with_learned(by_hand, known)
    assert (dict(found.sections), found.outside_s, found.starting_s) == (sections, outside, starting)


OPEN = {"name": "checkpointing", "open_s": 540.0}


def test_a_save_in_which_a_job_was_killed_teaches_how_long_it_takes_at_least() -> None:
    store, learning = MemoryStore(), Learning(SectionLimits())
    learning.take_over(json.dumps({"attempt": 1, "status": "running", "sections": [OPEN]}).encode())
    run = training(learning, checkpointing=100.0)
    learning.write(beat(run, store, 2))
    assert limits(run) == {"checkpointing": 2700.0}


@pytest.mark.parametrize(
    ("attempt", "section"),
    [(1, {**OPEN, "limit_s": 300.0}), (0, OPEN), (1, {"name": "checkpointing", "open_s": "long"}), (1, 7)],
    ids=["it hung", "an older attempt", "no number", "no section"],
)
def test_what_teaches_nothing_of_a_save(attempt: int, section: object) -> None:
    store, learning = MemoryStore(), Learning(SectionLimits())
    run = training(learning, checkpointing=100.0)
    rank(store, 3, attempt, [section])
    learning.write(beat(run, store, 2))
    assert limits(run) == {"checkpointing": 500.0}


def test_a_rank_that_was_killed_teaches_too() -> None:
    store, learning = MemoryStore(), Learning(SectionLimits())
    run = training(learning, checkpointing=100.0)
    rank(store, 3, 1, [OPEN], checkpointing=9999.0)
    learning.write(beat(run, store, 2))
    assert limits(run) == {"checkpointing": 2700.0}


def test_a_person_has_it_forget_what_it_knew() -> None:
    store, learning = MemoryStore(), Learning(SectionLimits(), every_s=0.0)
    run = training(learning, checkpointing=100.0)
    learning.write(beat(run, store))
    store.write(STATE, encode_state(LearnedState(forgotten_at="now")))
    spend(run, loading=30.0)
    learning.write(beat(run, store))
    assert limits(run) == {}
    assert kept(store).forgotten_at == "now"
    spend(run, loading=30.0)
    learning.write(beat(run, store))
    assert limits(run) == {"loading": 150.0}, "what it sees from then on counts"


def test_what_a_person_has_applied_stays() -> None:
    store, learning = MemoryStore(), Learning(SectionLimits(), every_s=0.0)
    applied = LearnedState("start 0", {}, {SAVING: LearnedLimit(Taken(16, 50.0), 250.0)}, applied=True)
    store.write(STATE, encode_state(applied))
    run = training(learning, checkpointing=1000.0, loading=9.0)
    learning.write(beat(run, store))
    assert limits(run) == {"checkpointing": 250.0}
    assert kept(store).applied


def test_a_hostile_rank_file_is_not_read_and_one_that_is_no_json_tells_nothing() -> None:
    store, learning = MemoryStore(), Learning(SectionLimits())
    run = training(learning, checkpointing=100.0)
    store.write("r/ranks/1.json", b" " * 30_000_000)
    store.write("r/ranks/2.json", b"[" * 60_000)
    store.write("r/ranks/3.json", b'{"section_times": [{"kind": "section", "samples": 1e999}], "attempt": []}')
    rank(store, 4, checkpointing=120.0)
    learning.write(beat(run, store))
    assert limits(run) == {"checkpointing": 600.0}
    assert ("read", "r/ranks/1.json") not in store.calls


def test_a_store_that_fails_is_asked_again_and_limits_stay_as_they_are() -> None:
    store, learning = MemoryStore(), Learning(SectionLimits(), every_s=0.0)
    run = training(learning, checkpointing=100.0)
    learning.write(beat(run, store))
    rank(store, 3, checkpointing=200.0)

    store.refuse(("list", "write"), UnreachableError("away"))
    with pytest.raises(UnreachableError):
        learning.write(beat(run, store))
    assert limits(run) == {"checkpointing": 500.0}
    store.heal()
    learning.write(beat(run, store))
    assert limits(run) == {"checkpointing": 1000.0}


def test_a_training_that_may_not_read_learns_for_itself() -> None:
    store, learning = MemoryStore(), Learning(SectionLimits(), every_s=0.0)
    run = training(learning, checkpointing=100.0)

    store.refuse(("read", "list"), DeniedError("no"))
    for longest_s in (100.0, 120.0):
        spend(run, checkpointing=longest_s)
        learning.write(beat(run, store))
        assert limits(run) == {"checkpointing": 5 * longest_s}
        assert kept(store).learned[SAVING].limit_s == 5 * longest_s, "for people to see"
