"""A run whose step does not move: how old its step is, when that is more than normal, and who watches that."""

from datetime import timedelta
from typing import Any

import pytest

from lastbeat.model.policy import Policy
from lastbeat.model.status import Status
from lastbeat.model.view import Row
from lastbeat.views.one_run import RunWatch
from support.fleet_views import HOUR, Looked

RUN = "mistral-7b"
MINUTE = 60.0
STEADY = [(2 * HOUR - number * MINUTE, number * 60) for number in range(60)]
"""A step a second for an hour, until an hour ago; a point a minute."""


def points(looked: Looked, told: list[tuple[float, int]]) -> list[list[float]]:
    now = looked.now.timestamp()
    return [[now - ago_s, step, 2.0] for ago_s, step in told]


def trained(looked: Looked, told: list[tuple[float, int]], *, sections: list[Any] | None = None, **fields: Any) -> None:
    """Training that beats now, and whose points are these."""
    step = told[-1][1] if told else 3540
    looked.beats(
        RUN,
        **{
            "step": step,
            "recent": points(looked, told),
            "eta_s": 99,
            "steps_per_second": 1.0,
            "total_steps": 90_000,
            **fields,
        },
    )
    if sections is not None:
        looked.run(RUN).beat(sections=sections)


def stood_s(looked: Looked, row: Row) -> float:
    assert row.step_at is not None
    return (looked.now - row.step_at).total_seconds()


def rows(looked: Looked) -> list[Row]:
    """As a fleet shows it from its records, from its memory, and as the run alone is shown."""
    view = RunWatch(looked.store, looked.policy, RUN).look()
    assert view is not None
    return [looked.row(RUN, looked.fresh().open()), view.row]


CASES = [
    pytest.param(STEADY, {}, HOUR, True, id="no step for an hour where they came each second"),
    pytest.param([*STEADY, (30 * MINUTE, 3540), (0, 3540)], {}, 61 * MINUTE, True, id="beats that tell the step again"),
    pytest.param([(ago_s - 55 * MINUTE, step) for ago_s, step in STEADY], {}, 6 * MINUTE, False, id="six minutes"),
    pytest.param([(9 * HOUR - HOUR * n, n) for n in range(9)], {}, HOUR, False, id="an hour where each takes an hour"),
    pytest.param([(13 * HOUR - HOUR * n, n) for n in range(9)], {}, 5 * HOUR, True, id="five hours are too long then"),
    pytest.param([(110 * MINUTE - n * 900, n * 500) for n in range(6)], {}, 35 * MINUTE, False,
                 id="a step that is reported every quarter of an hour"),
    pytest.param([(20 * MINUTE, 4)], {}, 20 * MINUTE, False, id="twenty minutes where little is known"),
    pytest.param([(40 * MINUTE, 4)], {}, 40 * MINUTE, True, id="forty minutes are much for any run"),
    pytest.param([], {}, 0.0, False, id="no points, and no watcher knows it for longer"),
    pytest.param(STEADY, {"total_steps": 3541}, HOUR, False, id="the last step: none is to come"),
    pytest.param([(ago_s - 45 * MINUTE, step) for ago_s, step in STEADY],
                 {"sections": [{"name": "evaluation", "open_s": 900}]}, 16 * MINUTE, False,
                 id="an evaluation may take a quarter of an hour"),
    pytest.param(STEADY, {"sections": [{"name": "evaluation", "open_s": 3600}]}, HOUR, True, id="but not an hour"),
]  # fmt: skip


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "not recorded"])
@pytest.mark.parametrize(("told", "fields", "age_s", "still"), CASES)
def test_how_old_the_step_is_and_whether_the_run_stands_still(
    told: list[tuple[float, int]], fields: dict[str, Any], age_s: float, still: bool, recorded: bool
) -> None:
    looked = Looked()
    trained(looked, told, **fields)
    if recorded:
        looked.passes()
    for row in rows(looked):
        assert row.status is Status.RUNNING
        assert stood_s(looked, row) == pytest.approx(age_s, abs=61)
        assert row.stands_still is still
        # What does not move has no end in sight.
        assert (row.eta_s, row.steps_per_s) == ((None, None) if still else (99.0, 1.0))


def test_a_step_that_is_rewritten_without_points_is_as_old_as_watchers_know() -> None:
    looked = Looked()
    for _ in range(5):
        looked.beats(RUN, step=7, eta_s=99)
        looked.passes()
        looked.after(15 * MINUTE)
    looked.beats(RUN, step=7, eta_s=99)
    looked.passes()
    for row in rows(looked):
        assert stood_s(looked, row) == pytest.approx(75 * MINUTE, abs=2)
        assert (row.stands_still, row.eta_s) == (True, None)


def test_a_look_that_goes_on_sees_it_come_to_a_stand() -> None:
    looked = Looked()
    trained(looked, [(ago_s - HOUR + MINUTE, step) for ago_s, step in STEADY])
    looked.passes()
    watch = looked.fresh()
    assert not looked.row(RUN, watch.open()).stands_still
    looked.after(7 * MINUTE)
    watch.round()
    assert not looked.row(RUN, watch.round()).stands_still
    # Nothing is written meanwhile.
    looked.after(1.5 * MINUTE)
    watch.round()
    assert looked.row(RUN, watch.round()).stands_still


@pytest.mark.parametrize(
    ("policy", "sections", "limited"),
    [
        pytest.param(Policy(), None, False, id="no limit at all"),
        pytest.param(Policy(stall_s=9 * HOUR), None, True, id="the watcher's"),
        pytest.param(Policy(inactivity_s=9 * HOUR), None, True, id="a catalogue's"),
        pytest.param(Policy(learns=True), None, True, id="one that is learned"),
        pytest.param(Policy(), [{"name": "step", "open_s": 5, "limit_s": 86400}], True, id="that of a section"),
    ],
)
def test_whether_a_limit_for_standing_still_holds(policy: Policy, sections: list[Any] | None, limited: bool) -> None:
    looked = Looked(policy=policy)
    trained(looked, STEADY, sections=sections)
    assert {row.stall_limited for row in rows(looked)} == {limited}


@pytest.mark.parametrize("skew_s", [0.0, -HOUR])
def test_the_time_before_a_watcher_is_kept_apart(skew_s: float) -> None:
    looked = Looked()
    run = looked.run(RUN, skew_s=skew_s)
    began = looked.now
    start = (began + timedelta(seconds=skew_s)).isoformat()
    looked.after(5 * HOUR)
    run.beat(start_time=start, clock_offset_s=-skew_s)
    seen = looked.now
    looked.passes()
    looked.after(20 * MINUTE)
    run.beat(start_time=start, clock_offset_s=-skew_s)
    looked.passes()
    for row in rows(looked):
        assert (row.since, row.watched_since) == (began, seen)
        assert [(span.since, span.status) for span in row.strip] == [(began, Status.RUNNING)]


@pytest.mark.parametrize(
    ("sections", "stands", "limited"),
    [
        pytest.param([], True, False, id="no limit"),
        pytest.param([{"name": "step", "open_s": 5, "limit_s": 86400}], True, True, id="that of a section"),
        pytest.param([{"name": "evaluation", "open_s": 900}], False, False, id="an evaluation"),
    ],
)
def test_where_reads_cost_money_metadata_is_read_of_runs_that_stand_still(
    sections: list[Any], stands: bool, limited: bool
) -> None:
    looked = Looked(paid=True)
    told = [(ago_s - 40 * MINUTE, step) for ago_s, step in STEADY]
    trained(looked, told, sections=sections)
    looked.beats("lives", recent=points(looked, [(60.0 - n, n) for n in range(60)]), step=59)
    looked.passes()
    looked.asked()
    row = looked.row(RUN, looked.fresh().open())
    assert (row.stands_still, row.stall_limited) == (stands, limited)
    assert looked.asked()[f"{RUN}/metadata.json"] == 1
    looked.asked()
    assert looked.row("lives", looked.fresh().open()).stall_limited is None
    assert looked.asked()["lives/metadata.json"] == 0
