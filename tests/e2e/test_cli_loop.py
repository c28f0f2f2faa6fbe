"""The loop: its rhythm, its end, and how signals and closed pipes stop it."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.cli import LASTBEAT, MONITOR, RunFolder, start
from support.http_sink import Answer, http_sink
from support.waiting import LIMIT_S, until

if TYPE_CHECKING:
    import subprocess

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
