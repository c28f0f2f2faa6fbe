# ruff: noqa: E501 - lines of logs are as long as they are
"""Schedulers, launchers and shells: which of their words shows why a run ended, and which only that it did."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.model.cause import Cause
from lastbeat.signals.loading import load
from support.printed import STEPS, traceback

SUMMARY = "\n------------------------------------------------------------\nSender: LSF System <lsfadmin@h1>\nSubject: Job 77: <fit> in cluster <c> Exited\n\n"
INTERRUPT = (
    'Traceback (most recent call last):\n  File "/home/u/fit.py", line 3, in <module>\n    fit()\nKeyboardInterrupt\n'
)
KILLED = "/home/u/.lsbatch/1700.42.shell: line 6: 4242 Killed                  python fit.py\n"
C10D = "[W socket.cpp:663] [c10d] The server socket has failed to bind to [::]:29400 (errno: 98 - Address already in use).\n[E socket.cpp:719] [c10d] The server socket has failed to listen on any local network address.\n"
RETRIES = "".join(
    f"n1:10:20 [0] NCCL INFO socketPollConnect: connect returned No route to host, retrying ({n}/12) after sleep for {n}00 msec\n"
    for n in range(8, 13)
)
SCALES = "".join(f"| WARNING: overflow detected, setting loss scale to: {2.0**-n}\n" for n in range(9, 14))
LOST = "*** STEP 77.0 ON n0 CANCELLED AT 2026-03-01T10:00:00 ***\n"
STOP = "W0301 10:00:00.1 77 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 78 closing signal SIGTERM\n"
TOLD = "W0301 10:00:00.0 77 torch/distributed/elastic/agent/server/api.py:723] Received 15 death signal, shutting down workers\n"
ROWS = [
    pytest.param("unknown", "closing signal", STOP + "Received signal 15, initiating graceful stop\n", id="the launcher ended its workers, and nobody says yet which one had failed"),
    pytest.param("cancelled", "death signal", TOLD + STOP + "Received signal 15, initiating graceful stop\n", id="the launcher was sent a signal itself"),
    pytest.param("oom", "exitcode: -9", STOP + "Received signal 15, initiating graceful stop\nE0301 10:00:02.0 77 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 2 (pid: 80) of binary: /opt/v/bin/python\n", id="which worker had failed comes last"),
    pytest.param("cancelled", "KeyboardInterrupt", traceback("RuntimeError: KeyboardInterrupt: <EMPTY MESSAGE>"), id="native code wraps an interrupt"),
    pytest.param("cancelled", "^C", "^CProcess SpawnProcess-3:\nTraceback (most recent call last):\n  File \"/opt/v/lib/python3.11/multiprocessing/process.py\", line 314, in _bootstrap\n    self.run()\n", id="a process of several is interrupted first"),
    pytest.param("oom", "TERM_MEMLIMIT", KILLED + SUMMARY + "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited with exit code 137.\n", id="LSF says which limit the kill was of"),
    pytest.param("cancelled", "TERM_OWNER", "Aborted!\n" + INTERRUPT + "Terminated\n" + SUMMARY + "TERM_OWNER: job killed by owner.\nExited with exit code 143.\n", id="LSF says who interrupted it"),
    pytest.param("cancelled", "TERM_FORCE_ADMIN", KILLED + SUMMARY + "TERM_FORCE_ADMIN: job killed by root or LSF administrator without time for cleanup.\n", id="a kill by an administrator is none for memory"),
    pytest.param("time_limit", "TERM_RUNLIMIT", INTERRUPT + SUMMARY + "TERM_RUNLIMIT: job killed after reaching LSF run time limit.\nExited with exit code 140.\n", id="an interrupt was the time limit's"),
    pytest.param("time_limit", "TERM_CPULIMIT", SUMMARY + "TERM_CPULIMIT: job killed after reaching LSF CPU usage limit.\nExited with exit code 152.\n", id="LSF's limit of processor time"),
    pytest.param("time_limit", "TIME LIMIT", "2026-03-01 10:00:00 epoch 3\n" + INTERRUPT + "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-01T10:02:00 DUE TO TIME LIMIT ***\n", id="Slurm's time limit interrupts, too"),
    pytest.param("cancelled", "KeyboardInterrupt", "2026-03-01 10:00:00 epoch 3\n" + INTERRUPT + "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-01T18:00:00 DUE TO TIME LIMIT ***\n", id="somebody interrupted it long before the time limit"),
    pytest.param("exception", "KeyError", traceback("KeyError: 'lr'") + SUMMARY + "TERM_OWNER: job killed by owner.\n", id="an exception was there before somebody ended the job"),
    pytest.param("oom", "oom_kill", "run.sh: line 6: 4242 Killed                  python fit.py\nslurmstepd: error: Detected 1 oom_kill event in StepId=7.batch. Some of the step tasks have been OOM Killed.\n", id="Slurm says what the kill was for"),
    pytest.param("time_limit", "cput", "=>> PBS: job killed: cput 3605 exceeded limit 3600\n", id="PBS's limit of processor time"),
    pytest.param("oom", "vmem", "=>> PBS: job killed: vmem 9000000kb exceeded limit 8388608kb\nTerminated\n", id="PBS's limit of virtual memory"),
    pytest.param("slurm_failure", "SISTER_EOF", "=>> PBS: job killed: node 1 (n2) requested job terminate, 'EOF' (code 1099) - received SISTER_EOF attempting to communicate with sister MOM's\n", id="a node of PBS's is gone"),
    pytest.param("time_limit", "h_rt", "hard limit h_rt exceeded\n", id="Grid Engine's time limit"),
    pytest.param("oom", "memory limit", "012 (77.000.000) 2026-03-01 10:00:00 Job was held.\n\tError from slot1_1@n1: Job has gone over memory limit of 8192 megabytes. Peak usage: 8300 megabytes.\n", id="HTCondor's memory limit"),
    pytest.param("cancelled", "condor_rm", "009 (77.000.000) 2026-03-01 10:00:00 Job was aborted.\n\tvia condor_rm (by user ann)\n", id="somebody took it out of HTCondor"),
    pytest.param("communication", "failed to bind", C10D + traceback("RuntimeError: The server socket has failed to listen on any local network address.") + "srun: error: n1: task 1: Exited with exit code 1\nslurmstepd: error: " + LOST, id="ranks that srun tells of are no workers that got on without the port"),
    pytest.param("communication", "failed to connect", "[E socket.cpp:957] [c10d] The client socket has failed to connect to any network address of (head, 29400).\n", id="c10d's last word on an address"),
    pytest.param("communication", "(12/12)", RETRIES, id="the last attempt of NCCL to connect"),
    pytest.param("numerical_instability", "0.00048828125", SCALES + "Traceback (most recent call last):\n", id="a loss scale that vanishes"),
    pytest.param("unknown", "ActorDiedError", traceback("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.") + "\tclass_name: Rollout\n\tpid: 77\n", id="an actor of which nobody says what it died of"),
    pytest.param("environment", "Error building extension", "Traceback (most recent call last):\n  File \"/opt/v/lib/python3.11/site-packages/torch/utils/cpp_extension.py\", line 2104, in _run_ninja_build\n    subprocess.run(\nsubprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.\n\nThe above exception was the direct cause of the following exception:\n\n" + traceback("RuntimeError: Error building extension 'own_ops'"), id="what was built, and not that ninja failed"),
    pytest.param("environment", "ninja", traceback("subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1."), id="ninja failed, and nothing says of what"),
    pytest.param("environment", "not enough slots", "There are not enough slots available in the system to satisfy the 8\nslots that were requested by the application:\n\n  python\n", id="mpirun has no room"),
    pytest.param("communication", "lost communication", "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[1,0],0] on node n1\n", id="mpirun lost a node"),
    pytest.param("exception", "Check failed", "2026-03-01 10:00:00.1: F tensorflow/core/framework/tensor_shape.cc:44] Check failed: NDIMS == dims() (2 vs. 1)\nAborted (core dumped)\n", id="glog's last word"),
    pytest.param("exception", "Assertion", "python: ../csrc/own.cpp:31: void fill(int): Assertion `n > 0' failed.\nAborted (core dumped)\n", id="assert() of native code"),
    pytest.param("exception", "0xC0000005", "Process finished with exit code -1073741819 (0xC0000005)\n", id="Windows: an access violation"),
    pytest.param("environment", "OMP: Error", "OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized.\n", id="OpenMP twice in one program"),
    pytest.param("environment", "Qt platform", "This application failed to start because no Qt platform plugin could be initialized.\nAborted (core dumped)\n", id="Qt has no screen"),
    pytest.param("environment", "No matching distribution", "ERROR: No matching distribution found for torch==9.9\n", id="pip does not find a package"),
    pytest.param("time_limit", "revoked", "salloc: Job 77 has exceeded its time limit and its allocation has been revoked.\n", id="an allocation's time is over"),
    pytest.param("cancelled", "revoked", "salloc: Job allocation 77 has been revoked.\nsrun: forcing job termination\n", id="an allocation is taken back"),
    pytest.param("exception", "Could not override", "Could not override 'model.lrr'.\nTo append to your config use +model.lrr=3\nKey 'lrr' is not in struct\n", id="Hydra refuses what it was called with"),
    pytest.param("exception", "Flags parsing", "FATAL Flags parsing error: Unknown command line flag 'lrr'. Did you mean: lr ?\n", id="absl refuses what it was called with"),
    pytest.param("oom", "SIGKILL", traceback("joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed by the executor was unexpectedly terminated. This could be caused by a segmentation fault while calling the function or by an excessive memory usage causing the Operating System to kill the worker.\n\nThe exit codes of the workers are {SIGKILL(-9)}"), id="joblib guesses, and then knows"),
    pytest.param("unknown", "MPI_Allreduce", "[n1:77] *** An error occurred in MPI_Allreduce\n[n1:77] *** MPI_ERR_OTHER: known error not in list\n", id="MPI does not know either"),
    pytest.param("exception", "KeyError", traceback("KeyError: 'lr'") + "[n1:77] *** An error occurred in MPI_Allreduce\n[n1:77] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort)\n", id="MPI ends what an exception broke"),
    pytest.param("environment", "Host key", "Host key verification failed.\npdsh@n1: n2: ssh exited with exit code 255\n", id="ssh does not know the node"),
    pytest.param("exception", "unbound variable", "run.sh: line 9: DATA_DIR: unbound variable\n", id="a script without its variable"),
    pytest.param("exception", "syntax error", "run.sh: line 7: syntax error near unexpected token `done'\nrun.sh: line 7: `done'\n", id="a script that cannot be read"),
    pytest.param("environment", "bad interpreter", "bash: ./fit.sh: /bin/bash^M: bad interpreter: No such file or directory\n", id="a script from Windows"),
    pytest.param("environment", "EnvironmentNameNotFound", "\nEnvironmentNameNotFound: Could not find conda environment: fit\nYou can list all discoverable environments with `conda info --envs`.\n", id="no such environment of conda"),
    pytest.param("environment", "CondaError", "CondaError: Run 'conda init' before 'conda activate'\n", id="conda is not set up"),
    pytest.param("environment", "Lmod", "Lmod has detected the following error:  The following module(s) are unknown:\n\"cuda/12.9\"\n", id="no such module"),
    pytest.param("environment", "could not open image", "FATAL:   could not open image /home/u/fit.sif: no such file or directory\n", id="no such container"),
    pytest.param("oom", "memory region", "ERROR (nnet3-train[5.5]:MallocPitch():cu-allocator.cc:519) Failed to allocate a memory region of 1073741824 bytes. Possibly smaller minibatch size would help.\n", id="Kaldi's GPU is full"),
    pytest.param("unknown", "run.pl", "run.pl: job failed, log is in exp/mono/log/align.1.log\n", id="Kaldi says where the log is"),
]  # fmt: skip
CALM = [
    pytest.param(C10D, id="c10d's troubles with an address"),
    pytest.param(RETRIES, id="the last attempt got through"),
    pytest.param(SCALES, id="a loss scale that was found at last"),
    pytest.param("run.sh: line 3: /etc/profile.d/modules.sh: No such file or directory\n", id="a path of the script's"),
    pytest.param("Namespace(on_term='TERM_OWNER', h_rt=3600, target_size=32)\n", id="arguments"),
    pytest.param("# TERM_MEMLIMIT stands for memory, TERM_OWNER for the owner\n", id="a comment"),
    pytest.param("if the hard limit h_rt exceeded, resubmit\n", id="a condition"),
    pytest.param("qt.qpa.xcb: could not connect to display\n", id="a screen that only a preview wanted"),
    pytest.param("WARNING: Found 0 images in /data/extra, leaving it out\n", id="a folder that is left out"),
    pytest.param("ERROR: No matching distribution found for own-extra==1\n", id="a package that was not needed"),
    pytest.param("INFO download: retrying (3/3) ok\n", id="a download that took three attempts"),
    pytest.param("hint: use --oversubscribe if there are not enough slots available in the system\n", id="advice of mpirun"),
]  # fmt: skip


def cause_of(text: str) -> Cause | None:
    return explain_text(text, load("default")).cause


@pytest.mark.parametrize(("error_type", "evidence", "text"), ROWS)
def test_the_word_that_says_why(error_type: str, evidence: str, text: str) -> None:
    cause = cause_of(STEPS + text)
    assert cause is not None
    assert (cause.error_type, evidence in cause.evidence.text) == (error_type, True), cause.evidence


@pytest.mark.parametrize("text", CALM)
def test_a_run_that_goes_on_did_not_end_of_it(text: str) -> None:
    later = STEPS.replace("step ", "step 1").replace("/1000", "/100000")
    assert cause_of(STEPS + text + later) is None
    assert cause_of(text + STEPS) is None
