"""``backtest``: the recorded past of a fleet, in a directory and in a bucket, through one policy or several."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from lastbeat.model.record import Attempt, Record, Transition
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
    expect(json.loads(done.stdout))


def expect(told: dict[str, Any]) -> None:
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
