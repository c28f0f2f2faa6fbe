"""``causes``: what the failures of a fleet cost, in a directory and in a bucket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import LASTBEAT, call
from support.failed_fleet import FAILED_FLEET


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Path]:
    for name, body in FAILED_FLEET.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "_watchdog.json").write_bytes(body)
    for name, file in (("broken", "_watchdog.json"), ("new", "metadata.json")):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / file).write_text("{")
    before = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*"))
    yield tmp_path
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*")) == before, "it only reads"


def test_people_see_what_to_mend_first(fleet: Path) -> None:
    done = call(LASTBEAT, "causes", "runs", "--since", "30d", cwd=fleet, COLUMNS="140")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    # However long the folder's name is: sentences are wrapped.
    said = " ".join(done.stdout.split())
    assert said.startswith(f"{fleet / 'runs'}: 4 failures of 4 runs since ")
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


def test_a_cause_opens_to_its_fingerprints(fleet: Path) -> None:
    done = call(LASTBEAT, "causes", "runs", "--by", "cause", cwd=fleet, COLUMNS="140")
    assert "and 1 other fingerprint (--fingerprints)" in done.stdout
    opened = call(LASTBEAT, "causes", "runs", "--by", "cause", "--fingerprints", cwd=fleet, COLUMNS="140")
    lines = [" ".join(line.split()) for line in opened.stdout.splitlines()]
    assert "5.5 h 1 failure: torch.OutOfMemoryError: CUDA out of memory (llama-1)" in lines
    assert "1.5 h 1 failure: torch.OutOfMemoryError: CUDA out of memory on GPU 3 of 8 (llama-2)" in lines


def test_one_kind_alone(fleet: Path) -> None:
    done = call(LASTBEAT, "causes", "runs", "--by", "node", cwd=fleet)
    assert done.returncode == 0, done.stderr
    named = [line.split()[-1] for line in done.stdout.splitlines() if line.split()[-1:] and " node-" in line]
    assert named == ["node-1", "node-2", "node-3"]
    assert "Whose runs" not in done.stdout


def test_a_fleet_without_failures_says_so(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    done = call(LASTBEAT, "causes", "runs", cwd=tmp_path)
    said = " ".join(done.stdout.split())
    assert (done.returncode, "no failure is recorded since" in said) == (0, True), said + done.stderr
