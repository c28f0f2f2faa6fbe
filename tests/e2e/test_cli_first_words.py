"""What people type first does what they mean: other names of commands, and the run as a word."""

import json
import re
from pathlib import Path

import pytest

from support.cli import LASTBEAT, RunFolder, call

TIMES = re.compile(r"\d+(\.\d+)?( ?ms| ?s|s ago|%)|\d{4}-\d\d-\d\dT[\d:.]+Z?|· seen.*|[0-9a-f]{16}")
"""What two calls of one command may say differently."""
SAME = [
    pytest.param(["ls"], ["fleet", "--once"], id="ls lists the runs"),
    pytest.param(["ps"], ["fleet", "--once"], id="so does ps"),
    pytest.param(["list"], ["fleet", "--once"], id="and list"),
    pytest.param(["status"], ["fleet", "--once"], id="and status"),
    pytest.param(["help"], ["--help"], id="help is help"),
    pytest.param(["help", "fleet"], ["fleet", "--help"], id="of one command, too"),
    pytest.param(["help", "ps"], ["fleet", "--help"], id="by another name of it"),
    pytest.param(["help", "tail"], ["logs", "--help"], id="even one that stands for an option"),
    pytest.param(["help", "restart"], ["restart", "--help"], id="of a group of commands, too"),
    pytest.param(["help", "check", "node"], ["check", "node", "--help"], id="and of a command in it"),
    pytest.param(["help", "restart", "my-run"], ["restart", "resume", "--help"], id="and of restarting a run"),
    pytest.param(["version"], ["--version"], id="version is the version"),
    pytest.param(["mute", "--help"], ["silence", "--help"], id="mute is silence"),
    pytest.param(["ack", "--help"], ["silence", "--help"], id="so is ack"),
    pytest.param(["ui", "--help"], ["dashboard", "--help"], id="ui is the dashboard"),
    pytest.param(["serve", "--help"], ["dashboard", "--help"], id="so is serve"),
    pytest.param(["restart", "gone"], ["supervise", "--resume", "gone"], id="restart resumes a supervised run"),
    pytest.param(
        ["restart", "--root", "training-runs", "run-1"],
        ["supervise", "--resume", "run-1", "--root", "training-runs"],
        id="its options may come before the run",
    ),
    pytest.param(["tail", "gone"], ["logs", "--follow", "gone"], id="tail follows a log"),
]


@pytest.mark.parametrize(("typed", "meant"), SAME)
def test_another_name_of_a_command_does_the_same(tmp_path: Path, typed: list[str], meant: list[str]) -> None:
    RunFolder(tmp_path / "training-runs", "run-1").metadata()
    one, other = (call([*LASTBEAT, *words], cwd=tmp_path) for words in (typed, meant))
    shown = [(done.returncode, done.stdout.partition("· seen")[0], done.stderr) for done in (one, other)]
    assert shown[0] == shown[1]


MOVED = [
    pytest.param(["sweep", "--dry-run"], ["watch", "--dry-run"], id="sweep watches without a run"),
    pytest.param(["top", "run-1", "--once"], ["show", "run-1", "--live", "--once"], id="top shows a run live"),
    pytest.param(["timeouts", "run-1"], ["limits", "run-1", "--learned"], id="timeouts are learned limits"),
    pytest.param(["doctor"], ["check", "setup"], id="the doctor checks the set-up"),
    pytest.param(["test-alert"], ["check", "alert"], id="a test alert checks the channels"),
    pytest.param(["check-node", "--help"], ["check", "node", "--help"], id="check-node checks a node"),
    pytest.param(["health", "run-1"], ["check", "run", "run-1"], id="health checks a run"),
    pytest.param(["health", "run-1"], ["check", "cluster", "run-1"], id="and a cluster"),
    pytest.param(["causes"], ["report", "causes"], id="causes are a report"),
    pytest.param(["goodput"], ["report", "goodput"], id="so is goodput"),
    pytest.param(["cost"], ["report", "cost"], id="so is the cost of watching"),
    pytest.param(["backtest", "--help"], ["report", "backtest", "--help"], id="so is a backtest"),
    pytest.param(["jobs"], ["restart", "jobs"], id="supervised jobs are about restarts"),
    pytest.param(["policy", "list"], ["restart", "policy", "list"], id="so are policies"),
    pytest.param(["checkpoints", "x"], ["restart", "checkpoints", "x"], id="so are checkpoints"),
    pytest.param(["drill", "--help"], ["restart", "drill", "--help"], id="so is a drill"),
    pytest.param(["simulate-fault", "run-1"], ["restart", "simulate-fault", "run-1"], id="so is a simulated fault"),
    pytest.param(["supervise", "--run-id", "x"], ["restart", "supervise", "--run-id", "x"], id="so is supervision"),
    pytest.param(["supervise", "--resume", "run-1"], ["restart", "run-1"], id="a supervision is resumed"),
    pytest.param(["supervise", "--resume=run-1"], ["restart", "resume", "run-1"], id="by one word or two"),
    pytest.param(["supervise", "--agent", "--interval", "9h"], ["restart", "agent", "--interval", "9h"], id="an agent"),
    pytest.param(
        ["supervise", "--launcher", "local", "--run-id", "run-1", "--adopt", "nothing"],
        ["restart", "adopt", "run-1", "nothing", "--launcher", "local"],
        id="a job is adopted",
    ),
    pytest.param(
        ["check", "cluster", "--head-pod", "Head Pod", "--namespace", "ml"],
        ["check", "cluster", "--at", "head-pod=Head Pod", "--at", "namespace=ml"],
        id="a cluster is named by where it is",
    ),
]


@pytest.mark.parametrize(("typed", "meant"), MOVED)
def test_a_command_of_before_does_what_it_did(tmp_path: Path, typed: list[str], meant: list[str]) -> None:
    RunFolder(tmp_path / "training-runs", "run-1").metadata()
    one, other = (call([*LASTBEAT, *words], cwd=tmp_path) for words in (typed, meant))
    shown = [(done.returncode, TIMES.sub("", done.stdout), TIMES.sub("", done.stderr)) for done in (one, other)]
    assert shown[0] == shown[1]
    assert "there is no command '" not in one.stderr


SPANS = [
    pytest.param(["limits", "a*", "--stall-minutes", "1h"], ["limits", "a*", "--stall-minutes", "60"], id="limits"),
    pytest.param(
        ["show", "run-1", "--stale-minutes", "2h"], ["show", "run-1", "--stale-minutes", "120"], id="a setting"
    ),
    pytest.param(
        ["watch", "run-1", "--once", "--interval", "1m", "--dry-run"],
        ["watch", "run-1", "--once", "--interval", "60", "--dry-run"],
        id="an interval",
    ),
]


@pytest.mark.parametrize(("typed", "meant"), SPANS)
def test_a_span_is_a_bare_number_or_has_a_unit(tmp_path: Path, typed: list[str], meant: list[str]) -> None:
    RunFolder(tmp_path / "training-runs", "run-1").metadata()
    one, other = (call([*LASTBEAT, *words], cwd=tmp_path) for words in (typed, meant))
    assert one.stderr == other.stderr == ""
    assert (one.returncode, TIMES.sub("", one.stdout)) == (other.returncode, TIMES.sub("", other.stdout))


def test_run_runs_a_command(tmp_path: Path) -> None:
    done = call([*LASTBEAT, "run", "--run-id", "hello", "--", "true"], cwd=tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "training-runs" / "hello" / "_complete").exists()


def _listed(tmp_path: Path, *words: str) -> list[str]:
    """The commands that a help lists."""
    shown = call([*LASTBEAT, *words], cwd=tmp_path).stdout.partition("--help")[2]
    return [line.split()[0] for line in shown.splitlines() if re.match(r"  [a-z-]+  ", line)]


def test_the_first_help_lists_eight_commands_and_says_where_the_rest_is(tmp_path: Path) -> None:
    eight = ["exec", "watch", "fleet", "show", "logs", "dashboard", "explain", "check"]
    for words in ([], ["--help"], ["help"]):
        assert _listed(tmp_path, *words) == eight
        assert "lastbeat help --all" in call([*LASTBEAT, *words], cwd=tmp_path).stdout


def test_the_whole_help_lists_every_command_once_and_no_other_names(tmp_path: Path) -> None:
    listed = _listed(tmp_path, "help", "--all")
    assert len(listed) == len(set(listed)) <= 26
    assert {"exec", "fleet", "logs", "beat", "restart", "report", "signals"} <= set(listed)
    assert set(listed).isdisjoint({"ls", "ps", "run", "tail", "mute", "sweep", "top", "doctor", "supervise"})


OLD = [
    pytest.param(["archive", "--undo", "run-1"], ["archive", "--remove", "run-1"], id="archive"),
    pytest.param(["silence", "--lift", "run-1"], ["silence", "--remove", "run-1"], id="silence"),
    pytest.param(["limits", "run-1", "--clear"], ["limits", "run-1", "--remove"], id="limits"),
    pytest.param(["limits", "--clear-all"], ["limits", "--remove-all"], id="all limits"),
    pytest.param(["timeouts", "run-1", "--reset"], ["timeouts", "run-1", "--remove"], id="learned limits"),
]


@pytest.mark.parametrize(("typed", "meant"), OLD)
def test_what_was_set_is_taken_back_by_one_word_and_older_words_still_do(
    tmp_path: Path, typed: list[str], meant: list[str]
) -> None:
    RunFolder(tmp_path / "training-runs", "run-1").metadata()
    one, other = (call([*LASTBEAT, *words], cwd=tmp_path) for words in (typed, meant))
    assert (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr)
    shown = call([*LASTBEAT, meant[0], "--help"], cwd=tmp_path).stdout
    assert "--remove" in shown
    assert next(word for word in typed if word.startswith("--")) not in shown


def test_a_run_is_watched_by_its_name(tmp_path: Path) -> None:
    RunFolder(tmp_path / "training-runs", "run-1").metadata()
    one, other = (
        call([*LASTBEAT, "watch", *words, "--once", "--json"], cwd=tmp_path)
        for words in (["run-1"], ["--run-id", "run-1"])
    )
    assert (one.returncode, one.stderr) == (other.returncode, other.stderr)
    assert json.loads(one.stdout)["status"] == json.loads(other.stdout)["status"] == "RUNNING"


REPORTS = [
    pytest.param(["beat", "night", "--step", "3"], "progress.json", id="beat"),
    pytest.param(["complete", "night"], "_complete", id="complete"),
    pytest.param(["preempted", "night"], "_preempted", id="preempted"),
    pytest.param(["fail", "night", "it broke"], "_error", id="fail, before its message"),
    pytest.param(["fail", "it broke", "--run-id", "night"], "_error", id="fail, whose only word is the message"),
]


@pytest.mark.parametrize(("words", "written"), REPORTS)
def test_a_run_is_reported_by_its_name(tmp_path: Path, words: list[str], written: str) -> None:
    done = call([*LASTBEAT, *words], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "training-runs" / "night" / written).exists()
