"""Statuses, and what follows from one for people."""

import pytest

from lastbeat.model.status import Status, steps_done


@pytest.mark.parametrize(
    ("step", "total", "status", "done"),
    [
        pytest.param(999, 1000, Status.SUCCEEDED, 1000, id="a loop that counts from 0 ends one short of its total"),
        pytest.param(1000, 1000, Status.SUCCEEDED, 1000, id="one that counts from 1 ends at it"),
        pytest.param(998, 1000, Status.SUCCEEDED, 998, id="what stopped earlier did not do all of them"),
        pytest.param(999, 1000, Status.RUNNING, 999, id="while it runs there is a step to go"),
        pytest.param(999, 1000, Status.FAILED, 999, id="a failure at the last step did not do it"),
        pytest.param(999, None, Status.SUCCEEDED, 999, id="without a total nothing is complete"),
        pytest.param(0, 1, Status.SUCCEEDED, 1, id="the only step there is"),
    ],
)
def test_steps_done(step: int, total: int | None, status: Status, done: int) -> None:
    assert steps_done(step, total, status) == done


@pytest.mark.parametrize("word", ["PAUSED", "RUNNING_HOT"])
def test_a_status_of_a_newer_lastbeat_is_one_of_its_own(word: str) -> None:
    status = Status(word)
    assert (str(status), status.is_foreign, status.finished) == (word, True, False)
    assert status == Status(word)
    assert status not in set(Status)


@pytest.mark.parametrize("word", ["", "running", "X" * 40, "RUN NING", "<b>", 7, None])
def test_what_is_no_word_is_no_status(word: object) -> None:
    with pytest.raises(ValueError, match="is not a valid Status"):
        Status(word)
