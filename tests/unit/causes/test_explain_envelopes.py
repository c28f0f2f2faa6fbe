# ruff: noqa: E501 - lines of logs are as long as they are
"""Errors that only say that something failed, and tell what it was in their details."""

import json

import pytest

from lastbeat.causes.explaining import explain, explain_text
from lastbeat.causes.log_reader import LogReader
from lastbeat.signals.loading import load, load_setting
from support.printed import STEPS

RAISED = """\
[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/srv/train.py", line 40, in <module>
[rank{rank}]:     main()
[rank{rank}]:   File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2714, in broadcast
[rank{rank}]:     work = group.broadcast([tensor], opts)
[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, {what}, NCCL version 2.26.2
[rank{rank}]: {again}
[rank{rank}]: Last error:
[rank{rank}]: {detail}
"""
SYSTEM = "unhandled system error (run with NCCL_DEBUG=INFO for details)"
CUDA = "unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
REMOTE = "remote process exited or there was a network error"
AGAIN = {
    SYSTEM: "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
    CUDA: "ncclUnhandledCudaError: Call to CUDA function failed.",
    REMOTE: "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
}
SRUN = "srun: error: n2: task 1: Exited with exit code 1\nsrun: Terminating StepId=88.0\n"


def raised(what: str, detail: str, rank: int = 3) -> str:
    return RAISED.format(rank=rank, what=what, again=AGAIN[what], detail=detail)


CASES = [
    # NCCL, as PyTorch raises it
    pytest.param("oom", "Cuda failure 2", raised(CUDA, "Cuda failure 2 'out of memory'"), id="no GPU memory left"),
    pytest.param(
        "oom",
        "Failed to CUDA",
        raised(CUDA, "Failed to CUDA calloc async 4194304 bytes"),
        id="nor for NCCL's own buffers",
    ),
    pytest.param("oom", "HIP failure", raised(CUDA, "HIP failure 2 'out of memory'"), id="no GPU memory left, on AMD"),
    pytest.param(
        "oom",
        "extend /dev/shm",
        raised(
            SYSTEM, "Error: failed to extend /dev/shm/nccl-xYz12 to 33030532 bytes, error: No space left on device (28)"
        ),
        id="/dev/shm is full",
    ),
    pytest.param(
        "hardware",
        "uncorrectable ECC",
        raised(CUDA, "Cuda failure 214 'uncorrectable ECC error encountered'"),
        id="the GPU's memory fails",
    ),
    pytest.param(
        "hardware",
        "GPU is lost",
        raised(SYSTEM, "nvmlDeviceGetHandleByIndex_v2() failed: GPU is lost"),
        id="the GPU is gone",
    ),
    pytest.param(
        "environment",
        "version mismatch",
        raised(SYSTEM, "nvmlInit_v2() failed: Driver/library version mismatch"),
        id="a driver that was updated under the job",
    ),
    pytest.param(
        "environment",
        "not yet initialized",
        raised(CUDA, "Cuda failure 802 'system not yet initialized'"),
        id="no fabric manager",
    ),
    pytest.param(
        "torch",
        "illegal memory",
        raised(CUDA, "Cuda failure 700 'an illegal memory access was encountered'"),
        id="a kernel had failed before",
    ),
    pytest.param(
        "communication",
        "Connection refused",
        raised(REMOTE, "socketPollConnect: connect returned Connection refused, exceeded error retry count (35)"),
        id="nobody listens on the other side",
    ),
    pytest.param(
        "communication",
        "from 10.4.0.9",
        raised(REMOTE, "Call to recv from 10.4.0.9<41234> failed : Connection reset by peer"),
        id="the other side closed the connection",
    ),
    pytest.param(
        "nccl",
        "DistBackendError",
        raised(SYSTEM, "Bootstrap : no socket interface found"),
        id="a detail that is of NCCL, too, leaves the error the evidence",
    ),
    pytest.param("nccl", "DistBackendError", raised(SYSTEM, ""), id="no detail: the error itself"),
    pytest.param(
        "nccl", "DistBackendError", raised(SYSTEM, "") + SRUN, id="what the launcher says behind it is no detail"
    ),
    pytest.param(
        "nccl",
        "DistBackendError",
        raised(SYSTEM, "")
        + "slurmstepd: error: *** STEP 88.0 ON n2 CANCELLED AT 2026-03-01T10:20:00 DUE TO TASK FAILURE ***\n",
        id="nor is what the scheduler says",
    ),
    pytest.param(
        "nccl",
        "DistBackendError",
        raised(SYSTEM, "") + "[rank3]: WARNING:aws: out of memory on the tracker, retrying\n",
        id="nor what a logger says",
    ),
    pytest.param(
        "exception",
        "KeyError",
        raised(
            REMOTE, "socketPollConnect: connect returned Connection refused, exceeded error retry count (35)", rank=0
        )
        + '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/srv/train.py", line 9, in <module>\n'
        + "[rank1]:     batch['labels']\n[rank1]: KeyError: 'labels'\n",
        id="what a survivor sees of its peer is a consequence, with its details",
    ),
    pytest.param(
        "oom",
        "[rank2]: Cuda failure",
        raised(CUDA, "", rank=0) + raised(CUDA, "Cuda failure 2 'out of memory'", rank=2),
        id="one rank's details tell more than another's error without any",
    ),
    pytest.param(
        "oom",
        "[rank2]: Cuda failure",
        "".join(
            f"{mine}\n{other}\n"
            for mine, other in zip(
                raised(CUDA, "Cuda failure 2 'out of memory'", rank=2).splitlines(),
                raised(REMOTE, "Connection closed by remote peer n2<4711>", rank=0).splitlines(),
                strict=True,
            )
        ),
        id="two ranks that print line by line in turn",
    ),
    pytest.param(
        "environment",
        "nvmlInit_v2",
        "n1:71:402 [0] misc/nvmlwrap.cc:195 NCCL WARN nvmlInit_v2() failed: Driver/library version mismatch\n"
        + raised(SYSTEM, "nvmlInit_v2() failed: Driver/library version mismatch", rank=0),
        id="NCCL's own warning was printed first",
    ),
    # the watchdog's thread
    pytest.param(
        "torch",
        "illegal memory access",
        "[rank5]:[E307 10:11:12.123456789 ProcessGroupNCCL.cpp:1896] [PG ID 0 PG GUID 0(default_pg) Rank 5] Process group watchdog thread "
        "terminated with exception: CUDA error: an illegal memory access was encountered\n"
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n",
        id="CUDA's error, in the words of NCCL's watchdog",
    ),
    pytest.param(
        "hardware",
        "uncorrectable ECC",
        "[rank5]:[E307 10:11:12.123456789 ProcessGroupNCCL.cpp:1896] [PG ID 0 PG GUID 0(default_pg) Rank 5] Process group watchdog thread "
        "terminated with exception: CUDA error: uncorrectable ECC error encountered\n",
        id="a GPU's failure, in the words of NCCL's watchdog",
    ),
    # gloo, UCX, libfabric
    pytest.param(
        "communication",
        "Unable to find address",
        'Traceback (most recent call last):\n  File "/srv/train.py", line 4, in <module>\n    dist.init_process_group("gloo")\n'
        "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable to find address for: node-7\n",
        id="gloo finds no interface",
    ),
    pytest.param(
        "communication",
        "retry count exceeded",
        STEPS
        + "[n3:19546:0:19546] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)\n"
        "[n3:19546:0:19546] ib_mlx5_log.c:177  DCI QP 0xd16 wqe[6168]: SEND s-e [rqpn 0x17de rlid 1037] [inl len 61]\n==== backtrace (tid:19546) ====\nAborted (core dumped)\n",
        id="UCX gave up on a link",
    ),
    pytest.param(
        "oom",
        "Cannot allocate memory",
        STEPS
        + "[1772360000.123456] [n3:19546:0]          ib_md.c:309  UCX  ERROR ibv_reg_mr(address=0x7f3c, length=33554432) failed: Cannot allocate memory\nAborted (core dumped)\n",
        id="UCX could not register memory",
    ),
    pytest.param(
        "communication",
        "Unresponsive receiver",
        raised(
            SYSTEM,
            "NET/OFI Request 0x7f1c completed with error. RC: 113. Error: 4123 (Unresponsive receiver (reachable by EFA device but handshake failed))",
        ),
        id="EFA reaches the other node no more",
    ),
    pytest.param(
        "communication",
        "efa_rdm_cq",
        STEPS
        + "libfabric:4711:1772360000::efa:cq:efa_rdm_cq_poll_ibv_cq():351<error> Unexpected completion: unresponsive receiver\nAborted (core dumped)\n",
        id="libfabric's own word before an abort",
    ),
    # launchers of Python
    pytest.param(
        "oom",
        "Tried to allocate 2.00 GiB",
        STEPS
        + 'Traceback (most recent call last):\n  File "/srv/train.py", line 31, in <module>\n    trainer.fit(model)\n'
        "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\n"
        'Traceback (most recent call last):\n  File "/srv/model.py", line 77, in step\n    logits = self.head(hidden)\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 1.25 GiB is free.\n",
        id="what a process of Lightning's raised",
    ),
    pytest.param(
        "exception",
        "KeyError: 'labels'",
        STEPS
        + "Traceback (most recent call last):\n  File \"/srv/train.py\", line 31, in <module>\n    main()\nKeyError: 'labels'\n"
        'Traceback (most recent call last):\n  File "/opt/venv/bin/accelerate", line 8, in <module>\n    sys.exit(main())\n'
        "subprocess.CalledProcessError: Command '['/opt/venv/bin/python', 'train.py']' returned non-zero exit status 1.\n",
        id="what a script that accelerate started raised",
    ),
    # XLA
    pytest.param(
        "torch",
        "Failed to launch",
        STEPS + 'Traceback (most recent call last):\n  File "/srv/train.py", line 4, in <module>\n    step(state)\n'
        "jax.errors.JaxRuntimeError: INTERNAL: Failed to launch CUDA kernel: fusion_12; block dims: 1024x1x1\n",
        id="XLA's kernel did not start",
    ),
    pytest.param(
        "hardware",
        "ECC_UNCORRECTABLE",
        STEPS + 'Traceback (most recent call last):\n  File "/srv/train.py", line 4, in <module>\n    step(state)\n'
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to synchronize: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered\n",
        id="XLA's words of a GPU that fails",
    ),
    pytest.param(
        "oom",
        "OUT_OF_MEMORY",
        STEPS + 'Traceback (most recent call last):\n  File "/srv/train.py", line 4, in <module>\n    step(state)\n'
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to allocate 1073741824 bytes for new constant: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n",
        id="XLA's words of memory",
    ),
    pytest.param(
        "environment",
        "SYSTEM_NOT_READY",
        'Traceback (most recent call last):\n  File "/srv/train.py", line 4, in <module>\n    jax.devices()\n'
        "jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: cuInit failed: CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized\n",
        id="XLA's words of a driver",
    ),
    # Ray
    pytest.param(
        "oom",
        "Tried to allocate 2.00 GiB",
        STEPS
        + 'Traceback (most recent call last):\n  File "/srv/main.py", line 31, in <module>\n    ray.get(runner.run.remote())\n'
        '  File "/opt/venv/lib/python3.10/site-packages/ray/_private/worker.py", line 908, in get_objects\n    raise value\n'
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::Runner.run() (pid=4711, ip=10.0.0.4, actor_id=2f01, repr=<main.Runner object at 0x7f>)\n"
        '  File "/srv/main.py", line 12, in run\n    loss = self.step(batch)\n  File "/srv/model.py", line 77, in step\n    logits = self.head(hidden)\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.25 GiB is free.\n",
        id="what a remote task raised",
    ),
    pytest.param(
        "environment",
        "ImportError: cannot import name",
        "    raise value.as_instanceof_cause()\n"
        "ray.exceptions.RayTaskError(ImportError): ray::Runner.run() (pid=4711, ip=10.0.0.4)\n"
        "           ^^^^^^^^^^^^^^^^^^^^^\n"
        '  File "/srv/main.py", line 12, in run\n    self.build()\n'
        "ray.exceptions.RayTaskError(ImportError): ray::Worker.build() (pid=4712, ip=10.0.0.5)\n"
        "           ^^^^^^^^^^^^^^^^^^^^^\n"
        '  File "/srv/worker.py", line 77, in build\n    from package.models import Modle\n'
        "ImportError: cannot import name 'Modle' from 'package.models' (/opt/venv/package/models.py)\n",
        id="what a remote task of a remote task raised, below the marks of code that was left out",
    ),
    pytest.param(
        "oom",
        "NODE_OUT_OF_MEMORY",
        STEPS
        + 'Traceback (most recent call last):\n  File "/srv/main.py", line 31, in <module>\n    ray.get(worker.fit.remote())\n'
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: Worker\n\tactor_id: 8d14\n\tpid: 319017\n\tnamespace: 1109\n\tip: 10.44.139.116\n"
        "The actor is dead because its worker process has died. Worker exit type: NODE_OUT_OF_MEMORY Worker exit detail: Task was killed due to the node running low on memory.\n",
        id="how a worker ended, below the actor's fields",
    ),
    pytest.param(
        "unknown",
        "ActorDiedError",
        STEPS
        + 'Traceback (most recent call last):\n  File "/srv/main.py", line 31, in <module>\n    ray.get(worker.fit.remote())\n'
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: Worker\n\tpid: 319017\n"
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.\n",
        id="an actor that died without a word",
    ),
    # Hydra
    pytest.param(
        "oom",
        "OutOfMemoryError(",
        "Error executing job with overrides: ['trainer=ddp']\n"
        'Traceback (most recent call last):\n  File "/srv/train.py", line 60, in main\n    model = hydra.utils.instantiate(cfg.model)\n'
        "hydra.errors.InstantiationException: Error in call to target 'models.net.Net':\n"
        "OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.25 GiB is free.')\nfull_key: model\n\n"
        "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n",
        id="what was raised in a call that a configuration names",
    ),
    pytest.param(
        "exception",
        "Error in call to target",
        "Error executing job with overrides: []\n"
        'Traceback (most recent call last):\n  File "/srv/train.py", line 60, in main\n    model = hydra.utils.instantiate(cfg.model)\n'
        "hydra.errors.InstantiationException: Error in call to target 'models.net.Net':\nTypeError(\"Net.__init__() got an unexpected keyword argument 'width'\")\nfull_key: model\n",
        id="a program's own fault in such a call",
    ),
]


@pytest.mark.parametrize(("error_type", "evidence", "text"), CASES)
def test_the_detail_is_the_cause(error_type: str, evidence: str, text: str) -> None:
    found = explain_text(text, load("default"))
    assert found.cause is not None
    assert (found.cause.error_type, evidence in found.cause.evidence.text) == (error_type, True), found.cause.evidence
    assert found.ended


HEALTHY = [
    pytest.param(
        "[1772360000.1] [n3:1:0]       ib_device.c:1 UCX  DIAG  ibv_create_ah failed: Connection timed out\n",
        id="what UCX found out",
    ),
    pytest.param("- NCCL ERROR handling: enabled\n", id="a heading of settings"),
    pytest.param(
        "n1:71:402 [0] NCCL INFO socketPollConnect: connect returned Connection refused, retrying (3/34) after sleep for 300 msec\n",
        id="NCCL still tries",
    ),
    pytest.param(
        "n1:71:402 [2] NCCL INFO [Service thread] Connection closed by localRank 2\n", id="NCCL's goodbye at the end"
    ),
    pytest.param("n1:71:402 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n", id="NCCL's interface"),
    pytest.param(
        "n1:71:402 [0] misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed\n",
        id="a device that NCCL goes without",
    ),
    pytest.param(
        "[W307 10:00:00 ProcessGroupNCCL.cpp:1] Warning: the watchdog would report 'Cuda failure 2 out of memory' here\n",
        id="what would be reported",
    ),
    pytest.param(
        "[1772360000.1] [n3:1:0] ucp_context.c:1 UCX  WARN  network device 'mlx5_9:1' is not available, please use one or more of: 'mlx5_0:1'(IB)\n",
        id="a device that UCX goes without",
    ),
]


@pytest.mark.parametrize("line", HEALTHY)
def test_words_that_healthy_runs_print_end_nothing(line: str) -> None:
    later = "".join(f"step {step}/1000 loss 2.{step}\n" for step in range(30, 36))
    assert explain_text(STEPS + line + later + "Training finished\n", load("default")).cause is None
    assert explain_text(STEPS + line, load("default")).cause is None


def test_the_detail_keeps_where_its_envelope_was_raised() -> None:
    """People want to see their own code, and NCCL's words name none."""
    cause = explain_text(raised(CUDA, "Cuda failure 2 'out of memory'"), load("default")).cause
    assert cause is not None
    assert cause.frames[0].startswith("/srv/train.py:40")


def test_frames_below_an_envelope_are_the_details_own() -> None:
    """Ray prints the remote traceback without a header."""
    text = (
        'Traceback (most recent call last):\n  File "/srv/main.py", line 31, in <module>\n    ray.get(ref)\n'
        "ray.exceptions.RayTaskError(KeyError): ray::work() (pid=1, ip=10.0.0.4)\n"
        '  File "/srv/worker.py", line 12, in work\n    return table[key]\n'
        "KeyError: 'tokens'\n"
    )
    cause = explain_text(text, load("default")).cause
    assert cause is not None
    assert cause.frames[0] == "/srv/worker.py:12 in work: return table[key]"


def test_the_hint_is_that_of_the_detail_even_where_the_type_is_the_same() -> None:
    cause = explain_text(raised(SYSTEM, "Bootstrap : no socket interface found"), load("default")).cause
    assert cause is not None
    assert "NCCL_SOCKET_IFNAME has to name an interface" in cause.hint


OWN = """\
extends: [base]
error_types:
  licence:
    restartable: true
    meaning: No licence was free.
    hint: 'Wait, or buy more: lmstat -a.'
signals:
  solver_failed:
    pattern: 'SolverError: job \\d{1,9} failed'
    error_type: exception
    envelope: true
  no_seat:
    pattern: '^reason: no seat for \\w{1,40}'
    error_type: licence
"""


@pytest.mark.parametrize(
    ("error_type", "text"),
    [
        pytest.param("licence", "SolverError: job 7 failed\nreason: no seat for mesher\n", id="in the line below"),
        pytest.param(
            "licence",
            "SolverError: job 7 failed\n  at solver.c:12\n\nreason: no seat for mesher\n",
            id="a few lines below",
        ),
        pytest.param("exception", "SolverError: job 7 failed\nreason: unknown\n", id="no detail"),
        pytest.param(
            "exception",
            "SolverError: job 7 failed\n" + "output of the solver\n" * 9 + "reason: no seat for mesher\n",
            id="too far below: another story",
        ),
    ],
)
def test_a_catalogue_of_ones_own_may_have_envelopes(error_type: str, text: str) -> None:
    catalogue = load_setting("own.yaml", lambda _: OWN)
    cause = explain_text(STEPS + text, catalogue).cause
    assert cause is not None
    assert cause.error_type == error_type


@pytest.mark.parametrize("cut", range(60, len(raised(CUDA, "Cuda failure 2 'out of memory'")), 97))
def test_an_envelope_may_be_read_in_two_looks(cut: int) -> None:
    """What is open is kept between processes."""
    text = raised(CUDA, "Cuda failure 2 'out of memory'").encode()
    catalogue = load("default")
    first = LogReader(catalogue, "train.log")
    first.feed(text[:cut])
    kept = json.loads(json.dumps(first.document()))
    second = LogReader.restore(catalogue, kept)
    second.feed(text[cut:])
    second.finish()
    cause = explain([second.summary()], catalogue).cause
    assert cause is not None
    assert cause.error_type == "oom"
