"""``lastbeat restart`` but for jobs that run: policies, checkpoints, and supervised runs with how to go on."""

import json
import os
import time
from pathlib import Path

import pytest

import lastbeat
from lastbeat.jobs.launchers.local import launcher as local
from lastbeat.model.job import JobState
from support import checkpoint_files as made
from support.cli import LASTBEAT, call
from support.jobs import SupervisedScene
from support.waiting import until

OWN = """\
policies:
  - mode: crash
    implementation: {class_name: SelectiveRestartPolicy, max_retries: 1, restart_on_error_types: [ncll]}
"""


def test_a_policy_is_chosen_and_asked(tmp_path: Path) -> None:
    listed = call(LASTBEAT, "policy", "list", cwd=tmp_path)
    assert (listed.returncode, "Recommended" in listed.stdout) == (0, True)
    shown = call(LASTBEAT, "policy", "show", "megatron_transient", cwd=tmp_path)
    (tmp_path / "own.yaml").write_text(shown.stdout, encoding="utf-8")
    checked = call(LASTBEAT, "policy", "check", "own.yaml", cwd=tmp_path)
    assert (checked.returncode, checked.stdout.splitlines()[0]) == (0, "own.yaml can be used:")
    asked = ("policy", "explain", "--policy", "own.yaml", "--error-type", "nccl", "--attempt")
    second = call(LASTBEAT, *asked, "2", cwd=tmp_path, LASTBEAT_RESTART_DELAY_SECONDS="10")
    assert second.stdout.splitlines() == [
        "restart: Transient failure detected (error_type=nccl)",
        "budgets: crash 2/3, 24 h 2/10",
        "delay: at most 20 s (chosen at random below that)",
    ]
    fourth = call(LASTBEAT, *asked, "4", "--json", cwd=tmp_path)
    found = json.loads(fourth.stdout)
    assert (found["action"], found["reason"]) == ("stop", "retry budget exhausted (attempt 4/3)")
    (tmp_path / "own.yaml").write_text(f"on_permanent: leave\n{shown.stdout}", encoding="utf-8")
    of_oom = call(LASTBEAT, *asked[:5], "oom", cwd=tmp_path)
    assert of_oom.stdout.splitlines() == [
        "stop: Permanent failure detected (excluded error_type: oom)",
        "a job that is not restarted and still runs: is left running (on_permanent: leave)",
    ]


def test_a_policy_with_a_fault_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN, encoding="utf-8")
    said = call(LASTBEAT, "policy", "check", "own.yaml", cwd=tmp_path)
    assert said.returncode == 3
    assert "own.yaml:3: there is no error type 'ncll' (did you mean 'nccl'?)" in said.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    hour_ago = time.time() - 3600
    for name, files in (("checkpoint-100", made.huggingface(100)), ("checkpoint-200", made.huggingface(200))):
        for file, body in files.items():
            path = tmp_path / "ckpt" / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
            os.utime(path, (hour_ago, hour_ago))
    (tmp_path / "ckpt" / "checkpoint-200" / "trainer_state.json").unlink()
    return tmp_path


def test_the_one_to_resume_from_and_why_not_the_newer_one(folder: Path) -> None:
    said = call(LASTBEAT, "checkpoints", "ckpt", cwd=folder)
    assert said.returncode == 0, said.stderr
    head, newest, taken = said.stdout.splitlines()
    assert head.endswith("ckpt: 2 checkpoints; a restart would take checkpoint-100 (step 100)")
    assert newest.endswith("incomplete: trainer_state.json is missing, which is written last")
    assert taken.startswith("> checkpoint-100")
    found = json.loads(call(LASTBEAT, "checkpoints", "ckpt", "--json", cwd=folder).stdout)
    assert (found["chosen"]["step"], found["chosen"]["url"]) == (100, str(folder / "ckpt" / "checkpoint-100"))


def test_the_same_as_a_function(folder: Path) -> None:
    found = lastbeat.find_checkpoints(str(folder / "ckpt"))
    assert found.chosen is not None
    assert (found.chosen.step, found.chosen.url) == (100, str(folder / "ckpt" / "checkpoint-100"))


def test_no_checkpoint_is_there(tmp_path: Path) -> None:
    (tmp_path / "ckpt").mkdir()
    said = call(LASTBEAT, "checkpoints", "ckpt", cwd=tmp_path)
    assert (said.returncode, "no checkpoints; training would begin from the start" in said.stdout) == (1, True)


def test_a_job_that_was_only_submitted_is_listed_and_told_how_to_go_on_with(tmp_path: Path) -> None:
    settings = {"LASTBEAT_STATE_DIR": str(tmp_path / "state"), "MONITORING_ROOT": str(tmp_path / "runs")}
    (tmp_path / "runs").mkdir()
    empty = call(LASTBEAT, "jobs", cwd=tmp_path, **settings)
    assert (empty.returncode, empty.stdout) == (0, f"No supervised run runs in {tmp_path / 'runs'}.\n"), empty.stderr
    begun = call(
        LASTBEAT, "supervise", "--run-id", "run", "--launcher", "local", "--policy", "megatron_transient",
        "--submit-only", "--", "sleep", "600", cwd=tmp_path, **settings,
    )  # fmt: skip
    assert begun.returncode == 0, begun.stderr
    try:
        shown = call(LASTBEAT, "jobs", cwd=tmp_path, COLUMNS="140", **settings).stdout
        assert "local run-r0" in shown
        assert "crash 3, stall 2, timeout 1, 24 h 10" in shown
        assert "nobody\n    → lastbeat restart run\n" in shown
        (told,) = json.loads(call(LASTBEAT, "jobs", "--json", cwd=tmp_path, **settings).stdout)["jobs"]
        assert (told["alone"], told["resume"]) == (True, "lastbeat restart run")
        row = call(LASTBEAT, "fleet", "--once", cwd=tmp_path, COLUMNS="140", **settings).stdout
        assert "run-r0" in row
        stopped = call(LASTBEAT, "stop", "run", "--wait", cwd=tmp_path, **settings)
        assert (stopped.returncode, stopped.stdout.splitlines()[-1]) == (0, "Run run: CANCELLED"), stopped.stderr
    finally:
        local.launcher(tmp_path / "state").cancel("run-r0")
    until(lambda: local.launcher(tmp_path / "state").state("run-r0").state, lambda state: state.ended)


def test_a_restart_that_waits_is_called_off_by_stop(tmp_path: Path) -> None:
    scene = SupervisedScene(delay_s=600.0)
    scene.begin()
    for _ in range(2):
        scene.watch().tick()
    scene.end("run-r0", JobState.FAILED, 1)
    scene.watch().tick()
    blob = scene.store.read("run/_watchdog.json", 1 << 20)
    assert blob is not None
    kept = tmp_path / "runs" / "run" / "_watchdog.json"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(blob.body)
    root = str(tmp_path / "runs")
    assert "now" in call(LASTBEAT, "jobs", "--root", root, cwd=tmp_path, COLUMNS="160").stdout
    done = call(LASTBEAT, "stop", "run", "--root", root, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "Job run-r1 is called off; no restart policy undoes that.\n"), (
        done.stderr
    )
    record = json.loads(kept.read_text(encoding="utf-8"))
    assert (record["ruling"]["restart"], record["restarts"], [each["name"] for each in record["actions"]]) == (
        False, [], ["run-r0"],
    )  # fmt: skip
    assert "what a person ended is not restarted" in record["ruling"]["reason"]


def test_what_the_last_job_wrote_does_not_keep_the_next_one_from_being_stopped(tmp_path: Path) -> None:
    scene = SupervisedScene()
    scene.begin()
    for _ in range(2):
        scene.watch().tick()
    scene.end("run-r0", JobState.FAILED, 1)
    for _ in range(2):
        scene.watch().tick()
    blob = scene.store.read("run/_watchdog.json", 1 << 20)
    assert blob is not None
    folder = tmp_path / "runs" / "run"
    folder.mkdir(parents=True)
    (folder / "_watchdog.json").write_bytes(blob.body)
    (folder / "metadata.json").write_text('{"attempt": 1, "stop_seconds": 30}', encoding="utf-8")
    os.utime(folder / "metadata.json", (1_700_000_000, 1_700_000_000))
    settings = {"LASTBEAT_STATE_DIR": str(tmp_path / "state"), "MONITORING_ROOT": str(tmp_path / "runs")}
    done = call(LASTBEAT, "stop", "run", cwd=tmp_path, **settings)
    assert done.returncode == 0, done.stderr
    assert "Asked for the end of run run (attempt 2)." in done.stdout
    assert "job run-r1" in done.stdout
    assert json.loads((folder / "_stop").read_text(encoding="utf-8"))["attempt"] == 2
