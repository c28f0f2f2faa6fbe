"""``lastbeat fleet`` once: as a table, and what it says when it cannot see."""

import json
import re
from pathlib import Path

import pytest

from support.cli import LASTBEAT, RunFolder, call


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A fleet that a sweep has seen: one failed, one done, one hostile and alive, one that fell silent since."""
    root = tmp_path / "training-runs"
    failed = RunFolder(root, "fails-1")
    failed.metadata(config={"optim.lr": 3e-4})
    failed.put("_error", "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    done = RunFolder(root, "done-1")
    done.metadata()
    done.put("_complete")
    hostile = RunFolder(root, "hostile-1")
    hostile.metadata(phase="\x1b[31m\x1b]0;owned\x07[bold]🔥\u202e evil\n</script>")
    hostile.progress(loss=float("nan"), recent=[[1700000000 + n, n, 3 - n / 10] for n in range(20)])
    silent = RunFolder(root, "silent-1")
    silent.metadata()
    assert call(LASTBEAT, "sweep", "--once", cwd=tmp_path).returncode == 2
    silent.metadata(minutes_old=45)
    return tmp_path


def files(root: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in root.rglob("*") if path.is_file()}


def test_a_pipe_gets_one_plain_table_and_nothing_is_written(runs: Path) -> None:
    before = files(runs)
    done = call(LASTBEAT, "fleet", cwd=runs, COLUMNS="120")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 8, "one line a run"
    assert lines[0].startswith(f"{runs / 'training-runs'} · seen ")
    assert lines[1] == "✖ 1 FAILED  ▲ 1 WARNING  ● 1 RUNNING  ✔ 1 SUCCEEDED"
    assert lines[2] == ""
    assert lines[3].split()[:2] == ["STATUS", "RUN"]
    shown = [line.split()[2] for line in lines[4:8]]
    assert set(shown[:2]) == {"silent-1", "hostile-1"}, "live trouble is first"
    assert shown[2:] == ["fails-1", "done-1"]
    assert "oom: CUDA out of memory." in done.stdout
    explained = call(LASTBEAT, "fleet", "--explain", cwd=runs, COLUMNS="120").stdout
    assert "    → " in explained
    # Its ages are older by then.
    assert {re.sub(r"\d+s", "", line) for line in lines[3:]} <= {
        re.sub(r"\d+s", "", line) for line in explained.splitlines()
    }
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    document = call(LASTBEAT, "fleet", "--json", cwd=runs).stdout
    assert (document.isascii(), document.count("\n")) == (True, 1)
    assert max(map(len, done.stdout.splitlines())) <= 120
    assert files(runs) == before


def test_fleet_show_and_a_dry_watch_agree_before_the_first_pass(tmp_path: Path) -> None:
    silent = RunFolder(tmp_path / "training-runs", "silent-1")
    silent.metadata(minutes_old=45)
    text = "step 1/10\nWatchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE)\n"
    silent.put("logs/training_log_latest.txt", text, minutes_old=45)
    before = files(tmp_path / "training-runs")
    (row,) = json.loads(call(LASTBEAT, "fleet", "--json", cwd=tmp_path).stdout)["runs"]
    shown = json.loads(call(LASTBEAT, "show", "silent-1", "--json", cwd=tmp_path).stdout)
    watched = json.loads(
        call(LASTBEAT, "watch", "--run-id", "silent-1", "--once", "--dry-run", "--json", cwd=tmp_path).stdout
    )
    assert [(each["status"], each["cause"]) for each in (row, shown["run"], watched)] == [
        ("FAILED", "nccl_timeout")
    ] * 3
    assert files(tmp_path / "training-runs") == before


ASKED = [
    pytest.param(["--status", "succeeded,failed"], ["fails-1", "done-1"], id="statuses, in small letters"),
    pytest.param(["--status", "UNKNOWN"], [], id="none is like that"),
    pytest.param(["f*", "d*", "--group", "status", "--sort", "-run"], ["fails-1", "done-1"], id="grouped, by need"),
    pytest.param(["--filter", "/^[df]/ lr>1e-4"], ["fails-1"], id="a number of the configuration"),
]


@pytest.mark.parametrize(("arguments", "expected"), ASKED)
def test_what_was_asked_for(runs: Path, arguments: list[str], expected: list[str]) -> None:
    done = call(LASTBEAT, "fleet", *arguments, "--json", cwd=runs)
    document = json.loads(done.stdout)
    assert [run["run_id"] for run in document["runs"]] == expected
    assert sum(document["counts"].values()) == 4, "the counts are of all"
    table = call(LASTBEAT, "fleet", *arguments, "--once", cwd=runs).stdout
    assert all(run_id in table for run_id in expected)
    assert ("No run matches" in table) == (not expected)


def test_columns_and_views_that_a_team_saves(runs: Path) -> None:
    asked = ["fails-*", "--filter", "cause:oom", "--sort", "-lr", "--columns", "run,lr,cause"]
    saved = call(LASTBEAT, "fleet", *asked, "--save-view", "ooms", cwd=runs)
    assert (saved.stdout, saved.stderr) == ("Saved: the view ooms\n", "")
    table = call(LASTBEAT, "fleet", "--view", "ooms", cwd=runs).stdout.splitlines()
    assert [line.split() for line in table[3:]] == [["RUN", "lr", "CAUSE"], ["fails-1", "0.0003", "oom"]]
    document = json.loads(call(LASTBEAT, "fleet", "--view", "ooms", "--json", cwd=runs).stdout)
    assert [run["values"] for run in document["runs"]] == [{"lr": 0.0003}]
    (view,) = document["views"]
    assert (view["name"], view["filter"], view["columns"], "@" in view["by"]) == (
        "ooms",
        "cause:oom",
        "run,lr,cause",
        True,
    )
    grouped = call(LASTBEAT, "fleet", "fails-*", "--group", "lr", "--columns", "run", cwd=runs).stdout.splitlines()
    assert [line.split() for line in grouped[3:]] == [
        ["lr", "RUN"],
        ["lr:", "0.0003", "·", "1", "run"],
        ["0.0003", "fails-1"],
    ]
    misspelt = call(LASTBEAT, "fleet", "--view", "oms", "--once", cwd=runs)
    assert (misspelt.returncode, "ooms" in misspelt.stderr) == (3, True)
    refused = call(LASTBEAT, "fleet", "--filter", "/(a+)+/", cwd=runs)
    assert (refused.returncode, "repeats a group" in refused.stderr) == (3, True)
    assert "Note: no run reports lrr" in call(LASTBEAT, "fleet", "--sort", "lrr", cwd=runs).stdout
    assert call(LASTBEAT, "fleet", "--save-view", "ooms", cwd=runs).stdout == "Removed: the view ooms\n"
    nothing = call(LASTBEAT, "fleet", "--save-view", "ooms", cwd=runs)
    assert (nothing.returncode, "nothing to save" in nothing.stderr) == (3, True)


def test_who_cannot_see_says_so(tmp_path: Path) -> None:
    done = call(LASTBEAT, "fleet", "--once", "--root", "nowhere", cwd=tmp_path)
    assert done.returncode == 3
    assert "cannot be seen" in done.stdout
    assert "nowhere" in done.stdout
    document = json.loads(call(LASTBEAT, "fleet", "--json", "--root", "nowhere", cwd=tmp_path).stdout)
    assert document["fault"]["reason"]
    assert document["runs"] == []


def test_older_runs_are_counted_until_asked_for(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "training-runs", "old-1")
    run.metadata(minutes_old=3 * 1440)
    run.put("_complete", minutes_old=3 * 1440)
    assert "1 older" in call(LASTBEAT, "fleet", cwd=tmp_path).stdout
    assert "old-1" in call(LASTBEAT, "fleet", "--since", "7d", cwd=tmp_path).stdout
