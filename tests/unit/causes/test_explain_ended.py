# ruff: noqa: E501 - lines of logs are as long as they are
"""Whether a run has ended, as its log tells: what stands at the very end counts, and what somebody went on after does not."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.model.signal import Signal
from lastbeat.signals.loading import load
from support.printed import STEPS

CUT = """\
Traceback (most recent call last):
  File "/opt/lib/python3.11/site-packages/torch/cuda/__init__.py", line 247, in _lazy_init
    torch._C._cuda_init()
RuntimeError: The NVIDIA driver on your system is too old (found version 11040).
"""
OWN = """\
Traceback (most recent call last):
  File "/w/train.py", line 12, in evaluate
    y = batch["z"]
KeyError: 'z'
"""
EXITED = "E1121 04:12:19.184 1910 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 0 (pid: 2511) of binary: python3\n"
AGAIN = "[INFO] [default] Worker group FAILED. 3/3 attempts left; will restart worker group\n"
CLOSING = "W1121 04:12:20.1 1910 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 2512 closing signal SIGTERM\n"


def stamped(text: str) -> str:
    return "".join(f"2026-03-01T10:00:{n:02d}.123456789Z {line}\n" for n, line in enumerate(text.splitlines()))


ENDED = [
    pytest.param(STEPS + CUT, id="a traceback is the last that was printed"),
    pytest.param(stamped(STEPS + CUT), id="… with a time before each line"),
    pytest.param(STEPS + CUT + "\n\n", id="… and empty lines behind it"),
    pytest.param(
        STEPS + CUT + "frame #0: c10::Error::Error() + 0x57 (0x7f in libc10.so)\n", id="… and native frames behind it"
    ),
    pytest.param(
        STEPS + CUT + "srun: error: gpu-n1: task 0: Exited with exit code 1\n", id="… and the launcher behind it"
    ),
    pytest.param(STEPS + "Killed\n", id="the shell says Killed"),
    pytest.param(STEPS + "run.sh: line 7: 26809 Killed                  python train.py\n", id="… and what was killed"),
    pytest.param(STEPS + "Terminated\n", id="the shell says Terminated"),
    pytest.param(STEPS + "no output for 900 s\nKilled\n", id="a stall, and what ended it"),
    pytest.param("sbatch: error: Batch job submission failed: Invalid account\n", id="the scheduler refuses"),
    pytest.param(STEPS + "Segmentation fault (core dumped)\n", id="a fatal signal"),
    pytest.param(STEPS + CUT + EXITED + AGAIN + CLOSING + CUT + EXITED, id="the attempt after a restart fails, too"),
    pytest.param(
        STEPS + CUT + EXITED + AGAIN + EXITED.replace("exitcode: 1", "exitcode: -9"),
        id="the attempt after a restart is killed without a word",
    ),
    pytest.param(
        STEPS + "2026-03-01 10:06:00 ERROR main failed\n" + CUT, id="logged, but the top of the traceback was left out"
    ),
]
GOING_ON = [
    pytest.param(
        STEPS + CUT + "evaluation is left out\ncheckpoint saved to ckpt/50\n", id="ordinary lines come behind"
    ),
    pytest.param(
        STEPS + "2026-03-01 10:06:00 ERROR evaluation failed\n" + OWN,
        id="a logger printed it, in the program's own code",
    ),
    pytest.param(STEPS + "WARNING: CUDA out of memory. Tried to allocate 2.00 GiB\n", id="a warning"),
    pytest.param(
        STEPS + "ImportError while loading apex (No module named 'apex'), using torch.nn.LayerNorm\n",
        id="something is done without",
    ),
    pytest.param(STEPS + "Connection reset by peer\n", id="somebody misses somebody"),
    pytest.param(
        "Requeued: SLURM_RESTART_COUNT=1, previous attempt ended: CANCELLED DUE TO PREEMPTION\n", id="what was before"
    ),
    pytest.param(STEPS + "no output for 900 s\n", id="a stall"),
    pytest.param(STEPS + CUT + EXITED + AGAIN, id="the launcher says that it begins another attempt"),
    pytest.param(STEPS + CUT + EXITED + AGAIN + CLOSING, id="… and ends what is left of the one before"),
    pytest.param(STEPS.replace("loss 2", "loss nan  #"), id="values that are no numbers, and steps"),
]


@pytest.mark.parametrize("text", ENDED)
def test_it_has_ended(text: str) -> None:
    assert explain_text(text, load("default")).ended


@pytest.mark.parametrize("text", GOING_ON)
def test_it_may_go_on(text: str) -> None:
    assert not explain_text(text, load("default")).ended


def test_a_signal_of_ones_own_that_crashes_ends_a_run_where_it_stands_last() -> None:
    known = load("default")
    own = Signal("licence_lost", "licence server said no", verdict="crash", error_type="environment")
    catalogue = known._replace(signals=(own, *known.signals))
    said = "trainer: licence server said no\n"
    assert explain_text(STEPS + said, catalogue).ended
    assert not explain_text(STEPS + said + "trying the other one\nfound it\n", catalogue).ended
