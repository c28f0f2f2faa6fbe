# ruff: noqa: E501 - lines of logs are as long as they are
"""Logs of ranks of which some waited for the others until a collective timed out."""

STEPS = "".join(f"2026-11-20 18:{40 + n}:00 step {3549 + n}/9000 loss 2.3{n}\n" for n in range(6))
TIMED_OUT = (
    "[rank{rank}]:[E1120 18:55:4{digit}.136769803 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=8810, OpType=ALLREDUCE, NumelIn=262, NumelOut=262, Timeout(ms)=600000) ran for 600325 "
    "milliseconds before timing out.\n"
)
DUMPED = "[rank{rank}]:[E1120 18:55:50.1 ProcessGroupNCCL.cpp:1680] [PG ID 0 PG GUID 0 Rank {rank}] Received a dump signal due to a collective timeout from rank 0\n"
STACK = 'Thread 0x00007f3b4c9fe740 (most recent call first):\n  File "/home/u/data.py", line 88 in load_batch\n  File "/home/u/train.py", line 12 in <module>\n'


def log(rank: int, *, reports: bool = True, more: str = "") -> str:
    return STEPS + (TIMED_OUT.format(rank=rank, digit=rank % 10) if reports else "") + more


def ranks(count: int, *missing: int, more: str = "") -> dict[int, str]:
    return {rank: log(rank, reports=rank not in missing, more=more * (rank in missing)) for rank in range(count)}
