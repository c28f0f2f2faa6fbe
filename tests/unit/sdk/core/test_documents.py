"""What a beat writes of what training said."""

import json
import logging
import math
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import numpy as np
import pytest

from lastbeat.model.json_values import encode
from lastbeat.training.sdk.documents import (
    AttemptIdentity,
    ProgressHistory,
    RunIdentity,
    iso_time,
    metadata_document,
)
from lastbeat.training.sdk.instance import Instance
from lastbeat.training.sdk.run import MAX_PHASES, Run
from lastbeat.training.sdk.safe_log import WarnOnce
from lastbeat.training.sdk.values import ValueReader

AT = 1_700_000_000.0
WHO = AttemptIdentity(RunIdentity(Instance("i-0abc"), "1.2.3"), 2, AT - 60, 4711)


def read(document: dict[str, Any] | None) -> dict[str, Any]:
    assert document is not None
    decoded: dict[str, Any] = json.loads(encode(document))
    return decoded


def test_metadata_says_that_it_lives() -> None:
    run = Run("run-1", None)
    run.set_phase("data_prep", "corpus 3/8")
    found = read(metadata_document(run, WHO, AT))
    assert [name for _, name in found.pop("phases")] == ["starting", "data_prep"]
    assert found == {
        "run_id": "run-1",
        "status": "running",
        "phase": "data_prep",
        "phase_detail": "corpus 3/8",
        "last_update": "2023-11-14T22:13:20.000Z",
        "start_time": "2023-11-14T22:12:20.000Z",
        "attempt": 2,
        "beat_seconds": 30.0,
        "instance_id": "i-0abc",
        "process": 4711,
        "lastbeat": "1.2.3",
    }


def test_phases_come_back() -> None:
    run = Run("run-1", None)
    seen = [run.phase_now]
    with run, run.phase("outer"):
        # The phase's end is that of its block, however the block ends.
        with suppress(ValueError), run.phase("inner", "1/2"):
            seen.append(run.phase_now)
            raise ValueError("bad")
        seen.append(run.phase_now)
    seen.append(run.phase_now)
    assert seen == [("starting", None), ("inner", "1/2"), ("outer", None), ("training", None)]


def told(run: Run) -> list[str]:
    return [name for _, name in read(metadata_document(run, WHO, AT))["phases"]]


class Odd:
    """Compares with nothing and says nothing."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("the truth value of an array is ambiguous")

    def __hash__(self) -> int:
        return 0

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_the_changes_of_phase_are_told_also_of_blocks_within_blocks() -> None:
    began = time.time()
    run = Run("run-1", None)
    with run:
        with run.phase("training"), run.phase("evaluation"), run.phase("evaluation", "2/3"):
            run.set_phase("evaluation", "3/3")
        run.set_phase("saving")
    assert told(run) == ["starting", "training", "evaluation", "training", "saving"]
    times = [at for at, _ in read(metadata_document(run, WHO, AT))["phases"]]
    assert times == sorted(times)
    assert began - 1 < times[0] <= times[-1] < time.time() + 1


def test_who_takes_a_step_no_longer_starts() -> None:
    run = Run("run-1", None)
    with run.phase("warm-up"):
        run.step(1)
    assert told(run) == ["starting", "warm-up", "starting"]
    run.step(2)
    run.step(3)
    assert told(run) == ["starting", "warm-up", "starting", "training"]


def test_a_step_leaves_a_phase_that_has_a_name() -> None:
    run = Run("run-1", None)
    run.set_phase("pretraining")
    run.step(1)
    assert told(run) == ["starting", "pretraining"]


def test_of_many_changes_of_phase_the_latest_are_told() -> None:
    run = Run("run-1", None)
    for epoch in range(1000):
        run.set_phase(f"epoch {epoch}")
    assert told(run) == [f"epoch {epoch}" for epoch in range(1000 - MAX_PHASES, 1000)]


def test_progress_has_speed_and_what_is_left() -> None:
    run, pace = Run("run-1", None, total_steps=1000), ProgressHistory()
    run.step(100, loss=2.0, tokens=512)
    pace.document(run, AT)
    for step in range(101, 201):
        run.step(step, loss=np.float32(1.5), learning_rate=3e-4, tokens=512, epoch=np.float64(0.25), grad_norm=0.5)
    found = read(pace.document(run, AT + 50))
    assert found == {
        "run_id": "run-1",
        "step": 200,
        "total_steps": 1000,
        "loss": 1.5,
        "learning_rate": 3e-4,
        "epoch": 0.25,
        "tokens": 101 * 512,
        "steps_per_second": 2.0,
        "tokens_per_second": 1024.0,
        "eta_s": 400,
        "metrics": {"grad_norm": 0.5},
        "phase": "training",
        "recent": [[AT, 100, 2.0, None], [AT + 50, 200, 1.5, 3e-4]],
        "metric_points": {"grad_norm": [[AT + 50, 200, 0.5]]},
        "last_updated": iso_time(AT + 50),
    }


def test_a_curve_is_true_to_the_steps_between_two_beats() -> None:
    run, pace = Run("run-1", None), ProgressHistory()
    begun = time.time()
    run.step(1, loss=1.0)
    pace.document(run, time.time())
    for step in range(2, 301):
        run.step(step, loss=1 / step)
    points = read(pace.document(run, time.time()))["recent"]
    steps = [step for _, step, *_ in points]
    assert (steps[0], steps[-1], len(steps) < 40) == (1, 300, True)
    assert all(begun - 0.01 <= at <= time.time() + 0.01 for at, *_ in points)
    drawn = np.interp(range(1, 301), steps, [loss for _, _, loss, _ in points])
    assert np.abs(drawn - 1 / np.arange(1, 301)).max() < 0.01


def test_a_figure_that_is_told_between_two_beats_gets_its_point() -> None:
    run, pace = Run("run-1", None), ProgressHistory()
    for step in range(100):
        run.step(step, loss=2.0, grad_norm=0.5)
        if step in {40, 80}:
            run.step(step, val_acc=step / 100, val_loss=1.5)
            pace.document(run, time.time())
    run.step(100, loss=2.0, grad_norm=0.5)
    curves = read(pace.document(run, time.time()))["metric_points"]
    assert [each[1:] for each in curves["val_acc"]] == [[40, 0.4], [80, 0.8]]
    assert curves["grad_norm"][-1][1:] == [100, 0.5]


def test_what_waits_for_a_device_is_not_read_between_two_beats() -> None:
    class Tensor:
        def __float__(self) -> float:
            raise AssertionError("it was read")

    run = Run("run-1", None)
    for step in range(10):
        run.step(step, loss=Tensor(), learning_rate=Tensor(), val_acc=Tensor())
    run.step(10, loss=2.0)
    found = read(ProgressHistory().document(run, time.time()))
    assert [each[1:] for each in found["recent"]] == [[10, 2.0, None]]


def calls_of(function: Callable[[], None]) -> list[str]:
    """The functions that it calls, by name, those in C among them."""
    called: list[str] = []

    def hear(frame: FrameType, event: str, what: Any) -> None:
        if event in {"call", "c_call"}:
            called.append(frame.f_code.co_name if event == "call" else what.__name__)

    sys.setprofile(hear)
    try:
        function()
    finally:
        sys.setprofile(None)
    return called[1:-1]


def test_a_step_of_a_run_that_nothing_times_leaves_its_curve_to_the_beat_thread() -> None:
    run = Run("run-1", None)
    for step in range(1_000):
        run.step(step, loss=2.0 + step % 7, learning_rate=3e-4, tokens=512, grad_norm=0.5)
    # Each call costs as much as all that a step stores.
    assert calls_of(lambda: run.step(1_001, loss=3.0, grad_norm=0.5)) == ["step", "len"]
    run.step(1_002, loss=3.0)
    assert calls_of(lambda: run.step(1_003, loss=3.0, learning_rate=3e-4, tokens=512)) == ["step"]


def test_a_step_that_is_under_way_while_a_beat_takes_the_points_is_told_by_the_next() -> None:
    run, pace = Run("run-1", None), ProgressHistory()
    run.step(1, loss=2.0)
    loaded = run.between
    pace.document(run, time.time())
    loaded.add(2, 2, math.nan, None)
    loaded.keep_metrics(2, {"val_acc": 0.5})
    run.step(3, loss=2.0)
    found = read(pace.document(run, time.time()))
    assert [point[1:3] for point in found["recent"]] == [[1, 2.0], [2, "NaN"], [3, 2.0]]
    assert [point[1:] for point in found["metric_points"]["val_acc"]] == [[2, 0.5]]


def test_points_are_in_order_of_time_whatever_the_clock_does() -> None:
    run, pace, step = Run("run-1", None), ProgressHistory(), 0
    for at, set_back in ((AT, False), (AT + 10, False), (AT - 3600, True), (AT - 3500, True)):
        for step in range(step + 1, step + 11):  # noqa: B020 - steps go on
            run.step(step, loss=1 / step)
        found = read(pace.document(run, at))
        points = [(told, then) for then, told, *_ in found["recent"]]
        assert points[-1] == (step, at)
        assert points == sorted(points)
        times = [then for _, then in points]
        assert set_back or times == sorted(times)


def test_a_clock_that_was_set_back_a_little_puts_no_step_before_the_last_beat() -> None:
    run, pace = Run("run-1", None), ProgressHistory()
    for step in range(1, 4):
        run.step(step, loss=1.0)
        if step == 1:
            read(pace.document(run, AT))
    # Step 2 is longer ago than the clock says that the last beat is.
    time.sleep(0.01)
    found = read(pace.document(run, AT + 0.001))
    assert [point[:2] for point in found["recent"]] == [[AT, 1], [AT, 2], [AT + 0.001, 3]]


def test_a_metric_that_is_slow_to_read_moves_no_later_point_before_it() -> None:
    class Slow:
        def __float__(self) -> float:
            time.sleep(0.2)
            return 1.0

    run, history = Run("run-1", None), ProgressHistory()
    run.step(0)
    read(history.document(run, AT))
    run.step(1, slow=Slow(), accuracy=0.1)
    run.step(2)
    run.step(3, accuracy=0.5)
    run.step(4)
    read(history.document(run, AT + 10))
    times = [point[0] for point in history.curves["accuracy"].points]
    assert (len(times), times) == (2, sorted(times))


@pytest.mark.parametrize(
    ("losses", "least", "greatest"),
    [
        pytest.param([5.0 - n / 2_000 for n in range(5_000)], 2.5, 5.0, id="falls with each step"),
        pytest.param([0.0] * 700 + [-1e-9] + [0.0] * 700, -1e-9, 0.0, id="leaves zero"),
        pytest.param([2.0] * 999 + [1e300, 2.0, 0.01, 2.0], 0.01, 1e300, id="jumps, and dips right after that"),
    ],
)
def test_the_least_and_the_greatest_loss_between_two_beats_are_kept(
    losses: list[float], least: float, greatest: float
) -> None:
    run = Run("run-1", None)
    for step, loss in enumerate(losses):
        run.step(step, loss=loss)
    run.step(len(losses), loss=losses[0])
    points = read(ProgressHistory().document(run, time.time()))["recent"]
    kept = [loss for _, _, loss, _ in points]
    assert (min(kept), max(kept)) == (pytest.approx(least, rel=0.002), pytest.approx(greatest, rel=0.002))


def test_an_infinite_loss_between_two_beats_is_kept_and_hides_no_dip() -> None:
    run = Run("run-1", None)
    for step in range(3_000):
        run.step(step, loss={1_111: math.inf, 2_222: 0.5}.get(step, 2.0))
    points = read(ProgressHistory().document(run, time.time()))["recent"]
    assert [1_111, "Infinity"] in [[step, loss] for _, step, loss, _ in points]
    assert [2_222, 0.5] in [[step, loss] for _, step, loss, _ in points]


def test_figures_are_told_apart_by_their_names_however_those_are_made() -> None:
    run = Run("run-1", None)
    for step in range(60):
        named: dict[str, Any] = {"/".join(("val" if step % 20 == 10 else "train", "loss")): step / 10}
        run.step(step, **named)
    curves = read(ProgressHistory().document(run, time.time()))["metric_points"]
    assert curves["val/loss"][-1][1:] == [50, 5.0]
    assert curves["train/loss"][-1][1:] == [59, 5.9]


def test_a_step_keeps_to_its_bounds_however_many_there_are() -> None:
    run, pace = Run("run-1", None), ProgressHistory()
    many: dict[str, Any] = {f"metric_{number}": 1.0 for number in range(20)}
    for beat in range(6):
        for step in range(3_000):
            run.step(beat * 3_000 + step, loss=float(step % 7), **many)
        found = read(pace.document(run, time.time()))
    assert len(found["recent"]) <= 160
    assert len(found["metric_points"]) == 8
    assert len(json.dumps(found)) < 40_000


def test_speed_is_that_of_the_last_minutes() -> None:
    run, pace = Run("run-1", None, total_steps=10_000), ProgressHistory()
    for minute in range(60):
        # Slow at first, then ten times as fast.
        run.step(minute * 6 if minute < 30 else 180 + (minute - 30) * 60)
        found = read(pace.document(run, AT + minute * 60))
    assert found["steps_per_second"] == 1.0


ODD = [
    pytest.param({"step": "seven"}, None, id="a step that is no number is no progress"),
    pytest.param({"step": 7, "loss": "low"}, {"step": 7}, id="a loss that is no number is left out"),
    pytest.param({"step": 2**60 + 1}, {"step": 2**60 + 1}, id="a large step keeps its digits"),
    pytest.param({"step": 7, "tokens": 5.5}, {"step": 7}, id="tokens that are no whole number are not counted"),
]


@pytest.mark.parametrize(("said", "expected"), ODD)
def test_odd_things_that_training_says(said: dict[str, Any], expected: dict[str, Any] | None) -> None:
    run = Run("run-1", None)
    run.step(**said)
    document = ProgressHistory().document(run, AT)
    if expected is None:
        assert document is None
        return
    found = read(document)
    found["recent"] = None
    assert {name: found[name] for name in expected} == expected
    assert set(found) - set(expected) - {"metrics"} == {
        "run_id",
        "phase",
        "last_updated",
        "recent",
    }


def test_many_metrics_with_long_names_are_bounded() -> None:
    run = Run("run-1", None)
    metrics: dict[str, Any] = {f"{n:04}" + "x" * 5000: float(n) for n in range(1000)}
    run.step(1, **metrics)
    assert len(encode(ProgressHistory().document(run, AT) or {})) < 10_000


def test_what_is_logged_by_name_becomes_a_curve_beside_the_steps() -> None:
    run, pace = Run("run-1", None), ProgressHistory()
    run.step(10, loss=2.0)
    run.log({"val_acc": 0.5, "val_loss": np.float32(1.5)})
    run.step(11, loss=1.0)
    first = read(pace.document(run, time.time()))
    run.log(val_acc=0.75, step=20)
    run.step(21, loss=0.5)
    second = read(pace.document(run, time.time() + 1))
    assert (first["step"], first["loss"]) == (11, 1.0)
    assert (second["step"], second["loss"]) == (21, 0.5)
    curves = second["metric_points"]
    assert [point[1:] for point in curves["val_acc"]] == [[10, 0.5], [20, 0.75]]
    assert [point[1:] for point in curves["val_loss"]] == [[10, 1.5]]


def test_who_only_logs_gets_on_with_that() -> None:
    run, pace = Run("run-1", None), ProgressHistory()
    for loss in (3.0, 2.0):
        run.log({"loss": loss, "lr": 0.1})
    run.log(val_acc=0.5)
    found = read(pace.document(run, time.time()))
    assert (found["step"], found["loss"], found["phase"]) == (2, 2.0, "training")
    run.log(step=100, loss=1.0)
    run.log(val_acc=0.6)
    later = read(pace.document(run, time.time() + 1))
    assert (later["step"], later["loss"]) == (101, 1.0)


def test_what_is_no_number_is_refused_with_one_line_and_nothing_raises(caplog: pytest.LogCaptureFixture) -> None:
    warnings = WarnOnce()
    run, pace = Run("run-1", None), ProgressHistory(reader=ValueReader(warnings=warnings))
    run.step(1)
    given: list[Any] = [
        ["a"],
        3,
        "text",
        Odd(),
        {Odd(): 1.0},
        {7: 2.0},
        {"note": "best so far"},
        {"image": np.zeros(9)},
    ]
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        for step, each in enumerate(given):
            run.log(each, step=Odd() if step == 3 else step)
            pace.document(run, time.time())
    told = [record.getMessage() for record in caplog.records]
    assert sum("is no dictionary; use run.log(" in line for line in told) == 1
    assert any("metric 'note'" in line and "is not a number" in line for line in told)
    assert run.latest is not None
