# ruff: noqa: E501 - lines of logs are as long as they are
"""Launchers, loggers and tools around programs."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import STEPS, ranks, traceback

CASES = [
    pytest.param(
        "exception",
        ranks(1, 6)
        + traceback("KeyError: 'x'", 2)
        + "".join(
            f"2026-03-01 10:00:06,{r}00 [INFO] [rank{r}] step {6 if r % 2 else 5} loss 1.0{r}\n" for r in range(8)
        ),
        id="ranks whose last lines come behind the crash of another",
    ),
    pytest.param(
        "exception",
        STEPS
        + """E0301 10:05:13.883000 89244 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 2 (pid: 123) of binary: /opt/venv/bin/python
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/venv/lib/python3.10/site-packages/torch/distributed/launcher/api.py", line 269, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-01_10:05:13
  host      : n1
  rank      : 2 (local_rank: 2)
  exitcode  : 1 (pid: 123)
  error_file: /tmp/torchelastic_x/none/attempt_0/2/error.json
  traceback : Traceback (most recent call last):
    File "/opt/venv/lib/python3.10/site-packages/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 346, in wrapper
      return f(*args, **kwargs)
    File "train.py", line 20, in main
      raise ValueError("bad config")
  ValueError: bad config

============================================================
""",
        id="a traceback inside torchrun's table",
    ),
    pytest.param(
        "oom",
        STEPS
        + """[2026-03-01 10:05:13,000] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4411
[2026-03-01 10:05:13,000] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4412
[2026-03-01 10:05:13,100] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', '--local_rank=1'] exits with return code = -9
""",
        id="DeepSpeed's launcher tells exit code -9",
    ),
    pytest.param(
        "exception",
        STEPS
        + traceback("KeyError: 'x'")
        + """[2026-03-01 10:05:13,000] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4411
[2026-03-01 10:05:13,100] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', '--local_rank=1'] exits with return code = 1
""",
        id="DeepSpeed's launcher ends after an exception",
    ),
    pytest.param(
        "exception",
        STEPS
        + """--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
mpirun noticed that process rank 3 with PID 0 on node n2 exited on signal 11 (Segmentation fault).
""",
        id="mpirun tells a signal",
    ),
    pytest.param(
        "exception",
        STEPS
        + traceback("KeyError: 'x'")
        + traceback(
            "subprocess.CalledProcessError: Command '['/usr/bin/python', 'train.py']' returned non-zero exit status 1."
        ),
        id="the launcher's own exception comes last",
    ),
    pytest.param(
        "oom",
        "".join(f'{{"level":"INFO","step":{n},"loss":2.{n}}}\n' for n in range(5))
        + '{"level":"ERROR","ts":"2026-03-01T10:00:00Z","message":"train failed","exc_info":"Traceback (most recent call last):\\n  File \\"t.py\\", line 3\\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity; 13.90 GiB already allocated; 1.20 GiB free"}\n',
        id="a log of JSON objects",
    ),
    pytest.param(
        "oom",
        STEPS
        + "2026-03-01 10:00:00.123 | ERROR    | train:main:33 - CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB of which 1.00 GiB is free.\n",
        id="loguru",
    ),
    pytest.param(
        "exception",
        STEPS
        + """╭─────────────────────────────── Traceback (most recent call last) ────────────────────────────────╮
│ /home/u/train.py:33 in main                                                                      │
│                                                                                                  │
│   30                                                                                             │
│ ❱ 33     x = batch["labels"]                                                                     │
╰──────────────────────────────────────────────────────────────────────────────────────────────────╯
KeyError: 'labels'
""",
        id="a traceback in a box",
    ),
    pytest.param(
        "exception",
        STEPS
        + """[rank0]: Traceback (most recent call last):
[rank1]: Traceback (most recent call last):
[rank0]:   File "/w/train.py", line 12, in <module>
[rank1]:   File "/w/train.py", line 14, in <module>
[rank0]:     dist.all_reduce(x)
[rank1]:     y = batch["z"]
[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:22966.
[rank1]: KeyError: 'z'
""",
        id="two tracebacks, line by line",
    ),
    pytest.param(
        "hardware",
        STEPS
        + "[81202.711010] NVRM: Xid (PCI:0000:18:00): 31, pid=4110, name=python, Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f2c_10000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ\n"
        + traceback("RuntimeError: CUDA error: an illegal memory access was encountered"),
        id="an Xid that a program can cause, before the CUDA error",
    ),
    pytest.param(
        "oom",
        STEPS
        + "E0301 10:05:13.883000 89244 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -7) local_rank: 2 (pid: 123) of binary: /opt/venv/bin/python\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n",
        id="exit code -7",
    ),
    pytest.param(
        "exception",
        STEPS
        + "E0301 10:05:13.883000 89244 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -11) local_rank: 2 (pid: 123) of binary: /opt/venv/bin/python\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n",
        id="exit code -11",
    ),
    pytest.param(
        "exception",
        STEPS
        + """Fatal Python error: Segmentation fault

Current thread 0x00007f1111111b80 (most recent call first):
  File "/w/train.py", line 77 in forward
  File "/w/train.py", line 99 in <module>

Extension modules: numpy.core._multiarray_umath, torch._C (total: 22)
""",
        id="faulthandler on a native crash",
    ),
    pytest.param(
        "cancelled",
        STEPS
        + "Status: Failed\nReason: Evicted\nMessage: The node was low on resource: memory. Threshold quantity: 100Mi\n",
        id="a pod was evicted",
    ),
    pytest.param(
        "distributed_timeout",
        traceback(
            "torch.distributed.DistStoreError: Timed out initializing process group in store based barrier on rank 1, for key: store_based_barrier_key:1 (world_size=4, num_workers_joined=3, timeout=0:30:00)"
        ),
        id="a barrier that not all ranks came to",
    ),
    pytest.param("distributed_timeout", traceback("RuntimeError: Socket Timeout"), id="two words of a timeout"),
    pytest.param(
        "hang",
        STEPS
        + """[2026-03-01 10:00:00.000000: W /tmp/horovod/stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds. This may indicate that different ranks are trying to submit different tensors or that only subset of ranks is submitting tensors, which will cause deadlock.
Missing ranks:
0: [allreduce.w]
""",
        id="Horovod waits for some ranks",
    ),
    pytest.param(
        "numerical_instability",
        STEPS + "step 60/1000 loss nan lr 3e-4\nstep 70/1000 loss nan lr 3e-4\n" + traceback("AssertionError"),
        id="losses that are no number, then an assertion",
    ),
    pytest.param(
        "storage",
        STEPS + "WARNING: disk /ckpt is 97% full\n" + traceback("OSError: [Errno 28] No space left on device"),
        id="a warning, then a full disk",
    ),
    pytest.param(
        "exception",
        STEPS
        + (
            traceback("KeyError: 'x'", 1)
            + "W0301 10:00:00.1 1 torch/distributed/elastic/agent/server/api.py:700] [default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
        )
        * 2
        + traceback("KeyError: 'x'", 1)
        + "E0301 10:05:13.8 89244 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 123) of binary: python\n",
        id="workers were started again until the attempts were spent",
    ),
    pytest.param(
        "cancelled",
        STEPS
        + "srun: interrupt (one more within 1 sec to abort)\nsrun: StepId=77.0 task 0: running\n^Csrun: sending Ctrl-C to StepId=77.0\nsrun: Job step aborted: Waiting up to 32 seconds for job step to finish.\nslurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-03-01T10:05:00 ***\n",
        id="Ctrl-C at srun",
    ),
    pytest.param(
        "hang",
        STEPS
        + 'Timeout (0:10:00)!\nThread 0x00007f1111111b80 (most recent call first):\n  File "/w/train.py", line 77 in read\nslurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-03-01T10:05:00 ***\n',
        id="a hang that somebody cancelled",
    ),
    pytest.param(
        "watchdog_timeout",
        STEPS + "[2026-03-01 10:05:13] Watchdog timeout (watchdog_timeout=300)\nAborted (core dumped)\n",
        id="a server's watchdog",
    ),
    pytest.param(
        "oom",
        """(RayTrainWorker pid=4021, ip=10.0.0.4) step 10 loss 2.1
ray.exceptions.RayTaskError(OutOfMemoryError): ray::RayTrainWorker._RayTrainWorker__execute() (pid=4021, ip=10.0.0.4, actor_id=ab)
  File "/home/u/train.py", line 33, in loop
    out = model(x)
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 15.78 GiB of which 6.25 MiB is free.

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/u/main.py", line 90, in <module>
    result = trainer.fit()
ray.train.base_trainer.TrainingFailedError: The Ray Train run failed. Please inspect the previous error messages for a cause.
""",
        id="Ray wraps what its worker raised",
    ),
]


@pytest.mark.parametrize(("error_type", "text"), CASES)
def test_the_cause_among_what_launchers_print(error_type: str, text: str) -> None:
    cause = explain_text(text, load("default")).cause
    assert (cause.error_type if cause is not None else "none") == error_type
