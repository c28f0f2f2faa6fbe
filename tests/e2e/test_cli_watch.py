"""``lastbeat watch`` and ``monitor.py``: a status in two lines, as JSON and as exit status; the loop, and what ends it;
programs that write nothing but a log."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, MONITOR, RunFolder, call, start
from support.http_sink import Answer, http_sink
from support.terminal import terminal
from support.waiting import LIMIT_S, until

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
    pytest.param(_both(0), "RUNNING", "", 0, id="fresh heartbeats are a running run"),
    pytest.param(_beats(0, 15), "RUNNING (WARNING)", "", 1, id="one stale heartbeat of two is a warning"),
    pytest.param(_both(11), "TIMED_OUT", "Both heartbeats stale (>10m)", 2, id="both heartbeats stale is a time-out"),
    pytest.param(lambda _: None, "TIMED_OUT", "No heartbeat files found", 2, id="no heartbeat at all is a time-out"),
    pytest.param(_with("_preempted", '{"step": 7}'), "PREEMPTED", "PREEMPTED, ", 1, id="a preemption is no failure"),
]


@pytest.mark.parametrize(("write", "shown", "detail", "code"), ROWS)
def test_a_pass_tells_the_status_in_two_lines_and_by_its_exit(
    tmp_path: Path, write: Write, shown: str, detail: str, code: int
) -> None:
    run = RunFolder(tmp_path / "training-runs")
    write(run)
    text = call(MONITOR, "--run-id", "run-1", "--once", cwd=tmp_path, MONITORING_ROOT=str(run.root))
    first, second, *_ = text.stdout.splitlines()
    assert first == f"Run run-1: {shown}"
    assert second.startswith(f"Detail: {detail}")
    assert (text.returncode, text.stderr) == (code, "")
    program = call(LASTBEAT, "watch", "--run-id", "run-1", "--once", "--json", "--root", str(run.root), cwd=tmp_path)
    document = json.loads(program.stdout)
    assert set(document) == KEYS
    assert (document["status"], document["run_id"]) == (shown.split(maxsplit=1)[0], "run-1")
    assert f"Detail: {document['reason']}" == second or not detail, "a running run's reason tells ages"
    assert (program.returncode, program.stdout.count("\n")) == (code, 1)


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


FAST = ["--run-id", "run-1", "--interval", "0.2"]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "training-runs")
    run.metadata()
    return run


def objects(process: "subprocess.Popen[str]") -> Iterator[dict[str, object]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def ended(process: "subprocess.Popen[str]") -> tuple[str, str]:
    return process.communicate(timeout=LIMIT_S)


def test_text_passes_are_blocks_that_each_begin_with_the_two_lines(tmp_path: Path, run: RunFolder) -> None:
    process = start(LASTBEAT, "watch", *FAST, cwd=tmp_path)
    assert process.stdout is not None
    while process.stdout.readline() != "\n":
        pass
    assert process.stdout.readline() == "Run run-1: RUNNING\n"
    assert process.stdout.readline().startswith("Detail: ")
    run.put("_complete")
    out, err = ended(process)
    assert "Run run-1: SUCCEEDED\n" in out
    assert "no alert will be sent" in err


def test_a_signal_ends_a_long_sleep_at_once_with_the_last_verdict(tmp_path: Path, run: RunFolder) -> None:
    run.progress(minutes_old=30)
    process = start(MONITOR, "--run-id", "run-1", "--interval", "3600", "--json", cwd=tmp_path)
    assert next(objects(process))["conditions"] == ["progress_stale"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == 1
    out, err = ended(process)
    assert "Traceback" not in err
    assert out == ""


@pytest.mark.skipif(sys.platform != "linux", reason="who handles a signal is known by /proc")
def test_a_second_signal_ends_a_pass_that_does_not_end(tmp_path: Path, run: RunFolder) -> None:
    run.put("_error", "boom")
    with http_sink() as sink:
        sink.otherwise = Answer(delay_s=LIMIT_S)
        process = start(MONITOR, *FAST, cwd=tmp_path, LASTBEAT_WEBHOOK_URL=sink.url + "/hook")
        until(lambda: sink.requests)
        process.send_signal(signal.SIGTERM)
        # Two signals at once are one.
        until(lambda: not handles(process, signal.SIGTERM))
        assert process.poll() is None, "the first signal lets the pass end"
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == -signal.SIGTERM
        ended(process)


def test_it_waits_for_its_alerts_to_be_delivered(tmp_path: Path, run: RunFolder) -> None:
    run.put("_error", "boom")
    with http_sink() as sink:
        sink.script.append(Answer(status=503))
        process = start(MONITOR, *FAST, "--json", cwd=tmp_path, LASTBEAT_WEBHOOK_URL=sink.url + "/hook")
        *before, last = list(objects(process))
        assert process.wait(LIMIT_S) == 2
        ended(process)
    assert before[0]["status"] == last["status"] == "FAILED"
    assert before[0]["alerts"] == {"pending": 1, "delivered": 0, "failed": 0}
    assert last["alerts"] == {"pending": 0, "delivered": 1, "failed": 0}
    assert len(sink.requests) == 2


def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path, run: RunFolder) -> None:
    read, write = os.pipe()
    process = start(MONITOR, *FAST, cwd=tmp_path, stdout=write)
    os.close(write)
    assert os.read(read, 10).startswith(b"Run run-1:")
    os.close(read)
    assert process.wait(LIMIT_S) == 0
    _, err = ended(process)
    assert "Traceback" not in err
    assert "Broken pipe" not in err


def test_a_store_that_goes_away_and_comes_back_does_not_end_it(tmp_path: Path, run: RunFolder) -> None:
    process = start(MONITOR, *FAST, "--json", cwd=tmp_path)
    passes = objects(process)
    assert next(passes)["status"] == "RUNNING"
    away = run.root.rename(tmp_path / "away")
    comes_to(passes, "UNKNOWN")
    away.rename(run.root)
    comes_to(passes, "RUNNING")
    run.put("_complete")
    comes_to(passes, "SUCCEEDED")
    assert process.wait(LIMIT_S) == 0
    ended(process)


def comes_to(passes: Iterator[dict[str, object]], status: str) -> None:
    assert any(each["status"] == status for each in passes)


def handles(process: "subprocess.Popen[str]", number: signal.Signals) -> bool:
    """Whether it has a handler for this signal."""
    (mask,) = re.findall(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_on_a_terminal_each_pass_prints_what_it_saw(tmp_path: Path, run: RunFolder) -> None:
    run.metadata(phase="epoch 3 \x1b]0;owned\x07")
    run.progress()
    with terminal(MONITOR, "--run-id", "run-1", "--interval", "1", cwd=tmp_path) as screen:
        screen.wait_for(lambda shown: "step 25 of 100" in shown)
        assert b"owned" not in screen.raw, "training text does not get at the terminal's title"
        run.put("_complete")
        assert screen.wait_for_end() == 0
        last = screen.shown[screen.shown.rindex("Run run-1:") :]
        assert last.startswith("Run run-1: SUCCEEDED\r\nDetail: ")


LOG = "logs/training_log_latest.txt"
CRASH = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 210, in <module>\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)


def steps(first: int, last: int) -> str:
    return "".join(f"step {step}/1000 loss 2.5\n" for step in range(first, last + 1))


def look(run: RunFolder, *arguments: str, **settings: str) -> dict[str, Any]:
    done = call(
        LASTBEAT, "watch", "--run-id", "run-1", "--once", "--json", "--root", str(run.root), *arguments,
        cwd=run.root.parent, **settings,
    )  # fmt: skip
    document: dict[str, Any] = json.loads(done.stdout)
    return {**document, "exit": done.returncode, "stderr": done.stderr}


@pytest.fixture
def logged(tmp_path: Path) -> RunFolder:
    """A run of a program that was never changed."""
    return RunFolder(tmp_path / "runs")


def test_a_log_of_this_machine_is_read_where_it_lies(logged: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "slurm-1.out").write_text(steps(1, 3))
    (tmp_path / "slurm-2.out").write_text(steps(1, 7) + CRASH)
    assert look(logged, "--log", "slurm-1.out")["step"] == 3
    failed = look(logged, "--log", "slurm-1.out", "--log", str(tmp_path / "slurm-2.*"))
    assert (failed["status"], failed["cause"]) == ("FAILED", "oom")
    told = look(logged, LASTBEAT_LOGS="slurm-*.out")
    assert told["status"] == "FAILED"


@pytest.mark.parametrize(
    ("name", "note"),
    [
        pytest.param("nosuch-*.log", "Note: No log file is called nosuch-*.log (yet).", id="no file"),
        pytest.param("runs/", "Note: runs/ is a folder; name its logs, for example runs/*.log.", id="a folder"),
    ],
)
def test_a_log_that_is_not_there_is_told(logged: RunFolder, name: str, note: str) -> None:
    logged.root.mkdir(exist_ok=True)
    done = call(
        LASTBEAT,
        "watch",
        "--run-id",
        "run-1",
        "--once",
        "--root",
        str(logged.root),
        "--log",
        name,
        cwd=logged.root.parent,
    )
    assert note in done.stdout.splitlines()


def test_a_watch_goes_on_until_the_log_says_that_it_is_over(logged: RunFolder, tmp_path: Path) -> None:
    logged.put(LOG, steps(1, 3))
    watch = start(
        LASTBEAT, "watch", "--run-id", "run-1", "--root", str(logged.root), "--interval", "0.2", "--json", cwd=tmp_path
    )
    try:
        assert watch.stdout is not None
        passes = map(json.loads, watch.stdout)
        first = next(passes)
        assert (first["status"], first["step"]) == ("RUNNING", 3)
        logged.put(LOG, steps(1, 9))
        assert next(each for each in passes if each["step"] == 9)["status"] == "RUNNING"
        logged.put(LOG, steps(1, 9) + CRASH)
        out, _ = watch.communicate(timeout=LIMIT_S)
    finally:
        if watch.poll() is None:
            os.kill(watch.pid, signal.SIGKILL)
    last = json.loads(out.splitlines()[-1])
    assert (last["status"], last["cause"], last["step"]) == ("FAILED", "oom", 9)
    assert watch.returncode == 2
