"""``lastbeat limits``: those that people set, what watchers make of them, and what a training has learned."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from lastbeat.model.learned_limits import LearnedLimit, LearnedState, SpanKey, Taken, encode_state
from support.cli import LASTBEAT, RunFolder, call, environment
from support.training import Site
from support.waiting import LIMIT_S

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


TRAINS = """
import lastbeat
with lastbeat.run("llama", root="runs", learn=True) as run:
    for step in range(40):
        with run.section("step"):
            pass
        run.step(step)
        if step % 2:
            with run.section("checkpointing"):
                pass
"""


def train(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRAINS],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def timeouts(folder: Path, *arguments: str, run: str = "llama") -> "subprocess.CompletedProcess[str]":
    return call(LASTBEAT, "timeouts", run, "--root", "runs", *arguments, cwd=folder)


def learned(folder: Path) -> dict[str, dict[str, object]]:
    told = json.loads(timeouts(folder, "--json").stdout)
    return {each["name"] or each["kind"]: each for each in told["limits"]}


def test_what_is_learned_is_added_to_until_it_is_applied_and_begins_again_when_it_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for samples in (20, 40):
        train(tmp_path)
        assert learned(tmp_path)["checkpointing"]["samples"] == samples
    assert learned(tmp_path)["checkpointing"]["limit_s"] == 60.0
    assert learned(tmp_path)["outside"]["limit_s"] == 1800.0, "all were short: the first evaluation may be yet to come"
    shown = timeouts(tmp_path)
    assert shown.returncode == 0
    assert "1m (the least)" in shown.stdout
    assert "30m (the least)" in shown.stdout
    applied = timeouts(tmp_path, "--apply")
    assert "LASTBEAT_SECTION_TIMEOUTS=checkpointing:60,step:60,out_of_section:1800\n" in applied.stdout
    train(tmp_path)
    assert learned(tmp_path)["checkpointing"]["samples"] == 40
    forgotten = timeouts(tmp_path, "--remove")
    assert forgotten.returncode == 1, "there is none now"
    assert "llama: forgotten" in forgotten.stdout
    assert learned(tmp_path) == {}
    shown = timeouts(tmp_path)
    assert "LASTBEAT_LEARN=on" not in shown.stdout
    assert "since it was reset" in shown.stdout
    train(tmp_path)
    assert learned(tmp_path)["checkpointing"]["samples"] == 20


def test_a_run_that_has_learned_nothing_says_how_to_begin(tmp_path: Path) -> None:
    (tmp_path / "runs" / "llama").mkdir(parents=True)
    (tmp_path / "runs" / "llama" / "metadata.json").write_text("{}")
    done = timeouts(tmp_path, "--apply")
    assert done.returncode == 1
    assert "learning is off" in done.stdout
    assert "LASTBEAT_LEARN=on" in done.stdout


SHORT = """
import sys, lastbeat
with lastbeat.run("llama", root="runs") as run:
    for step in range(int(sys.argv[1])):
        run.step(step)
    if len(sys.argv) > 2:
        raise RuntimeError("it broke")
"""


def train_short(folder: Path, *arguments: str, learn: str = "on") -> None:
    subprocess.run(
        [sys.executable, "-c", SHORT, *arguments],
        cwd=folder,
        env=environment(folder, LASTBEAT_LEARN=learn),
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_an_attempt_that_does_not_learn_is_told_from_an_earlier_one_that_did(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    train_short(tmp_path, "0")
    # It was too short to learn, and is not called one that does not.
    done = timeouts(tmp_path)
    assert (done.returncode, "LASTBEAT_LEARN=on" in done.stdout) == (1, False), done.stdout
    train_short(tmp_path, "40", learn="off")
    assert "learning is off" in timeouts(tmp_path).stdout
    assert json.loads(timeouts(tmp_path, "--json").stdout)["learning"] is False
    train_short(tmp_path, "40", "fails")
    assert learned(tmp_path)["between"]["samples"] == 37


def test_why_there_is_no_limit_yet_is_said(tmp_path: Path) -> None:
    (tmp_path / "runs" / "many").mkdir(parents=True)
    known = {
        SpanKey("section", "few"): LearnedLimit(Taken(15, 3.0)),
        SpanKey("section", "once"): LearnedLimit(Taken(128, 3.0, of_a_rank=1)),
        SpanKey("section", "long"): LearnedLimit(Taken(16, 20_000.0)),
        SpanKey("section", "a,b:1\n\x1b[31m"): LearnedLimit(Taken(64, 3.0), 60.0),
        SpanKey("section", "step"): LearnedLimit(Taken(64, 3.0), 60.0),
    }
    (tmp_path / "runs" / "many" / "ft_state.json").write_bytes(encode_state(LearnedState("", {}, known)))
    shown = timeouts(tmp_path, run="many")
    assert shown.returncode == 0
    for name, why in (
        ("few", "none yet: 16 samples are needed"),
        ("once", "none yet: 4 samples of one rank are needed"),
        ("long", "none: it takes too long to be told from a hang"),
    ):
        assert any(line.split()[0] == name and line.endswith(why) for line in shown.stdout.splitlines()[2:]), name
    known_limits = json.loads(timeouts(tmp_path, "--json", run="many").stdout)["limits"]
    assert [each["samples_of_a_rank"] for each in known_limits if each["name"] == "once"] == [1]
    applied = timeouts(tmp_path, "--apply", run="many")
    assert applied.returncode == 0
    assert "\x1b" not in shown.stdout + applied.stdout
    assert "LASTBEAT_SECTION_TIMEOUTS=step:60\n" in applied.stdout, "a hostile name is no setting"


def by_watchers(folder: Path, *arguments: str) -> tuple[str, dict[str, Any] | None]:
    shown = timeouts(folder, *arguments, run="plain").stdout
    return shown, json.loads(timeouts(folder, "--json", run="plain").stdout)["by_watchers"]


def test_what_watchers_have_learned_of_a_run_without_the_sdk_holds_for_the_next_attempt_until_it_is_reset(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "runs" / "plain"
    folder.mkdir(parents=True)
    site = Site(tmp_path, str(tmp_path / "runs"), {"LASTBEAT_LEARN": "on"})
    (folder / "metadata.json").write_text(json.dumps({"attempt": 1}))
    for step in range(18):
        (folder / "progress.json").write_text(json.dumps({"step": step}))
        if step == 5:
            assert "4 of 16 steps seen" in by_watchers(tmp_path)[0]
        assert site.look("plain")["exit"] == 0
    shown, seen = by_watchers(tmp_path)
    assert "Watchers of run plain have learned how long it may be without a step: usual 1m, limit 30m" in shown
    assert seen == {"samples": 16, "longest_s": None, "earlier_limit_s": None, "limit_s": 1800.0}
    (folder / "progress.json").unlink()
    (folder / "metadata.json").write_text(json.dumps({"attempt": 2}))
    assert site.look("plain")["exit"] == 0
    shown, seen = by_watchers(tmp_path)
    assert "limit 30m by earlier attempts, once this one has made its first steps" in shown
    assert seen == {"samples": 0, "longest_s": None, "earlier_limit_s": 1800.0, "limit_s": None}
    shown, seen = by_watchers(tmp_path, "--remove")
    assert "forgotten" in shown
    assert seen is None
    assert site.look("plain")["exit"] == 0
    assert by_watchers(tmp_path)[1] is None


def test_a_run_that_only_failed_has_learned_nothing(tmp_path: Path) -> None:
    RunFolder(tmp_path / "runs", "plain").put("_error", "boom")
    assert "Run plain has learned nothing" in timeouts(tmp_path, run="plain").stdout
