"""Scripted lives, a store that refuses, channels that are down, passes that are killed: everything that
happened is told, nothing else is, and nothing twice but where a process died between sending and writing it down."""

import logging
import random
from dataclasses import replace

import pytest

from support.lives import lives
from support.watched_world import Plan, WatchedWorld

log = logging.getLogger(__name__)

PLANS = {
    "one process goes on until it is killed": Plan(seed=20260104),
    "each pass is a process of its own": Plan(seed=20260105, restarted=True),
}
HUNTED = 10
"""As many stories of each kind a hunt plays, of four times as many lives, with seeds that nobody has seen."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "plan" in metafunc.fixturenames:
        hunt = metafunc.config.getoption("hypothesis_profile", None) == "hunt"
        rows = [(name, plan, n) for name, plan in PLANS.items() for n in range(HUNTED if hunt else 1)]
        ids = [f"{name}, {n}" if hunt else name for name, _, n in rows]
        metafunc.parametrize(("plan", "anew"), [(plan, hunt) for _, plan, _ in rows], ids=ids)


def test_every_transition_is_told_and_nothing_else(plan: Plan, anew: bool) -> None:
    if anew:
        plan = replace(plan, seed=random.SystemRandom().randrange(2**32))
    world = WatchedWorld(lives(plan.seed, 200 if anew else 30), plan)
    report = world.whole_story()
    log.info("%s", world.figures())
    assert world.faults() == [], f"play it again with {plan}"
    assert world.kills == plan.kills
    assert report.blind is None
