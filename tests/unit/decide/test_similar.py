"""What became of a run after it had failed."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.model.action import Action
from lastbeat.model.record import Attempt, HeartbeatMemory, Record, Transition
from lastbeat.model.restart import RESTART_KIND
from lastbeat.model.similar import FAILED_AGAIN, GOT_FURTHER, NOT_STARTED, WENT_ON
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.watch.decide.past_run import aftermath

START = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)
RUNNING, FAILED, SUCCEEDED = Status.RUNNING, Status.FAILED, Status.SUCCEEDED
TIMED_OUT, CANCELLED = Status.TIMED_OUT, Status.CANCELLED
Told = tuple[Status, int, int | None, str | None]
BEGUN: Told = (RUNNING, 1, 0, None)
BROKE: Told = (FAILED, 1, 200, "aa")
AGAIN: Told = (RUNNING, 2, 150, None)


def record(*told: Told, step: int | None = None) -> Record:
    """Its transitions, an hour apart: status, attempt, step, fingerprint. ``step``: where it is now."""
    history = tuple(
        Transition(
            number, START + timedelta(hours=number), None, after, "boom", attempt,
            cause="oom" if fingerprint else None, step=at, fingerprint=fingerprint,
        )
        for number, (after, attempt, at, fingerprint) in enumerate(told, 1)
    )  # fmt: skip
    beat = HeartbeatMemory(START, step=step) if step is not None else None
    last = told[-1] if told else BEGUN
    return Record(
        "run", State(last[0]), attempt=Attempt(last[1]), history=history, transitions=len(history), progress=beat
    )


def waits(held: Record) -> Record:
    done_at = START + timedelta(hours=3)
    action = Action("run-r1", RESTART_KIND, done_at, "nccl", "sbatch train.sh", done_at=done_at, result="4711")
    return replace(held, actions=(action,))


TOLD = [
    pytest.param(record(BEGUN, BROKE), NOT_STARTED, id="nobody has started it again"),
    pytest.param(record(BEGUN, BROKE, AGAIN, step=900), WENT_ON, id="it lives and is further"),
    pytest.param(record(BEGUN, BROKE, AGAIN, step=180), "", id="it lives, and has not come as far yet"),
    pytest.param(record(BEGUN, BROKE, AGAIN, (SUCCEEDED, 2, 900, None)), WENT_ON, id="it ended well"),
    pytest.param(record(BEGUN, BROKE, AGAIN, (FAILED, 2, 200, "aa")), FAILED_AGAIN, id="the same again"),
    pytest.param(record(BEGUN, BROKE, AGAIN, (FAILED, 2, 700, "bb")), GOT_FURTHER, id="it got past this, met another"),
    pytest.param(record(BEGUN, BROKE, (FAILED, 2, 201, "bb")), GOT_FURTHER, id="one step, and another failure"),
    pytest.param(record(BEGUN, BROKE, AGAIN, (CANCELLED, 2, 700, None)), WENT_ON, id="further, and somebody ended it"),
    pytest.param(record(BEGUN, BROKE, AGAIN, (TIMED_OUT, 2, 700, None), (RUNNING, 2, 710, None)), WENT_ON,
                 id="further, and silent for a while"),
    pytest.param(record(BEGUN, BROKE, AGAIN, (FAILED, 2, 700, "bb"), (RUNNING, 3, 700, None),
                        (SUCCEEDED, 3, 900, None)), WENT_ON, id="it met another, and ended well"),
    pytest.param(waits(record(BEGUN, BROKE)), "", id="its restart waits in the queue"),
    pytest.param(record(BEGUN, BROKE, AGAIN, (FAILED, 2, 160, "bb")), "", id="another came first: nobody knows"),
    pytest.param(record(BEGUN, (TIMED_OUT, 1, 200, "aa"), (RUNNING, 1, 210, None)), "", id="it came back by itself"),
    pytest.param(record(), "", id="its history is gone"),
]  # fmt: skip


@pytest.mark.parametrize(("held", "told"), TOLD)
def test_what_became_of_it(held: Record, told: str) -> None:
    assert aftermath(held, 1, "aa") == told
