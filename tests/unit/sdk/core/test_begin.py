"""How a run begins that was given wrong settings, or a name that is no run id."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import lastbeat

LEARN, EXEC = "LASTBEAT_LEARN", "_LASTBEAT_EXEC_RUN"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fleet root, in the folder where the process is."""
    monkeypatch.chdir(tmp_path)
    for name in (LEARN, EXEC, "MONITORING_ROOT", "MONITORING_BUCKET", "LASTBEAT_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "runs"


def train(root: Path, name: Any) -> None:
    with lastbeat.run(name, root=root) as run:
        run.step(1)


def metadata(root: Path) -> dict[str, Any]:
    """Of the only run."""
    (found,) = root.glob("*/metadata.json")
    assert (found.parent / "_complete").is_file()
    document: dict[str, Any] = json.loads(found.read_bytes())
    return document


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_typing_error_in_a_setting_leaves_training_watched(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(LEARN, "banana")
    train(root, "run-1")
    assert metadata(root)["ignored_settings"] == ["LASTBEAT_LEARN='banana'"]
    assert warnings(caplog) == [
        "lastbeat goes on without a setting: LASTBEAT_LEARN='banana' is neither on nor off; use for example on"
    ]


def test_a_run_with_right_settings_says_nothing_of_them(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEARN, "yes")
    train(root, "run-1")
    assert "ignored_settings" not in metadata(root)


def test_a_name_becomes_a_run_id_and_that_is_said_once(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    train(root, "my exp!")
    assert metadata(root)["run_id"] == "my-exp"
    assert [line.rpartition("; ")[2] for line in warnings(caplog)] == ["lastbeat calls this run my-exp"]


def test_a_number_is_a_run_id_as_it_is(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    train(root, 42)
    assert (metadata(root)["run_id"], warnings(caplog)) == ("42", [])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="an empty name, as of a variable that is not set"),
        pytest.param(" ", id="a blank one"),
        pytest.param(["a"], id="no name at all"),
    ],
)
def test_a_run_that_is_given_no_name_makes_its_own(
    root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: object
) -> None:
    monkeypatch.setenv("SLURM_JOB_NAME", "llama")
    monkeypatch.setenv("SLURM_JOB_ID", "12345")
    train(root, name)
    assert metadata(root)["run_id"] == "llama-12345"
    assert any(record.getMessage().endswith("; lastbeat calls this run llama-12345") for record in caplog.records)


def test_an_alert_is_of_the_run_that_its_name_makes(root: Path) -> None:
    train(root, "my exp!")
    assert lastbeat.alert("my exp!", "disk nearly full", root=root)
    assert (root / "my-exp" / "_alerts.json").is_file()


@pytest.mark.parametrize(
    ("said", "on"),
    [("on", True), ("TRUE", True), ("yes", True), ("1", True), ("off", False), ("False", False), ("no", False),
     ("stop", True)],
)  # fmt: skip
def test_stragglers_are_on_or_off_in_any_words(root: Path, said: str, on: bool) -> None:
    with lastbeat.run("run-1", root=root, stragglers=said) as run:
        assert (run.sections.steps is not None) == on


@pytest.mark.parametrize(
    ("environ", "given", "attempt"),
    [
        pytest.param({}, {"resume": True}, 2, id="a run that is resumed"),
        pytest.param({"SLURM_RESTART_COUNT": "4"}, {}, 5, id="a scheduler's count of restarts"),
    ],
)
def test_which_attempt_it_is(
    root: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], given: dict[str, Any], attempt: int
) -> None:
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    with lastbeat.run("run-1", root=root, **given):
        pass
    assert metadata(root)["attempt"] == attempt


def test_a_change_of_directory_does_not_move_the_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lastbeat.run("run-1", root=root.name):
        monkeypatch.chdir("/")
    assert (root / "run-1" / "_complete").exists()
