"""The whole of it over ``gs://`` and ``az://``: training writes through the SDK, the command line watches."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.cli import LASTBEAT, MONITOR, call

TRAINING = """
import lastbeat
with lastbeat.run("run-1", total_steps=3) as run:
    for step in range(3):
        run.step(step, loss=2.5)
"""
FAILING = TRAINING.replace("run-1", "run-2") + "    raise RuntimeError('CUDA out of memory')\n"


@dataclass(frozen=True)
class Place:
    scheme: str
    name: str
    environ: Mapping[str, str]

    @property
    def settings(self) -> dict[str, str]:
        return {**self.environ, "MONITORING_ROOT": f"{self.scheme}://{self.name}"}


@pytest.fixture(params=["gs", "az"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "gs":
        google = request.getfixturevalue("google")
        return Place("gs", google.bucket(), google.environment())
    azure = request.getfixturevalue("azurite")
    return Place("az", azure.container(), azure.environment())


def test_training_writes_and_watchers_read(tmp_path: Path, place: Place) -> None:
    trained = call([sys.executable, "-c", TRAINING], cwd=tmp_path, **place.settings)
    assert trained.returncode == 0
    assert trained.stderr.startswith(f"lastbeat: reporting to {place.scheme}://{place.name}")
    assert trained.stderr.count("\n") == 1
    done = call(MONITOR, "--run-id", "run-1", "--once", cwd=tmp_path, **place.settings)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Run run-1: SUCCEEDED\n")
    failed = call([sys.executable, "-c", FAILING], cwd=tmp_path, **place.settings)
    assert failed.returncode == 1
    for _ in range(2):
        swept = call(LASTBEAT, "sweep", "--once", "--json", cwd=tmp_path, **place.settings)
        told = json.loads(swept.stdout)
        assert told["statuses"] == {"SUCCEEDED": 1, "FAILED": 1}, swept.stderr
        assert told["notes"] == [], "conditions are kept, the clock is told, the mark is left"
    told = json.loads(call(MONITOR, "--run-id", "run-2", "--once", "--json", cwd=tmp_path, **place.settings).stdout)
    assert told["status"] == "FAILED"
    assert "out of memory" in json.dumps(told)


def test_doctor_tries_all_of_it_and_says_what_opened_the_store(tmp_path: Path, place: Place) -> None:
    done = call(LASTBEAT, "doctor", "--json", cwd=tmp_path, **place.settings)
    made = {check["name"]: check for check in json.loads(done.stdout)["checks"] if check["name"] != "settings"}
    for name in ("credentials", "store", "reading", "writing", "conditional writes", "clock"):
        assert made[name]["word"] == "ok", made[name]
    which = {"gs": "STORAGE_EMULATOR_HOST", "az": "AZURE_STORAGE_ACCOUNT_KEY"}[place.scheme]
    assert which in made["credentials"]["detail"]
    assert all(text not in done.stdout for name, text in place.environ.items() if name.endswith("KEY"))


def test_cost_says_dollars_only_where_prices_are_known(tmp_path: Path, place: Place) -> None:
    call([sys.executable, "-c", TRAINING], cwd=tmp_path, **place.settings)
    call(LASTBEAT, "sweep", "--once", cwd=tmp_path, **place.settings)
    told = json.loads(call(LASTBEAT, "cost", "--json", cwd=tmp_path, **place.settings).stdout)
    assert told["store"] == "endpoint"
    watching = told["month"]["watching_fleet"]
    assert watching["requests"]["PUT"] > 0
    assert (watching["dollars"] is None) is (place.scheme == "az")
    shown = call(LASTBEAT, "cost", cwd=tmp_path, **place.settings)
    assert shown.returncode == 0
    assert ("Azure Blob Storage" if place.scheme == "az" else "Google Cloud Storage") in shown.stdout


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param({"MONITORING_ROOT": "az://runs/x"}, "AZURE_STORAGE_ACCOUNT_NAME", id="no account is named"),
        pytest.param(
            {"MONITORING_ROOT": "gs://runs-1/x", "GOOGLE_APPLICATION_CREDENTIALS": "none.json"},
            "the key file none.json cannot be read: No such file or directory → correct GOOGLE_APPLICATION_CREDENTIALS",
            id="a key file that is not there",
        ),
        pytest.param(
            {"MONITORING_ROOT": "az://runs/x", "AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:9/account",
             "AZURE_STORAGE_ACCOUNT_KEY": "aHVzaC1odXNoLWh1c2gtaHVzaA=="},
            "AZURE_STORAGE_ENDPOINT", id="nobody at the endpoint",
        ),
        pytest.param(
            {"MONITORING_ROOT": "gs://runs-1/x", "STORAGE_EMULATOR_HOST": "127.0.0.1:9"},
            "STORAGE_EMULATOR_HOST", id="no emulator where one is named",
        ),
    ],
)  # fmt: skip
def test_doctor_names_what_to_set(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    done = call(LASTBEAT, "doctor", cwd=tmp_path, **settings)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("fail"))
    assert said in line
    assert "hush" not in done.stdout
    assert "aHVzaC1odXNo" not in done.stdout + done.stderr


def test_a_store_that_cannot_be_reached_is_the_first_thing_said(tmp_path: Path, place: Place) -> None:
    name = {"gs": "STORAGE_EMULATOR_HOST", "az": "AZURE_STORAGE_ENDPOINT"}[place.scheme]
    settings = {**place.settings, name: "http://127.0.0.1:9/account" if place.scheme == "az" else "127.0.0.1:9"}
    done = call(MONITOR, "--run-id", "run-1", "--once", cwd=tmp_path, **settings)
    assert done.returncode == 3
    assert "does not tell its time" not in done.stderr
    assert name in done.stdout + done.stderr
