"""``silence`` as users run it, and what watchers make of it."""

import json
from pathlib import Path

from support.cli import LASTBEAT, RunFolder, call
from support.http_sink import http_sink

AB = ("silence", "run-*", "--for", "1h30m", "--why", "moving to the new cluster")


def test_a_silenced_run_is_recorded_and_nobody_is_told_until_it_is_lifted(tmp_path: Path) -> None:
    runs = [RunFolder(tmp_path / "runs", name) for name in ("run-1", "run-2")]
    root = ("--root", "runs")
    made = call(LASTBEAT, *AB, *root, cwd=tmp_path)
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
    made = json.loads(call(LASTBEAT, *AB, "--json", *root, cwd=tmp_path).stdout)
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
