"""Fleets as JSON: the promised keys, numbers that JSON has, and rows in their order."""

import json
import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.figures import Figures
from lastbeat.model.state import ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import FleetView, Row, Span, StoreOutage, WatchState
from lastbeat.views.documents import fleet_document, row_document
from lastbeat.views.fleet_state import Table
from lastbeat.views.order import sorted_rows

RUNNING = ShownState(Status.RUNNING)
NOW = datetime(2026, 1, 2, 12, 0, 0, 250_000, tzinfo=timezone.utc)
FLEET_KEYS = {
    "schema", "root", "at", "made_at", "version", "live", "interval_s", "seq", "since", "epoch", "stale_s", "older",
    "unread", "counts", "silenced", "silences", "watching", "fault", "ignored", "notes", "gone", "keys", "runs",
    "views",
}  # fmt: skip
ROW_KEYS = {
    "run_id", "status", "shown", "recorded", "rank", "reason", "cause", "action", "conditions", "since", "attempt",
    "phase", "step", "total_steps", "eta_s", "loss", "losses", "steps_per_s", "tokens_per_s", "beat_at", "host",
    "owner", "team", "tags", "strip", "pending", "doubt", "fault", "complete", "silenced", "acknowledged", "job",
    "step_at", "stands_still", "stall_limited", "watched_since",
}  # fmt: skip


def strict(document: dict[str, Any]) -> Any:
    return json.loads(json.dumps(document, allow_nan=False))


def test_all_keys_are_there_and_what_is_not_known_is_null() -> None:
    document = strict(fleet_document(FleetView("memory://runs", None)))
    assert set(document) == FLEET_KEYS
    assert (document["at"], document["fault"], document["since"], document["runs"]) == (None, None, None, [])
    row = strict(row_document(Row("a", RUNNING)))
    assert set(row) == ROW_KEYS, "a new key belongs into ROW_KEYS; one that is gone breaks programs that read it"
    assert (row["phase"], row["loss"], row["rank"]) == (None, None, None)


def test_a_fleet_is_told_as_it_is() -> None:
    rows = (
        Row("a", ShownState(Status.FAILED)),
        Row("b", ShownState(Status.RUNNING, conditions=("stalled",))),
        Row("c", RUNNING),
    )
    view = FleetView(
        "s3://b/p", NOW, rows, older=7, unread=2, watching=WatchState(NOW, 60.0, overdue=True),
        fault=StoreOutage("no answer", "wait", NOW), ignored=("<b>",), notes=("one",),
    )  # fmt: skip
    document = strict(fleet_document(view, made_at=NOW, live=True, interval_s=5.0, stale_s=600.0, seq=9, epoch="e"))
    assert document["counts"] == {"FAILED": 1, "RUNNING (WARNING)": 1, "RUNNING": 1}
    assert document["watching"] == {
        "last_pass_at": "2026-01-02T12:00:00Z", "interval_s": 60.0, "overdue": True, "known": True,
        "recorded_at": None,
    }  # fmt: skip
    assert document["fault"] == {"reason": "no answer", "advice": "wait", "since": "2026-01-02T12:00:00Z"}
    assert [(row["run_id"], row["rank"]) for row in document["runs"]] == [("a", 0), ("b", 1), ("c", 2)]
    assert (document["seq"], document["epoch"], document["live"], document["gone"]) == (9, "e", True, [])


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        pytest.param(math.nan, "NaN", id="no number"),
        pytest.param(-math.inf, "-Infinity", id="less than all"),
        pytest.param(0.123456789, 0.123457, id="six digits are enough"),
        pytest.param(3.0, 3, id="a whole number takes no point"),
        pytest.param(1e300, 1e300, id="a very large one"),
    ],
)
def test_a_loss_is_a_number_that_json_has_or_text(loss: float | None, expected: object) -> None:
    assert strict(row_document(Row("a", RUNNING, figures=Figures(loss=loss))))["loss"] == expected


def test_a_strip_is_times_statuses_and_attempts() -> None:
    strip = (Span(NOW, Status.RUNNING), Span(NOW + timedelta(seconds=9), Status.FAILED, 2))
    document = strict(row_document(Row("a", ShownState(Status.FAILED), strip=strip)))
    assert document["strip"] == [["2026-01-02T12:00:00Z", "RUNNING", 1], ["2026-01-02T12:00:09Z", "FAILED", 2]]


_ids = st.sampled_from(["a", "a-1", "b", "c", "D", "run-1", "run-10"])
_rows = st.builds(
    Row,
    _ids,
    st.builds(ShownState, st.sampled_from(list(Status)), conditions=st.sampled_from([(), ("stalled",)])),
    since=st.none() | st.integers(0, 40).map(lambda hours: NOW - timedelta(hours=hours)),
    figures=st.builds(Figures, loss=st.none() | st.floats()),
)
_step = st.tuples(st.lists(_rows, max_size=4), st.lists(_ids, max_size=3), st.integers(0, 12))


@given(st.lists(_step, min_size=1, max_size=8))
def test_rows_that_come_change_and_go_stand_in_the_order_of_need(steps: list[tuple[list[Row], list[str], int]]) -> None:
    table, at = Table(), NOW
    held: dict[str, Row] = {}
    for rows, gone, hours in steps:
        at += timedelta(hours=hours)
        for run_id in gone:
            held.pop(run_id, None)
            table.drop(run_id)
        held.update({row.run_id: row for row in rows})
        for row in held.values():
            table.put(replace(row), at)
        shown = table.rows(at)
        assert shown == sorted_rows(held.values(), at) or any(math.isnan(row.loss or 0.0) for row in shown)
