"""Names completed in real shells, as somebody types them."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.cli import LASTBEAT, RunFolder, call
from support.proxy import Stall, run_proxy
from support.terminal import Terminal, terminal

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two fleets, a log, and a program that completes as lastbeat does and otherwise tells how it was called."""
    tmp_path = tmp_path_factory.mktemp("place")
    for run_id in ("mistral-7b", "mistral-8x7b", "llama:70b@v2+lr=1e-4", "_hidden", "-rf"):
        RunFolder(tmp_path / "training-runs", run_id)
    RunFolder(tmp_path / "others", "whisper-small")
    (tmp_path / "training-runs" / "evil $(touch owned) name").mkdir()
    (tmp_path / "train.log").write_text("step 1\n")
    program = tmp_path / "bin" / "lastbeat"
    program.parent.mkdir()
    path = f"{ROOT / 'core'}{os.pathsep}{ROOT / 'cli'}"
    program.write_text(
        f"""#!/bin/sh
if [ -z "$_LASTBEAT_COMPLETE" ]; then printf '<%s>' called "$@"; echo; exit; fi
PYTHONPATH="{path}" exec "{sys.executable}" -m lastbeat_cli "$@"
"""
    )
    program.chmod(0o755)
    for shell in SHELLS:
        script = call(LASTBEAT, "completion", shell, cwd=tmp_path)
        assert (script.returncode, script.stderr) == (0, "")
        (tmp_path / f"lastbeat.{shell}").write_text(script.stdout)
    return tmp_path


def asked(place: Path, line: str, **settings: str) -> list[list[str]]:
    """What a shell is answered."""
    done = call(LASTBEAT, cwd=place, _LASTBEAT_COMPLETE="fish", _LASTBEAT_LINE=line, **settings)
    assert (done.returncode, done.stderr) == (0, "")
    return [answer.split("\t") for answer in done.stdout.splitlines()]


ANSWERS = [
    pytest.param("lastbeat sw", ["sweep"], id="a command"),
    pytest.param("lastbeat check ", ["setup", "alert", "node", "run", "cluster"], id="a command of a group"),
    pytest.param("lastbeat health mistral-8", ["mistral-8x7b"], id="a run for an older name of a command"),
    pytest.param("lastbeat restart po", ["policy"], id="a command of restart"),
    pytest.param("lastbeat restart mistral-8", ["mistral-8x7b"], id="or the run to restart"),
    pytest.param("lastbeat help fle", ["fleet"], id="a command to explain"),
    pytest.param("lastbeat show ", ["llama:70b@v2+lr=1e-4", "mistral-7b", "mistral-8x7b"], id="runs that may be"),
    pytest.param("lastbeat top mistral-8", ["mistral-8x7b"], id="a run"),
    pytest.param("lastbeat show --root others ", ["whisper-small"], id="runs of the fleet that was named"),
    pytest.param("lastbeat watch --once --run-id mistral-7", ["mistral-7b"], id="a run as an option's value"),
    pytest.param("lastbeat silence mistral-7", ["mistral-7b"], id="where a glob may be"),
    pytest.param("lastbeat fleet mistral-7b mist", ["mistral-8x7b"], id="not one that was named"),
    pytest.param("lastbeat fleet --status FAILED,t", ["FAILED,TIMED_OUT"], id="the next of several statuses"),
    pytest.param("lastbeat fleet --sin", ["--since"], id="an option"),
    pytest.param("lastbeat archive --un", [], id="no older name of one"),
    pytest.param("lastbeat fleet --buck", [], id="none that the help does not list"),
    pytest.param("lastbeat supervise --agent --onc", ["--once"], id="an option of a command of before"),
    pytest.param("lastbeat completion f", ["fish"], id="a shell"),
    pytest.param("lastbeat signals ev", ["eval"], id="a command below a command"),
    pytest.param("lastbeat nonsense ", [], id="nothing of what there is not"),
    pytest.param("lastbeat show --root /nowhere/at/all ", [], id="nothing where there is no fleet"),
    pytest.param("lastbeat show --stale-minutes ", [], id="nothing for a number"),
    pytest.param("lastbeat show 'mistral-8", ["mistral-8x7b"], id="inside quotes"),
]


@pytest.mark.parametrize(("line", "expected"), ANSWERS)
def test_what_may_come_next(place: Path, line: str, expected: list[str]) -> None:
    assert [answer[1] for answer in asked(place, line) if answer[0] == "plain"] == expected


KINDS = [
    pytest.param("lastbeat sweep --root ", ["dir"], id="a folder for a fleet root"),
    pytest.param("lastbeat watch --log ", ["file"], id="a file for a log"),
    pytest.param("lastbeat explain tr", ["file"], id="a file to explain"),
    pytest.param("lastbeat explain mistral-7", ["file", "plain"], id="or a run"),
]


@pytest.mark.parametrize(("line", "kinds"), KINDS)
def test_what_the_shell_completes_itself(place: Path, line: str, kinds: list[str]) -> None:
    assert [answer[0] for answer in asked(place, line)] == kinds


SILENT = [
    pytest.param(
        {"MONITORING_ROOT": "s3://no-such-bucket/x", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, id="no answer"
    ),
    pytest.param({"MONITORING_ROOT": "s3://"}, id="wrong settings"),
    pytest.param({"STALE_MINUTES": "soon"}, id="any wrong setting"),
]


@pytest.mark.parametrize("settings", SILENT)
def test_a_fault_says_nothing(place: Path, settings: dict[str, str]) -> None:
    assert asked(place, "lastbeat show ", **settings) == []


def test_a_store_that_does_not_answer_is_not_waited_for(place: Path) -> None:
    with run_proxy("http://127.0.0.1:9") as store:
        store.inject(Stall())
        settings = {"MONITORING_ROOT": "s3://bucket/x", "AWS_ENDPOINT_URL": store.url, "AWS_ACCESS_KEY_ID": "x"}
        assert asked(place, "lastbeat show ", AWS_SECRET_ACCESS_KEY="y" * 20, **settings) == []
        assert store.count() <= 1, "a request that is waited for is tried again"


def _shell(place: Path, shell: str) -> tuple[list[str], str]:
    """How it is started, and what is typed first."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: apt-get install {shell}")
    if shell == "zsh":
        return ["zsh", "-f", "-i"], "autoload -U compinit && compinit -u -D && . ./lastbeat.zsh\r"
    if shell == "fish":
        return ["fish", "--no-config", "-i"], "source lastbeat.fish\r"
    return ["bash", "--norc", "-i"], ". ./lastbeat.bash\r"


@pytest.fixture(scope="module", params=SHELLS)
def shell(place: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    command, first = _shell(place, request.param)
    search = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
    with terminal(
        command, cwd=place, columns=200, controlling=True, PATH=search, LC_ALL="C.UTF-8", LANG="C.UTF-8"
    ) as at:
        at.press(first)
        at.press("echo rea''dy\r")
        at.wait_for(lambda shown: "ready" in shown)
        yield at


@pytest.fixture
def prompt(shell: Terminal) -> Terminal:
    """A line that nothing was typed on yet, of a shell in which others were."""
    shell.press("\x15")
    shell.forget()
    return shell


TYPED = [
    pytest.param("swe\t", "<sweep>", id="a command"),
    pytest.param("show mistral-8\t", "<show><mistral-8x7b>", id="a run"),
    pytest.param("show mis\t8\t", "<show><mistral-8x7b>", id="as far as it is the same for several, then on"),
    pytest.param("show lla\t", "<show><llama:70b@v2+lr=1e-4>", id="a run with every sign there may be"),
    pytest.param("show llama:7\t", "<show><llama:70b@v2+lr=1e-4>", id="from behind one of them"),
    pytest.param("watch --run-id=mistral-8\t", "<watch><--run-id=mistral-8x7b>", id="behind an equals sign"),
]


@pytest.mark.parametrize(("typed", "called"), TYPED)
def test_a_word_is_completed_at_a_prompt(prompt: Terminal, typed: str, called: str) -> None:
    prompt.press("lastbeat " + typed)
    prompt.press("\r")
    prompt.wait_for(lambda shown: "<called>" in shown)
    assert f"<called>{called}" in prompt.shown


def test_what_a_folder_is_called_is_not_run(prompt: Terminal, place: Path) -> None:
    prompt.press("lastbeat show e\t\r")
    prompt.wait_for(lambda shown: "<called><show><e>" in shown)
    assert not (place / "owned").exists()
    assert "Error" not in prompt.shown
