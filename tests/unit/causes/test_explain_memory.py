# ruff: noqa: E501 - lines of logs are as long as they are
"""Memory that ran out: of GPUs, of hosts, shared memory."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import CHILD_FAILED, MEGATRON, STEPS

CASES = [
    pytest.param(
        STEPS
        + """\
Traceback (most recent call last):
  File "/home/u/train.py", line 120, in <module>
    loss.backward()
RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity; 13.90 GiB already allocated; 1.20 GiB free; 14.05 GiB reserved in total by PyTorch)
""",
        "Tried to allocate 2.00 GiB",
        id="CUDA out of memory as PyTorch 1 said it",
    ),
    pytest.param(
        STEPS
        + """\
Traceback (most recent call last):
  File "/home/u/train.py", line 88, in <module>
    main()
  File "/home/u/train.py", line 40, in main
    model.to("mps")
RuntimeError: MPS backend out of memory (MPS allocated: 17.93 GB, other allocations: 384.00 KB, max allowed: 18.13 GB). Tried to allocate 512.00 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).
""",
        "MPS backend out of memory",
        id="a Mac's GPU is out of memory",
    ),
    pytest.param(
        """\
Traceback (most recent call last):
  File "/home/u/train_jax.py", line 77, in <module>
    state, metrics = train_step(state, batch)
jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.
--------------------
For simplicity, JAX has removed its internal frames from the traceback of the following exception. Set JAX_TRACEBACK_FILTERING=off to include these.
""",
        "RESOURCE_EXHAUSTED",
        id="XLA cannot allocate",
    ),
    pytest.param(
        STEPS
        + """\
Traceback (most recent call last):
  File "/home/u/prepare.py", line 31, in <module>
    buffer = np.zeros((count, 4096), dtype=np.float32)
numpy.core._exceptions._ArrayMemoryError: Unable to allocate 181. GiB for an array with shape (11877376, 4096) and data type float32
""",
        "Unable to allocate 181. GiB",
        id="numpy gets no memory from the host",
    ),
    pytest.param(
        """\
epoch 0
Traceback (most recent call last):
  File "train.py", line 12, in <module>
    x = torch.empty(10**12)
RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)
""",
        "DefaultCPUAllocator",
        id="PyTorch gets no memory from the host",
    ),
    pytest.param(
        MEGATRON
        + """\
[346123.123456] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[346123.223456] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,task=python3,pid=41122,uid=1001
[346123.323456] Memory cgroup out of memory: Killed process 41122 (python3) total-vm:189123456kB, anon-rss:130023424kB
[rank1]: Traceback (most recent call last):
[rank1]:   File "/workspace/train.py", line 20, in <module>
[rank1]:     dist.all_reduce(x)
[rank1]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:3333
"""
        + CHILD_FAILED,
        "invoked oom-killer",
        id="the kernel's OOM killer, then a peer that misses the victim",
    ),
    pytest.param(
        MEGATRON
        + "E0301 10:05:13.883000 89244 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 2 (pid: 89289) of binary: /opt/venv/bin/python\n"
        + CHILD_FAILED.replace("exitcode: 1", "exitcode: -9"),
        "exitcode: -9",
        id="nothing but exit code -9",
    ),
    pytest.param(
        STEPS
        + """\
Traceback (most recent call last):
  File "/opt/venv/lib/python3.10/site-packages/torch/utils/data/dataloader.py", line 1133, in _try_get_data
    data = self._data_queue.get(timeout=timeout)
  File "/usr/lib/python3.10/queue.py", line 180, in get
    self.not_empty.wait(remaining)
  File "/opt/venv/lib/python3.10/site-packages/torch/utils/data/_utils/signal_handling.py", line 66, in handler
    _error_if_any_worker_fails()
RuntimeError: DataLoader worker (pid 3321) is killed by signal: Killed.

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "train.py", line 100, in <module>
    for batch in loader:
RuntimeError: DataLoader worker (pid(s) 3321) exited unexpectedly
""",
        "is killed by signal: Killed",
        id="a DataLoader worker was killed",
    ),
    pytest.param(
        """\
NAME      READY   STATUS      RESTARTS   AGE
trainer   0/1     OOMKilled   0          12m
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
""",
        "OOMKilled",
        id="Kubernetes killed the container for its memory",
    ),
    pytest.param(
        STEPS + "Killed\n",
        "Killed",
        id="the shell's one word",
    ),
    pytest.param(
        """\
2026-03-01 10:00:01,000 INFO starting workers
(RayTrainWorker pid=4021, ip=10.0.0.4) step 10 loss 2.1
(raylet, ip=10.0.0.4) [2026-03-01 10:12:00,001 E 811 811] (raylet) node_manager.cc:3064: 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: ab12, IP: 10.0.0.4) over the last time period.
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
""",
        "killed due to memory pressure",
        id="Ray's memory monitor, then the actor that is gone",
    ),
    pytest.param(
        """\
node3:120:211 [0] include/shm.h:48 NCCL WARN Error while creating shared memory segment nccl-shm-recv-7f2c4f1c3dfc7c33 (size 9637888)
node3:120:211 [0] NCCL INFO transport/shm.cc:100 -> 2
Traceback (most recent call last):
  File "train.py", line 44, in <module>
    model = DDP(model)
RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1269, unhandled system error, NCCL version 2.14.3
ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
""",
        "creating shared memory segment",
        id="NCCL finds /dev/shm full",
    ),
    pytest.param(
        STEPS
        + """\
terminate called after throwing an instance of 'std::bad_alloc'
  what():  std::bad_alloc
/var/spool/slurmd/job88/slurm_script: line 12: 4411 Aborted                 (core dumped) python train.py
""",
        "std::bad_alloc",
        id="C++ found no memory",
    ),
    pytest.param(
        STEPS
        + """\
Traceback (most recent call last):
  File "train.py", line 60, in train_step
    out = model(x)
  File "/opt/venv/lib/python3.10/site-packages/torch/nn/functional.py", line 2264, in linear
    return F.linear(x, w)
RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`
""",
        "CUBLAS_STATUS_ALLOC_FAILED",
        id="cuBLAS finds no GPU memory",
    ),
    pytest.param(
        MEGATRON
        + """\
slurmstepd: error: Detected 2 oom_kill events in StepId=991.0. Some of the step tasks have been OOM Killed.
srun: error: node12: task 3: Out Of Memory
slurmstepd: error: *** STEP 991.0 ON node12 CANCELLED AT 2026-03-01T10:06:00 ***
srun: error: node13: tasks 8-15: Terminated
""",
        "oom_kill events",
        id="Slurm's newer words for it",
    ),
]


@pytest.mark.parametrize(("text", "evidence"), CASES)
def test_memory_that_ran_out(text: str, evidence: str) -> None:
    cause = explain_text(text, load("default")).cause
    assert cause is not None
    assert cause.error_type == "oom"
    assert evidence in cause.evidence.text
