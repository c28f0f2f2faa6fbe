"""Runs with logs over time: when a log fails a run, what takes that back, and what people are told."""

from dataclasses import replace

import pytest

from lastbeat.model.cause import Evidence, Explanation
from support.logged import CRASH, HANG, MAYBE, OOM, Step, Watched, nothing

HISTORIES: list[tuple[str, list[Step], list[str]]] = [
    (
        "a program that was never changed is watched by its log alone, and silence is told",
        [(0, lambda r: r.log(), "RUNNING"), (300, lambda r: r.log(10), "RUNNING"),
         (300, lambda r: r.log(20), "RUNNING"),
         (599, nothing, "RUNNING"), (2, nothing, "TIMED_OUT"), (60, lambda r: r.log(30), "RUNNING")],
        ["TIMED_OUT", "RECOVERED"],
    ),
    (
        "a crash at the end of a log is a failure at once, told once",
        [(0, lambda r: r.log(10), "RUNNING"), (60, lambda r: r.log(explanation=CRASH), "FAILED"),
         (60, nothing, "FAILED"), (900, nothing, "FAILED")],
        ["FAILED"],
    ),
    (
        "a log that fails while metadata.json is still fresh fails the run",
        [(0, lambda r: r.beat().log(10), "RUNNING"), (30, lambda r: r.beat().log(explanation=CRASH), "FAILED"),
         (60, lambda r: r.beat(), "FAILED"), (900, nothing, "FAILED")],
        ["FAILED"],
    ),
    (
        "later steps in the log take the failure back, and the next crash is believed after a while only",
        [(0, lambda r: r.log(10, CRASH), "FAILED"), (30, lambda r: r.log(20), "RUNNING"),
         (60, lambda r: r.log(30), "RUNNING"),
         (60, lambda r: r.log(explanation=Explanation(replace(OOM, evidence=Evidence("train.log", 300, "again"))
                                                      , ended=True)), "RUNNING"),
         (90, nothing, "RUNNING"), (120, nothing, "FAILED")],
        ["FAILED", "RECOVERED", "WARNING", "FAILED"],
    ),
    ("text that shows that training goes on takes the failure back without a step",
     [(0, lambda r: r.log(10, CRASH), "FAILED"), (30, lambda r: r.log(explanation=MAYBE), "RUNNING")],
     ["FAILED", "RECOVERED"]),
    (
        "steps in progress.json acquit a line of the log, and it stays acquitted",
        [(0, lambda r: r.progress(1).log(), "RUNNING"), (60, lambda r: r.log(explanation=CRASH), "FAILED"),
         (90, lambda r: r.progress(2), "RUNNING"), (400, lambda r: r.progress(3), "RUNNING"),
         (400, lambda r: r.progress(4), "RUNNING")],
        ["FAILED", "RECOVERED"],
    ),
    (
        "the last words of a dead process, which come a little later, acquit nothing",
        [(0, lambda r: r.beat().progress(1).log(), "RUNNING"),
         (60, lambda r: r.beat().progress(2).log(explanation=CRASH), "FAILED"),
         (20, lambda r: r.beat().progress(3), "FAILED"), (900, nothing, "FAILED")],
        ["FAILED"],
    ),
    ("a log that cannot be read any more changes nothing about a failure that it showed",
     [(0, lambda r: r.log(10, CRASH), "FAILED"), (60, lambda r: r.unreadable(), "FAILED"), (900, nothing, "FAILED")],
     ["FAILED"]),
    ("a log in which the line is not found any more changes nothing either",
     [(0, lambda r: r.log(10, CRASH), "FAILED"), (60, lambda r: r.log(), "FAILED"), (900, nothing, "FAILED")],
     ["FAILED"]),
    (
        "a completion outranks what the log said",
        [(0, lambda r: r.log(10, CRASH), "FAILED"), (30, lambda r: r.end("complete"), "SUCCEEDED"),
         (60, nothing, "SUCCEEDED")],
        ["FAILED", "SUCCEEDED"],
    ),
    (
        "_error after the log's own word is no second failure, and steps do not take it back",
        [(0, lambda r: r.log(10, CRASH), "FAILED"), (30, lambda r: r.end("error"), "FAILED"),
         (90, lambda r: r.log(20), "FAILED")],
        ["FAILED"],
    ),
    ("a log that is read after _complete fails nothing",
     [(0, lambda r: r.log(10).end("complete"), "SUCCEEDED"), (60, lambda r: r.log(explanation=CRASH), "SUCCEEDED")],
     ["SUCCEEDED"]),
    (
        "a run that fell silent is told to have failed when the log comes in",
        [(0, lambda r: r.beat().log(10), "RUNNING"), (700, nothing, "TIMED_OUT"),
         (60, lambda r: r.log(explanation=CRASH), "FAILED")],
        ["TIMED_OUT", "FAILED"],
    ),
    (
        "a new attempt is not failed by the line that failed the one before",
        [(0, lambda r: r.beat(attempt=1).log(10, CRASH), "FAILED"), (60, lambda r: r.beat(attempt=2), "RUNNING"),
         (60, lambda r: r.beat(attempt=2).log(explanation=CRASH), "RUNNING")],
        ["FAILED"],
    ),
    (
        "a crash of unclear end is a warning",
        [(0, lambda r: r.beat().log(10), "RUNNING"), (60, lambda r: r.beat().log(explanation=MAYBE), "RUNNING"),
         (60, lambda r: r.beat().unreadable(), "RUNNING"), (60, lambda r: r.beat().log(30), "RUNNING")],
        ["WARNING"],
    ),
    ("a hang that the log tells of is a warning, as it may come loose",
     [(0, lambda r: r.beat().log(10, HANG), "RUNNING"), (60, lambda r: r.beat().log(20), "RUNNING")], ["WARNING"]),
    (
        "a log that cannot be read keeps nobody's run from timing out, nor lets it",
        [(0, lambda r: r.beat().log(10), "RUNNING"), (60, lambda r: r.unreadable(), "RUNNING"),
         (700, nothing, "TIMED_OUT")],
        ["TIMED_OUT"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "told"), [pytest.param(steps, told, id=name) for name, steps, told in HISTORIES])
def test_histories(steps: list[Step], told: list[str]) -> None:
    run, statuses = Watched(), []
    for seconds, act, _ in steps:
        act(run.after(seconds))
        statuses.append(run.look())
    assert statuses == [status for *_, status in steps]
    assert run.told == told
