"""``lastbeat sweep`` on a directory: one pass, many passes, and what is told to whom."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, RunFolder, call, start
from support.http_sink import HttpSink, http_sink
from support.terminal import terminal
from support.waiting import LIMIT_S

KEYS = {
    "at", "seconds", "complete", "blind", "advice", "plan", "statuses", "finished", "looked", "transitions", "runs",
    "unreadable", "unreadable_count", "ignored", "alerts", "requests", "oldest_observation_s", "notes",
}  # fmt: skip
FAST = ["--interval", "0.2"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "training-runs"
    root.mkdir()
    return root


@pytest.fixture
def sink() -> Iterator[HttpSink]:
    with http_sink() as sink:
        yield sink


def running(root: Path, name: str, *, progress_minutes_old: float = 0.0) -> RunFolder:
    run = RunFolder(root, name)
    run.metadata()
    run.progress(minutes_old=progress_minutes_old)
    return run


def failed(root: Path, name: str, text: str = "RuntimeError: boom") -> RunFolder:
    run = running(root, name)
    run.put("_error", text)
    return run


def silent(root: Path, name: str) -> RunFolder:
    run = RunFolder(root, name)
    run.metadata(minutes_old=11)
    run.progress(minutes_old=11)
    return run


def succeeded(root: Path, name: str) -> RunFolder:
    run = running(root, name)
    run.put("_complete")
    return run


def sweep(root: Path, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    return call(LASTBEAT, "sweep", "--once", *arguments, cwd=root.parent, **settings)


def looping(root: Path, *arguments: str, hook: str = "") -> "subprocess.Popen[str]":
    return start(LASTBEAT, "sweep", *FAST, *arguments, cwd=root.parent, LASTBEAT_WEBHOOK_URL=hook)


def objects(process: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


Runs = Callable[[Path], object]

EXITS: list[tuple[str, Runs, int]] = [
    ("no run at all is fine", lambda _: None, 0),
    ("runs that run and succeed are fine", lambda root: [running(root, "a"), succeeded(root, "b")], 0),
    ("a warning is 1", lambda root: [running(root, "a"), running(root, "b", progress_minutes_old=15)], 1),
    ("a failure is 2", lambda root: [running(root, "a"), failed(root, "b")], 2),
    ("a time-out is 2", lambda root: [running(root, "a"), silent(root, "b")], 2),
    ("no root is 3", lambda root: root.rmdir(), 3),
]


@pytest.mark.parametrize(("prepare", "status"), [pytest.param(p, status, id=says) for says, p, status in EXITS])
def test_the_exit_status_is_that_of_the_worst_run(root: Path, prepare: Runs, status: int) -> None:
    prepare(root)
    # The root by name, or the missing default folder would be a warning of its own.
    done = sweep(root, "--root", str(root))
    assert (done.returncode, done.stderr) == (status, "")


def test_one_pass_tells_the_fleet_in_a_few_lines(root: Path) -> None:
    for name in ("alpha", "beta"):
        running(root, name)
    failed(root, "gamma", "CUDA out of memory\nTraceback …")
    silent(root, "delta")
    succeeded(root, "epsilon")
    lines = sweep(root).stdout.splitlines()
    assert lines[0] == f"Fleet {root}: 2 running, 1 timed out, 1 failed, 1 succeeded (last 24 h)"
    assert re.fullmatch(r"FAILED     gamma  .*CUDA out of memory.*", lines[1])
    assert re.fullmatch(r"TIMED_OUT  delta  Both heartbeats stale .*", lines[2])
    assert re.fullmatch(r"Checked: 2\S+Z in \d+\.\d s with \d+ requests", lines[-1])
    again = sweep(root).stdout.splitlines()
    assert again[0] == lines[0]
    assert [line.split()[1] for line in again[1:3]] == ["gamma", "delta"], "what needs people is told by each --once"


def test_json_has_all_its_keys_on_one_line(root: Path) -> None:
    running(root, "alpha")
    failed(root, "gamma")
    (line,) = sweep(root, "--json").stdout.splitlines()
    told = json.loads(line)
    assert set(told) == KEYS
    assert told["statuses"] == {"RUNNING": 1, "FAILED": 1}
    assert [each["run_id"] for each in told["transitions"] if each["after"] == "FAILED"] == ["gamma"]
    assert told["requests"]["PUT"] >= 1


def test_the_loop_tells_only_what_is_new(root: Path) -> None:
    run = running(root, "alpha")
    process = looping(root)
    assert process.stdout is not None
    assert process.stdout.readline() == f"Fleet {root}: 1 running\n"
    assert process.stdout.readline().startswith("Checked: ")
    run.put("_error", "RuntimeError: boom")
    assert process.stdout.readline() == "\n"
    assert process.stdout.readline() == f"Fleet {root}: 0 running, 1 failed (last 24 h)\n"
    assert process.stdout.readline() == "FAILED  alpha  RuntimeError: boom\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == 2
    out, err = process.communicate(timeout=LIMIT_S)
    assert out.count("Fleet") == 0
    assert "no alert will be sent" in err
    assert "Traceback" not in err


def test_ctrl_c_ends_a_long_sleep_at_once(root: Path) -> None:
    running(root, "alpha", progress_minutes_old=15)
    process = start(LASTBEAT, "sweep", "--interval", "3600", "--json", cwd=root.parent)
    assert next(objects(process))["statuses"] == {"RUNNING (WARNING)": 1}
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 1
    out, err = process.communicate(timeout=LIMIT_S)
    assert (out, "Traceback" in err) == ("", False)


def test_new_runs_are_found_and_what_ends_is_told_once(root: Path, sink: HttpSink) -> None:
    process = looping(root, "--json", hook=sink.url + "/hook")
    passes = objects(process)
    assert next(passes)["statuses"] == {}
    run = running(root, "alpha")
    assert any(each["statuses"] == {"RUNNING": 1} for each in passes)
    run.put("_error", "RuntimeError: boom")
    assert any(each["statuses"] == {"FAILED": 1} for each in passes)
    for _ in range(3):
        assert next(passes)["transitions"] == []
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == 2
    process.communicate(timeout=LIMIT_S)
    assert [json.loads(request.body)["event"] for request in sink.requests] == ["FAILED"]


def test_a_root_that_goes_away_and_comes_back_does_not_end_it(root: Path) -> None:
    running(root, "alpha")
    process = looping(root, "--json", "--root", str(root))
    passes = objects(process)
    assert next(passes)["blind"] is None
    away = root.rename(root.parent / "away")
    assert any(each["blind"] for each in passes)
    away.rename(root)
    assert any(each["blind"] is None and each["statuses"] == {"RUNNING": 1} for each in passes)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == 0
    process.communicate(timeout=LIMIT_S)


UUID = "0f3b1c9e-5f43-4f6e-9a53-1d2f3a4b5c6d"


def test_an_alert_that_cannot_be_delivered_is_told_to_the_ping(root: Path, sink: HttpSink) -> None:
    failed(root, "gamma")
    settings = {"LASTBEAT_PING_URL": f"{sink.url}/{UUID}", "LASTBEAT_WEBHOOK_URL": "http://127.0.0.1:9/hook"}
    assert sweep(root, **settings).returncode == 2
    assert sink.requests[-1].path == f"/{UUID}/fail"
    assert sink.requests[-1].body == b"1 alert could not be delivered"


def test_a_reader_that_leaves_ends_it_quietly(root: Path) -> None:
    run = running(root, "alpha")
    read, write = os.pipe()
    process = start(LASTBEAT, "sweep", *FAST, cwd=root.parent, stdout=write)
    os.close(write)
    assert os.read(read, 6) == b"Fleet "
    os.close(read)
    run.put("_error", "boom")  # Something new to print.
    assert process.wait(LIMIT_S) == 2
    _, err = process.communicate(timeout=LIMIT_S)
    assert "Broken pipe" not in err
    assert "Traceback" not in err


def test_a_terminal_shows_what_is_new_in_colours(root: Path) -> None:
    run = running(root, "alpha")
    with terminal(LASTBEAT, "sweep", "--interval", "1", cwd=root.parent) as screen:
        screen.wait_for(lambda shown: "1 running" in shown)
        run.put("_error", "RuntimeError: boom")
        screen.wait_for(lambda shown: "FAILED  alpha  RuntimeError: boom" in shown)
        os.kill(screen.process.pid, signal.SIGINT)
        assert screen.wait_for_end() == 2
        assert b"\x1b[31m" in screen.raw
