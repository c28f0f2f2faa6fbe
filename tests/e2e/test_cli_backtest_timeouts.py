"""``backtest --timeouts``: what learned limits would have told of a fleet's past, in a directory and in a bucket."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from lastbeat.model.learned_limits import LearnedLimit, LearnedState, SpanKey, Taken, encode_state
from lastbeat.model.record import Attempt, ExceededLimit, LimitName, Record, Transition
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.watch.record.codec import encode
from support.cli import LASTBEAT, call

START = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)
SAVING = SpanKey("section", "checkpointing")


def record(run_id: str, status: Status, hours: float, limit: LimitName | None = None, attempt: int = 1) -> bytes:
    history = (
        Transition(1, START, None, Status.RUNNING, "began", attempt),
        Transition(2, START + timedelta(hours=hours), Status.RUNNING, status, "over", attempt),
    )
    exceeded = ExceededLimit(limit, 4200.0) if limit is not None else None
    return encode(
        Record(run_id, State(status), attempt=Attempt(attempt), history=history, transitions=2, exceeded=exceeded)
    )


def progress(*stretches: tuple[int, float]) -> bytes:
    """Of each stretch how many steps it has, and how many seconds one takes; a point each 10."""
    at, step, points = START.timestamp(), 0, [[START.timestamp(), 0, 2.0]]
    for steps, step_s in stretches:
        for _ in range(max(1, steps // 10)):
            step += min(10, steps)
            at += min(10, steps) * step_s
            points.append([at, step, 2.0])
    return json.dumps({"step": step, "last_updated": at, "recent": points}).encode()


def learned() -> bytes:
    """Saves had a limit of 650 s, and one took 840 s in this attempt."""
    before = {SAVING: LearnedLimit(Taken(64, 130.0), 650.0)}
    now = {SAVING: LearnedLimit(Taken(96, 840.0), 2425.0)}
    return encode_state(LearnedState(START.isoformat(), before, now))


STOOD_STILL, SILENT = LimitName.STALL, LimitName.STALE
METADATA = json.dumps({"start_time": START.isoformat(), "last_update": START.isoformat()}).encode()
FLEET = {
    # 100 steps of 60 s, the last at 13:40; it was told at 14:50.
    "hung/_watchdog.json": record("hung", Status.TIMED_OUT, 2 + 5 / 6, STOOD_STILL, attempt=3),
    "hung/progress.json": progress((100, 60.0)),
    "evaluates/_watchdog.json": record("evaluates", Status.SUCCEEDED, 5.0),
    "evaluates/progress.json": progress((100, 60.0), (1, 3600.0), (100, 60.0)),
    "well/_watchdog.json": record("well", Status.SUCCEEDED, 10.0),
    "well/progress.json": progress((590, 60.0)),
    "saves/_watchdog.json": record("saves", Status.SUCCEEDED, 9.0),
    "saves/metadata.json": METADATA,
    "saves/ft_state.json": learned(),
    "died/_watchdog.json": record("died", Status.TIMED_OUT, 4.0, SILENT),
    "died/progress.json": progress((100, 60.0)),
    "soon/_watchdog.json": record("soon", Status.TIMED_OUT, 2.0, STOOD_STILL),
    "soon/progress.json": progress((100, 60.0)),
    "thin/_watchdog.json": record("thin", Status.TIMED_OUT, 4.0, STOOD_STILL),
    "hostile/_watchdog.json": record("hostile", Status.SUCCEEDED, 4.0),
    "hostile/progress.json": b'{"recent": [[1e999, "x"], 7, [0, -1, []], {}], "step": [[[]]]}',
    "hostile/ft_state.json": b"[" * 60_000,
    "broken/_watchdog.json": b"{",
}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Path]:
    for name, body in FLEET.items():
        path = tmp_path / "runs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    before = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*"))
    yield tmp_path
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*")) == before, "it only reads"


def test_each_run_and_the_sum_are_told(fleet: Path) -> None:
    done = call(LASTBEAT, "backtest", "--timeouts", str(fleet / "runs"), cwd=fleet, COLUMNS="160")
    assert done.returncode == 0, done.stderr
    for line in (
        "learned limits on the latest attempt of 6 of 8 recorded runs",
        "hangs found    1 of 2, 40m earlier than told in the middle",
        "false alarms   2, in 2 runs",
        "unknown        1",
        "hung: it hung, 40m earlier than told: step for 1h 10m (usual 1m, limit 30m) at 2026-03-01T14:10:00Z",
        "evaluates: false alarm, it went on: step for 1h 00m (usual 1m, limit 30m) at 2026-03-01T14:10:00Z",
        "saves: false alarm, it went on: checkpointing for 14m (usual 2m 10s, limit 10m 50s)",
        "died: its outcome is unknown: step for 2h 20m (usual 1m, limit 30m)",
        "soon: it hung, and no learned limit would have told by then: 100 steps",
        "well: nothing to tell: 590 steps in 9.8 h, the longest 1m, limit 30m",
        "Too little to judge: thin: no points of steps, and no sections that it learned of",
        "Too little to judge: hostile: ",
        "Of 2 earlier attempts no step times are kept.",
        "broken: ",
    ):
        assert line in done.stdout, line


def expect(told: dict[str, Any]) -> None:
    counts = {name: told[name] for name in ("runs", "judged", "hangs", "hangs_found", "hangs_missed", "false_alarms",
                                            "unknown", "unusable")}  # fmt: skip
    assert counts == {"runs": 8, "judged": 6, "hangs": 2, "hangs_found": 1, "hangs_missed": 1, "false_alarms": 2,
                      "unknown": 1, "unusable": 1}  # fmt: skip
    by_run = {each["run_id"]: each for each in told["by_run"]}
    assert by_run["hung"]["told"] == [
        {"section": "step", "came": "hang", "at": "2026-03-01T14:10:00Z", "lasted_s": 4200.0, "usual_s": 60.0,
         "limit_s": 1800.0, "earlier_s": 2400.0}
    ]  # fmt: skip
    assert (by_run["saves"]["told"][0]["section"], by_run["saves"]["told"][0]["at"]) == ("checkpointing", None)
    assert by_run["soon"]["missed"]
    assert by_run["thin"]["too_little"] is not None


def test_programs_get_the_same(fleet: Path) -> None:
    done = call(LASTBEAT, "backtest", "runs", "--timeouts", "--json", cwd=fleet)
    assert done.returncode == 0, done.stderr
    expect(json.loads(done.stdout))
