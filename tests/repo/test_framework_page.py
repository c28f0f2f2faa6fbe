"""docs/frameworks.md, sections.md and sweeps.md against the SDK: their blocks are Python, of names that it has."""

import ast

import pytest

import lastbeat
from lastbeat.training.entry import RunOptions
from lastbeat.training.sdk.run import Run
from support.checkout import ROOT
from support.markdown import Block, Document

BLOCKS = [
    each
    for page in ("frameworks.md", "sections.md", "sweeps.md")
    for each in Document.read(ROOT / "docs" / page).blocks
    if each.language == "python"
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"line {block.line}")
def test_a_block_is_python_and_calls_what_there_is(block: Block) -> None:
    tree = ast.parse(block.text)
    ours = "lastbeat." in block.text
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in {"run", "lastbeat"}
        ):
            assert hasattr(Run if node.value.id == "run" else lastbeat, node.attr), node.attr
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"lastbeat.run", "lastbeat.start"}:
            assert {keyword.arg for keyword in node.keywords} <= set(RunOptions.__annotations__)
    assert ours


def test_each_framework_has_its_lines() -> None:
    assert len(BLOCKS) == 11
