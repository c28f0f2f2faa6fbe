"""A fleet that is looked at again and again: what is read, what is not, and what that costs."""

import json
from typing import Any

import pytest

from lastbeat.model.policy import FleetPolicy
from lastbeat.model.status import Status
from lastbeat.model.view import WatchState
from support.fleet_views import HOUR, Looked, settle


def runs(count: int) -> list[str]:
    return [f"run-{number:04}" for number in range(count)]


def test_opening_takes_a_listing_what_passes_left_and_a_read_a_run() -> None:
    looked = Looked(paid=True)
    looked.beats(*runs(20))
    looked.passes()
    looked.asked()
    view = looked.table.open()
    asked = looked.asked()
    assert asked.pop("list") == 1
    assert asked.pop("_watchdog/fleet.json.z") == asked.pop("_watchdog/last_pass.json") == 1
    assert asked == {f"{run_id}/progress.json": 1 for run_id in runs(20)}
    assert (view.unread, len(view.rows), view.at, view.fault) == (0, 20, looked.now, None)
    assert view.watching.last_pass_at == looked.now
    assert not view.watching.overdue


def test_the_phase_is_asked_of_metadata_json_where_progress_json_does_not_tell_it() -> None:
    looked = Looked(paid=True)
    looked.run("old-sdk").both(3)
    looked.run("shell").beat()
    looked.beats("sdk")
    looked.passes()
    looked.asked()
    view = looked.table.open()
    assert {name for name in looked.asked() if name.endswith("metadata.json")} == {
        "old-sdk/metadata.json", "shell/metadata.json",
    }  # fmt: skip
    assert [row.phase for row in view.rows] == ["train"] * 3


def test_the_host_is_read_once_an_attempt_where_reading_costs_something() -> None:
    looked = Looked(paid=True)
    looked.beats("a")
    looked.passes()
    looked.asked()
    settle(looked.table)
    for step in range(2, 12):
        looked.after(60)
        looked.beats("a", step=step)
        looked.table.round()
    assert looked.asked()["a/metadata.json"] == 1
    looked.after(1500)
    run = looked.run("a")
    run.beat(attempt=2, start_time=looked.now.isoformat(), instance_id="i-other")
    run.progress(1, phase="train")
    looked.passes()
    row = looked.row("a", settle(looked.table))
    assert (row.attempt, row.host) == (2, "i-other")


def test_a_history_of_today_is_read_from_its_record_and_an_old_one_is_not() -> None:
    looked = Looked(paid=True)
    looked.beats("quiet", "flaps")
    looked.passes()
    looked.after(30 * HOUR)
    looked.beats("quiet")
    looked.passes()
    looked.beats("flaps")
    looked.passes()
    # Who has timed out is asked by every second pass.
    looked.passes()
    looked.asked()
    view = looked.table.open()
    assert [name for name in looked.asked() if name.endswith("_watchdog.json")] == ["flaps/_watchdog.json"]
    assert [span.status for span in looked.row("flaps", view).strip][-2:] == [Status.TIMED_OUT, Status.RUNNING]
    assert [span.status for span in looked.row("quiet", view).strip] == [Status.RUNNING]


def test_a_fleet_in_parts_is_known_by_the_memories_of_its_parts() -> None:
    looked = Looked(paid=True, fleet=FleetPolicy(fanout_runs=10))
    looked.beats(*runs(40))
    looked.passes()
    parts = looked.fresh_sweep().shards()
    assert len(parts) > 2
    for part in parts:
        looked.fresh_sweep(shard=part).run()
    looked.store.held.pop("_watchdog/fleet.json.z")
    looked.asked()
    assert len(looked.table.open().rows) == 40
    assert not [name for name in looked.asked() if name.endswith("_watchdog.json")]


def test_progress_is_told_while_a_fleet_is_opened() -> None:
    looked = Looked()
    looked.beats(*runs(7))
    looked.passes()
    told: list[tuple[int, int]] = []
    looked.table.open(on_progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (14, 14)


def test_folders_whose_names_no_run_may_have_are_named() -> None:
    looked = Looked()
    looked.store.put_text("<script>/metadata.json", "{}")
    assert looked.table.open().ignored == ("<script>",)


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        pytest.param({"at": "2026-01-01T12:00:00Z", "interval_s": 60}, (60.0, True), id="an hour ago, every minute"),
        pytest.param({"at": "2026-01-01T12:00:00Z", "interval_s": 3600}, (3600.0, False), id="an hour ago, every hour"),
        pytest.param({"at": "x"}, (None, False), id="no mark that can be read"),
    ],
)
def test_passes_that_have_stopped_are_overdue(mark: dict[str, Any], expected: tuple[float | None, bool]) -> None:
    looked = Looked()
    looked.store.put_text("_watchdog/last_pass.json", json.dumps(mark))
    looked.after(HOUR)
    watching = looked.table.open().watching
    assert (watching.interval_s, watching.overdue) == expected


def test_who_watches_single_runs_is_seen_where_no_passes_are_made() -> None:
    looked = Looked()
    looked.beats("a", "b")
    assert looked.table.open().watching == WatchState(), "nobody has ever watched"
    looked.passes(mark=False)
    written = looked.now
    looked.after(300)
    assert looked.fresh().open().watching == WatchState(recorded_at=written)
    looked.passes()
    watching = looked.fresh().open().watching
    assert (watching.last_pass_at, watching.recorded_at) == (looked.now, None), "passes are made"
    looked.after(3 * HOUR)
    assert looked.fresh().open().watching.recorded_at is None, "they have stopped, and nobody else watches"
    looked.beats("a")
    looked.passes(mark=False)
    watching = looked.fresh().open().watching
    assert (watching.overdue, watching.recorded_at) == (True, looked.now)
