"""``watch`` on a terminal prints the plain lines that it prints into a pipe."""

import os
import signal
from pathlib import Path

import pytest

from support.cli import MONITOR, RunFolder
from support.terminal import terminal


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "training-runs")
    run.metadata(phase="epoch 3 \x1b]0;owned\x07")
    run.progress(step=25)
    return run


def test_each_pass_prints_what_it_saw(tmp_path: Path, run: RunFolder) -> None:
    with terminal(MONITOR, "--run-id", "run-1", "--interval", "1", cwd=tmp_path) as screen:
        screen.wait_for(lambda shown: "step 25 of 100" in shown)
        assert b"owned" not in screen.raw, "training text does not get at the terminal's title"
        run.put("_complete")
        assert screen.wait_for_end() == 0
        last = screen.shown[screen.shown.rindex("Run run-1:") :]
        assert last.startswith("Run run-1: SUCCEEDED\r\nDetail: ")


def test_ctrl_c_keeps_the_last_status_as_exit_status(tmp_path: Path, run: RunFolder) -> None:
    with terminal(MONITOR, "--run-id", "run-1", "--interval", "3600", cwd=tmp_path) as screen:
        screen.wait_for(lambda shown: "Checked: " in shown)
        os.kill(screen.process.pid, signal.SIGINT)
        assert screen.wait_for_end() == 0
        assert "Run run-1: RUNNING" in screen.shown
