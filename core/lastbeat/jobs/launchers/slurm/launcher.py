"""Jobs of Slurm, by its own commands: sbatch, scontrol, sacct, squeue, scancel.

Each call has a time limit and reads a bounded answer. ``scontrol show job`` knows a job while the controller remembers
it (MinJobAge after its end); after that sacct does, where there is accounting. A job that both have answered about and
neither knows is gone. If one could not be asked, the answer is unknown.
"""

import logging
import os
import re
import secrets
import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from lastbeat.jobs.launchers.asking import MOST_BYTES, Answer, ask
from lastbeat.jobs.launchers.port import JobPreview, JobRefusedError, Launcher, LauncherError, NotLaunchedError
from lastbeat.jobs.launchers.slurm import reports, sbatch
from lastbeat.jobs.launchers.slurm.reports import ACCOUNTED, accounted, controlled, local_time, node_in_output
from lastbeat.model.job import AdoptedJob, JobReport, JobSpec, JobState

log = logging.getLogger(__name__)

CALL_S: Final = 20.0
"""Time limit of one call. Slurm's commands try again by themselves for some seconds while the controller is away."""
LATE_S: Final = 600.0
"""Longest time by which the accounting lags behind a controller that has forgotten a job."""
_PING: Final = "'scontrol ping' says whether the controller answers"
_SET_UP: Final = "set SLURM_CONF to the cluster's slurm.conf, or work on a login node, where 'scontrol ping' answers"
_NOT_SET_UP: Final = ("configuration source", "Unable to process configuration file")
"""This machine does not know where its Slurm is."""
_DATABASE: Final = "try 'sacctmgr show cluster': slurmdbd may be down"
_NO_JOB: Final = ("Invalid job id specified", "Invalid job id")
_NO_FORMAT: Final = ("Invalid job format", "unrecognized option", "invalid option")
"""This squeue is too old for the form that is asked for."""
_ASKED_AT_ONCE: Final = 500
"""Jobs that one squeue is asked about: some 5 KB of its command line."""
_MOST_QUEUED: Final = 8 << 20
"""Bytes of its answer: each job has the path of its output, its name and its nodes."""
_NO_ACCOUNTING: Final = "accounting storage is disabled"
_NOT_SENT: Final = ("connect failure", "Connection refused", "Unable to resolve", "Unable to contact slurm controller")
_UNCLEAR: Final = ("Socket timed out", "Zero Bytes were transmitted", "timed out", "Message receive failure")
_LATER: Final = (
    "violates accounting/QOS policy",
    "Resource temporarily unavailable",
    "Job rate limit",
    "is not allowed now",
)
_JOB_ID: Final = re.compile(r"(\d{1,12}(?:_\d{1,9})?)(?:@([A-Za-z0-9_.-]{1,64}))?")
"""``4711``, ``4711_3``: a task of an array, ``4711@west``: of a cluster that was asked for by name."""
_COLUMNS: Final = ("--noheader", "--parsable2", "--allocations", "--duplicates")
"""How sacct answers: a row for each time that a job was started."""
_WISHES: Final = ("SQUEUE_", "SACCT_", "SCONTROL_", "SCANCEL_", "SINFO_")
"""Variables by which users change what these commands say."""
_HOST_NAME: Final = re.compile(r"^\s+(?:\w+=\S* )*?NodeHostName=(\S+)", re.MULTILINE)


def launcher(state: Path, options: Sequence[str] = (), place: str = "") -> "SlurmLauncher":
    """The launcher of the cluster that this machine's Slurm commands talk to, or of those that ``options`` name."""
    return SlurmLauncher(sbatch.clusters(options), place)


def adoption(job: str, options: Sequence[str] = ()) -> AdoptedJob:
    """What is known of that job. Its script is what was submitted, even if the file has changed since."""
    if not _JOB_ID.fullmatch(job):
        raise JobRefusedError(f"{job[:60]!r} is no job id of Slurm", "squeue --me lists yours")
    asking = SlurmLauncher()
    report = asking.state(job)
    if report.state is JobState.GONE:
        raise JobRefusedError(f"there is no job {job}: {report.reason}", "squeue --me lists yours")
    if report.state is JobState.UNKNOWN:
        raise LauncherError(f"job {job}: {report.reason}")
    number, _, cluster = job.partition("@")
    shown = asking.ask(["scontrol", "show", "job", number], cluster)
    if reports.several(shown):
        raise JobRefusedError(
            f"job {job} is an array, a task of one, or a heterogeneous job, which cannot be supervised",
            "submit each task as a job of its own",
        )
    if report.state.ended:
        raise JobRefusedError(f"job {job} has ended already ({report.said})", "begin the run with its command")
    try:
        script = asking.ask(["scontrol", "write", "batch_script", number, "-"], cluster)
    except LauncherError as error:
        # An interactive job has none, and another user's may not be read.
        log.info("the script of job %s cannot be had: %s", job, error)
        script = ""
    return AdoptedJob(
        job,
        report.started_at,
        reports.folder(shown),
        report.outputs,
        script,
        reports.options(shown),
    )


def preview(spec: JobSpec, name: str, now: datetime) -> JobPreview:
    """sbatch's arguments and the script. A job that lastbeat adopted without a command has none."""
    if not spec.command:
        return JobPreview()
    asked = sbatch.submission(spec, name, os.environ)
    return JobPreview(
        {"sbatch": list(asked.arguments), "script": asked.stdin},
        (f"sbatch {shlex.join(asked.arguments)}", *(f"  {line}" for line in asked.stdin.splitlines())),
    )


class SlurmLauncher(Launcher):
    """Submits batch jobs, and asks about them."""

    kind = "slurm"
    limit_s = 4 * CALL_S

    def __init__(
        self,
        clusters: tuple[str, ...] = (),
        place: str = "",
        *,
        call_s: float = CALL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``place`` is where its jobs are, empty for here. They can be asked about only there."""
        self._clusters = clusters
        self._awaited_place = place
        self._call_s = call_s
        self._clock = clock
        self._late_since: dict[str, float] = {}
        self._host_names: dict[str, str] = {}

    def place(self) -> str:
        answer = self._answer(["scontrol", "show", "config"], "")
        if answer.code != 0:
            raise _unanswered(answer)
        told = dict(re.findall(r"^(ClusterName|SlurmctldHost\[0\])\s*=\s*(\S+)", answer.out, re.MULTILINE))
        cluster, host = told.get("ClusterName"), told.get("SlurmctldHost[0]", "")
        if cluster is None:
            raise LauncherError("scontrol show config names no ClusterName")
        # Many clusters have the name that Slurm's own example has.
        return f"{cluster}@{host.partition('(')[0]} uid {os.getuid()}"

    def submit(self, spec: JobSpec, name: str, since: datetime) -> str:
        if sbatch.clusters(spec.options) != self._clusters:
            raise JobRefusedError("its options name other clusters than this launcher asks")
        known = self.find(name, since)
        if known is not None:
            return known
        _make_folder(spec)
        inherited = sbatch.of_this_cluster(spec.inherited, os.environ)
        asked = sbatch.submission(spec, name, inherited, self._nodes(spec.excluded_nodes))
        command = ["sbatch", *asked.arguments]
        answer = ask(command, asked.environment, self._call_s, stdin=asked.stdin, advice=_PING)
        if answer.code == 0:
            return self._submitted(answer.out.strip())
        if answer.says(_UNCLEAR):
            raise LauncherError(answer.fault)
        if answer.says(_NOT_SENT):
            raise NotLaunchedError(answer.fault, _advice(answer))
        if answer.says(_LATER):
            raise NotLaunchedError(answer.fault, "squeue --me shows what counts against the limit")
        raise JobRefusedError(answer.fault, "try the same sbatch command by hand")

    def _submitted(self, said: str) -> str:
        """The job's id, with its cluster where sbatch names one."""
        number, _, cluster = said.partition(";")
        job = f"{number}@{cluster}" if cluster else number
        if not _JOB_ID.fullmatch(job):
            raise LauncherError(f"sbatch answered {said[:100]!r}, which is no job id")
        return job

    def find(self, name: str, since: datetime) -> str | None:
        found = [job for cluster in self._clusters or ("",) for job in self._named(name, since, cluster)]
        return max(found, key=lambda job: int(job.partition("@")[0]), default=None)

    def _named(self, name: str, since: datetime, cluster: str) -> list[str]:
        queue = self._ask(
            ["squeue", "--noheader", "--states=all", "--me", f"--name={name}", "--format=%A|%V|%j"], cluster
        )
        if queue.code != 0:
            raise _unanswered(queue)
        rows = _rows(queue.out, name, since) or _rows(self._accounted(name, since, cluster), name, since)
        return [f"{job}@{cluster}" if cluster else job for job in rows]

    def state(self, job: str) -> JobReport:
        found = _JOB_ID.fullmatch(job)
        if found is None:
            return JobReport(JobState.GONE, reason=f"{job[:60]!r} is no job id of Slurm")
        number, cluster = found[1], found[2] or ""
        try:
            answer = self._ask(["scontrol", "show", "job", number], cluster)
            if answer.code == 0 and answer.out.strip():
                self._late_since.pop(job, None)
                return controlled(answer.out, self._host(node_in_output(answer.out), cluster))
            if answer.code != 0 and not answer.says(_NO_JOB):
                return JobReport(JobState.UNKNOWN, reason=_unanswered(answer).told)
            return self._forgotten(job, number, cluster)
        except LauncherError as error:
            return JobReport(JobState.UNKNOWN, reason=error.told)

    def states(self, jobs: Collection[str]) -> Mapping[str, JobReport]:
        """As the port says, by one squeue for each cluster and some hundred jobs. Jobs that have ended are left out."""
        clusters: dict[str, list[str]] = {}
        for job in jobs:
            found = _JOB_ID.fullmatch(job)
            if found is not None and found[1].isdecimal():
                clusters.setdefault(found[2] or "", []).append(job)
        told: dict[str, JobReport] = {}
        for cluster, asked in clusters.items():
            for start in range(0, len(asked), _ASKED_AT_ONCE):
                told |= self._queued(asked[start : start + _ASKED_AT_ONCE], cluster)
        return told

    def _queued(self, jobs: Sequence[str], cluster: str) -> dict[str, JobReport]:
        """Reports on ``jobs`` of ``cluster`` from one squeue."""
        # No value of a job can hold it: jobs' names and paths have any character.
        separator = f"|{secrets.token_hex(8)}|"
        form = ",".join(f"{name}:{separator}" for name in reports.QUEUED)
        ids = ",".join(job.partition("@")[0] for job in jobs)
        command = ["squeue", "--noheader", "--me", f"--jobs={ids}", f"--Format={form}"]
        try:
            answer = self._ask(command, cluster, most=_MOST_QUEUED)
            if answer.code != 0:
                if answer.says(_NO_JOB) or answer.says(_NO_FORMAT):
                    return {}
                raise _unanswered(answer)
            found = reports.queued(answer.out, separator)
            shown = {job: found[number] for job in jobs if (number := job.partition("@")[0]) in found}
            return {job: each.report(self._host(each.node_in_output, cluster)) for job, each in shown.items()}
        except LauncherError as error:
            return dict.fromkeys(jobs, JobReport(JobState.UNKNOWN, reason=error.told))

    def cancel(self, job: str) -> None:
        found = _JOB_ID.fullmatch(job)
        if found is None:
            return
        answer = self._ask(["scancel", found[1]], found[2] or "")
        ended = ("already completing or completed", *_NO_JOB)
        if answer.code != 0 and not answer.says(ended):
            raise _unanswered(answer)

    def _forgotten(self, job: str, number: str, cluster: str) -> JobReport:
        """The accounting's report on a job that the controller does not know."""
        answer = self._ask(["sacct", *_COLUMNS, f"--format={ACCOUNTED}", f"--jobs={number}"], cluster)
        if answer.code != 0:
            if _NO_ACCOUNTING in answer.err:
                return JobReport(JobState.GONE, "gone", "the controller has forgotten it, and there is no accounting")
            return JobReport(JobState.UNKNOWN, reason=f"the controller has forgotten it, and {answer.fault}")
        report = accounted(answer.out)
        if report is None:
            return JobReport(JobState.GONE, "gone", "neither the controller nor the accounting knows such a job")
        if report.state.ended or report.state is JobState.UNKNOWN:
            return report
        # It has ended, for the controller knows of none; the accounting may hear of it later, or never.
        why = f"the controller does not know it, and the accounting still has it as {report.said}"
        now = self._clock()
        if now - self._late_since.setdefault(job, now) < LATE_S:
            return JobReport(JobState.UNKNOWN, report.said, why)
        return JobReport(JobState.GONE, "gone", why)

    def _accounted(self, name: str, since: datetime, cluster: str) -> str:
        begin = since.astimezone().strftime("%Y-%m-%dT%H:%M:%S")
        its = [f"--name={name}", f"--starttime={begin}", f"--user={os.getuid()}"]
        answer = self._ask(["sacct", *_COLUMNS, "--format=JobIDRaw,Submit,JobName", *its], cluster)
        if answer.code != 0:
            if _NO_ACCOUNTING in answer.err:
                return ""
            raise LauncherError(f"whether {name} has run is unknown; {answer.fault}", _DATABASE)
        return answer.out

    def _nodes(self, names: Sequence[str]) -> list[str]:
        """Those of ``names`` that are nodes. Some come out of logs, where a host has its long name, or any at all; for
        one that there is not, sbatch would refuse the job."""
        if not names:
            return []
        nodes: dict[str, str] = {}
        for cluster in self._clusters or ("",):
            answer = self._ask(["sinfo", "--noheader", "--Node", "--format=%N|%n"], cluster)
            if answer.code != 0:
                raise NotLaunchedError(answer.fault, _advice(answer))
            for line in answer.out.splitlines():
                node, _, host = line.partition("|")
                nodes.setdefault(host.strip().partition(".")[0], node.strip())
                nodes[node.strip()] = node.strip()
        known = {name: nodes.get(name) or nodes.get(name.partition(".")[0]) for name in names}
        for name in (name for name, node in known.items() if node is None):
            log.warning("%.100r is no node of the cluster, so it is not excluded", name)
        return list(dict.fromkeys(node for node in known.values() if node is not None))

    def _host(self, node: str | None, cluster: str) -> str | None:
        """The name of the host of ``node``, which may differ from the node's own, or None without a node."""
        if node is None:
            return None
        if node not in self._host_names:
            answer = self._ask(["scontrol", "show", "node", node], cluster)
            found = _HOST_NAME.search(answer.out) if answer.code == 0 else None
            self._host_names[node] = found[1].partition(".")[0] if found is not None else node
        return self._host_names[node]

    def ask(self, command: Sequence[str], cluster: str) -> str:
        """What one of Slurm's commands answers. Raises :class:`LauncherError`."""
        answer = self._ask(command, cluster)
        if answer.code != 0:
            raise _unanswered(answer)
        return answer.out

    def _ask(self, command: Sequence[str], cluster: str, *, most: int = MOST_BYTES) -> Answer:
        if self._awaited_place:
            # Another cluster knows nothing of these jobs, so to it they would be gone.
            here = self.place()
            if here != self._awaited_place:
                raise LauncherError(f"its jobs are in {self._awaited_place}, and this is {here}", "go on with it there")
            self._awaited_place = ""
        return self._answer(command, cluster, most)

    def _answer(self, command: Sequence[str], cluster: str, most: int = MOST_BYTES) -> Answer:
        asked = [command[0], *([f"--clusters={cluster}"] if cluster else ()), *command[1:]]
        return ask(asked, _plain(os.environ), self._call_s, advice=_PING, most=most)


def _unanswered(answer: Answer) -> LauncherError:
    """Slurm could not be asked, and why."""
    return LauncherError(answer.fault, _advice(answer))


def _advice(answer: Answer) -> str:
    return _SET_UP if answer.says(_NOT_SET_UP) else _PING


def _make_folder(spec: JobSpec) -> None:
    """Make the folder of the output: Slurm makes none, and fails a job that cannot write there."""
    folder = Path(spec.cwd, spec.output).parent
    if not spec.output or "%" in str(folder):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        # It may lie on the nodes alone.
        log.info("the folder %s of the job's output cannot be made here: %s", folder, error.strerror)


def _rows(text: str, name: str, since: datetime) -> list[str]:
    """The jobs of that name among lines of ``job|time|name`` that were submitted at ``since`` or later."""
    found = [row.split("|", 2) for row in text.splitlines() if row.count("|") >= 2]
    return [job for job, at, its in found if its.strip() == name and job.isdecimal() and _is_since(at, since)]


def _is_since(text: str, since: datetime) -> bool:
    """Whether a time of Slurm's, in whole seconds, is ``since`` or later; one that cannot be read counts."""
    at = local_time(text)
    return at is None or at >= since.replace(microsecond=0)


def _plain(environment: Mapping[str, str]) -> dict[str, str]:
    """In which answers do not depend on the user's own wishes."""
    dropped = {"SLURM_CLUSTERS", "SLURM_EXIT_ERROR", "SLURM_BITSTR_LEN"}
    kept = {name: text for name, text in environment.items() if not name.startswith(_WISHES) and name not in dropped}
    return {**kept, "SLURM_TIME_FORMAT": "standard"}
