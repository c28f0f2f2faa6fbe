"""`make demo` as a newcomer meets it: three runs, three verdicts, one alert each, and nothing left behind."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.waiting import until

LIMIT_S = 120


def environment(tmp_path: Path) -> dict[str, str]:
    return dict(os.environ) | {"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}


def processes_of(tmp_path: Path) -> dict[int, str]:
    """The processes that still run and name the demo's folder in their command lines."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # It ended meanwhile.
        if str(tmp_path) in line:
            found[int(process.name)] = line
    return found


def test_the_demo(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "demo"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    each_run_gets_its_verdict_and_one_alert(done.stdout)
    the_alerts_say_why_and_what_to_do(done.stdout)
    the_loss_really_falls(done.stdout)
    assert list(tmp_path.iterdir()) == []
    assert processes_of(tmp_path) == {}


def each_run_gets_its_verdict_and_one_alert(said: str) -> None:
    summary = said.splitlines()[-4:]
    for run_id, verdict in (("good", "SUCCEEDED"), ("diverges", "FAILED"), ("killed", "TIMED_OUT")):
        line = next(line for line in summary if line.startswith(f"spirals-{run_id} "))
        assert verdict in line, said
        assert line.endswith("1 alert"), said
    assert said.count("─ Slack ─") == 3, said


def the_alerts_say_why_and_what_to_do(said: str) -> None:
    words = " ".join(said.replace("│", " ").split())
    assert "FloatingPointError: divide by zero encountered in log" in words, said
    assert "Both heartbeats stale (>0.1m)" in words, said
    # The remediation hints of a divergence and of a silent death.
    assert "lower the learning rate" in words, said
    assert "nvidia-smi" in words, said


def the_loss_really_falls(said: str) -> None:
    first_run = said.split("2 of 3", maxsplit=1)[0]
    losses = [float(line.split("  loss ")[1].split()[0]) for line in first_run.splitlines() if "  loss " in line]
    assert len(losses) >= 5
    assert losses[-1] < losses[0] / 3


@pytest.mark.parametrize(("lines", "number"), [(1, signal.SIGINT), (8, signal.SIGTERM)])
def test_a_demo_that_is_stopped_cleans_up_whatever_it_is_about(
    tmp_path: Path, lines: int, number: signal.Signals
) -> None:
    """After its first line the demo starts training, and some lines later the watcher."""
    with subprocess.Popen(
        [sys.executable, "-m", "demo"],
        cwd=ROOT,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = "".join(process.stdout.readline() for _ in range(lines))
        process.send_signal(number)
        said += process.communicate(timeout=LIMIT_S)[0]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []
    until(lambda: processes_of(tmp_path), lambda left: not left)


STOPPED_AT_A_FORK = """
import os, signal, sys
left = [int(os.environ["STOPPED_AT"])]
def profile(frame, event, function):
    if event == "c_return" and function.__name__ == "fork_exec":
        left[0] -= 1
        if not left[0]:
            with open(f"/proc/self/task/{os.getpid()}/children") as children:
                os.kill(int(children.read().split()[-1]), signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGTERM)
sys.setprofile(profile)
"""


@pytest.mark.parametrize("child", [1, 2], ids=["training", "the watcher"])
def test_a_demo_that_is_stopped_the_very_moment_it_has_forked_a_child_ends_that_child(
    tmp_path: Path, child: int
) -> None:
    """By then the system has the child, and Python has yet to hear of it. The child is suspended: it does not end by
    itself because nobody reads what it says."""
    for name in ("python", "demo"):
        (tmp_path / name).mkdir()
    (tmp_path / "python/sitecustomize.py").write_text(STOPPED_AT_A_FORK, encoding="utf-8")
    more = {"PYTHONPATH": str(tmp_path / "python"), "STOPPED_AT": str(child)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "demo"],
            cwd=ROOT,
            env=environment(tmp_path / "demo") | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert (done.returncode, "Traceback" in done.stdout) == (130, False), done.stdout
        assert list((tmp_path / "demo").iterdir()) == []
        assert processes_of(tmp_path / "demo") == {}
    finally:
        for pid in processes_of(tmp_path / "demo"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
