"""The built-in catalogues as they are loaded, and the YAML files that they are made of."""

import subprocess
import sys
import zipfile
from pathlib import Path

from lastbeat.signals.compiling import compiled
from lastbeat.signals.loading import COMPILED
from support.checkout import ROOT

CATALOG = ROOT / "core" / "lastbeat" / "signals" / "catalog"


def test_what_is_loaded_is_what_the_files_say() -> None:
    assert COMPILED.parent == CATALOG
    fresh = compiled(CATALOG) == COMPILED.read_text("utf-8")
    assert fresh, "make compiled.json again: .venv/bin/python -m lastbeat.signals.compiling (PYTHONPATH=core)"


def test_the_wheel_and_the_functions_zip_carry_it(tmp_path: Path) -> None:
    """Both take the package's folder whole; what they leave out is told by name."""
    from infra import bundle  # noqa: PLC0415 - a script

    stage = tmp_path / "stage"
    bundle._stage(ROOT, stage)
    bundle._prune(stage)
    bundle._pack(stage, tmp_path / "lambda.zip")
    with zipfile.ZipFile(tmp_path / "lambda.zip") as archive:
        assert archive.read("lastbeat/signals/catalog/compiled.json") == COMPILED.read_bytes()
        assert "lastbeat/signals/catalog/default.yaml" in archive.namelist()


def python(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT / "core", capture_output=True, text=True, check=True).stdout


def test_no_catalogue_of_ours_makes_a_look_read_yaml() -> None:
    assert (
        python("from lastbeat.signals.loading import load; load('default'); import sys; print('yaml' in sys.modules)")
        == "False\n"
    )


def test_without_pyyaml_a_users_file_is_refused_and_ours_are_read() -> None:
    said = python(
        "import sys; sys.modules['yaml'] = None\n"
        "from lastbeat.signals.loading import CatalogueError, load, load_setting\n"
        "print(len(load('default').signals))\n"
        "try: load_setting('/own.yaml', {'/own.yaml': ''}.__getitem__)\n"
        "except CatalogueError as error: print(error)\n"
    )
    count, refused = said.splitlines()
    assert int(count) > 100
    assert refused.startswith("/own.yaml: PyYAML is not installed here")
