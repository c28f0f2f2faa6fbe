"""The zip: what is in it, and what a start loads of it."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from integration.lambda_.conftest import ARCHITECTURE, OTHER
from support.checkout import ROOT
from support.row_by_row import labelled

TAG = f"cpython-{sys.version_info[0]}{sys.version_info[1]}"


# The machine that an ELF file is for, as its header has it.
MACHINES = {"x86_64": 62, "arm64": 183}


def test_the_other_architecture_is_built_as_well_and_nothing_of_this_one_is_in_it(
    function_zip: Path, own_zip: Path
) -> None:
    for path, architecture in ((function_zip, ARCHITECTURE), (own_zip, OTHER)):
        with zipfile.ZipFile(path) as archive:
            libraries = [name for name in archive.namelist() if name.endswith(".so")]
            assert any(name.startswith("obstore/") for name in libraries)
            # Lambda's python3.11 has an older glibc than google-re2 asks for on x86_64.
            fits = (architecture, sys.version_info[:2]) != ("x86_64", (3, 11))
            assert [TAG in name for name in libraries if name.startswith("re2/")] == [True] * fits
            machines = {int.from_bytes(archive.read(name)[18:20], "little") for name in libraries}
        assert machines == {MACHINES[architecture]}


def test_it_holds_what_runs_and_its_bytecode_and_nothing_else(function_zip: Path) -> None:
    with zipfile.ZipFile(function_zip) as archive:
        names = set(archive.namelist())
    assert "handler.py" in names
    for name in names:
        if name.startswith(("lastbeat/", "lastbeat_lambda/", "requests/", "obstore/")) and name.endswith(".py"):
            folder, _, module = name.rpartition("/")
            assert f"{folder}/__pycache__/{module.removesuffix('.py')}.{TAG}.pyc" in names
    tops = {name.split("/")[0] for name in names}
    assert tops.isdisjoint({"boto3", "botocore", "click", "lastbeat_cli", "pytest", "tests", "bin"})
    assert not any("/tests/" in name or name.endswith((".pyi", "/RECORD")) for name in names)
    assert any(name.endswith((".dist-info/licenses/LICENSE", ".dist-info/LICENSE")) for name in names)


def test_bytecode_is_used_whatever_the_times_of_the_files_say(function: Path) -> None:
    (compiled,) = (function / "__pycache__").glob(f"handler.{TAG}.pyc")
    # The flags of a module that is found by its name alone: a hash that nobody checks.
    assert compiled.read_bytes()[4:8] == b"\x01\x00\x00\x00"


LOADED: list[tuple[str, str, set[str]]] = [
    ("a start", "import handler", {"boto3", "botocore.session", "botocore.client", "requests", "obstore", "pydantic"}),
    ("a pass in which nothing happens", "import handler; handler.handler({}, None)", {"boto3", "botocore.session",
     "botocore.client", "requests", "pydantic", "aws_lambda_powertools.utilities.batch"}),
]  # fmt: skip


@pytest.mark.parametrize(("code", "heavy"), labelled(LOADED))
def test_a_start_loads_only_what_it_needs(function: Path, tmp_path: Path, code: str, heavy: set[str]) -> None:
    (tmp_path / "runs").mkdir()
    probe = f"{code}\nimport json, sys; print(json.dumps([sorted(sys.modules), sys.modules['lastbeat'].__file__]))"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(function), "MONITORING_ROOT": str(tmp_path / "runs")}
    environment["LASTBEAT_STATE_DIR"] = str(tmp_path / "state")
    done = subprocess.run([sys.executable, "-c", probe], env=environment, capture_output=True, text=True, check=True)
    modules, where = json.loads(done.stdout.splitlines()[-1])
    assert set(modules) & heavy == set()
    assert where.startswith(str(function))


WRONG = [
    (("--architecture", "sparc"), "use arm64 or x86_64"),
    (("--runtime", "python2.7"), "use python3.11"),
    (("--out",), "--out needs a value"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_what_it_cannot_build_it_refuses(arguments: tuple[str, ...], message: str) -> None:
    command = [str(ROOT / "infra" / "package.sh"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr
