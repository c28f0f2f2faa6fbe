"""``jobs``: what was only submitted is listed with the command that goes on with it."""

import json
import os
from pathlib import Path

from lastbeat.jobs.launchers.local import launcher as local
from lastbeat.model.job import JobState
from support.cli import LASTBEAT, call
from support.jobs import SupervisedScene
from support.waiting import until


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
