"""How a run failed, told once: evidence, ``_error`` and the end of the log."""

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.cause import Cause, Evidence
from lastbeat.model.state import RecordedCause, ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import Excerpt, Row, RunView
from lastbeat.views.account import Account, account, trimmed

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
LOG = "logs/train.log"
STEPS = tuple(f"2026-01-01 11:00:{second:02} INFO step {second} loss 2.5" for second in range(40))
SAID = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB."
TRACE = (
    "Traceback (most recent call last):",
    '  File "/opt/train.py", line 412, in <module>',
    "    main(parse_args())",
    '  File "/opt/ppo.py", line 228, in step',
    "    loss.backward()",
    SAID,
)
RANKED = tuple(f"[rank3]: {line}" for line in TRACE)
AFTER = ("process group torn down", "wandb: waiting for uploads")
PLACE = "rank 3 of 8 on ip-10-0-0-17, attempt 1"
ERROR = "\n".join((SAID, PLACE, "", *TRACE)) + "\n"


def view(
    *,
    evidence: Excerpt | None = None,
    error: str | None = None,
    log: Excerpt | None = None,
    said: str = SAID,
    status: Status = Status.FAILED,
) -> RunView:
    explained = None
    if evidence is not None:
        explained = RecordedCause(Cause("oom", Evidence(evidence.file, 1, said), 0.9))
    row = Row("run-1", ShownState(status, said))
    return RunView(row, NOW, "s3://b/run-1/", explained=explained, evidence=evidence, error_text=error, log=log)


def lines(told: Account) -> list[str]:
    return [line for each in (*told.excerpts, *told.log) for line in each.lines]


def times(told: Account, words: str = SAID) -> int:
    return sum(words in line for line in lines(told))


def in_log(ahead: int = 8) -> Excerpt:
    """The evidence as it is found in its log, whose first line is number 1."""
    all_of_it = (*STEPS, *RANKED, *AFTER)
    marked = len(STEPS) + len(RANKED) - 1
    start = len(STEPS) - ahead
    return Excerpt(LOG, all_of_it[start:], start + 1, marked - start)


def tail(most: int = 30, *, numbered: bool = True) -> Excerpt:
    all_of_it = (*STEPS, *RANKED, *AFTER)
    return Excerpt(LOG, all_of_it[-most:], len(all_of_it) - most + 1 if numbered else None)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(tail(30), id="its end holds all of the evidence"),
        pytest.param(tail(4, numbered=False), id="too long, and its end begins in the midst of it"),
    ],
)
def test_evidence_error_and_the_end_of_a_log_are_one_account(log: Excerpt) -> None:
    told = account(view(evidence=in_log(), error=ERROR, log=log))
    shown, error = told.excerpts
    assert shown.file == LOG
    assert shown.marked is not None
    assert SAID in shown.lines[shown.marked]
    assert set(RANKED) <= set(shown.lines)
    assert shown.lines[-1] == AFTER[-1]
    # What _error alone says is not lost.
    assert (error.file, error.lines) == ("_error", (PLACE,))
    assert told.log == ()
    assert times(told) == 1


def test_the_end_of_another_log_is_told_without_the_failure() -> None:
    other = Excerpt("logs/all.log", (*STEPS[-3:], *TRACE, "node 7 is drained"), 38)
    told = account(view(evidence=in_log(), error=ERROR, log=other))
    assert times(told) == 1
    before, after = told.log
    assert (before.lines, before.first_line) == (STEPS[-3:], 38)
    assert after.lines == ("node 7 is drained",)


def test_a_log_that_tells_what_error_does_is_shown_in_its_place() -> None:
    evidence = Excerpt("_error", (SAID,), 1, 0)
    told = account(view(evidence=evidence, error=ERROR, log=tail(30)))
    shown, error = told.excerpts
    assert (shown.file, error.lines) == (LOG, (PLACE,))
    assert shown.marked is not None
    assert times(told) == 1


def test_an_exit_status_is_shown_where_error_states_it() -> None:
    evidence = Excerpt("exit status", ("killed by SIGKILL",), None, 0)
    error = "python was killed by SIGKILL (signal 9): often the OOM killer\n\nThe last lines of its output:\nstep 7\n"
    (told,) = account(view(evidence=evidence, error=error, said="killed by SIGKILL")).excerpts
    assert (told.file, told.marked) == ("_error", 0)


def test_an_exit_status_stands_alone_where_nothing_else_states_it() -> None:
    evidence = Excerpt("exit status", ("killed by SIGKILL",), None, 0)
    (told,) = account(view(evidence=evidence, said="killed by SIGKILL")).excerpts
    assert (told.file, told.lines, told.note) == ("exit status", ("killed by SIGKILL",), None)


def test_error_alone_says_its_exception_once() -> None:
    told = account(view(evidence=Excerpt("_error", (SAID,), 1, 0), error=ERROR))
    (error,) = told.excerpts
    assert error.lines == (PLACE, "", *TRACE)
    assert error.first_line == 2
    assert error.lines[error.marked or 0] == SAID


def test_a_run_that_did_not_fail_has_the_end_of_its_log_as_it_is() -> None:
    told = account(view(log=tail(10), error=ERROR, status=Status.TIMED_OUT))
    assert told == Account((), (tail(10),))


def test_the_rest_of_what_has_to_be_read_is_not_lost() -> None:
    whole = account(view(evidence=in_log(30), error=None, log=tail(40))).excerpts[0]
    shown, rest = trimmed(whole)
    assert shown.lines[0] == RANKED[0]
    assert shown.first_line == len(STEPS) + 1
    assert shown.marked is not None
    assert SAID in shown.lines[shown.marked]
    assert [*rest[0].lines, *shown.lines] == list(whole.lines)


LINES = st.lists(st.sampled_from([*STEPS[:4], *TRACE, *RANKED, "", "x"]), max_size=12).map(tuple)


@given(LINES, LINES, LINES, st.booleans())
def test_no_line_of_a_log_is_lost_and_nothing_raises(
    shown: tuple[str, ...],
    error: tuple[str, ...],
    log: tuple[str, ...],
    same: bool,
) -> None:
    evidence = Excerpt(LOG, (*shown, SAID), None, len(shown))
    end = Excerpt(LOG if same else "logs/other.log", log)
    told = account(view(evidence=evidence, error="\n".join(error), log=end))
    kept = [line.strip().removeprefix("[rank3]: ").strip() for line in lines(told)]
    for line in (*shown, *error, *log):
        bare = line.removeprefix("[rank3]: ").strip()
        assert not bare or any(bare in each for each in kept)
