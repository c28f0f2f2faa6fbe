"""A user's own catalogue in the function: compiled into its zip, read where there is neither PyYAML nor pydantic."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from integration.lambda_.conftest import SCHEDULE, Deployed
from support.checkout import ROOT

COMPILED = "lastbeat/explain/signals/catalog/compiled.json"
OURS = ("handler", "__pycache__", "lastbeat")
LOG = "step 1/100 loss 2.5\nLicenceError: no seat for solver\n"


@pytest.fixture
def unpacked(own_zip: Path, function: Path, tmp_path: Path) -> Path:
    """What runs here, with the catalogue of the other zip, and with modules that refuse to be imported in the place of
    those that Lambda does not have."""
    folder = tmp_path / "task"
    shutil.copytree(function, folder)
    with zipfile.ZipFile(own_zip) as archive:
        archive.extract(COMPILED, folder)
    for name in ("yaml", "pydantic"):
        (folder / f"{name}.py").write_text("raise ModuleNotFoundError(f'no {__name__} here', name=__name__)\n")
    return folder


def test_the_cause_in_the_alert_is_the_users_own(deployed: Deployed, unpacked: Path) -> None:
    deployed.folder = unpacked
    deployed.beat("run-1")
    deployed.put("run-1", "logs/training_log_latest.txt", LOG)
    deployed.put("run-1", "_error", "exit status 1")
    running = deployed.start(LASTBEAT_SIGNALS="cluster")
    answer = running.invoke(SCHEDULE)
    assert [each["run_id"] for each in answer["transitions"]] == ["run-1"], running.log()
    (alert,) = [json.loads(each["Message"]) for each in deployed.topic.received()]
    assert (alert["status"], alert["cause"]) == ("FAILED", "licence")
    assert alert["action"] == "No seat for solver: lmstat -a shows who holds them."


def test_its_limits_are_those_of_what_it_extends(deployed: Deployed, unpacked: Path) -> None:
    probe = (
        "from lastbeat.settings.catalogues import catalogue; import json\n"
        "found = catalogue('cluster'); hints = {each.name: each.hint for each in found.signals}\n"
        "print(json.dumps([found.inactivity_s, hints['cuda_out_of_memory'], found.signals[0].name]))"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=unpacked, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [1200, "Use the profile small-batch.", "seat_denied"]


def test_the_same_checkout_gives_the_same_bytes_but_for_the_catalogue(own_zip: Path, function_zip: Path) -> None:
    with zipfile.ZipFile(own_zip) as own, zipfile.ZipFile(function_zip) as plain:
        assert own.comment == plain.comment
        ours = [[each for each in zip_.infolist() if each.filename.startswith(OURS)] for zip_ in (own, plain)]
        assert len(ours[0]) > 200
        assert [_as_held(each) for each in ours[0]] == [_as_held(each) for each in ours[1]]
        changed = {each.filename for each in ours[0] if own.read(each) != plain.read(each.filename)}
    assert changed == {COMPILED}


def _as_held(each: zipfile.ZipInfo) -> tuple[object, ...]:
    """All that a zip says of a file besides its size, its checksum and its place."""
    return (
        each.filename, each.date_time, each.external_attr, each.internal_attr, each.create_system, each.create_version,
        each.extract_version, each.compress_type, each.flag_bits, each.extra, each.comment,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("signals: {s: {pattern: x, error_type: ooom}}", "own.yaml:1: signal 's': there is no error type 'ooom'"),
        (None, "own.yaml: it cannot be read: No such file"),
    ],
)
def test_what_cannot_be_used_is_not_packaged(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "own.yaml").write_text(text, encoding="utf-8")
    out = tmp_path / "lambda.zip"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    command = [str(ROOT / "infra" / "package.sh"), "--runtime", version, "--out", str(out), "--signals", "own.yaml"]
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()
