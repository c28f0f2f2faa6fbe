"""What a registry names is held by the import rules, too."""

import re

import pytest

from lastbeat.alerts.registry import CHANNELS
from lastbeat.stores.registry import KINDS
from support.checkout import ROOT


def independent(name: str) -> set[str]:
    """The modules of the contract called ``name`` in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(rf'name = "{name}"\ntype = "independence"\nmodules = \[([^\]]*)\]', text)
    assert found is not None, f"pyproject.toml has no such contract: {name}"
    return set(re.findall(r'"([\w.]+)"', found[1]))


@pytest.mark.parametrize(
    ("contract", "modules"),
    [
        ("Channels do not know each other", {line.module for line in CHANNELS.values()}),
        # Of directories the adapter is meant: what is beside it in the registry is made of it.
        ("Stores do not know each other", {adapter for _, adapter in KINDS.values()}),
    ],
)
def test_no_module_of_a_registry_is_left_out(contract: str, modules: set[str]) -> None:
    assert modules <= independent(contract)
