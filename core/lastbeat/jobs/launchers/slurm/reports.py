"""Turns the output of scontrol, squeue and sacct into job reports. Pure."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Final, NamedTuple

from lastbeat.model.job import JobReport, JobState

STATES: Final[Mapping[str, JobState]] = {
    **dict.fromkeys(
        ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
        JobState.PENDING,
    ),
    # A job that completes still has processes that are being ended.
    **dict.fromkeys(
        ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"), JobState.RUNNING
    ),
    "COMPLETED": JobState.SUCCEEDED,
    **dict.fromkeys(("FAILED", "OUT_OF_MEMORY", "LAUNCH_FAILED"), JobState.FAILED),
    **dict.fromkeys(("CANCELLED", "REVOKED"), JobState.CANCELLED),
    **dict.fromkeys(("TIMEOUT", "DEADLINE"), JobState.TIMEOUT),
    "PREEMPTED": JobState.PREEMPTED,
    **dict.fromkeys(("NODE_FAIL", "BOOT_FAIL", "RECONFIG_FAIL"), JobState.NODE_LOST),
}
"""Slurm's word → ours."""

ACCOUNTED: Final = "State,ExitCode,Start,End,NodeList,JobName"
"""The columns that :func:`accounted` reads. A name may have any character, so it is the last."""
QUEUED: Final = (
    *("JobID", "JobArrayID", "State", "Reason", "RestartCnt", "StartTime", "NodeList", "BatchHost", "UserName"),
    *("STDOUT", "Name"),
)
"""The columns that :func:`queued` reads, as squeue's --Format calls them."""
_NOTHING: Final = frozenset({"", "(null)", "N/A", "None", "Unknown"})
"""How Slurm's commands write that there is no value."""
_NUMBERS: Final = "aAjJnts"
_NO_ARRAY: Final = "4294967294"
"""Number of the task of a job that is none of an array."""
_PLACEHOLDER: Final = re.compile(r"%(\d{0,2})([%aAjJnNstux])")
_RESUBMITTED: Final = {
    "Partition": "--partition",
    "Account": "--account",
    "QOS": "--qos",
    "TimeLimit": "--time",
    "NumNodes": "--nodes",
    "NumTasks": "--ntasks",
    "CPUs/Task": "--cpus-per-task",
    "TresPerNode": "--gres",
    "Reservation": "--reservation",
}
"""Field of ``scontrol show job`` → the option that it came from."""
_MOST_NODES: Final = 10_000


def controlled(text: str, host: str | None = None) -> JobReport:
    """What ``scontrol show job`` says. Its lines are indented, but for the one with the job's name. ``host``: the name
    of its first node's host, where :func:`node_in_output` asks for it."""
    if len(re.findall(r"^JobId=", text, re.MULTILINE)) > 1:
        return JobReport(JobState.UNKNOWN, reason="it is an array or a heterogeneous job: several jobs")

    def field(name: str) -> str:
        found = re.search(rf"^ {{3}}(?:\w+=\S* )*?{name}=(\S*)", text, re.MULTILINE)
        return "" if found is None or found[1] in _NOTHING else found[1]

    code, number = _exit(field("ExitCode"))
    restarts = field("Restarts")
    return _translated(
        JobReport(
            JobState.UNKNOWN,
            field("JobState"),
            field("Reason"),
            code,
            number,
            node_names(field("NodeList")),
            field("FailedNode") or None,
            local_time(field("StartTime")),
            local_time(field("EndTime")),
            _outputs(text, host or ""),
            int(restarts) if restarts.isdecimal() else 0,
        )
    )


def several(text: str) -> bool:
    """Whether what ``scontrol show job`` says is of an array, a task of one, or a heterogeneous job."""
    return re.search(r"^JobId=\d+ (?:ArrayJobId|HetJobId|PackJobId)=", text, re.MULTILINE) is not None


def folder(text: str) -> str:
    """The folder that the job runs in."""
    found = re.search(r"^ {3}WorkDir=(.+)$", text, re.MULTILINE)
    return "" if found is None else found[1]


def options(text: str) -> tuple[str, ...]:
    """sbatch's options that ``scontrol show job`` shows; others are unknown."""
    found = []
    for name, option in _RESUBMITTED.items():
        said = re.search(rf"^ {{3}}(?:\S+ )*?{name}=(\S+)", text, re.MULTILINE)
        if said is not None and said[1] not in _NOTHING | {"UNLIMITED"}:
            # A number of nodes is a range while the job waits.
            found.append(f"{option}={said[1].partition('-')[0] if name == 'NumNodes' else said[1]}")
    return tuple(found)


def node_in_output(text: str) -> str | None:
    """The job's first node, if ``scontrol show job`` leaves it to the node to put its host's name into the output's."""
    named = re.search(r"^ {3}StdOut=.*%\d{0,2}N", text, re.MULTILINE)
    node = re.search(r"^ {3}BatchHost=(\S+)", text, re.MULTILINE)
    return node[1] if named is not None and node is not None else None


class QueuedJob(NamedTuple):
    """A single job that waits or runs, as squeue lists it: the columns of QUEUED."""

    job: str
    array_id: str
    """The same id, but for tasks of an array and components of a heterogeneous job."""
    state: str
    reason: str
    restarts: str
    start: str
    nodes: str
    batch_host: str
    user: str
    output: str
    name: str

    @property
    def node_in_output(self) -> str | None:
        """The job's first node, if the output's name has the name of that node's host."""
        return self.batch_host if re.search(r"%\d{0,2}N", self.output) else None

    def report(self, host: str | None = None) -> JobReport:
        """The same as :func:`controlled` makes of what ``scontrol show job`` says."""
        values = {"j": self.job, "A": self.job, "a": _NO_ARRAY, "u": self.user, "x": self.name, "N": host or ""}
        return _translated(
            JobReport(
                JobState.UNKNOWN,
                self.state,
                # As scontrol writes it.
                "" if self.reason in _NOTHING else self.reason.replace(" ", "_"),
                nodes=node_names(self.nodes),
                started_at=local_time(self.start),
                outputs=_output(self.output, values),
                restarts=int(self.restarts) if self.restarts.isdecimal() else 0,
            )
        )


def queued(text: str, separator: str) -> dict[str, QueuedJob]:
    """The jobs that squeue lists as waiting or running, by their ids. ``separator`` ends each column.

    Left out are jobs that have ended, for scontrol says more of them, and arrays and heterogeneous jobs, which are
    several jobs. An answer that has not the form of QUEUED lists none.
    """
    columns = text.split(separator)[:-1]
    if len(columns) % len(QUEUED):
        return {}
    rows = (columns[start : start + len(QUEUED)] for start in range(0, len(columns), len(QUEUED)))
    # A line before the first row may name the cluster.
    jobs = (QueuedJob(row[0].rpartition("\n")[2], *row[1:]) for row in rows)
    states = {JobState.PENDING, JobState.RUNNING}
    return {each.job: each for each in jobs if each.array_id == each.job and STATES.get(each.state) in states}


def accounted(text: str) -> JobReport | None:
    """What ``sacct --duplicates`` says: a row each time that the job was started. None: nothing."""
    rows = [line.split("|", 5) for line in text.splitlines() if line.count("|") >= 5]
    if not rows:
        return None
    said, exited, begun, ended, nodes, name = rows[-1]
    code, number = _exit(exited)
    # A cluster that was set up again counts its jobs from 1.
    starts = sum(row[5] == name for row in rows)
    report = JobReport(JobState.UNKNOWN, said, exit_code=code, signal=number, nodes=node_names(nodes))
    begun_at, ended_at = local_time(begun), local_time(ended)
    return _translated(replace(report, started_at=begun_at, ended_at=ended_at, restarts=starts - 1))


def node_names(text: str) -> tuple[str, ...]:
    """``n[1-3,7],m2`` → each name."""
    found: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?[^,\[]*", text):
        match = re.fullmatch(r"([^\[]*)\[([^\]]*)\]([^\[]*)", part)
        if match is None:
            found.append(part)
            continue
        for each in match[2].split(","):
            low, _, high = each.partition("-")
            if not low.isdecimal() or (high and not high.isdecimal()):
                continue
            numbers = range(int(low), int(high or low) + 1)
            found += [f"{match[1]}{number:0{len(low)}d}{match[3]}" for number in numbers[:_MOST_NODES]]
    return tuple(name for name in found if name and name not in {"(null)", "None assigned"})


def local_time(text: str) -> datetime | None:
    """Slurm tells times by this machine's zone, without naming it."""
    try:
        return datetime.fromisoformat(text).astimezone(timezone.utc)
    except ValueError:
        return None


def output_path(pattern: str, values: Mapping[str, str]) -> str:
    """``pattern`` of a batch job's output as the job's own daemon fills it in; ``values`` by their letters. scontrol
    has filled in a part of it only."""
    if "\\" in pattern:
        # Then nothing stands for anything else.
        return pattern.replace("\\", "")

    def one(found: "re.Match[str]") -> str:
        width, letter = found[1], found[2]
        value = "%" if letter == "%" else values.get(letter)
        if value is None:
            return found[0]
        return value.zfill(int(width)) if width and letter in _NUMBERS else value

    return _PLACEHOLDER.sub(one, pattern)


def _outputs(text: str, host: str) -> tuple[str, ...]:
    output = re.search(r"^ {3}StdOut=(.+)$", text, re.MULTILINE)
    if output is None:
        return ()
    head = re.match(r"JobId=(\d+)(?: ArrayJobId=(\d+) ArrayTaskId=(\d+))? JobName=(.*)$", text, re.MULTILINE)
    user = re.search(r"^ {3}UserId=([^(\s]*)", text, re.MULTILINE)
    values = {"N": host, "u": user[1] if user else ""}
    if head is not None:
        values |= {"j": head[1], "A": head[2] or head[1], "a": head[3] or _NO_ARRAY, "x": head[4]}
    return _output(output[1], values)


def _output(pattern: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """The file of a batch job's output; ``values`` by their letters, without those that all batch jobs share."""
    if pattern in {"/dev/null", *_NOTHING}:
        return ()
    # The batch script runs on the first node, as its task 0.
    values = {"J": values.get("j", ""), "n": "0", "t": "0", "s": "batch", **values}
    return (output_path(pattern, {letter: value for letter, value in values.items() if value}),)


def _translated(report: JobReport) -> JobReport:
    """The report in our words, without what Slurm fills in before it is true."""
    word = report.said.partition(" ")[0].rstrip("+").upper()
    state = STATES.get(word, JobState.UNKNOWN)
    if state is JobState.UNKNOWN:
        return JobReport(state, report.said, f"Slurm says {report.said[:60]!r}, which lastbeat does not know")
    if state is JobState.SUCCEEDED:
        return replace(report, state=state)
    if state.ended:
        # Exit status 0 of a job that did not end well is not training's own.
        return replace(report, state=state, exit_code=report.exit_code or None)
    # An end is foreseen by the time limit, and a start by the scheduler.
    begun = report.started_at if state is JobState.RUNNING else None
    return replace(report, state=state, exit_code=None, signal=None, started_at=begun, ended_at=None)


def _exit(text: str) -> tuple[int | None, int | None]:
    """``7:0`` is exit status 7, ``0:9`` signal 9."""
    found = re.fullmatch(r"(\d{1,5}):(\d{1,3})", text)
    return (None, None) if found is None else (int(found[1]), int(found[2]) or None)
