"""Sections of a training: what is told of those that are open, whatever training does with them."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from enum import Enum
from time import monotonic

import pytest

from lastbeat.training.sdk.learning import SpanTimes
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.sections import (
    MOST_NAMES,
    MOST_OPEN,
    MOST_TOLD,
    PhaseSection,
    Section,
    SectionLimits,
    Sections,
    section_fields,
)


@pytest.fixture
def run() -> Run:
    return Run("run-1", None)


def told(run: Run) -> list[str | None]:
    return [span.name for span in run.sections.spans()]


def test_sections_are_told_while_they_are_open_from_the_outermost_and_an_exception_leaves_them(run: Run) -> None:
    assert told(run) == [], "a run without sections tells nothing of them"
    with suppress(KeyError), run.section("step"), run.section("checkpointing"):
        assert told(run) == ["step", "checkpointing"]
        outer, inner = run.sections.spans()
        assert outer.open_s >= inner.open_s >= 0.0
        raise KeyError
    assert told(run) == [None]


def test_one_that_is_entered_again_is_open_until_it_was_left_as_often(run: Run) -> None:
    section = run.section("step")
    with section:
        with section:
            pass
        assert told(run) == ["step"]
    assert told(run) == [None]


def test_it_decorates_functions_and_what_they_return(run: Run) -> None:
    seen: list[list[str | None]] = []

    @run.section("eval")
    def evaluate(depth: int, *, scale: int = 2) -> int:
        """Documented."""
        seen.append(told(run))
        return depth * scale if depth < 2 else evaluate(depth - 1, scale=scale)

    assert (evaluate(2, scale=5), evaluate.__name__, evaluate.__doc__) == (5, "evaluate", "Documented.")
    assert seen == [["eval"], ["eval", "eval"]]
    assert told(run) == [None]


def test_an_async_function_and_a_generator_are_in_it_until_they_are_done(run: Run) -> None:
    @run.section("upload")
    async def upload() -> list[str | None]:
        await asyncio.sleep(0)
        return told(run)

    @run.section("data")
    def batches() -> Iterator[int]:
        yield 1
        yield 2

    assert asyncio.run(upload()) == ["upload"]
    numbers = batches()
    assert told(run) == [None]
    assert next(numbers) == 1
    assert told(run) == ["data"]
    assert list(numbers) == [2]
    assert told(run) == [None]


def test_threads_have_sections_of_their_own(run: Run) -> None:
    entered, leave = threading.Event(), threading.Event()

    def write() -> None:
        with run.section("writing"):
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=write)
    thread.start()
    entered.wait(30)
    with run.section("step"):
        assert told(run) == ["writing", "step"]
    assert told(run) == ["writing"]
    leave.set()
    thread.join()
    assert told(run) == [None]


class Phase(str, Enum):
    STEP = "step"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(Phase.STEP, "step", id="a text of a kind of its own"),
        pytest.param(7, "int", id="a number"),
        pytest.param(None, "NoneType", id="none"),
        pytest.param("x" * 100_000, "x" * 60, id="a very long one"),
        pytest.param("a\n\x1b[31m\ud800", "a\n\x1b[31m\ud800", id="one that a terminal would interpret"),
    ],
)
def test_any_name_will_do(run: Run, name: object, expected: str) -> None:
    with run.section(name):  # type: ignore[arg-type]
        (span,) = section_fields(run.sections.spans())["sections"]
    assert span["name"] == expected


def test_many_changes_and_names_take_no_more_room_than_a_few(run: Run) -> None:
    for number in range(20_000):
        with run.section(f"section {number}"):
            pass
    forgotten = [run.section("forgotten") for _ in range(10_000)]
    for section in forgotten:
        section.__enter__()
    assert len(run.sections.open) == MOST_OPEN
    assert len(run.sections.names) == MOST_NAMES
    assert len(run.sections.spans()) == MOST_TOLD


LIMITS = SectionLimits({"checkpointing": 60.0}, 300.0, 1800.0)


def limit(run: Run) -> float | None:
    (span,) = run.sections.spans()
    return span.limit_s


def test_which_limit_holds_when(run: Run) -> None:
    run.sections.limits = LIMITS
    assert limit(run) == 1800.0, "before the first step"
    with run.section("checkpointing"):
        assert limit(run) == 60.0
    with run.section("eval"):
        assert limit(run) is None, "a section without a limit may last for ever"
    run.step(1)
    assert limit(run) == 300.0


def test_steps_alone_tell_of_the_section_step(run: Run) -> None:
    run.sections.limits = SectionLimits({"step": 5.0}, 300.0, 1800.0)
    assert limit(run) == 1800.0
    run.step(1)
    assert (told(run), limit(run)) == (["step"], 5.0)
    with run.section("step"):
        assert limit(run) == 5.0
    assert (told(run), limit(run)) == ([None], 300.0), "now training has one of that name"


def test_a_step_and_the_end_of_a_section_begin_the_time_between_anew(run: Run) -> None:
    run.sections.limits = LIMITS

    def evaluate() -> None:
        with run.section("eval"):
            pass

    moves: list[Callable[[], None]] = [lambda: run.step(1), evaluate, lambda: run.log({"a": 1})]
    for move in moves:
        run.sections.marked -= 1000.0
        move()
        (span,) = run.sections.spans()
        assert span.open_s < 500.0


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(lambda run: setattr(run.sections, "limits", LIMITS), id="a limit"),
        pytest.param(lambda run: setattr(run.sections, "times", SpanTimes()), id="learning"),
        pytest.param(lambda run: run.section("eval"), id="a section"),
    ],
)
def test_what_times_steps_later_counts_from_then_and_sees_each_step(run: Run, begin: Callable[[Run], None]) -> None:
    run.step(1)
    run.sections.marked -= 1000.0
    begin(run)
    assert monotonic() - run.sections.marked < 500.0, "steps until now left no mark"
    run.sections.marked -= 1000.0
    run.step(2)
    assert monotonic() - run.sections.marked < 500.0


def test_before_the_first_step_the_time_counts_from_the_beginning(run: Run) -> None:
    run.sections.marked -= 1000.0
    run.sections.limits = LIMITS
    (span,) = run.sections.spans()
    assert span.open_s >= 1000.0


def test_a_late_section_is_told_however_many_others_are_open(run: Run) -> None:
    run.sections.limits = LIMITS
    for number in range(MOST_TOLD * 2):
        run.section(f"s{number}").__enter__()
    late = run.section("checkpointing")
    late.__enter__()
    run.sections.open[late] -= 61.0
    assert [span.name for span in run.sections.spans() if span.is_late] == ["checkpointing"]


def test_the_first_steps_of_an_attempt_compile_and_no_limit_that_was_learned_holds_for_them(run: Run) -> None:
    learned = SectionLimits({"step": 60.0, "checkpointing": 650.0}, usual_s={("section", "step"): 3.1})
    run.sections.limits, run.sections.times = learned, SpanTimes()

    def limit_of_a_step() -> float | None:
        with run.section("step"):
            return limit(run)

    assert [limit_of_a_step() for _ in range(5)] == [1800.0, 1800.0, 1800.0, 60.0, 60.0]
    run.sections.times.forget()
    with run.section("checkpointing"):
        assert limit(run) == 650.0, "a save does not compile"
    run.sections.limits = SectionLimits({"step": 60.0})
    assert limit_of_a_step() == 60.0, "a limit by hand holds at once"


def test_others_wait_for_a_section_whose_limit_is_yet_to_be_learned(run: Run) -> None:
    def awaited_s() -> float | None:
        with run.section("checkpointing"):
            (span,) = run.sections.spans()
            assert not span.is_late
            assert section_fields([span])["sections"][0].get("awaited_s") == span.awaited_s
            return span.awaited_s

    assert awaited_s() is None, "nothing is learned"
    run.sections.times = SpanTimes()
    assert awaited_s() == 1800.0
    run.sections.limits = SectionLimits(without=frozenset({"checkpointing"}))
    assert awaited_s() is None, "training says that it may last for ever"
    run.sections.limits = SectionLimits({"checkpointing": 420.0})
    assert awaited_s() is None, "it has a limit"


SAVES = SectionLimits({"step": 5.0, "checkpointing": 60.0, "evaluation": 90.0, "validation": 70.0})


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("saving", [("checkpointing", 60.0)]),
        ("saving checkpoint-400", [("checkpointing", 60.0)]),
        ("eval", [("evaluation", 90.0)]),
        ("validating", [("evaluation", 90.0)]),
        ("validation", [("validation", 70.0)]),
        ("epoch 2", [("step", 5.0)]),
        ("loading checkpoint", [("step", 5.0)]),
    ],
)
def test_a_phase_that_is_no_step_is_a_section(run: Run, phase: str, expected: list[tuple[str, float]]) -> None:
    run.sections.limits = SAVES
    run.step(1)
    run.set_phase(phase)
    assert [(span.name, span.limit_s) for span in run.sections.spans()] == expected


def _saves_after_a_step(run: Run) -> None:
    run.step(1)
    run.set_phase("saving")


@pytest.mark.parametrize(
    ("go_on", "expected"),
    [
        pytest.param(lambda run: run.set_phase("training"), "step", id="the next phase ends it"),
        pytest.param(lambda run: run.set_phase("evaluation"), "evaluation", id="the next section replaces it"),
        pytest.param(lambda run: run.set_phase("save"), "checkpointing", id="the same by another name goes on"),
        pytest.param(lambda run: run.step(2), "step", id="a new step ends it, though the phase has not changed"),
        pytest.param(lambda run: run.step(1), "checkpointing", id="a step that is reported once more does not"),
        pytest.param(lambda run: run.log(loss=1.0), "checkpointing", id="nor do numbers that are logged"),
        pytest.param(lambda run: run.set_phase(3), "step", id="a phase of another type is no section"),
    ],
)
def test_the_section_of_a_phase_ends_with_it(run: Run, go_on: Callable[[Run], None], expected: str) -> None:
    run.sections.limits = SAVES
    _saves_after_a_step(run)
    go_on(run)
    assert told(run) == [expected]


def test_the_same_phase_once_more_does_not_begin_its_time_anew(run: Run) -> None:
    run.sections.limits = SAVES
    _saves_after_a_step(run)
    for section in run.sections.open:
        run.sections.open[section] -= 1000.0
    run.set_phase("saving")
    (span,) = run.sections.spans()
    assert span.open_s > 500.0


def test_after_a_phase_that_is_a_section_the_time_of_the_step_begins_anew(run: Run) -> None:
    run.sections.limits = SAVES
    run.step(1)
    with run.phase("saving"):
        run.sections.marked -= 1000.0
    (span,) = run.sections.spans()
    assert (span.name, span.is_late) == ("step", False)


def test_limits_that_come_while_training_saves_count_for_the_save(run: Run) -> None:
    _saves_after_a_step(run)
    run.sections.limits = SAVES
    assert told(run) == ["checkpointing"]


def test_a_run_without_limits_and_sections_says_nothing_of_its_phases(run: Run) -> None:
    _saves_after_a_step(run)
    assert told(run) == []


def test_before_the_first_step_the_limit_for_starting_covers_an_evaluation_that_has_none(run: Run) -> None:
    run.sections.limits = SectionLimits({"step": 5.0}, starting_s=1800.0)
    run.set_phase("evaluation")
    assert [(span.name, span.limit_s) for span in run.sections.spans()] == [(None, 1800.0)]
    run.sections.limits = SectionLimits({"step": 5.0, "evaluation": 60.0}, starting_s=1800.0)
    run.set_phase("evaluation")
    assert [(span.name, span.limit_s) for span in run.sections.spans()] == [("evaluation", 60.0)]


@pytest.mark.parametrize(
    "enter",
    [
        pytest.param(lambda run: run.section("checkpointing"), id="a section"),
        pytest.param(lambda run: run.phase("saving"), id="a phase"),
    ],
)
def test_the_time_of_a_step_stands_still_while_training_saves_within_it(
    run: Run, enter: Callable[[Run], AbstractContextManager[None]]
) -> None:
    run.sections.limits = SAVES
    with run.section("step"):
        for section in run.sections.open:
            run.sections.open[section] -= 1000.0
        with enter(run):
            assert [span.limit_s for span in run.sections.spans() if span.name == "step"] == [None]
        (step,) = run.sections.spans()
        assert (step.name, step.is_late) == ("step", False), "its time begins anew"


def test_no_other_part_of_a_step_and_no_save_in_another_thread_stops_its_time(run: Run) -> None:
    run.sections.limits = SAVES
    saves, goes_on = threading.Event(), threading.Event()

    def save() -> None:
        with run.section("checkpointing"):
            saves.set()
            goes_on.wait(30.0)

    thread = threading.Thread(target=save)
    with run.section("step"), run.section("compute"):
        thread.start()
        saves.wait(30.0)
        assert [span.limit_s for span in run.sections.spans() if span.name == "step"] == [5.0]
        goes_on.set()
        thread.join()


def test_threads_that_change_the_phase_at_once_leave_no_section_open(run: Run) -> None:
    run.sections.limits = SAVES
    run.step(1)
    together = threading.Barrier(8)

    def change(names: tuple[str, str]) -> None:
        together.wait()
        for turn in range(200):
            run.set_phase(names[turn % 2])

    pairs = [("saving", "evaluation"), ("training", "saving")] * 4
    threads = [threading.Thread(target=change, args=(pair,)) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.set_phase("training")
    run.step(2)
    assert told(run) == ["step"]


def test_limits_that_come_after_the_section_of_a_phase_has_ended_do_not_open_it_again(run: Run) -> None:
    run.sections.limits = SAVES
    _saves_after_a_step(run)
    run.step(2)
    run.sections.limits = SAVES
    assert told(run) == ["step"]


def test_a_step_of_another_thread_that_ends_a_phase_as_it_begins_leaves_no_section_open(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter = Section.__enter__

    def late(section: Section) -> None:
        run.step(2)
        enter(section)

    run.sections.limits = SAVES
    run.step(1)
    monkeypatch.setattr(PhaseSection, "__enter__", late, raising=False)
    run.set_phase("saving")
    assert told(run) == ["step"]
    assert not run.sections.open


@pytest.mark.parametrize(
    ("go_on", "expected"),
    [
        pytest.param(lambda run: run.step(2), "step", id="a step"),
        pytest.param(lambda run: run.set_phase("training"), "step", id="the next phase"),
        pytest.param(lambda run: run.set_phase("evaluation"), "evaluation", id="the next section"),
    ],
)
def test_training_that_goes_on_while_limits_are_set_is_in_no_phase_of_before(
    run: Run, monkeypatch: pytest.MonkeyPatch, go_on: Callable[[Run], None], expected: str
) -> None:
    aside, late = Sections._aside, [go_on]  # the moment after the beat thread has read the phase

    def found(sections: Sections, name: object) -> str | None:
        if late:
            late.pop()(run)
        return aside(sections, name)

    _saves_after_a_step(run)
    monkeypatch.setattr(Sections, "_aside", found)
    run.sections.limits = SAVES
    assert told(run) == [expected]
