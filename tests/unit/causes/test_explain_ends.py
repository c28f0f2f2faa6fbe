# ruff: noqa: E501 - lines of logs are as long as they are
"""Runs that somebody or something ended from outside: people, schedulers, clouds, the clock, broken machines."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import STEPS

MEGATRON = "".join(
    f"0:  [2026-03-01 10:0{n}:00] iteration {n}0/ 5000 | consumed samples: {n}000 | lm loss: 2.{n}E+00 | grad norm: 0.4 | "
    "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    for n in range(1, 5)
)
SLURM_END = """\
srun: got SIGCONT
srun: forcing job termination
srun: error: gpu-n1: task 0: Terminated
"""

CASES = [
    # people
    pytest.param(
        "cancelled",
        "KeyboardInterrupt",
        STEPS
        + """\
^CTraceback (most recent call last):
  File "/home/u/train.py", line 31, in <module>
    train()
  File "/home/u/train.py", line 22, in train
    time.sleep(0.1)
KeyboardInterrupt
""",
        id="Ctrl-C",
    ),
    pytest.param(
        "cancelled",
        "KeyboardInterrupt",
        STEPS
        + """\
Traceback (most recent call last):
  File "/opt/venv/lib/python3.10/site-packages/torch/utils/data/dataloader.py", line 1133, in _try_get_data
    data = self._data_queue.get(timeout=timeout)
_queue.Empty

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/u/train.py", line 31, in <module>
    train()
KeyboardInterrupt
""",
        id="Ctrl-C while something else was handled",
    ),
    pytest.param(
        "cancelled",
        "Received 15 death signal",
        STEPS
        + """\
W0301 10:06:48.735000 13093 torch/distributed/elastic/agent/server/api.py:704] Received 15 death signal, shutting down workers
W0301 10:06:48.736000 13093 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 13123 closing signal SIGTERM
Traceback (most recent call last):
  File "/opt/conda/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/api.py", line 86, in _terminate_process_handler
    raise SignalException(f"Process {os.getpid()} got signal: {sigval}", sigval=sigval)
torch.distributed.elastic.multiprocessing.api.SignalException: Process 13093 got signal: 15
""",
        id="somebody stopped torchrun",
    ),
    pytest.param(
        "cancelled",
        "Received SIGTERM",
        STEPS
        + "2026-03-01 10:06:00,000 - INFO - Received SIGTERM, saving checkpoint and exiting\n2026-03-01 10:06:20,000 - INFO - checkpoint saved to ckpt/step_50.pt\nTerminated\n",
        id="a program that handles SIGTERM",
    ),
    pytest.param(
        "cancelled",
        "Detected KeyboardInterrupt",
        "Epoch 0:  10%|#         | 10/100 [00:05<00:45,  2.00it/s, v_num=1]\n\nDetected KeyboardInterrupt, attempting graceful shutdown ...\n",
        id="Lightning's words for Ctrl-C",
    ),
    pytest.param(
        "cancelled",
        "CANCELLED AT",
        MEGATRON + "slurmstepd: error: *** JOB 771 ON gpu-n1 CANCELLED AT 2026-03-01T10:05:48 ***\n" + SLURM_END,
        id="scancel",
    ),
    # taken away
    pytest.param(
        "cancelled",
        "DUE TO PREEMPTION",
        MEGATRON
        + "srun: Job step aborted: Waiting up to 62 seconds for job step to finish.\n"
        + "slurmstepd: error: *** STEP 771.0 ON gpu-n1 CANCELLED AT 2026-03-01T10:05:48 DUE TO PREEMPTION ***\n"
        + SLURM_END,
        id="preempted by Slurm",
    ),
    pytest.param(
        "cancelled",
        "termination is imminent",
        STEPS
        + "Dec 17 16:03:58 worker-1 start-worker 2026/03/01 10:03:58 GCP Metadata Service says termination is imminent\n",
        id="a cloud's notice, as one worker prints it",
    ),
    pytest.param(
        "cancelled",
        "spot",
        STEPS
        + "[2026-03-01 10:06:00] WARNING spot instance interruption notice received: instance will be terminated at 10:08:00Z\nTerminated\n",
        id="a spot notice",
    ),
    pytest.param(
        "cancelled",
        "this job is preempted",
        """\
submitit INFO (2026-03-01 04:17:53,762) - Starting with JobEnvironment(job_id=60601445, hostname=node0293, local_rank=0(2), node=0(1), global_rank=0(2))
submitit WARNING (2026-03-01 04:18:45,706) - Bypassing signal SIGTERM
submitit INFO (2026-03-01 04:18:45,881) - Job has not timed out. Ran 1 minutes out of requested 20 minutes.
submitit WARNING (2026-03-01 04:18:45,881) - Caught signal SIGHUP on node0293: this job is preempted.
submitit INFO (2026-03-01 04:18:45,912) - Requeued job 60601445 (3 remaining timeouts)
""",
        id="submitit is preempted",
    ),
    # the clock
    pytest.param(
        "time_limit",
        "DUE TO TIME LIMIT",
        MEGATRON
        + "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
        + "W0301 10:05:48.735000 13093 torch/distributed/elastic/agent/server/api.py:704] Received 15 death signal, shutting down workers\n"
        + "slurmstepd: error: *** JOB 771 ON gpu-n1 CANCELLED AT 2026-03-01T10:05:48 DUE TO TIME LIMIT ***\n"
        + "torch.distributed.elastic.multiprocessing.api.SignalException: Process 13093 got signal: 15\n"
        + SLURM_END,
        id="Slurm's time limit, with torchrun being stopped first",
    ),
    pytest.param(
        "time_limit",
        "walltime",
        STEPS + "=>> PBS: job killed: walltime 3631 exceeded limit 3600\nTerminated\n",
        id="PBS's walltime",
    ),
    pytest.param(
        "time_limit",
        "TERM_RUNLIMIT",
        STEPS
        + "\n------------------------------------------------------------\nTERM_RUNLIMIT: job killed after reaching LSF run time limit.\nExited with exit code 140.\n",
        id="LSF's run limit",
    ),
    pytest.param(
        "time_limit",
        "Time limit reached",
        "Epoch 0:  10%|#         | 10/100 [00:05<00:45,  2.00it/s, v_num=1]\nTime limit reached. Elapsed time is 0:10:00. Signaling Trainer to stop.\n",
        id="Lightning's timer",
    ),
    # Slurm
    pytest.param(
        "slurm_failure",
        "Job prolog failed",
        """\
srun: error: Task launch for StepId=23.0 failed on node hpc: Job prolog failed
srun: error: Application launch failed: Job prolog failed
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
srun: error: Timed out waiting for job step to complete
""",
        id="a prolog failed",
    ),
    pytest.param(
        "slurm_failure",
        "Invalid account",
        "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n",
        id="an account that Slurm does not know",
    ),
    pytest.param(
        "slurm_failure",
        "Requested node configuration is not available",
        "srun: error: Unable to allocate resources: Requested node configuration is not available\n",
        id="nodes that there are not",
    ),
    pytest.param(
        "slurm_failure",
        "More processors requested",
        "srun: error: Unable to create step for job 4411: More processors requested than permitted\n+ exit 1\n",
        id="a step larger than its job",
    ),
    pytest.param(
        "slurm_failure",
        "Node failure on",
        MEGATRON
        + "srun: error: Node failure on gpu-n2\n"
        + "1: [rank8]:[E301 10:05:42.1 ProcessGroupNCCL.cpp:632] [Rank 8] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE, NumelIn=2, NumelOut=2, Timeout(ms)=600000) ran for 600325 milliseconds before timing out.\n"
        + SLURM_END,
        id="a node went down",
    ),
    # machines
    pytest.param(
        "hardware",
        "uncorrectable NVLink error",
        STEPS
        + """\
Traceback (most recent call last):
  File "/home/u/train.py", line 31, in <module>
    loss.backward()
RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
""",
        id="NVLink, as CUDA says it",
    ),
    pytest.param(
        "hardware",
        "Xid (PCI:0000:dc:00): 149",
        MEGATRON
        + "kernel: NVRM: Xid (PCI:0000:dc:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 02 (0x004505c6 0x00000000)\n"
        + "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149\n"
        + "[rank3]:[E301 10:05:42.1 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE, NumelIn=2, NumelOut=2, Timeout(ms)=600000) ran for 600325 milliseconds before timing out.\n",
        id="a newer Xid of NVLink, and the channels that it killed",
    ),
    pytest.param(
        "hardware",
        "ECC",
        STEPS
        + """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/home/u/train.py", line 31, in <module>
[rank1]:     exponent = exponent / half_dim
[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered
[E ProcessGroupNCCL.cpp:916] [Rank 1] NCCL watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered
""",
        id="ECC, as CUDA says it, twice",
    ),
    pytest.param(
        "hardware",
        "Unable to determine the device handle",
        STEPS + "Unable to determine the device handle for GPU0000:5E:00.0: Unknown Error\nexit code 1\n",
        id="nvidia-smi has lost a GPU",
    ),
    pytest.param(
        "hardware",
        "Machine check",
        MEGATRON
        + "mce: [Hardware Error]: Machine check events logged\nmce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400\nsrun: error: gpu-n1: task 0: Killed\n",
        id="the processor itself",
    ),
    # exit codes alone
    pytest.param(
        "cancelled", "exit code 143", STEPS + "Process exited with exit code 143\n", id="exit code 143 and nothing else"
    ),
    pytest.param(
        "oom", "exit code 137", STEPS + "Process exited with exit code 137\n", id="exit code 137 and nothing else"
    ),
    pytest.param("unknown", "exit code 1", STEPS + "Process exited with exit code 1\n", id="exit code 1 says nothing"),
    pytest.param(
        "exception",
        "Segmentation fault",
        STEPS + "run.sh: line 3: 8812 Segmentation fault      (core dumped) python train.py\n",
        id="a native crash",
    ),
    pytest.param(
        "unknown",
        "failed (exitcode: -6)",
        STEPS
        + "E0301 10:05:13.883000 89244 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -6) local_rank: 0 (pid: 89289) of binary: /opt/venv/bin/python\n",
        id="exit code -6 follows from too much",
    ),
]


@pytest.mark.parametrize(("error_type", "evidence", "text"), CASES)
def test_what_ended_it(error_type: str, evidence: str, text: str) -> None:
    cause = explain_text(text, load("default")).cause
    assert cause is not None
    assert cause.error_type == error_type
    assert evidence in cause.evidence.text
