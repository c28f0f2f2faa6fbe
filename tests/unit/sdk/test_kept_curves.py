"""The curves that an attempt keeps: many points, few bytes, never at the cost of a heartbeat."""

import json
from itertools import chain
from math import isfinite, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.stores.port import StoreError
from lastbeat.training.sdk import kept_curves
from lastbeat.training.sdk.beat_tasks import Beat, BeatTasks, RunStart
from lastbeat.training.sdk.documents import ProgressHistory
from lastbeat.training.sdk.kept_curves import KeptCurve, KeptCurves
from lastbeat.training.sdk.run import Run
from support.memory import MemoryStore
from support.reporting import environment

ENDING = ("_complete", "")


def rows_of(curve: KeptCurve) -> list[list[Any]]:
    return [json.loads(row) for row in curve.rows()]


def curve_of(values: list[float]) -> list[list[Any]]:
    curve = KeptCurve()
    for step, value in enumerate(values):
        curve.add(1000.0 + step, step, value)
    return rows_of(curve)


@given(st.lists(st.floats(-10, 10) | st.just(nan), min_size=1, max_size=60), st.integers(1, 300))
def test_the_law_of_buckets(pattern: list[float], times: int) -> None:
    values = pattern * times
    rows = curve_of(values)
    assert min(len(values), 1500) <= len(rows) <= 3000
    assert [row[1] for row in rows] == sorted({row[1] for row in rows}), "steps ascend"
    assert rows[-1][:2] == [1000.0 + len(values) - 1, len(values) - 1], "the newest value is there"
    known = [value for value in values if isfinite(value)]
    kept = [each for row in rows for each in row[2:] if not isinstance(each, str)]
    if known and len(known) == len(values):
        assert (min(kept), max(kept)) == pytest.approx((min(known), max(known)), rel=1e-4, abs=1e-9), (
            "no peak gets lost"
        )
    assert (len(known) < len(values)) == ("NaN" in [row[2] for row in rows]), "nor a value that is no number"


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        pytest.param([2.0, 2.0], [[1000, 0, 2.0], [1001, 1, 2.0]], id="a single value needs no band"),
        pytest.param([1.0, nan], [[1000, 0, 1.0], [1001, 1, "NaN"]], id="what is no number is text"),
    ],
)
def test_rows(values: list[float], rows: list[list[Any]]) -> None:
    assert curve_of(values) == rows


def test_two_buckets_become_one() -> None:
    curve = KeptCurve()
    for step, value in enumerate((1.0, 2.0, 6.0)):
        curve.add(float(step), step, value)
    curve.halve()
    assert rows_of(curve) == [[1.0, 1, 1.5, 1.0, 2.0], [2.0, 2, 6.0]]
    curve.add(3.0, 3, 8.0)
    assert rows_of(curve)[1:] == [[3.0, 3, 7.0, 6.0, 8.0]]


class Reported:
    """A run whose curves go to a store in memory."""

    def __init__(self, **given: Any) -> None:
        self.store, self.run, self.history = MemoryStore(), Run("my-run", None), ProgressHistory()
        self.tasks, self.at = BeatTasks([KeptCurves(**given)]), 1000.0
        self.tasks.begin([], RunStart(self.run, environment(self.store), 0.0, 0.0))

    def beat(self, *, attempt: int | None = 1, ending: tuple[str, str] | None = None) -> None:
        self.at += 30
        self.history.document(self.run, self.at)
        for step in self.tasks.steps(
            Beat(self.run, self.store, "my-run/", self.at, ending, "2026-11-28T10:00:00Z", attempt)
        ):
            step.do()

    def curves(self, attempt: int = 1) -> dict[str, list[list[Any]]]:
        body = self.store.held[f"my-run/curves/{attempt}.json"].body
        return json.loads(body)["curves"]  # type: ignore[no-any-return]


def test_every_figure_of_training_has_a_curve() -> None:
    reported = Reported()
    for step in range(40):
        reported.run.step(step, loss=4.0 - step / 10, learning_rate=1e-3, tokens=100, grad_norm=0.5)
        if step % 10 == 9:
            reported.beat()
    reported.beat(ending=ENDING)
    curves = reported.curves()
    assert list(curves) == ["loss", "learning_rate", "tokens", "grad_norm"]
    assert [row[1] for row in curves["grad_norm"]] == [9, 19, 29, 39], "a metric is read at each beat"
    assert [row[2] for row in curves["tokens"]] == [1000, 2000, 3000, 4000]
    assert {9: 3.1, 39: 0.1}.items() <= {row[1]: row[2] for row in curves["loss"]}.items()
    assert set(json.loads(reported.store.held["my-run/curves/1.json"].body)) == {
        "run_id",
        "attempt",
        "start_time",
        "curves",
    }


@pytest.mark.parametrize(
    ("attempt", "ending", "every_s", "written"),
    [
        pytest.param(1, None, 120.0, False, id="not with each beat"),
        pytest.param(1, None, 0.0, True, id="once it is due"),
        pytest.param(1, ENDING, 120.0, True, id="before the sentinel, due or not"),
        pytest.param(None, ENDING, 0.0, False, id="never for an attempt that has not begun"),
    ],
)
def test_when_it_is_written(attempt: int | None, ending: tuple[str, str] | None, every_s: float, written: bool) -> None:
    reported = Reported(every_s=every_s)
    reported.run.step(1, loss=2.0)
    reported.beat(attempt=attempt, ending=ending)
    assert bool(reported.store.held) == written


def test_without_news_nothing_is_written_again() -> None:
    reported = Reported()
    reported.run.step(1, loss=2.0)
    reported.beat(ending=ENDING)
    version = reported.store.held["my-run/curves/1.json"].version
    reported.beat(ending=ENDING)
    assert reported.store.held["my-run/curves/1.json"].version == version


def test_the_curves_of_eight_attempts_stay() -> None:
    reported = Reported()
    for attempt in (2, 3):
        reported.store.write(f"my-run/curves/{attempt}.json", b"{}")
    reported.run.step(1, loss=2.0)
    reported.beat(attempt=10, ending=ENDING)
    assert sorted(reported.store.held) == ["my-run/curves/10.json", "my-run/curves/3.json"]


def test_a_store_that_refuses_them_costs_no_beat() -> None:
    reported = Reported()
    reported.store.refuse("write", StoreError("access denied"))
    reported.run.step(1, loss=2.0)
    reported.beat(ending=ENDING)
    assert not reported.store.held
    reported.store.heal()
    reported.beat(ending=ENDING)
    assert reported.curves()["loss"] == [[1030, 1, 2.0]], "they are written with the next beat"


def test_the_document_is_bounded_whatever_training_reports() -> None:
    reported = Reported(most_bytes=20_000)
    for step in range(1000):
        curves = reported.run.curves
        assert curves is not None
        for name in ("loss", *(f"metric {n}" for n in range(30))):
            curves.add(name, 1000.0 + step, step, step / 7)
    reported.beat(ending=ENDING)
    assert len(reported.store.held["my-run/curves/1.json"].body) <= 20_000
    assert len(reported.curves()) == kept_curves.MOST_CURVES
    assert {row[1] for row in chain(*(rows[-1:] for rows in reported.curves().values()))} == {999}
