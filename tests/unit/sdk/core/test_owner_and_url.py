"""What a run says of its owner, and where people see it."""

import json
from pathlib import Path
from typing import Any

import pytest

import lastbeat
from lastbeat.settings import load, opening
from lastbeat.training.sdk.run import Run

SLURM, OWNER, TEAM = "SLURM_JOB_USER", "LASTBEAT_OWNER", "LASTBEAT_TEAM"


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("environ", "given", "owner", "team"),
    [
        pytest.param({}, {}, None, None, id="nobody said"),
        pytest.param({SLURM: "asmith"}, {}, "asmith", None, id="Slurm's user"),
        pytest.param({SLURM: "asmith", OWNER: "alice", TEAM: "vision"}, {}, "alice", "vision", id="the environment's"),
        pytest.param({OWNER: "alice", TEAM: "vision"}, {"owner": "bob", "team": "nlp"}, "bob", "nlp", id="a script's"),
        pytest.param({OWNER: "alice"}, {"owner": Broken()}, "alice", None, id="what cannot be read counts for nothing"),
        pytest.param({OWNER: "x" * 5000}, {}, "x" * 99 + "…", None, id="a long one is cut, and training is watched"),
        pytest.param({"USER": "root"}, {}, None, None, id="a container's root is nobody"),
    ],
)
def test_owner(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    given: dict[str, Any],
    owner: str | None,
    team: str | None,
) -> None:
    for name in (SLURM, OWNER, TEAM):
        monkeypatch.delenv(name, raising=False)
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    with lastbeat.run("r", root=tmp_path / "runs", **given):
        pass
    found = json.loads((tmp_path / "runs" / "r" / "metadata.json").read_bytes())
    assert (found.get("owner"), found.get("team")) == (owner, team)


def test_the_url_is_the_teams_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LASTBEAT_DASHBOARD_URL", "https://runs.example.com")
    with lastbeat.run("r", root=tmp_path) as run:
        assert run.url == "https://runs.example.com/#/runs/r"


def test_the_url_in_s3_is_the_console_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "LASTBEAT_DASHBOARD_URL"):
        monkeypatch.delenv(name, raising=False)
    settings = load({"MONITORING_ROOT": "s3://b-1/p"}, {}, tmp_path)
    run = Run("r", None, None, lambda: opening.run_link(settings, "r"))
    assert str(run.url).startswith("https://console.aws.amazon.com/s3/buckets/b-1?")


def test_a_run_that_is_off_has_no_url() -> None:
    with lastbeat.run("r", root="s3://no") as run:
        assert run.url is None


def test_nothing_that_is_wrong_with_the_url_reaches_training() -> None:
    def broken() -> str | None:
        raise RuntimeError("no")

    assert Run("r", None, None, broken).url is None
