"""An alert says how old the step is that it names."""

import pytest

from lastbeat.alerts.facts import facts
from support.world import World

MINUTE, HOUR = 60.0, 3600.0


def step_in_alert(world: World) -> str:
    return next(fact.value for fact in facts(world.channel.sent[-1]) if fact.label == "Step")


@pytest.mark.parametrize(
    ("stood_s", "text"),
    [
        pytest.param(MINUTE, "7/1000 (0%)", id="a new step"),
        pytest.param(HOUR, "7/1000 (0%), 1h 00m before", id="an hour"),
    ],
)
def test_the_age_of_the_step_stands_beside_it(stood_s: float, text: str) -> None:
    world = World()
    world.beat()
    world.progress(7, loss="NaN", recent=[[world.instance_now.timestamp() - stood_s, 7, 2.0]])
    world.look()
    assert world.channel.events == ["WARNING"]
    assert step_in_alert(world) == text
