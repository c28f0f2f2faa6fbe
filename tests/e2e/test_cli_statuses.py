"""``monitor.py --once`` on a directory: every status with its two lines, its JSON and its exit status."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli import LASTBEAT, MONITOR, RunFolder, call

Write = Callable[[RunFolder], object]

KEYS = {
    "run_id", "status", "reason", "cause", "action", "conditions", "attempt", "step", "total_steps",
    "last_metadata_at", "last_progress_at", "since", "alerts",
}  # fmt: skip


def _beats(metadata_minutes_old: float, progress_minutes_old: float) -> Write:
    def write(run: RunFolder) -> None:
        run.metadata(minutes_old=metadata_minutes_old)
        run.progress(minutes_old=progress_minutes_old)

    return write


def _both(minutes_old: float) -> Write:
    return _beats(minutes_old, minutes_old)


def _with(name: str, text: str) -> Write:
    def write(run: RunFolder) -> None:
        _both(0)(run)
        run.put(name, text)

    return write


ROWS = [
    pytest.param(_both(0), "RUNNING", "RUNNING", 0, id="fresh heartbeats are a running run"),
    pytest.param(
        _beats(0, 15),
        "RUNNING (WARNING)",
        "RUNNING",
        1,
        id="one stale heartbeat of two is a warning",
    ),
    pytest.param(_both(11), "TIMED_OUT", "TIMED_OUT", 2, id="both heartbeats stale is a time-out"),
    pytest.param(lambda _: None, "TIMED_OUT", "TIMED_OUT", 2, id="no heartbeat at all is a time-out"),
    pytest.param(_with("_error", "boom"), "FAILED", "FAILED", 2, id="an error sentinel is a failure"),
    pytest.param(_with("_error", ""), "FAILED", "FAILED", 2, id="an empty error sentinel is one too"),
    pytest.param(_with("_complete", ""), "SUCCEEDED", "SUCCEEDED", 0, id="a completion sentinel is a success"),
    pytest.param(_with("_preempted", '{"step": 7}'), "PREEMPTED", "PREEMPTED", 1, id="a preemption is no failure"),
]


@pytest.mark.parametrize(("write", "shown", "status", "code"), ROWS)
def test_a_pass_tells_the_status_in_two_lines_and_by_its_exit(
    tmp_path: Path, write: Write, shown: str, status: str, code: int
) -> None:
    run = RunFolder(tmp_path / "training-runs")
    write(run)
    text = call(MONITOR, "--run-id", "run-1", "--once", cwd=tmp_path, MONITORING_ROOT=str(run.root))
    first, second, *_ = text.stdout.splitlines()
    assert first == f"Run run-1: {shown}"
    assert second.startswith("Detail: ")
    assert text.returncode == code
    assert text.stderr == ""
    program = call(LASTBEAT, "watch", "--run-id", "run-1", "--once", "--json", "--root", str(run.root), cwd=tmp_path)
    document = json.loads(program.stdout)
    assert set(document) == KEYS
    assert (document["status"], document["run_id"]) == (status, "run-1")
    assert f"Detail: {document['reason']}" == second or status == "RUNNING", "a running run's reason tells ages"
    assert program.returncode == code
    assert program.stdout.count("\n") == 1


def test_the_promised_details_of_a_time_out(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "training-runs")
    empty = call(MONITOR, "--run-id", "run-1", "--once", cwd=tmp_path)
    assert empty.stdout.splitlines()[1] == "Detail: No heartbeat files found"
    _both(11)(run)
    stale = call(MONITOR, "--run-id", "run-1", "--once", "--dry-run", cwd=tmp_path)
    assert stale.stdout.splitlines()[:2] == ["Run run-1: TIMED_OUT", "Detail: Both heartbeats stale (>10m)"]


def test_the_json_of_a_running_run_has_every_value(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "runs")
    run.metadata()
    run.progress(loss=float("nan"))
    done = call(MONITOR, "--run-id", "run-1", "--once", "--json", "--root", "runs", cwd=tmp_path)
    document = json.loads(done.stdout, parse_constant=pytest.fail)
    assert document["conditions"] == ["loss_nan"]
    assert (document["attempt"], document["step"], document["total_steps"]) == (1, 25, 100)
    assert document["since"].endswith("Z")
    assert document["last_metadata_at"].endswith("Z")
    assert document["alerts"]["pending"] == document["alerts"]["delivered"] == 0


def test_an_argument_outranks_the_environment_and_that_the_file(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "training-runs")
    _both(5)(run)
    (tmp_path / ".env").write_text("STALE_MINUTES=1\n")
    from_file = call(MONITOR, "--run-id", "run-1", "--once", "--dry-run", cwd=tmp_path)
    from_environment = call(MONITOR, "--run-id", "run-1", "--once", "--dry-run", cwd=tmp_path, STALE_MINUTES="7")
    given = ["--stale-minutes", "0.5"]
    from_argument = call(MONITOR, "--run-id", "run-1", "--once", "--dry-run", *given, cwd=tmp_path, STALE_MINUTES="7")
    assert "Both heartbeats stale (>1m)" in from_file.stdout
    assert from_environment.stdout.startswith("Run run-1: RUNNING\n")
    assert "Both heartbeats stale (>0.5m)" in from_argument.stdout


def test_a_terminal_that_cannot_show_a_character_is_no_reason_to_fail(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "training-runs")
    run.put("_error", "\u0416\u96ea\U0001f600")
    done = call(MONITOR, "--run-id", "run-1", "--once", cwd=tmp_path, PYTHONIOENCODING="latin-1")
    assert done.returncode == 2
    assert "\\u0416" in done.stdout


def test_a_dry_run_prints_the_message_as_people_read_it_and_writes_nothing(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "training-runs")
    run.put("_error", "CUDA out of memory")
    before = sorted(tmp_path.rglob("*"))
    settings = {"LASTBEAT_WEBHOOK_URL": "http://127.0.0.1:9/hook"}
    dry = call(MONITOR, "--run-id", "run-1", "--once", "--dry-run", cwd=tmp_path, **settings)
    assert "Would send to" in dry.stdout
    assert "│ ❌ FAILED: run-1" in dry.stdout
    assert '"FAILED"' not in dry.stdout, "the payload is for programs"
    assert sorted(tmp_path.rglob("*")) == before
    as_json = call(MONITOR, "--run-id", "run-1", "--once", "--dry-run", "--json", cwd=tmp_path, **settings)
    (line,) = as_json.stdout.splitlines()
    assert json.loads(line)["status"] == "FAILED"
    (sent,) = json.loads(line)["would_send"]
    assert (sent["channel"], sent["event"]) == ("webhook (127.0.0.1:9)", "FAILED")
    assert (sent["payload"]["run_id"], sent["payload"]["status"]) == ("run-1", "FAILED")
    again = call(MONITOR, "--run-id", "run-1", "--dry-run", "--interval", "0.1", cwd=tmp_path, **settings)
    assert again.stdout.count("Would send to") == 1, "a finished run ends a dry run, which sends nothing"
    nobody = call(MONITOR, "--run-id", "run-1", "--once", "--dry-run", cwd=tmp_path)
    assert "no channel is set up" in nobody.stdout
