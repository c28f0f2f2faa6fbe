# ruff: noqa: E501 - lines of logs are as long as they are
"""Logs as they come: ranks between each other, one trouble after another."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import STEPS, traceback

CASES = [
    pytest.param(
        "nccl",
        "n1:1:2 [0] init.cc:1500 NCCL WARN Mismatched NCCL version detected : rank 0 22105 vs rank 1 21903\n"
        + traceback(
            "torch.distributed.DistBackendError: NCCL error in: /p/NCCLUtils.hpp:1, internal error - please report this issue to the NCCL developers, NCCL version 2.21.5",
            0,
        ),
        id="two versions of NCCL",
    ),
    pytest.param(
        "nccl_timeout",
        STEPS
        + "[rank0]:[E301 10:16:42.1 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=10, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600325 milliseconds before timing out.\n[rank0]:[E301 10:16:42.2 ProcessGroupNCCL.cpp:500]  \n\t - [1] Timeout at collective: ALLREDUCE, #10\n\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n\t   - [2] finished ALLREDUCE #9, but didn't join ALLREDUCE #10 (count from 1)\n",
        id="a timeout with its analysis",
    ),
    pytest.param(
        "deadlock",
        STEPS
        + traceback(
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE, TensorShape=[1]), but Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=7, OpType=BROADCAST, TensorShape=[1]).",
            0,
        ),
        id="ranks in different collectives",
    ),
    pytest.param(
        "storage",
        traceback("FileNotFoundError: [Errno 2] No such file or directory: 'out/checkpoint-500/trainer_state.json'"),
        id="a checkpoint's file is missing",
    ),
    pytest.param(
        "environment",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n"
        + traceback(
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx"
        ),
        id="no driver",
    ),
    pytest.param(
        "exception",
        STEPS
        + "Exception in thread Thread-3 (_loader):\n"
        + traceback("KeyError: 'a'").replace("in <module>", "in run"),
        id="an exception in a thread",
    ),
    pytest.param("unknown", STEPS + "exit 1\n", id="exit 1"),
    pytest.param(
        "oom",
        STEPS + "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGKILL\n",
        id="a spawned process was killed",
    ),
    pytest.param(
        "oom",
        STEPS
        + traceback("subprocess.CalledProcessError: Command '['python', 'train.py']' died with <Signals.SIGKILL: 9>."),
        id="a child was killed",
    ),
    pytest.param(
        "oom",
        STEPS + "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited with exit code 137.\n",
        id="LSF's memory limit",
    ),
    pytest.param(
        "storage",
        STEPS
        + traceback(
            'botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "https://bucket.s3.amazonaws.com/ckpt"'
        ),
        id="S3 cannot be reached",
    ),
    pytest.param(
        "communication",
        traceback(
            "OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the cached files and it looks like bert is not the path to a directory containing a file named config.json."
        ),
        id="the hub cannot be reached",
    ),
    pytest.param(
        "nccl",
        STEPS
        + "n1:1:2 [0] NCCL INFO comm 0x1 rank 0\nn1:1:9 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : Got async event : port error\n[rank1]:[E301 10:16:42.1 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=10, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600325 milliseconds before timing out.\n",
        id="a port went down before the timeout",
    ),
    pytest.param(
        "deadlock",
        STEPS
        + """Process 4411: python train.py
Python v3.10.12 (/usr/bin/python3.10)

Thread 4411 (idle): "MainThread"
    acquire (logging/__init__.py:917)
    handle (logging/__init__.py:966)
    save (ckpt.py:20)
    <module> (train.py:25)
Thread 4500 (idle): "writer"
    flush (ckpt.py:44)
    run (threading.py:953)
    _bootstrap (threading.py:973)
""",
        id="two threads in a dump of py-spy",
    ),
    pytest.param(
        "none",
        STEPS
        + 'INFO: SIGUSR1 received: dumping stacks\nThread 0x00007f1 (most recent call first):\n  File "/w/t.py", line 3 in f\n'
        + STEPS.replace("step ", "step 9"),
        id="a dump that somebody asked for",
    ),
    pytest.param(
        "nccl_timeout",
        STEPS
        + "[rank5]:[E723 01:58:45.667329643 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 5] Received a dump signal due to a collective timeout from  rank 2 and we will try our best to dump the debug info. Last enqueued NCCL work: 136, last completed NCCL work: 136.This is most likely caused by incorrect usages of collectives\n[rank5]:[E723 01:58:45.7 ProcessGroupNCCL.cpp:1533] [PG ID 0 PG GUID 0(default_pg) Rank 5] ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1\n",
        id="a dump that another rank asked for",
    ),
    pytest.param(
        "exception",
        "".join(
            "<>        [2026-03-01 10:43:00] ef45fdce [rank=1] || " + line + "\n"
            for line in (STEPS + traceback("KeyError: 'x'")).splitlines()
        ),
        id="every line behind two bars",
    ),
    pytest.param(
        "deadlock",
        STEPS
        + 'no output for 600 s, dumping stacks\nThread 4411 (idle): "MainThread"\n    _acquireLock (logging/__init__.py:226)\n    getLogger (logging/__init__.py:1300)\n    main (train.py:3)\n',
        id="a lock of the logging module",
    ),
    pytest.param(
        "hang",
        STEPS
        + '2026-03-01 no progress for 600 s; dumping stacks\nThread (idle): "MainThread"\n    wait (threading.py:359)\n    get (queue.py:180)\n    _try_get_data (torch/utils/data/dataloader.py:1310)\n    <module> (train.py:3)\nThread (idle): "Thread-1 (_pin_memory_loop)"\n    select (selectors.py:415)\n    wait (multiprocessing/connection.py:1136)\n',
        id="the DataLoader in a dump of py-spy",
    ),
    pytest.param(
        "communication",
        STEPS
        + """\
[rank8]:[W301 14:20:31.100221442 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=84, addr=[n2]:51022, remote=[n1]:29500): Connection reset by peer
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.
""",
        id="warnings of a lost store, then the launcher's own exception",
    ),
]


@pytest.mark.parametrize(("error_type", "text"), CASES)
def test_the_cause_in_the_thick_of_it(error_type: str, text: str) -> None:
    cause = explain_text(text, load("default")).cause
    assert (cause.error_type if cause is not None else "none") == error_type
