"""A fleet as one plain table: what stands below the rows of those that need attention."""

from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.model.figures import Figures
from lastbeat.model.state import ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import FleetView, Row, StoreOutage, WatchState
from lastbeat.views.lines import signs
from lastbeat.views.lines.paint import cells, rendered
from lastbeat_cli.fleet import command
from lastbeat_cli.fleet.asked import FleetAsked

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
EXPLAINED = FleetAsked(explain=True)
LONG = "CUDA out of memory; " * 30
FAILED = Row("oom-1", ShownState(Status.FAILED, LONG, "oom", "Reduce the batch size."), since=NOW - HOUR)


def shown(*rows: Row, columns: int = 80, made_of: signs.Signs = signs.UTF8) -> list[str]:
    view = FleetView("s3://bucket/training-runs", NOW, rows, watching=WatchState(NOW, 60.0))
    told = [rendered(each, colours=False) for each in command.lines(view, rows, columns, made_of, EXPLAINED)]
    assert max(map(cells, told)) <= columns
    return told


TOLD = [
    pytest.param(FAILED, 3, id="a long reason in two lines, and what to do"),
    pytest.param(
        Row("a", ShownState(Status.TIMED_OUT, "no beat"), since=NOW), 0, id="a reason that the table tells whole"
    ),
    pytest.param(
        Row("a", ShownState(Status.RUNNING, action="Look at it. " * 40, conditions=("stalled",))),
        2,
        id="a long hint in two lines",
    ),
    pytest.param(
        Row("a", ShownState(Status.FAILED, LONG, action="Begin anew."), since=NOW - 48 * HOUR),
        0,
        id="nothing of old news",
    ),
    pytest.param(Row("a", ShownState(Status.RUNNING, action="Nothing.")), 0, id="nothing of a run that lives"),
    pytest.param(Row("a", ShownState(Status.RUNNING), doubt=LONG), 2, id="a run that is doubted"),
]


@pytest.mark.parametrize(("row", "count"), TOLD)
@pytest.mark.parametrize("columns", [60, 200])
def test_what_stands_below_a_row(row: Row, count: int, columns: int) -> None:
    lines = shown(row, columns=columns)
    at = next(index for index, line in enumerate(lines) if line.startswith("STATUS"))
    assert len(lines[at + 2 :]) == count
    assert all(line.startswith("    ") for line in lines[at + 2 :])


@pytest.mark.parametrize("columns", [60, 160])
@pytest.mark.parametrize("length", [30, 200])
def test_no_run_id_is_cut(length: int, columns: int) -> None:
    name = "qwen2.5-14b-" + "x" * (length - 18) + "-seed1"
    rows = [Row(name, ShownState(Status.RUNNING), figures=Figures(5, 10, 2.5), beat_at=NOW), FAILED]
    view = FleetView("s3://bucket/training-runs", NOW, tuple(rows), watching=WatchState(NOW, 60.0))
    told = [rendered(each, colours=False) for each in command.lines(view, rows, columns, signs.UTF8, EXPLAINED)]
    line = next(line for line in told if name in line)
    assert cells(line) <= max(columns, length + len("● RUNNING ") + 14)


def test_it_is_told_of_so_many_and_no_more() -> None:
    many = [Row(f"oom-{n:03}", ShownState(Status.FAILED, LONG, action="→" * 5), since=NOW - HOUR) for n in range(300)]
    lines = shown(*many)
    assert sum(line.startswith("    ") for line in lines) == command.MOST_TOLD * 3
    assert "of 300 that need attention" in lines[-1] + lines[-2]


def test_a_file_without_utf8_gets_ascii() -> None:
    assert "\n".join(shown(FAILED, made_of=signs.ascii_only())).isascii()


def test_what_is_said_round_the_table_is_told_whole() -> None:
    advice = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, run aws sso login, or give the role."
    view = FleetView(
        "s3://bucket/x", NOW, (FAILED,), fault=StoreOutage("access denied", advice), notes=("Of note. " * 12,)
    )
    told = [rendered(each, colours=False) for each in command.lines(view, (FAILED,), 60, signs.UTF8, EXPLAINED)]
    assert max(map(cells, told)) <= 60
    text = " ".join(" ".join(told).split())
    assert advice in text
    assert ("Of note. " * 12).strip() in text


NONE = [
    pytest.param((), "lastbeat exec", id="of an empty fleet how a run comes to be there"),
    pytest.param((FAILED,), "1 other", id="where a filter hides all, how many there are"),
]


@pytest.mark.parametrize(("rows", "text"), NONE)
def test_where_there_is_no_row_people_read_what_to_do(rows: tuple[Row, ...], text: str) -> None:
    view = FleetView("s3://bucket/x", NOW, rows, watching=WatchState(NOW, 60.0))
    told = [rendered(each, colours=False) for each in command.lines(view, (), 80, signs.UTF8)]
    assert text in "\n".join(told)
