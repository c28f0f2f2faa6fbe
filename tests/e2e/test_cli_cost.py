"""``lastbeat cost``: what the last passes tell of a month."""

import json
from pathlib import Path

import pytest

from support.cli import LASTBEAT, RunFolder, call


@pytest.fixture
def root(tmp_path: Path) -> Path:
    RunFolder(tmp_path / "training-runs", "alpha").metadata()
    return tmp_path / "training-runs"


def test_it_is_measured_from_the_passes_that_were_made(root: Path) -> None:
    for _ in range(3):
        assert call(LASTBEAT, "sweep", "--once", cwd=root.parent).returncode == 0
    done = call(LASTBEAT, "cost", "--json", cwd=root.parent)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["store"], told["passes"], told["active"], told["interval_s"]) == ("directory", 3, 1.0, 60.0)
    month = told["month"]
    assert month["watching_run"] == month["watching_fleet"], "the fleet is one run"
    mark = json.loads((root / "_watchdog" / "last_pass.json").read_text())
    asked = sum(sum(each["requests"]) for each in mark["recent"])
    assert sum(month["watching_run"]["requests"].values()) == pytest.approx(asked / 3 * 43200, rel=1e-3)
    assert month["polling_run"]["dollars"] == pytest.approx(0.06912)


def test_people_get_a_table(root: Path) -> None:
    assert call(LASTBEAT, "sweep", "--once", cwd=root.parent).returncode == 0
    done = call(LASTBEAT, "cost", cwd=root.parent, LASTBEAT_BEAT_SECONDS="15")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"Fleet {root}: one pass, at ")
    for beginning in (
        "watching the fleet ",
        "watching one active run ",
        "beating: both heartbeats each 15 s ",
        "polling",
    ):
        assert any(line.startswith(beginning) and "$" in line for line in lines), beginning
    assert any("A directory costs nothing" in line for line in lines)


def test_before_any_pass_it_says_what_to_do(root: Path) -> None:
    for arguments in ([], ["--json"]):
        done = call(LASTBEAT, "cost", *arguments, cwd=root.parent)
        assert (done.returncode, done.stdout.startswith("{")) == (3, bool(arguments))
        assert "no pass over this fleet was made yet" in done.stderr
        assert "lastbeat sweep --once" in done.stderr
