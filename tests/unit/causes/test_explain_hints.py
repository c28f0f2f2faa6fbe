# ruff: noqa: E501 - lines of logs are as long as they are
"""Hints as people get them, with what the evidence tells and without gaps."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import STEPS

ROWS = [
    pytest.param(
        "[rank1]:[E301 10:16:42.1 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8810, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=1800000) ran for 1800133 milliseconds before timing out.",
        "Rank 1 waited 30 minutes in ALLREDUCE number 8810 for somebody",
        id="milliseconds as minutes",
    ),
    pytest.param(
        "[rank1]:[E301 10:16:42.1 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: see above",
        "Rank 1 waited for somebody",
        id="what the line does not tell is left out",
    ),
    pytest.param(
        "[E301 16:23:11.351011467 socket.cpp:1028] [c10d] The client socket has timed out after 60000ms while trying to connect to (10.31.0.4, 29444).",
        "(nc -vz 10.31.0.4 29444)",
        id="an address and a port as nc takes them",
    ),
    pytest.param(
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.88 GiB.",
        "Rank 0 could not get 1.88 GiB: ",
        id="neither GPU nor free memory are named",
    ),
    pytest.param(
        "Out of memory: Killed process 4711 (python) total-vm:1kB",
        "a process: python, pid 4711, because",
        id="whom the kernel killed",
    ),
    pytest.param("kernel: python3 invoked oom-killer: gfp_mask=0xcc0", "killed a process, because", id="… or somebody"),
    pytest.param("srun: error: Node failure on gpu-n2", "under the job: gpu-n2. sinfo", id="the node that went down"),
    pytest.param("worker exited with exit code 137", "dmesg -T", id="exit code 137 means what Killed means"),
    pytest.param("worker exited with exit code 139", "faulthandler", id="exit code 139 means a native crash"),
    pytest.param("worker exited with exit code 143", "SIGTERM", id="exit code 143 means that it was stopped"),
]


@pytest.mark.parametrize(("line", "hint"), ROWS)
def test_the_hint_says(line: str, hint: str) -> None:
    cause = explain_text(STEPS + line + "\n", load("default")).cause
    assert cause is not None
    assert hint in cause.hint


def test_a_refused_request_is_not_made_again() -> None:
    cause = explain_text("sbatch: error: Batch job submission failed: Invalid account\n", load("default")).cause
    assert cause is not None
    assert cause.restartable is False


def test_a_node_that_failed_is_another_matter() -> None:
    cause = explain_text(STEPS + "srun: error: Node failure on gpu-n2\n", load("default")).cause
    assert cause is not None
    assert cause.restartable is True
