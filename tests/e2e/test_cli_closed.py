"""A directory in which not all may be looked at, as commands see it: real processes that the modes of files bind."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, RunFolder, call, call_as, call_bound
from support.closed import open_place

SECRET = "what only the watchdog may read"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "training-runs"
    for name in ("before", "run", "then"):
        run = RunFolder(root, name)
        run.metadata()
        run.progress()
        run.put("ckpt/last.pt")
        run.put("logs/rank0.log", "step 25/100 loss 1.5\n")
    yield root
    for folder, _, _ in os.walk(root, onerror=lambda fault: Path(fault.filename).chmod(0o700)):
        Path(folder).chmod(0o700)


def bound(root: Path, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    return call_bound(*arguments, cwd=root.parent, **settings)


def swept(root: Path, **settings: str) -> tuple[int, dict[str, Any]]:
    done = bound(root, "sweep", "--once", "--json", **settings)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def _close(path: Path) -> None:
    path.chmod(0)


def test_a_closed_run_is_named_everywhere_and_all_others_are_watched(root: Path) -> None:
    assert swept(root)[0] == 0
    _close(root / "run")
    RunFolder(root, "new").put("_error", "RuntimeError: boom")
    code, report = swept(root)
    assert (code, report["blind"]) == (2, None)
    assert report["statuses"] == {"RUNNING": 2, "FAILED": 1, "UNKNOWN": 1}
    assert list(report["unreadable"]) == ["run"]
    assert "not allowed to list run/: Permission denied" in report["unreadable"]["run"]
    shutil.rmtree(root / "new")
    assert swept(root)[0] == 3

    told = bound(root, "sweep", "--once").stdout
    assert "1 unreadable" in told
    assert "UNKNOWN  run  " in told

    fleet = json.loads(bound(root, "fleet", "--json").stdout)
    faults = {run["run_id"]: run["fault"] for run in fleet["runs"]}
    assert faults.pop("run").endswith("not allowed to list run/: Permission denied")
    assert faults == {"before": None, "then": None}

    for command in (["watch", "--run-id", "run", "--once"], ["show", "run"], ["logs", "run"]):
        done = bound(root, *command)
        assert done.returncode == 3
        assert "Permission denied" in done.stdout + done.stderr
        assert "no run" not in done.stdout + done.stderr

    doctor = bound(root, "doctor")
    assert doctor.returncode == 1
    (line,) = [line for line in doctor.stdout.splitlines() if line.startswith("warn  reading: ")]
    assert "run: " in line
    assert "Permission denied" in line
    assert "ok    reading: allowed, of 2 runs" in doctor.stdout


def test_a_run_whose_logs_are_closed_is_not_said_to_have_none(root: Path) -> None:
    _close(root / "run" / "logs")
    for command in (["logs", "run"], ["logs", "run", "--rank", "0"], ["explain", "run"]):
        done = bound(root, *command)
        assert done.returncode == 3
        assert "not allowed to list run/logs/: Permission denied" in done.stderr
        assert "has no" not in done.stderr
    shown = bound(root, "show", "run")
    assert shown.returncode == 0
    assert "logs/: " in shown.stdout


def test_a_closed_run_can_be_silenced_and_nobody_says_that_there_is_none(root: Path) -> None:
    _close(root / "run")
    done = bound(root, "silence", "run", "--for", "1h", "--why", "maintenance", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert [silence["runs"] for silence in document["silences"]] == ["run"]
    assert (document["matches"], len(document["notes"])) == (1, 1)
    assert document["notes"][0].startswith("the history of run could not be written, and does not say so: ")


def test_nothing_outside_of_the_root_is_shown_to_anybody(root: Path) -> None:
    outside = RunFolder(root.parent / "secret", "run")
    outside.metadata(phase=SECRET)
    outside.put("_error", SECRET)
    outside.put("logs/rank0.log", SECRET)
    outside.put("ranks/0.json", json.dumps({"rank": 0, "phase": SECRET}))
    (root / "linked").symlink_to(outside.path)
    (root / "run/logs/rank0.log").unlink()
    (root / "run/logs/rank0.log").symlink_to(outside.path / "logs/rank0.log")
    said = ""
    of_run = (["show"], ["show", "--json"], ["logs"], ["logs", "--file", "_error"], ["explain"],
              ["watch", "--once", "--dry-run"])  # fmt: skip
    for command in (
        ["sweep", "--once", "--json"],
        ["sweep", "--once"],
        ["fleet", "--json"],
        ["fleet", "--once"],
        ["doctor"],
        *([*each, run] for each in of_run for run in ("linked", "run")),
    ):
        done = call(LASTBEAT, *command, cwd=root.parent, LASTBEAT_PAGE_MINUTES="1")
        assert "Traceback" not in done.stderr
        said += done.stdout + done.stderr
    said += "".join(path.read_text(errors="replace") for path in root.rglob("_watchdog*") if path.is_file())
    said += (root / "_watchdog" / "index.html").read_text()
    assert SECRET not in said
    assert "leads out of the fleet root" in said
    assert sorted(path.name for path in outside.path.iterdir()) == ["_error", "logs", "metadata.json", "ranks"]


def test_a_root_of_links_is_read_where_its_writers_are_trusted(root: Path) -> None:
    outside = RunFolder(root.parent / "scratch", "linked")
    outside.put("_error", "RuntimeError: boom")
    (root / "linked").symlink_to(outside.path)
    done = call(LASTBEAT, "sweep", "--once", "--json", cwd=root.parent, LASTBEAT_FOLLOW_LINKS="on")
    assert (done.returncode, json.loads(done.stdout)["statuses"]) == (2, {"RUNNING": 3, "FAILED": 1})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")
def test_one_user_watches_what_others_let_him_see() -> None:
    alice, bob, watcher = 65531, 65532, 65533
    with open_place() as place:
        root, state = place / "training-runs", place / "state"
        state.mkdir(mode=0o777)
        state.chmod(0o777)
        for name, owner in (("alices", alice), ("bobs", bob)):
            run = RunFolder(root, name)
            run.metadata()
            run.put("_error", f"RuntimeError: {name}")
            for path in (run.path, *run.path.iterdir()):
                os.chown(path, owner, owner)
        # As an umask of 077 makes it, and another run of whose only the error is closed.
        (root / "alices").chmod(0o700)
        (root / "lost+found").mkdir(mode=0o700)
        (root / "bobs" / "_error").chmod(0o600)
        settings = {"MONITORING_ROOT": str(root), "LASTBEAT_STATE_DIR": str(state)}
        done = call_as(watcher, "sweep", "--once", "--json", cwd=place, **settings)
        report = json.loads(done.stdout)
        assert done.stderr == ""
        assert report["statuses"] == {"FAILED": 1}
        assert list(report["unreadable"]) == ["alices"]
        assert any("lost+found" in note for note in report["notes"])
        assert "RuntimeError" not in done.stdout
        told = call_as(watcher, "doctor", cwd=place, **settings).stdout
        assert {line.split(": ")[1] for line in told.splitlines() if line.startswith("warn  reading")} == {
            "alices",
            "bobs",
        }
        mine = json.loads(call_as(alice, "sweep", "--once", "--json", cwd=place, **settings).stdout)
        assert mine["statuses"] == {"FAILED": 2}
        assert "RuntimeError: alices" in json.dumps(mine)


def test_who_goes_on_with_a_colleagues_run_learns_why_it_is_not_seen_and_what_to_do() -> None:
    alice, bob, watcher = 65531, 65532, 65533
    with open_place() as place:
        root, state = place / "training-runs", place / "state"
        for folder in (root, state):
            folder.mkdir()
            folder.chmod(0o777)
        settings = {"MONITORING_ROOT": str(root), "LASTBEAT_STATE_DIR": str(state)}
        for user in (alice, bob):
            assert call_as(user, "beat", "--run-id", "run", cwd=place, **settings).returncode == 0
            (root / "run").chmod(0o777)
        said = call_as(watcher, "watch", "--run-id", "run", "--once", cwd=place, **settings).stdout
        assert f"it belongs to user {bob}, and the run's folder to user {alice}" in said
        assert "under a run id of your own" in said
        os.chown(root / "run", bob, bob)
        assert call_as(watcher, "sweep", "--once", cwd=place, **settings).returncode == 0
