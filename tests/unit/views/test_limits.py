"""Which limits hold for a run, as people are shown it; and what they make doubtful."""

import json
from typing import Any

import pytest

from lastbeat.model.limits import LIMITS
from lastbeat.model.policy import Policy
from lastbeat.views.one_run import RunWatch
from lastbeat.views.run_document import run_document
from support.fleet_views import Looked
from support.there import there
from support.world import RUN, World

MINUTE = 60.0


def limit(store: Any, *entries: dict[str, Any]) -> None:
    store.put_text(LIMITS, json.dumps({"schema": 1, "limits": list(entries)}))


def shown(world: World, policy: Policy | None = None) -> tuple[list[str], dict[str, Any]]:
    view = there(RunWatch(world.store, policy or world.policy, RUN).look())
    return [each.text for each in view.limits], dict(run_document(view))


@pytest.mark.parametrize(
    ("policy", "entries", "fields", "told", "stale_s"),
    [
        pytest.param(Policy(), [], {}, ["stale after 10m (settings here)",
                     "no stall limit (settings here)"], 600, id="nobody said anything"),
        pytest.param(Policy(stall_s=300), [{"runs": "mistral-*", "stale_minutes": 20, "stall_minutes": 0}], {},
                     ["stale after 20m (fleet limit for mistral-*)",
                      "no stall limit (fleet limit for mistral-*)"], 1200, id="the fleet did"),
        pytest.param(Policy(), [{"runs": "*", "stale_minutes": 20}], {"stale_minutes": 90, "stall_minutes": 2.5},
                     ["stale after 90m (its own)", "stalled after 2.5m (its own)"], 5400, id="the run itself did"),
        pytest.param(Policy(), [{"runs": "*", "stale": "learned", "start_minutes": 15}],
                     {"beat_seconds": 30, "longest_gap_s": 35},
                     ["learned from its beats: stale after 4m 10s (fleet limit for *)",
                      "stale after 10m (settings here)", "no stall limit (settings here)",
                      "to begin within 15m (fleet limit for *)"], 250, id="and what is learned"),
    ],
)  # fmt: skip
def test_each_limit_is_shown_with_where_it_comes_from(
    policy: Policy, entries: list[dict[str, Any]], fields: dict[str, Any], told: list[str], stale_s: float
) -> None:
    world = World()
    limit(world.store, *entries)
    world.beat(**fields)
    texts, document = shown(world, policy)
    assert texts == told
    assert [each["text"] for each in document["limits"]] == told
    assert document["stale_s"] == stale_s
    assert document["exceeded"] is None


def test_what_decided_is_told_beside_what_holds_now() -> None:
    world = World(Policy(stale_s=120.0))
    world.both(1)
    world.look()
    world.after(3 * MINUTE)
    world.look()
    texts, document = shown(world, Policy())
    assert "stale after 10m (settings here)" in texts
    assert document["exceeded"]["text"] == "stale after 2m (settings here)"


def test_limits_that_cannot_be_read_are_told_and_a_first_look_says_nothing() -> None:
    world = World()
    world.both(1)
    world.after(20 * MINUTE)
    world.store.put_text(LIMITS, "{")
    _, document = shown(world)
    assert document["run"]["status"] == "UNKNOWN"
    assert any("The fleet's limits cannot be read" in note for note in document["notes"])


@pytest.mark.parametrize(
    ("entry", "own", "doubted"),
    [
        pytest.param({}, {}, True, id="by the settings of who looks"),
        pytest.param({"stale_minutes": 60}, {}, False, id="by the fleet's"),
        pytest.param({}, {"stale_minutes": 60}, False, id="by the run's own"),
        pytest.param({"stale_minutes": 5}, {"stale_minutes": 60}, False, id="which outranks the fleet's"),
    ],
)
def test_a_fleet_s_rows_are_doubted_by_the_limit_that_holds(
    entry: dict[str, Any], own: dict[str, Any], doubted: bool
) -> None:
    looked = Looked()
    looked.run("m-1").beat(**own)
    looked.run("m-1").progress(1)
    looked.passes(mark=False)
    if entry:
        limit(looked.store, {"runs": "m-*", **entry})
    looked.after(30 * MINUTE)
    assert (looked.row("m-1").doubt is not None) == doubted


def test_a_page_that_stays_open_reads_limits_when_they_change() -> None:
    looked = Looked(paid=True)
    looked.beats("m-1")
    looked.passes()
    limit(looked.store, {"runs": "m-*", "stale_minutes": 60})
    looked.table.open()
    assert looked.asked()[LIMITS] == 1
    for _ in range(20):
        looked.after(10)
        looked.beats("m-1")
        looked.table.round()
    assert looked.asked()[LIMITS] == 0
    limit(looked.store, {"runs": "m-*", "stale_minutes": 5})
    for _ in range(4):
        looked.table.round()
    assert looked.asked()[LIMITS] == 1
