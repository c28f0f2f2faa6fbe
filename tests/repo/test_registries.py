"""What a registry names does not import what else it names, not even by way of other modules."""

from itertools import permutations

import grimp
import pytest

from lastbeat.alerts.registry import CHANNELS
from lastbeat.stores.registry import KINDS


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("lastbeat", exclude_type_checking_imports=True, cache_dir=None)


@pytest.mark.parametrize(
    ("registry", "modules"),
    [
        ("channels", [entry.module for entry in CHANNELS.values()]),
        # Facts may build on those of another store, as a directory's do.
        ("stores", [adapter for _, adapter in KINDS.values()]),
    ],
)
def test_modules_of_a_registry_do_not_know_each_other(
    registry: str, modules: list[str], imports: grimp.ImportGraph
) -> None:
    chains = [imports.find_shortest_chain(*pair) for pair in permutations(modules, 2)]
    faults = [" imports ".join(chain) for chain in chains if chain]
    assert faults == [], f"{registry} do not import each other: move what both need into a module of its own"
