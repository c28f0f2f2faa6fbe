"""``lastbeat timeouts``: what a training that learns has found out, kept from attempt to attempt."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from lastbeat.model.learned_limits import LearnedLimit, LearnedState, SpanKey, Taken, encode_state
from support.cli import LASTBEAT, RunFolder, call, environment
from support.waiting import LIMIT_S

TRAINS = """
import sys, lastbeat
with lastbeat.run("llama", root="runs", learn=True) as run:
    for step in range(40):
        with run.section("step"):
            pass
        run.step(step)
        if step % 2:
            with run.section(sys.argv[1]):
                pass
"""


def train(folder: Path, section: str = "checkpointing") -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRAINS, section],
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


def limits(folder: Path) -> dict[str, dict[str, object]]:
    told = json.loads(timeouts(folder, "--json").stdout)
    return {each["name"] or each["kind"]: each for each in told["limits"]}


def test_each_attempt_adds_to_what_is_known(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    train(tmp_path)
    first = limits(tmp_path)
    assert (first["checkpointing"]["samples"], first["checkpointing"]["limit_s"]) == (20, 60.0)
    assert first["outside"]["limit_s"] == 1800.0
    train(tmp_path)
    second = limits(tmp_path)
    assert second["checkpointing"]["samples"] == 40
    assert second["outside"]["limit_s"] == 1800.0, "both were short: the first evaluation may be yet to come"
    shown = timeouts(tmp_path)
    assert shown.returncode == 0
    assert "1m (the least)" in shown.stdout
    assert "30m (the least)" in shown.stdout


def test_limits_that_are_applied_stay_until_they_are_forgotten(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    train(tmp_path)
    applied = timeouts(tmp_path, "--apply")
    assert "LASTBEAT_SECTION_TIMEOUTS=checkpointing:60,step:60,out_of_section:1800\n" in applied.stdout
    train(tmp_path)
    assert limits(tmp_path)["checkpointing"]["samples"] == 20
    forgotten = timeouts(tmp_path, "--remove")
    assert forgotten.returncode == 1, "there is none now"
    assert "llama: forgotten" in forgotten.stdout
    assert limits(tmp_path) == {}
    train(tmp_path)
    assert limits(tmp_path)["checkpointing"]["samples"] == 20


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


def test_a_short_run_keeps_what_it_has_learned_where_the_environment_says_so(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for samples, ends in ((37, ("fails",)), (74, ())):
        train_short(tmp_path, "40", *ends)
        assert limits(tmp_path)["between"]["samples"] == samples


def test_an_attempt_that_does_not_learn_is_told_from_an_earlier_one_that_did(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    train_short(tmp_path, "0")
    # It was too short to learn, and is not called one that does not.
    done = timeouts(tmp_path)
    assert (done.returncode, "LASTBEAT_LEARN=on" in done.stdout) == (1, False), done.stdout
    train_short(tmp_path, "40", learn="off")
    assert "learning is off" in timeouts(tmp_path).stdout
    assert json.loads(timeouts(tmp_path, "--json").stdout)["learning"] is False


def test_a_run_that_was_reset_says_that_it_begins_again(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    train_short(tmp_path, "40")
    timeouts(tmp_path, "--remove")
    shown = timeouts(tmp_path).stdout
    assert "LASTBEAT_LEARN=on" not in shown
    assert "since it was reset" in shown


def test_a_hostile_name_is_one_line_and_no_setting(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    train(tmp_path, "a,b:1\n\x1b[31m")
    done = timeouts(tmp_path, "--apply")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "LASTBEAT_SECTION_TIMEOUTS=step:60,out_of_section:1800\n" in done.stdout


def test_why_there_is_no_limit_yet_is_said(tmp_path: Path) -> None:
    (tmp_path / "runs" / "many").mkdir(parents=True)
    known = {
        SpanKey("section", "few"): LearnedLimit(Taken(15, 3.0)),
        SpanKey("section", "once"): LearnedLimit(Taken(128, 3.0, of_a_rank=1)),
        SpanKey("section", "long"): LearnedLimit(Taken(16, 20_000.0)),
    }
    (tmp_path / "runs" / "many" / "ft_state.json").write_bytes(encode_state(LearnedState("", {}, known)))
    shown = timeouts(tmp_path, run="many")
    assert shown.returncode == 1
    for name, why in (
        ("few", "none yet: 16 samples are needed"),
        ("once", "none yet: 4 samples of one rank are needed"),
        ("long", "none: it takes too long to be told from a hang"),
    ):
        assert any(line.split()[0] == name and line.endswith(why) for line in shown.stdout.splitlines()[2:]), name
    assert json.loads(timeouts(tmp_path, "--json", run="many").stdout)["limits"][2]["samples_of_a_rank"] == 1


def watch(folder: Path) -> None:
    watched = ("watch", "--run-id", "plain", "--root", "runs", "--once")
    assert call(LASTBEAT, *watched, cwd=folder, LASTBEAT_LEARN="on").returncode == 0


def by_watchers(folder: Path, *arguments: str) -> tuple[str, dict[str, Any] | None]:
    shown = timeouts(folder, *arguments, run="plain").stdout
    return shown, json.loads(timeouts(folder, "--json", run="plain").stdout)["by_watchers"]


def test_what_watchers_have_learned_of_a_run_without_the_sdk_holds_for_the_next_attempt_until_it_is_reset(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "runs" / "plain"
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text(json.dumps({"attempt": 1}))
    for step in range(18):
        (folder / "progress.json").write_text(json.dumps({"step": step}))
        if step == 5:
            assert "4 of 16 steps seen" in by_watchers(tmp_path)[0]
        watch(tmp_path)
    shown, seen = by_watchers(tmp_path)
    assert "Watchers of run plain have learned how long it may be without a step: usual 1m, limit 30m" in shown
    assert seen == {"samples": 16, "longest_s": None, "earlier_limit_s": None, "limit_s": 1800.0}
    (folder / "progress.json").unlink()
    (folder / "metadata.json").write_text(json.dumps({"attempt": 2}))
    watch(tmp_path)
    shown, seen = by_watchers(tmp_path)
    assert "limit 30m by earlier attempts, once this one has made its first steps" in shown
    assert seen == {"samples": 0, "longest_s": None, "earlier_limit_s": 1800.0, "limit_s": None}
    shown, seen = by_watchers(tmp_path, "--remove")
    assert "forgotten" in shown
    assert seen is None
    watch(tmp_path)
    assert by_watchers(tmp_path)[1] is None


def test_a_run_that_only_failed_has_learned_nothing(tmp_path: Path) -> None:
    RunFolder(tmp_path / "runs", "plain").put("_error", "boom")
    assert "Run plain has learned nothing" in timeouts(tmp_path, run="plain").stdout
