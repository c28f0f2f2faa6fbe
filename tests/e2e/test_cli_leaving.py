"""``archive`` and ``forget`` as users run them."""

import json
from pathlib import Path

from support.cli import LASTBEAT, RunFolder, call


def test_an_archived_run_is_left_out_and_comes_back(tmp_path: Path) -> None:
    for name in ("old-1", "old-2", "kept"):
        RunFolder(tmp_path / "training-runs", name).put("_error", "boom")
    call(LASTBEAT, "sweep", "--once", cwd=tmp_path)
    refused = call(LASTBEAT, "archive", "old-*", cwd=tmp_path)
    assert refused.returncode == 3
    assert "Archive 2 runs? Nobody can be asked here: say --yes" in refused.stderr
    done = call(LASTBEAT, "archive", "old-*", "--yes", cwd=tmp_path)
    assert done.stdout.splitlines() == ["Archived: old-1 (FAILED)", "Archived: old-2 (FAILED)"]
    assert "1 failed" in call(LASTBEAT, "sweep", "--once", cwd=tmp_path).stdout.splitlines()[0]
    fleet = json.loads(call(LASTBEAT, "fleet", "--json", cwd=tmp_path).stdout)
    assert [run["run_id"] for run in fleet["runs"]] == ["kept"]
    assert "It was archived by" in call(LASTBEAT, "show", "old-1", cwd=tmp_path).stdout
    listed = json.loads(call(LASTBEAT, "archive", "--list", "--json", cwd=tmp_path).stdout)
    assert [run["run_id"] for run in listed["archived"]] == ["old-1", "old-2"]
    assert call(LASTBEAT, "archive", "--remove", "old-1", cwd=tmp_path).stdout == "Back in the fleet: old-1\n"
    assert "2 failed" in call(LASTBEAT, "sweep", "--once", cwd=tmp_path).stdout.splitlines()[0]


def test_a_forgotten_run_is_gone_and_its_files_only_where_asked_for(tmp_path: Path) -> None:
    root = tmp_path / "training-runs"
    for name in ("kept", "gone"):
        RunFolder(root, name).put("_error", "boom")
    outside = tmp_path / "checkpoints"
    outside.mkdir()
    (outside / "1.pt").write_text("weights")
    (root / "gone" / "latest").symlink_to(outside)
    call(LASTBEAT, "sweep", "--once", cwd=tmp_path)
    assert call(LASTBEAT, "forget", "kept", cwd=tmp_path).stdout == "Forgotten: kept (FAILED)\n"
    assert call(LASTBEAT, "forget", "gone", "--delete", cwd=tmp_path).returncode == 3
    done = call(LASTBEAT, "forget", "gone", "--delete", "--yes", cwd=tmp_path)
    assert done.stdout == "Forgotten: gone (FAILED), deleted 1 file (4 B)\n", done.stderr
    assert not (root / "gone").exists()
    assert (outside / "1.pt").exists()
    assert (root / "kept" / "_error").exists()
    assert call(LASTBEAT, "sweep", "--once", cwd=tmp_path).returncode == 0


def test_the_fleet_says_why_a_forgotten_run_that_was_written_to_is_not_judged_yet(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "training-runs", "again")
    run.put("_error", "boom")
    call(LASTBEAT, "sweep", "--once", cwd=tmp_path)
    call(LASTBEAT, "forget", "again", cwd=tmp_path)
    run.put("_complete", "")
    (row,) = json.loads(call(LASTBEAT, "fleet", "--json", cwd=tmp_path).stdout)["runs"]
    assert (row["status"], row["reason"]) == ("UNKNOWN", "no pass has judged it since it was forgotten")


def test_what_is_alive_or_not_there_is_refused(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "training-runs", "mistral-1")
    run.put("metadata.json", "{}")
    alive = call(LASTBEAT, "forget", "mistral-1", cwd=tmp_path)
    assert alive.returncode == 3
    assert "mistral-1 is alive: it beat" in alive.stderr
    assert "--force" in alive.stderr
    typo = call(LASTBEAT, "forget", "mitsral-1", cwd=tmp_path)
    assert typo.returncode == 3
    assert "Did you mean mistral-1?" in typo.stderr
    call(LASTBEAT, "watch", "--run-id", "mitsral-1", "--once", cwd=tmp_path)
    unseen = call(LASTBEAT, "archive", "mitsral-1", cwd=tmp_path)
    assert "no watcher has seen mitsral-1" in unseen.stderr
    assert call(LASTBEAT, "forget", "mitsral-1", cwd=tmp_path).stdout == "Forgotten: mitsral-1 (never seen)\n"
    assert not list((tmp_path / "training-runs").rglob("*mitsral*/*.json"))
