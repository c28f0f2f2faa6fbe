"""The GPUs of a Ray cluster, as ``nvidia-smi`` lists them or the dashboard shows them: pure. All of it is hostile text.

The wordings are those of NVIDIA's drivers since 450.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from lastbeat.model.json_values import amount
from lastbeat.model.text import one_line
from lastbeat.model.training_health import GpuProcess, GpuUtilization

GPU_QUERY: Final = "--query-gpu=utilization.gpu,memory.used,memory.total"
PROCESS_QUERY: Final = "--query-compute-apps=pid,process_name,used_memory"
_MOST_GPUS: Final = 10_000
_MOST_PROCESSES: Final = 10_000


class Gpus(NamedTuple):
    """Those of one place."""

    used: tuple[float | None, ...] = ()
    """Percent. None: it does not tell."""
    memory_used: tuple[float, ...] = ()
    """MB."""
    memory_total: tuple[float, ...] = ()
    """MB."""
    processes: tuple[GpuProcess, ...] = ()


def gpus_in(text: str) -> Gpus:
    """The GPUs in what ``nvidia-smi`` answers to GPU_QUERY as CSV, without a head and without units. Raises
    ``ValueError`` for a line that is none of a GPU's."""
    used: list[float | None] = []
    memory: list[tuple[float, float]] = []
    for row in _rows(text, _MOST_GPUS):
        if len(row) != 3:
            raise ValueError(f"{one_line(','.join(row))[:200]!r} is no GPU")
        load, taken, total = (amount(each) for each in row)
        used.append(load if load is not None and load <= 100 else None)
        memory.append((taken or 0.0, total or 0.0))
    return Gpus(tuple(used), tuple(each[0] for each in memory), tuple(each[1] for each in memory))


def processes_in(text: str, place: str) -> tuple[GpuProcess, ...]:
    """The processes in what ``nvidia-smi`` answers to PROCESS_QUERY as CSV, without a head and without units; what is
    no process is left out."""
    found: list[GpuProcess] = []
    for row in _rows(text, _MOST_PROCESSES):
        # A name may have commas of its own, and is not quoted.
        if len(row) < 3 or not row[0].isascii() or not row[0].isdigit() or len(row[0]) > 10:
            continue
        name = one_line(",".join(row[1:-1]))[:200]
        found.append(GpuProcess(int(row[0]), name, amount(row[-1]), place))
    return tuple(found)


def _rows(text: str, most: int) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text.replace("\0", "")), quoting=csv.QUOTE_NONE)
    rows = [[cell.strip() for cell in row] for row, _ in zip(reader, range(most), strict=False)]
    return [row for row in rows if any(row)]


def gpus_of(node: Mapping[str, Any], place: str) -> Gpus:
    """The GPUs in the dashboard's data on a node."""
    listed = node.get("gpus")
    rows = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    used: list[float | None] = []
    memory: list[tuple[float, float]] = []
    processes: list[GpuProcess] = []
    for row in rows[:_MOST_GPUS]:
        load = amount(_either(row, "utilizationGpu", "utilization_gpu"))
        used.append(load if load is not None and load <= 100 else None)
        taken = amount(_either(row, "memoryUsed", "memory_used"))
        memory.append((taken or 0.0, amount(_either(row, "memoryTotal", "memory_total")) or 0.0))
        processes += _processes_of(_either(row, "processesPids", "processes_pids"), place)
    return Gpus(
        tuple(used),
        tuple(each[0] for each in memory),
        tuple(each[1] for each in memory),
        tuple(processes[:_MOST_PROCESSES]),
    )


def _processes_of(value: object, place: str) -> list[GpuProcess]:
    """The processes of a GPU, from a list or a mapping by process number."""
    rows = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    found: list[GpuProcess] = []
    for row in rows[:_MOST_PROCESSES]:
        pid = amount(row.get("pid")) if isinstance(row, dict) else None
        if pid is not None:
            memory = amount(_either(row, "gpuMemoryUsage", "gpu_memory_usage"))
            found.append(GpuProcess(int(pid), "", memory, place))
    return found


def _either(row: Mapping[str, Any], *names: str) -> object:
    return next((row[name] for name in names if name in row), None)


def utilization(places: Sequence[Gpus], faults: Sequence[str] = ()) -> GpuUtilization:
    """All GPUs of ``places``, and how busy they are on average. ``faults``: why other places could not be asked."""
    used = [each for place in places for each in place.used]
    known = [each for each in used if each is not None]
    average = round(sum(known) / len(known), 2) if known else None
    return GpuUtilization(
        len(used),
        [each if each is not None else 0.0 for each in used],
        [each for place in places for each in place.memory_used],
        [each for place in places for each in place.memory_total],
        [each for place in places for each in place.processes],
        average,
        not faults and average is not None,
        list(faults),
    )
