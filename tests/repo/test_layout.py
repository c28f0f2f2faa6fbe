"""The house as it stands: no empty room, nothing of the machine it was built on."""

import re
import subprocess
from pathlib import Path

import pytest

from support.checkout import ROOT, files, folders
from support.spread import WITH_SERVERS

# Written so that they do not find themselves. In logs of tests /home/u stands for anybody's.
FOREIGN = {
    "a path of the machine it was written on": re.compile(r"(?<![\w.$}~-])/(?:work|root|home/(?!u/)[a-z]+)/\w"),
    "the address of a package registry": re.compile(r"python[h]osted\.org|py[p]i\.org/simple|(?:extra-|--)inde[x]-url"),
}


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_room_is_empty() -> None:
    # Where git has removed a room, what Python compiled of it may still lie there.
    kept = {
        folder: [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"] for folder in folders()
    }
    bare = {"__init__.py", "py.typed"}
    empty = [
        _relative(folder) for folder, found in kept.items() if found and bare.issuperset(path.name for path in found)
    ]
    assert empty == []


@pytest.mark.parametrize("what", FOREIGN)
def test_no_file_names(what: str) -> None:
    found = []
    for path in files():
        text = path.read_bytes().decode("utf-8", errors="replace")
        found += [f"{_relative(path)}: {match[0]}" for match in FOREIGN[what].finditer(text)]
    assert found == []


def test_what_is_started_by_hand_can_be_executed() -> None:
    for name in (".ci/run", ".ci/venv"):
        assert (ROOT / name).stat().st_mode & 0o111, f"{name} is not executable"


def test_make_alone_names_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY:(.*)$", makefile, re.MULTILINE)
    assert phony is not None
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    missing = [target for target in phony[1].split() if target != "help" and f"make {target} " not in said]
    assert missing == []


def test_each_folder_of_tests_is_run_by_a_command(pytestconfig: pytest.Config) -> None:
    by_others = ["tests/frameworks", "tests/matrix", "tests/repo"]
    folders = {f"tests/{path.relative_to(ROOT).parts[1]}" for path in (ROOT / "tests").rglob("test_*.py")}
    assert sorted([*pytestconfig.getini("testpaths"), *by_others]) == sorted(folders)


def test_make_test_all_looks_for_what_make_test_leaves_to_it_where_that_is() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"\nWITH_SERVERS = {' '.join(WITH_SERVERS)}\n" in makefile
