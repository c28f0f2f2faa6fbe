"""``lastbeat compare``: runs beside each other, by what training said of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, RunFolder, call

CONFIGS: dict[str, dict[str, Any]] = {
    "llama-a": {"lr": 1e-4, "layers": 24, "rope": True},
    "llama-b": {"lr": 3e-4, "layers": 24, "rope": 1},
    "llama-c": {"lr": 3e-4, "layers": 24, "rope": True, "note": "\x1b[31mred"},
}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for number, (name, config) in enumerate(CONFIGS.items(), 1):
        run = RunFolder(tmp_path / "training-runs", name)
        run.metadata(config=config, tags=["sweep3"])
        recent = [[1_767_268_800 + step, step, 3 - step * number / 100] for step in range(50)]
        run.progress(step=49, total_steps=100, loss=2.9, recent=recent, metrics={"accuracy": number / 10})
    RunFolder(tmp_path / "training-runs", "bare").metadata()
    return tmp_path


def told(runs: Path, *arguments: str, **settings: str) -> str:
    done = call(LASTBEAT, "compare", *arguments, cwd=runs, **settings)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_what_differs_is_shown_and_what_is_the_same_is_counted(runs: Path) -> None:
    lines = {line.split("  ")[0].strip(): line for line in told(runs, "llama-*", COLUMNS="120").splitlines()}
    assert lines["lr"].split() == ["lr", "0.0001", "0.0003", "0.0003"]
    assert lines["rope"].split() == ["rope", "True", "1", "True"]
    assert lines["step"].split() == ["step", "49/100", "49/100", "49/100"]
    assert lines["accuracy"].split() == ["accuracy", "0.1", "0.2", "0.3"]
    assert [least in lines["loss"] for least in ("2.9 (least 2.51)", "2.9 (least 2.02)", "2.9 (least 1.53)")] == [
        True
    ] * 3
    assert "layers" not in lines
    assert "1 key of the configuration is the same" in lines
    assert "\x1b" not in "".join(lines.values())


def test_a_run_that_said_nothing_has_empty_cells(runs: Path) -> None:
    lines = told(runs, "bare", "llama-a").splitlines()
    assert lines[0].split() == ["bare", "llama-a"]
    assert next(line for line in lines if line.startswith("lr")).split() == ["lr", "0.0001"]


def test_on_a_narrow_terminal_further_runs_follow_below(runs: Path) -> None:
    heads = [line.split() for line in told(runs, "llama-*", COLUMNS="40").splitlines() if "llama-" in line]
    assert heads == [["llama-a", "llama-b"], ["llama-c"]]


def test_programs_get_every_figure_and_the_curve(runs: Path) -> None:
    found = json.loads(told(runs, "llama-b", "llama-a", "--json"))
    assert (found["keys"], found["same"], found["figures"]) == (["lr", "rope"], 1, ["loss", "accuracy"])
    first = found["runs"][0]
    assert (first["run_id"], first["config"]) == ("llama-b", {"lr": 3e-4, "rope": 1})
    assert first["figures"]["loss"] == {"last": 2.9, "least": pytest.approx(2.02), "greatest": 3.0}
    assert first["curve"][0] == [0, 3.0]


def test_figures_are_those_of_the_curves_that_a_run_keeps(runs: Path) -> None:
    kept = [[1_767_268_000 + step, step, 9 - step * 8 / 100, 0.5, 9.5] for step in range(10)]
    run = RunFolder(runs / "training-runs", "keeps")
    run.metadata()
    run.progress(step=20, loss=2.9, recent=[[1_767_268_020, 20, 2.9]])
    run.put("curves/1.json", json.dumps({"curves": {"loss": kept}}))
    keeps, other = json.loads(told(runs, "keeps", "llama-b", "--json"))["runs"]
    assert keeps["figures"]["loss"] == {"last": 2.9, "least": 0.5, "greatest": 9.5}
    assert (keeps["curve"][0], keeps["curve"][-1], other["curve"][0]) == ([0, 9.0], [20, 2.9], [0, 3.0])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["llama-a"], "2 to 20 runs can be compared, and these are 1 run"),
        (["llama-a", "lama-b"], "there is no run lama-b"),
        (["nothing-*", "llama-a"], "nothing-* matches no run"),
    ],
    ids=["one run", "a run that is not there", "a glob of none"],
)
def test_what_cannot_be_compared_is_refused(runs: Path, arguments: list[str], why: str) -> None:
    done = call(LASTBEAT, "compare", *arguments, cwd=runs)
    assert done.returncode == 3
    assert why in done.stderr
