"""Ranks that are slow, and jobs, as people hear of them: by what the run's own heartbeat says."""

from typing import Any

import pytest

from lastbeat.model.status import Event
from lastbeat.model.stragglers_told import read_stragglers
from support.world import World

ONE = {
    "number": 4,
    "scored": 512,
    "world_size": 512,
    "count": 1,
    "ranks": [{"rank": 76, "node": "h100-001-253-012", "relative": 0.61}],
    "nodes": [{"node": "h100-001-253-012", "ranks": 1, "of": 8}],
}
THREE = ONE | {
    "count": 3,
    "ranks": [
        {"rank": 76, "node": "h9", "relative": 0.61, "individual": 0.5},
        {"rank": 77, "node": "h9", "individual": 0.66},
        {"rank": 13, "node": "h1", "relative": 0.83},
    ],
    "nodes": [{"node": "h9", "ranks": 2, "of": 8}, {"node": "h1", "ranks": 1, "of": 8}],
}
WELL: dict[str, Any] = {"number": 5, "scored": 512, "world_size": 512, "count": 0, "ranks": [], "nodes": []}
TOLD = [
    pytest.param(ONE, {"straggler": "rank 76 on h100-001-253-012 (score 0.61) is slow, of 512 ranks"}, id="one rank"),
    pytest.param(
        THREE,
        {
            "straggler": "3 ranks are slow, of 512 ranks: 76 on h9 (score 0.50), 77 on h9 (score 0.66), "
            "13 on h1 (score 0.83); of the nodes' ranks: h9 2 of 8"
        },
        id="several, and a node with two of them",
    ),
    pytest.param(
        WELL | {"slow": 0.625},
        {"slow": "steps take 1.6 times as long as in its best window, on all ranks alike"},
        id="a slow job",
    ),
    pytest.param(WELL, {}, id="all is well"),
    pytest.param({"ranks": [{"rank": 4}]}, {"straggler": "rank 4 is slow"}, id="the least that may be said"),
    pytest.param({"ranks": "all", "nodes": 7, "slow": "NaN", "count": -1}, {}, id="nonsense"),
    pytest.param(["rank 3"], {}, id="no report at all"),
]


@pytest.mark.parametrize(("report", "expected"), TOLD)
def test_what_a_heartbeat_says_becomes_a_condition(report: object, expected: dict[str, str]) -> None:
    world = World()
    world.beat(stragglers=report)
    assert dict(world.look().conditions) == expected


def test_people_hear_of_it_once_with_what_to_do_and_of_its_end() -> None:
    world = World()
    for report in (WELL, ONE, ONE, ONE):
        world.beat(stragglers=report)
        world.look()
        world.after(60)
    (alert,) = world.channel.sent
    assert (alert.event, alert.conditions["straggler"][:7]) == (Event.WARNING, "rank 76")
    assert alert.action is not None
    assert "exclude_stragglers" in alert.action
    world.beat(stragglers=WELL)
    assert world.look().conditions == {}
    world.after(60)
    world.beat(stragglers=ONE)
    world.look()
    assert len(world.channel.sent) == 2, "it came back"


def test_names_of_nodes_are_hostile_text() -> None:
    found = read_stragglers(
        {"ranks": [{"rank": 1, "node": "\x1b[31mn\n\u202e" + "x" * 5000}], "count": 10**9}, lambda text: text
    )
    assert found is not None
    assert found.text is not None
    assert len(found.text) <= 300
    assert not {"\n", "\x1b", "\u202e"} & set(found.text)
