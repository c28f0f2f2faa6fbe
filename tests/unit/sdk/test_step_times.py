"""How long steps take, as training tells it, and the windows that the beat thread makes of it."""

import threading
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.stragglers import RankWindow
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.step_times import MOST_STEPS, StepTimes, StepWindows
from support.there import there

SPANS = st.lists(st.tuples(st.floats(0.001, 9), st.floats(0, 0.3), st.floats(0, 0.3), st.floats(0, 0.3)), max_size=40)
"""Of each step: how long it takes, and which parts of that are compute, a collective in it, and one outside."""


def tell(times: StepTimes, spans: list[tuple[float, float, float, float]], at: float = 100.0) -> float:
    """Tell of these steps; when the last one ended."""
    for step_s, compute, within, outside in spans:
        if compute:
            times.enter()
            if within:
                times.waited(step_s * compute * within)
            times.leave(step_s * compute)
        if outside:
            times.waited(step_s * outside)
        at += step_s
        times.step(at)
    return at


def windows(times: StepTimes, every: int = 1) -> StepWindows:
    return StepWindows(times, 3, "n3", every)


def told(times: StepTimes) -> RankWindow:
    return there(windows(times).close())


@given(SPANS, st.booleans(), st.integers(1, 7))
def test_a_window_is_that_of_brute_force(
    spans: list[tuple[float, float, float, float]], hears: bool, every: int
) -> None:
    times = StepTimes(every)
    times.hears_collectives = hears
    made = windows(times, every)
    tell(times, spans)
    window = made.close()
    # The first call of run.step ends a step of which nobody knows when it began.
    counted = [each for number, each in enumerate(spans) if number and number % every == 0]
    if len(counted) < 3:
        assert window is None
        return
    assert window is not None
    assert window.step_s == pytest.approx(median(step_s for step_s, *_ in counted))
    computed = [step_s * compute * (1 - within) for step_s, compute, within, _ in counted if compute]
    left = [
        step_s * (1 - outside - (compute * within if compute else 0)) for step_s, compute, within, outside in counted
    ]
    if len(computed) >= 3:
        basis, own_s = "compute", median(computed)
    elif hears:
        basis, own_s = "outside_collectives", median(left)
    else:
        basis, own_s = "step", window.step_s
    assert window.basis == basis
    assert window.own_s == pytest.approx(own_s, abs=1e-8)


def test_the_best_window_is_kept_for_each_kind_of_time() -> None:
    times = StepTimes()
    made = windows(times)
    seen = []
    at = 0.0
    for step_s, compute in ((1.0, 0.5), (2.0, 0.5), (0.5, 0.0), (1.0, 0.4), (3.0, 0.0)):
        at = tell(times, [(step_s, compute, 0.0, 0.0)] * 9, at)
        window = there(made.close())
        seen.append((window.number, window.basis, window.best_step_s, round(window.best_own_s, 6)))
    assert seen == [
        (1, "compute", 1.0, 0.5),
        (2, "compute", 1.0, 0.5),
        (3, "step", 0.5, 0.5),
        (4, "compute", 0.5, 0.4),
        (5, "step", 0.5, 0.5),
    ]


def test_a_window_with_too_few_steps_goes_on_until_it_has_enough() -> None:
    times = StepTimes()
    made = windows(times)
    seen = []
    at = 0.0
    # The first call of run.step ends a step of which nothing is known.
    for steps in (2, 1, 1, 2, 1, 9):
        at = tell(times, [(100.0, 0.7, 0.0, 0.0)] * steps, at)
        window = made.close()
        seen.append(window and (window.number, window.steps, round(window.own_s, 6)))
    assert seen == [None, None, (1, 3, 70.0), None, (2, 3, 70.0), (3, 9, 70.0)]


def test_what_training_told_of_its_present_step_counts_for_the_next_window() -> None:
    times = StepTimes()
    made = windows(times)
    at = tell(times, [(1.0, 0.0, 0.0, 0.0)] * 9)
    times.hears_collectives = True
    times.waited(0.75)
    made.close()
    at += 1.0
    times.step(at)
    tell(times, [(1.0, 0.0, 0.0, 0.75)] * 8, at)
    window = there(made.close())
    assert (window.steps, window.own_s) == (9, 0.25)


def test_steps_without_number_and_beats_that_never_come_cost_no_memory() -> None:
    times = StepTimes()
    made = windows(times)
    for _ in range(20):
        tell(times, [(0.001, 0.5, 0.1, 0.1)] * 5000)
        made.gather()
    window = there(made.close())
    assert window.steps <= MOST_STEPS
    assert window.own_s == pytest.approx(0.00045)
    tell(times, [(0.001, 0.5, 0.1, 0.1)] * 50_000)
    assert max(len(times.ends), len(times.own), len(times.waits)) <= 8192


def test_training_goes_on_telling_while_its_steps_are_summed_up() -> None:
    times = StepTimes()
    made, done = windows(times), threading.Event()

    def train() -> None:
        tell(times, [(1.0, 0.5, 0.0, 0.0)] * 50_000)
        done.set()

    thread = threading.Thread(target=train)
    thread.start()
    while not done.is_set():
        made.gather()
    thread.join()
    window = there(made.close())
    assert (window.step_s, window.own_s) == (1.0, 0.5)


def test_the_section_compute_of_a_run_is_what_counts() -> None:
    run = Run("r", None)
    run.sections.steps = times = StepTimes()
    for step in range(9):
        with run.section("data"):
            pass
        with run.section("compute"):
            assert times.inside == 1
        run.step(step)
    assert times.inside == 0
    assert told(times).basis == "compute"


def test_a_timer_takes_the_place_of_the_host_clock() -> None:
    class Timer:
        def __init__(self) -> None:
            self.calls: list[str] = []

        def begin(self) -> None:
            self.calls.append("begin")

        def end(self) -> None:
            self.calls.append("end")

    run, timer = Run("r", None), Timer()
    run.sections.steps = times = StepTimes()
    times.timer = timer
    with run.section("compute"):
        pass
    assert (timer.calls, len(times.own)) == (["begin", "end"], 0)
