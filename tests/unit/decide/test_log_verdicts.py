"""What logs make of a run at one look: conditions, causes, and what is recorded of them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lastbeat.model.cause import NOTHING, Evidence, Explanation, LostPeer, Warned
from lastbeat.model.observation import Seen
from lastbeat.model.policy import Policy
from lastbeat.model.signal import Absence
from lastbeat.watch.decide.logs import also_seen
from lastbeat.watch.decide.transition import with_explanation
from support.logged import CRASH, DONE, HANG, MAYBE, OOM, Act, Watched
from support.there import there

CHECKPOINTS = Policy(absences=(Absence("checkpoint_overdue", "checkpoint_saved", 600, 300, "Look at the disk."),))


def slow(run: Watched, ago_s: float = 0) -> Explanation:
    line = Evidence("train.log", 88, "STRAGGLER DETECTION WARNING")
    return Explanation(warned=(Warned(line, "Take it out.", run.now - timedelta(seconds=ago_s)),))


@pytest.mark.parametrize(
    ("policy", "steps", "conditions"),
    [
        pytest.param(Policy(), [(0, lambda r: r.beat().log(1, MAYBE))], [["failure_in_log"]],
                     id="a failure of unclear end is named beside RUNNING"),
        pytest.param(Policy(), [(0, lambda r: r.beat().log(1, HANG))], [["stalled"]],
                     id="a hang that the log tells of is a stall"),
        pytest.param(Policy(), [(0, lambda r: r.beat().log(1)), (700, lambda r: r.beat().log())],
                     [[], ["progress_stale"]], id="text without a later step is no progress"),
        pytest.param(Policy(), [(0, lambda r: r.beat().log(1)), (700, lambda r: r.beat()),
                                (300, lambda r: r.beat().log(2)), (700, lambda r: r.beat()),
                                (900, lambda r: r.beat())],
                     [[], ["progress_stale"], [], [], ["progress_stale"]],
                     id="a program that prints a step a quarter of an hour is warned of once"),
        pytest.param(Policy(), [(0, lambda r: r.progress(1).log()), (700, lambda r: r.progress(2))], [[], []],
                     id="a log that stands still beside progress.json is nobody's worry"),
        pytest.param(CHECKPOINTS, [(0, lambda r: r.log(1)), (590, lambda r: r.log(2)), (20, lambda r: r.log(3)),
                                   (30, lambda r: r.log(4, last_seen={"checkpoint_saved": r.now})),
                                   (290, lambda r: r.log(5)), (20, lambda r: r.log(6))],
                     [[], [], ["checkpoint_overdue"], [], [], ["checkpoint_overdue"]],
                     id="a line that has to appear is missed when it is due, and again after the next"),
        pytest.param(CHECKPOINTS, [(0, lambda r: r.beat()), (3600, lambda r: r.beat())], [[], []],
                     id="where no log is read no line is missed"),
        pytest.param(CHECKPOINTS, [(0, lambda r: r.beat().log(1)), (700, lambda r: r.beat().log(2)),
                                   (60, lambda r: r.beat().unreadable()), (60, lambda r: r.beat().log(3))],
                     [[], ["checkpoint_overdue"], ["checkpoint_overdue"], ["checkpoint_overdue"]],
                     id="a log that cannot be read clears nothing"),
        pytest.param(Policy(stall_s=600), [(0, lambda r: r.log(1)), (650, lambda r: r.log())],
                     [[], ["progress_stale", "stalled"]], id="a step in the log that stands still is a stall"),
        pytest.param(Policy(inactivity_s=900), [(0, lambda r: r.beat().log()), (600, lambda r: r.beat().log()),
                                                (600, lambda r: r.beat()), (301, lambda r: r.beat())],
                     [[], [], [], ["stalled"]], id="no new line for the catalogue's limit is a stall"),
        pytest.param(Policy(), [(0, lambda r: r.beat().log(1, slow(r))), (900, lambda r: r.beat().log(2, slow(r, 900))),
                                (60, lambda r: r.beat().unreadable()),
                                (1800, lambda r: r.beat().log(3, slow(r, 2760)))],
                     [["warning_in_log"], ["warning_in_log"], ["warning_in_log"], []],
                     id="what the log warns of is named for half an hour"),
        pytest.param(Policy(inactivity_s=900, stall_s=5000), [(0, lambda r: r.beat().log()),
                                                              (1200, lambda r: r.beat())],
                     [[], []], id="the limit that somebody set outranks the catalogue's"),
    ],
)  # fmt: skip
def test_conditions(policy: Policy, steps: list[tuple[float, Act]], conditions: list[list[str]]) -> None:
    run, raised = Watched(policy), []
    for seconds, act in steps:
        act(run.after(seconds))
        assert run.look() == "RUNNING"
        raised.append(sorted(run.verdict.conditions))
    assert raised == conditions


def test_no_line_for_twice_the_limit_of_the_catalogue_is_a_time_out() -> None:
    run = Watched(Policy(inactivity_s=900))
    run.beat().log(7)
    for _ in range(10):
        status = run.look()
        run.after(200).beat()
    assert status == "TIMED_OUT"
    assert "still at step 7" in run.verdict.reason


def test_a_failure_that_a_log_shows_says_which_line_what_and_what_to_do() -> None:
    run = Watched()
    run.log(10, CRASH).look()
    told = run.verdict
    assert told.reason == "The log shows that the run failed: CUDA out of memory"
    assert (told.cause, told.action, told.explained.cause.evidence.rank) == ("oom", "Use a smaller batch.", 3)


def test_what_an_evil_line_says_is_short() -> None:
    run = Watched()
    evil = Evidence("train.log", 1, "\x1b[31m" + "x\n" * 5000)
    run.log(10, Explanation(replace(OOM, evidence=evil), ended=True)).look()
    assert len(run.verdict.reason) <= 300
    assert "\x1b" not in run.verdict.reason


def test_a_log_that_ends_in_success_is_no_success_but_says_what_to_do() -> None:
    run = Watched()
    run.log(10).look()
    run.after(60).log(explanation=DONE)
    run.look()
    run.after(700)
    assert run.look() == "TIMED_OUT"
    assert "[after training is done]" in run.verdict.reason
    assert "_complete" in (run.verdict.action or "")


def test_what_followed_from_a_cause_that_is_certain_is_not_told_as_another_reading() -> None:
    line = Evidence("r0.log", 9, "Watchdog caught collective operation timeout", rank=0)
    late = replace(OOM, error_type="nccl_timeout", evidence=line, confidence=0.3)
    told = {
        confidence: also_seen(Explanation(replace(OOM, confidence=confidence), (late,), (line,)))
        for confidence in (0.5, 0.9)
    }
    assert [told[0.5][0].split()[0], told[0.9][0].split()[0]] == ["perhaps", "then"]


def test_a_warning_in_the_log_is_told_with_its_line_and_what_to_do() -> None:
    run = Watched()
    run.beat().log(1, slow(run)).look()
    assert run.verdict.conditions == {"warning_in_log": "train.log:88: STRAGGLER DETECTION WARNING"}
    assert (run.verdict.cause, run.verdict.action) == (None, "Take it out.")


def test_the_peer_that_went_away_is_told_first() -> None:
    found = Explanation(replace(OOM, error_type="communication"), peer=LostPeer(3, "host-17"))
    assert also_seen(found)[0] == "a peer died; its own log is not here: rank 3 on host-17"


def test_what_a_closer_reading_finds_is_what_is_told_and_recorded_and_stays() -> None:
    run = Watched()
    run.beat().log(10).look()
    run.after(700).look()
    assert run.last is not None
    assert run.last.needs_explanation
    deep = Explanation(OOM, downstream=(Evidence("r0.log", 9, "Connection closed by peer", rank=0),),
                       alternatives=tuple(replace(OOM, error_type=name) for name in "abcdef"))  # fmt: skip
    decision = with_explanation(run.last, deep)
    assert (decision.verdict.cause, decision.record.cause, decision.record.action) == ("oom", "oom", OOM.hint)
    assert decision.transition is not None
    assert decision.record.history[-1] == decision.transition
    assert decision.transition.cause == "oom"
    shown = there(decision.record.explained)
    assert shown.also_seen == (
        "perhaps a: train.log:120 (rank 3): CUDA out of memory",
        "perhaps b: train.log:120 (rank 3): CUDA out of memory",
        "then r0.log:9 (rank 0): Connection closed by peer",
    )
    run.record = decision.record
    run.after(60).look()
    assert not run.last.needs_explanation
    assert (run.verdict.cause, run.verdict.explained) == ("oom", shown)
    run.after(60).beat().look()
    assert run.verdict.cause is None


@pytest.mark.parametrize(
    ("looks", "idled"),
    [
        pytest.param([(7200, CRASH)], "idled for at most 2h 00m until the time limit",
                     id="the last step was long before"),
        pytest.param([(3600, MAYBE), (3600, CRASH)], "idled for at most 2h 00m until the time limit",
                     id="its line was seen meanwhile, and did not end it for sure"),
        pytest.param([(60, CRASH)], None, id="training made a step a minute ago"),
    ],
)  # fmt: skip
def test_how_long_it_idled_by_what_watchers_saw_where_no_line_tells(
    looks: list[tuple[float, Explanation]], idled: str | None
) -> None:
    run = Watched()
    run.beat().log(10).look()
    for seconds, found in looks:
        run.after(seconds).beat().log(None, found, shown_at=run.now).look()
    assert run.last is not None
    decision = with_explanation(run.last, replace(CRASH, ended_by="the time limit"))
    assert next((line for line in there(decision.verdict.explained).also_seen if "idled" in line), None) == idled


def test_where_it_is_undecided_both_causes_are_recorded_and_the_action_is_about_both() -> None:
    run = Watched()
    run.beat().log(10).look()
    run.after(700).look()
    assert run.last is not None
    unsure = replace(OOM, confidence=0.5, hint="Less of it.")
    other = replace(OOM, error_type="cancelled", confidence=0.25, hint="Ask who.")
    decision = with_explanation(run.last, Explanation(unsure, (other,)))
    both = "If oom: Less of it. If cancelled: Ask who."
    assert (decision.verdict.cause, decision.record.action, decision.verdict.action) == ("oom", both, both)
    shown = there(decision.record.explained)
    assert (shown.cause.error_type, there(shown.second).error_type, shown.also_seen) == ("oom", "cancelled", ())
    elsewhere = replace(other, evidence=Evidence("r0.log", 9, "scancel", rank=0))
    assert also_seen(Explanation(unsure, (elsewhere,))) == ("perhaps cancelled: r0.log:9 (rank 0): scancel",)
    decided = with_explanation(run.last, Explanation(replace(unsure, confidence=0.6), (other,)))
    assert (there(decided.record.explained).second, decided.record.action) == (None, "Less of it.")


def test_a_closer_reading_that_finds_nothing_takes_nothing_away() -> None:
    run = Watched()
    run.log(10, CRASH).look()
    assert run.last is not None
    assert with_explanation(run.last, NOTHING) == run.last
    unknown = Explanation(replace(OOM, error_type="unknown"))
    assert with_explanation(run.last, unknown) == run.last


@pytest.mark.parametrize(
    ("act", "step"),
    [
        pytest.param(lambda r: r.log(7), 7, id="the log tells the step where nothing else does"),
        pytest.param(lambda r: r.log(7).progress(5), 5, id="progress.json outranks the log"),
        pytest.param(lambda r: r.log(7).beat(step=6), 6, id="and so does a step in metadata.json"),
    ],
)
def test_whose_step_counts(act: Act, step: int) -> None:
    run = Watched()
    act(run)
    assert there(Seen(**run.files).knows_step).step == step
