"""The built-in catalogues as they are loaded, and the YAML files that they are made of."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lastbeat.explain.signals.compiling import compiled
from lastbeat.explain.signals.loading import COMPILED
from support.checkout import ROOT

CATALOG = ROOT / "core" / "lastbeat" / "explain" / "signals" / "catalog"


def test_what_is_loaded_is_what_the_files_say() -> None:
    assert COMPILED.parent == CATALOG
    fresh = compiled(CATALOG) == COMPILED.read_text("utf-8")
    assert fresh, "make compiled.json again: .venv/bin/python -m lastbeat.explain.signals.compiling (PYTHONPATH=core)"


def test_the_wheel_and_the_functions_zip_carry_it(tmp_path: Path) -> None:
    """Both take the package's folder whole; what they leave out is told by name."""
    from infra import bundle  # noqa: PLC0415 - a script

    stage = tmp_path / "stage"
    bundle._stage(ROOT, stage)
    bundle._prune(stage)
    bundle._pack(stage, tmp_path / "lambda.zip")
    with zipfile.ZipFile(tmp_path / "lambda.zip") as archive:
        assert archive.read("lastbeat/explain/signals/catalog/compiled.json") == COMPILED.read_bytes()
        assert "lastbeat/explain/signals/catalog/default.yaml" in archive.namelist()


def python(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT / "core", capture_output=True, text=True, check=True).stdout


HEAVY = ("yaml", "pydantic", "lastbeat.explain.handwritten", "lastbeat.explain.signals.catalogue_files")


@pytest.mark.parametrize(("setting", "loaded"), [("default", False), ("/own.yaml", True)])
def test_only_a_users_file_loads_what_checks_it(setting: str, loaded: bool) -> None:
    said = python(
        "from lastbeat.explain.signals.loading import load_setting\n"
        f"load_setting({setting!r}, {{'/own.yaml': 'signals: {{s: some text}}'}}.__getitem__)\n"
        f"import sys; print([name in sys.modules for name in {HEAVY!r}])"
    )
    assert said == f"{[loaded] * len(HEAVY)}\n"


@pytest.mark.parametrize(("module", "name"), [("yaml", "PyYAML"), ("pydantic", "pydantic")])
def test_without_what_checks_it_a_users_file_is_refused_and_ours_are_read(module: str, name: str) -> None:
    said = python(
        f"import sys; sys.modules[{module!r}] = None\n"
        "from lastbeat.explain.signals.loading import CatalogueError, load, load_setting\n"
        "print(len(load('default').signals))\n"
        "try: load_setting('/own.yaml', {'/own.yaml': ''}.__getitem__)\n"
        "except CatalogueError as error: print(error)\n"
    )
    count, refused = said.splitlines()
    assert int(count) > 100
    assert refused.startswith(f"/own.yaml: {name} is not installed here")
    assert "lastbeat deploy --signals FILE" in refused
