"""Where a pass begins after one that had no time for every run."""

import pytest

from lastbeat.fleet.index import FleetIndex
from lastbeat.fleet.scan_plan import ScanPlan
from lastbeat.fleet.selection import Selection
from support.world import World

PASSES = [
    pytest.param([""], "abcd", id="there was time for all: at the beginning"),
    pytest.param(["c"], "cdab", id="one was left: with it"),
    pytest.param(["bd"], "bcda", id="several were left: with the first of them"),
    pytest.param(["c", "a"], "abcd", id="another one was left then: with that"),
    pytest.param(["c", ""], "abcd", id="nothing was left then: at the beginning"),
]


def begins(passes: list[str]) -> str:
    """The runs that a pass selects after passes that each left some of four."""
    world = World()
    for name in "abcd":
        world.run(name).both(1)
    on, index = world.fresh_sweep()._context, FleetIndex(pages=10)
    found = ""
    for left in [*passes, ""]:
        selection = Selection(on, index, ScanPlan.LIST, float("inf"), lambda: None)
        found = "".join(wanted.run_id for wanted in selection.runs(world.now.timestamp()))
        assert selection.close(set(left)) is not bool(left)
        world.after(60)
    return found


@pytest.mark.parametrize(("left", "order"), PASSES)
def test_a_pass_begins_with_the_first_run_that_the_last_one_had_no_time_for(left: list[str], order: str) -> None:
    assert begins(left) == order
