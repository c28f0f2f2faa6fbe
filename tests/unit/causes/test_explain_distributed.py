# ruff: noqa: E501 - lines of logs are as long as they are
"""Ranks that wait for each other or lose each other."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import STEPS

TITAN = "".join(
    f"[rank0]:[titan] 2026-03-01 10:0{n}:00,000 - root - INFO - step: {n}  loss: 3.{9 - n}  grad_norm: 1.5  memory: 64.38GiB(84.11%)\n"
    for n in range(1, 6)
)

CLOSED = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/workspace/train.py", line 28, in main
[rank0]:     loss.backward()
[rank0]:   File "/opt/conda/lib/python3.11/site-packages/torch/autograd/graph.py", line 979, in _engine_run_backward
[rank0]:     return Variable._execution_engine.run_backward(
[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:22966. This is typically caused by a remote worker crashing.
"""

WATCHDOG = """\
[rank{0}]:[E301 10:16:42.136769803 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8810, OpType=ALLREDUCE, NumelIn=26214400, NumelOut=26214400, Timeout(ms)=600000) ran for 600325 milliseconds before timing out.
[rank{0}]:[E301 10:16:42.161689210 ProcessGroupNCCL.cpp:646] [Rank {0}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.
[rank{0}]:[E301 10:16:42.174381097 ProcessGroupNCCL.cpp:652] [Rank {0}] To avoid data inconsistency, we are taking the entire process down.
"""

TORCHRUN = """\
W0301 10:16:43.275000 85736 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 85739 closing signal SIGTERM
E0301 10:16:43.303000 85736 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -6) local_rank: 1 (pid: 85746) of binary: /opt/venv/bin/python3.10
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""

CASES = [
    # NCCL's watchdog
    pytest.param(
        "nccl_timeout",
        "[rank1]:[E301",
        TITAN + WATCHDOG.format(1) + WATCHDOG.format(3) + TORCHRUN,
        id="nothing but the watchdog of two ranks",
    ),
    pytest.param(
        "nccl_timeout",
        "Watchdog caught",
        STEPS
        + """\
[E ProcessGroupNCCL.cpp:475] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=100, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1808499 milliseconds before timing out.
[E ProcessGroupNCCL.cpp:489] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.
[E ProcessGroupNCCL.cpp:495] To avoid data inconsistency, we are taking the entire process down.
[E ProcessGroupNCCL.cpp:916] [Rank 2] NCCL watchdog thread terminated with exception: [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=100, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1808499 milliseconds before timing out.
terminate called after throwing an instance of 'std::runtime_error'
  what():  [Rank 2] NCCL watchdog thread terminated with exception
Fatal Python error: Aborted
""",
        id="the watchdog of PyTorch 2.0, then abort",
    ),
    pytest.param(
        "exception",
        "KeyError: 'labels'",
        TITAN
        + """\
[rank5]: Traceback (most recent call last):
[rank5]:   File "/workspace/train.py", line 77, in main
[rank5]:     y = batch["labels"]
[rank5]: KeyError: 'labels'
"""
        + WATCHDOG.format(1)
        + WATCHDOG.format(0)
        + TORCHRUN,
        id="one rank's exception, ten minutes later the others' watchdogs",
    ),
    pytest.param(
        "oom",
        "CUDA out of memory",
        TITAN
        + WATCHDOG.format(1)
        + """\
[rank5]: Traceback (most recent call last):
[rank5]:   File "/workspace/train.py", line 77, in <module>
[rank5]:     out = model(x)
[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 5 has a total capacity of 79.15 GiB of which 6.25 MiB is free.
"""
        + TORCHRUN,
        id="a rank's out-of-memory that was printed behind another's watchdog",
    ),
    pytest.param(
        "hardware",
        "Xid",
        TITAN
        + WATCHDOG.format(1)
        + TORCHRUN
        + "kernel: [81202.711010] NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
        id="the kernel's line at the end of the file",
    ),
    pytest.param(
        "slurm_failure",
        "Node failure on",
        TITAN
        + WATCHDOG.format(1)
        + "srun: error: Node failure on gpu-n7\nslurmstepd: error: *** STEP 9.0 ON gpu-n1 CANCELLED AT 2026-03-01T10:20:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n",
        id="a node's failure that Slurm saw after NCCL did",
    ),
    # heartbeats and watchdogs
    pytest.param(
        "watchdog_timeout",
        "Heartbeat monitor timed out",
        TITAN
        + """\
[rank7]:[E301 10:20:00.000000000 ProcessGroupNCCL.cpp:1536] [PG ID 0 PG GUID 0(default_pg) Rank 7] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=0
[rank7]:[F301 10:28:00.000000000 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0(default_pg) Rank 7] [PG ID 0 PG GUID 0(default_pg) Rank 7] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives. This typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the watchdog, and could be triggered by another thread holding the GIL inside a CUDA api (for example, CudaEventDestroy), or other deadlock-prone behaviors.
"""
        + TORCHRUN,
        id="NCCL's heartbeat monitor",
    ),
    pytest.param(
        "watchdog_timeout",
        "Did not get",
        TITAN
        + "[2026-03-01 10:30:00,114] [ERROR] [rank_monitor_server@n61] Did not get subsequent heartbeat. Waited 2700.41 seconds.\n"
        + TORCHRUN.replace("-6", "-9"),
        id="a fault-tolerance launcher's rank monitor, then exit code -9",
    ),
    # stores and rendezvous
    pytest.param(
        "distributed_timeout",
        "Timed out after 601 seconds",
        """\
Traceback (most recent call last):
  File "train.py", line 10, in <module>
    dist.init_process_group("nccl")
  File "/opt/venv/lib/python3.10/site-packages/torch/distributed/distributed_c10d.py", line 1141, in init_process_group
    store, rank, world_size = next(rendezvous_iterator)
torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.
""",
        id="a rank never came to the store",
    ),
    pytest.param(
        "distributed_timeout",
        "wait timeout after",
        """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/workspace/train.py", line 12, in <module>
[rank1]:     dist.barrier()
[rank1]: torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: /default_pg/0//cuda//0
"""
        + TORCHRUN,
        id="rank 0 never wrote the communicator's id",
    ),
    pytest.param(
        "distributed_timeout",
        "failed to pass monitoredBarrier",
        TITAN
        + """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/workspace/train.py", line 12, in <module>
[rank0]:     dist.monitored_barrier()
[rank0]: RuntimeError: Rank 3 failed to pass monitoredBarrier in 1800000 ms
"""
        + TORCHRUN,
        id="a monitored barrier names who is missing",
    ),
    pytest.param(
        "distributed_timeout",
        "Timed out waiting 30000ms",
        STEPS
        + """\
Traceback (most recent call last):
  File "train.py", line 12, in <module>
    dist.all_reduce(x)
  File "/opt/venv/lib/python3.10/site-packages/torch/distributed/distributed_c10d.py", line 2050, in all_reduce
    work.wait()
RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 30000ms for recv operation to complete
""",
        id="gloo waited for a receive",
    ),
    pytest.param(
        "distributed_timeout",
        "DEADLINE_EXCEEDED",
        """\
Traceback (most recent call last):
  File "/home/u/train_jax.py", line 5, in <module>
    jax.distributed.initialize()
jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: PjRT_Client_Connect::0. This usually happens because a task triggered the barrier unexpectedly early, or some tasks are too slow.
""",
        id="JAX's barrier",
    ),
    # connections
    pytest.param(
        "communication",
        "failed to connect to any network address",
        """\
[E301 10:00:33.7 socket.cpp:753] [c10d] The client socket has failed to connect to any network address of (node-1, 29500).
Traceback (most recent call last):
  File "train.py", line 10, in <module>
    dist.init_process_group("nccl")
torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (node-1, 29500). The client socket has failed to connect to 10.0.0.1:29500 (errno: 113 - No route to host).
""",
        id="no way to the master's address",
    ),
    pytest.param(
        "communication",
        "Address already in use",
        """\
[W301 10:00:33.7 socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
[E301 10:00:33.7 socket.cpp:500] [c10d] The server socket has failed to listen on any local network address.
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/venv/lib/python3.10/site-packages/torch/distributed/elastic/agent/server/api.py", line 600, in _rendezvous
    store, group_rank, group_world_size = spec.rdzv_handler.next_rendezvous()
torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
""",
        id="the port is taken",
    ),
    pytest.param(
        "communication",
        "Name or service not known",
        """\
Traceback (most recent call last):
  File "train.py", line 10, in <module>
    dist.init_process_group("gloo")
RuntimeError: [../third_party/gloo/gloo/transport/tcp/device.cc:87] getaddrinfo: Name or service not known
""",
        id="a name that nobody knows",
    ),
    pytest.param(
        "communication",
        "Connection closed by peer",
        TITAN + CLOSED + TORCHRUN,
        id="a peer that went away, and nothing of why",
    ),
    pytest.param(
        "communication",
        "[c10d] recvValue failed",
        TITAN
        + """\
[rank3]:[W301 10:13:11.2 TCPStore.cpp:115] [c10d] recvValue failed on SocketImpl(fd=3, addr=[n3]:51400, remote=[n0]:29500): failed to recv, got 0 bytes
[rank3]:[W301 10:13:11.2 ProcessGroupNCCL.cpp:1662] [PG ID 0 PG GUID 0 Rank 3] Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: failed to recv, got 0 bytes
"""
        + TORCHRUN,
        id="the store went away",
    ),
    # NCCL itself
    pytest.param(
        "nccl",
        "NCCL WARN Call to ibv_modify_qp failed",
        """\
n4:100:200 [0] NCCL INFO Using network IB
n4:100:200 [0] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out
n4:100:200 [0] NCCL INFO transport/net.cc:677 -> 2
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 12, in <module>
[rank0]:     dist.barrier()
[rank0]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5
[rank1]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, remote process exited or there was a network error, NCCL version 2.21.5
"""
        + TORCHRUN,
        id="an InfiniBand call failed on one node",
    ),
    pytest.param(
        "nccl",
        "invalid usage",
        """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 12, in <module>
[rank1]:     dist.barrier()
[rank1]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.21.5
[rank1]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
[rank1]: Last error:
[rank1]: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000
"""
        + TORCHRUN,
        id="two ranks on one GPU",
    ),
]


@pytest.mark.parametrize(("error_type", "evidence", "text"), CASES)
def test_what_ranks_do_to_each_other(error_type: str, evidence: str, text: str) -> None:
    cause = explain_text(text, load("default")).cause
    assert cause is not None
    assert cause.error_type == error_type
    assert evidence in cause.evidence.text
