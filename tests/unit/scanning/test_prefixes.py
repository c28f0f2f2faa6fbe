"""What stands before a line, and what it tells."""

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.scanning.prefixes import UNKNOWN_YEAR, time_of
from lastbeat.explain.scanning.splitting import line_of

TAKEN_OFF = [
    pytest.param("[rank3]: Traceback", "Traceback", 3, None, id="torch's rank"),
    pytest.param("[rank3]:   File", "  File", 3, None, id="the space behind a prefix is its own, others are not"),
    pytest.param("[rank3]:[E1121 04:08:34.1 x.cpp:1] y", "[E1121 04:08:34.1 x.cpp:1] y", 3, None, id="glog, too"),
    pytest.param("[default0]:[rank5]: x", "x", 5, None, id="torchrun's local rank is worth less than the rank"),
    pytest.param("3:  iteration 10/ 100 | x", " iteration 10/ 100 | x", 3, None, id="srun --label"),
    pytest.param("03: [rank3]: x", "x", 3, None, id="srun with more than ten tasks"),
    pytest.param("2: [rank10]: x", "x", 10, None, id="a rank is worth more than a task"),
    pytest.param("2:", "", 2, None, id="an empty line of a task"),
    pytest.param("[1,3]<stderr>:x", "x", 3, None, id="mpirun"),
    pytest.param("[1,mpirank:3,algo-1]<stdout>:x", "x", 3, "algo-1", id="SageMaker's mpirun"),
    pytest.param("(RayTrainWorker pid=123, ip=10.0.0.2) x", "x", None, "10.0.0.2", id="Ray, another host"),
    pytest.param("[36m(main pid=9)[0m x", "x", None, None, id="Ray, the escape characters lost"),
    pytest.param("rdma-train-worker-1: x", "x", None, "rdma-train-worker-1", id="kubectl logs of a job"),
    pytest.param("gpu-n1: x", "x", None, "gpu-n1", id="pdsh"),
    pytest.param("i.pretrain/0 [rank4]: x", "x", 4, None, id="torchx"),
    pytest.param("2024-12-02T09:11:27.400Z x", "x", None, None, id="docker and kubernetes"),
    pytest.param("2024-12-02T09:11:27.400123456+01:00 stderr F x", "x", None, None, id="a container's log file"),
    pytest.param("  | 2024-12-02T09:11:27.400Z | x", "x", None, None, id="a log viewer's table"),
    pytest.param("Nov 21 04:08:34 gpu-n1 kernel: [81202.711010] NVRM: Xid", "NVRM: Xid", None, "gpu-n1",
                 id="syslog of a kernel"),
    pytest.param("Nov  1 04:08:34 n7 slurmd[88]: x", "x", None, "n7", id="syslog of a daemon"),
    pytest.param("[   12.711010] NVRM: Xid", "NVRM: Xid", None, None, id="dmesg"),
    pytest.param("[Sat Nov 21 04:08:34 2026] NVRM: Xid", "NVRM: Xid", None, None, id="dmesg -T"),
    pytest.param("2023-05-02 06:01:12.977 [201/train/612 (pid 21936)] [0a11] OSError", "OSError", None, None,
                 id="metaflow"),
    pytest.param("trainer-1  | x", "x", None, None, id="docker compose"),
    pytest.param("2: worker-7:1:2 [2] proxy.cc:1 NCCL WARN x", "worker-7:1:2 [2] proxy.cc:1 NCCL WARN x", 2, "worker-7",
                 id="NCCL behind srun"),
]  # fmt: skip
LEFT = [
    pytest.param("gpu-n1:123:456 [0] NCCL WARN x", None, "gpu-n1", id="NCCL names its host"),
    pytest.param("slurmstepd-gpu-n1: error: x", None, "gpu-n1", id="slurmstepd's host"),
    pytest.param("srun: error: gpu-n1: task 3: Killed", 3, "gpu-n1", id="srun's task"),
    pytest.param("2026-11-21 04:12:08,394 [INFO] [rank0] step 1", 0, None, id="a rank behind a program's own time"),
    pytest.param("[PG ID 0 PG GUID 0 Rank 131] x", 131, None, id="in a process group"),
    pytest.param("srun: error: n[1-2]: tasks 0-7: Killed", None, None, id="many tasks"),
    pytest.param("Epoch 3: loss 2", None, None, id="an epoch is no prefix"),
    pytest.param("12:30:01 x", None, None, id="a time of day is none"),
    pytest.param("step-3: loss 2", None, None, id="a step is none"),
    pytest.param("step/10 loss 2", None, None, id="nor a share of steps"),
    pytest.param("KeyError: 'x'", None, None, id="nor a class"),
    pytest.param("loading kernel: x", None, None, id="nor just any kernel"),
    pytest.param("    5: indented", None, None, id="nor a numbered line of data"),
]


@pytest.mark.parametrize(("raw", "text", "rank", "host"), TAKEN_OFF)
def test_a_prefix_is_taken_off_and_tells_rank_and_host(raw: str, text: str, rank: int | None, host: str | None) -> None:
    line = line_of(7, raw)
    assert (line.number, line.raw, line.text, line.rank, line.host) == (7, raw, text, rank, host)


@pytest.mark.parametrize(("raw", "rank", "host"), LEFT)
def test_a_programs_own_words_stay_and_may_tell_them_too(raw: str, rank: int | None, host: str | None) -> None:
    line = line_of(7, raw)
    assert (line.raw, line.text, line.rank, line.host) == (raw, raw, rank, host)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param("2026-11-21 04:12:08,394 - x", "2026-11-21T04:12:08.394000", id="Python's logging"),
        pytest.param("2026-11-21T04:12:08.394123456Z x", "2026-11-21T04:12:08.394123", id="ISO in UTC"),
        pytest.param("2026-11-21T04:12:08+05:30 x", "2026-11-20T22:42:08", id="ISO with an offset"),
        pytest.param("[2026/11/21 04:12:08] x", "2026-11-21T04:12:08", id="with slashes"),
        pytest.param("[NeMo W 2025-02-11 02:10:11 nemo:1] x", "2025-02-11T02:10:11", id="behind other words"),
        pytest.param("E1121 04:08:34.193648871 1 x.cc:2] y", "2026-11-21T04:08:34.193648", id="glog"),
        pytest.param("[rank0]:[W803 10:10:10.101 x.cpp:1] y", "2026-08-03T10:10:10.101000", id="glog, a short month"),
        pytest.param("E1231 23:59:59.5 x", "2025-12-31T23:59:59.500000", id="glog of last year"),
        pytest.param("E0229 23:59:59.5 x", "2024-02-29T23:59:59.500000", id="a day that not every year has"),
        pytest.param("Nov  1 04:08:34 n1 kernel: x", "2026-11-01T04:08:34", id="syslog"),
        pytest.param("[Sat Nov 21 04:08:34 2026] x", "2026-11-21T04:08:34", id="dmesg -T"),
        pytest.param("slurmstepd: *** JOB 9 CANCELLED AT 2026-11-21T04:15:48 ***", "2026-11-21T04:15:48", id="Slurm"),
        pytest.param("2026-13-41 04:12:08 x", None, id="no such day"),
        pytest.param("[81202.711010] NVRM", None, id="seconds since the start are no time"),
        pytest.param("04:12:08 x", None, id="nor is a time without a day"),
        pytest.param("x", None, id="none at all"),
    ],
)
def test_the_time_of_a_line(raw: str, expected: str | None) -> None:
    now = datetime(2026, 1, 2, tzinfo=timezone.utc) if "1231" in raw or "0229" in raw else None
    reference = now if now is not None else datetime(2026, 11, 22, tzinfo=timezone.utc)
    if "0229" in raw:
        reference = datetime(2024, 6, 1, tzinfo=timezone.utc)
    assert time_of(raw, reference) == (expected and datetime.fromisoformat(expected).replace(tzinfo=timezone.utc))


def test_without_a_reference_the_year_says_that_it_is_not_known() -> None:
    first, second = time_of("E1121 04:08:34.1 x"), time_of("E1121 04:08:35.1 x")
    assert first is not None
    assert second is not None
    assert first.year == UNKNOWN_YEAR
    assert first < second


@given(raw=st.text(max_size=200))
def test_any_text_has_a_line(raw: str) -> None:
    line = line_of(1, raw, datetime(2024, 1, 1, tzinfo=timezone.utc))
    assert raw.endswith(line.text)


@pytest.mark.parametrize("unit", ["[", "1:", "a-", "[rank", "(a pid=", "0.", " ", "Nov 1", "2024-", "a.", "rank "])
def test_a_long_line_of_anything_is_taken_apart_at_once(unit: str) -> None:
    raw = unit * (16000 // len(unit))
    for _ in range(50):
        line_of(1, raw)
