"""Faces whose names are imported at their first use have what type checkers see of them."""

import ast
import importlib
from pathlib import Path

import pytest

from support.checkout import ROOT

FACES = sorted(
    path.parent
    for source in ("core", "cli", "lambda")
    for path in (ROOT / source).rglob("__init__.py")
    if "lazy_face(" in path.read_text()
)


def _typed_names(path: Path) -> list[str]:
    """The names that the face in the folder ``path`` imports for type checkers."""
    tree = ast.parse((path / "__init__.py").read_text())
    blocks = [each for each in tree.body if isinstance(each, ast.If)]
    imports = [each for block in blocks for each in block.body if isinstance(each, ast.ImportFrom)]
    return [name.asname or name.name for each in imports for name in each.names]


@pytest.mark.parametrize("path", FACES, ids=lambda path: path.name)
def test_each_name_of_a_face_is_found_and_no_module_hides_it(path: Path) -> None:
    source = next(parent for parent in path.parents if parent.parent == ROOT)
    room = importlib.import_module(".".join(path.relative_to(source).parts))
    names = _typed_names(path)
    assert names
    for name in names:
        assert getattr(room, name) is not None
        assert not (path / f"{name}.py").exists()
        assert not (path / name).is_dir()
    with pytest.raises(AttributeError, match=r"has no attribute 'missing'"):
        _ = room.missing
