"""What training says of its run, in Python, as people see it and find it by."""

import json
import sys
from pathlib import Path

import pytest

from support.cli import LASTBEAT, call

SCRIPT = """
import argparse
import lastbeat

arguments = argparse.Namespace(lr=3e-4, layers=24, api_key="hush", data=argparse.Namespace(name="wiki"))
with lastbeat.run("llama", config=arguments, tags=["sweep3", "baseline"], notes="with the new data") as run:
    run.step(1, loss=2.5)
with lastbeat.run("plain") as run:
    run.step(1, loss=2.5)
with lastbeat.run("odd", config="lr=1", tags=7, notes=3) as run:
    run.step(1, loss=2.5)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("described")
    done = call([sys.executable, "-c", SCRIPT], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "lastbeat leaves config out" in done.stderr
    return folder


def test_show_has_it_and_no_secret(runs: Path) -> None:
    shown = call(LASTBEAT, "show", "llama", cwd=runs).stdout
    for line in (
        "Tags: sweep3, baseline",
        "Notes: with the new data",
        "Configuration: lr=0.0003 layers=24 api_key=*** data.name=wiki",
    ):
        assert f"\n{line}\n" in shown
    document = json.loads(call(LASTBEAT, "show", "llama", "--json", cwd=runs).stdout)
    assert document["training_notes"] == "with the new data"
    assert document["config"] == {"lr": 0.0003, "layers": 24, "api_key": "***", "data.name": "wiki"}
    assert "hush" not in (runs / "training-runs" / "llama" / "metadata.json").read_text(encoding="utf-8")
    assert "Configuration" not in call(LASTBEAT, "show", "plain", cwd=runs).stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [("tag:sweep", ["llama"]), ("-tag:sweep -odd", ["plain"]), ("*l*", ["llama", "plain"]), ("owner:nobody", [])],
)
def test_runs_are_found_by_their_tags(runs: Path, words: str, found: list[str]) -> None:
    done = call(LASTBEAT, "fleet", "--once", "--json", f"--filter={words}", cwd=runs)
    assert sorted(run["run_id"] for run in json.loads(done.stdout)["runs"]) == found
