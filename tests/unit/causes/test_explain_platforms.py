# ruff: noqa: E501 - lines of logs are as long as they are
"""Frameworks, clouds and machines, each in its own words."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import STEPS, traceback

CASES = [
    pytest.param(
        "numerical_instability",
        STEPS + "Loss is nan, stopping training\n{'loss': nan}\n",
        id="training stops for a loss",
    ),
    pytest.param(
        "time_limit",
        "submitit WARNING (2026-03-01 04:18:45,706) - Caught signal SIGUSR2 on n1: this job is timed-out.\nsubmitit INFO (2026-03-01 04:18:45,881) - Job has timed out. Ran 60 minutes out of requested 60 minutes.\n",
        id="submitit is out of time",
    ),
    pytest.param(
        "exception",
        "usage: train.py [-h] --lr LR\ntrain.py: error: the following arguments are required: --lr\n",
        id="an argument is missing",
    ),
    pytest.param(
        "oom",
        STEPS
        + traceback(
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:\n\nOOM when allocating tensor with shape[64,512,512] and type float on /job:localhost"
        ),
        id="TensorFlow is out of memory",
    ),
    pytest.param(
        "distributed_timeout",
        traceback(
            "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Failed to connect to coordinator 10.0.0.1:1234"
        ),
        id="the coordinator did not answer in time",
    ),
    pytest.param(
        "communication",
        STEPS
        + traceback(
            "jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task died/restarted unexpectedly or this task is experiencing network issues. Additional GRPC error information: Connection refused"
        ),
        id="the coordinator is gone",
    ),
    pytest.param(
        "oom",
        traceback(
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
        ),
        id="no room for a cache",
    ),
    pytest.param(
        "environment",
        traceback("RuntimeError: Error building extension 'fused_adam'"),
        id="an extension cannot be built",
    ),
    pytest.param(
        "environment",
        traceback(
            "OSError: You are trying to access a gated repo.\nMake sure to have access to it at https://huggingface.co/meta-llama/Llama-2-7b-hf.\n401 Client Error."
        ),
        id="a gate on the hub",
    ),
    pytest.param(
        "data",
        traceback("Exception: data did not match any variant of untagged enum ModelWrapper at line 757273 column 3"),
        id="a tokenizer file that does not fit",
    ),
    pytest.param(
        "nccl",
        "n1:1:2 [0] NCCL INFO Connected\nn1:1:9 [3] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<45678> with status=12 opcode=129 len=0 vendor err 129 (Recv) localGid ::ffff:10.0.0.1\n[rank3]:[E301 10:16:42.1 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0 Rank 3] Exception (either an error or timeout) detected by watchdog at work: 4010\n"
        + traceback(
            "torch.distributed.DistBackendError: NCCL error in: /p/NCCLUtils.hpp:1, remote process exited or there was a network error, NCCL version 2.21.5",
            3,
        ),
        id="InfiniBand gives up",
    ),
    pytest.param(
        "communication",
        "n1:1:9 [3] ofi_process_cq:242 NCCL WARN NET/OFI Request 0x7f completed with error. RC: 21. Error: unresponsive receiver (reachable by EFA device but handshake failed). Completed length: 0, Request: { buffer_index: 255 }\n"
        + traceback(
            "torch.distributed.DistBackendError: NCCL error in: /p/NCCLUtils.hpp:1, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5",
            3,
        ),
        id="EFA gets no answer",
    ),
    pytest.param(
        "watchdog_timeout",
        STEPS
        + "[2026-03-01 10:05:12,114] [ERROR] [ft_launcher@n1] Section step: timeout exceeded for rank 3 (180s). Terminating.\n[rank_monitor] sending SIGKILL to hung rank 3\n",
        id="a section took too long",
    ),
    pytest.param(
        "hang",
        STEPS
        + "[ 2417.123456] INFO: task python:12345 blocked for more than 120 seconds.\n[ 2417.123460]       Not tainted 5.15.0-88-generic #98-Ubuntu\n",
        id="the kernel sees a task blocked",
    ),
    pytest.param(
        "hang", STEPS + "monitor: step 50 unchanged for 900 s, GPU utilization 100%\n", id="a monitor sees no progress"
    ),
    pytest.param(
        "storage",
        STEPS
        + "[123.123456] LustreError: 11-0: lustre-OST0001-osc: operation ost_write failed: rc = -5\n"
        + traceback("OSError: [Errno 5] Input/output error", 0),
        id="Lustre fails",
    ),
    pytest.param(
        "communication",
        STEPS
        + traceback(
            "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?",
            1,
        ),
        id="the store was closed",
    ),
    pytest.param(
        "environment",
        STEPS + traceback("PermissionError: [Errno 13] Permission denied: '/ckpt/step_50.pt'"),
        id="no right to save",
    ),
    pytest.param(
        "exception",
        traceback("hydra.errors.ConfigCompositionException: Could not override 'optim.lrr'."),
        id="an override that does not exist",
    ),
    pytest.param(
        "exception",
        traceback("AssertionError: world size (8) is not divisible by tensor_model_parallel_size (3)"),
        id="a world size that does not divide",
    ),
    pytest.param(
        "torch",
        STEPS + traceback("RuntimeError: expected scalar type Half but found Float"),
        id="another dtype than expected",
    ),
    pytest.param(
        "torch",
        STEPS
        + traceback(
            "RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following reasons",
            0,
        ),
        id="DDP marks a variable twice",
    ),
    pytest.param(
        "hardware",
        STEPS
        + "kernel: NVRM: GPU 0000:3b:00.0: GPU shut down due to over temperature\n[rank0]:[E301 10:16:42.1 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=10, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600325 milliseconds before timing out.\n",
        id="a GPU too hot",
    ),
    pytest.param(
        "exception",
        STEPS
        + traceback("IndexError: list index out of range")
        + "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD with errorcode 1.\n",
        id="MPI aborts after an exception",
    ),
    pytest.param(
        "slurm_failure",
        "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
        id="a quality of service refuses",
    ),
    pytest.param(
        "none",
        "UserWarning: The dataloader, train_dataloader, does not have many workers which may be a bottleneck. Consider increasing the value of the `num_workers` argument\nRank 0: `Trainer.fit` stopped: `max_epochs=1` reached.\n",
        id="warnings, and the last epoch",
    ),
    pytest.param(
        "none",
        "[rank0]:[W301 10:00:00.1 CUDAAllocatorConfig.h:28] Warning: expandable_segments not supported on this platform\n/opt/x/fsdp.py:1: FutureWarning: FSDP.state_dict_type() and FSDP.set_state_dict_type() are being deprecated.\n"
        + STEPS,
        id="deprecations",
    ),
    pytest.param(
        "none",
        "[2026-03-01 10:00:00,000] [WARNING] [runner.py:215:fetch_hostfile] Unable to find hostfile, will proceed with training with local resources only.\n[2026-03-01 10:00:00,000] [INFO] [launch.py:256:main] process 4411 spawned with command: ['python', 'train.py']\n"
        + STEPS
        + "[2026-03-01 10:10:00,000] [INFO] [launch.py:351:main] Process 4411 exits successfully.\n",
        id="DeepSpeed without a host file",
    ),
    pytest.param(
        "none",
        "WARNING:jax._src.xla_bridge:No GPU/TPU found, falling back to CPU. (Set TF_CPP_MIN_LOG_LEVEL=0 and rerun for more info.)\n"
        + STEPS,
        id="JAX without a GPU",
    ),
    pytest.param(
        "none",
        "INFO:jax._src.xla_bridge:Unable to initialize backend 'cuda': module 'jaxlib.xla_extension' has no attribute 'GpuAllocatorConfig'\nINFO:jax._src.xla_bridge:Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: libtpu.so: cannot open shared object file: No such file or directory\n",
        id="JAX looks for backends",
    ),
    pytest.param(
        "none",
        "Could not import apex: ModuleNotFoundError: No module named 'apex', using torch AdamW\nWarning: flash_attn not installed (ImportError), using sdpa\n",
        id="packages that are done without",
    ),
    pytest.param(
        "none",
        STEPS
        + "downloading shard 12 failed, attempt 1 of 5\n"
        + traceback(
            "urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='x', port=443): Read timed out."
        ).replace("<module>", "fetch")
        + "retrying in 2 s\ndownload of shard 12 ok\n",
        id="a traceback between two attempts",
    ),
    pytest.param(
        "distributed_timeout",
        "2026-01-15 16:07:38.568412: E external/xla/xla/tsl/distributed_runtime/coordination/coordination_service.cc:1170] /job:jax_worker/replica:0/task:37 has been set to ERROR in coordination service: UNAVAILABLE: Task /job:jax_worker/replica:0/task:37 heartbeat timeout. This indicates that the remote task has failed.\nFatal Python error: Aborted\n",
        id="JAX misses a task's heartbeat and aborts",
    ),
    pytest.param(
        "distributed_timeout",
        "F0301 16:48:39.731104   16646 client.h:80] Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that another task died; see the other task logs for more details. absl::Status: DEADLINE_EXCEEDED: Deadline Exceeded\nrun.sh: line 1: 16646 Aborted                 python train.py 0\n",
        id="JAX does not reach its coordinator",
    ),
    pytest.param(
        "oom",
        STEPS
        + '2026-09-02T14:22:18.019Z sft-worker-0 container "train" terminated: reason=OOMKilled exitCode=137 limit=64Gi\n'
        + "2026-09-02T14:22:19.110Z sft-worker-0 Back-off restarting failed container train in pod sft-worker-0\n",
        id="Kubernetes restarts what it killed",
    ),
    pytest.param(
        "storage",
        STEPS
        + "2026-10-02T02:11:58Z Warning  Evicted    pod/sft-1   The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 4091Mi.\n",
        id="evicted for its disk",
    ),
    pytest.param(
        "slurm_failure",
        STEPS
        + "slurmstepd: error: *** JOB 15008 STEPD TERMINATED ON n0042 AT 2026-10-05T02:11:19 DUE TO JOB NOT ENDING WITH SIGNALS ***\n",
        id="Slurm's own daemon gives up",
    ),
    pytest.param(
        "slurm_failure",
        "slurmstepd: error: execve(): /tmp/slurmd/job2997814/slurm_script: No such file or directory\n",
        id="the job's script is gone",
    ),
    pytest.param(
        "time_limit",
        "epoch 31/60 loss 0.41\n##[error]The job running on agent Azure Pipelines 2 ran longer than the maximum time of 60 minutes.\n##[error]The operation was canceled.\n",
        id="a pipeline's time limit",
    ),
    pytest.param(
        "hardware",
        STEPS
        + "Oct 25 02:14:26 n7 kernel: NVRM: The NVIDIA GPU 0000:b3:00.0\nOct 25 02:14:26 n7 kernel:                NVRM: fallen off the bus and is not responding to commands.\n",
        id="a driver's sentence on several lines",
    ),
    pytest.param(
        "cancelled", STEPS + "INFO signal 15 received, stopping after this step\n", id="a program is told to stop"
    ),
    pytest.param("cancelled", STEPS + "SystemExit: 143\n", id="the handler of a signal exits"),
    pytest.param(
        "time_limit",
        STEPS + "wall-clock limit of 600 s reached at step 50, saving and exiting\n",
        id="a guard of the program's own",
    ),
    pytest.param(
        "time_limit", STEPS + "[INFO] time budget used up (3600 s), stopping training\n", id="a budget that is used up"
    ),
    pytest.param(
        "environment",
        "python: can't open file '/w/trian.py': [Errno 2] No such file or directory\n",
        id="the program is not there",
    ),
    pytest.param(
        "time_limit",
        STEPS + "run.sh: line 3: 991 Terminated  timeout 20 python train.py\nexit code 124\n",
        id="what timeout stopped",
    ),
    pytest.param(
        "hardware",
        "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=4711, name=python3, Ch 00000001 caused by previous Xid 149\n",
        id="the driver cleans up after an error of NVLink",
    ),
    pytest.param(
        "none",
        "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=4711, name=python3, Ch 00000001\n" + STEPS,
        id="the driver cleans up after a program",
    ),
    pytest.param(
        "torch",
        STEPS
        + "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1422: indexSelectLargeIndex: block: [31,0,0], thread: [0,0,0] Assertion `srcIndex < srcSelectDimSize` \nfailed.\n",
        id="an assertion of a kernel, wrapped by a terminal",
    ),
    pytest.param(
        "torch",
        "F1119 18:06:58.546988 14145 math_functions.cu:79] Check failed: error == cudaSuccess (4 vs. 0)  unspecified launch failure\n*** Check failure stack trace: ***\nAborted (core dumped)\n",
        id="a check of glog",
    ),
    pytest.param(
        "distributed_timeout",
        traceback("RuntimeError: connect() timed out. Original timeout was 60000 ms."),
        id="nobody answers at the rendezvous",
    ),
    pytest.param(
        "communication",
        "gpu7:141:158 [0] include/socket.h:416 NCCL WARN Net : Connection closed by remote peer\ngpu7:141:158 [0] NCCL INFO transport/net_socket.cc:405 -> 2\ngpu7:141:158 [0] NCCL INFO include/net.h:28 -> 2\n",
        id="NCCL returns an error through its calls",
    ),
    pytest.param(
        "none",
        "gpu7:141:158 [0] include/socket.h:416 NCCL WARN Net : Connection closed by remote peer\ngpu7:141:158 [0] NCCL INFO transport/net_socket.cc:405 -> 2\n"
        + STEPS,
        id="NCCL returned an error, and training went on",
    ),
    pytest.param(
        "none",
        "gpu7:141:158 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/IPC\n" + STEPS,
        id="NCCL's channels are no errors",
    ),
    pytest.param(
        "nccl",
        STEPS + traceback("RuntimeError: NCCL communicator was aborted."),
        id="a communicator that another thread gave up",
    ),
    pytest.param(
        "hang",
        "".join(
            f"[1,0]<stderr>:[2026-03-01 10:0{n}:00.861697: W horovod/common/operations.cc:588] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\n[1,0]<stderr>:Stalled ops:HorovodBroadcast_bias_{n} [missing ranks: 1]\n"
            for n in range(3)
        ),
        id="Horovod's ranks wait for each other, again and again",
    ),
    pytest.param(
        "none",
        "[1,0]<stderr>:[2026-03-01 10:00:00.861697: W horovod/common/operations.cc:588] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\n"
        + STEPS,
        id="Horovod's ranks waited for each other once",
    ),
    pytest.param(
        "numerical_instability",
        " 2266: 0.412003, 0.500020 avg, 0.001000 rate, 3.430528 seconds, 145024 images\n 2267: nan, nan avg, 0.001000 rate, 3.430528 seconds, 145088 images\n",
        id="darknet's loss",
    ),
    pytest.param(
        "none",
        " 2267: 0.412003, 0.500020 avg, 0.001000 rate, 3.4 seconds, 145088 images\nRegion 82 Avg IOU: -nan, Class: -nan, Obj: -nan, No Obj: 0.000927, .5R: -nan, .75R: -nan,  count: 0\n",
        id="darknet's averages over nothing",
    ),
    pytest.param(
        "numerical_instability",
        STEPS
        + "".join(
            f"Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to 8.1{n}e-202\n" for n in range(9)
        ),
        id="the loss scale vanishes",
    ),
    pytest.param(
        "none",
        "".join(
            f"Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to {65536 >> n}.0\n" for n in range(4)
        )
        + STEPS,
        id="the loss scale is found",
    ),
    pytest.param(
        "none",
        "Exception in thread Thread-5:\nTraceback (most recent call last):\n"
        '  File "/opt/python/lib/python3.10/threading.py", line 1016, in _bootstrap_inner\n    self.run()\n'
        '  File "/opt/venv/lib/python3.10/site-packages/tensorboardX/event_file_writer.py", line 202, in run\n    data = self._queue.get(True, 1)\n'
        '  File "/opt/python/lib/python3.10/multiprocessing/connection.py", line 136, in _check_closed\n    raise OSError("handle is closed")\n'
        "OSError: handle is closed\n",
        id="a tracker's own thread ends",
    ),
    pytest.param(
        "data",
        STEPS + traceback("FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 0."),
        id="a worker could not read a sample, and its own words are cut off",
    ),
    pytest.param(
        "oom",
        STEPS
        + traceback("RuntimeError: Caught RuntimeError in DataLoader worker process 0.")
        + "Original "
        + traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
        id="what a worker raised",
    ),
]


@pytest.mark.parametrize(("error_type", "text"), CASES)
def test_the_words_of_frameworks_and_machines(error_type: str, text: str) -> None:
    cause = explain_text(text, load("default")).cause
    assert (cause.error_type if cause is not None else "none") == error_type


def test_of_one_warning_said_twice_the_first_is_the_evidence() -> None:
    warning = "gpu7:141:158 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.0.0.4<5486> with status=12 opcode=0 len=0 vendor err 129\n"
    returned = "gpu7:141:158 [4] NCCL INFO transport/net.cc:1302 -> 6\n"
    cause = explain_text(STEPS + (warning + returned) * 2, load("default")).cause
    assert cause is not None
    assert (cause.error_type, cause.evidence.line) == ("nccl", STEPS.count("\n") + 1)
