# ruff: noqa: E501 - lines of logs are as long as they are
"""What destructors, optional parts and onlookers complain of: no cause where work goes on after it."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import STEPS, traceback

OPTIONAL_IMPORT = """\
(trainer pid=4711) /opt/venv/lib/python3.10/site-packages/acme/links.py:8: RuntimeWarning: Failed to read the build's number:
(trainer pid=4711) No module named 'acme._build'
(trainer pid=4711)   from acme.build import NUMBER
"""
IN_A_DESTRUCTOR = """\
Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f41ad0c2d40>
Traceback (most recent call last):
  File "/opt/venv/lib/python3.10/site-packages/torch/utils/data/dataloader.py", line 1477, in __del__
    self._shutdown_workers()
  File "/opt/venv/lib/python3.10/site-packages/torch/utils/data/_utils/signal_handling.py", line 66, in handler
    _error_if_any_worker_fails()
RuntimeError: DataLoader worker (pid 2591) is killed by signal: Aborted.
"""
TALK = "".join(
    f"2026-03-01 10:0{n // 60}:{n % 60:02d},000 - INFO - tokenizing part {'abcdefghij'[n % 10]} of the texts\n"
    for n in range(90)
)

HARMLESS = [
    pytest.param(OPTIONAL_IMPORT, id="a Python warning whose text is an import that failed"),
    pytest.param(
        "/opt/venv/lib/python3.10/site-packages/torch/cuda/__init__.py:230: UserWarning: \n"
        "ACME G9 with CUDA capability sm_90 is not compatible with the current PyTorch installation.\n"
        "The current PyTorch install supports CUDA capabilities sm_37 sm_50 sm_60 sm_70.\n\n"
        "  warnings.warn(incompatible_device_warn.format(device_name, capability, arch_list, device_name))\n",
        id="a Python warning whose text begins on the next line",
    ),
    pytest.param("No module named 'apex'\n", id="an import that was tried, and printed without its class"),
    pytest.param(
        "ERROR:2026-03-01 10:00:00,332:git root error: Cmd('git') failed due to: exit code(128)\n"
        "  cmdline: git rev-parse --show-toplevel\n  stderr: 'fatal: not a git repository (or any of the parent directories): .git'\n",
        id="no git repository",
    ),
    pytest.param(
        "(raylet) [2026-03-01 10:00:00,730 E 451181 451210] (raylet) file_system_monitor.cc:111: /tmp/ray/session_1 is over 95% full, available space: 88 GB; capacity: 3466 GB. Object creation will fail if spilling is required.\n",
        id="raylet's disk is nearly full",
    ),
    pytest.param(
        "2026-03-01 10:00:00,194 - ERROR - cannot load the model: You are trying to access a gated repo.\n" + TALK,
        id="a gated repository, and another one that was taken in its place",
    ),
    pytest.param(IN_A_DESTRUCTOR, id="a destructor that was interrupted"),
    pytest.param(
        IN_A_DESTRUCTOR.removeprefix(IN_A_DESTRUCTOR.splitlines(keepends=True)[0]),
        id="a destructor whose announcement went elsewhere",
    ),
]


@pytest.mark.parametrize("text", HARMLESS)
def test_complaints_are_no_cause(text: str) -> None:
    """At the start, in the middle of training, and as the last thing that was said so far."""
    for log in (text + STEPS, STEPS + text, "Namespace(lr=0.1)\n" + text):
        assert explain_text(log, load("default")).cause is None, log[-300:]


ENDED = [
    pytest.param(
        STEPS
        + IN_A_DESTRUCTOR
        + traceback("TypeError: assign() got an unexpected keyword argument 'prototypes'")
        + "slurmstepd: error: *** JOB 4956 ON n1 CANCELLED AT 2026-03-01T20:16:45 ***\n",
        "exception",
        "TypeError",
        id="a destructor complained before the exception",
    ),
    pytest.param(
        OPTIONAL_IMPORT
        + traceback("ImportError: /opt/venv/attn_cuda.so: undefined symbol: _ZNK3c1011StorageImpl27throwEv"),
        "environment",
        "undefined symbol",
        id="an optional import is missing, and then one that is not",
    ),
    pytest.param(
        "ERROR:2026-03-01 10:00:00,332:git root error: Cmd('git') failed due to: exit code(128)\n"
        + STEPS
        + traceback("KeyError: 'labels'"),
        "exception",
        "KeyError",
        id="no git repository, and an exception long after",
    ),
    pytest.param(
        "2026-03-01 10:00:00,194 - ERROR - cannot load the model: You are trying to access a gated repo.\nexit code 1\n",
        "environment",
        "gated repo",
        id="a gated repository that ended it",
    ),
    pytest.param(
        '(Worker pid=16685) Traceback (most recent call last):\n(Worker pid=16685)   File "/w/train.py", line 8, in loop\n(Worker pid=16685)     betas = config["betas"]\n(Worker pid=16685) KeyError: \'betas\'\n'
        "(Cleaner pid=16659) Failed to query the controller's state. It may be temporarily unavailable. Continuing to monitor.\n"
        "(Controller pid=16527) Error: Training failed due to worker errors:\n(Controller pid=16527) acme.WorkerGroupError: Training failed due to worker errors:\nexit code 1\n",
        "exception",
        "KeyError",
        id="another process tries again just below the exception",
    ),
    pytest.param(
        'Traceback (most recent call last):\n  File "ray/_raylet.pyx", line 22, in run\nRuntimeError: The actor failed to import on the worker, because packages are missing:\n\n'
        + traceback("ImportError: /opt/venv/attn_cuda.so: undefined symbol: _ZNK3c1011StorageImpl27throwEv"),
        "environment",
        "undefined symbol",
        id="an exception whose text is another one's traceback",
    ),
    pytest.param(
        "/opt/venv/bin/python: No module named acme.train\n",
        "environment",
        "No module named",
        id="python -m of a module that is not there",
    ),
]


@pytest.mark.parametrize(("text", "error_type", "evidence"), ENDED)
def test_what_ended_it_is_found_beside_them(text: str, error_type: str, evidence: str) -> None:
    cause = explain_text(text, load("default")).cause
    assert cause is not None
    assert (cause.error_type, evidence in cause.evidence.text) == (error_type, True), cause.evidence
