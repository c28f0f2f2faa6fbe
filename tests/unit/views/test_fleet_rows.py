"""What a row tells of a run, whoever wrote what of it."""

import json
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lastbeat.model.policy import Policy
from lastbeat.model.status import Status
from support.fleet_views import HOUR, Looked

RUN = "mistral-7b"


@pytest.fixture
def looked() -> Looked:
    return Looked()


def test_a_run_that_lives(looked: Looked) -> None:
    run = looked.run(RUN)
    run.beat(age_s=5, phase="warmup", host="node7")
    run.progress(250, age_s=2, phase="train", eta_s=750, steps_per_second=2, tokens_per_second=512, loss=1.5)
    looked.passes()
    row = looked.row(RUN)
    assert (row.status, row.shown, row.recorded, row.complete) == (Status.RUNNING, "RUNNING", True, True)
    assert (row.phase, row.step, row.total_steps, row.loss) == ("train", 250, 1000, 1.5)
    assert (row.eta_s, row.steps_per_s, row.tokens_per_s) == (750.0, 2.0, 512.0)
    assert row.beat_at == looked.now - timedelta(seconds=2)
    assert (row.host, row.attempt, row.reason, row.doubt, row.fault) == ("i-0abc", 1, "", None, None)


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [
        pytest.param(lambda run: run.error(), Status.FAILED, "RuntimeError: CUDA out of memory", id="that failed"),
        pytest.param(lambda run: run.complete(), Status.SUCCEEDED, "Training completed", id="that is done"),
        pytest.param(lambda run: None, Status.TIMED_OUT, "Both heartbeats stale", id="that fell silent"),
    ],
)
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "that nobody recorded"])
def test_a_run_that_is_over_has_no_time_left(
    looked: Looked, end: Callable[[Any], None], status: Status, reason: str, *, recorded: bool
) -> None:
    run = looked.run(RUN)
    looked.beats(RUN, step=10, eta_s=99, steps_per_second=3)
    if recorded:
        looked.passes()
    end(run)
    looked.after(700)
    if recorded:
        looked.passes()
    row = looked.row(RUN)
    assert (row.status, row.recorded) == (status, recorded)
    assert row.reason.startswith(reason)
    assert (row.step, row.eta_s, row.steps_per_s) == (10, None, None)
    assert row.strip[-1].status is status


def test_why_people_are_warned_is_told(looked: Looked) -> None:
    looked.beats(RUN, loss="NaN")
    looked.passes()
    row = looked.row(RUN)
    assert (row.shown, row.conditions) == ("RUNNING (WARNING)", ("loss_nan",))
    assert row.reason == "the loss is NaN since step 1"
    assert math.isnan(row.loss or 0.0)


def test_a_run_that_stands_still_has_no_speed_and_no_end_in_sight() -> None:
    looked = Looked(policy=Policy(stall_s=600))
    looked.beats(RUN, step=5, eta_s=60, steps_per_second=4)
    looked.passes()
    looked.after(700)
    looked.beats(RUN, step=5, eta_s=60, steps_per_second=4)
    looked.passes()
    row = looked.row(RUN)
    assert (row.shown, row.step) == ("RUNNING (WARNING)", 5)
    assert (row.steps_per_s, row.eta_s) == (None, None)


def test_a_run_that_writes_only_a_log_tells_what_its_record_knows(looked: Looked) -> None:
    run = looked.run(RUN)
    run.log("step 41 loss 2.5\n")
    looked.passes()
    looked.after(60)
    run.log("step 41 loss 2.5\nstep 42 loss 2.4\n")
    looked.passes()
    row = looked.row(RUN)
    assert (row.status, row.beat_at, row.loss, row.losses) == (Status.RUNNING, looked.now, None, ())
    assert row.step in {41, 42}


def test_a_run_that_writes_only_a_log_lives_though_nobody_recorded_it(looked: Looked) -> None:
    looked.run(RUN).log("step 41 loss 2.5\n")
    row = looked.row(RUN)
    assert (row.status, row.recorded, row.beat_at) == (Status.RUNNING, False, looked.now)


# That one is behind, a single look cannot tell from an old document that was uploaded again.
@pytest.mark.parametrize("skew_s", [0.0, 60.0, HOUR])
def test_since_when_a_run_lives_that_nobody_recorded_is_told_by_the_stores_clock(looked: Looked, skew_s: float) -> None:
    began = looked.now
    looked.after(300)
    start = (began + timedelta(seconds=skew_s)).isoformat()
    looked.run(RUN, skew_s=skew_s).beat(start_time=start)
    row = looked.row(RUN)
    assert (row.recorded, row.since) == (False, began)
    assert [span.since for span in row.strip] == [began]


def test_what_an_earlier_attempt_left_behind_is_not_this_ones(looked: Looked) -> None:
    run = looked.run(RUN)
    looked.beats(RUN, step=900)
    looked.passes()
    looked.after(3 * HOUR)
    run.beat(attempt=2, start_time=looked.now.isoformat(), phase="loading")
    looked.passes()
    row = looked.row(RUN)
    assert (row.attempt, row.phase, row.step, row.loss) == (2, "loading", None, None)
    assert [span.attempt for span in row.strip][-1] == 2


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param('{"schema": 1, "sta', "it is not JSON", id="damaged"),
        pytest.param('{"schema": 99}', "written by a newer lastbeat", id="of a newer version"),
        pytest.param("", "it is not JSON", id="empty"),
    ],
)
def test_a_record_that_cannot_be_used_is_said_so_and_what_was_known_stands(
    looked: Looked, body: str, says: str
) -> None:
    looked.beats(RUN)
    looked.passes()
    watch = looked.table
    assert looked.row(RUN, watch.open()).status is Status.RUNNING
    looked.run(RUN).put("_watchdog.json", body)
    known = looked.row(RUN, watch.round())
    assert known.status is Status.RUNNING
    assert says in (known.fault or "")
    looked.store.held.pop("_watchdog/fleet.json.z")
    unknown = looked.row(RUN, looked.fresh().open())
    assert (unknown.status, unknown.step) == (Status.UNKNOWN, 1)
    assert says in (unknown.fault or "")


def test_a_heartbeat_that_cannot_be_understood_leaves_what_was_last_known(looked: Looked) -> None:
    looked.beats(RUN, step=5)
    looked.passes()
    looked.table.open()
    looked.run(RUN).put("progress.json", '{"step": 6, "lo')
    row = looked.row(RUN, looked.table.round())
    assert row.step == 5
    assert (row.fault or "").startswith("progress.json: it is not JSON")
    looked.beats(RUN, step=7)
    assert (looked.row(RUN, looked.table.round()).step, looked.row(RUN).fault) == (7, None)


@pytest.mark.parametrize(
    ("mark_age_s", "silent_s", "doubt"),
    [
        pytest.param(0, 650, None, id="a pass has just been made, and will judge it"),
        pytest.param(0, 3 * HOUR, "silent for 3h 00m, and no pass has judged that", id="no pass judges it"),
        pytest.param(HOUR, 700, None, id="a single watcher may be about to judge it"),
        pytest.param(HOUR, 1000, "silent for 16m, and no watchdog runs", id="passes have stopped"),
        pytest.param(None, 1000, "silent for 16m, and no watchdog runs", id="there never were passes"),
        pytest.param(None, 300, None, id="it is not silent for long enough"),
    ],
)
def test_a_run_that_fell_silent_unjudged_is_doubted(
    looked: Looked, mark_age_s: float | None, silent_s: float, doubt: str | None
) -> None:
    looked.beats(RUN, eta_s=60)
    looked.passes(mark=False)
    looked.after(silent_s)
    if mark_age_s is not None:
        mark = {"at": looked.now.isoformat(), "interval_s": 60}
        at = looked.now - timedelta(seconds=mark_age_s)
        looked.store.put_text("_watchdog/last_pass.json", json.dumps(mark), modified=at)
    row = looked.row(RUN)
    assert (row.status, row.doubt) == (Status.RUNNING, doubt)
    assert row.eta_s == (60.0 if doubt is None else None)


@pytest.mark.parametrize(
    ("passed_s", "mark", "doubt"),
    [
        pytest.param(30, False, None, id="a moment ago"),
        pytest.param(300, False, "it wrote _error, and no watchdog runs", id="five minutes ago, and no watchdog runs"),
        pytest.param(150, True, None, id="two minutes ago, and passes are made"),
        pytest.param(1000, True, "it wrote _error, and no pass has judged that", id="long ago, in spite of passes"),
        pytest.param(200, True, "it wrote _error, and no pass has judged that", id="three passes ago"),
    ],
)
def test_a_run_that_ended_unjudged_is_doubted(looked: Looked, passed_s: float, mark: bool, doubt: str | None) -> None:
    looked.beats(RUN, eta_s=60)
    looked.passes(mark=False)
    looked.after(60)
    looked.run(RUN).error()
    looked.after(passed_s)
    if mark:
        looked.store.put_text("_watchdog/last_pass.json", '{"at": "2026-01-01T12:00:00Z", "interval_s": 60}')
    row = looked.row(RUN)
    assert (row.status, row.doubt) == (Status.RUNNING, doubt)
    # Judged or not, it has no time left.
    assert row.eta_s is None


def test_a_run_that_was_given_up_and_beats_again_unwatched_is_doubted(looked: Looked) -> None:
    looked.beats(RUN)
    looked.passes(mark=False)
    looked.after(HOUR)
    looked.passes(mark=False)
    assert looked.row(RUN).doubt is None
    looked.after(HOUR)
    looked.beats(RUN)
    assert looked.row(RUN).doubt == "it beats again, and no watchdog runs"
