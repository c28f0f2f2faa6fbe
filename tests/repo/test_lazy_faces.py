"""Rooms whose modules are imported at their first use have the modules that type checkers see in them."""

import ast
import importlib
from pathlib import Path

import pytest

from support.checkout import ROOT

ROOMS = sorted(
    path.parent
    for source in ("core", "cli", "lambda")
    for path in (ROOT / source).rglob("__init__.py")
    if "lazy_face(" in path.read_text()
)


def _typed_names(path: Path) -> list[str]:
    """The names that the room in the folder ``path`` imports for type checkers."""
    tree = ast.parse((path / "__init__.py").read_text())
    blocks = [each for each in tree.body if isinstance(each, ast.If)]
    imports = [each for block in blocks for each in block.body if isinstance(each, ast.ImportFrom)]
    return [name.asname or name.name for each in imports for name in each.names]


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: path.name)
def test_each_module_of_a_room_is_found(path: Path) -> None:
    source = next(parent for parent in path.parents if parent.parent == ROOT)
    name = ".".join(path.relative_to(source).parts)
    room = importlib.import_module(name)
    typed = _typed_names(path)
    assert typed
    for each in typed:
        assert room.__getattr__(each) is importlib.import_module(f"{name}.{each}")
    with pytest.raises(AttributeError, match=r"has no attribute 'missing'"):
        _ = room.missing
