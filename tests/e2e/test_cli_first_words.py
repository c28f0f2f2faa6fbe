"""What people type first does what they mean: other names of commands, and the run as a word."""

import re
import shlex
from pathlib import Path

import pytest

from lastbeat_cli.commands import meant
from support.cli import LASTBEAT, RunFolder, call

TIMES = re.compile(r"\d+(\.\d+)?( ?ms| ?s|s ago|%)|\d{4}-\d\d-\d\dT[\d:.]+Z?|· seen.*|[0-9a-f]{16}")
"""What two calls of one command may say differently."""
WORDS = {
    "list": "fleet",
    "ls": "fleet",
    "ps": "fleet",
    "status": "fleet",
    "help": "--help",
    "help --all": "--all",
    "help ps": "fleet --help",
    "help tail": "logs --follow --help",
    "help restart": "restart --help",
    "help check node": "check node --help",
    "help restart my-run": "restart resume my-run --help",
    "version": "--version",
    "mute x": "silence x",
    "ui": "dashboard",
    "serve": "dashboard",
    "tail gone": "logs --follow gone",
    "simulate-fault run-1": "restart simulate-fault run-1",
    "supervise --run-id x": "restart supervise --run-id x",
    "supervise --resume gone": "restart resume --resume gone",
    "supervise --resume=run-1": "restart resume --resume=run-1",
    "supervise --agent --interval 9h": "restart agent --agent --interval 9h",
    "supervise --run-id x -- train --agent": "restart supervise --run-id x -- train --agent",
    "restart gone": "restart resume gone",
}
"""What is typed, and the command that it is taken for."""


def test_other_words_for_a_command_are_that_command() -> None:
    assert {typed: shlex.join(meant(shlex.split(typed))) for typed in WORDS} == WORDS


MEANT = {
    "ls": "fleet --once",
    "help fleet": "fleet --help",
    "supervise --resume run-1 --root training-runs": "restart --root training-runs run-1",
    "supervise --agent --interval 9h": "restart agent --interval 9h",
    "supervise --launcher local --run-id run-1 --adopt nothing": "restart adopt run-1 nothing --launcher local",
    "check cluster --head-pod 'Head Pod' --namespace ml": "check cluster --at 'head-pod=Head Pod' --at namespace=ml",
    "limits a* --stall-minutes 1h": "limits a* --stall-minutes 60",
    "show run-1 --stale-minutes 2h": "show run-1 --stale-minutes 120",
    "watch run-1 --once --interval 1m --dry-run": "watch run-1 --once --interval 60 --dry-run",
    "watch run-1 --once": "watch --run-id run-1 --once",
    "archive --undo run-1": "archive --remove run-1",
    "silence --lift run-1": "silence --remove run-1",
    "limits run-1 --clear": "limits run-1 --remove",
    "limits --clear-all": "limits --remove-all",
    "timeouts run-1 --reset": "timeouts run-1 --remove",
}
"""What is typed, and what does the same: other names, commands and options of before, spans with units."""


@pytest.mark.parametrize(("typed", "same"), MEANT.items(), ids=MEANT)
def test_it_does_the_same(tmp_path: Path, typed: str, same: str) -> None:
    RunFolder(tmp_path / "training-runs", "run-1").metadata()
    one, other = (call([*LASTBEAT, *shlex.split(words)], cwd=tmp_path) for words in (typed, same))
    # Columns are as wide as the ages in them.
    shown = [
        (done.returncode, *(TIMES.sub("", each).split() for each in (done.stdout, done.stderr)))
        for done in (one, other)
    ]
    assert shown[0] == shown[1]
    assert "there is no command '" not in one.stderr


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
