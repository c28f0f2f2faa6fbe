"""A fleet that is watched: which runs are too old to be read, and what is read first in each interval."""

import json

import pytest

from lastbeat.model.status import Status
from support.fleet_views import HOUR, Looked, settle


def runs(count: int) -> list[str]:
    return [f"run-{number:04}" for number in range(count)]


@pytest.mark.parametrize("memory", ["there", "lost", "damaged"])
def test_ten_thousand_runs_of_past_months_cost_the_listing_alone(memory: str) -> None:
    looked = Looked(paid=True)
    for number, run_id in enumerate(runs(30)):
        looked.beats(run_id)
        if number % 3 == 0:
            looked.run(run_id).complete()
        elif number % 3 == 1:
            looked.run(run_id).error()
    looked.run("nobody-ever-watched").beat(age_s=90 * 86400)
    looked.passes()
    looked.after(2 * HOUR)
    looked.passes()
    looked.after(40 * 86400)
    looked.beats("lives")
    looked.passes()
    if memory != "there":
        looked.store.held.pop("_watchdog/fleet.json.z")
    if memory == "damaged":
        looked.store.put_text("_watchdog/fleet.json.z", "no archive")
    looked.asked()
    view = looked.table.open()
    asked = looked.asked()
    assert [row.run_id for row in view.rows] == ["lives"]
    assert view.older == 31
    assert {name.partition("/")[0] for name in asked} == {"list", "_watchdog", "lives"}


def test_a_run_that_fell_silent_long_ago_and_was_never_given_up_is_shown() -> None:
    looked = Looked(paid=True)
    looked.beats("forgotten")
    looked.passes()
    looked.store.held.pop("_watchdog/fleet.json.z")
    looked.after(30 * 86400)
    row = looked.row("forgotten")
    assert (row.status, row.doubt) == (Status.RUNNING, "silent for 30d 0h, and no watchdog runs")


def test_only_the_record_tells_that_an_old_run_is_over_and_it_is_read_once() -> None:
    looked = Looked(paid=True)
    looked.beats("by-log")
    looked.passes()
    record = json.loads(looked.store.held["by-log/_watchdog.json"].body)
    looked.run("by-log").put("_watchdog.json", json.dumps({**record, "status": "FAILED"}))
    looked.store.held.pop("_watchdog/fleet.json.z")
    looked.after(3 * 86400)
    looked.asked()
    assert looked.table.open().rows == ()
    assert looked.asked()["by-log/_watchdog.json"] == 1
    assert looked.table.open().older == 1
    assert not [name for name in looked.asked() if name.startswith("by-log/")]
    looked.beats("by-log")
    assert looked.row("by-log").status is Status.FAILED


def test_what_people_see_right_now_is_read_first_and_nobody_is_forgotten() -> None:
    looked = Looked(paid=True)
    looked.beats(*runs(30))
    looked.passes()
    settle(looked.table)
    read: set[str] = set()
    for step in range(2, 30):
        looked.after(60)
        looked.beats(*runs(30), step=step)
        looked.table.round()
        looked.asked()
        looked.table.round(["run-0023"])
        asked = looked.asked()
        assert next(name for name in asked if "progress" in name) == "run-0023/progress.json"
        read |= {name.partition("/")[0] for name in asked if "progress" in name}
    assert read == set(runs(30))


def test_a_change_that_needs_people_is_seen_within_two_rounds_whatever_else_waits() -> None:
    looked = Looked(paid=True)
    looked.beats(*runs(60))
    looked.passes()
    looked.table.open()
    looked.after(60)
    looked.beats(*runs(60), step=2)
    looked.run("run-0050").error()
    looked.passes()
    looked.table.round()
    view = looked.table.round()
    assert (view.rows[0].run_id, view.rows[0].status) == ("run-0050", Status.FAILED)
