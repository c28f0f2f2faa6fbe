"""What a pass and the dashboard know → samples: what is known is there, what is not known is absent, and never zero."""

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lastbeat.model.figures import Figures
from lastbeat.model.fleet import FIGURES_LIMIT, PassReport, RunFigures, RunLine
from lastbeat.model.record import Transition
from lastbeat.model.state import ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import FleetView, Row, StoreOutage, WatchState
from lastbeat_cli.metrics.samples import PassMetrics, Sample, of_view
from support.memory import START

RUNNING = ShownState(Status.RUNNING)
S3 = "s3://bucket/training-runs"
LINE = RunLine("run-1", Status.RUNNING, since=START, attempt=2)
RUN = RunFigures(LINE, 12.5, Figures(7, 100, 1.25), START, 1)
PASS = PassReport(START, seconds=1.5, statuses={"RUNNING": 1}, figures=(RUN,), requests={"LIST": 2, "GET": 10})
BLIND = PassReport(START + timedelta(hours=1), seconds=30.0, blind="no answer", complete=False)
VIEW = FleetView(
    S3,
    START,
    (Row("run-1", RUNNING, beat_at=START - timedelta(seconds=40), figures=Figures(7, loss=1.25)),),
)


def told(samples: tuple[Sample, ...]) -> dict[str, float]:
    """By metric and labels, as text: ``lastbeat_runs RUNNING``."""
    found = {
        " ".join((sample.metric.name.removeprefix("lastbeat_"), *filter(None, sample.labels))): sample.value
        for sample in samples
    }
    assert len(found) == len(samples), "a sample is there twice"
    assert all(len(sample.labels) == len(sample.metric.labels) for sample in samples)
    return found


def after(*reports: PassReport, url: str = S3) -> dict[str, float]:
    metrics = PassMetrics(url, 60.0)
    for report in reports:
        metrics.add(report)
    return told(metrics.samples())


def run_of(figures: RunFigures) -> dict[str, float]:
    """What is told of run-1 alone, without its name."""
    names = after(replace(PASS, figures=(figures,)))
    return {name.replace(" run-1", ""): value for name, value in names.items() if " run-1" in name}


RUNS: list[tuple[str, RunFigures, dict[str, float]]] = [
    (
        "all that is known",
        RUN,
        {
            "run_status RUNNING": 1,
            "run_status_since_timestamp_seconds": START.timestamp(),
            "run_attempt": 2,
            "run_last_beat_age_seconds": 12.5,
            "run_step": 7,
            "run_total_steps": 100,
            "run_step_timestamp_seconds": START.timestamp(),
            "run_loss": 1.25,
            "run_alert_deliveries_pending": 1,
        },
    ),
    (
        "what is not known is absent",
        RunFigures(RunLine("run-1", Status.RUNNING)),
        {"run_status RUNNING": 1, "run_attempt": 1, "run_alert_deliveries_pending": 0},
    ),
    (
        "a loss of zero, at step zero, is known",
        RunFigures(RunLine("run-1", Status.RUNNING), 0.0, Figures(0, None, 0.0)),
        {
            "run_status RUNNING": 1,
            "run_attempt": 1,
            "run_alert_deliveries_pending": 0,
            "run_last_beat_age_seconds": 0,
            "run_step": 0,
            "run_loss": 0,
        },
    ),
    (
        "conditions make it a warning, and each is told",
        RunFigures(RunLine("run-1", Status.RUNNING, conditions=("stalled", "loss_nan"))),
        {
            "run_status WARNING": 1,
            "run_condition stalled": 1,
            "run_condition loss_nan": 1,
            "run_attempt": 1,
            "run_alert_deliveries_pending": 0,
        },
    ),
    (
        "a failure has its cause, and nobody minds how old its beat is",
        RunFigures(RunLine("run-1", Status.FAILED, cause="oom"), 9.0),
        {"run_status FAILED oom": 1, "run_attempt": 1, "run_alert_deliveries_pending": 0},
    ),
    (
        "a status of a newer version",
        RunFigures(RunLine("run-1", Status("PAUSED"))),
        {"run_status OTHER": 1, "run_attempt": 1, "run_alert_deliveries_pending": 0},
    ),
]


@pytest.mark.parametrize(("figures", "expected"), [pytest.param(f, e, id=says) for says, f, e in RUNS])
def test_one_run(figures: RunFigures, expected: dict[str, float]) -> None:
    assert run_of(figures) == expected


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf, 1e-300, -0.5])
def test_a_loss_is_told_as_it_is(loss: float) -> None:
    assert run_of(replace(RUN, figures=replace(RUN.figures, loss=loss)))["run_loss"] == pytest.approx(loss, nan_ok=True)


def test_a_step_that_no_float_can_hold_is_absent() -> None:
    assert "run_step" not in run_of(replace(RUN, figures=replace(RUN.figures, step=10**400)))


def test_before_the_first_pass_nothing_is_told_of_the_fleet() -> None:
    assert {name.split()[0] for name in after()} == {"build_info", "pass_interval_seconds"}


def test_a_fleet_that_was_seen_and_is_empty_has_zeros() -> None:
    found = after(PassReport(START))
    assert found["up"] == 1
    shown = {*(status.value for status in Status), "WARNING", "OTHER"}
    assert {name: value for name, value in found.items() if name.startswith("runs ")} == dict.fromkeys(
        (f"runs {status}" for status in shown), 0
    )
    assert (found["runs_left_out"], found["runs_older"], found["alert_deliveries_pending"]) == (0, 0, 0)


def test_a_blind_pass_is_no_empty_fleet() -> None:
    seen, found = after(PASS), after(PASS, BLIND)
    assert (found["up"], found["last_pass_duration_seconds"]) == (0, 30.0)
    assert found["fleet_seen_timestamp_seconds"] == START.timestamp(), "that of the last good pass"
    assert found["passes_total blind"] == 1
    changed = {"up", "last_pass_duration_seconds", "passes_total blind"}
    assert {n: v for n, v in found.items() if n not in changed} == {n: v for n, v in seen.items() if n not in changed}


def test_a_first_pass_that_is_blind_says_nothing_of_runs() -> None:
    found = after(BLIND)
    assert found["up"] == 0
    assert not any(name.startswith(("runs", "run_", "fleet_seen", "alert_deliveries_pending")) for name in found)


def test_a_good_pass_after_a_blind_one_tells_anew() -> None:
    assert after(PASS, BLIND, replace(PASS, figures=()))["up"] == 1
    assert "run_step run-1" not in after(PASS, BLIND, replace(PASS, figures=()))


def test_counters_add_up() -> None:
    changed = Transition(1, START, Status.RUNNING, Status.FAILED, "boom", 1)
    report = replace(PASS, sent=2, failed=1, transitions=(("run-1", changed),))
    found = after(report, replace(report, complete=False), BLIND)
    assert found["alert_deliveries_total sent"] == 4
    assert found["alert_deliveries_total failed"] == 2
    assert found["transitions_total FAILED"] == 2
    assert found["transitions_total TIMED_OUT"] == 0
    assert [found[f"passes_total {end}"] for end in ("complete", "partial", "blind")] == [1, 1, 1]
    assert (found["store_requests_total LIST"], found["store_requests_total GET"]) == (4, 20)
    assert found["store_cost_dollars_total"] == pytest.approx(2 * (2 * 5e-6 + 10 * 4e-7))


def test_what_a_directory_costs_nobody_asks() -> None:
    assert "store_cost_dollars_total" not in after(PASS, url="/shared/runs")


UNREADABLE: list[tuple[str, dict[str, Any], float]] = [
    ("a run that was known", {"statuses": {"RUNNING": 1, "UNKNOWN": 1}, "unreadable_count": 1}, 1),
    ("one that no pass has ever seen", {"statuses": {"RUNNING": 1}, "unreadable_count": 1}, 1),
    ("one of each", {"statuses": {"RUNNING": 1, "UNKNOWN": 1}, "unreadable_count": 2}, 2),
]


@pytest.mark.parametrize(("fields", "unknown"), [pytest.param(f, u, id=says) for says, f, u in UNREADABLE])
def test_runs_that_cannot_be_observed_are_counted(fields: dict[str, Any], unknown: float) -> None:
    found = after(replace(PASS, **fields))
    assert found["runs UNKNOWN"] == unknown
    assert found["runs_left_out"] == sum(value for name, value in found.items() if name.startswith("runs ")) - 1


def test_how_many_were_left_out_is_told() -> None:
    assert after(replace(PASS, statuses={"RUNNING": 1500, "RUNNING (WARNING)": 1}))["runs_left_out"] == 1500
    assert after(replace(PASS, statuses={"RUNNING": 1500, "RUNNING (WARNING)": 1}))["runs WARNING"] == 1


def test_two_runs_that_masking_makes_one_do_not_cost_the_scrape() -> None:
    metrics = PassMetrics(S3, 60.0, lambda text: text.replace("hunter2", "***").replace("hunter3", "***"))
    lines = (replace(LINE, run_id=f"run-hunter{number}") for number in (2, 3))
    metrics.add(replace(PASS, statuses={"RUNNING": 2}, figures=tuple(replace(RUN, line=line) for line in lines)))
    found = told(metrics.samples())
    assert found["run_step run-***"] == 7
    assert found["runs_left_out"] == 1


def test_a_secret_is_masked_also_where_a_colour_stands_in_the_middle_of_it() -> None:
    metrics = PassMetrics(S3, 60.0, lambda text: text.replace("hunter2", "***"))
    line = replace(LINE, cause=f"hf_{'a' * 10}\x1b[31m{'a' * 24} hun\x1b[0mter2")
    metrics.add(replace(PASS, figures=(replace(RUN, line=line),)))
    labels = " ".join(told(metrics.samples()))
    assert ("*** ***" in labels, "aaa" in labels, "ter2" in labels) == (True, False, False)


def test_what_training_names_is_bounded_and_cleaned() -> None:
    line = replace(LINE, cause="a\n\x1b[31mb" + "x" * 500, conditions=tuple(f"c{n}" for n in range(50)))
    names = run_of(replace(RUN, line=replace(line, status=Status.RUNNING)))
    status = next(name for name in names if name.startswith("run_status WARNING"))
    assert status.removeprefix("run_status WARNING ").startswith("a bxx")
    assert len(status) < 240
    assert sum(name.startswith("run_condition") for name in names) == 20


def seen(**fields: Any) -> dict[str, float]:
    return told(of_view(replace(VIEW, **fields), {"LIST": 3}))


def test_the_dashboard_tells_the_same_of_a_run() -> None:
    found = seen()
    assert (found["up"], found["fleet_seen_timestamp_seconds"]) == (1, START.timestamp())
    assert (found["runs RUNNING"], found["run_step run-1"], found["run_loss run-1"]) == (1, 7, 1.25)
    assert found["run_last_beat_age_seconds run-1"] == 40
    assert found["store_requests_total LIST"] == 3
    assert found["store_cost_dollars_total"] == pytest.approx(15e-6)
    assert "run_total_steps run-1" not in found
    assert not any(name.startswith(("passes", "alert_deliveries_total", "transitions")) for name in found)


def test_before_the_dashboard_has_looked_nothing_is_told_of_the_fleet() -> None:
    found = seen(at=None, rows=())
    assert {name.split()[0] for name in found} == {"build_info", "store_requests_total", "store_cost_dollars_total"}


def test_a_dashboard_that_cannot_see_says_so_and_what_it_saw_stands() -> None:
    found = seen(fault=StoreOutage("no answer"))
    assert found["up"] == 0
    assert {n: v for n, v in found.items() if n != "up"} == {n: v for n, v in seen().items() if n != "up"}
    assert seen(at=None, rows=(), fault=StoreOutage("no answer"))["up"] == 0


def test_runs_that_were_not_read_yet_have_no_status() -> None:
    unread = Row("run-2", ShownState(Status.UNKNOWN), recorded=False, complete=False)
    found = seen(rows=(*VIEW.rows, unread))
    assert (found["runs RUNNING"], found["runs UNKNOWN"], found["runs_left_out"]) == (1, 0, 1)
    closed = replace(unread, fault="access denied", beat_at=START)
    found = seen(rows=(*VIEW.rows, closed))
    assert (found["runs UNKNOWN"], found["runs_left_out"]) == (1, 0)


def test_the_beat_of_a_run_that_could_not_be_read_has_no_age() -> None:
    found = seen(rows=(replace(VIEW.rows[0], fault="access denied"),))
    assert "run_last_beat_age_seconds run-1" not in found


WATCHING: list[tuple[str, WatchState, float | None]] = [
    ("passes come", WatchState(START, 60.0), 1),
    ("they have stopped", WatchState(START, 60.0, overdue=True), 0),
    ("there never was one", WatchState(), 0),
    ("nobody can tell", WatchState(known=False), None),
]


@pytest.mark.parametrize(("watching", "watched"), [pytest.param(w, v, id=says) for says, w, v in WATCHING])
def test_whether_anybody_watches(watching: WatchState, watched: float | None) -> None:
    assert seen(watching=watching).get("watched") == watched


def test_the_dashboard_is_bounded_too() -> None:
    rows = tuple(Row(f"run-{number}", RUNNING) for number in range(FIGURES_LIMIT + 3))
    found = seen(rows=rows)
    assert sum(name.startswith("run_status ") for name in found) == FIGURES_LIMIT
    assert (found["runs RUNNING"], found["runs_left_out"]) == (FIGURES_LIMIT + 3, 3)
