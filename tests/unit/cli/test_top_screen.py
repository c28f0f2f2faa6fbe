"""One run on one screen."""

import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.model.amounts import size
from lastbeat.model.figures import Figures
from lastbeat.model.resources import Gpu, Resources
from lastbeat.model.state import ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import HeartbeatFile, Point, RankLine, Row, RunView
from lastbeat.views.lines import signs
from lastbeat.views.lines.paint import cells, rendered
from lastbeat_cli.run.screen import speeds_at, top_lines

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
GIB = 2**30
POINTS = tuple(Point(NOW - timedelta(seconds=100 - n), n * 10, 3 - n / 50) for n in range(100))
ROW = Row(
    "mistral-20250804",
    ShownState(Status.RUNNING),
    since=NOW - timedelta(hours=2),
    figures=Figures(25_000, 100_000),
    eta_s=8_000,
    phase="train \x1b[31mred",
    host="i-0abc",
    steps_per_s=10.0,
    tokens_per_s=120_000,
)
VIEW = RunView(
    ROW,
    NOW,
    "s3://bucket/training-runs/mistral-20250804/",
    beats=(
        HeartbeatFile("metadata.json", NOW - timedelta(seconds=12)),
        HeartbeatFile("progress.json", NOW, fault="it is no JSON"),
    ),
    points=POINTS,
    metrics={"grad_norm": 0.5, "odd": None},
    learning_rate=3e-4,
    epoch=1.25,
    resources=Resources(
        3.5, 23 * GIB, 310 * GIB, 512 * GIB, tuple(Gpu(f"H100 {n}", 0.9, 70 * GIB, 80 * GIB) for n in range(8))
    ),
    ranks=(
        RankLine(0, NOW, 100),
        RankLine(3, NOW - timedelta(hours=1), 40, behind=60),
        RankLine(4, NOW, fault="no JSON"),
    ),
    world_size=64,
)


def shown(view: RunView = VIEW, columns: int = 80, height: int = 40, made_of: signs.Signs = signs.UTF8) -> str:
    told = [rendered(each, colours=False) for each in top_lines(view, columns, height, NOW, made_of)]
    assert len(told) <= height
    assert max(map(cells, told)) <= columns
    return "\n".join(told)


TOLD = [
    "mistral-20250804  ● RUNNING",
    "attempt 1 · phase train red · RUNNING for 2h 00m",
    "Loss 1.02 (least 1.02, most 3)",
    "step 990",
    "Step 25,000/100,000 ███",
    "25%  ETA 2h 13m",
    "10 steps/s  100 ms a step  120k tokens/s",
    "learning rate 0.0003  epoch 1.25  grad_norm 0.5",
    "metadata.json 12s ago  progress.json 0s ago (it is no JSON)",
    "3 of 64  rank 3 is 60 steps behind  1 silent, rank 3 for 1h 00m  1 unreadable",
    "3.5 CPU cores  23 GiB resident  310 GiB of 512 GiB memory free",
    "GPU 7 ████░  90% 70/80 GiB",
]


@pytest.mark.parametrize("text", TOLD)
def test_what_is_known_is_told(text: str) -> None:
    assert text in shown(columns=100)


def test_a_low_terminal_has_all_gpus_in_one_line() -> None:
    gpus = tuple(Gpu("H100", 0.9, 70 * GIB, 80 * GIB) for _ in range(8))
    view = replace(VIEW, resources=Resources(gpus=gpus))
    assert "8 x H100 90% busy with up to 70 GiB of 80 GiB each" in shown(view, height=24)
    assert "┤" in shown(height=24), "and a curve"


def test_a_wide_terminal_shows_how_fast_it_goes_beside_the_loss() -> None:
    assert "Steps/s 10 (least 10, most 10)" in shown(columns=160)
    assert "Steps/s" not in shown(columns=80)


def test_a_picture_that_stays_has_the_whole_id() -> None:
    view = replace(VIEW, row=replace(ROW, run_id="qwen2.5-14b-" + "x" * 120 + "-seed1"))
    told = top_lines(view, 80, 40, NOW, signs.UTF8, whole_id=True)
    assert view.row.run_id in rendered(told[0], colours=False)
    assert max(cells(rendered(each, colours=False)) for each in told[1:]) <= 80
    assert view.row.run_id not in shown(view)


def test_without_utf8_it_is_ascii() -> None:
    assert shown(made_of=signs.ascii_only()).isascii()


def test_a_failure_says_why_and_what_to_do() -> None:
    row = replace(
        ROW,
        state=replace(ROW.state, status=Status.FAILED, reason="boom", cause="oom", action="Reduce the batch size."),
        eta_s=None,
    )
    told = shown(replace(VIEW, row=row))
    assert "✖ FAILED" in told
    assert "oom: boom" in told
    assert "→ Reduce the batch size." in told


def test_of_a_run_that_tells_nothing_that_is_said() -> None:
    told = shown(RunView(Row("a", ShownState(Status.UNKNOWN), fault="access denied"), NOW, "s3://b/a/"))
    assert "? UNKNOWN" in told
    assert "unreadable: access denied" in told
    assert "No step is known." in told
    assert "No curve" in told
    assert "no heartbeat file" in told


def test_what_there_is_no_room_for_below_the_name_is_left_out_whole() -> None:
    assert shown(columns=60).splitlines()[1] == "attempt 1 · phase train red · RUNNING for 2h 00m"
    assert shown(columns=200).splitlines()[1].endswith(" · i-0abc")


@pytest.mark.parametrize(("columns", "height"), [(20, 6), (40, 12), (80, 24), (200, 50), (300, 100)])
def test_any_size(columns: int, height: int) -> None:
    shown(columns=columns, height=height)


def test_losses_that_are_no_numbers_are_counted() -> None:
    points = (*POINTS[:10], replace(POINTS[10], loss=math.nan), replace(POINTS[11], loss=math.inf))
    assert "Loss inf (least 2.82, most 3, 2 no number)" in shown(replace(VIEW, points=points))


def test_a_run_that_began_again_is_as_fast_as_since_then() -> None:
    again = (Point(NOW, 0), Point(NOW + timedelta(seconds=10), 50))
    assert speeds_at([*POINTS, *again]) == [(50, 5.0)]


SIZES = [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (80 * GIB, "80 GiB"), (5 * 1024 * GIB, "5 TiB")]


@pytest.mark.parametrize(("count", "text"), SIZES)
def test_bytes(count: int, text: str) -> None:
    assert size(count) == text
