"""``backtest``: the recorded past of a fleet through one policy or several, and through learned limits."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from lastbeat.model.learned_limits import LearnedLimit, LearnedState, SpanKey, Taken, encode_state
from lastbeat.model.record import Attempt, ExceededLimit, LimitName, Record, Transition
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.watch.record.codec import encode
from support.cli import LASTBEAT, call

START = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)
RUNNING, FAILED, DONE = Status.RUNNING, Status.FAILED, Status.SUCCEEDED
Told = tuple[float, Status, int, str | None, int | None]


def record(run_id: str, *told: Told, before: int = 0) -> bytes:
    """Hours since the start, status, attempt, cause, step; ``before``: transitions that are not kept."""
    history = tuple(
        Transition(before + number, START + timedelta(hours=hours), None, after, "boom", attempt, cause, step=step)
        for number, (hours, after, attempt, cause, step) in enumerate(told, 1)
    )
    last = told[-1][2] if told else 1
    made = Record(run_id, State(RUNNING), attempt=Attempt(last), history=history, transitions=before + len(told))
    return encode(made)


FLEET = {
    "mended": record("mended", (0, RUNNING, 1, None, 0), (2, FAILED, 1, "nccl", 200), (5, RUNNING, 2, None, 150),
                     (9, DONE, 2, None, 900)),
    "in-vain": record("in-vain", (0, RUNNING, 1, None, 0), (2, FAILED, 1, "oom", 200), (5, RUNNING, 2, None, 150),
                      (6, FAILED, 2, "oom", 200)),
    "old": record("old", (0, RUNNING, 1, None, None), (2, FAILED, 1, None, None), before=7),
    "thin": record("thin"),
}  # fmt: skip


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Path]:
    for name, body in FLEET.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "_watchdog.json").write_bytes(body)
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "_watchdog.json").write_text("{")
    before = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*"))
    yield tmp_path
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*")) == before, "it only reads"


def test_two_policies_are_compared_side_by_side(fleet: Path) -> None:
    done = call(
        LASTBEAT, "backtest", str(fleet / "runs"), "--policy", "megatron_transient", "--policy",
        "megatron_aggressive", "--decisions",
        cwd=fleet, COLUMNS="160", LASTBEAT_RESTART_DELAY_SECONDS="0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "5 ends of attempts in 4 recorded runs, 4 of them failures" in lines[0]
    assert any("megatron_transient" in line and "megatron_aggressive" in line for line in lines)
    assert "1: 3.0 h, 300 steps" in done.stdout
    assert "Permanent failure detected (excluded error_type: oom)" in done.stdout
    assert "mended, attempt 1, FAILED, step 200: megatron_transient: restart 1/3: Transient failure" in done.stdout
    for note in ("Too thin to judge: 1 run", "Known in part: 1 run", "No cause was recorded of 1", "broken: "):
        assert note in done.stdout


def test_programs_get_the_same(fleet: Path) -> None:
    done = call(LASTBEAT, "backtest", "runs", "--json", cwd=fleet, LASTBEAT_RESTART_DELAY_SECONDS="0")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    counts = {name: told[name] for name in ("runs", "thin", "cut", "ends", "failures", "without_cause", "without_step")}
    assert counts == {
        "runs": 4, "thin": 1, "cut": 1, "ends": 5, "failures": 4, "without_cause": 1, "without_step": 1,
    }  # fmt: skip
    assert told["unusable"] == 1
    (policy,) = told["policies"]
    assert policy["name"] == "megatron_transient"
    assert policy["restarts"]["saved"] == {
        "count": 1, "hours": 3.0, "hours_known_of": 1, "steps": 300, "steps_known_of": 1,
    }  # fmt: skip
    assert (policy["stops"]["spared"]["count"], policy["stops"]["spared"]["hours"]) == (1, 1.0)
    assert policy["reasons"]["Permanent failure detected (excluded error_type: oom)"] == 2
    first = next(each for each in told["decisions"] if each["run_id"] == "mended")
    assert (first["action"], first["hindsight"], first["budget"], first["step"]) == ("restart", "saved", "1/3", 200)


SAVING = SpanKey("section", "checkpointing")


def ended(run_id: str, status: Status, hours: float, limit: LimitName | None = None, attempt: int = 1) -> bytes:
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
TIMED = {
    # 100 steps of 60 s, the last at 13:40; it was told at 14:50.
    "hung/_watchdog.json": ended("hung", Status.TIMED_OUT, 2 + 5 / 6, STOOD_STILL, attempt=3),
    "hung/progress.json": progress((100, 60.0)),
    "evaluates/_watchdog.json": ended("evaluates", Status.SUCCEEDED, 5.0),
    "evaluates/progress.json": progress((100, 60.0), (1, 3600.0), (100, 60.0)),
    "well/_watchdog.json": ended("well", Status.SUCCEEDED, 10.0),
    "well/progress.json": progress((590, 60.0)),
    "saves/_watchdog.json": ended("saves", Status.SUCCEEDED, 9.0),
    "saves/metadata.json": METADATA,
    "saves/ft_state.json": learned(),
    "died/_watchdog.json": ended("died", Status.TIMED_OUT, 4.0, SILENT),
    "died/progress.json": progress((100, 60.0)),
    "soon/_watchdog.json": ended("soon", Status.TIMED_OUT, 2.0, STOOD_STILL),
    "soon/progress.json": progress((100, 60.0)),
    "thin/_watchdog.json": ended("thin", Status.TIMED_OUT, 4.0, STOOD_STILL),
    "hostile/_watchdog.json": ended("hostile", Status.SUCCEEDED, 4.0),
    "hostile/progress.json": b'{"recent": [[1e999, "x"], 7, [0, -1, []], {}], "step": [[[]]]}',
    "hostile/ft_state.json": b"[" * 60_000,
    "broken/_watchdog.json": b"{",
}


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[Path]:
    for name, body in TIMED.items():
        path = tmp_path / "runs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    before = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*"))
    yield tmp_path
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*")) == before, "it only reads"


def test_of_learned_limits_each_run_and_the_sum_are_told(timed: Path) -> None:
    done = call(LASTBEAT, "backtest", "--timeouts", str(timed / "runs"), cwd=timed, COLUMNS="160")
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


def test_of_learned_limits_programs_get_the_same(timed: Path) -> None:
    done = call(LASTBEAT, "backtest", "runs", "--timeouts", "--json", cwd=timed)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
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
