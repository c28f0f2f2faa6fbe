"""LASTBEAT_OWN_LOG holds wherever lastbeat runs: in its commands, and inside training."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.cli import LASTBEAT, call

HOOK = "https://hooks.slack.com/services/T000/B000/made-up-for-a-test"
WATCH = ("watch", "--run-id", "run-1", "--once", "--root", "runs")
TRAINING = """
import logging, sys
{before}
import lastbeat
with lastbeat.run("run-1"):
    logging.getLogger("lastbeat").debug("the webhook is {hook}")
    logging.getLogger("lastbeat").info("said in passing")
    logging.getLogger("lastbeat").warning("said aloud")
    logging.getLogger("training").warning("training's own")
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    run = tmp_path / "runs" / "run-1"
    run.mkdir(parents=True)
    (run / "metadata.json").write_text("{")
    return tmp_path


def train(folder: Path, before: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": str(ROOT / "core"), **environ}
    command = [sys.executable, "-c", TRAINING.format(before=before, hook=HOOK)]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    ("level", "says"),
    [
        pytest.param("", False, id="unless asked a command says what matters alone"),
        pytest.param("debug", True, id="or all that it does"),
    ],
)
def test_a_command_says_as_much_as_was_asked_for(runs: Path, level: str, says: bool) -> None:
    done = call(LASTBEAT, *WATCH, cwd=runs, LASTBEAT_OWN_LOG=level)
    assert ("INFO run-1: not seen before → RUNNING" in done.stderr) == says
    assert done.stdout.startswith("Run run-1: RUNNING (WARNING)")


def test_a_commands_log_goes_to_the_file_and_is_appended_to(runs: Path) -> None:
    environ = {"LASTBEAT_OWN_LOG": f"debug,file:{runs / 'log' / 'own.log'}"}
    for _ in range(2):
        assert call(LASTBEAT, *WATCH, cwd=runs, **environ).stderr == ""
    first, second = (runs / "log" / "own.log").read_text().splitlines()
    assert "INFO run-1: not seen before → RUNNING" in first
    assert "DEBUG run-1: still RUNNING" in second


def test_a_file_that_cannot_be_written_is_said_and_the_command_goes_on(runs: Path) -> None:
    done = call(LASTBEAT, *WATCH, cwd=runs, LASTBEAT_OWN_LOG="file:/proc/nowhere/own.log")
    assert "/proc/nowhere/own.log cannot be written: " in done.stderr
    assert "; correct LASTBEAT_OWN_LOG" in done.stderr
    assert done.stdout.startswith("Run run-1: RUNNING (WARNING)")


def test_inside_training_the_file_gets_what_was_asked_for_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "own.log"
    done = train(tmp_path, LASTBEAT_OWN_LOG=f"info,file:{path}", LASTBEAT_PING_URL=HOOK)
    assert "said aloud" not in done.stderr
    assert "training's own" in done.stderr
    told = path.read_text()
    assert "INFO said in passing" in told
    assert "WARNING said aloud" in told
    assert HOOK not in told


def test_a_training_without_logging_of_its_own_is_shown_what_was_asked_for(tmp_path: Path) -> None:
    assert "INFO said in passing" in train(tmp_path, LASTBEAT_OWN_LOG="info").stderr
    assert "said in passing" not in train(tmp_path).stderr


def test_a_training_with_logging_of_its_own_keeps_it(tmp_path: Path) -> None:
    before = "logging.basicConfig(format='MINE %(message)s', stream=sys.stderr)"
    done = train(tmp_path, before, LASTBEAT_OWN_LOG="info")
    assert "MINE said in passing" in done.stderr
    assert done.stderr.count("said in passing") == 1
