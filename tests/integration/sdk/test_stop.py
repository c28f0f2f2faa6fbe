"""Somebody asks from elsewhere that a training ends: it does, as by Ctrl-C, and that is what people are told."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cli import LASTBEAT, call, start
from support.training import Site, end
from support.waiting import LIMIT_S, until

ASLEEP = """\
import lastbeat, os, signal, sys, time
{before}
with lastbeat.run("run-1") as run:
    run.step(1)
    time.sleep(600)
"""
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="processes are told apart by /proc")


@contextmanager
def training(site: Site, before: str = "", **env: str) -> "Iterator[subprocess.Popen[str]]":
    with site.running(ASLEEP.format(before=before), **env) as process:
        until(lambda: site.read("progress.json"))
        yield process


def stop(site: Site, *more: str) -> "subprocess.CompletedProcess[str]":
    return call([*LASTBEAT, "stop", "run-1", *more], cwd=site.folder, MONITORING_ROOT=site.root)


@LINUX
def test_on_its_own_machine_it_ends_at_once(directory: Site) -> None:
    with training(directory, LASTBEAT_BEAT_SECONDS="60") as process:
        done = stop(directory, "--why", "wrong data", "--wait")
        assert done.returncode == 0, done.stderr
        assert "Asked for the end of run run-1 (attempt 1)." in done.stdout
        assert f"Its process {process.pid} on this machine got SIGINT" in done.stdout
        assert done.stdout.endswith("Run run-1: CANCELLED\n")
        assert process.wait(LIMIT_S) == -signal.SIGINT
    found = directory.look()
    assert (found["status"], found["exit"], found["cause"]) == ("CANCELLED", 2, "cancelled")
    assert found["reason"].startswith("Stopped by ")
    assert found["reason"].endswith(": wrong data")
    assert json.loads(directory.read("_watchdog.json") or "")["stopped_by"] in found["reason"]
    assert found["alerts"]["pending"] == 0


@LINUX
def test_what_a_script_started_in_the_background_ignores_ctrl_c_and_gets_sigterm(directory: Site) -> None:
    with training(directory, "signal.signal(signal.SIGINT, signal.SIG_IGN)", LASTBEAT_BEAT_SECONDS="60") as process:
        done = stop(directory, "--why", "wrong data", "--wait")
        assert (done.returncode, "got SIGTERM, since it ignores Ctrl-C" in done.stdout) == (0, True), done.stdout
        assert process.wait(LIMIT_S) == -signal.SIGTERM
    assert directory.look()["reason"].endswith(": wrong data")


ELSEWHERE = [
    pytest.param("", (), -signal.SIGINT, id="it is interrupted"),
    pytest.param("signal.signal(signal.SIGINT, signal.SIG_IGN)", (), -signal.SIGTERM,
                 id="one that ignores Ctrl-C gets SIGTERM"),
    pytest.param("signal.signal(signal.SIGINT, lambda *told: None)", ("--grace", "1s"), -signal.SIGTERM,
                 id="one that does nothing about it gets SIGTERM after its grace"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "more", "status"), ELSEWHERE)
def test_elsewhere_the_training_sees_the_request(
    directory: Site, before: str, more: tuple[str, ...], status: int
) -> None:
    hidden = "import lastbeat.training.sdk.documents as documents\ndocuments.process_mark = lambda number: None\n"
    with training(directory, hidden + before, LASTBEAT_GUARDIAN="off") as process:
        done = stop(directory, "--why", "wrong data", *more)
        assert done.returncode == 0, done.stderr
        assert "The training looks for this each " in done.stdout
        assert process.wait(LIMIT_S) == status
    assert "KeyboardInterrupt (stopped by " in (directory.read("_error") or "")
    found = directory.look()
    assert (found["status"], found["reason"].endswith(": wrong data")) == ("CANCELLED", True)


@LINUX
def test_exec_ends_what_its_command_has_started(directory: Site) -> None:
    directory.folder.mkdir(parents=True)
    command = [*LASTBEAT, "exec", "--run-id", "run-1", "--root", directory.root, "--"]
    shell = "echo step 1/9 loss 1; sleep 600; exit 7"
    process = start([*command, "sh", "-c", shell], cwd=directory.folder, LASTBEAT_BEAT_SECONDS="0.2")
    try:
        until(lambda: "wraps" in (directory.read("metadata.json") or ""))
        done = stop(directory, "--why", "enough", "--wait")
        assert done.returncode == 0, done.stderr
        process.communicate(timeout=LIMIT_S)
    finally:
        end(process)
    found = directory.look()
    assert (found["status"], found["reason"].endswith(": enough")) == ("CANCELLED", True)


REFUSED = [
    pytest.param({}, "there is no run run-1", id="no such run"),
    pytest.param({"run-11/metadata.json": "{}"}, "Did you mean run-11?", id="a typing error"),
    pytest.param({"run-1/metadata.json": "{}", "run-1/_complete": ""}, "is over: it is SUCCEEDED", id="it is over"),
    pytest.param({"run-1/logs/train.log": "step 1"}, "has no metadata.json", id="nobody knows what trains it"),
]


@pytest.mark.parametrize(("files", "said"), REFUSED)
def test_what_cannot_be_stopped_is_refused_in_words(directory: Site, files: dict[str, str], said: str) -> None:
    directory.folder.mkdir(parents=True)
    Path(directory.root).mkdir()
    for name, text in files.items():
        path = Path(directory.root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    done = stop(directory)
    assert (done.returncode, said in done.stderr) == (3, True), done.stderr
    assert not (Path(directory.root) / "run-1" / "_stop").exists()


def test_a_script_that_does_not_look_is_said_so_and_its_end_is_cancelled_all_the_same(directory: Site) -> None:
    directory.folder.mkdir(parents=True)
    run = Path(directory.root) / "run-1"
    run.mkdir(parents=True)
    (run / "metadata.json").write_text(json.dumps({"run_id": "run-1", "attempt": 3}), "utf-8")
    done = stop(directory, "--why", "enough")
    assert done.returncode == 1
    assert "does not look for requests" in done.stdout
    again = stop(directory)
    assert "has asked for that" in again.stdout
    (run / "_error").write_text("line 3: sleep 600 failed with exit code 143\n", "utf-8")
    found = directory.look()
    assert (found["status"], found["reason"].endswith(": enough")) == ("CANCELLED", True)
    (run / "_stop").unlink()
    assert directory.look()["status"] == "CANCELLED", "what people were told stands"
