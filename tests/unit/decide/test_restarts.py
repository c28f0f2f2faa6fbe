"""Whether a job is started again."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.jobs.restarts.loading import load, names
from lastbeat.model.restart import JobEnd, Mode, RestartDecision, RestartEntry, RestartPolicy, RestartRule
from lastbeat.watch.decide.restart import MOST_PREEMPTIONS, budgets_used, decide_restart, entry

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)
TRANSIENT = load("megatron_transient")
ALSO_ASSERTS = replace(TRANSIENT, also={"cuda_device_side_assert": frozenset({"cuda_device_assert"})})
ASSERT = JobEnd(Mode.CRASH, "torch", "cuda_kernel", "cuda_device_assert")
NCCL = JobEnd(Mode.CRASH, "nccl", "nccl_remote", "nccl_remote_error", cause_key="nccl#1", step=100, checkpoint_step=50)


def decided(
    end: JobEnd, history: tuple[RestartEntry, ...] = (), policy: RestartPolicy | None = TRANSIENT, chance: float = 1.0
) -> RestartDecision:
    return decide_restart(policy, end, history, NOW, delay_s=60.0, chance=chance)


def after(*ends: JobEnd, minutes: float = 30.0) -> tuple[RestartEntry, ...]:
    """The restarts after these ends, the last one ``minutes`` ago."""
    return tuple(entry(end, NOW - timedelta(minutes=minutes * (len(ends) - n))) for n, end in enumerate(ends))


def times(end: JobEnd, count: int) -> tuple[JobEnd, ...]:
    """The same end again and again, a step further each time."""
    return tuple(replace(end, step=100 + n) for n in range(count))


def always(**more: Any) -> RestartPolicy:
    return RestartPolicy("p", {Mode.CRASH: RestartRule("always", 3, **more)})


def selective(**more: Any) -> RestartPolicy:
    return RestartPolicy("p", {Mode.CRASH: RestartRule("selective", 3, **more)})


DECISIONS = [
    ("no policy, no restart", None, NCCL, False, "no restart policy is named: nothing is restarted"),
    ("a hang is a stall that restarts", TRANSIENT, JobEnd(Mode.STALL, "hang"), True,
     "Transient failure detected (error_type=hang)"),
    ("an excluded type never restarts", TRANSIENT, JobEnd(Mode.CRASH, "oom"), False,
     "Permanent failure detected (excluded error_type: oom)"),
    ("an excluded type wins over a signal and a subsystem that are named",
     selective(signals={"s": frozenset({"s"})}, subsystems={"cuda": frozenset({"cuda"})}, excluded=frozenset({"oom"})),
     JobEnd(Mode.CRASH, "oom", "cuda", "s"), False, "Permanent failure detected (excluded error_type: oom)"),
    (
        "all that fits is named: signal, type, subsystem",
        selective(
            signals={"cuda_hang": frozenset({"hang_stated"})},
            error_types=frozenset({"hang"}),
            subsystems={"distributed": frozenset({"nccl"})},
        ),
        JobEnd(Mode.CRASH, "hang", "nccl", "hang_stated"),
        True,
        "Transient failure detected (signal=cuda_hang, error_type=hang, subsystem=distributed)",
    ),
    ("what is not named gets the default", selective(otherwise="restart"), JobEnd(Mode.CRASH, "storage"), True,
     "default_action is restart (error_type=storage)"),
    ("the default is to stop", TRANSIENT, JobEnd(Mode.CRASH, "storage"), False,
     "Permanent failure detected (error_type=storage is not one that this policy restarts)"),
    ("a success is not restarted", TRANSIENT, JobEnd(Mode.SUCCESS), False, "NoRestartPolicy on success"),
    ("a mode without a block is not restarted", selective(otherwise="restart"), JobEnd(Mode.STALL), False,
     "NoRestartPolicy on stall"),
    ("what a person stopped stays stopped, whatever the policy says", load("default"), replace(NCCL, asked_by="ada"),
     False, "stopped by ada: what a person ended is not restarted"),
    ("a scancel by anybody is a crash that this policy restarts", TRANSIENT,
     JobEnd(Mode.CRASH, "cancelled", "slurm", by_scheduler=True), True,
     "Transient failure detected (error_type=cancelled)"),
    (
        "a cause that is too uncertain is unknown",
        TRANSIENT,
        replace(NCCL, confidence=0.3),
        False,
        (
            "Permanent failure detected (error_type=unknown is not one that this policy restarts); nccl is too "
            "uncertain (0.30, below 0.6)"
        ),
    ),
    ("doubt does not restart what is excluded", always(excluded=frozenset({"oom"})),
     JobEnd(Mode.CRASH, "oom", confidence=0.4, exit_code=137), False,
     "Permanent failure detected (excluded error_type: oom, which it may be)"),
    ("nor what it may be as well", always(excluded=frozenset({"oom"})),
     JobEnd(Mode.CRASH, "exception", confidence=0.4, second_type="oom"), False,
     "Permanent failure detected (excluded error_type: oom, which it may be)"),
    ("what is unknown may be excluded too, and an uncertain cause is", always(excluded=frozenset({"unknown"})),
     JobEnd(Mode.CRASH, "exception", confidence=0.4), False,
     "Permanent failure detected (excluded error_type: unknown); exception is too uncertain (0.40, below 0.6)"),
    ("in doubt about what nobody excluded the policy decides", always(excluded=frozenset({"oom"})),
     JobEnd(Mode.CRASH, "exception", confidence=0.4, second_type="data"), True,
     "AlwaysRestartPolicy on crash (error_type=unknown); exception is too uncertain (0.40, below 0.6)"),
    ("the scheduler's word is sure", TRANSIENT, JobEnd(Mode.CRASH, "cancelled", confidence=0.0, by_scheduler=True),
     True, "Transient failure detected (error_type=cancelled)"),
    ("17: the job's own check failed", load("default"), JobEnd(Mode.CRASH, exit_code=17), False,
     "Permanent failure detected (exit status 17: the job's own check found a wrong result)"),
    ("93: the job asks not to be requeued", load("default"), JobEnd(Mode.CRASH, exit_code=93), False,
     "exit status 93: the job asks not to be restarted"),
    ("16: on other hardware, though its type is not named", TRANSIENT, JobEnd(Mode.CRASH, "unknown", exit_code=16),
     True, "exit status 16: the job asks to be resumed on other hardware"),
    ("16 does not get past an excluded type", TRANSIENT, JobEnd(Mode.CRASH, "oom", exit_code=16), False,
     "Permanent failure detected (excluded error_type: oom)"),
    ("a bare device-side assert is torch, which this policy excludes", TRANSIENT,
     JobEnd(Mode.CRASH, "torch", "cuda_kernel", "cuda_device_assert"), False,
     "Permanent failure detected (excluded error_type: torch)"),
    ("a policy may add the signal of a device-side assert to what it restarts", ALSO_ASSERTS, ASSERT, True,
     "Transient failure detected (signal=cuda_device_side_assert)"),
    ("an assert that may be a lack of memory as well is not restarted", ALSO_ASSERTS,
     replace(ASSERT, second_type="oom"), False,
     "Permanent failure detected (excluded error_type: oom, which it may be)"),
    ("an uncertain assert is not restarted", ALSO_ASSERTS, replace(ASSERT, confidence=0.4), False,
     "Permanent failure detected (excluded error_type: torch, which it may be)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "end", "restart", "reason"), [row[1:] for row in DECISIONS], ids=[r[0] for r in DECISIONS]
)
def test_what_a_policy_says(policy: RestartPolicy | None, end: JobEnd, restart: bool, reason: str) -> None:
    found = decided(end, policy=policy)
    assert (found.restart, found.reason) == (restart, reason)


def test_the_fourth_restart_of_three_is_refused() -> None:
    history: tuple[RestartEntry, ...] = ()
    attempts = []
    for end in times(NCCL, 3):
        found = decided(end, history)
        attempts.append((found.restart, found.attempt))
        history = (*history, entry(end, NOW))
    assert attempts == [(True, "1/3"), (True, "2/3"), (True, "3/3")]
    last = decided(replace(NCCL, step=103), history)
    assert (last.restart, last.reason) == (False, "retry budget exhausted (attempt 4/3)")


def test_a_checkpoint_that_advanced_gives_the_restarts_in_a_row_back() -> None:
    spent = after(*times(NCCL, 3))
    assert not decided(NCCL, spent).restart
    assert decided(replace(NCCL, checkpoint_step=51), spent).attempt == "1/3"


@pytest.mark.parametrize("known", [None, 50, 49])
def test_progress_that_is_unknown_or_absent_gives_nothing_back(known: int | None) -> None:
    assert not decided(replace(NCCL, checkpoint_step=known), after(*times(NCCL, 3))).restart


def test_the_first_checkpoint_of_all_is_an_advance() -> None:
    none_yet = replace(NCCL, checkpoint_step=-1)
    assert decided(replace(NCCL, checkpoint_step=10), after(*times(none_yet, 3))).restart


def test_a_later_step_in_the_log_is_no_advance() -> None:
    assert not decided(replace(NCCL, step=99_999), after(*times(NCCL, 3))).restart


def test_modes_are_counted_apart() -> None:
    assert decided(JobEnd(Mode.STALL, "hang"), after(*times(NCCL, 3))).attempt == "1/2"


def test_the_window_counts_restarts_that_progress_gave_back() -> None:
    ends = [replace(NCCL, checkpoint_step=100 * n, cause_key=f"c{n}") for n in range(10)]
    found = decided(replace(NCCL, checkpoint_step=5000), after(*ends))
    assert (found.restart, found.reason) == (False, "retry budget exhausted for 24 h (attempt 11/10)")
    long_ago = after(*ends, minutes=60 * 24.0)
    assert decided(replace(NCCL, checkpoint_step=5000), long_ago).restart


def test_an_error_type_has_a_budget_of_its_own() -> None:
    policy = replace(load("default"), type_budgets={"nccl": 1})
    found = decided(replace(NCCL, step=7), after(NCCL), policy)
    assert (found.restart, found.reason) == (False, "retry budget exhausted for error_type nccl (attempt 2/1)")
    assert decided(JobEnd(Mode.CRASH, "hang"), after(NCCL), policy).restart


def test_a_cause_has_a_budget_of_its_own() -> None:
    policy = replace(load("default"), cause_budget=1)
    assert (
        decided(replace(NCCL, step=7), after(NCCL), policy).reason
        == "retry budget exhausted for this cause (attempt 2/1)"
    )
    assert decided(replace(NCCL, cause_key="nccl#2"), after(NCCL), policy).restart


def test_the_same_cause_at_the_same_step_stops_early_and_says_so() -> None:
    policy = load("megatron_aggressive")
    assert decided(NCCL, after(NCCL), policy).restart
    found = decided(NCCL, after(NCCL, NCCL), policy)
    assert (found.restart, found.reason) == (
        False,
        "the same cause at the same step 3 times in a row (error_type=nccl, step 100): a restart does not help",
    )


@pytest.mark.parametrize("other", [{"step": 99}, {"step": None}, {"cause_key": "another"}, {"cause_key": ""}], ids=str)
def test_another_step_or_cause_or_an_unknown_one_goes_on(other: dict[str, Any]) -> None:
    policy = load("megatron_aggressive")
    assert decided(replace(NCCL, **other), after(NCCL, NCCL), policy).restart


@pytest.mark.parametrize("error_type", ["cancelled", "hardware"])
def test_what_came_from_outside_may_come_at_the_same_step_until_the_budget_ends(error_type: str) -> None:
    end = replace(NCCL, error_type=error_type, cause_key=error_type)
    policy = load("megatron_transient")
    assert decided(end, after(end, end), policy).restart
    assert decided(end, after(end, end, end), policy).reason == "retry budget exhausted (attempt 4/3)"


def test_a_node_that_failed_first_twice_is_excluded() -> None:
    once, twice = replace(NCCL, node="n1"), replace(NCCL, node="n2", step=7)
    assert decided(once).excluded_nodes == ()
    assert decided(once, after(twice)).excluded_nodes == ()
    assert decided(once, after(replace(once, step=9), twice)).excluded_nodes == ("n1",)


def test_nodes_with_slow_ranks_are_left_where_the_policy_says_so() -> None:
    policy = RestartPolicy("p", {Mode.CRASH: RestartRule("always", None)})
    leaves = replace(policy, exclude_stragglers=True)
    slow, later = replace(NCCL, slow_nodes=("n7", "n2")), replace(NCCL, step=9)
    assert decided(slow, (), policy).excluded_nodes == ()
    assert decided(slow, (), leaves).excluded_nodes == ("n2", "n7")
    assert decided(later, after(slow), leaves).excluded_nodes == ("n2", "n7"), "no watcher has seen them well since"
    preempted = JobEnd(Mode.PREEMPTED, "cancelled", slow_nodes=("n3",))
    assert decided(preempted, after(slow), leaves).excluded_nodes == ("n2", "n3", "n7")
    many = replace(NCCL, slow_nodes=tuple(f"n{number}" for number in range(40)))
    assert len(decided(many, (), leaves).excluded_nodes) == 8


def test_broken_hardware_is_left_at_once() -> None:
    found = decided(JobEnd(Mode.CRASH, "hardware", node="n3"))
    assert (found.restart, found.excluded_nodes, found.other_hardware) == (True, ("n3",), True)


def test_a_node_whose_device_is_in_doubt_is_left_and_others_may_serve_again() -> None:
    end = JobEnd(Mode.CRASH, "numerical_instability", exit_code=16)
    assert decided(end).other_hardware
    found = decided(replace(end, suspect_nodes=("n3", "n4")))
    assert (found.restart, found.excluded_nodes, found.other_hardware) == (True, ("n3", "n4"), False)
    assert found.reason.endswith("on other hardware than that of n3, n4")


def test_a_node_that_the_scheduler_lost_is_left_at_once() -> None:
    found = decided(JobEnd(Mode.CRASH, "slurm_failure", "slurm", by_scheduler=True, node="n3", node_lost=True))
    assert (found.restart, found.excluded_nodes) == (True, ("n3",))


@given(st.integers(0, 60), st.floats(0, 1, exclude_max=True))
def test_the_delay_is_anywhere_below_a_limit_that_doubles(count: int, chance: float) -> None:
    unlimited = RestartPolicy("p", {Mode.CRASH: RestartRule("always", None)}, window_restarts=None)
    found = decided(replace(NCCL, cause_key=""), after(*times(NCCL, count), minutes=1), unlimited, chance)
    limit_s = min(60.0 * 2.0**count, 1800.0)
    assert found.restart
    assert found.delay_s == pytest.approx(chance * limit_s, abs=0.06)


ENDS = st.builds(
    JobEnd,
    st.sampled_from(Mode),
    st.sampled_from(["nccl", "hang", "oom", "cancelled", "unknown", "hardware", "time_limit"]),
    cause_key=st.sampled_from(["", "a", "b"]),
    confidence=st.sampled_from([0.0, 0.5, 1.0]),
    second_type=st.none() | st.sampled_from(["oom", "nccl", "exception"]),
    step=st.none() | st.integers(0, 5),
    checkpoint_step=st.none() | st.integers(-1, 5),
    node=st.none() | st.sampled_from(["n1", "n2"]),
    exit_code=st.none() | st.sampled_from([1, 16, 17, 93, 137]),
    asked_by=st.none() | st.just("ada"),
)


@given(st.sampled_from(names()), st.lists(st.tuples(ENDS, st.floats(0, 5e5)), max_size=60))
def test_whatever_happens_no_budget_is_overrun(name: str, ends: list[tuple[JobEnd, float]]) -> None:
    policy = load(name)
    history: list[RestartEntry] = []
    now = NOW
    for end, passed_s in ends:
        now += timedelta(seconds=passed_s)
        found = decide_restart(policy, end, history, now, delay_s=60.0, chance=0.5)
        if not found.restart:
            continue
        rule = policy.rule(end.mode)
        assert rule.kind != "never"
        assert end.asked_by is None
        assert not {end.error_type, end.second_type} & rule.excluded
        history.append(entry(end, now))
        assert policy.window_restarts is not None
        assert all(not budget.exhausted for budget in found.budgets)
        recent = [each for each in history if each.at > now - timedelta(seconds=policy.window_s)]
        preempted = [each for each in recent if each.mode is Mode.PREEMPTED]
        assert len(recent) - len(preempted) <= policy.window_restarts
        assert len(preempted) <= MOST_PREEMPTIONS
        if end.mode is not Mode.PREEMPTED:
            assert rule.max_retries is not None
            assert found.budgets[0].used <= rule.max_retries


@given(st.sampled_from(names()), st.lists(st.tuples(ENDS, st.floats(0, 5e5)), max_size=20), ENDS)
def test_a_preemption_changes_nothing_of_what_is_decided_about_failures(
    name: str, ends: list[tuple[JobEnd, float]], last: JobEnd
) -> None:
    history: list[RestartEntry] = []
    now = NOW
    for end, passed_s in ends:
        now += timedelta(seconds=passed_s)
        history.append(entry(end, now))
    if last.mode is Mode.PREEMPTED:
        return
    without = [each for each in history if each.mode is not Mode.PREEMPTED]
    decided_with, decided_without = (
        decide_restart(load(name), last, each, now, delay_s=60.0, chance=0.5) for each in (history, without)
    )
    assert decided_with == decided_without


PREEMPTED = JobEnd(Mode.PREEMPTED, "cancelled", step=1500, checkpoint_step=None, node="n1")


def test_whoever_restarts_anything_starts_a_preempted_run_again() -> None:
    assert decided(PREEMPTED, policy=load("default")).restart
    only = RestartPolicy("p", {Mode.STALL: RestartRule("always", 1)})
    assert decided(PREEMPTED, policy=only).restart
    nothing = RestartPolicy("p", {Mode.CRASH: RestartRule("never")})
    assert decided(PREEMPTED, policy=nothing).reason == "NoRestartPolicy on preempted"
    said = RestartPolicy("p", {Mode.CRASH: RestartRule("always", 1), Mode.PREEMPTED: RestartRule("never")})
    assert not decided(PREEMPTED, policy=said).restart
    assert not decided(replace(PREEMPTED, asked_by="ada"), policy=load("default")).restart
    assert not decided(replace(PREEMPTED, exit_code=93), policy=load("default")).restart


def test_a_job_that_is_preempted_as_soon_as_it_begins_is_not_started_for_ever() -> None:
    often = after(*[PREEMPTED] * MOST_PREEMPTIONS, minutes=1)
    assert not decided(PREEMPTED, often, load("default")).restart
    assert decided(PREEMPTED, often, load("default")).reason.startswith(
        "retry budget exhausted for preemptions in 24 h"
    )
    days = after(*[PREEMPTED] * MOST_PREEMPTIONS, minutes=60)
    assert decided(PREEMPTED, days, load("default")).restart


@given(st.sampled_from(names()), st.lists(st.tuples(ENDS, st.floats(0, 5e5)), max_size=20), ENDS)
def test_what_is_told_of_budgets_is_what_the_next_decision_counts(
    name: str, ends: list[tuple[JobEnd, float]], last: JobEnd
) -> None:
    policy = load(name)
    history: list[RestartEntry] = []
    now = NOW
    for end, passed_s in ends:
        now += timedelta(seconds=passed_s)
        history.append(entry(end, now))
    found = decide_restart(policy, last, history, now, delay_s=60.0, chance=0.5)
    told = {each.name: each for each in budgets_used(policy, history, last.checkpoint_step, now)}
    assert all(each.limit is None or each.left == max(0, each.limit - each.used) for each in told.values())
    for budget in found.budgets:
        if budget.name != "this cause":
            known = told.get(budget.name)
            if known is None:
                assert last.mode is Mode.PREEMPTED, "of preemptions nothing is told before there was one"
                assert budget.used == 1
            else:
                assert (known.used + 1, known.limit) == (budget.used, budget.limit)


def test_a_cause_that_is_too_uncertain_is_still_the_same_one() -> None:
    unsure = JobEnd(Mode.CRASH, "storage", confidence=0.5, cause_key="storage boom", step=7)
    policy = load("megatron_aggressive")
    history = [entry(unsure, NOW), entry(unsure, NOW)]
    found = decide_restart(policy, unsure, history[:1], NOW, delay_s=0, chance=0)
    assert (found.restart, "storage is too uncertain" in found.reason) == (True, True)
    stuck = decide_restart(policy, unsure, history, NOW, delay_s=0, chance=0)
    assert (stuck.restart, stuck.reason) == (
        False,
        "the same cause at the same step 3 times in a row (error_type=unknown, step 7): a restart does not help",
    )
