# ruff: noqa: E501 - lines of logs are as long as they are

"""Programs that stand still: what watchdogs, heartbeat monitors and stack dumps tell of them."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import STEPS

CASES = [
    # standing still
    pytest.param(
        "hang",
        "Timeout (0:05:00)!",
        STEPS
        + """\
Timeout (0:05:00)!
Thread 0x00007f487be1bb80 (most recent call first):
  File "/usr/lib/python3.10/threading.py", line 324 in wait
  File "/usr/lib/python3.10/queue.py", line 180 in get
  File "/opt/venv/lib/python3.10/site-packages/torch/utils/data/dataloader.py", line 1133 in _try_get_data
  File "/home/u/train.py", line 18 in <module>
""",
        id="a stack dump in the DataLoader",
    ),
    pytest.param(
        "hang",
        "DataLoader timed out after 300 seconds",
        STEPS
        + """\
Traceback (most recent call last):
  File "/home/u/train.py", line 18, in <module>
    for batch in loader:
RuntimeError: DataLoader timed out after 300 seconds
""",
        id="the DataLoader's own limit",
    ),
    pytest.param(
        "deadlock",
        "Timeout (0:01:00)!",
        STEPS
        + """\
Timeout (0:01:00)!
Thread 0x00007f2222222700 (most recent call first):
  File "/home/u/writer.py", line 41 in flush
  File "/usr/lib/python3.10/threading.py", line 953 in run
  File "/usr/lib/python3.10/threading.py", line 1016 in _bootstrap_inner
  File "/usr/lib/python3.10/threading.py", line 973 in _bootstrap

Thread 0x00007f1111111b80 (most recent call first):
  File "/home/u/train.py", line 77 in save
  File "/home/u/train.py", line 99 in <module>
Terminated
""",
        id="two threads of one program, each in its own lock",
    ),
    pytest.param(
        "deadlock",
        "no log line for 60 s",
        STEPS
        + """\
2026-03-01 10:04:50 no log line for 60 s, stacks of all ranks:
Process 101: python train.py --rank 0
Thread 101 (active): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2806)
    wrapper (torch/distributed/c10d_logger.py:83)
    sync_metrics (train.py:40)
    <module> (train.py:99)
Process 102: python train.py --rank 1
Thread 102 (active): "MainThread"
    barrier (torch/distributed/distributed_c10d.py:4159)
    wrapper (torch/distributed/c10d_logger.py:83)
    save_checkpoint (train.py:61)
    <module> (train.py:99)
""",
        id="two ranks in two different collectives",
    ),
    pytest.param(
        "hang",
        "no log line for 60 s",
        STEPS
        + """\
2026-03-01 10:04:50 no log line for 60 s, stacks of all ranks:
Process 101: python train.py --rank 0
Thread 101 (active): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2806)
    sync_metrics (train.py:40)
    <module> (train.py:99)
Process 102: python train.py --rank 1
Thread 102 (idle): "MainThread"
    read (fsspec/implementations/local.py:420)
    load_shard (data.py:61)
    <module> (train.py:99)
""",
        id="one rank reads, the other waits for it",
    ),
    # watchdogs and monitors that only warn
    pytest.param(
        "watchdog_timeout",
        "Reaping worker_id=[71]",
        STEPS
        + "I0301 10:40:02.588000 4687 torch/distributed/elastic/timer/api.py:196] Reaping worker_id=[71]. Expired timers: ['/w/train.py#137']\nworker ended with -9\n",
        id="torchelastic's timer kills a worker, in a calm voice",
    ),
    pytest.param(
        "watchdog_timeout",
        "Did not get subsequent heartbeat",
        STEPS
        + "2026-03-01 11:04:11,990 [WARNING] [RankMonitorServer:11] Did not get subsequent heartbeat. Waited 171.92 seconds.\n"
        + "torch.distributed.elastic.multiprocessing.api: [WARNING] Sending process 40328 closing signal SIGTERM\n",
        id="a monitor warns that a rank is silent, then the launcher stops the others",
    ),
    pytest.param(
        "watchdog_timeout",
        "heartbeat timeout",
        STEPS
        + "[agent 11:30:40] ERROR node worker-1 heartbeat timeout: last heartbeat 609 s ago (limit 600 s)\n"
        + "W0301 10:16:43.275000 85736 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 812 closing signal SIGTERM\n",
        id="a node's heartbeat is late",
    ),
    pytest.param(
        "hang",
        "have not launched collective 118",
        STEPS
        + "".join(
            f"W0301 1{n}:30:03.001 ras.py:88] rank(s) 96-111 have not launched collective 118 for {1800 * n} s; all other ranks wait in it\n"
            for n in (1, 2, 3)
        ),
        id="a warning that comes again and again, and nothing else does",
    ),
    pytest.param(
        "hang",
        "no training step finished",
        STEPS
        + """\
16:18:41 ERROR no training step finished in the last 600 s (last step: 17), dumping stacks
Current thread 0x00007fe6800a16c0 (most recent call first):
  File "/w/train.py", line 8 in guard
  File "/opt/conda/lib/python3.11/threading.py", line 982 in run
  File "/opt/conda/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007fe680bdeb80 (most recent call first):
  File "/w/train.py", line 13 in <module>
exit code 3
""",
        id="a thread that dumps stacks waits for nobody",
    ),
    pytest.param(
        "deadlock",
        "most recent call first",
        STEPS
        + """\
(gdb) py-bt
Traceback (most recent call first):
  Waiting for the GIL
  File "/opt/conda/lib/python3.8/logging/__init__.py", line 919, in acquire
    self.lock.acquire()
  File "/opt/conda/lib/python3.8/logging/__init__.py", line 952, in handle
    self.acquire()
(gdb) quit
""",
        id="gdb shows a forked worker in the lock of the logging module",
    ),
    pytest.param(
        "deadlock",
        "holds lock",
        STEPS
        + "2026-03-01 02:10:11 ERROR stall detector: no batch for 1800 s. Worker 3 holds lock 'a' and waits for 'b'; worker 1 holds 'b' and waits for 'a'\nKilled\n",
        id="each holds what the other waits for",
    ),
    pytest.param(
        "hang",
        "no batch",
        STEPS + "prefetcher: no batch for 1800 s\nrun.sh: line 7: 26809 Killed                  python train.py\n",
        id="a stall, then the kill that ends it",
    ),
    pytest.param(
        "hang",
        "no progress since 600 s",
        STEPS
        + "[monitor] WARNING: no progress since 600 s (step 50)\n[monitor] ERROR: nothing yet, sending SIGKILL\nKilled\n",
        id="a monitor warns of a stall and kills",
    ),
]


@pytest.mark.parametrize(("error_type", "evidence", "text"), CASES)
def test_who_stands_still_and_why(error_type: str, evidence: str, text: str) -> None:
    cause = explain_text(text, load("default")).cause
    assert cause is not None
    assert cause.error_type == error_type
    assert evidence in cause.evidence.text
