"""Runs as a table: what stands where at which width, and what training's text may not do to it."""

import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.figures import Figures
from lastbeat.model.silence import Silence
from lastbeat.model.state import ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import Row
from lastbeat.views.lines import signs
from lastbeat.views.lines.paint import cells, rendered
from lastbeat_cli.fleet.cells import rate, short_duration, si
from lastbeat_cli.fleet.table import table

RUNNING = ShownState(Status.RUNNING)
NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
FALLING = tuple(3.0 - i / 10 for i in range(24))
FAILED = Row(
    "mistral-20250804-171621",
    ShownState(Status.FAILED, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "oom"),
    figures=Figures(12_000, 100_000, 2.3124),
    losses=FALLING,
    beat_at=NOW - timedelta(minutes=4),
    attempt=3,
    phase="train",
    host="i-0abc",
)
WARNED = Row(
    "whisper-1",
    ShownState(Status.RUNNING, "metadata 3s ago", conditions=("stalled", "loss_nan")),
    figures=Figures(25, 100, math.nan),
    eta_s=8_000,
    losses=(*FALLING[:5], None),
    beat_at=NOW - timedelta(seconds=12),
    steps_per_s=3.2,
    tokens_per_s=123_456.0,
    phase="evaluating",
)
LIVES = Row(
    "vit", ShownState(Status.RUNNING, "metadata 3s ago"), figures=Figures(7), beat_at=NOW - timedelta(seconds=3)
)


def shown(rows: list[Row], columns: int, made_of: signs.Signs = signs.UTF8) -> list[str]:
    return [rendered(each, colours=False) for each in table(rows, columns, NOW, made_of)]


def test_a_silenced_run_says_for_how_long_and_why() -> None:
    silence = Silence("ab12cd34", "vit*", NOW, NOW + timedelta(hours=3), "node repair", "ana@desk")
    _, lives = shown([replace(LIVES, silence=silence)], 120)
    assert lives.endswith("silenced 3h: node repair")
    _, unexplained = shown([replace(LIVES, silence=replace(silence, why=""))], 120)
    assert unexplained.endswith("silenced 3h")
    _, failed = shown([replace(FAILED, silence=silence)], 200)
    assert "silenced 3h: node repair; oom: torch.OutOfMemoryError" in failed


def test_a_short_reason_leaves_the_exception_out_and_no_word_runs_into_the_next() -> None:
    row = replace(
        FAILED,
        state=replace(FAILED.state, reason="The log shows that it failed: torch.OutOfMemoryError: CUDA out of memory"),
        host="",
    )
    assert "oom: The log shows that it failed: CUD" in shown([row], 100)[1]


def test_a_success_that_counts_from_0_is_complete() -> None:
    done = Row("vit", ShownState(Status.SUCCEEDED), figures=Figures(99_999, 100_000))
    assert shown([done], 200)[1].split() == ["✔", "SUCCEEDED", "vit", "100,000/100,000", "█" * 10, "100%"]
    assert shown([done], 80)[1].split()[-1] == "100%"


def test_at_80_columns_the_essential_is_there() -> None:
    assert shown([FAILED, WARNED, LIVES], 80) == [
        "STATUS    RUN                     DONE ETA LOSS        BEAT WHY",
        "✖ FAILED  mistral-20250804-171621  12%     2.31 █▇▅▄▂▁   4m oom: CUDA out of me…",
        "▲ WARNING whisper-1                25%  2h  NaN █▆▄▃▁·  12s stalled, loss_nan",
        "● RUNNING vit                        7                   3s",
    ]


def test_at_200_columns_everything_is_there() -> None:
    heading, failed, warned, lives = shown([FAILED, WARNED, LIVES], 200)
    assert heading.split() == [
        "STATUS", "RUN", "PHASE", "STEP", "DONE", "ETA", "LOSS", "SPEED", "TOKENS", "BEAT", "ATTEMPT", "WHY", "HOST",
    ]  # fmt: skip
    for text in ("✖ FAILED", "mistral-20250804-171621", "train", "12,000/100,000", "█░░░░░░░░░", "12%", "2.312",
                 "4m", "  3  ", "oom: torch.OutOfMemoryError: CUDA", "i-0abc"):  # fmt: skip
        assert text in failed
    for text in ("▲ WARNING", "evaluating", "2h 13m", "NaN", "3.2/s", "123k/s", "12s"):
        assert text in warned
    assert "0%" not in lives, "how far it is of an unknown total is not known"


def test_without_utf8_signs_and_pictures_are_ascii() -> None:
    told = shown([FAILED, WARNED], 80, signs.ascii_only())
    assert all(text.isascii() for text in told)
    assert told[1].startswith("X FAILED")
    assert told[2].startswith("! WARNING")
    assert "@" in told[1]


TOLD = [
    pytest.param(
        FAILED, "oom: CUDA out of memory", id="a failure tells cause and reason, without the exception's name"
    ),
    pytest.param(WARNED, "stalled, loss_nan", id="a warning names its conditions"),
    pytest.param(
        Row("a", ShownState(Status.RUNNING, "rank 76 on h100-009 (score 0.61) is slow", conditions=("straggler",))),
        "straggler: rank 76 on h100-009 (score 0.61) is slow",
        id="of stragglers it names ranks and nodes",
    ),
    pytest.param(
        Row("a", RUNNING, doubt="silent for 3h, and no watchdog runs"),
        "silent for 3h",
        id="a doubt is told",
    ),
    pytest.param(
        Row("a", ShownState(Status.UNKNOWN), fault="_watchdog.json: access denied"),
        "unreadable: _watchdog.json: access denied",
        id="what could not be read is said to be unreadable",
    ),
    pytest.param(
        Row("a", ShownState(Status.SUCCEEDED, "Training completed, but the loss is NaN", conditions=("loss_nan",))),
        "loss_nan: Training completed",
        id="a success that is none names what is wrong with it first",
    ),
    pytest.param(Row("a", RUNNING, complete=False), "still reading", id="what is not read yet is said"),
    pytest.param(Row("a", RUNNING, recorded=False), "not recorded yet", id="what nobody has recorded is said"),
    pytest.param(
        Row("a", ShownState(Status.FAILED, "boom", "oom"), pending=1), "oom: boom; 1 alert waiting", id="both are told"
    ),
]


@pytest.mark.parametrize(("row", "text"), TOLD)
def test_why(row: Row, text: str) -> None:
    assert text in shown([row], 120)[1]


def test_a_doubt_stands_beside_the_status_too() -> None:
    assert "RUNNING?" in shown([Row("a", RUNNING, doubt="silent")], 80)[1]


def swept(seed: int, **fields: Any) -> Row:
    """One run of a sweep, whose name differs from the others' in its middle and at its end."""
    known: dict[str, Any] = {
        "state": RUNNING, "figures": Figures(12_000, 100_000, 2.3124), "losses": FALLING, "eta_s": 8000.0,
        "phase": "training",
        "beat_at": NOW, "steps_per_s": 3.2, "host": "ip-10-0-17-8", "owner": "alice",
    }  # fmt: skip
    return Row(f"qwen2.5-14b-instruct-sft-lr2e-5-wd0.1-seed{seed}", **{**known, **fields})


@pytest.mark.parametrize("columns", [100, 120, 160, 200])
def test_the_run_takes_its_width_before_other_columns_do(columns: int) -> None:
    rows = [
        swept(1),
        swept(2, state=ShownState(Status.RUNNING, conditions=("stalled",))),
        replace(FAILED, state=replace(FAILED.state, reason="boom " * 90), run_id=swept(3).run_id),
    ]
    heading, *told = shown(rows, columns)
    assert all(row.run_id in line for row, line in zip(rows, told, strict=True))
    assert all(word in heading for word in ("STATUS", "RUN", "DONE", "BEAT", "WHY"))
    assert "▲ WARNING " in told[1]


def test_on_a_narrow_screen_a_long_name_leaves_room_for_how_it_is() -> None:
    heading, line = shown([swept(1, doubt="silent for 3h 00m, and no watchdog runs")], 60)
    assert heading.split() == ["STATUS", "RUN", "DONE", "BEAT", "WHY"]
    assert "qwen2.5-14b-" in line
    assert "-seed1" in line
    assert "silent for" in line


STILL = Row(
    "gpt", RUNNING, figures=Figures(5, 100), step_at=NOW - timedelta(minutes=61), stands_still=True,
    stall_limited=False, beat_at=NOW,
)  # fmt: skip
AGES = [
    pytest.param(STILL, "61m", "no step for 1h 01m, and no stall limit is set", id="nothing limits it"),
    pytest.param(
        replace(STILL, state=replace(STILL.state, conditions=("stalled",))), "61m", "stalled", id="a warning says so"
    ),
    pytest.param(replace(STILL, stands_still=False), "61m", "", id="that is normal for it"),
    pytest.param(replace(STILL, stands_still=False, step_at=NOW - timedelta(minutes=4)), "", "", id="four minutes"),
    pytest.param(
        replace(STILL, state=replace(STILL.state, status=Status.SUCCEEDED), stands_still=False), "", "", id="it is done"
    ),
]


@pytest.mark.parametrize(("row", "age", "why"), AGES)
def test_the_age_of_the_step_stands_beside_it(row: Row, age: str, why: str) -> None:
    heading, line = shown([row], 80)
    assert ("AGE" in heading) is bool(age)
    assert line.split("5%")[1].split() == [*([age] if age else []), "0s", *why.split()]


texts = st.text(max_size=60) | st.sampled_from(
    [
        "\x1b[2J\x1b]0;owned\x07",
        "👩‍💻🔥 training",
        "\u202eegnellahc",
        "a\nb\rc",
        "日本語のフェーズ",
        "e\u0301\u0301",
        "\ud800",
    ]
)
rows = st.builds(
    Row,
    run_id=st.from_regex(r"[A-Za-z0-9.+=@:-]{1,200}", fullmatch=True),
    state=st.builds(
        ShownState,
        st.sampled_from(Status),
        texts,
        st.none() | texts,
        conditions=st.lists(st.sampled_from(["stalled", "slow"]), max_size=2).map(tuple),
    ),
    attempt=st.integers(1, 10**6),
    phase=st.none() | texts,
    figures=st.builds(Figures, st.none() | st.integers(), st.none() | st.integers(), st.none() | st.floats()),
    eta_s=st.none() | st.floats(),
    losses=st.lists(st.none() | st.floats(), max_size=24).map(tuple),
    steps_per_s=st.none() | st.floats(),
    tokens_per_s=st.none() | st.floats(),
    beat_at=st.none() | st.floats(-1e6, 1e6).map(lambda seconds: NOW - timedelta(seconds=seconds)),
    host=st.none() | texts,
    doubt=st.none() | texts,
    fault=st.none() | texts,
)


@given(st.lists(rows, max_size=6), st.integers(20, 260), st.booleans())
def test_no_line_is_wider_than_asked_and_none_can_move_the_cursor(many: list[Row], columns: int, plain: bool) -> None:
    made_of = signs.ascii_only() if plain else signs.UTF8
    told = shown(many, columns, made_of)
    assert len(told) == len(many) + 1
    for text in told:
        assert cells(text) <= columns
        assert text.isprintable() or not set(text) & set("\x1b\n\r\x07\x9b\u202e\u200f")
        assert not plain or text.isascii()


DURATIONS = [
    pytest.param(-5.0, "0s", id="a clock that is ahead"),
    pytest.param(59.9, "59s", id="seconds"),
    pytest.param(60.0, "1m", id="a minute"),
    pytest.param(5_399.0, "89m", id="minutes, while an hour would say too little"),
    pytest.param(5_400.0, "1h", id="hours"),
    pytest.param(47 * 3600.0, "47h", id="hours up to two days"),
    pytest.param(50 * 3600.0, "2d", id="days"),
]


@pytest.mark.parametrize(("seconds", "text"), DURATIONS)
def test_a_short_duration(seconds: float, text: str) -> None:
    assert short_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (999.0, "999"), (12_345.0, "12.3k"), (3.4e6, "3.4M"), (math.nan, "NaN"), (-math.inf, "-inf")],
)
def test_a_short_number(value: float, text: str) -> None:
    assert si(value) == text


def test_slow_steps_are_told_in_seconds() -> None:
    assert rate(3.21) == "3.21/s"
    assert rate(0.02) == "50 s/step"
