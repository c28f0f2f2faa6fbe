"""A watcher of one run goes by the fleet's limits; where they cannot be read, no limit decides anything."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from lastbeat.model.limits import LIMITS
from lastbeat.model.policy import Policy
from lastbeat.stores.port import UnreachableError
from lastbeat.watch.record.limits import FleetLimits
from lastbeat.watch.watchdog import Watch
from support.world import RUN, World

MINUTE = 60.0


class LimitedWorld(World):
    """Its watchers go by the fleet's limits."""

    def limit(self, **entry: Any) -> None:
        self.store.put_text(LIMITS, json.dumps({"schema": 1, "limits": [{"runs": "mistral-*", **entry}]}))

    def fresh_watch(self, run_id: str = RUN, **options: Any) -> Watch:
        return super().fresh_watch(run_id, limits=FleetLimits(self.store), **options)


def silent(silent_s: float, policy: Policy | None = None, **limits: Any) -> LimitedWorld:
    world = LimitedWorld(policy)
    if limits:
        world.limit(**limits)
    world.both(1)
    world.look()
    world.after(silent_s)
    return world


@pytest.mark.parametrize(
    ("limits", "silent_s", "status", "source"),
    [
        pytest.param({"stale_minutes": 2}, 121, "TIMED_OUT", "fleet limit for mistral-*", id="a stricter one is held"),
        pytest.param({"stale_minutes": 60}, 50 * MINUTE, "RUNNING", None, id="a laxer one, too"),
        pytest.param(
            {"stall_minutes": 2}, 601, "TIMED_OUT", "settings here", id="of what it does not say, the watcher's"
        ),
        pytest.param({"runs": "llama-*", "stale_minutes": 2}, 121, "RUNNING", None, id="others' are not this run's"),
    ],
)
def test_they_outrank_the_watcher_s(limits: dict[str, Any], silent_s: float, status: str, source: str | None) -> None:
    outcome = silent(silent_s, **limits).look()
    assert outcome.status.value == status
    assert outcome.record is not None
    assert (outcome.record.exceeded.source if outcome.record.exceeded else None) == source


def test_the_run_s_own_outranks_them() -> None:
    world = LimitedWorld()
    world.limit(stale_minutes=2, stall_minutes=1)
    for _ in range(4):
        world.beat(stale_minutes=5, stall_minutes=30)
        world.progress(1)
        assert world.look().status.value == "RUNNING"
        world.after(4 * MINUTE)
    world.after(MINUTE + 1)
    outcome = world.look()
    assert outcome.record is not None
    assert outcome.record.exceeded is not None
    assert (outcome.record.exceeded.source, outcome.record.exceeded.limit_s) == ("its own", 300.0)


def damaged(world: LimitedWorld) -> None:
    world.store.put_text(LIMITS, '{"schema": 1, "limits": [{"runs": "mistral-*", "stale_minutes": "60"}]}')


def silent_store(world: LimitedWorld) -> None:
    world.store.refuse("read", UnreachableError("no answer"), named=LIMITS)


Break = Callable[[LimitedWorld], None]
# Faults of the document and of the store are told apart in unit/record.
breaks = pytest.mark.parametrize("broken", [damaged, silent_store], ids=lambda each: each.__name__)


@breaks
def test_no_limit_decides_where_they_cannot_be_read(broken: Break) -> None:
    world = silent(20 * MINUTE)
    broken(world)
    outcome = world.look()
    assert outcome.status.value == "UNKNOWN"
    assert "The fleet's limits cannot be read" in outcome.reason
    assert outcome.record is not None
    assert outcome.record.status is not None
    assert outcome.record.status.value == "RUNNING", "what was known stands"
    assert world.channel.events == []
    world.store.heal()
    world.store.closed.clear()
    world.store.held.pop(LIMITS, None)
    assert world.look().status.value == "TIMED_OUT"


@breaks
def test_what_no_limit_decides_is_told_all_the_same(broken: Break) -> None:
    world = silent(60)
    broken(world)
    world.error("RuntimeError: CUDA out of memory")
    assert world.look().status.value == "FAILED"
    assert world.channel.events == ["FAILED"]


@breaks
def test_people_are_told_of_a_run_that_nobody_can_judge(broken: Break) -> None:
    world = silent(20 * MINUTE, Policy(blind_s=600.0))
    broken(world)
    for _ in range(3):
        world.look()
        world.after(6 * MINUTE)
    assert len(world.channel.sent) == 1
    assert "limits" in world.channel.sent[0].reason


def test_where_a_heartbeat_is_late_it_reads_them_once_a_minute() -> None:
    world = silent(0)
    world.after(2 * MINUTE)
    before = world.store.calls.count(("read", LIMITS))
    for _ in range(30):
        world.look(restarted=False)
        world.after(5)
    assert world.store.calls.count(("read", LIMITS)) - before == 3
    world.limit(stale_minutes=60)
    world.after(10 * MINUTE)
    assert world.look(restarted=False).status.value == "RUNNING", "a limit that was raised meanwhile is known"
    world.limit(stale_minutes=5)
    world.after(MINUTE)
    assert world.look(restarted=False).status.value == "TIMED_OUT"
