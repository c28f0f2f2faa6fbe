"""``lastbeat goodput``: what the wall time of a run, and of a fleet, went into."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, RunFolder, call


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "training-runs"


def told(run: RunFolder, minutes: float, *, ended: str = "_complete") -> None:
    """A run that began so many minutes ago, made its first step after five and its last one just now."""
    now = time.time()
    began = now - minutes * 60
    run.metadata(start_time=began)
    run.progress(step=100, recent=[[began + 300, 1, 2.5], [now, 100, 1.5]])
    run.put(ended, "RuntimeError: boom\n" if ended == "_error" else "")
    assert call(LASTBEAT, "watch", "--run-id", run.run_id, "--once", cwd=run.root.parent).stderr == ""


def goodput(root: Path, *arguments: str, code: int = 0, **settings: str) -> str:
    done = call(LASTBEAT, "goodput", *arguments, cwd=root.parent, **settings)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def aged(root: Path) -> str:
    """The fleet of the last minute, of which one run is older."""
    for path in (root / "llama-1").rglob("*"):
        os.utime(path, (time.time() - 3600, time.time() - 3600))
    return goodput(root, "--since", "1m")


def adds_up(document: dict[str, Any]) -> None:
    parts = [seconds for seconds in document["spent_s"].values() if seconds is not None]
    assert sum(parts) == pytest.approx(document["wall_s"], abs=0.1)


def test_a_run_is_told_as_a_bar_and_what_it_is_made_of(root: Path) -> None:
    told(RunFolder(root, "llama"), 65)
    shown = goodput(root, "llama").splitlines()
    assert re.fullmatch(r"Run llama: ETTR 93\.\d%", shown[0])
    assert re.match(r"1h 05m of wall time since .*Z, 1 attempt; it is over", shown[1])
    assert (set(shown[3]), len(shown[3])) == ({"█", "▒"}, 100)
    assert any(re.match(r"  ░ +\? not known +waiting in the queue", row) for row in shown)
    assert any(re.match(r"  ▒ +6\.\d% .* start-up", row) for row in shown)
    assert "No failure was seen." in shown
    plain = goodput(root, "llama", PYTHONIOENCODING="ascii").splitlines()
    assert set(plain[3]) == {"#", ":"}


def test_a_fleet_is_a_table_with_a_total_and_the_run_that_lost_the_most_first(root: Path) -> None:
    told(RunFolder(root, "calm"), 60)
    told(RunFolder(root, "slow-to-start"), 10, ended="_error")
    RunFolder(root, "new").metadata()
    RunFolder(root, "broken").put("_watchdog.json", "{")
    shown = goodput(root).splitlines()
    rows = [row.split()[0] for row in shown if re.match(r"(calm|slow|total)", row)]
    assert rows == ["slow-to-start", "calm", "total,"]
    assert "Nothing of this recorded yet: 1." in shown
    assert any(row.startswith("broken could not be read: its record cannot be used") for row in shown)
    document = json.loads(goodput(root, "--json"))
    adds_up(document["total"])
    assert document["total"]["wall_s"] == pytest.approx(sum(each["wall_s"] for each in document["runs"]), abs=0.01)
    assert (document["total"]["runs"], document["total"]["failures"]) == (2, 1)
    assert [each[0] for each in document["unread"]] == ["broken"]


def test_some_of_a_fleet_and_no_more_than_was_asked_for(root: Path) -> None:
    for name in ("llama-1", "llama-2", "mistral"):
        told(RunFolder(root, name), 60)
    shown = goodput(root, "llama-*", "--most", "1")
    assert "mistral" not in shown
    assert "Not read: 1 more; name them, or raise --most." in shown
    assert "Older than --since 1m: 1." in aged(root)
    named = json.loads(goodput(root, "mistral", "llama-2", "--json"))["runs"]
    assert {each["run_id"] for each in named} == {"llama-2", "mistral"}


def test_what_cannot_be_told_says_why(root: Path) -> None:
    RunFolder(root, "llama").metadata()
    assert "there is no run lama" in goodput(root, "lama", code=3)
    assert "Did you mean llama?" in goodput(root, "lama", code=3)
    assert "--since='soon' is not a time" in goodput(root, "--since", "soon", code=3)
    assert "ETTR not known" in goodput(root, "llama")
