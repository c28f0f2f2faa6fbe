"""``lastbeat report``: what failures cost, what time went into, what watching costs, the last day in one message."""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, RunFolder, call
from support.failed_fleet import FAILED_FLEET


@pytest.fixture
def failures(tmp_path: Path) -> Iterator[Path]:
    for name, body in FAILED_FLEET.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "_watchdog.json").write_bytes(body)
    for name, file in (("broken", "_watchdog.json"), ("new", "metadata.json")):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / file).write_text("{")
    before = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*"))
    yield tmp_path
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*")) == before, "it only reads"


def test_people_see_what_to_mend_first(failures: Path) -> None:
    done = call(LASTBEAT, "causes", "runs", "--since", "30d", cwd=failures, COLUMNS="140")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    # However long the folder's name is: sentences are wrapped.
    said = " ".join(done.stdout.split())
    assert said.startswith(f"{failures / 'runs'}: 4 failures of 4 runs since ")
    assert "Z, lost: 28.0 h at least What to mend first" in said
    headings = [
        line for line in lines if line in {"What to mend first", "On which nodes", "Whose runs", "At which steps"}
    ]
    assert headings == ["What to mend first", "On which nodes", "Whose runs", "At which steps"]
    causes = [line for line in lines if " · " in line]
    assert [line.split()[0:2] for line in causes] == [["21.0", "h+"], ["7.0", "h"]]
    assert causes[0].endswith("nccl · nccl_timeout")
    assert "?" in causes[0], "what was thrown away is not known, and not zero"
    for note in ("What 2 failures cost is not fully known", "Nothing is recorded of 1 run", "broken: "):
        assert note in said
    assert "\x1b" not in done.stdout, "plain where it is piped"


def test_a_cause_opens_to_its_fingerprints(failures: Path) -> None:
    done = call(LASTBEAT, "causes", "runs", "--by", "cause", cwd=failures, COLUMNS="140")
    assert "and 1 other fingerprint (--fingerprints)" in done.stdout
    opened = call(LASTBEAT, "causes", "runs", "--by", "cause", "--fingerprints", cwd=failures, COLUMNS="140")
    lines = [" ".join(line.split()) for line in opened.stdout.splitlines()]
    assert "5.5 h 1 failure: torch.OutOfMemoryError: CUDA out of memory (llama-1)" in lines
    assert "1.5 h 1 failure: torch.OutOfMemoryError: CUDA out of memory on GPU 3 of 8 (llama-2)" in lines


def test_one_kind_alone(failures: Path) -> None:
    done = call(LASTBEAT, "causes", "runs", "--by", "node", cwd=failures)
    assert done.returncode == 0, done.stderr
    named = [line.split()[-1] for line in done.stdout.splitlines() if line.split()[-1:] and " node-" in line]
    assert named == ["node-1", "node-2", "node-3"]
    assert "Whose runs" not in done.stdout


def test_a_fleet_without_failures_says_so(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    done = call(LASTBEAT, "causes", "runs", cwd=tmp_path)
    said = " ".join(done.stdout.split())
    assert (done.returncode, "no failure is recorded since" in said) == (0, True), said + done.stderr


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "training-runs"


def lived(run: RunFolder, minutes: float, *, ended: str = "_complete") -> None:
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


def adds_up(document: dict[str, Any]) -> None:
    parts = [seconds for seconds in document["spent_s"].values() if seconds is not None]
    assert sum(parts) == pytest.approx(document["wall_s"], abs=0.1)


def test_a_run_is_told_as_a_bar_and_what_it_is_made_of(root: Path) -> None:
    lived(RunFolder(root, "llama"), 65)
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
    lived(RunFolder(root, "calm"), 60)
    lived(RunFolder(root, "slow-to-start"), 10, ended="_error")
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
        lived(RunFolder(root, name), 60)
    shown = goodput(root, "llama-*", "--most", "1")
    assert "mistral" not in shown
    assert "Not read: 1 more; name them, or raise --most." in shown
    for path in (root / "llama-1").rglob("*"):
        os.utime(path, (time.time() - 3600, time.time() - 3600))
    assert "Older than --since 1m: 1." in goodput(root, "--since", "1m")
    named = json.loads(goodput(root, "mistral", "llama-2", "--json"))["runs"]
    assert {each["run_id"] for each in named} == {"llama-2", "mistral"}


def test_what_cannot_be_told_says_why(root: Path) -> None:
    RunFolder(root, "llama").metadata()
    assert "there is no run lama" in goodput(root, "lama", code=3)
    assert "Did you mean llama?" in goodput(root, "lama", code=3)
    assert "--since='soon' is not a time" in goodput(root, "--since", "soon", code=3)
    assert "ETTR not known" in goodput(root, "llama")


@pytest.fixture
def alpha(tmp_path: Path) -> Path:
    RunFolder(tmp_path / "training-runs", "alpha").metadata()
    return tmp_path / "training-runs"


def test_it_is_measured_from_the_passes_that_were_made(alpha: Path) -> None:
    for _ in range(3):
        assert call(LASTBEAT, "sweep", "--once", cwd=alpha.parent).returncode == 0
    done = call(LASTBEAT, "cost", "--json", cwd=alpha.parent)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["store"], told["passes"], told["active"], told["interval_s"]) == ("directory", 3, 1.0, 60.0)
    month = told["month"]
    assert month["watching_run"] == month["watching_fleet"], "the fleet is one run"
    mark = json.loads((alpha / "_watchdog" / "last_pass.json").read_text())
    asked = sum(sum(each["requests"]) for each in mark["recent"])
    assert sum(month["watching_run"]["requests"].values()) == pytest.approx(asked / 3 * 43200, rel=1e-3)
    assert month["polling_run"]["dollars"] == pytest.approx(0.06912)


def test_people_get_a_table(alpha: Path) -> None:
    assert call(LASTBEAT, "sweep", "--once", cwd=alpha.parent).returncode == 0
    done = call(LASTBEAT, "cost", cwd=alpha.parent, LASTBEAT_BEAT_SECONDS="15")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"Fleet {alpha}: one pass, at ")
    for beginning in (
        "watching the fleet ",
        "watching one active run ",
        "beating: both heartbeats each 15 s ",
        "polling",
    ):
        assert any(line.startswith(beginning) and "$" in line for line in lines), beginning
    assert any("A directory costs nothing" in line for line in lines)


def test_before_any_pass_it_says_what_to_do(alpha: Path) -> None:
    for arguments in ([], ["--json"]):
        done = call(LASTBEAT, "cost", *arguments, cwd=alpha.parent)
        assert (done.returncode, done.stdout.startswith("{")) == (3, bool(arguments))
        assert "no pass over this fleet was made yet" in done.stderr
        assert "lastbeat sweep --once" in done.stderr


def test_it_names_what_ended_with_a_link(tmp_path: Path) -> None:
    root = tmp_path / "training-runs"
    RunFolder(root, "well").metadata()
    RunFolder(root, "llama").put("_error", "RuntimeError: boom\n")
    call(LASTBEAT, "sweep", "--once", cwd=tmp_path)
    settings = {"LASTBEAT_DASHBOARD_URL": "https://runs.example.com", "LASTBEAT_DIGEST": "08:00 Europe/Zurich"}
    told = call(LASTBEAT, "digest", cwd=tmp_path, **settings)
    assert (told.returncode, told.stderr) == (0, "")
    first, reason, *_ = told.stdout.splitlines()
    assert (first, reason.split(".")[0]) == ("🌅 DIGEST: the last day", "1 run needs attention")
    assert "https://runs.example.com/#/runs/llama" in told.stdout
    found = json.loads(call(LASTBEAT, "report", "digest", "--json", cwd=tmp_path, **settings).stdout)
    assert (found["event"], found["members"], found["member_count"]) == ("DIGEST", ["llama"], 1)
    assert not (root / "_watchdog" / "digest.json").exists(), "who looks sends nothing"
