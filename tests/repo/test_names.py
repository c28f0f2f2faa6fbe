"""One meaning a name: read from the source, so that nobody has to remember it."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastbeat.explain.signals import error_types
from support.checkout import ROOT

ROOMS = ("core", "cli", "lambda")

SHARED = {
    # A user imports it from the module of their own framework, each of which gives its callbacks this very name.
    "LastbeatCallback": "the callback of a training framework",
}

DECIDING = ("core/lastbeat/explain", "core/lastbeat/watch/decide", "core/lastbeat/alerts", "cli/lastbeat_cli")


MENTIONED = re.compile("error_types|" + "|".join(f"['\"]{name}['\"]" for name in error_types.TYPES))
"""To parse every module takes seconds."""


def _modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Those that name an error type."""
    for path in (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))):
        text = path.read_text(encoding="utf-8")
        if MENTIONED.search(text):
            yield str(path.relative_to(ROOT)), ast.parse(text)


@pytest.fixture(scope="module")
def classes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))):
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            found[name].append(str(path.relative_to(ROOT)))
    return found


def test_a_public_class_name_means_one_thing(classes: dict[str, list[str]]) -> None:
    twice = {name: modules for name, modules in classes.items() if len(modules) > 1}
    assert {name: modules for name, modules in twice.items() if name not in SHARED} == {}


@pytest.mark.parametrize("name", SHARED)
def test_a_name_that_is_excepted_does_mean_two_things(name: str, classes: dict[str, list[str]]) -> None:
    assert len(classes[name]) > 1, f"{name} has one meaning now: take it out of the exceptions"


def _constants(tree: ast.Module) -> dict[str, str]:
    """Names of the module that stand for the name of an error type: its own constants, and those of the table."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update({each.id: node.value.value for each in targets if isinstance(each, ast.Name)})
        elif isinstance(node, ast.ImportFrom) and node.module == error_types.__name__:
            found.update({each.asname or each.name: getattr(error_types, each.name) for each in node.names})
    return {name: value for name, value in found.items() if value in list(error_types.TYPES)}


def _compared(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each error type that a value is compared with, or that a match has a case for."""
    constants = _constants(tree)
    for node in (each for each in ast.walk(tree) if isinstance(each, ast.Compare | ast.MatchValue)):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node.value]
        if any(isinstance(side, ast.Attribute) and side.attr in {"kind", "verdict", "where"} for side in sides):
            # Kinds and verdicts of signals, and places in code, have words of their own, some of them the same.
            continue
        for each in (inner for side in sides for inner in ast.walk(side)):
            said = each.value if isinstance(each, ast.Constant) else None
            said = constants.get(each.id) if isinstance(each, ast.Name) else said
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "error_types":
                said = getattr(error_types, each.attr, None)
            if isinstance(said, str) and said in error_types.TYPES:
                yield getattr(each, "lineno", 0), said


def test_no_behaviour_hangs_on_the_name_of_an_error_type() -> None:
    found = [
        f"{module}:{line}: {name}: give its ErrorTraits an attribute, and ask traits_of()"
        for module, tree in _modules(*DECIDING)
        for line, name in _compared(tree)
    ]
    assert found == []


def test_the_rooms_that_are_looked_at_exist() -> None:
    assert all(Path(ROOT / folder).is_dir() for folder in (*ROOMS, *DECIDING))
