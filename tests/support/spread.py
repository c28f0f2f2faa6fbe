"""How the tests are spread over workers: a file goes to one worker, and so does what stands on one costly server.

Files that wait for servers, browsers and processes take turns with those that compute, so that no core is idle; the
longest begin first. A server that several files stand on starts once.
"""

import re
from typing import Final

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]

WITH_SERVERS: Final = ("tests/contract", "tests/e2e", "tests/integration")
"""Folders of the tests that ``make test`` may leave to ``make test-all``."""
_SERVERS: Final = (
    ("Ray, asked by scripts", re.compile(r"integration/launch/")),
    ("Ray", re.compile(r"/test_ray_(jobs|supervised)|\[ray ")),
    ("Chromium", re.compile(r"^tests/browser/")),
    ("Slurm with accounting", re.compile(r"/test_slurm_(drill|states)|accounted_slurm")),
    ("Stores", re.compile(r"stores/test_(s3_places|cloud_faults)|/test_cli_clouds|stores/.*\[(seaweed|google|azure)")),
    ("Slurm", re.compile(r"/test_slurm_(jobs|prolog)|/test_first_survived|\[slurm ")),
)
"""Name of each server, and the tests that go to the worker where it runs."""
_FIRST: Final = (
    "e2e/test_cli_supervise",
    "e2e/test_cli_closed",
    "e2e/test_exec_in_place",
    "integration/launch",
    "integration/lambda_",
    "integration/sdk",
    "integration/fleet",
    "e2e",
    "integration",
    "contract",
)
"""Folders and files of tests that wait, the longest first."""
_COMPUTES: Final = (len(_SERVERS), len(_FIRST))
"""The place of all other tests."""


def by_waiting(items: list[pytest.Item]) -> None:
    """Put the servers' groups first, and spread the files that compute evenly among those that wait."""
    groups = {item: group_of(item.nodeid) for item in items}
    ranks = {group: _place(item.nodeid) for item, group in groups.items()}
    waiting = sorted((group for group, place in ranks.items() if place < _COMPUTES), key=ranks.__getitem__)
    computing = [group for group, place in ranks.items() if place >= _COMPUTES]
    orders = {group: (number + 1) / len(waiting) for number, group in enumerate(waiting)}
    orders |= {group: (number + 1) / len(computing) for number, group in enumerate(computing)}
    items.sort(key=lambda item: orders[groups[item]])


def _place(nodeid: str) -> tuple[int, int]:
    servers = [number for number, (_, tests) in enumerate(_SERVERS) if tests.search(nodeid)]
    folders = [number for number, name in enumerate(_FIRST) if nodeid.startswith(f"tests/{name}")]
    return (servers or [len(_SERVERS)])[0], (folders or [len(_FIRST)])[0]


class ByServer(LoadScopeScheduling):  # type: ignore[misc] # xdist is not typed
    """Hands out files in the order of collection, and tests of one server as if they were one file."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """What goes to one worker: the tests of a server by its name, else a file."""
    return next((name for name, tests in _SERVERS if tests.search(nodeid)), nodeid.split("::", 1)[0])
