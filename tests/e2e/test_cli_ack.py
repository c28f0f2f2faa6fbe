"""``lastbeat ack``: who looks after a run, until something new happens to it."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, RunFolder, call


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
    sweep(root)
    return run


def sweep(root: Path) -> str:
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
    sweep(root)
    assert [row["run_id"] for row in rows(root)] == ["llama", "older", "well"]
    assert ack(root, "llama", "--note", "bad node, moving it") == "Acknowledged: llama\n"
    # By its record, and once the next pass has seen it, by the index of the fleet.
    for _ in range(2):
        assert [row["run_id"] for row in rows(root)] == ["older", "llama", "well"]
        known = rows(root)[1]["acknowledged"]
        assert (known["by"].partition("@")[0], known["note"]) == ("ana", "bad node, moving it")
        assert "acknowledged by ana@" in call(LASTBEAT, "fleet", "--once", cwd=root.parent).stdout
        assert "Acknowledged: ana@" in call(LASTBEAT, "show", failed.run_id, cwd=root.parent).stdout
        sweep(root)


def test_it_ends_with_the_next_transition_which_is_alerted(root: Path, failed: RunFolder) -> None:
    ack(root, "llama")
    (failed.path / "_error").unlink()
    failed.metadata(start_time="2099-01-01T00:00:00Z")
    assert "Attempt 2" in sweep(root)
    failed.put("_error", "RuntimeError: again\n")
    assert "FAILED  llama" in sweep(root)
    assert held(root) == {"llama": None, "well": None}
    assert rows(root)[0]["run_id"] == "llama"


def test_it_may_be_withdrawn(root: Path, failed: RunFolder) -> None:
    ack(root, "llama", "--note", "mine")
    assert json.loads(ack(root, "llama", "--remove", "--json"))["withdrawn"] == ["llama"]
    assert held(root) == {"llama": None, "well": None}
    assert "none of these runs is acknowledged" in ack(root, "llama", "--remove", code=3)
    assert failed.path.exists()


def test_a_glob_covers_those_that_need_attention(root: Path, failed: RunFolder) -> None:
    assert json.loads(ack(root, "*", "--json"))["acknowledged"] == [failed.run_id]
    assert "none of these runs needs attention" in ack(root, "*", code=3)


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


def test_one_that_is_acknowledged_already_is_said_to_be(root: Path, failed: RunFolder) -> None:
    ack(root, failed.run_id)
    assert "llama is acknowledged already" in ack(root, failed.run_id, code=3)
