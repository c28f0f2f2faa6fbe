"""Where it is undecided what the cause is: the second one, and that nothing else has one."""

import pytest

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.signals.loading import load
from lastbeat.model.cause import UNDECIDED, Cause, Evidence, Explanation, sureness
from lastbeat.model.restart import DEFAULT_LEAST_CONFIDENCE
from support.explained import cause_of, explained
from support.printed import STEPS

CATALOGUE = load("default")


def raised(last: str, file: str = "/home/u/train.py") -> str:
    return (
        f'{STEPS}Traceback (most recent call last):\n  File "/home/u/train.py", line 3, in <module>\n    main()\n'
        f'  File "{file}", line 9, in work\n    run()\n{last}\n'
    )


TWO = [
    pytest.param(STEPS + "train.sh: line 3: 4711 Killed   python train.py\n", None, "oom", "cancelled", id="Killed"),
    pytest.param(STEPS, 137, "oom", "cancelled", id="the exit status of a SIGKILL"),
    pytest.param(STEPS, 143, "cancelled", "time_limit", id="that of a SIGTERM"),
    pytest.param(STEPS, 135, "oom", "storage", id="that of a bus error"),
    pytest.param(STEPS, 124, "time_limit", "hang", id="that of timeout"),
    pytest.param(
        raised("acme.PoolError: worker 3: connection reset by 10.0.0.7"), None, "exception", "communication",
        id="an exception of a class of its own, whose words say more",
    ),
    pytest.param(
        raised("acme.StageError: stage 2 is late", "/v/torch/distributed/distributed_c10d.py"), None,
        "exception", "communication", id="one raised in a collective",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "exit_code", "first", "second"), TWO)
def test_an_undecided_cause_has_a_second_one(text: str, exit_code: int | None, first: str, second: str) -> None:
    found = explained(("train.log", text), exit_code=exit_code)
    cause = cause_of(found)
    assert found.second is not None
    assert (cause.error_type, found.second.error_type) == (first, second)
    assert found.second.confidence < cause.confidence < UNDECIDED
    assert found.second.hint


ONE = [
    pytest.param(raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"), id="it is named"),
    pytest.param(raised("acme.PoolError: worker 3 is odd"), id="nothing says what else it may be"),
    pytest.param(STEPS + "Process exited with exit code 1\n", id="nothing is known at all"),
    pytest.param(STEPS, id="nothing ended it"),
]


@pytest.mark.parametrize("text", ONE)
def test_others_have_none(text: str) -> None:
    assert explain_text(text, CATALOGUE).second is None


def test_word_second_cause_and_restart_policies_change_at_the_same_number() -> None:
    line = Evidence("a.log", 1, "x")
    for confidence, word, shown in ((UNDECIDED, "likely", False), (UNDECIDED - 0.01, "perhaps", True)):
        found = Explanation(Cause("oom", line, confidence), (Cause("nccl", line, 0.1),))
        assert (sureness(confidence), found.second is not None) == (word, shown)
    assert DEFAULT_LEAST_CONFIDENCE == UNDECIDED
