"""What people say of runs: ``ack``, ``silence``, ``archive`` and ``forget``, and what watchers make of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, RunFolder, call
from support.http_sink import http_sink


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "training-runs"


@pytest.fixture
def failed(root: Path) -> RunFolder:
    """A run that a pass has found FAILED, above one that is well."""
    RunFolder(root, "well").metadata()
    run = RunFolder(root, "llama")
    run.metadata()
    run.put("_error", "RuntimeError: boom\n")
    swept(root)
    return run


def swept(root: Path) -> str:
    done = call(LASTBEAT, "sweep", "--once", cwd=root.parent)
    assert done.stderr == ""
    return done.stdout


def ack(root: Path, *arguments: str, code: int = 0, **settings: str) -> str:
    done = call(LASTBEAT, "ack", *arguments, cwd=root.parent, USER="ana", LOGNAME="ana", **settings)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def rows(root: Path) -> list[dict[str, Any]]:
    """The fleet, those that need people first."""
    found: list[dict[str, Any]] = json.loads(call(LASTBEAT, "fleet", "--once", "--json", cwd=root.parent).stdout)[
        "runs"
    ]
    return found


def held(root: Path) -> dict[str, str | None]:
    """Run → the note of its acknowledgement."""
    return {row["run_id"]: row["acknowledged"] and row["acknowledged"]["note"] for row in rows(root)}


def test_a_run_that_is_acknowledged_needs_attention_no_more_and_every_view_says_by_whom(
    root: Path, failed: RunFolder
) -> None:
    older = RunFolder(root, "older")
    older.metadata()
    older.put("_error", "RuntimeError: boom\n", minutes_old=60)
    swept(root)
    assert [row["run_id"] for row in rows(root)] == ["llama", "older", "well"]
    assert ack(root, "llama", "--note", "bad node, moving it") == "Acknowledged: llama\n"
    # By its record, and once the next pass has seen it, by the index of the fleet.
    for _ in range(2):
        assert [row["run_id"] for row in rows(root)] == ["older", "llama", "well"]
        known = rows(root)[1]["acknowledged"]
        assert (known["by"].partition("@")[0], known["note"]) == ("ana", "bad node, moving it")
        assert "acknowledged by ana@" in call(LASTBEAT, "fleet", "--once", cwd=root.parent).stdout
        assert "Acknowledged: ana@" in call(LASTBEAT, "show", failed.run_id, cwd=root.parent).stdout
        swept(root)


def test_it_ends_with_the_next_transition_which_is_alerted(root: Path, failed: RunFolder) -> None:
    ack(root, "llama")
    (failed.path / "_error").unlink()
    failed.metadata(start_time="2099-01-01T00:00:00Z")
    assert "Attempt 2" in swept(root)
    failed.put("_error", "RuntimeError: again\n")
    assert "FAILED  llama" in swept(root)
    assert held(root) == {"llama": None, "well": None}
    assert rows(root)[0]["run_id"] == "llama"


def test_it_covers_a_glob_is_made_once_and_may_be_withdrawn(root: Path, failed: RunFolder) -> None:
    assert json.loads(ack(root, "*", "--json"))["acknowledged"] == [failed.run_id]
    assert "none of these runs needs attention" in ack(root, "*", code=3)
    assert "llama is acknowledged already" in ack(root, failed.run_id, code=3)
    assert json.loads(ack(root, "llama", "--remove", "--json"))["withdrawn"] == ["llama"]
    assert held(root) == {"llama": None, "well": None}
    assert "none of these runs is acknowledged" in ack(root, "llama", "--remove", code=3)
    assert failed.path.exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["well"], "well is RUNNING: there is nothing to acknowledge"),
        (["lama"], "llama"),
        (["llama", "--note", "n" * 201], "--note: the reason has 201 characters"),
        (["llama", "--note", "x", "--remove"], "--note belongs to an acknowledgement"),
        (["../x"], "../x"),
    ],
    ids=["a run that is well", "no run", "a long note", "a note to remove", "no name of a run"],
)
def test_what_cannot_be_acknowledged_is_refused(root: Path, failed: RunFolder, arguments: list[str], told: str) -> None:
    assert told in ack(root, *arguments, code=3)
    assert held(root) == {failed.run_id: None, "well": None}


def test_a_run_that_has_not_started_is_not_acknowledged(root: Path) -> None:
    root.mkdir()
    assert call(LASTBEAT, "watch", "ghost", "--once", "--root", str(root), cwd=root.parent).returncode == 2
    assert "ghost has not started: there is nothing to acknowledge" in ack(root, "ghost", code=3)


def test_a_secret_in_a_note_is_masked(root: Path, failed: RunFolder) -> None:
    hook = "https://hooks.example.com/T0123456789/hush-hush-hush-hush"
    told = ack(root, "llama", "--note", f"until {hook} works", "--json", LASTBEAT_WEBHOOK_URL=hook)
    assert "hush" not in told + (failed.path / "_watchdog.json").read_text(encoding="utf-8")


SILENCES = ("silence", "run-*", "--for", "1h30m", "--why", "moving to the new cluster")


def test_a_silenced_run_is_recorded_and_nobody_is_told_until_it_is_lifted(tmp_path: Path) -> None:
    runs = [RunFolder(tmp_path / "runs", name) for name in ("run-1", "run-2")]
    root = ("--root", "runs")
    made = call(LASTBEAT, *SILENCES, *root, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("Silenced: run-* until ")
    assert "moving to the new cluster" in made.stdout
    with http_sink() as sink:
        for run in runs:
            run.put("_error", "boom")
        watched = call(
            LASTBEAT,
            "watch",
            "--run-id",
            "run-1",
            "--once",
            "--json",
            *root,
            cwd=tmp_path,
            LASTBEAT_WEBHOOK_URL=sink.url,
        )
        assert watched.returncode == 2, watched.stderr
        assert json.loads(watched.stdout)["alerts"]["pending"] == 0
        assert sink.requests == []
        lifted = call(LASTBEAT, "silence", "--remove", "run-*", *root, cwd=tmp_path)
        assert lifted.returncode == 0
        assert lifted.stdout.startswith("Lifted: run-* ")
        call(LASTBEAT, "watch", "--run-id", "run-1", "--once", *root, cwd=tmp_path, LASTBEAT_WEBHOOK_URL=sink.url)
        assert sink.requests == [], "what was silenced stays unsaid"
        call(LASTBEAT, "watch", "--run-id", "run-2", "--once", *root, cwd=tmp_path, LASTBEAT_WEBHOOK_URL=sink.url)
        assert [json.loads(request.body)["run_id"] for request in sink.requests] == ["run-2"]
    record = json.loads((runs[0].path / "_watchdog.json").read_text())
    assert "moving to the new cluster" in record["history"][-1]["silenced"]


def test_a_reason_is_optional_wherever_a_silence_is_shown(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "runs", "run-1")
    root = ("--root", "runs")
    made = call(LASTBEAT, "silence", "run-*", "--for", "2h", *root, cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    run.put("_error", "boom")
    call(LASTBEAT, "watch", "--run-id", "run-1", "--once", *root, cwd=tmp_path)
    (silence,) = json.loads(call(LASTBEAT, "silence", "--list", "--json", *root, cwd=tmp_path).stdout)["silences"]
    assert silence["why"] == ""
    record = json.loads((run.path / "_watchdog.json").read_text())
    assert record["history"][-1]["silenced"].startswith(f"silence {silence['id']} of run-* until ")
    listed = call(LASTBEAT, "silence", "--list", *root, cwd=tmp_path).stdout.splitlines()
    shown = call(LASTBEAT, "show", "run-1", *root, cwd=tmp_path).stdout.splitlines()
    for line in (made.stdout.splitlines()[0], listed[0], next(line for line in shown if line.startswith("Silenced"))):
        assert line.endswith(f"by {silence['by']}"), line


def test_silences_are_listed_for_people_and_for_programs(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    root = ("--root", "runs")
    assert "no run in " in call(LASTBEAT, "silence", "--list", *root, cwd=tmp_path).stdout
    assert json.loads(call(LASTBEAT, "silence", "--list", "--json", *root, cwd=tmp_path).stdout)["silences"] == []
    made = json.loads(call(LASTBEAT, *SILENCES, "--json", *root, cwd=tmp_path).stdout)
    (silence,) = made["silences"]
    assert set(silence) == {"id", "runs", "starts_at", "until", "why", "by"}
    assert json.loads(call(LASTBEAT, "silence", "--list", "--json", *root, cwd=tmp_path).stdout)["silences"] == [
        silence
    ]
    listed = call(LASTBEAT, "silence", "--list", *root, cwd=tmp_path).stdout
    assert silence["id"] in listed
    assert "(1h 29m left)" in listed or "(1h 30m left)" in listed
    lifted = call(LASTBEAT, "silence", "--remove", silence["id"], "--json", *root, cwd=tmp_path)
    assert json.loads(lifted.stdout)["silences"] == [silence]
    again = call(LASTBEAT, "silence", "--remove", silence["id"], *root, cwd=tmp_path)
    assert again.returncode == 3
    assert "there is no silence" in again.stderr


def test_a_name_that_no_run_has_yet_is_pointed_out(tmp_path: Path) -> None:
    RunFolder(tmp_path / "runs", "mistral-1").put("metadata.json", "{}")
    for glob, matches in (("mistral-1", 1), ("mistral-*", 1), ("mitsral-1", 0), ("mitsral-*", 0)):
        done = call(LASTBEAT, "silence", glob, "--for", "1h", "--why", "x", "--root", "runs", "--json", cwd=tmp_path)
        assert done.returncode == 0
        document = json.loads(done.stdout)
        assert document["matches"] == matches
        assert [("Did you mean" in note, "mistral-1" in note) for note in document["notes"]] == [(True, True)] * (
            not matches
        )
    said = call(LASTBEAT, "silence", "mitsral-*", "--for", "2h", "--why", "x", "--root", "runs", cwd=tmp_path).stdout
    assert "Note: mitsral-* was silenced until" in said
    assert "Warning: matches 0 runs in" in said
    held = json.loads(call(LASTBEAT, "silence", "--list", "--json", "--root", "runs", cwd=tmp_path).stdout)["silences"]
    assert [each["runs"] for each in held].count("mitsral-*") == 1, "the same glob twice is one"


def test_a_secret_in_a_reason_is_masked(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    hook = "https://hooks.example.com/T0123456789/hush-hush-hush-hush"
    arguments = ("silence", "run-*", "--for", "2h", "--why", f"until {hook} works", "--root", "runs")
    for more in ((), ("--json",)):
        done = call(LASTBEAT, *arguments, *more, cwd=tmp_path, LASTBEAT_WEBHOOK_URL=hook)
        assert done.returncode == 0
        assert "hush" not in done.stdout + done.stderr
    assert "hush" not in (tmp_path / "runs" / "_watchdog" / "silences.json").read_text()


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
