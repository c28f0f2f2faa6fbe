"""Flight recorders' dumps of ranks that run small programs of collectives, as NCCL's groups would record them."""

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from lastbeat.explain.flight_recorder.dump import RankDump, read_dump

NOON_NS = 1_795_000_000_000_000_000
LATEST = "2.9"
WORLD = "0"


@dataclass(frozen=True)
class Step:
    """One call of a rank's program."""

    group: str = WORLD
    name: str = "all_reduce"
    size: int = 4096
    dtype: str = "Float"
    line: int = 10
    seconds: int = 0
    """How long the rank works before it makes the call."""


Program = Mapping[int, Sequence[Step]]
Groups = Mapping[str, Sequence[int]]


def run(program: Program, groups: Groups) -> dict[int, list[tuple[Step, int, int, bool]]]:
    """What each rank records until none can go on: the call, its number, when it was made (s), whether it ended.

    A call ends when all ranks of its group have made the same one under its number.
    """
    made: dict[int, list[tuple[Step, int, int, bool]]] = {rank: [] for rank in program}
    numbers = {(rank, group): 0 for rank in program for group in groups}
    clocks = dict.fromkeys(program, 0)
    waiting: dict[int, tuple[Step, int]] = {}
    moved = True
    while moved:
        moved = False
        for rank in program:
            steps = program[rank]
            if rank not in waiting and len(made[rank]) < len(steps):
                step = steps[len(made[rank])]
                numbers[rank, step.group] += 1
                clocks[rank] += 1 + step.seconds
                made[rank].append((step, numbers[rank, step.group], clocks[rank], False))
                waiting[rank] = step, numbers[rank, step.group]
                moved = True
        for rank, (step, number) in list(waiting.items()):
            key = (step.group, number, step.name, step.size, step.dtype)
            there = [
                each
                for each in groups[step.group]
                if each in waiting
                and key == (waiting[each][0].group, waiting[each][1], waiting[each][0].name, waiting[each][0].size,
                            waiting[each][0].dtype)
            ]  # fmt: skip
            if rank in waiting and len(there) == len(groups[step.group]):
                clock = max(clocks[each] for each in there)
                for each in there:
                    last = made[each][-1]
                    made[each][-1] = (*last[:3], True)
                    clocks[each] = clock
                    del waiting[each]
                moved = True
    return made


def document(
    made: Sequence[tuple[Step, int, int, bool]], groups: Groups, rank: int, version: str = LATEST
) -> dict[str, Any]:
    """One rank's dump, with the fields that ``version`` has."""
    minor = int(version.split(".")[1])
    own = {name: ranks for name, ranks in groups.items() if rank in ranks}
    entries = []
    for index, (step, number, at, done) in enumerate(made):
        sizes = [] if step.name == "barrier" else [[step.size]]
        about = "default_pg" if step.group == WORLD else f"group {step.group}"
        entry: dict[str, Any] = {
            "frames": [
                {"name": step.name, "filename": "/opt/site-packages/torch/distributed/distributed_c10d.py", "line": 99},
                {"name": "step", "filename": "/srv/app/train.py", "line": step.line},
            ],
            "record_id": index,
            "pg_id": int(step.group),
            "process_group": (step.group, about),
            "collective_seq_id": number,
            "p2p_seq_id": 0,
            "op_id": number,
            "profiling_name": f"nccl:{step.name}",
            "time_created_ns": NOON_NS + at * 1_000_000_000,
            "input_sizes": sizes,
            "input_dtypes": [step.dtype for _ in sizes],
            "output_sizes": sizes,
            "output_dtypes": [step.dtype for _ in sizes],
            "state": "completed" if done else "started",
            "time_discovered_started_ns": NOON_NS + at * 1_000_000_000 + 5,
            "time_discovered_completed_ns": NOON_NS + at * 1_000_000_000 + 9 if done else None,
            "retired": done,
            "timeout_ms": 600_000,
            "is_p2p": False,
        }
        if minor < 4:
            del entry["timeout_ms"]
        if minor < 3:
            del entry["is_p2p"], entry["op_id"]
        if minor < 2:
            entry["seq_id"], entry["pg_name"] = entry.pop("collective_seq_id"), entry.pop("process_group")
            del entry["p2p_seq_id"], entry["pg_id"], entry["input_dtypes"], entry["output_dtypes"]
        if minor >= 7:
            entry |= {"thread_id": "140251171122048", "thread_name": "pt_autograd_0"}
        entries.append(entry)
    config = {name: {"name": name, "desc": "", "ranks": str(list(ranks))} for name, ranks in own.items()}
    return {"version": version, "pg_config": config, "pg_status": {}, "entries": entries}


def pickled(dump: Any, protocol: int = 2) -> bytes:
    return pickle.dumps(dump, protocol)


def read(data: bytes, *, keep: int = 4096) -> RankDump:
    return read_dump(BytesIO(data).read, lambda: False, keep=keep)


def dumps(program: Program, groups: Groups, version: str = LATEST) -> dict[int, RankDump]:
    """The dumps of all ranks, once none can go on."""
    made = run(program, groups)
    return {rank: read(pickled(document(made[rank], groups, rank, version))) for rank in program}


def write(folder: Path, program: Program, groups: Groups, *, name: str = "nccl_trace_rank_{rank}") -> None:
    """The dumps as files in ``folder``; those named ``.json`` as the debug server returns them."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, made in run(program, groups).items():
        found = document(made, groups, rank)
        path = folder / name.format(rank=rank)
        path.write_bytes(json.dumps(found).encode() if path.suffix == ".json" else pickled(found))
