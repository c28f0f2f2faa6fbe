# ruff: noqa: E501 - lines of logs are as long as they are
"""Jobs that died and that nobody ended: how long they idled, and what ended them."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.decide.logs import also_seen
from lastbeat.model.cause import Idle
from lastbeat.signals.loading import load
from support.printed import STEPS, traceback

TIMED = "".join(f"2026-03-01 10:0{n}:00,000 INFO train: step {n}0/1000 loss {3 - n / 100:.3f}\n" for n in range(1, 6))
KEY_ERROR = traceback("KeyError: 'labels'")
LIMIT = "slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2026-03-01T{at} DUE TO TIME LIMIT ***\n"
CANCELLED = "slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2026-03-01T{at} ***\n"

IDLED = [
    pytest.param(
        TIMED + KEY_ERROR + LIMIT.format(at="15:17:11"),
        Idle(5 * 3600 + 12 * 60 + 11, "the time limit", at_most=True),
        "idled for at most 5h 12m until the time limit",
        id="an exception, and the time limit hours later",
    ),
    pytest.param(
        TIMED + KEY_ERROR + CANCELLED.format(at="12:22:10"),
        Idle(2 * 3600 + 17 * 60 + 10, "it was cancelled", at_most=True),
        "idled for at most 2h 17m until it was cancelled",
        id="somebody noticed, and cancelled it",
    ),
    pytest.param(
        TIMED
        + "2026-03-01 10:06:30,000 ERROR train: giving up: RuntimeError: CUDA error: an illegal memory access was encountered\n"
        + "2026-03-01 11:52:30,000 WARNING agent: received SIGTERM, shutting down\n",
        Idle(3600 + 46 * 60, "it was cancelled"),
        "idled for 1h 46m until it was cancelled",
        id="both lines have times of their own",
    ),
]


@pytest.mark.parametrize(("text", "idle", "told"), IDLED)
def test_it_idled(text: str, idle: Idle, told: str) -> None:
    found = explain_text(text, load("default"))
    assert found.cause is not None
    assert found.cause.error_type in {"exception", "torch"}
    assert found.idle == idle
    assert also_seen(found)[0] == told


NOT_IDLE = [
    pytest.param(TIMED + KEY_ERROR + CANCELLED.format(at="10:05:42"), id="Slurm cleans up at once"),
    pytest.param(STEPS + KEY_ERROR + LIMIT.format(at="15:17:11"), id="no line tells when it died"),
    pytest.param(TIMED + LIMIT.format(at="15:17:11"), id="nothing but the time limit"),
    pytest.param(
        TIMED + KEY_ERROR + CANCELLED.format(at="12:05:03"), id="two hours to the second are two zones, more likely"
    ),
    pytest.param(
        TIMED
        + KEY_ERROR
        + "srun: error: n1: task 3: Exited with exit code 1\nsrun: Terminating StepId=4711.0\n"
        + CANCELLED.format(at="10:16:42"),
        id="the step ended by itself, and Slurm cancelled what was left of it",
    ),
    pytest.param(TIMED + KEY_ERROR + CANCELLED.format(at="08:00:00"), id="the end comes before the beginning"),
    pytest.param(
        TIMED
        + KEY_ERROR
        + "".join(f"2026-03-01 10:1{n}:00,000 INFO train: step {n}9/1000 loss 2.{n}\n" for n in range(6, 9))
        + LIMIT.format(at="15:17:11"),
        id="training went on",
    ),
]


@pytest.mark.parametrize("text", NOT_IDLE)
def test_it_did_not_idle_as_far_as_the_lines_tell(text: str) -> None:
    assert explain_text(text, load("default")).idle is None
