"""Who needs people first, and who is asked for."""

import random
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from lastbeat.model.record import Acknowledgement
from lastbeat.model.state import ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import Row
from lastbeat.views.order import need, select, sorted_rows

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=timezone.utc)


def run(
    run_id: str, status: Status = Status.RUNNING, hours: float | None = 1.0, *, state: Any = None, **fields: Any
) -> Row:
    state = state or ShownState(status)
    return Row(run_id, state, since=None if hours is None else NOW - timedelta(hours=hours), **fields)


BY_ANA = Acknowledgement(NOW, "ana@host", "mine")
IN_ORDER = [
    run("still", hours=0.5, stands_still=True),
    run("unseen", Status.UNKNOWN, acknowledged=BY_ANA),
    run("warned", state=ShownState(Status.RUNNING, conditions=("stalled",))),
    run("silent", hours=90, doubt="silent for 2h 00m, and no watchdog runs", beat_at=NOW - timedelta(hours=2)),
    run("unreadable", hours=5, fault="progress.json: it is not JSON"),
    run("failed-now", Status.FAILED, 0.1),
    run("timed-out", Status.TIMED_OUT, 3),
    run("failed-yesterday", Status.FAILED, 9),
    run("failed-of-unknown-time", Status.FAILED, None),
    run("acknowledged-failure", Status.FAILED, 0.2, acknowledged=BY_ANA),
    run("acknowledged-warning", state=ShownState(Status.RUNNING, conditions=("stalled",)), acknowledged=BY_ANA),
    run("lives", hours=1),
    run("lives-longer", hours=50),
    run("failed-before", Status.FAILED, 30),
    run("failed-before-and-acknowledged", Status.FAILED, 31, acknowledged=BY_ANA),
    run("done", Status.SUCCEEDED, 0.5),
    run("done-a", Status.SUCCEEDED, 9),
    run("done-b", Status.SUCCEEDED, 9),
]


def test_whoever_needs_people_goes_first_then_the_newest_then_the_name() -> None:
    mixed = list(IN_ORDER)
    random.Random(5).shuffle(mixed)
    assert [row.run_id for row in sorted_rows(mixed, NOW)] == [row.run_id for row in IN_ORDER]


def test_without_a_time_a_failure_is_a_failure() -> None:
    assert need(run("failed-before", Status.FAILED, 30), None) == 1


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param({"globs": ["vit", "llama-[2-9]"]}, {"vit", "llama-2"}, id="one of two globs"),
        pytest.param({"globs": ["bert"]}, set(), id="ids are told apart by capitals"),
        pytest.param({"statuses": ["failed"]}, {"vit"}, id="a status, in capitals or not"),
        pytest.param({"statuses": ["RUNNING"]}, {"llama-1", "llama-2"}, id="running, with warnings or not"),
        pytest.param({"statuses": ["warning"]}, {"llama-2"}, id="running with warnings"),
        pytest.param({"statuses": ["RUNNING (WARNING)"]}, {"llama-2"}, id="as it is shown"),
        pytest.param({"statuses": ["FAILED", "SUCCEEDED"]}, {"vit", "Bert"}, id="one of two statuses"),
        pytest.param({"text": "OOM"}, {"vit"}, id="a cause, in capitals or not"),
        pytest.param({"text": "llama stall"}, {"llama-2"}, id="every word stands somewhere"),
        pytest.param({"globs": ["llama-*"], "text": "oom"}, set(), id="all that is asked for at once"),
    ],
)  # fmt: skip
def test_people_get_what_they_ask_for(asked: dict[str, Any], expected: set[str]) -> None:
    rows = [
        run("llama-1", stands_still=True),
        run("llama-2", state=ShownState(Status.RUNNING, conditions=("stalled",))),
        run("vit", state=ShownState(Status.FAILED, cause="oom"), tags=("sweep3",)),
        run("Bert", Status.SUCCEEDED),
    ]
    found = select(rows, **asked)
    assert {row.run_id for row in found} == expected
    assert [row for row in rows if row in found] == list(found)
