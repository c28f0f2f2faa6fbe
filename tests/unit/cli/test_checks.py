"""What ``doctor`` says of runs."""

import json
import os
from pathlib import Path

from lastbeat.model.check_result import CheckResult
from lastbeat.settings import load
from lastbeat_cli.doctor import checks

DAY_S = 86_400


def put(root: Path, run_id: str, *, days_ago: float = 0.0, **fields: object) -> None:
    run = root / run_id
    run.mkdir(parents=True)
    file = run / "metadata.json"
    file.write_text(json.dumps({"run_id": run_id, **fields}), encoding="utf-8")
    at = file.stat().st_mtime - days_ago * DAY_S
    os.utime(file, (at, at))


def runs(root: Path) -> list[CheckResult]:
    environ = {"MONITORING_ROOT": str(root), "LASTBEAT_STATE_DIR": str(root.parent / "state")}
    return [check for check in checks(load({}, environ, Path("/nonexistent"))) if check.name == "runs"]


def test_runs_that_ignore_a_setting_are_named_while_that_is_news(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    put(root, "good")
    put(root, "wrong", ignored_settings=["LASTBEAT_LEARN='banana'"])
    put(root, "long-ago", days_ago=2, ignored_settings=["LASTBEAT_LEARN='banana'"])
    assert runs(root) == [
        CheckResult("runs", "warn", "wrong ignores LASTBEAT_LEARN='banana'", "correct that where its training starts")
    ]


def test_no_more_runs_are_read_than_people_can_use(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for number in range(14):
        put(root, f"run-{number}", days_ago=0.5 - number / 100, ignored_settings=["X='y'"])
    assert [check.detail.partition(" ")[0] for check in runs(root)] == [f"run-{number}" for number in range(13, 3, -1)]
