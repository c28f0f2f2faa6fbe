# ruff: noqa: E501 - lines of logs are as long as they are
"""What torchrun's table tells of a rank that died without a word, whatever its exit code was."""

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.signals.hints import GUESS
from lastbeat.explain.signals.loading import load
from lastbeat.model.cause import Cause
from support import explained
from support.printed import STEPS
from support.row_by_row import check_each

SIGNALS = {-4: "SIGILL", -6: "SIGABRT", -7: "SIGBUS", -8: "SIGFPE", -9: "SIGKILL", -11: "SIGSEGV"}
ABORTED_BY_SRUN = """\
srun: error: n2: task 1: Aborted
srun: launch/slurm: _step_signal: Terminating StepId=4711.0
slurmstepd-n1: error: *** STEP 4711.0 ON n1 CANCELLED AT 2026-11-22T21:55:13 ***
srun: error: n1: task 0: Terminated
srun: Force Terminated StepId=4711.0
"""
ABORTED_BY_PRTERUN = """\
--------------------------------------------------------------------------
prterun noticed that process rank 1 with PID 8945 on node n1 exited on
signal 6 (Aborted).
--------------------------------------------------------------------------
"""


def torchrun(code: int) -> str:
    """Two ranks; the second died, the first was stopped for it."""
    name = SIGNALS.get(code, "SIGNAL")
    how = f"Signal {-code} ({name}) received by PID 124" if code < 0 else "To enable traceback see: https://x"
    return f"""\
W1122 21:53:47.535000 11184 torch/distributed/elastic/multiprocessing/api.py:1010] Sending process 123 closing signal SIGTERM
E1122 21:53:47.537000 11184 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: {code}) local_rank: 1 (pid: 124) of binary: /opt/venv/bin/python
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 383, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
=======================================================
train.py FAILED
-------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-22_21:53:47
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 123)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 123
-------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_21:53:47
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 124)  ({name})
  error_file: <N/A>
  traceback : {how}
=======================================================
"""


ROWS = {
    "a segmentation fault": (-11, "exception", "faulthandler"),
    "a kill": (-9, "oom", "OOM killer"),
    "an abort, not that its peer was stopped": (-6, "unknown", "SIGABRT: code that found"),
    "a bus error": (-7, "oom", "/dev/shm"),
    "an illegal instruction": (-4, "environment", "lscpu"),
    "a division by zero": (-8, "exception", "divided"),
    "a rank that ended by itself": (1, "unknown", "exit status 1,"),
    "a command that is not there": (127, "environment", "is not there"),
}


def cause_of(text: str) -> Cause:
    return explained.cause_of(explain_text(STEPS + text, load("default")))


def test_its_table_tells_how_a_rank_ended() -> None:
    check_each(ROWS.items(), ended_so)


def ended_so(code: int, error_type: str, hint: str) -> None:
    cause = cause_of(torchrun(code))
    assert cause.error_type == error_type
    assert hint in cause.hint
    assert f"(exitcode: {code})" in cause.evidence.text


def test_how_it_died_is_sure_and_why_is_not() -> None:
    hints = [cause_of(torchrun(code)).hint for code in (-9, -7, -4)]
    assert [hint for hint in hints if not hint.startswith(GUESS)] == []


def test_what_a_program_said_itself_goes_before_how_it_ended() -> None:
    said = (
        'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB\n"
    )
    launchers = (torchrun(-6), ABORTED_BY_SRUN, ABORTED_BY_PRTERUN)
    assert [cause_of(said + launcher).error_type for launcher in launchers] == ["oom"] * 3
