"""What watchers leave to ``lastbeat exec --max-restarts``, and what they tell of it."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.model.cause import Cause, Evidence, Explanation
from lastbeat.model.heartbeat import Heartbeat, OpenSection
from lastbeat.model.in_place import InPlace
from lastbeat.model.log_report import LogReport
from lastbeat.model.observation import Seen, Sentinel
from lastbeat.model.policy import Policy
from lastbeat.model.status import FAILURE_IN_LOG, LOSS_NAN, Event, Status
from lastbeat.watch.decide.in_place import still_late
from lastbeat.watch.decide.late_sections import LateSection
from lastbeat.watch.decide.transition import Decision, decide

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
STARTER = InPlace("job-0", 0, 3, 120.0)
POLICY = Policy(stale_s=600.0, alert_on=frozenset({Event.FAILED, Event.TIMED_OUT, Event.RECOVERED, Event.WARNING}))


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def beat(seconds: float, attempt: int, starter: InPlace | None, *sections: OpenSection) -> Heartbeat:
    began = at(100.0 * (attempt - 1))
    return Heartbeat(
        at(seconds), f"m{seconds}", own_time=at(seconds), beat_s=30.0, start_time=began, attempt=attempt,
        in_place=starter, sections=sections,
    )  # fmt: skip


def progress(seconds: float, step: int) -> Heartbeat:
    return Heartbeat(at(seconds), f"p{seconds}", own_time=at(seconds), step=step)


LATE = [
    pytest.param(None, 10.0, True, id="nobody starts it again: at once"),
    pytest.param(STARTER, 10.0, False, id="who starts it again has time for that"),
    pytest.param(STARTER, 119.0, False, id="as long as it says that this takes"),
    pytest.param(STARTER, 121.0, True, id="and no longer"),
]


@pytest.mark.parametrize(("starter", "over_s", "told"), LATE)
def test_a_hang_is_left_to_who_starts_it_again(starter: InPlace | None, over_s: float, told: bool) -> None:
    late = (LateSection(3, OpenSection("step", 60 + over_s, 60.0), 60 + over_s, 60.0, silent=False),)
    assert bool(still_late(late, starter)) is told
    section = OpenSection("step", 60 + over_s, 60.0)
    first = decide(None, "r", Seen(metadata=beat(0.0, 1, starter)), POLICY, at(1.0))
    second = decide(first.record, "r", Seen(metadata=beat(30.0, 1, starter, section)), POLICY, at(31.0))
    assert second.verdict.status is (Status.TIMED_OUT if told else Status.RUNNING)


def looks(*shown: tuple[float, Seen]) -> list[Decision]:
    """The decisions of looks, each with the record of the last one."""
    found, record = list[Decision](), None
    for when, seen in shown:
        found.append(decide(record, "r", seen, POLICY, at(when)))
        record = found[-1].record
    return found


def test_one_alert_tells_of_restarts_in_place_when_it_goes_on() -> None:
    again, third = (replace(STARTER, token=f"job-{n}", restarts=n, left=3 - n) for n in (1, 2))
    found = looks(
        (1.0, Seen(metadata=beat(0.0, 1, STARTER), progress=progress(0.5, 1200))),
        (101.0, Seen(metadata=beat(100.5, 2, again), progress=progress(0.5, 1200))),
        (201.0, Seen(metadata=beat(200.5, 3, third), progress=progress(0.5, 1200))),
        (231.0, Seen(metadata=beat(230.5, 3, third), progress=progress(230.0, 1500))),
        (261.0, Seen(metadata=beat(260.5, 3, third), progress=progress(260.0, 1600))),
    )
    assert [each.verdict.status for each in found] == [Status.RUNNING] * 5
    assert [each.record.attempt.number for each in found] == [1, 2, 3, 3, 3]
    assert [each.events for each in found] == [(), (), (), (Event.RESTARTED,), ()]
    assert found[3].verdict.reason == "restarted in place 2 times, now at step 1,500"
    assert found[3].must_write
    assert found[3].record.in_place_told == 3


def test_who_looks_seldom_tells_at_once() -> None:
    again = replace(STARTER, restarts=2, left=1)
    found = looks(
        (1.0, Seen(metadata=beat(0.0, 1, STARTER), progress=progress(0.5, 1200))),
        (301.0, Seen(metadata=beat(300.0, 3, again), progress=progress(290.0, 1500))),
        (601.0, Seen(metadata=beat(600.0, 3, again), progress=progress(590.0, 1700))),
    )
    assert [each.events for each in found] == [(), (Event.RESTARTED,), ()]
    assert found[1].verdict.reason == "restarted in place 2 times, now at step 1,500"


def test_one_that_makes_no_step_is_told_of_in_the_end() -> None:
    again = replace(STARTER, restarts=1, left=2)
    found = looks(
        (1.0, Seen(metadata=beat(0.0, 1, STARTER))),
        (101.0, Seen(metadata=beat(100.5, 2, again))),
        (300.0, Seen(metadata=beat(299.0, 2, again))),
        (402.0, Seen(metadata=beat(401.0, 2, again))),
        (432.0, Seen(metadata=beat(431.0, 2, again))),
    )
    assert [each.events for each in found] == [(), (), (), (Event.RESTARTED,), ()]
    assert found[3].verdict.reason == "restarted in place once, no step since"


def test_who_gives_up_says_so_and_that_counts_at_once() -> None:
    error = Sentinel(at(50.0), "e", 10, "RuntimeError: NCCL error")
    found = looks(
        (1.0, Seen(metadata=beat(0.0, 1, STARTER))), (60.0, Seen(metadata=beat(40.0, 1, STARTER), error=error))
    )
    assert [each.verdict.status for each in found] == [Status.RUNNING, Status.FAILED]
    assert found[1].events == (Event.FAILED,)


LOGGED = [
    pytest.param(STARTER, 10.0, False, id="who starts it again has time for that"),
    pytest.param(STARTER, 125.0, True, id="and no longer: it got stuck there"),
]


def warnings_of(starter: InPlace | None, error_type: str, step_s: float) -> list[str]:
    """Of what looks each half a minute warn in an hour after an error in the log that ended nothing."""
    line = Cause(error_type, Evidence("logs/r1.log", 7, "what it says"), 0.8)
    logs = LogReport(written_at=at(20.0), shown_at=at(20.0), explanation=Explanation(line))
    found = looks(
        *(
            (
                float(when),
                Seen(metadata=beat(when - 0.5, 1, starter), progress=progress(step * step_s, step), logs=said),
            )
            for when, said in ((19, LogReport()), *((when, logs) for when in range(21, 3621, 30)))
            for step in [int(when // step_s)]
        )
    )
    return [name for each in found if Event.WARNING in each.events for name in each.verdict.conditions]


@pytest.mark.parametrize(("starter", "ago_s", "told"), LOGGED)
def test_a_failure_that_ends_the_log_is_left_to_who_starts_it_again(
    starter: InPlace | None, ago_s: float, told: bool
) -> None:
    line = Cause("communication", Evidence("logs/r1.log", 7, "Connection reset by peer"), 0.8)
    ends = LogReport(written_at=at(20.0), shown_at=at(20.0), explanation=Explanation(line, ended=True))
    *_, last = looks(
        *(
            (when, Seen(metadata=beat(when - 0.5, 1, starter), progress=progress(19.0, 3), logs=logs))
            for when, logs in ((19.5, LogReport()), (21.0, ends), (20.0 + ago_s, ends))
        )
    )
    assert (FAILURE_IN_LOG in last.verdict.conditions or last.verdict.status is Status.FAILED) is told


@pytest.mark.parametrize(
    ("starter", "step_s", "error_type", "condition"),
    [
        pytest.param(None, 30.0, "numerical_instability", LOSS_NAN, id="a NaN, quick steps"),
        pytest.param(STARTER, 300.0, "numerical_instability", LOSS_NAN, id="a NaN, from which no restart follows"),
        pytest.param(STARTER, 30.0, "oom", FAILURE_IN_LOG, id="an error that ended nothing"),
        pytest.param(None, 300.0, "oom", FAILURE_IN_LOG, id="an error that ended nothing, long steps"),
    ],
)
def test_what_ended_nothing_is_told_once_whoever_starts_it_again(
    starter: InPlace | None, step_s: float, error_type: str, condition: str
) -> None:
    assert warnings_of(starter, error_type, step_s) == [condition]
