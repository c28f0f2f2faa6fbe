"""What Ray's commands and its dashboard say, and ``nvidia-smi`` → our results: pure. All of it is hostile text.

The wordings are those of Ray 2.9 to 2.60 and of NVIDIA's drivers since 450.
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lastbeat.launch.results import GpuProcess, GpuUtilization, JobStatus, RayResources
from lastbeat.model.text import fit, one_line

GPU_QUERY: Final = "--query-gpu=utilization.gpu,memory.used,memory.total"
PROCESS_QUERY: Final = "--query-compute-apps=pid,process_name,used_memory"
_MOST_GPUS: Final = 10_000
_MOST_PROCESSES: Final = 10_000
_MOST_PENDING: Final = 5
_MOST_STATUS: Final = 1_000_000

_STATUSES: Final[Mapping[str, JobStatus]] = {
    "PENDING": "PENDING",
    "RUNNING": "RUNNING",
    "SUCCEEDED": "SUCCEEDED",
    "FAILED": "FAILED",
    # Whoever waits for its end would wait for ever.
    "STOPPED": "FAILED",
}
_ENDS: Final[Mapping[str, JobStatus]] = {"succeeded": "SUCCEEDED", "failed": "FAILED", "was stopped": "FAILED"}
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]{0,16}m")
_BEFORE: Final = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\s+[A-Z]{3,8} cli\.py:\d{1,6} -- "
_OF_COMMAND: Final = re.compile(_BEFORE)
_OWN_LINE: Final = re.compile(_BEFORE + r"Job submission server address: .*\n?")
_WORKER_LOG: Final = re.compile(r"worker-[^-]{1,100}-([0-9a-f]{8})-\d{1,10}\.", re.ASCII)
_NO_JOB: Final = "ffffffff"
_USAGE: Final = re.compile(r"^ {1,4}(\d+(?:\.\d+)?)/(\d+(?:\.\d+)?) (CPU|GPU)\b", re.MULTILINE)


def status(word: object) -> JobStatus:
    """Ray's word for a job's state. What is no such word is UNKNOWN."""
    return _STATUSES.get(word, "UNKNOWN") if isinstance(word, str) else "UNKNOWN"


def status_in(text: str, job: str) -> JobStatus:
    """The state that ``ray job status JOB`` tells. What the job has written may follow it, and is not read."""
    text = _COLOUR.sub("", text[:_MOST_STATUS])
    head = _first_of(text, ("Status message: ",))
    told = f"Status for job '{job}': "
    if told in head:
        return status(head.partition(told)[2].split("\n", 1)[0].strip())
    for word, meaning in _ENDS.items():
        if f"Job '{job}' {word}\n" in f"{head}\n":
            return meaning
    return "UNKNOWN"


def _first_of(text: str, words: Iterable[str]) -> str:
    """``text`` before any of ``words``."""
    return text[: min((place for word in words if (place := text.find(word)) >= 0), default=len(text))]


def log_in(text: str) -> str:
    """The job's log in what ``ray job logs`` prints: without what the command says of itself."""
    clean = _COLOUR.sub("", text)
    if (own := _OWN_LINE.match(clean)) is not None:
        clean = clean[own.end() :]
    # The log's first line stands behind the time and place at which the command prints it.
    return clean[found.end() :] if (found := _OF_COMMAND.match(clean)) is not None else clean


def listed_in(text: str) -> list[dict[str, Any]]:
    """The rows in the JSON that ``ray list`` prints. Raises ``ValueError`` for what is no such list."""
    if text.strip() == "No resource in the cluster":
        return []
    # Warnings may stand before it, on lines of their own.
    begin = re.search(r"^\[\s*(?:\{|\])", text, re.MULTILINE)
    if begin is None:
        raise ValueError("no list")
    try:
        listed = json.JSONDecoder().raw_decode(text, begin.start())[0]
    except RecursionError:
        raise ValueError("no list") from None
    return [each for each in listed if isinstance(each, dict)]


def oldest_first(logs: Iterable[str], jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of workers' and drivers' logs by when their job began, as far as that is known: by the number of the
    job, which Ray counts up, and by when the cluster says that it began (``jobs``, as the dashboard lists them)."""
    began = {
        each.get("submission_id"): each["start_time"]
        for each in jobs
        if isinstance(each.get("start_time"), int) and isinstance(each.get("submission_id"), str)
    }

    def age(name: str) -> tuple[int, str]:
        worker = _WORKER_LOG.match(name)
        if worker is None:
            return began.get(name.removeprefix("job-driver-").removesuffix(".log"), 0), name
        # One that no job has had yet has a number of its own.
        number = -1 if worker[1] == _NO_JOB else int.from_bytes(bytes.fromhex(worker[1]), "little")
        return number, name

    return sorted(logs, key=age)


def resources_in(text: str) -> RayResources | None:
    """The resources that ``ray status`` prints. None: it prints none."""
    text = _COLOUR.sub("", text[:_MOST_STATUS])
    usage = _section(text, "Total Usage:") or _section(text, "Usage:")
    told = {kind: (float(used), float(total)) for used, total, kind in _USAGE.findall(usage)}
    if not told:
        return None
    failed = [line for line in _section(text, "Recent failures:").splitlines() if line.strip()]
    failed = [line for line in failed if line.strip() != "(no failures)"]
    waiting = _section(text, "Pending Demands:") or _section(text, "Demands:")
    pending = [one_line(line)[:200] for line in waiting.splitlines() if line.strip()]
    pending = [line for line in pending if line not in {"(no resource demands)", "(none)"}]
    return _resources(told.get("CPU", (0.0, 0.0)), told.get("GPU", (0.0, 0.0)), len(failed), pending)


def _section(text: str, title: str) -> str:
    """The lines below ``title`` that are set in."""
    lines = text.splitlines()
    heads = [number for number, line in enumerate(lines) if line.rstrip() == title]
    found: list[str] = []
    for line in lines[heads[0] + 1 :] if heads else ():
        if not line.startswith(" "):
            break
        found.append(line)
    return "\n".join(found)


def resources_of(document: Mapping[str, Any]) -> RayResources | None:
    """The same in what the dashboard answers to ``/api/cluster_status``. None: it tells none."""
    data = document.get("data")
    report = _inside(data, "clusterStatus", "loadMetricsReport")
    usage = _inside(report, "usage")
    if not usage:
        # The newer autoscaler tells it in a text alone.
        text = data.get("autoscalingStatus") if isinstance(data, dict) else None
        return resources_in(text) if isinstance(text, str) else None
    cpus, gpus = _pair(usage.get("CPU")), _pair(usage.get("GPU"))
    failed = _inside(data, "clusterStatus", "autoscalerReport").get("failedNodes")
    demands = report.get("resourceDemand")
    pending = [_demand(each) for each in demands if _demand(each)] if isinstance(demands, list) else []
    return _resources(cpus, gpus, len(failed) if isinstance(failed, list) else 0, pending)


def _resources(
    cpus: tuple[float, float], gpus: tuple[float, float], failed: int, pending: Sequence[str]
) -> RayResources:
    healthy = gpus[1] > 0 and failed == 0
    return RayResources(gpus[1], gpus[0], cpus[1], cpus[0], healthy, failed, list(pending[:_MOST_PENDING]))


def _inside(value: object, *names: str) -> dict[str, Any]:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _pair(value: object) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        return 0.0, 0.0
    used, total = (_number(each) for each in value)
    return (used, total) if used is not None and total is not None else (0.0, 0.0)


def _demand(value: object) -> str:
    """``{'GPU': 64.0} (2 times)`` of ``[{"GPU": 64.0}, 2]``."""
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], dict):
        return ""
    wanted = ", ".join(f"{one_line(str(name))[:40]}: {one_line(str(many))[:20]}" for name, many in value[0].items())
    return fit(f"{{{wanted}}}: {one_line(str(value[1]))[:20]} pending", 200)


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
        load, taken, total = (_amount(each) for each in row)
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
        found.append(GpuProcess(int(row[0]), name, _amount(row[-1]), place))
    return tuple(found)


def _rows(text: str, most: int) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text.replace("\0", "")), quoting=csv.QUOTE_NONE)
    rows = [[cell.strip() for cell in row] for row, _ in zip(reader, range(most), strict=False)]
    return [row for row in rows if any(row)]


def _amount(text: str) -> float | None:
    """A number that nvidia-smi prints. None: ``[N/A]``, ``[Not Supported]``, or no number."""
    text = text.strip()
    return float(text) if re.fullmatch(r"\d{1,12}(?:\.\d{1,6})?", text, re.ASCII) else None


def gpus_of(node: Mapping[str, Any], place: str) -> Gpus:
    """The GPUs in what the dashboard tells of a node."""
    listed = node.get("gpus")
    rows = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    used: list[float | None] = []
    memory: list[tuple[float, float]] = []
    processes: list[GpuProcess] = []
    for row in rows[:_MOST_GPUS]:
        load = _number(_either(row, "utilizationGpu", "utilization_gpu"))
        used.append(load if load is not None and load <= 100 else None)
        taken = _number(_either(row, "memoryUsed", "memory_used"))
        memory.append((taken or 0.0, _number(_either(row, "memoryTotal", "memory_total")) or 0.0))
        processes += _processes_of(_either(row, "processesPids", "processes_pids"), place)
    return Gpus(
        tuple(used),
        tuple(each[0] for each in memory),
        tuple(each[1] for each in memory),
        tuple(processes[:_MOST_PROCESSES]),
    )


def _processes_of(value: object, place: str) -> list[GpuProcess]:
    """Of a GPU: a list, or a mapping from their numbers."""
    rows = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    found: list[GpuProcess] = []
    for row in rows[:_MOST_PROCESSES]:
        pid = _number(row.get("pid")) if isinstance(row, dict) else None
        if pid is not None:
            memory = _number(_either(row, "gpuMemoryUsage", "gpu_memory_usage"))
            found.append(GpuProcess(int(pid), "", memory, place))
    return found


def _either(row: Mapping[str, Any], *names: str) -> object:
    return next((row[name] for name in names if name in row), None)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


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
