"""``limits`` as users run it, and what watchers make of it."""

import json
from pathlib import Path

from support.cli import LASTBEAT, RunFolder, call

ROOT = ("--root", "runs")


def limits(cwd: Path, *arguments: str, **settings: str) -> str:
    done = call(LASTBEAT, "limits", *arguments, *ROOT, cwd=cwd, **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_they_are_set_for_globs_and_shown_for_a_run_with_where_they_come_from(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "runs", "mistral-7b-3")
    run.metadata(beat_seconds=5, longest_gap_s=6, stall_minutes=45)
    assert "Settings here, for what is not said above: stale after 7m" in limits(tmp_path, STALE_MINUTES="7")
    assert limits(tmp_path, "--stale-minutes", "20").startswith("*: stale after 20m (set by ")
    limits(tmp_path, "mistral-*", "--stale", "learned", "--stall-minutes", "30", "--start-minutes", "15")
    told = limits(tmp_path, "mistral-7b-3", STALE_MINUTES="7").splitlines()
    assert told == [
        "mistral-7b-3: learned from its beats: stale after 2m (fleet limit for mistral-*)",
        "mistral-7b-3: stale after 20m (fleet limit for *)",
        "mistral-7b-3: stalled after 45m (its own)",
        "mistral-7b-3: to begin within 15m (fleet limit for mistral-*)",
    ]
    shown = call(LASTBEAT, "show", "mistral-7b-3", *ROOT, cwd=tmp_path).stdout
    assert "stale after 20m (fleet limit for *)" in " ".join(shown.split())
    held = json.loads(call(LASTBEAT, "show", "mistral-7b-3", "--json", *ROOT, cwd=tmp_path).stdout)["limits"]
    assert {"name": "stall", "limit_s": 2700.0, "source": "its own", "text": "stalled after 45m (its own)"} in held
    checked = call(LASTBEAT, "doctor", *ROOT, cwd=tmp_path).stdout
    assert "ok    limits: stale after 20m (fleet limit for *)" in checked
    assert "there are others for mistral-*" in checked
    document = json.loads(limits(tmp_path, "--json"))
    assert [entry["runs"] for entry in document["limits"]] == ["mistral-*", "*"]
    assert document["settings_here"]["stale_minutes"] == 10
    assert "are removed; others are left, of mistral-*" in limits(tmp_path, "--remove")
    limits(tmp_path, "mistral-*", "--stall-minutes", "default", "--stale", "default", "--start-minutes", "default")
    assert json.loads(limits(tmp_path, "--json"))["limits"] == []


def test_a_run_that_is_not_there_has_none_but_those_that_were_set_for_it(tmp_path: Path) -> None:
    RunFolder(tmp_path / "runs", "mistral-7b").metadata()
    done = call(LASTBEAT, "limits", "mistral-7c", *ROOT, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "there is no run mistral-7c in" in done.stderr
    assert "Did you mean mistral-7b?" in done.stderr
    limits(tmp_path, "mistral-7c", "--stale-minutes", "3")
    assert "mistral-7c: stale after 3m (fleet limit for mistral-7c)" in limits(tmp_path, "mistral-7c")


def test_whoever_watches_goes_by_them_whatever_is_set_in_his_shell(tmp_path: Path) -> None:
    for name in ("mistral-1", "llama-1"):
        RunFolder(tmp_path / "runs", name).metadata(minutes_old=6.7)
    limits(tmp_path, "mistral-*", "--stale-minutes", "5")
    once = ("watch", "--run-id", "mistral-1", "--once", "--json", *ROOT)
    watched = call(LASTBEAT, *once, cwd=tmp_path, STALE_MINUTES="60")
    assert json.loads(watched.stdout)["status"] == "TIMED_OUT"
    swept = call(LASTBEAT, "sweep", "--once", "--json", *ROOT, cwd=tmp_path, STALE_MINUTES="60")
    assert json.loads(swept.stdout)["statuses"] == {"TIMED_OUT": 1, "RUNNING": 1}
    record = json.loads((tmp_path / "runs/mistral-1/_watchdog.json").read_text())
    assert record["exceeded"]["source"] == "fleet limit for mistral-*"
    assert "TIMED_OUT by: stale after 5m (fleet limit for mistral-*)" in " ".join(
        call(LASTBEAT, "show", "mistral-1", *ROOT, cwd=tmp_path).stdout.split()
    )


def test_what_was_written_by_hand_and_is_wrong_is_told_with_its_line_and_decides_nothing(tmp_path: Path) -> None:
    RunFolder(tmp_path / "runs", "run-1").metadata(minutes_old=70)
    held = tmp_path / "runs/_watchdog/limits.json"
    held.parent.mkdir()
    held.write_text('{"schema": 1, "limits": [\n {"runs": "*", "stale_minutes": "20"},\n {"runs": "a b"}\n]}\n')
    shown = call(LASTBEAT, "limits", *ROOT, cwd=tmp_path)
    assert shown.returncode == 3
    assert "limits.json:2: " in shown.stderr
    assert "limits.json:3: " in shown.stderr
    assert "has to be a number of minutes" in shown.stderr
    checked = call(LASTBEAT, "doctor", *ROOT, cwd=tmp_path)
    assert "fail  limits: _watchdog/limits.json:2: " in checked.stdout
    watched = call(LASTBEAT, "watch", "--run-id", "run-1", "--once", *ROOT, cwd=tmp_path)
    assert watched.returncode == 3
    assert "The fleet's limits cannot be read" in watched.stdout
    assert "lastbeat limits" in watched.stdout
    refused = call(LASTBEAT, "limits", "--stale-minutes", "20", *ROOT, cwd=tmp_path)
    assert refused.returncode == 3
    assert "--remove-all" in refused.stderr
    limits(tmp_path, "--remove-all")
    assert call(LASTBEAT, "watch", "--run-id", "run-1", "--once", *ROOT, cwd=tmp_path).returncode == 2
