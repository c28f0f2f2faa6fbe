"""The live panel, on a real pseudo-terminal."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from support.cli import MONITOR, RunFolder
from support.terminal import terminal


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "training-runs")
    run.metadata(phase="[bold]epoch 3[/bold] \x1b]0;owned\x07")
    run.progress(step=25)
    return run


def test_it_shows_the_run_counts_down_and_leaves_the_verdict(tmp_path: Path, run: RunFolder) -> None:
    with terminal(MONITOR, "--run-id", "run-1", "--interval", "1", cwd=tmp_path) as screen:
        screen.wait_for(lambda shown: "25/100 (25%)" in shown and "next check in" in shown)
        for text in ("Status", "RUNNING", "Loss", "1.5", "Heartbeats", "0 pending", "[bold]epoch 3[/bold]", "Ctrl-C"):
            assert text in screen.shown
        assert b"owned" not in screen.raw, "training text does not get at the terminal's title"
        run.progress(step=50)
        screen.wait_for(lambda shown: "50/100 (50%), ETA " in shown)
        run.put("_complete")
        assert screen.wait_for_end() == 0
        last = screen.shown[screen.shown.rindex("Run run-1:") :]
        assert last.startswith("Run run-1: SUCCEEDED\r\nDetail: ")
        assert "Ctrl-C" not in last, "the panel is gone"
        widest = max(len(line) for line in screen.shown.replace("\r", "\n").split("\n") if "│" in line)
        assert widest <= 80


def test_ages_tick_between_two_passes(tmp_path: Path, run: RunFolder) -> None:
    with terminal(MONITOR, "--run-id", "run-1", "--interval", "3600", cwd=tmp_path) as screen:
        screen.wait_for(lambda shown: "59m 5" in shown)
        screen.wait_for(lambda shown: "metadata 2s ago" in shown or "metadata 3s ago" in shown)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_stopping_it_leaves_the_last_verdict_and_the_cursor(
    tmp_path: Path, run: RunFolder, number: signal.Signals
) -> None:
    with terminal(MONITOR, "--run-id", "run-1", "--interval", "3600", cwd=tmp_path) as screen:
        screen.wait_for(lambda shown: "next check in" in shown)
        os.kill(screen.process.pid, number)
        assert screen.wait_for_end() == 0
        assert "Run run-1: RUNNING" in screen.shown
        assert screen.raw.rfind(b"\x1b[?25h") > screen.raw.rfind(b"\x1b[?25l")


def test_no_color_is_honoured(tmp_path: Path, run: RunFolder) -> None:
    with terminal(MONITOR, "--run-id", "run-1", "--interval", "3600", cwd=tmp_path, NO_COLOR="1") as screen:
        screen.wait_for(lambda shown: "next check in" in shown)
        assert not any(f"\x1b[{code}m".encode() in screen.raw for code in (31, 32, "1;32", 33))
        assert "RUNNING" in screen.shown


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        pytest.param(["--interval", "0.2"], {"TERM": "dumb"}, id="a terminal that can do nothing gets plain lines"),
        pytest.param(["--interval", "0.2", "--json"], {}, id="JSON is JSON on a terminal too"),
        pytest.param(["--once"], {}, id="a single pass needs no panel"),
    ],
)
def test_where_there_is_no_panel(
    tmp_path: Path, run: RunFolder, arguments: list[str], settings: dict[str, Any]
) -> None:
    run.put("_complete")
    with terminal(MONITOR, "--run-id", "run-1", *arguments, cwd=tmp_path, **settings) as screen:
        assert screen.wait_for_end() == 0
        assert "│" not in screen.shown
        assert "SUCCEEDED" in screen.shown
