"""What a restart policy would have made of histories: decided by the one that decides, and worth what came of it."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.jobs.restarts.loading import load, names
from lastbeat.lab.backtest import Backtest, Hindsight, PastDecision, backtest
from lastbeat.model.record import Attempt, HeartbeatMemory, Record, Transition
from lastbeat.model.restart import JobEnd, Mode, RestartEntry, RestartPolicy
from lastbeat.model.status import Status
from lastbeat.model.timesheet import AttemptTimes, Timesheet
from lastbeat.watch.decide.past_run import past_run
from lastbeat.watch.decide.restart import decide_restart, entry

START = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
TRANSIENT = load("megatron_transient")
RUNNING, FAILED, TIMED_OUT = Status.RUNNING, Status.FAILED, Status.TIMED_OUT
SUCCEEDED, CANCELLED = Status.SUCCEEDED, Status.CANCELLED
BEGUN, AGAIN = (0.0, RUNNING, 1, None, 0), (5.0, RUNNING, 2, None, 150)
DONE = (9.0, SUCCEEDED, 2, None, 900)
STOOD = "no new step for 25m (limit 10m, twice exceeded)"


def run(*told: tuple[float, Status, int, str | None, int | None], reason: str = "boom", **more: object) -> Record:
    """Its transitions: hours since the start, status, attempt, cause, step."""
    history = tuple(
        Transition(number, START + hours * HOUR, None, after, reason, attempt, cause, step=step)
        for number, (hours, after, attempt, cause, step) in enumerate(told, 1)
    )
    last = max((attempt for _, _, attempt, _, _ in told), default=1)
    return replace(
        Record("run", attempt=Attempt(last), history=history, transitions=len(history)),
        **more,  # type: ignore[arg-type]
    )


def decided(record: Record, policy: RestartPolicy = TRANSIENT, delay_s: float = 0.0) -> list[PastDecision]:
    return list(backtest(policy, past_run(record), delay_s))


def one(record: Record, policy: RestartPolicy = TRANSIENT, delay_s: float = 0.0) -> PastDecision:
    return decided(record, policy, delay_s)[0]


WORTH = [
    pytest.param(run(BEGUN, (2, FAILED, 1, "nccl", 200), AGAIN, DONE), True, Hindsight.SAVED, 3.0, 300,
                 id="a person started it again after three hours, in which 300 steps fit"),
    pytest.param(
        run((0, RUNNING, 1, None, None), (2, FAILED, 1, "nccl", None), (5, RUNNING, 2, None, None),
            (9, SUCCEEDED, 2, None, None)),
        True, Hindsight.SAVED, 3.0, None, id="no step was recorded: the hours are known, the steps are not"),
    pytest.param(run(BEGUN, (2, FAILED, 1, "nccl", 200), AGAIN, (6, FAILED, 2, "nccl", 200)), True, Hindsight.WASTED,
                 1.0, 50, id="it died again of the same cause, no further on"),
    pytest.param(run(BEGUN, (2, FAILED, 1, "nccl", 200), AGAIN, (6, FAILED, 2, "nccl", 201)), True, Hindsight.SAVED,
                 3.0, 300, id="the same cause, a step further"),
    pytest.param(run(BEGUN, (2, FAILED, 1, "nccl", 200), (5, RUNNING, 2, None, None), (6, FAILED, 2, "nccl", None)),
                 True, Hindsight.UNKNOWN, None, None, id="the same cause, and nobody knows how far it got"),
    pytest.param(
        run(BEGUN, (2, FAILED, 1, "nccl", 200), (5, RUNNING, 2, None, 10),
            progress=HeartbeatMemory(START, step=150)),
        True, Hindsight.UNKNOWN, None, None, id="it lives, and has not come as far yet"),
    pytest.param(run(BEGUN, (2, FAILED, 1, "oom", 200), AGAIN, DONE), False, Hindsight.MISSED, 3.0, None,
                 id="stopped, and somebody mended it"),
    pytest.param(run(BEGUN, (2, FAILED, 1, "oom", 200), AGAIN, (7, FAILED, 2, "oom", 200)), False, Hindsight.SPARED,
                 2.0, 50, id="stopped, and whoever tried again did so in vain"),
    pytest.param(run(BEGUN, (2, TIMED_OUT, 1, None, 200), (3, RUNNING, 1, None, 250)), True, Hindsight.BACK, None, None,
                 id="it was only silent for a while"),
    pytest.param(run(BEGUN, (2, SUCCEEDED, 1, None, 200)), False, Hindsight.DONE, None, None, id="it ended well"),
    pytest.param(run(BEGUN, (2, CANCELLED, 1, "cancelled", 200), reason="Stopped by ada@x: wrong"),
                 False, Hindsight.ASKED, None, None, id="a person ended it"),
]  # fmt: skip


@pytest.mark.parametrize(("record", "restart", "hindsight", "hours", "steps"), WORTH)
def test_what_a_decision_would_have_been_worth(
    record: Record, restart: bool, hindsight: Hindsight, hours: float | None, steps: int | None
) -> None:
    found = one(record)
    assert (found.decision.restart, found.hindsight, found.steps) == (restart, hindsight, steps)
    assert found.seconds == (None if hours is None else pytest.approx(hours * 3600))


ENDS = [
    pytest.param((2, TIMED_OUT, 1, None, 5), "Both heartbeats stale (>10m)", Mode.TIMEOUT, "timeout",
                 id="who fell silent is gone"),
    pytest.param((2, TIMED_OUT, 1, None, 5), STOOD, Mode.STALL, "hang", id="who stood still hangs"),
    pytest.param((2, TIMED_OUT, 1, "hang", 5), "x", Mode.STALL, "hang", id="also where a log says so"),
    pytest.param((2, FAILED, 1, None, 5), "boom", Mode.CRASH, "unknown", id="a failure without a cause"),
    pytest.param((2, FAILED, 1, "time_limit", 5), "job 8: TIMEOUT", Mode.TIMEOUT, "time_limit", id="its time was over"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "reason", "mode", "error_type"), ENDS)
def test_how_an_attempt_ended_is_derived_from_its_transition(
    told: tuple[float, Status, int, str | None, int | None], reason: str, mode: Mode, error_type: str
) -> None:
    (end,) = past_run(run(BEGUN, told, reason=reason)).ends
    assert (end.end.mode, end.end.error_type, end.end.step) == (mode, error_type, 5)


def test_an_unsure_cause_counts_as_unknown_where_its_sureness_was_recorded() -> None:
    record = run(BEGUN, (2, FAILED, 1, "nccl", 5))
    unsure = replace(record, history=(record.history[0], replace(record.history[1], confidence=0.1)))
    assert (one(record).decision.restart, one(unsure).decision.restart) == (True, False)


def test_what_lastbeat_decided_then_is_known_as_it_was() -> None:
    record = run(BEGUN, (2, FAILED, 1, "slurm_failure", 5), (3, RUNNING, 2, None, None))
    kept = RestartEntry(START + 2 * HOUR, Mode.TIMEOUT, "time_limit", "key", 7, 4, "n1")
    (end, *_) = past_run(replace(record, restarts=(kept,))).ends
    assert end.end == JobEnd(Mode.TIMEOUT, "time_limit", cause_key="key", step=7, checkpoint_step=4, node="n1")


def test_a_timesheet_knows_when_it_died_and_from_where_the_next_one_went_on() -> None:
    sheet = Timesheet((
        AttemptTimes(1, submitted_at=START, first_step=1, first_step_at=START + HOUR, last_step=101,
                     last_step_at=START + 2 * HOUR, died_at=START + 2 * HOUR),
        AttemptTimes(2, submitted_at=START + 6 * HOUR, resumed_from=80, last_step=300),
    ))  # fmt: skip
    record = run(
        (0, RUNNING, 1, None, None), (3, FAILED, 1, "nccl", None), (7, RUNNING, 2, None, None), timesheet=sheet
    )
    found = one(record)
    assert (found.past.end.step, found.past.end.checkpoint_step, found.past.died_at) == (101, 80, START + 2 * HOUR)
    assert (found.hindsight, found.seconds, found.steps) == (Hindsight.SAVED, 3 * 3600, 300)


def test_budgets_and_windows_are_as_they_would_have_been() -> None:
    told: list[tuple[float, Status, int, str | None, int | None]] = []
    for number in range(5):
        told += [(2 * number, RUNNING, number + 1, None, None), (2 * number + 1, FAILED, number + 1, "nccl", None)]
    reasons = [each.decision.reason for each in decided(run(*told))]
    again = "Transient failure detected (error_type=nccl)"
    assert reasons == [again, again, again, "retry budget exhausted (attempt 4/3)", again], "then a person began anew"


TRANSITIONS = st.lists(
    st.tuples(
        st.floats(0, 30),
        st.sampled_from([RUNNING, FAILED, TIMED_OUT, SUCCEEDED, CANCELLED]),
        st.integers(0, 1),
        st.sampled_from([None, "nccl", "oom", "hang", "time_limit", "something new"]),
        st.none() | st.integers(0, 50),
    ),
    max_size=50,
)


@given(st.sampled_from(names()), TRANSITIONS)
def test_whatever_was_recorded_each_decision_is_that_of_the_policy_itself(
    name: str, told: list[tuple[float, Status, int, str | None, int | None]]
) -> None:
    policy, hours, attempt, rows = load(name), 0.0, 1, []
    for passed, after, more, cause, step in told:
        hours, attempt = hours + passed, attempt + more
        rows.append((hours, after, attempt, cause, step))
    past = past_run(run(*rows))
    history: list[RestartEntry] = []
    summary = Backtest(name)
    for each in backtest(policy, past, 60.0):
        again = decide_restart(policy, each.past.end, history, each.past.at, delay_s=60.0, chance=0.5)
        assert each.decision == again
        if not each.past.came_back:
            history = [*history, entry(each.past.end, each.past.at)] if again.restart else []
        assert each.seconds is None or each.seconds >= 0
        assert each.steps is None or each.steps >= 0
        summary.add(each)
    counted = sum(tally.count for tallies in (summary.restarts, summary.stops) for tally in tallies.values())
    assert counted == len(past.ends)
