"""A run that stands still, as ``show`` and ``top`` tell it."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.model.figures import Figures
from lastbeat.model.state import ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import Row, RunView
from lastbeat.views.lines import signs
from lastbeat.views.lines.paint import rendered
from lastbeat.views.lines.run import show_lines
from lastbeat_cli.run.screen import top_lines

RUNNING = ShownState(Status.RUNNING)
NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
ROW = Row(
    "qwen-7b", RUNNING, since=NOW - timedelta(hours=9), figures=Figures(12_000, 100_000), stands_still=True,
    step_at=NOW - timedelta(minutes=61), stall_limited=False, watched_since=NOW - timedelta(minutes=20),
)  # fmt: skip
VIEW = RunView(ROW, NOW, "s3://bucket/runs/qwen-7b/", seen_at=NOW - timedelta(minutes=20))


def show(view: RunView) -> str:
    return "\n".join(rendered(each, colours=False) for each in show_lines(view, 100, str))


def top(view: RunView) -> str:
    return "\n".join(rendered(each, colours=False) for each in top_lines(view, 100, 40, NOW, signs.UTF8))


def test_show_says_how_old_the_step_is_and_how_to_limit_that() -> None:
    told = show(VIEW)
    assert "12,000 of 100,000 (12%), 1h 01m ago" in told
    assert "Warning: no step for 1h 01m, and no stall limit is set" in told
    assert "lastbeat limits 'qwen-7b' --stall-minutes 30" in " ".join(told.split())
    assert "Since: 2026-01-01T03:00:00Z (9h 00m ago), watched since 2026-01-01T11:40:00Z, attempt 1" in told


def test_top_says_how_old_the_step_is() -> None:
    told = top(VIEW)
    assert "Step 12,000/100,000, 1h 01m ago" in told
    assert "no step for 1h 01m, and no stall limit is set" in told
    assert "Step 12,000, 1h 01m ago" in top(replace(VIEW, row=replace(ROW, figures=Figures(12_000))))


@pytest.mark.parametrize(
    ("row", "lacks"),
    [
        pytest.param(replace(ROW, stall_limited=True), "no stall limit", id="a limit holds"),
        pytest.param(replace(ROW, stands_still=False), "no step for", id="that is normal for it"),
        pytest.param(
            replace(ROW, state=replace(ROW.state, conditions=("stalled",))), "no step for", id="a warning says so"
        ),
        pytest.param(replace(ROW, step_at=NOW, stands_still=False), "0s ago", id="the step is new"),
    ],
)
def test_what_is_not_so_is_not_said(row: Row, lacks: str) -> None:
    view = replace(VIEW, row=row)
    assert lacks not in show(view)
    assert lacks not in top(view)
