"""The state machine as a training loop sees it: its steps, its log, its state in checkpoints."""

import json
import logging
import math
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.rerun import (
    EXIT_CODE_FAILED_ON_RESULT_VALIDATION,
    EXIT_CODE_RESUME_TO_DISAMBIGUATE,
    RerunDataIterator,
    RerunStateMachine,
    get_rerun_state_machine,
)
from lastbeat.rerun.random_state import RandomState
from support.laws import examples
from support.rerun_steps import resumed, run_step

NAN, INF = math.nan, math.inf
NOTHING = (False, False, 0)
TO_OTHERS = (True, True, EXIT_CODE_RESUME_TO_DISAMBIGUATE)
AGAIN_TO_OTHERS = (False, True, EXIT_CODE_RESUME_TO_DISAMBIGUATE)
FAILED = (False, True, EXIT_CODE_FAILED_ON_RESULT_VALIDATION)


def machine(device: str = "GPU-1", **how: Any) -> RerunStateMachine:
    return RerunStateMachine(mode="validate_results", device=device, **how)


# Device and losses of each pass, then what training is told and the verdicts, for each job.
@pytest.mark.parametrize(
    "jobs",
    [
        pytest.param([("GPU-1", [2.5], NOTHING, "")], id="a good loss runs once"),
        pytest.param([("GPU-1", [NAN, 2.5], NOTHING, "transient_error")], id="NaN once is a transient error"),
        pytest.param([("GPU-1", [-INF, 2.5], NOTHING, "transient_error")], id="and negative Inf"),
        pytest.param([("GPU-1", [NAN, NAN], TO_OTHERS, "reproduced"), ("GPU-2", [2.5], FAILED, "persistent_error")],
                     id="NaN on one device alone is a persistent error"),
        pytest.param([("GPU-1", [NAN, NAN], TO_OTHERS, "reproduced"), ("GPU-2", [NAN], NOTHING, "correct_result")],
                     id="NaN on two devices is a correct result, and training goes on"),
        pytest.param([("GPU-1", [NAN, NAN], TO_OTHERS, "reproduced"),
                      ("GPU-1", [NAN], AGAIN_TO_OTHERS, "same_device"),
                      ("GPU-1", [2.5], AGAIN_TO_OTHERS, "same_device"), ("GPU-2", [2.5], FAILED, "persistent_error")],
                     id="the same device is no other hardware, however often"),
        pytest.param([("GPU-1", [NAN, INF], TO_OTHERS, "reproduced"), ("GPU-2", [NAN], NOTHING, "correct_result")],
                     id="two bad results that differ are no good one"),
    ],
)  # fmt: skip
def test_each_path_from_its_first_pass_to_its_verdict(
    jobs: Sequence[tuple[str, list[float], tuple[bool, bool, int], str]],
) -> None:
    state: dict[str, Any] | None = None
    for device, losses, leaves, verdict in jobs:
        training = machine(device) if state is None else resumed(state, device)
        seen = run_step(training, losses)
        assert (seen.passes, seen.leaves, " ".join(seen.verdicts)) == (len(losses), leaves, verdict)
        # Where there is no new checkpoint, the next job begins with the one before.
        state = training.state_dict() if leaves[0] else state


DOCUMENTED = {
    "transient": [
        "Unexpected result nan on rank 0 at iteration #1 invocation #1 (message='loss is NaN')",
        "First rerun: unexpected result is not reproducible within the tolerance",
        "Possible transient error!",
    ],
    "persistent": [
        "Unexpected result nan on rank 0 at iteration #1 invocation #1 (message='loss is NaN')",
        "First rerun: unexpected result is reproducible within the tolerance",
        "Need to rerun on a different GPU to verify correctness",
        "Second rerun: unexpected result is not reproducible on a different GPU, therefore was likely incorrect",
        "Possible persistent error!",
    ],
    "correct": [
        "Unexpected result nan on rank 0 at iteration #1 invocation #1 (message='loss is NaN')",
        "First rerun: unexpected result is reproducible within the tolerance",
        "Need to rerun on a different GPU to verify correctness",
        "Second rerun: unexpected result is reproducible on a different GPU, therefore it was likely correct",
        "Correct result (but possible Application error)",
    ],
}
"""The lines that Megatron's documentation shows for each case, in their order."""


@pytest.mark.parametrize(
    ("case", "again", "elsewhere"), [("transient", 2.5, 0), ("persistent", NAN, 2.5), ("correct", NAN, NAN)]
)
def test_the_log_has_the_lines_that_people_know_from_megatron(
    case: str, again: float, elsewhere: float, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lastbeat")
    training = machine()
    run_step(training, [2.5])
    if run_step(training, [NAN, again]).leaves[1]:
        run_step(resumed(training.state_dict(), "GPU-2"), [elsewhere])
    said = iter(caplog.messages)
    for line in DOCUMENTED[case]:
        assert any(line in each for each in said), f"{line!r} is missing in {caplog.messages}"


@pytest.mark.parametrize(
    ("how", "losses", "passes"),
    [
        pytest.param({"check_for_nan_in_loss": False}, [NAN], 1, id="NaN where it is not looked for"),
        pytest.param({}, [1e30], 1, id="a spike where it is not looked for"),
        pytest.param({"check_for_spiky_loss": True}, [1e30, 2.5], 2, id="a spike"),
        pytest.param({"check_for_spiky_loss": True, "spike_factor": 3.0}, [24.0, 2.5], 2, id="above a factor by hand"),
    ],
)
def test_what_is_a_bad_loss(how: dict[str, Any], losses: list[float], passes: int) -> None:
    training = machine(**how)
    for _ in range(20):
        run_step(training, [2.5])
    assert run_step(training, losses).passes == passes


def test_a_spike_is_the_same_result_within_the_tolerance() -> None:
    training = machine(check_for_spiky_loss=True, tolerance=1e-3)
    for _ in range(20):
        run_step(training, [1.0])
    assert run_step(training, [10.001, 9.999]).verdicts == ("reproduced",), "it is good only by a hair"
    training = machine(check_for_spiky_loss=True)
    for _ in range(20):
        run_step(training, [1.0])
    assert run_step(training, [10.001, 9.999]).verdicts == ("transient_error",)


def test_a_loss_that_maths_make_bad_is_not_run_again_until_it_was_good() -> None:
    training = machine()
    run_step(training, [NAN, NAN])
    training = resumed(training.state_dict(), "GPU-2")
    assert run_step(training, [NAN]).verdicts == ("correct_result",)
    assert [run_step(training, [loss]).passes for loss in (NAN, NAN, 2.5)] == [1, 1, 1]
    assert run_step(training, [NAN, 2.5]).verdicts == ("transient_error",)


def test_a_fatal_one_ends_training_though_it_is_correct() -> None:
    training = machine()
    run_step(training, [NAN, NAN], fatal=True)
    assert run_step(resumed(training.state_dict(), "GPU-2"), [NAN]).leaves == FAILED


def test_a_training_that_goes_on_against_advice_is_not_run_twice_for_ever() -> None:
    training = machine()
    assert run_step(training, [NAN, NAN]).leaves == TO_OTHERS
    assert run_step(training, [NAN]).leaves == NOTHING


def test_results_of_any_kind_are_looked_at_by_functions_of_their_own() -> None:
    training = machine()

    def step(*norms: float) -> tuple[int, tuple[str, ...]]:
        passes = iter(norms)
        ran = 0
        while training.should_run_forward_backward():
            training.validate_result(
                {"norm": next(passes)},
                lambda each: each["norm"] > 5,
                message="norm is too large",
                comparison_func=lambda one, other: abs(one["norm"] - other["norm"]),
                tolerance=0.5,
            )
            ran += 1
        return ran, tuple(each.verdict.value for each in training.verdicts)

    assert step(1.0) == (1, ())
    assert step(5.2, 4.9) == (2, ("reproduced",))


def test_functions_that_raise_do_not_raise_into_training(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("no")

    training = machine(state_save_func=broken)
    while training.should_run_forward_backward():
        training.validate_result(1.0, broken)
        training.validate(object())
        training.validate(NAN, name="good enough", tolerance=None)
    assert training.should_checkpoint_and_exit()[2] in {0, 16}
    assert sum("ZeroDivisionError" in each for each in caplog.messages) == 2


def test_a_resumed_step_has_its_batches_and_random_numbers_and_training_goes_on_behind_it() -> None:
    def job(training: RerunStateMachine, source: Iterator[int], loss: float) -> tuple[Any, RerunDataIterator[int]]:
        batches = RerunDataIterator(source)
        drawn = None
        while training.should_run_forward_backward(batches):
            drawn = (next(batches), next(batches), random.random(), float(np.random.rand()))
            training.validate(loss)
        return drawn, batches

    first = machine()
    drawn, batches = job(first, iter(range(100)), NAN)
    saved = json.loads(json.dumps(first.state_dict(batches)))
    random.seed(99)
    np.random.seed(99)
    second = resumed(saved, "GPU-2")
    again, batches = job(second, iter(range(2, 100)), NAN)
    assert again == drawn
    assert next(batches) == 2


def test_a_loader_that_draws_random_numbers_leaves_them_as_it_did() -> None:
    def drawing() -> Iterator[float]:
        while True:
            yield random.random() + float(np.random.rand())

    def step(training: RerunStateMachine, batches: RerunDataIterator[float], loss: float) -> list[tuple[float, ...]]:
        seen = list[tuple[float, ...]]()
        while training.should_run_forward_backward(batches):
            seen.append((next(batches), random.random(), next(batches), float(np.random.rand())))
            training.validate(loss)
        return seen

    training, batches = machine(), RerunDataIterator(drawing())
    first, second = step(training, batches, NAN)
    saved = json.loads(json.dumps(training.state_dict(batches)))
    (third,) = step(resumed(saved, "GPU-2"), RerunDataIterator(drawing()), NAN)
    assert first == second == third


@pytest.mark.parametrize("mode", ["disabled", "validate_results", "report_stats"])
def test_the_batches_of_a_step_that_is_done_are_let_go_of(mode: str) -> None:
    training, batches = RerunStateMachine(mode=mode), RerunDataIterator(iter(range(100)))
    for step in range(10):
        while training.should_run_forward_backward(batches):
            assert next(batches) == step
        assert training.state_dict(batches)["batches"][0]["batches"] == []


@pytest.mark.parametrize("mode", ["disabled", "validate_results", "report_stats"])
def test_the_step_after_the_end_of_a_loader_is_run(mode: str) -> None:
    training = RerunStateMachine(mode=mode)
    seen = list[int]()
    for _ in range(2):
        batches = RerunDataIterator(iter(range(3)))
        try:
            while True:
                while training.should_run_forward_backward(batches):
                    seen.append(next(batches))
        except StopIteration:
            pass
    times = 2 if mode == "report_stats" else 1
    assert seen == [each for each in range(3) for _ in range(times)] * 2
    assert training.iteration in {-1, 6}


@pytest.mark.parametrize("mode", ["disabled", "validate_results"])
def test_a_pass_that_makes_do_with_fewer_batches_is_run_once(mode: str) -> None:
    training, batches = RerunStateMachine(mode=mode), RerunDataIterator(iter(range(3)))
    seen = list[list[int]]()
    for _ in range(2):
        while training.should_run_forward_backward(batches):
            seen.append(list(islice(batches, 2)))
            assert len(seen) < 9
    assert seen == [[0, 1], [2]]


def test_the_batches_are_saved_also_where_nobody_names_them() -> None:
    training, batches = machine(), RerunDataIterator(iter([NAN, 2.5]))
    while training.should_run_forward_backward(batches):
        training.validate(next(batches))
    state = training.state_dict()
    training, batches = resumed(state, "GPU-2"), RerunDataIterator(iter([2.5]))
    assert run_step(training, lambda _: next(batches), batches).verdicts == ("correct_result",)


def test_without_its_batches_a_resumed_step_gives_no_verdict(caplog: pytest.LogCaptureFixture) -> None:
    training, batches = machine(), RerunDataIterator(iter([NAN, 2.5]))
    while training.should_run_forward_backward(batches):
        training.validate(next(batches))
    state = {**training.state_dict(), "batches": None}
    batches = RerunDataIterator(iter([2.5]))
    seen = run_step(resumed(state, "GPU-2"), lambda _: next(batches), batches)
    assert (seen.verdicts, seen.leaves) == ((), NOTHING)
    assert "it gives no verdict" in caplog.text


def test_what_was_rejected_once_blames_no_hardware() -> None:
    training = machine()
    ran = 0
    while training.should_run_forward_backward():
        # Each pass another one of them is bad, and it is never asked again on this device.
        for number in range(5):
            training.validate(NAN if number == ran else 2.5, name=f"loss {number}")
        ran += 1
    assert training.should_checkpoint_and_exit() == TO_OTHERS
    training = resumed(json.loads(json.dumps(training.state_dict())), "GPU-2")
    while training.should_run_forward_backward():
        for number in range(5):
            training.validate(2.5, name=f"loss {number}")
    assert [each.verdict.value for each in training.verdicts] == ["undecided"]
    assert training.should_checkpoint_and_exit() == NOTHING


def test_a_device_that_cannot_be_named_raises_nothing_and_gives_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> Any:
        raise RuntimeError("CUDA error")

    training = machine()
    run_step(training, [NAN, NAN])
    state = training.state_dict()
    monkeypatch.setattr("lastbeat.rerun.state_machine.present_device", broken)
    assert run_step(resumed(state, "GPU-2"), [2.5]).verdicts == ("undecided",)


def test_what_else_a_pass_changes_is_put_back() -> None:
    average = [0.0]
    training = machine(state_save_func=lambda: average[0], state_restore_func=lambda then: average.__setitem__(0, then))
    seen = list[float]()
    losses = iter([NAN, 2.5, 2.5])
    for _ in range(2):
        while training.should_run_forward_backward():
            average[0] += 1.0
            seen.append(average[0])
            training.validate(next(losses))
    assert seen == [1.0, 1.0, 2.0]


def test_disabled_runs_each_step_once_and_looks_at_nothing() -> None:
    training = RerunStateMachine()
    assert training.mode.value == "disabled"
    assert [run_step(training, [NAN]).passes for _ in range(3)] == [1, 1, 1]
    assert run_step(training, [NAN]).leaves == NOTHING
    training.load_state_dict({"nothing": "of it"})


def test_report_stats_runs_each_step_twice_and_measures_the_tolerance(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lastbeat")
    training = RerunStateMachine(mode="report_stats")
    for step in range(4):
        seen = run_step(training, [1.0, 1.0 + step * 1e-6])
        assert (seen.passes, seen.leaves) == (2, NOTHING)
    measured = training.stats()["loss"]
    assert (measured.samples, measured.identical, measured.unequal) == (4, 1, 0)
    assert measured.largest == pytest.approx(3e-6, rel=1e-3)
    assert "4 samples, 1 identical" in caplog.text
    assert "tolerance=6e-06" in caplog.text
    # A later training of the same checkpoints goes by it.
    checked = machine(check_for_spiky_loss=True)
    checked.load_state_dict(training.state_dict())
    for _ in range(20):
        run_step(checked, [1.0])
    assert run_step(checked, [10.00001, 9.99999]).verdicts == ("reproduced",)


@pytest.fixture
def no_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """lastbeat's loggers as they are in a process that sets up no logging."""
    own = logging.getLogger("lastbeat")
    level = own.level
    monkeypatch.setattr(own, "handlers", [])
    monkeypatch.setattr(own, "propagate", True)
    own.setLevel(logging.NOTSET)
    yield
    own.setLevel(level)


@pytest.mark.usefixtures("no_logging")
def test_the_report_shows_without_any_set_up_of_logging(capsys: pytest.CaptureFixture[str]) -> None:
    training = RerunStateMachine(mode="report_stats")
    run_step(training, [1.0, 1.0])
    assert "lastbeat.rerun: loss after 1 steps: 1 samples, all identical: tolerance=0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "leaves", "elsewhere", "verdict"),
    [
        ("transient_error", NOTHING, None, "transient_error"),
        ("persistent_error", TO_OTHERS, FAILED, "persistent_error"),
        ("correct_result", TO_OTHERS, NOTHING, "correct_result"),
    ],
)
def test_an_injected_error_takes_its_path(kind: str, leaves: Any, elsewhere: Any, verdict: str) -> None:
    training = machine(error_injection_rate=1, error_injection_type=kind)
    seen = run_step(training, [2.5, 2.5])
    assert seen.leaves == leaves
    if elsewhere is not None:
        state = training.state_dict()
        assert run_step(resumed(state, "GPU-1"), [2.5]).verdicts == ("same_device",)
        seen = run_step(resumed(state, "GPU-2"), [2.5])
        assert seen.leaves == elsewhere
    assert seen.verdicts == (verdict,)


@pytest.mark.parametrize(("first", "second", "said"), [(5.5, 5.5, "(5.5 both times"), ([5.5], [5.5], "(list")])
def test_a_result_that_is_rejected_once_alone_is_not_said_to_differ_from_itself(
    first: Any, second: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    training, rejects = machine(), iter([True, False])
    values = iter([first, second])
    while training.should_run_forward_backward():
        training.validate_result(
            next(values), lambda _: next(rejects), message="norm is too large", comparison_func=lambda *_: 1.0
        )
    assert f"{said}, rejected the first time alone" in caplog.text


def test_one_result_in_so_many_is_injected() -> None:
    training = machine(error_injection_rate=10)
    again = sum(run_step(training, [2.5, 2.5]).passes - 1 for _ in range(1000))
    assert 60 < again < 140


@pytest.mark.parametrize(
    ("how", "said"),
    [
        pytest.param({"mode": "validate"}, "disabled, validate_results, report_stats", id="a mode"),
        pytest.param({"error_injection_rate": -1}, "error_injection_rate=-1 is negative", id="a rate"),
        pytest.param({"error_injection_type": "nan"}, "error_injection_type='nan' is none of", id="a type"),
    ],
)
def test_what_there_is_not_is_refused_before_training_begins(how: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RerunStateMachine(**how)


def test_the_machine_that_was_made_last_is_that_of_the_process() -> None:
    made = machine()
    assert get_rerun_state_machine() is made


@pytest.mark.parametrize(
    "state",
    [
        pytest.param({}, id="an empty one"),
        pytest.param({"iteration": "seven", "settled": None}, id="fields that make no sense"),
        pytest.param({**machine().state_dict(), "batches": [1]}, id="batches that are none"),
    ],
)
def test_a_state_that_makes_no_sense_is_left_out_with_a_word(state: Any, caplog: pytest.LogCaptureFixture) -> None:
    training = machine()
    training.load_state_dict(state)
    assert "cannot use its state" in caplog.text
    assert run_step(training, [2.5]).passes == 1


def test_the_state_of_another_rank_is_not_taken_for_ones_own(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machine()
    run_step(first, [NAN, NAN])
    saved = first.state_dict()
    monkeypatch.setenv("RANK", "1")
    assert run_step(resumed(saved, "GPU-2"), [2.5]).verdicts == ()
    assert "save one for each rank" in caplog.text


def test_results_outside_the_loop_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    training = machine()
    training.validate(NAN)
    assert "in its loop alone" in caplog.text
    assert run_step(training, [2.5]).passes == 1


def test_a_name_may_be_of_any_kind_and_length() -> None:
    training = machine(check_for_spiky_loss=True)
    long: Any = "loss\n" * 100
    for _ in range(20):
        assert run_step(training, [2.5], name=7).passes == 1
        assert run_step(training, [2.5], name=long).passes == 1
    seen = run_step(training, [1e9, 2.5], name=long)
    assert seen.verdicts == ("transient_error",)
    assert "\n" not in training.verdicts[0].what


LOSSES = st.sampled_from([2.5, 2.4, NAN, INF, 1e30])
DEVICES = st.sampled_from(["GPU-1", "GPU-2", "GPU-3"])


@given(st.lists(LOSSES, min_size=1, max_size=30), st.lists(DEVICES, min_size=1, max_size=8), st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_a_deterministic_computation_never_blames_the_hardware(
    losses: list[float], devices: list[str], spikes: bool
) -> None:
    training, jobs = machine(devices[0], check_for_spiky_loss=spikes), iter(devices[1:])
    checkpoint = training.state_dict()
    step = 0
    while step < len(losses):
        loss = losses[step]
        seen = run_step(training, lambda _: loss)  # noqa: B023 - called before the loop goes on
        assert not {"transient_error", "persistent_error"} & set(seen.verdicts)
        checkpoint = training.state_dict() if seen.leaves[0] else checkpoint
        if not seen.leaves[1]:
            step += 1
            continue
        assert seen.leaves[2] == EXIT_CODE_RESUME_TO_DISAMBIGUATE
        device = next(jobs, None)
        if device is None:
            return
        training = resumed(checkpoint, device, check_for_spiky_loss=spikes)


@given(st.lists(st.tuples(LOSSES, LOSSES, DEVICES), max_size=6), st.integers(0, 1), st.integers(0, 3))
@settings(max_examples=examples(40), deadline=None)
def test_a_state_goes_through_a_checkpoint_unchanged_at_any_point(
    steps: list[tuple[float, float, str]], rate: int, passes: int
) -> None:
    kind = "persistent_error"
    how: dict[str, Any] = {"error_injection_rate": rate, "error_injection_type": kind, "check_for_spiky_loss": True}
    training = machine(**how)
    for first, second, device in steps:
        run_step(training, lambda number: first if number == 0 else second)  # noqa: B023 - as above
        through_checkpoint(training, device, how)
    for _ in range(passes):
        # In the midst of a step.
        if training.should_run_forward_backward():
            training.validate(NAN)
            through_checkpoint(training, "GPU-2", how)


def through_checkpoint(training: RerunStateMachine, device: str, how: dict[str, Any]) -> None:
    saved = json.dumps(training.state_dict())
    assert json.dumps(resumed(json.loads(saved), device, **how).state_dict()) == saved


@given(st.lists(LOSSES, max_size=20), st.integers(0, 20))
@settings(max_examples=examples(50), deadline=None)
def test_a_training_that_was_resumed_sees_what_an_undisturbed_one_sees(losses: list[float], at: int) -> None:
    undisturbed, disturbed = machine(check_for_spiky_loss=True), machine(check_for_spiky_loss=True)
    for step, loss in enumerate(losses):
        if step == at:
            disturbed = resumed(disturbed.state_dict(), "GPU-1", check_for_spiky_loss=True)
        once = [each.leaves[1] for each in (run_step(undisturbed, [loss, 2.5]), run_step(disturbed, [loss, 2.5]))]
        assert once[0] == once[1]
    assert json.dumps(undisturbed.state_dict()) == json.dumps(disturbed.state_dict())


@given(st.integers(0, 2**32 - 1), st.integers(0, 700))
@settings(max_examples=examples(50), deadline=None)
def test_random_numbers_are_put_back_exactly(seed: int, drawn: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    for _ in range(drawn):
        random.gauss(0.0, 1.0)
        np.random.normal()
    then = RandomState.now()
    kept = RandomState.read(json.loads(json.dumps(then.document())))

    def draw() -> list[float]:
        return [random.random(), random.gauss(0, 1), float(np.random.rand()), float(np.random.normal())]

    expected = draw()
    for state in (then, kept):
        state.restore()
        assert draw() == expected
