"""Jobs inside the head pod of a Ray cluster on Kubernetes, by ``kubectl exec``.

The training is a process of the head pod, detached from the call that starts it, with its log in a file there and a
keeper beside it, as a local job has one. It joins the cluster as any driver does (``ray.init(address="auto")``). This
is the way for clusters where ``ray job submit`` leaves GPUs unused.

    submit ──► pod: its uid ──► in the pod: FOLDER/lock ──► keeper ──► command
    state  ──► in the pod: FOLDER ─ knows ──────────────────────────► its state
                                  └ does not, or nothing can run there ──► pod: another uid, started again, gone?

A job's id has the pod's uid, and how often its container had been started again: a pod that was created again under the
same name, and a container that was started again, are other machines, and the job was lost with the old one.
"""

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from lastbeat.jobs.launchers.kubectl import (
    AbsentError,
    Kubectl,
    NotRunningError,
    check_label,
    check_name,
    container_status,
    containers,
)
from lastbeat.jobs.launchers.local.launcher import LOST, spec_document, with_end
from lastbeat.jobs.launchers.port import JobRefusedError, Launcher, LauncherError, NotLaunchedError
from lastbeat.jobs.launchers.ray_pod.pod_files import PodFiles
from lastbeat.jobs.launchers.ray_pod.pod_python import PodPython, Said, bytes_of
from lastbeat.model.job import AdoptedJob, GpuUse, JobReport, JobSpec, JobState
from lastbeat.model.text import one_line
from lastbeat.stores.port import Store

CALL_S: Final = 20.0
"""Time limit of one call of kubectl."""
_OPTIONS: Final = ("--head-pod", "--namespace", "--container", "--context")
_GPUS_S: Final = 60.0
"""Least time in s between two requests for the pod's GPUs."""
_IN: Final = r"/(?P<uid>[A-Za-z0-9-]{1,64})/(?P<restarts>\d{1,9})/(?P<life>\d{1,20})"
_JOB: Final = re.compile(r"(?P<name>[A-Za-z0-9._=+@:-]{1,160})\.(?P<token>[0-9a-f]{8})" + _IN)
_ADOPTED: Final = re.compile(r"pid:(?P<pid>\d{1,10}):(?P<started>\d{1,20}):(?P<boot>[0-9a-f-]{0,36})" + _IN)
_ODD: Final = re.compile(r"[^A-Za-z0-9._=+@:-]")
_LONGEST_PID: Final = 10
_OOM_KILLED: Final = "OOMKilled"
_KILLED: Final = 9
_SEVERAL: Final = 2
"""From this number on, one call asks about all jobs."""
_NONSENSE: Final = (TypeError, ValueError, AttributeError, OverflowError)
"""Errors while reading an answer of another form."""


def launcher(state: Path, options: Sequence[str] = (), place: str = "") -> "RayPodLauncher":
    """The launcher of the head pod that ``options`` name. Raises :class:`JobRefusedError` if they name none."""
    return RayPodLauncher(_python(options), place)


def adoption(job: str, options: Sequence[str] = ()) -> AdoptedJob:
    """What is known of the process with that number in the pod's container. Its exit status stays unknown."""
    return RayPodLauncher(_python(options)).adoption(job)


def _python(options: Sequence[str]) -> PodPython:
    """The Python of the pod that ``options`` name, each ``--name=text``; of one that comes twice the last counts."""
    said: dict[str, str] = {}
    for option in options:
        name, given, text = option.partition("=")
        if name not in _OPTIONS or not given:
            known = ", ".join(f"{each}=…" for each in _OPTIONS)
            raise JobRefusedError(f"{one_line(option)[:60]!r} is no option of ray-pod", f"it takes {known}")
        said[name] = text
    if not said.get("--head-pod"):
        raise JobRefusedError(
            "ray-pod needs the pod of the cluster's head",
            "--at head-pod=POD; 'kubectl get pods -l ray.io/node-type=head' lists such pods",
        )
    pod, container = check_name("pod", said["--head-pod"]), said.get("--container", "")
    if container:
        check_label("container", container)
    return PodPython(Kubectl(said.get("--namespace", ""), said.get("--context", ""), CALL_S), pod, container)


@dataclass(frozen=True)
class _Job:
    """What an id says."""

    request: Mapping[str, Any]
    """Which job it is, for the pod."""
    uid: str
    restarts: int
    """How often its container had been started again when it began, as the cluster says."""
    life: int
    """When its container's first process began, as the container says, in clock ticks: the cluster may be late."""
    adopted: bool


class RayPodLauncher(Launcher):
    """Runs jobs as processes of one pod."""

    kind = "ray-pod"
    limit_s = 4 * CALL_S

    def __init__(self, python: PodPython, place: str = "", *, clock: Callable[[], float] = time.monotonic) -> None:
        self._python = python
        self._kubectl = python.kubectl
        self._place = place
        self._clock = clock
        self._gpus: GpuUse | None = None
        self._gpus_at: float | None = None
        self._read: dict[tuple[str, int], tuple[str, bytes]] = {}
        """Job and bound → version of its log, and what was read of it: of what was asked for last."""

    def place(self) -> str:
        # Any user who may run a command in the pod is the same user there.
        return f"{self._kubectl.place()}/{self._python.pod}"

    def submit(self, spec: JobSpec, name: str, since: datetime) -> str:
        try:
            self._check_place()
            pod = self._kubectl.pod(self._python.pod)
            there = self._container_life(pod)
            status = container_status(pod, self._container(pod))
        except JobRefusedError:
            raise
        except LauncherError as error:
            raise NotLaunchedError(str(error), error.advice) from None
        if "running" not in (status.get("state") or {}):
            raise NotLaunchedError(f"pod {self._python.pod} does not run", _DESCRIBE.format(self._python.pod))
        # The environment of this machine is none of the pod's.
        its = spec_document(replace(spec, inherited=None))
        asked = {**_named(name, since), "do": "submit", "spec": its, "there": there, "token": secrets.token_hex(4)}
        try:
            answer = self._python.ask(asked)
        except (AbsentError, NotRunningError) as error:
            raise NotLaunchedError(str(error), error.advice) from None
        if "fault" in answer:
            fault = _fault(f"{name}: pod {self._python.pod}", answer)
            raise fault if answer.get("done") else NotLaunchedError(str(fault), "look into the pod's TMPDIR, or /tmp")
        return _id(name, answer)

    def find(self, name: str, since: datetime) -> str | None:
        self._check_place()
        answer = self._ask({**_named(name, since), "do": "find"})
        return None if answer["token"] is None else _id(name, answer)

    def state(self, job: str) -> JobReport:
        found = _parsed(job)
        if found is None:
            return JobReport(JobState.GONE, reason=f"{one_line(job)[:60]!r} is no job id of ray-pod")
        try:
            return self._state(found)
        except LauncherError as error:
            return JobReport(JobState.UNKNOWN, reason=error.told)
        except _NONSENSE as error:
            return self._nonsense(error)

    def states(self, jobs: Collection[str]) -> Mapping[str, JobReport]:
        """See the port; one call into the pod. Leaves out jobs that need a question to the cluster as well."""
        known = {job: found for job in jobs if (found := _parsed(job)) is not None}
        if len(known) < _SEVERAL:
            return {}
        due = self._gpus_due()
        asked = [_state_request(each, gpus=False) for each in known.values()]
        try:
            answer = self._ask({"do": "states", "jobs": asked, "gpus": due})
            if due and answer["runs"]:
                self._note_gpus(answer)
            pairs = zip(known.items(), map(Said, answer["answers"]), strict=True)
            told = {job: self._report(each, said) for (job, each), said in pairs if "fault" not in said}
        except (AbsentError, NotRunningError):
            return {}
        except LauncherError as error:
            return dict.fromkeys(jobs, JobReport(JobState.UNKNOWN, reason=error.told))
        except _NONSENSE as error:
            return dict.fromkeys(jobs, self._nonsense(error))
        return {job: each for job, each in told.items() if each is not None}

    def output(self, job: str, most: int) -> bytes | None:
        found = _parsed(job)
        if found is None:
            raise LauncherError(f"{one_line(job)[:60]!r} is no job id of ray-pod")
        version, known = self._read.get((job, most), ("", b""))
        # One byte more tells whether a line begins where the window does.
        asked = {**found.request, "do": "output", "most": most + 1, "from_end": True, "unless": version}
        answer = self._ask(asked)
        if answer["size"] is None:
            return b""
        if answer.get("same"):
            return known
        body = bytes_of(answer)
        if len(body) > most:
            head, newline, rest = body.partition(b"\n")
            body = rest if newline else head[-most:]
        self._read = {(job, most): (str(answer["version"]), body)}
        return body

    def files(self, path: str) -> Store | None:
        return None if "://" in path else PodFiles(self._python, path)

    def cancel(self, job: str) -> None:
        found = _parsed(job)
        if found is None:
            return
        try:
            self._ask({**found.request, "do": "adopted cancel" if found.adopted else "cancel"})
        except (AbsentError, NotRunningError):
            # What cannot be there any more cannot be ended; the state tells.
            return

    def adoption(self, job: str) -> AdoptedJob:
        """See :func:`adoption`."""
        if not job.isdecimal() or len(job) > _LONGEST_PID:
            raise JobRefusedError(
                f"{one_line(job)[:60]!r} is no number of a process",
                f"'kubectl exec {self._python.pod} -- ps -ef' shows those of the pod",
            )
        there = self._container_life(self._kubectl.pod(self._python.pod))
        answer = self._python.ask({"do": "adopt", "pid": int(job), "there": there})
        if "fault" in answer:
            raise JobRefusedError(str(_fault(f"pod {self._python.pod}", answer)))
        pid, started, boot = answer["process"]
        began_at = datetime.fromtimestamp(answer["began_at"], tz=timezone.utc)
        # What it writes is asked for: its files are none of this machine's.
        return AdoptedJob(f"pid:{int(pid)}:{int(started)}:{boot}/{answer['there']}", began_at, str(answer["cwd"]))

    def _state(self, job: _Job) -> JobReport:
        due = self._gpus_due()
        try:
            answer = self._ask(_state_request(job, gpus=due))
        except (AbsentError, NotRunningError) as error:
            return self._lost(job, error)
        if due and answer["runs"]:
            self._note_gpus(answer)
        return self._report(job, answer) or self._lost(job, None, answer)

    def _gpus_due(self) -> bool:
        return self._gpus_at is None or self._clock() - self._gpus_at >= _GPUS_S

    def _note_gpus(self, answer: Mapping[str, Any]) -> None:
        self._gpus_at, self._gpus = self._clock(), _gpu_use(answer.get("gpus"))

    def _nonsense(self, error: Exception) -> JobReport:
        """The report of a job when the answer has another form. Other programs in the pod may answer for us."""
        return JobReport(JobState.UNKNOWN, reason=f"pod {self._python.pod} answered nonsense: {error!r:.200}")

    def _report(self, job: _Job, answer: Mapping[str, Any]) -> JobReport | None:
        """The report of a job by the pod's answer, or None if only the cluster can say how it ended."""
        if answer["runs"]:
            begun = answer.get("begun")
            return JobReport(
                JobState.RUNNING,
                "running",
                nodes=(self._node(answer),),
                started_at=None if begun is None else _time(begun["started_at"]),
                gpus=self._gpus,
            )
        if answer.get("another") == f"{job.uid}/{job.restarts}/{job.life}":
            return JobReport(JobState.GONE, "gone", "a later job of its name has taken its place in the pod")
        if not answer["known"] or (not job.adopted and answer["ended"] is None):
            return None
        if job.adopted:
            return JobReport(JobState.GONE, "gone", "no process collected its exit status")
        return _ended(answer, self._node(answer))

    def _lost(self, job: _Job, error: LauncherError | None, answer: Mapping[str, Any] | None = None) -> JobReport:
        """The cluster's report about a pod that lacks the job, or runs no commands. Raises :class:`LauncherError` if
        the cluster knows nothing about the job."""
        # Another cluster has no such pod either, or another pod of that name.
        self._check_place()
        try:
            pod = self._kubectl.pod(self._python.pod)
        except AbsentError:
            why = f"pod {self._python.pod} has been deleted"
            return JobReport(JobState.NODE_LOST, "NotFound", why, nodes=(self._python.pod,))
        # A pod is no node: the next job may well run in the one of that name.
        lost = JobReport(JobState.NODE_LOST, "restarted", nodes=(self._python.pod,))
        if _uid(pod) != job.uid:
            return replace(lost, reason=f"pod {self._python.pod} was started again: it is another one of that name")
        status = container_status(pod, self._container(pod))
        state = status.get("state") or {}
        if (pod.get("status") or {}).get("phase") in {"Failed", "Succeeded"} or "terminated" in state:
            return self._ended_with(pod, state, lost)
        # It ran when the job was submitted, so it has ended since.
        if "waiting" in state or int(status.get("restartCount") or 0) > job.restarts:
            return self._ended_with(pod, status.get("lastState") or {}, lost)
        if answer is None:
            # Its node, or its container, is on its way.
            raise error or LauncherError(f"nothing could be run in pod {self._python.pod}")
        if answer["life"] != job.life:
            raise LauncherError(f"the container of pod {self._python.pod} was started again; why is not known yet")
        return JobReport(JobState.GONE, "gone", _FORGOTTEN if not answer["known"] else LOST)

    def _ended_with(self, pod: Mapping[str, Any], state: Mapping[str, Any], lost: JobReport) -> JobReport:
        """How the job's container ended, and the job with it; ``state`` is that of the container then."""
        ended = state.get("terminated") or {}
        its = pod.get("status") or {}
        said = one_line(str(its.get("reason") or ended.get("reason") or ""))[:100]
        more = one_line(str(its.get("message") or ended.get("message") or ""))[:200]
        at = _kubernetes_time(ended.get("finishedAt"))
        if said == _OOM_KILLED:
            why = "the container was killed with all that ran in it: out of memory"
            return replace(lost, state=JobState.FAILED, said=said, reason=why, signal=_KILLED, ended_at=at)
        known = f" ({said}{f': {more}' if more else ''})" if said else ""
        why = f"the container of pod {self._python.pod} ended or was started again{known}"
        return replace(lost, said=said or lost.said, reason=why, ended_at=at)

    def _ask(self, request: Mapping[str, Any]) -> Said:
        """The pod's answer. Raises :class:`LauncherError`."""
        answer = self._python.ask(request)
        if "fault" in answer:
            raise _fault(f"pod {self._python.pod}", answer)
        return answer

    def _check_place(self) -> None:
        """Raises :class:`LauncherError` if kubectl talks to another cluster than before."""
        here = self.place()
        if not self._place:
            self._place = here
        if here != self._place:
            raise LauncherError(f"its jobs are in {self._place}, and this is {here}", "name its context: --context=…")

    def _container_life(self, pod: Mapping[str, Any]) -> str:
        """The pod and its container as they are now: ``UID/RESTARTS``."""
        return f"{_uid(pod)}/{int(container_status(pod, self._container(pod)).get('restartCount') or 0)}"

    def _container(self, pod: Mapping[str, Any]) -> str:
        return self._python.container or next(iter(containers(pod)), "")

    def _node(self, answer: Mapping[str, Any]) -> str:
        return one_line(str(answer.get("node") or self._python.pod))[:100]


_DESCRIBE: Final = "'kubectl describe pod {}' says why"
_FORGOTTEN: Final = "nothing in the pod knows of it"


def _state_request(job: _Job, *, gpus: bool) -> dict[str, Any]:
    """The request for the job's state, and for the use of the pod's GPUs."""
    return {**job.request, "do": "adopted state" if job.adopted else "state", "gpus": gpus}


def _named(name: str, since: datetime) -> dict[str, Any]:
    return {"name": _folder(name), "since": since.timestamp()}


def _id(name: str, answer: Mapping[str, Any]) -> str:
    job = f"{_folder(name)}.{answer['token']}/{answer['there']}"
    if _JOB.fullmatch(job) is None:
        raise LauncherError(f"{name}: what the pod answered is no job")
    return job


def _folder(name: str) -> str:
    """The name of the job's folder: readable, harmless, and another one for each name, which may be longer than a
    file's, and differ in case alone."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{_ODD.sub('_', name[:100])}-{digest}"


def _parsed(job: str) -> _Job | None:
    """None: it is no id of a job here."""
    if (found := _ADOPTED.fullmatch(job)) is not None:
        process = [int(found["pid"]), int(found["started"]), found["boot"]]
        name = f"adopted-{process[0]}-{process[1]}-{process[2]}"
        return _Job(
            {"name": name, "process": process, "pid": process[0]},
            found["uid"],
            int(found["restarts"]),
            int(found["life"]),
            adopted=True,
        )
    if (found := _JOB.fullmatch(job)) is not None:
        return _Job(
            {"name": found["name"], "token": found["token"]},
            found["uid"],
            int(found["restarts"]),
            int(found["life"]),
            adopted=False,
        )
    return None


def _ended(answer: Mapping[str, Any], node: str) -> JobReport:
    known = JobReport(JobState.UNKNOWN, nodes=(node,), started_at=_time(answer["begun"]["started_at"]))
    told = with_end(known, answer["ended"])
    return replace(told, reason=one_line(told.reason)[:300])


def _gpu_use(told: Any) -> GpuUse | None:
    return GpuUse(float(told[0]), float(told[1])) if isinstance(told, list) and len(told) == 2 else None


def _fault(where: str, answer: Mapping[str, Any]) -> LauncherError:
    return LauncherError(f"{where}: {one_line(str(answer['fault']))[:300]}")


def _uid(pod: Mapping[str, Any]) -> str:
    uid = str((pod.get("metadata") or {}).get("uid"))
    if re.fullmatch(r"[A-Za-z0-9-]{1,64}", uid) is None:
        raise LauncherError("the cluster names no uid of the pod")
    return uid


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)


def _kubernetes_time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
