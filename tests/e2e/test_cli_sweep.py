"""``lastbeat sweep`` on a directory: one pass, a dry one, many, the page that it leaves, and what is told to whom."""

import base64
import gzip
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

from support.cli import LASTBEAT, RunFolder, call, start
from support.http_sink import HttpSink, http_sink
from support.s3 import S3Server
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


def succeeded(root: Path, name: str) -> RunFolder:
    run = running(root, name)
    run.put("_complete")
    return run


def sweep(root: Path, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    return call(LASTBEAT, "sweep", "--once", *arguments, cwd=root.parent, **settings)


def looping(root: Path, *arguments: str, hook: str = "") -> "subprocess.Popen[str]":
    return start(LASTBEAT, "sweep", *FAST, *arguments, cwd=root.parent, LASTBEAT_WEBHOOK_URL=hook)


Runs = Callable[[Path], object]

EXITS: list[tuple[str, Runs, int]] = [
    ("runs that run and succeed are fine", lambda root: [running(root, "a"), succeeded(root, "b")], 0),
    ("a warning is 1", lambda root: [running(root, "a"), running(root, "b", progress_minutes_old=15)], 1),
    ("a failure is 2", lambda root: [running(root, "a"), failed(root, "b")], 2),
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
    delta = RunFolder(root, "delta")
    delta.metadata(minutes_old=11)
    delta.progress(minutes_old=11)
    succeeded(root, "epsilon")
    lines = sweep(root).stdout.splitlines()
    assert lines[0] == f"Fleet {root}: 2 running, 1 timed out, 1 failed, 1 succeeded (last 24 h)"
    assert re.fullmatch(r"FAILED     gamma  .*CUDA out of memory.*", lines[1])
    assert re.fullmatch(r"TIMED_OUT  delta  Both heartbeats stale .*", lines[2])
    assert re.fullmatch(r"Checked: 2\S+Z in \d+\.\d s with \d+ requests", lines[-1])
    assert not (root / "_watchdog" / "index.html").exists(), "a page is left only where it is asked for"
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


def test_new_runs_are_found_and_what_ends_is_told_once(root: Path, sink: HttpSink) -> None:
    process = looping(root, "--json", hook=sink.url + "/hook")
    assert process.stdout is not None
    passes = map(json.loads, process.stdout)
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


def test_a_terminal_shows_what_is_new_in_colours(root: Path) -> None:
    run = running(root, "alpha")
    with terminal(LASTBEAT, "sweep", "--interval", "1", cwd=root.parent) as screen:
        screen.wait_for(lambda shown: "1 running" in shown)
        run.put("_error", "RuntimeError: boom")
        screen.wait_for(lambda shown: "FAILED  alpha  RuntimeError: boom" in shown)
        os.kill(screen.process.pid, signal.SIGINT)
        assert screen.wait_for_end() == 2
        assert b"\x1b[31m" in screen.raw


def test_a_dry_sweep_shows_what_would_be_sent_and_leaves_nothing(tmp_path: Path) -> None:
    for name in ("run-1", "run-2"):
        RunFolder(tmp_path / "training-runs", name).put("_error", "CUDA out of memory")
    before = sorted(tmp_path.rglob("*"))
    with http_sink() as sink:
        dry = call(
            LASTBEAT, "sweep", "--dry-run", cwd=tmp_path, LASTBEAT_WEBHOOK_URL=sink.url, LASTBEAT_PAGE_MINUTES="1"
        )
        assert dry.returncode == 2, dry.stderr
        as_json = call(LASTBEAT, "sweep", "--dry-run", "--json", cwd=tmp_path, LASTBEAT_WEBHOOK_URL=sink.url)
        assert sink.requests == []
    assert "2 failed" in dry.stdout.splitlines()[0]
    assert "A pass would send 2 alerts." in dry.stdout
    assert "FAILED: run-1" in dry.stdout
    (line,) = as_json.stdout.splitlines()
    assert [each["payload"]["run_id"] for each in json.loads(line)["would_send"]] == ["run-1", "run-2"]
    nobody = call(LASTBEAT, "sweep", "--dry-run", cwd=tmp_path)
    assert nobody.stdout.count("Would alert, but no channel is set up:") == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dry_sweep_counts_transitions_and_the_alerts_that_tell_them(tmp_path: Path) -> None:
    for number in range(12):
        RunFolder(tmp_path / "training-runs", f"run-{number}").put("_error", "CUDA out of memory")
    dry = call(LASTBEAT, "sweep", "--dry-run", cwd=tmp_path)
    assert "A pass would send 12 transitions in 1 alert." in dry.stdout
    assert "pending" not in dry.stdout


def test_a_channel_that_is_added_gets_what_is_decided_from_then_on(root: Path, sink: HttpSink) -> None:
    known = root / "_watchdog" / "channels.json"
    failed(root, "before")
    sweep(root)
    sweep(root, "--dry-run", LASTBEAT_WEBHOOK_URL=sink.url)
    assert "webhook" not in known.read_text()
    for _ in range(2):
        sweep(root, LASTBEAT_WEBHOOK_URL=sink.url)
        assert "webhook" in known.read_text(), "though nothing was to be told"
    failed(root, "after")
    sweep(root, LASTBEAT_WEBHOOK_URL=sink.url)
    assert [json.loads(each.body)["run_id"] for each in sink.requests] == ["after"]


def data_of(html: bytes) -> dict[str, Any]:
    found = re.search(rb'id="data">([A-Za-z0-9+/=]+)</script>', html)
    assert found is not None
    read: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return read


def paged(tmp_path: Path, minutes: str, **settings: str) -> dict[str, Any]:
    done = call(
        [*LASTBEAT, "sweep"],
        "--once",
        "--json",
        cwd=tmp_path,
        LASTBEAT_PAGE_MINUTES=minutes,
        ALERT_ON="none",
        **settings,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_pass_leaves_a_page_that_has_all_in_it_and_takes_it_for_no_run(tmp_path: Path, root: Path) -> None:
    running(root, "lives")
    failed(root, "fails")
    assert paged(tmp_path, "0")["notes"] == []
    assert not (root / "_watchdog" / "index.html").exists(), "zero is off"
    assert paged(tmp_path, "5")["notes"] == []
    page = root / "_watchdog" / "index.html"
    assert [path.name for path in page.parent.glob("index*")] == ["index.html"]
    data = data_of(page.read_bytes())
    assert [row["run_id"] for row in data["fleet"]["runs"]] == ["fails", "lives"]
    assert data["runs"]["fails"]["run"]["status"] == "FAILED"
    report = paged(tmp_path, "5")
    assert (report["ignored"], sum(report["statuses"].values())) == ([], 2)


def test_in_a_bucket_it_is_what_browsers_take_for_a_page(tmp_path: Path, s3_server: S3Server) -> None:
    bucket = s3_server.bucket()
    client = s3_server.client()
    client.put_object(Bucket=bucket, Key="training-runs/fails/_error", Body=b"ValueError: boom")
    report = paged(tmp_path, "0.5", **s3_server.environment(), MONITORING_BUCKET=bucket)
    answer = client.get_object(Bucket=bucket, Key="training-runs/_watchdog/index.html")
    assert (answer["ContentType"], answer["CacheControl"]) == ("text/html; charset=utf-8", "no-cache")
    assert list(data_of(answer["Body"].read())["runs"]) == ["fails"]
    assert report["notes"] == []


RAISES = "import lastbeat; assert lastbeat.alert('disks', 'warning', '/data is nearly full', root='training-runs')"


@pytest.fixture
def raised(tmp_path: Path) -> Path:
    (tmp_path / "training-runs").mkdir()
    done = call([sys.executable], "-c", RAISES, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


COMMANDS = {
    "watch": ("watch", "--run-id", "disks", "--once", "--dry-run"),
    "fleet": ("fleet", "--once"),
    "show": ("show", "disks"),
    "sweep": ("sweep", "--once"),
}


def test_no_command_says_that_it_runs_or_timed_out(raised: Path) -> None:
    for _ in range(2):
        said = {name: call(LASTBEAT, *command, cwd=raised).stdout for name, command in COMMANDS.items()}
        documents = [call(LASTBEAT, *command, "--json", cwd=raised).stdout for command in COMMANDS.values()]
        assert not [text for text in (*said.values(), *documents) if "RUNNING" in text or "TIMED_OUT" in text]
        assert "Run disks: NO_HEARTBEAT\n" in said["watch"]
        detail = "Scripts have only raised alerts; no heartbeat was written"
        assert f"Run disks: NO_HEARTBEAT\nDetail: {detail}\n" in said["show"]
        assert "1 NO_HEARTBEAT" in said["fleet"]
        assert "1 without a heartbeat" in said["sweep"]
