"""``lastbeat beat``, ``fail`` and ``complete``: what shell scripts and cron jobs call."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import LASTBEAT, call, environment
from support.started_in_place import document
from support.waiting import LIMIT_S
from support.wrapped import RUN_ID, left, watched


def lastbeat(folder: Path, *arguments: str, status: int = 0, **more: str) -> str:
    """Its stderr."""
    settings = {"MONITORING_ROOT": str(folder / "runs"), **more}
    done = call(LASTBEAT, arguments[0], "--run-id", RUN_ID, *arguments[1:], cwd=folder, **settings)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    return done.stderr


def test_a_wrong_setting_keeps_no_report_back(tmp_path: Path) -> None:
    said = lastbeat(tmp_path, "beat", "--step", "3", LASTBEAT_LEARN="banana")
    assert "lastbeat goes on without a setting: LASTBEAT_LEARN='banana'" in said
    lastbeat(tmp_path, "fail", "disk is full", LASTBEAT_LEARN="banana")
    assert document(tmp_path, "progress.json")["step"] == 3
    assert (left(tmp_path, "_error") or "").startswith("disk is full")


def bash(folder: Path, script: str) -> "subprocess.CompletedProcess[str]":
    """Run ``script`` as a user's file, with ``lastbeat`` on the path."""
    programs = folder / "bin"
    programs.mkdir()
    program = programs / "lastbeat"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lastbeat_cli "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    (folder / "train.sh").write_text(script, encoding="utf-8")
    settings = environment(folder, MONITORING_ROOT=str(folder / "runs"))
    settings["PATH"] = f"{programs}:{settings['PATH']}"
    return subprocess.run(
        ["bash", "train.sh"], cwd=folder, env=settings, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


SCRIPT = """\
set -Eeuo pipefail
trap 'lastbeat fail --run-id run-1 --exit-status $? "line $LINENO: $BASH_COMMAND"' ERR
lastbeat beat --run-id run-1 --start --phase data_prep
echo prepared
lastbeat beat --run-id run-1 --phase training --step 10 --total-steps 40 --loss 1.5
{last}
lastbeat complete --run-id run-1
"""


def test_a_script_that_is_preempted(tmp_path: Path) -> None:
    lastbeat(tmp_path, "beat", "--start", "--step", "1500")
    lastbeat(tmp_path, "preempted", "--checkpoint", "ckpt/step_1500", "--step", "1500", "--why", "SIGUSR1 came")
    said = watched(tmp_path)
    assert (said["status"], said["reason"]) == (
        "PREEMPTED",
        "PREEMPTED, checkpoint at step 1500: ckpt/step_1500; SIGUSR1 came",
    )
    lastbeat(tmp_path, "beat", "--start")
    assert left(tmp_path, "_preempted") is None


def test_a_script_whose_command_fails(tmp_path: Path) -> None:
    done = bash(tmp_path, SCRIPT.format(last='train() { cat /no/such/file; }; train "$@"'))
    assert done.returncode == 1
    assert (left(tmp_path, "_error") or "").strip() == "line 6: cat /no/such/file (exit status 1)"
    assert left(tmp_path, "_complete") is None
    said = watched(tmp_path)
    assert (said["status"], said["step"], said["total_steps"]) == ("FAILED", 10, 40)
    assert "line 6" in said["reason"]


def test_a_script_that_ends_well(tmp_path: Path) -> None:
    done = bash(tmp_path, SCRIPT.format(last="true"))
    assert (done.returncode, done.stderr) == (0, "")
    assert left(tmp_path, "_error") is None
    assert watched(tmp_path)["status"] == "SUCCEEDED"


def test_the_end_of_a_log_as_the_message(tmp_path: Path) -> None:
    script = 'for n in 1 2 3; do echo "line $n"; done | tail -n 2 | lastbeat fail --run-id run-1 --exit-status 9 -\n'
    assert bash(tmp_path, script).returncode == 0
    assert left(tmp_path, "_error") == "line 2 (exit status 9)\nline 3"


def test_of_a_long_text_both_ends_are_kept(tmp_path: Path) -> None:
    assert (
        bash(tmp_path, "(echo first; yes | head -c 3000000; echo last) | lastbeat fail --run-id run-1 -").returncode
        == 0
    )
    error = left(tmp_path, "_error") or ""
    assert error.startswith("first\ny\n")
    assert error.endswith("y\nlast")
    assert len(error) < 32 * 1024


def test_beats_go_on_from_each_other(tmp_path: Path) -> None:
    lastbeat(tmp_path, "beat", "--phase", "warm up", "--step", "1", "--total-steps", "9", "--loss", "nan")
    first = document(tmp_path, "metadata.json")
    assert (first["attempt"], first["phase"]) == (1, "warm up")
    assert document(tmp_path, "progress.json")["loss"] == "NaN"
    lastbeat(tmp_path, "beat", "--step", "2", "--loss", "2.5", "--learning-rate", "1e-4")
    second, progress = document(tmp_path, "metadata.json"), document(tmp_path, "progress.json")
    assert (second["start_time"], second["attempt"], second["phase"]) == (first["start_time"], 1, "warm up")
    assert second["last_update"] >= first["last_update"]
    assert (progress["step"], progress["total_steps"], progress["learning_rate"]) == (2, 9, 1e-4)
    assert [point[1:] for point in progress["recent"]] == [[1, "NaN", None], [2, 2.5, 1e-4]]
    assert progress["phase"] == "warm up"
    assert [name for _, name in second["phases"]] == ["warm up"]
    assert second["resources"]["memory_total_bytes"] > second["resources"]["memory_available_bytes"] > 0
    said = watched(tmp_path)
    assert (said["status"], said["step"], said["conditions"]) == ("RUNNING", 2, [])


def test_phases_are_those_of_this_attempt(tmp_path: Path) -> None:
    for said in (["--start", "--phase", "data_prep"], [], ["--phase", "training"], ["--phase", "evaluation"]):
        lastbeat(tmp_path, "beat", *said)
    changes = document(tmp_path, "metadata.json")["phases"]
    assert [name for _, name in changes] == ["data_prep", "training", "evaluation"]
    assert [at for at, _ in changes] == sorted(at for at, _ in changes)
    lastbeat(tmp_path, "beat", "--start")
    assert [name for _, name in document(tmp_path, "metadata.json")["phases"]] == ["training"]


def test_points_and_phases_that_nobody_can_use_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / RUN_ID
    folder.mkdir(parents=True)
    points = '[1, 2], [1, "x", 2], ["x", 1, 2], [NaN, 1, 2], [1e999, 1, 2], {}, [5, 1, 2.0], [6, 2, "x", [1]]'
    (folder / "metadata.json").write_text('{"attempt": 1, "phases": [[NaN, "a"], [1, 2], 3, [5, "b"]]}')
    (folder / "progress.json").write_text(f'{{"recent": [{points}, [7, 3, NaN, 1e-4]]}}')
    lastbeat(tmp_path, "beat", "--phase", "c", "--step", "4", "--attempt", "1")
    recent = document(tmp_path, "progress.json")["recent"]
    assert recent[:-1] == [[5, 1, 2.0, None], [6, 2, None, None], [7, 3, "NaN", 1e-4]]
    assert [name for _, name in document(tmp_path, "metadata.json")["phases"]] == ["b", "c"]


def test_a_start_begins_an_attempt_and_removes_the_last_ones_end(tmp_path: Path) -> None:
    lastbeat(tmp_path, "beat", "--start")
    lastbeat(tmp_path, "fail", "it broke")
    assert watched(tmp_path)["status"] == "FAILED"
    lastbeat(tmp_path, "beat", "--start")
    assert left(tmp_path, "_error") is None
    said = watched(tmp_path)
    assert (said["status"], said["attempt"]) == ("RUNNING", 2)
    lastbeat(tmp_path, "beat", "--attempt", "5")
    assert watched(tmp_path)["attempt"] == 5


def test_the_first_error_of_an_attempt_stays(tmp_path: Path) -> None:
    lastbeat(tmp_path, "fail", "an old one, of nobody knows which attempt")
    lastbeat(tmp_path, "fail", "an old one, of yesterday")
    assert left(tmp_path, "_error") == "an old one, of yesterday\n"
    lastbeat(tmp_path, "beat", "--start")
    lastbeat(tmp_path, "fail", "the cause, with hf_abcdefghijklmnopqrstuvwxyz")
    assert "had failed already" in lastbeat(tmp_path, "fail", "a consequence")
    assert left(tmp_path, "_error") == "the cause, with ***\n"


def test_a_run_that_failed_does_not_complete(tmp_path: Path) -> None:
    lastbeat(tmp_path, "beat", "--start")
    lastbeat(tmp_path, "fail", "it broke")
    assert f"{RUN_ID} stays FAILED" in lastbeat(tmp_path, "complete")
    assert watched(tmp_path)["status"] == "FAILED"


def test_an_error_of_an_earlier_attempt_does_not_keep_a_run_from_completing(tmp_path: Path) -> None:
    lastbeat(tmp_path, "fail", "it broke")
    (tmp_path / "runs" / RUN_ID / "metadata.json").write_text('{"attempt": 2, "start_time": "2999-01-01T00:00:00Z"}')
    assert "FAILED" not in lastbeat(tmp_path, "complete")


def test_a_broken_document_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "runs" / RUN_ID).mkdir(parents=True)
    for name in ("metadata.json", "progress.json"):
        (tmp_path / "runs" / RUN_ID / name).write_text('[{"attempt": ')
    lastbeat(tmp_path, "beat", "--step", "3", "--attempt", "1")
    assert document(tmp_path, "metadata.json")["attempt"] == 1
    assert document(tmp_path, "progress.json")["step"] == 3


@pytest.mark.parametrize("name", ["beat", "fail", "complete", "preempted"])
def test_what_could_not_be_written_is_said_by_exit_3(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("in the way")
    said = lastbeat(
        tmp_path, name, *(["why"] if name == "fail" else []), status=3, MONITORING_ROOT=str(tmp_path / "file" / "runs")
    )
    assert said.startswith("Error: ")


def test_whose_run_it_is_stays_until_somebody_says_otherwise(tmp_path: Path) -> None:
    lastbeat(tmp_path, "beat", "--start", "--owner", "alice", "--team", "vision")
    lastbeat(tmp_path, "beat")
    found = document(tmp_path, "metadata.json")
    assert (found["owner"], found["team"]) == ("alice", "vision")
    lastbeat(tmp_path, "beat", "--start", LASTBEAT_OWNER="bob")
    found = document(tmp_path, "metadata.json")
    assert (found["owner"], found.get("team")) == ("bob", None)
