"""A log that ends in a Ctrl-C alone, and one that speaks of a Ctrl-C after something else had failed."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import CHILD_FAILED, STEPS, traceback

CATALOGUE = load("default")
CTRL_C = traceback("KeyboardInterrupt")
TORCHRUN = (
    "W1122 10:05:00.1 7 torch/distributed/elastic/agent/server/api.py:719] Received 2 death signal, "
    "shutting down workers\n"
    "W1122 10:05:00.2 7 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 8 closing signal SIGINT\n"
)
SIGNALLED = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 2"
EMPTY = traceback("_queue.Empty") + "\nDuring handling of the above exception, another exception occurred:\n\n"
RESET = traceback("ConnectionResetError: [Errno 104] Connection reset by peer", rank=1)
SCANCEL = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-03-01T10:05:48 ***\n"
TIME_LIMIT = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-01T10:05:48 DUE TO TIME LIMIT ***\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(CTRL_C, id="a script in a terminal"),
        pytest.param("^C" + CTRL_C, id="which echoes it"),
        pytest.param(EMPTY + CTRL_C, id="while it waited for data"),
        pytest.param(traceback("KeyboardInterrupt", rank=0) + traceback("KeyboardInterrupt", rank=1), id="two ranks"),
        pytest.param(CTRL_C + "train.sh exited with exit code 130\n", id="and a script says how it ended"),
        pytest.param(traceback("KeyboardInterrupt", rank=0) + RESET, id="the other rank missed its peer after that"),
        pytest.param(TORCHRUN + CTRL_C + traceback(SIGNALLED), id="torchrun, which got it too"),
    ],
)
def test_a_ctrl_c_and_nothing_else(text: str) -> None:
    found = explain_text(STEPS + text, CATALOGUE)
    assert found.cause is not None
    assert (found.cause.error_type, found.ended, found.interrupted) == ("cancelled", True, True)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            traceback("ValueError: bad batch", rank=1) + CTRL_C, id="a rank failed, and the others were stopped"
        ),
        pytest.param(RESET + traceback("KeyboardInterrupt", rank=0), id="a rank lost its peer before that"),
        pytest.param(CTRL_C + traceback("ValueError: bad batch", rank=1), id="a rank's failure was printed later"),
        pytest.param("failed (exitcode: -9) local_rank: 1 (pid: 7)\n" + CTRL_C, id="a rank was killed"),
        pytest.param(CTRL_C + CHILD_FAILED, id="a launcher names the rank that failed first"),
        pytest.param("Received SIGTERM, saving checkpoint\n" + CTRL_C, id="SIGTERM that became one"),
        pytest.param(CTRL_C + SCANCEL, id="scancel"),
        pytest.param(CTRL_C + TIME_LIMIT, id="the job's time was over"),
        pytest.param("Traceback (most recent call last):\nRuntimeError: a worker got KeyboardInterrupt\n", id="words"),
        pytest.param("Terminated\n", id="SIGTERM"),
    ],
)
def test_what_may_have_ended_otherwise_is_no_ctrl_c(text: str) -> None:
    assert not explain_text(STEPS + text, CATALOGUE).interrupted


def test_a_ctrl_c_that_training_survived_ended_nothing() -> None:
    later = "".join(f"step {n}/1000 loss 1.0 lr 3.0e-04\n" for n in range(60, 200, 10))
    found = explain_text(STEPS + CTRL_C + later, CATALOGUE)
    assert not (found.ended and found.interrupted)
