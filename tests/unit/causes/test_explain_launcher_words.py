# ruff: noqa: E501 - lines of logs are as long as they are
"""Programs that died without a word, of which only the launcher, a shell or a scheduler speaks."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.model.cause import Cause
from lastbeat.signals.hints import GUESS
from lastbeat.signals.loading import load
from support.printed import STEPS

WORDS = {
    -4: ("Illegal instruction", "SIGILL"),
    -6: ("Aborted", "SIGABRT"),
    -7: ("Bus error", "SIGBUS"),
    -8: ("Floating point exception", "SIGFPE"),
    -9: ("Killed", "SIGKILL"),
    -11: ("Segmentation fault", "SIGSEGV"),
    -24: ("CPU time limit exceeded", "SIGXCPU"),
    -31: ("Bad system call", "SIGSYS"),
}


def torchrun(code: int) -> str:
    """Two ranks; the second died, the first was stopped for it."""
    name = WORDS[code][1] if code in WORDS else "SIGNAL"
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


def srun(word: str) -> str:
    """srun --kill-on-bad-exit=1 of two tasks."""
    return f"""\
srun: error: n2: task 1: {word}
srun: launch/slurm: _step_signal: Terminating StepId=4711.0
slurmstepd-n1: error: *** STEP 4711.0 ON n1 CANCELLED AT 2026-11-22T21:55:13 ***
srun: error: n1: task 0: Terminated
srun: Force Terminated StepId=4711.0
"""


def scancel(word: str) -> str:
    return f"""\
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
slurmstepd-n1: error: *** STEP 4711.0 ON n1 CANCELLED AT 2026-11-22T21:56:52 ***
srun: error: n2: task 1: {word}
srun: launch/slurm: _step_signal: Terminating StepId=4711.0
srun: error: n1: task 0: {word}
"""


def prterun(code: int) -> str:
    """Open MPI 5 breaks the line."""
    line = "-" * 74
    return f"{line}\nprterun noticed that process rank 1 with PID 8945 on node n1 exited on\nsignal {-code} ({WORDS[code][0]}).\n{line}\n"


def hydra(string: str) -> str:
    """MPICH's launcher; its code is that of all processes together."""
    return f"""\
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 9037 RUNNING AT n1
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: {string}
This typically refers to a problem with your application.
"""


BUILD, ABORT, CORE = "lscpu", "SIGABRT: code that found", "faulthandler"
SHM, KILL, ZERO = "/dev/shm", "OOM killer", "divided"
ROWS = [
    pytest.param(torchrun(-11), "exception", CORE, "(exitcode: -11)", id="torchrun: a segmentation fault"),
    pytest.param(torchrun(-9), "oom", KILL, "(exitcode: -9)", id="torchrun: a kill"),
    pytest.param(torchrun(-6), "unknown", ABORT, "(exitcode: -6)", id="torchrun: an abort, not that its peer was stopped"),
    pytest.param(torchrun(-7), "oom", SHM, "(exitcode: -7)", id="torchrun: a bus error"),
    pytest.param(torchrun(-4), "environment", BUILD, "(exitcode: -4)", id="torchrun: an illegal instruction"),
    pytest.param(torchrun(-8), "exception", ZERO, "(exitcode: -8)", id="torchrun: a division by zero"),
    pytest.param(torchrun(1), "unknown", "exit status 1,", "(exitcode: 1)", id="torchrun: a rank that ended by itself"),
    pytest.param(torchrun(127), "environment", "is not there", "(exitcode: 127)", id="torchrun: a command that is not there"),
    pytest.param(srun("Segmentation fault (core dumped)"), "exception", CORE, "task 1: Seg", id="srun: a segmentation fault"),
    pytest.param(srun("Killed"), "oom", KILL, "task 1: Killed", id="srun: a kill"),
    pytest.param(srun("Aborted (core dumped)"), "unknown", ABORT, "task 1: Aborted", id="srun: an abort, not that the step was cancelled for it"),
    pytest.param(srun("Bus error"), "oom", SHM, "task 1: Bus error", id="srun: a bus error"),
    pytest.param(srun("Illegal instruction"), "environment", BUILD, "task 1: Illegal", id="srun: an illegal instruction"),
    pytest.param(srun("Trace/breakpoint trap"), "unknown", "SIGTRAP: code that", "task 1: Trace", id="srun: a trap"),
    pytest.param(srun("CPU time limit exceeded"), "time_limit", "ulimit -t", "task 1: CPU", id="srun: too much processor time"),
    pytest.param(srun("User defined signal 1"), "cancelled", "--signal", "task 1: User", id="srun: a notice that nobody took"),
    pytest.param(srun("Exited with exit code 139"), "exception", CORE, "exit code 139", id="srun: 139"),
    pytest.param(srun("Exited with exit code 134"), "unknown", ABORT, "exit code 134", id="srun: 134"),
    pytest.param(srun("Exited with exit code 1"), "unknown", "exit status 1,", "exit code 1", id="srun: a task that ended by itself"),
    pytest.param(scancel("Killed"), "cancelled", "sacct", "CANCELLED AT", id="scancel: what is killed after it died of it"),
    pytest.param(scancel("Exited with exit code 1"), "cancelled", "sacct", "CANCELLED AT", id="scancel: what ends after it ended for it"),
    pytest.param(scancel("Exited with exit code 143"), "cancelled", "sacct", "CANCELLED AT", id="scancel: 143"),
    pytest.param(prterun(-9), "oom", KILL, "signal 9 (Killed)", id="Open MPI 5: a kill"),
    pytest.param(prterun(-11), "exception", CORE, "signal 11 (Seg", id="Open MPI 5: a segmentation fault"),
    pytest.param(prterun(-6), "unknown", ABORT, "signal 6 (Aborted)", id="Open MPI 5: an abort"),
    pytest.param(
        "mpirun noticed that process rank 3 with PID 0 on node n2 exited on signal 9 (Killed).\n",
        "oom",
        KILL,
        "exited on signal 9",
        id="Open MPI 4: a kill",
    ),
    pytest.param(
        "prterun detected that one or more processes exited with non-zero status,\nthus causing the job to be terminated. The first process to do so was:\n\n   Process name: [prterun-n1-10998@1,1]\n   Exit code:    139\n",
        "exception",
        CORE,
        "Exit code:    139",
        id="Open MPI 5: 139",
    ),
    pytest.param(hydra("Killed (signal 9)"), "oom", KILL, "(signal 9)", id="MPICH: a kill"),
    pytest.param(hydra("Segmentation fault (signal 11)"), "exception", CORE, "(signal 11)", id="MPICH: a segmentation fault"),
    pytest.param(hydra("Terminated (signal 15)"), "unknown", "sacct", "BAD TERMINATION", id="MPICH: bits of several signals"),
    pytest.param(hydra("Broken pipe (signal 13)"), "unknown", "sacct", "BAD TERMINATION", id="MPICH: no peer that went away"),
    pytest.param("=   KILLED BY SIGNAL: 9 (Killed)\n", "oom", KILL, "BY SIGNAL: 9", id="Intel MPI: a kill"),
    pytest.param(
        "[n1:mpispawn_0][child_handler] MPI process (rank: 3, pid: 411) terminated with signal 11 -> abort job\n",
        "exception",
        CORE,
        "signal 11",
        id="MVAPICH: a segmentation fault",
    ),
    pytest.param(
        "[n1:4411 :0:4411] Caught signal 4 (Illegal instruction: illegal operand)\n==== backtrace (tid:   4411) ====\n",
        "environment",
        BUILD,
        "Caught signal 4",
        id="UCX: an illegal instruction",
    ),
    pytest.param("run.sh: line 3: 12345 Aborted                 (core dumped) python train.py\n", "exception", "glibc", "Aborted", id="bash: an abort"),
    pytest.param("run.sh: line 3: 12345 Illegal instruction     (core dumped) python train.py\n", "environment", BUILD, "Illegal", id="bash: an illegal instruction"),
    pytest.param("sh.sh: line 1:  3742 Floating point exceptionpython3 train.py\n", "exception", ZERO, "Floating", id="bash leaves no space"),
    pytest.param("run.sh: line 3: 12345 Bad system call         (core dumped) python train.py\n", "environment", "seccomp", "Bad", id="bash: a system call that is forbidden"),
    pytest.param("run.sh: line 3: 12345 File size limit exceeded python train.py\n", "storage", "ulimit -f", "File size", id="bash: a file that is too large"),
    pytest.param("zsh: illegal hardware instruction  python train.py\n", "environment", BUILD, "zsh", id="zsh: an illegal instruction"),
    pytest.param("zsh: killed     python train.py\n", "oom", KILL, "zsh", id="zsh: a kill"),
    pytest.param("zsh: segmentation fault (core dumped)  python train.py\n", "exception", CORE, "zsh", id="zsh: a segmentation fault"),
    pytest.param("fish: Job 1, 'python train.py' terminated by signal SIGBUS (Misaligned address error)\n", "oom", SHM, "fish", id="fish: a bus error"),
    pytest.param("make: *** [Makefile:2: train] Killed\n", "oom", KILL, "make", id="make: a kill"),
    pytest.param("make: *** [Makefile:2: train] Error 134\n", "unknown", ABORT, "Error 134", id="make: 134"),
    pytest.param("Command terminated by signal 9\n", "oom", KILL, "signal 9", id="GNU time: a kill"),
    pytest.param("systemd[1]: train.service: Main process exited, code=dumped, status=11/SEGV\n", "exception", CORE, "status=11", id="systemd: a segmentation fault"),
    pytest.param("2026-11-22 21:00:00,100 INFO exited: train (terminated by SIGKILL; not expected)\n", "oom", KILL, "SIGKILL", id="supervisord: a kill"),
    pytest.param("subprocess.CalledProcessError: Command '['/opt/venv/bin/python', 'train.py']' died with <Signals.SIGBUS: 7>.\n", "oom", SHM, "SIGBUS", id="accelerate: a bus error"),
    pytest.param("[2026-11-22 21:00:00,100] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py'] exits with return code = -11\n", "exception", CORE, "= -11", id="DeepSpeed: a segmentation fault"),
    pytest.param("[rank: 1] Child process with PID 4411 terminated with code -9. Forcefully terminating all other processes to avoid zombies\n", "oom", KILL, "code -9", id="Lightning: a kill"),
    pytest.param("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL\n", "oom", KILL, "SIGKILL", id="spawn: a kill"),
    pytest.param("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with exit code 139\n", "exception", CORE, "139", id="spawn: 139"),
    pytest.param("The exit codes of the workers are {SIGKILL(-9)}\n", "oom", KILL, "SIGKILL", id="joblib: a kill"),
    pytest.param("    Last State:     Terminated\n      Reason:       Error\n      Exit Code:    137\n", "oom", KILL, "137", id="Kubernetes: 137"),
    pytest.param("    State:          Terminated\n      Reason:       Error\n      Exit Code:    139\n", "exception", CORE, "139", id="Kubernetes: 139"),
    pytest.param("main: OOMKilled (exit code 137)\n", "oom", "limits.memory", "OOMKilled", id="Argo: out of memory"),
    pytest.param("trainer-1 exited with code 139\n", "exception", CORE, "139", id="docker compose: 139"),
    pytest.param('8fc2  train:12  "python train.py"  2 hours ago  Exited (137) 3 minutes ago  trainer\n', "oom", KILL, "(137)", id="docker ps: 137"),
    pytest.param("docker: Error response from daemon: failed to create task for container: OCI runtime create failed\n", "environment", "did not start", "docker", id="docker: it did not start"),
    pytest.param("ExecuteUserScriptError:\nExitCode 137\nErrorMessage \"\"\n", "oom", KILL, "ExitCode 137", id="SageMaker: 137"),
    pytest.param("The replica workerpool0-0 exited with a non-zero status of 139.\n", "exception", CORE, "status of 139", id="Vertex AI: 139"),
    pytest.param("ERROR: Job 1 failed with return code list: [137, 137]\n", "oom", KILL, "[137", id="SkyPilot: 137"),
    pytest.param("Exit_status=265\n", "oom", KILL, "265", id="PBS: a kill"),
    pytest.param("  (0) Abnormal termination (signal 11)\n", "exception", CORE, "signal 11", id="HTCondor: a segmentation fault"),
    pytest.param("*** SIGILL received at time=1700000000 on cpu 3 ***\n", "environment", BUILD, "SIGILL", id="absl: an illegal instruction"),
    pytest.param("free(): double free detected in tcache 2\n", "exception", "glibc", "free()", id="glibc: a double free"),
]  # fmt: skip


def cause_of(text: str) -> Cause | None:
    return explain_text(text, load("default")).cause


@pytest.mark.parametrize(("text", "error_type", "hint", "evidence"), ROWS)
def test_what_a_launcher_says_of_a_silent_end(text: str, error_type: str, hint: str, evidence: str) -> None:
    cause = cause_of(STEPS + text)
    assert cause is not None
    assert cause.error_type == error_type
    assert hint in cause.hint
    assert evidence in cause.evidence.text


RAY = "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker PID: 4411 Worker exit type: SYSTEM_ERROR Worker exit detail: "
RAY_ENDS = [
    ("Worker unexpectedly exits with a connection error code 2. End of file.", "often the OOM killer"),
    ("Worker exits with an exit code 27.", "ended itself with exit code 27"),
    ("Worker exits unexpectedly. Worker exits with an exit code None. The worker may have exceeded K8s pod memory limits.", "ended itself"),
    ("Worker exits unexpectedly by a signal. SystemExit is raised (sys.exit is called). Exit code: 1.", "exit code 1:"),
]  # fmt: skip


@pytest.mark.parametrize(("detail", "hint"), RAY_ENDS)
def test_rays_exit_detail_tells_who_was_killed_from_who_left(detail: str, hint: str) -> None:
    cause = cause_of(STEPS + RAY + detail + "\n")
    assert cause is not None
    assert cause.error_type == ("unknown" if "OOM killer" in hint else "exception")
    assert hint in cause.hint


@pytest.mark.parametrize("code", [-9, -7, -4])
def test_how_it_died_is_sure_and_why_is_not(code: int) -> None:
    cause = cause_of(STEPS + torchrun(code))
    assert cause is not None
    assert cause.hint.startswith(GUESS)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("worker 3 exited with code 0\nExit Code:    0\nall ranks exit code: 0\n", id="codes of 0"),
        pytest.param("signal handlers installed: SIGTERM SIGUSR1 SIGXCPU\nexit signal (SIGTERM) will save a checkpoint\n", id="handlers"),
        pytest.param("exit_signal_handler ............................. False\n  exit_code ....................................... None\n", id="arguments"),
        pytest.param("prompt: what does Segmentation fault (core dumped) mean, and Illegal instruction, and Bus error?\n", id="texts that a model reads"),
        pytest.param("PYTHONFAULTHANDLER=1: SIGSEGV, SIGFPE, SIGABRT, SIGBUS and SIGILL will be reported\n", id="faulthandler is on"),
        pytest.param("^Cobject address  : 0x7f6d9a911cc0\n", id="a key whose echo stands before something else"),
        pytest.param("docker run --shm-size=16g train:12 python train.py\n", id="how it was started"),
    ],
)  # fmt: skip
def test_words_of_ends_while_training_goes_on(text: str) -> None:
    assert cause_of(STEPS + text + STEPS) is None
    assert cause_of(STEPS + text) is None


def test_what_a_program_said_itself_goes_before_how_it_ended() -> None:
    said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB\n"
    for launcher in (torchrun(-6), srun("Aborted"), prterun(-6)):
        cause = cause_of(
            STEPS
            + "Traceback (most recent call last):\n"
            + '  File "train.py", line 3, in <module>\n'
            + said
            + launcher
        )
        assert cause is not None
        assert cause.error_type == "oom"


@pytest.mark.parametrize("text", ["^C\n", "^Csrun: interrupt (one more within 1 sec to abort)\n"])
def test_a_key_that_interrupts(text: str) -> None:
    cause = cause_of(STEPS + text)
    assert cause is not None
    assert cause.error_type == "cancelled"
