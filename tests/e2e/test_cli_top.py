"""``lastbeat top``: one run, once and live."""

from pathlib import Path

import pytest

from support.cli import LASTBEAT, RunFolder, call
from support.terminal import terminal

POINTS = [[1700000000 + n, n * 10, 3 - n / 40, 3e-4] for n in range(100)]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "training-runs", "mistral-1")
    run.metadata(phase="train \x1b]0;owned\x07")
    run.progress(step=990, total_steps=2000, learning_rate=3e-4, recent=POINTS)
    return run


def test_a_pipe_gets_one_picture(tmp_path: Path, run: RunFolder) -> None:
    done = call(LASTBEAT, "top", "mistral-1", cwd=tmp_path, COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("mistral-1  ● RUNNING\n")
    for text in ("Loss 0.525 (least 0.525, most 3)", "step 990", "Step 990/2,000", "49%", "learning rate 0.0003"):
        assert text in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_on_a_terminal_it_goes_on(tmp_path: Path, run: RunFolder) -> None:
    with terminal(LASTBEAT, "top", "mistral-1", "--interval", "1", cwd=tmp_path, controlling=True) as screen:
        screen.wait_for(lambda shown: "Step 990/2,000" in shown and "┤" in shown)
        assert b"owned" not in screen.raw
        run.progress(step=1500, total_steps=2000, recent=POINTS)
        screen.wait_for(lambda shown: "Step 1,500/2,000" in shown)
        screen.press("t")
        screen.wait_for(lambda shown: "Run mistral-1: RUNNING" in shown)
        run.put("_error", "RuntimeError: boom\n")
        screen.wait_for(lambda shown: "Run mistral-1: FAILED" in shown)
        screen.press("q")
        assert screen.wait_for_end() == 2
