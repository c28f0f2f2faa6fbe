"""Translates Kubernetes' objects and their pods to a job's report. Pure.

    terminal? ── no ──► pods: one has not begun → PENDING, with why; else RUNNING
        │ yes
        └──► a pod may still live → RUNNING, it is being ended
             none does            → SUCCEEDED, or how the pod ended that failed first

The object's own status says *whether* it is over, and its pods say *why*: a Job at its backoff limit does not mention
that memory ran out. A pod may be alive until its phase says that it has ended, or the pod is gone. A pod that is being
deleted on an unreachable node may still write checkpoints.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Final

from lastbeat.jobs.launchers.kubernetes.kinds import (
    JOB,
    JOBSET,
    PYTORCHJOB,
    RAYJOB,
    Kind,
    Object,
    listed,
    mapping,
    number,
    text,
)
from lastbeat.jobs.launchers.kubernetes.manifests import CANCELLED
from lastbeat.model.job import JobReport, JobState
from lastbeat.model.text import counted

DISRUPTIONS: Final[Mapping[str, JobState]] = {
    "PreemptionByScheduler": JobState.PREEMPTED,
    "EvictionByEvictionAPI": JobState.PREEMPTED,
    "DeletionByTaintManager": JobState.NODE_LOST,
    "DeletionByPodGC": JobState.NODE_LOST,
}
"""Reason of a pod's condition DisruptionTarget → how the job ended. The kubelet's reason (TerminationByKubelet) is left
out, because the pod's own reason says as much."""
_OF_PODS: Final[Mapping[str, JobState]] = {
    "NodeLost": JobState.NODE_LOST,
    "NodeShutdown": JobState.PREEMPTED,
    "Shutdown": JobState.PREEMPTED,
    "Terminated": JobState.PREEMPTED,
    "Preempting": JobState.PREEMPTED,
    "DeadlineExceeded": JobState.TIMEOUT,
}
"""A failed pod's own reason → how the job ended. Any other reason means FAILED."""
BENIGN: Final = frozenset({"ContainerCreating", "PodInitializing", "Scheduling", "Creating"})
"""Waiting reasons of a pod that is about to begin."""
_SIGNALS: Final = range(129, 193)
"""Exit codes of a process that a signal ended: 128 plus the signal's number."""
_GENERIC: Final = frozenset({"", "Error", "Completed", "ContainerStatusUnknown"})
"""Reasons of a container's end that add nothing to its exit code."""
_OF_CONTROLLERS: Final = frozenset(
    {
        "BackoffLimitExceeded",
        "FailedJobs",
        "PyTorchJobFailed",
        "JobFailed",
        "MaxFailedIndexesExceeded",
        "Failed",
        "FAILED",
    }
)
"""Reasons of an object's end that only mean that its pods failed."""
EVENTS: Final = ("Preempted", "TaintManagerEviction")
_EVENTS: Final = dict(zip(EVENTS, ("PreemptionByScheduler", "DeletionByTaintManager"), strict=True))
"""Event of an evicted pod that is gone by now → the condition that it had."""
_PLACE: Final = (
    "batch.kubernetes.io/job-completion-index", "training.kubeflow.org/replica-type",
    "training.kubeflow.org/replica-index", "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/job-index",
)  # fmt: skip
"""Labels and annotations that together name a pod's part in its job."""
_MOST_NODES: Final = 64
_NO_TIME: Final = datetime.fromtimestamp(0, tz=timezone.utc)


@dataclass(frozen=True, slots=True)
class Pod:
    """The facts about a pod that a report needs."""

    name: str
    node: str
    lives: bool
    """Whether it may still have processes."""
    begun: bool
    """Whether its training has begun, with no restart of its container pending."""
    waits: tuple[str, str]
    """Why it has not begun: Kubernetes' reason and message."""
    end: JobReport | None
    """How it failed, if it did."""
    unreachable: bool
    """Whether its node does not answer."""
    place: tuple[str, ...]
    """Its part in the job; empty if its parts are interchangeable."""
    created_at: datetime
    started_at: datetime | None
    restarts: int
    container: str
    """The container whose log is read."""


def pods_of(documents: Sequence[Object]) -> list[Pod]:
    """The pods of a job, oldest first."""
    known = {text(each, "metadata", "name"): each for each in documents}
    return sorted((_pod(each) for name, each in known.items() if name), key=lambda pod: (pod.created_at, pod.name))


def report(kind: Kind, value: Object | None, pods: Sequence[Pod]) -> JobReport:
    """The job's report. ``value`` is None if the object certainly does not exist."""
    alive = [pod for pod in pods if pod.lives]
    if value is None:
        return _vanished(alive)
    outcome = _OUTCOMES[kind.name](value)
    current = _current(pods, (number(value, "spec", "parallelism") or 1) if kind is JOB else len(pods))
    known = JobReport(
        JobState.UNKNOWN,
        nodes=tuple(dict.fromkeys(pod.node for pod in current if pod.node))[:_MOST_NODES],
        started_at=min((pod.started_at for pod in pods if pod.started_at is not None), default=None),
        restarts=_restarts(kind, value, pods, over=outcome is not None),
    )
    if CANCELLED in mapping(value, "metadata", "annotations"):
        return _cancelled(known, value, outcome, alive)
    if outcome is not None:
        if alive and not _is_final(kind, outcome):
            return replace(known, state=JobState.RUNNING, said=outcome.said, reason=_being_ended(outcome.said, alive))
        return _ended(known, kind, outcome, current)
    if text(value, "metadata", "deletionTimestamp"):
        return replace(known, state=JobState.RUNNING, said="Deleting", reason=_being_ended("deleted", alive))
    return _under_way(known, kind, value, current)


def gone(pod: Pod) -> Pod:
    """``pod`` after it has been removed."""
    return replace(pod, lives=False, begun=True, unreachable=False)


def stuck(pods: Sequence[Pod]) -> str:
    """Why the end of these pods will never be reported, or "" if nothing holds them."""
    lost = [pod for pod in pods if pod.lives and pod.unreachable]
    return _being_ended("it is cancelled", lost) if lost else ""


def unexplained(found: JobReport) -> bool:
    """Whether the job failed and no pod is left to say why."""
    return found.state is JobState.FAILED and found.said in _OF_CONTROLLERS


def needs_word(found: JobReport) -> bool:
    """Whether the job waits and its pods do not say why."""
    return found.state is JobState.PENDING and (found.said in BENIGN or found.said == "NoPods")


def with_disruption(found: JobReport, events: Sequence[Object], name: str) -> JobReport:
    """``found``, of a job that failed without a reason, with the newest event that one of its pods was evicted."""
    its = [each for each in events if text(each, "involvedObject", "name").startswith(f"{name}-")]
    for event in sorted(its, key=_happened, reverse=True):
        said = _EVENTS.get(text(event, "reason"))
        if said is not None:
            told = _pod_line(text(event, "involvedObject", "name"), text(event, "message"))
            return replace(found, state=DISRUPTIONS[said], said=said, reason=told)
    return found


def with_warning(found: JobReport, events: Sequence[Object]) -> JobReport:
    """``found``, of a job that waits without a reason, with the newest warning about it."""
    warning = max((each for each in events if text(each, "type") == "Warning"), key=_happened, default=None)
    if warning is None:
        return found
    word = text(warning, "reason") or found.said
    return replace(found, said=word, reason=f"{word}: {text(warning, 'message')}")


def _happened(event: Object) -> datetime:
    times = (time_of(event, name) for name in ("lastTimestamp", "eventTime", "firstTimestamp"))
    return next((each for each in times if each is not None), _NO_TIME)


def time_of(value: object, *path: str) -> datetime | None:
    """The time in ``value`` under ``path``, or None."""
    try:
        found = datetime.fromisoformat(text(value, *path).replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


# The object.


def _conditions(value: Object) -> dict[str, Object]:
    """The object's true conditions, by type."""
    found = listed(value, "status", "conditions")
    return {text(each, "type"): each for each in found if text(each, "status") == "True"}


def _by_condition(good: str, bad: str) -> Callable[[Object], JobReport | None]:
    def outcome(value: Object) -> JobReport | None:
        conditions = _conditions(value)
        for name, state in ((bad, JobState.FAILED), (good, JobState.SUCCEEDED)):
            if name not in conditions:
                continue
            found = conditions[name]
            reason, message = text(found, "reason"), text(found, "message")
            late = state is JobState.FAILED and (reason == "DeadlineExceeded" or _DEADLINE.search(message) is not None)
            at = time_of(found, "lastTransitionTime") or time_of(value, "status", "completionTime")
            said = "DeadlineExceeded" if late else reason or name
            return JobReport(JobState.TIMEOUT if late else state, said, message, ended_at=at)
        return None

    return outcome


_DEADLINE: Final = re.compile(r"active longer than (?:the )?specified deadline")
"""The training operator reports an exceeded deadline only in its message."""


def _of_jobset(value: Object) -> JobReport | None:
    found = _by_condition("Completed", "Failed")(value)
    if found is not None:
        return found
    terminal = text(value, "status", "terminalState")
    states = {"Completed": JobState.SUCCEEDED, "Failed": JobState.FAILED}
    return JobReport(states[terminal], terminal) if terminal in states else None


def _of_ray(value: Object) -> JobReport | None:
    """The outcome of a RayJob by Ray's own job status, or KubeRay's if Ray has none. Its cluster may live on."""
    status = mapping(value, "status")
    said, message, at = text(status, "jobStatus"), text(status, "message"), time_of(status, "endTime")
    deployed, why = text(status, "jobDeploymentStatus"), text(status, "reason")
    if why == "DeadlineExceeded":
        return JobReport(JobState.TIMEOUT, why, message, ended_at=at)
    # When KubeRay retries, it creates a new cluster for the same object.
    again = deployed in {"Retrying", "Initializing", "New"}
    if said in _RAY_ENDS and not again and (deployed in {"Complete", "Failed"} or said != "FAILED"):
        code = _RAY_CODE.search(message) if said == "FAILED" else None
        exit_code = int(code[1]) if code is not None else None
        ended = _exit(-exit_code + 128 if exit_code is not None and exit_code < 0 else exit_code)
        return JobReport(_RAY_ENDS[said], said, message, *ended, ended_at=at)
    if deployed in {"Failed", "ValidationFailed"}:
        return JobReport(JobState.FAILED, why or deployed, message, ended_at=at)
    return None


_RAY_ENDS: Final = {"SUCCEEDED": JobState.SUCCEEDED, "FAILED": JobState.FAILED, "STOPPED": JobState.CANCELLED}
"""Ray's own word for a job's end: training is over even if pods remain."""
_RAY_CODE: Final = re.compile(r"exit code (-?\d{1,3})\b")

_OUTCOMES: Final[Mapping[str, Callable[[Object], JobReport | None]]] = {
    JOB.name: _by_condition("Complete", "Failed"),
    JOBSET.name: _of_jobset,
    PYTORCHJOB.name: _by_condition("Succeeded", "Failed"),
    RAYJOB.name: _of_ray,
}


def _is_suspended(kind: Kind, value: Object) -> bool:
    """Whether the object is set to be suspended."""
    return mapping(value, *kind.suspend[:-1]).get(kind.suspend[-1]) is True


def _holds_still(value: Object) -> bool:
    """Whether the controller has suspended the object, so that no more pods come."""
    return "Suspended" in _conditions(value) or text(value, "status", "jobDeploymentStatus") == "Suspended"


# What it adds up to.


def _vanished(alive: Sequence[Pod]) -> JobReport:
    if alive:
        return JobReport(JobState.RUNNING, "Deleted", _being_ended("deleted", alive))
    why = "there is no such object: it was deleted, or its ttlSecondsAfterFinished was over"
    return JobReport(JobState.GONE, "gone", why)


def _cancelled(known: JobReport, value: Object, outcome: JobReport | None, alive: Sequence[Pod]) -> JobReport:
    if alive or (outcome is None and not _holds_still(value)):
        return replace(known, state=JobState.RUNNING, said="Suspending", reason=_being_ended("cancelled", alive))
    at = outcome.ended_at if outcome is not None else time_of(_conditions(value).get("Suspended"), "lastTransitionTime")
    asked = text(value, "metadata", "annotations", CANCELLED)
    return replace(known, state=JobState.CANCELLED, said="cancelled", reason=f"asked for at {asked}", ended_at=at)


def _is_final(kind: Kind, outcome: JobReport) -> bool:
    return kind is RAYJOB and outcome.said in _RAY_ENDS


def _ended(known: JobReport, kind: Kind, outcome: JobReport, pods: Sequence[Pod]) -> JobReport:
    told = replace(outcome, nodes=known.nodes, started_at=known.started_at, restarts=known.restarts)
    if outcome.state is JobState.SUCCEEDED:
        return replace(told, exit_code=0)
    ends = [(*_order(pod.end), pod.name, pod, pod.end) for pod in pods if pod.end is not None]
    if outcome.state is not JobState.FAILED or not ends:
        return told
    *_, pod, end = min(ends, key=lambda each: each[:3])
    if _is_final(kind, outcome) and end.said == "Error":
        # That pod only submitted the job, or was ended with its cluster.
        return told
    # The object's deadline is also that of its pods.
    told = replace(end, nodes=told.nodes, started_at=told.started_at, restarts=told.restarts)
    failed_node = pod.node or None if end.state is JobState.NODE_LOST else None
    return replace(told, failed_node=failed_node, ended_at=outcome.ended_at or end.ended_at)


def _order(end: JobReport) -> tuple[datetime, int]:
    """Sort key: the first pod to fail is the cause. Times have whole seconds. Within one second, a pod ended from
    outside comes first, and a pod that other pods' failure ended comes last."""
    ended_by_others = end.state is JobState.FAILED and end.signal in {9, 15} and end.said == "Error"
    return end.ended_at or datetime.max.replace(tzinfo=timezone.utc), 2 if ended_by_others else int(end.said == "Error")


def _under_way(known: JobReport, kind: Kind, value: Object, pods: Sequence[Pod]) -> JobReport:
    if _is_suspended(kind, value) and not any(pod.lives for pod in pods):
        return replace(
            known, state=JobState.PENDING, said="Suspended", reason="Suspended: it is held back", started_at=None
        )
    if kind is RAYJOB:
        word = text(value, "status", "jobStatus")
        begun = word not in {"", "PENDING"} and text(value, "status", "jobDeploymentStatus") in {
            "",
            "Running",
            "Complete",
        }
    else:
        word = ""
        begun = bool(pods) and all(pod.begun or not pod.lives for pod in pods)
    if begun:
        doubt = [pod for pod in pods if pod.lives and pod.unreachable]
        why = f"node {doubt[0].node} of pod {doubt[0].name} does not answer" if doubt else ""
        return replace(known, state=JobState.RUNNING, said=word or "Running", reason=why)
    word, why = _waiting(pods)
    return replace(known, state=JobState.PENDING, said=word, reason=why, started_at=None)


def _waiting(pods: Sequence[Pod]) -> tuple[str, str]:
    """Why the job has not begun: the reason of the pod that most needs attention, and the full text."""
    waiting = [pod for pod in pods if pod.lives and not pod.begun]
    if not waiting:
        return "NoPods", "NoPods: it has no pod yet"
    # Capacity frees up by itself; a missing image does not appear.
    room = {"Unschedulable", "SchedulingGated"}
    pod = min(waiting, key=lambda each: (each.waits[0] in BENIGN, each.waits[0] in room, each.name))
    word, message = pod.waits
    which = f"pod {pod.name}" if len(pods) == 1 else f"{len(waiting)} of {counted(len(pods), 'pod')}, as {pod.name}"
    return word, f"{word}: {which}{f': {message}' if message else ''}"


def _being_ended(what: str, alive: Sequence[Pod]) -> str:
    lost = [pod for pod in alive if pod.unreachable]
    if lost:
        pod, node = lost[0].name, lost[0].node
        return (
            f"{what}, but node {node} does not answer, so it is unknown whether pod {pod} still runs; once that "
            f"machine is off: kubectl delete node {node}, or kubectl delete pod {pod} --force"
        )
    if not alive:
        return f"{what}; its controller has not taken note of it yet"
    return f"{what}; {counted(len(alive), 'pod')} of it {'is' if len(alive) == 1 else 'are'} still being ended"


def _current(pods: Sequence[Pod], width: int) -> list[Pod]:
    """The newest pod of each place, which has replaced earlier ones. Without places, the newest ``width`` pods."""
    newest = {pod.place: pod for pod in pods if pod.place}
    anywhere = [pod for pod in pods if not pod.place]
    return [*newest.values(), *anywhere[-max(1, min(width, 100_000)) :]]


def _restarts(kind: Kind, value: Object, pods: Sequence[Pod], *, over: bool) -> int:
    """How often Kubernetes has restarted the job under the same name."""
    if kind is RAYJOB:
        return max(0, number(value, "status", "failed") - (1 if over else 0))
    again = max((pod.restarts for pod in pods), default=0)
    if kind is JOBSET:
        return number(value, "status", "restarts") + again
    at = [pod.place for pod in pods if pod.place]
    replaced = max((at.count(place) - 1 for place in set(at)), default=0)
    anywhere = sum(not pod.place for pod in pods)
    width = max(1, number(value, "spec", "parallelism"))
    return again + max(replaced, math.ceil(anywhere / width) - 1 if anywhere else 0)


# Pods.


def _pod(value: Object) -> Pod:
    status = mapping(value, "status")
    phase = text(status, "phase")
    conditions = {text(each, "type"): each for each in listed(status, "conditions")}
    containers = listed(status, "containerStatuses")
    unreachable = text(conditions.get("Ready"), "reason") == "NodeStatusUnknown" or (
        text(status, "reason") == "NodeLost" and phase not in {"Succeeded", "Failed"}
    )
    waits = _waits(status, conditions, containers)
    running = [each for each in containers if mapping(each, "state", "running") or mapping(each, "state", "terminated")]
    starts = [
        time_of(mapping(each, "state", how), "startedAt") for each in containers for how in ("running", "terminated")
    ]
    about = [mapping(value, "metadata", "annotations"), mapping(value, "metadata", "labels")]
    place = tuple(next((str(each[name]) for each in about if name in each), "") for name in _PLACE)
    return Pod(
        text(value, "metadata", "name"),
        text(value, "spec", "nodeName"),
        # A pod that waits for a node may get one at this moment.
        lives=phase not in {"Succeeded", "Failed"},
        begun=bool(running) and waits is None,
        waits=waits or ("Scheduling" if not text(value, "spec", "nodeName") else "Creating", ""),
        end=_end(value, conditions, containers),
        unreachable=unreachable,
        place=place if any(place) else (),
        created_at=time_of(value, "metadata", "creationTimestamp") or _NO_TIME,
        started_at=min((each for each in starts if each is not None), default=None),
        restarts=max((number(each, "restartCount") for each in containers), default=0),
        container=_container(value),
    )


def _container(value: Object) -> str:
    """The name of the training container: the one that the pod names, or else the first."""
    containers = [text(each, "name") for each in listed(value, "spec", "containers")]
    named = text(value, "metadata", "annotations", "kubectl.kubernetes.io/default-container")
    return named if named in containers else next(iter(containers), "")


def _waits(status: Object, conditions: Mapping[str, Object], containers: Sequence[Object]) -> tuple[str, str] | None:
    """Reason and message of a pod that does not run yet, or pauses before a restart. None if nothing holds it."""
    scheduled = conditions.get("PodScheduled")
    if scheduled is not None and text(scheduled, "status") == "False":
        # A scheduling gate means that a queue has not admitted the pod yet.
        return text(scheduled, "reason") or "Unschedulable", text(scheduled, "message")
    found = [
        (each, mapping(each, "state", "waiting")) for each in (*listed(status, "initContainerStatuses"), *containers)
    ]
    waiting = [(each, state) for each, state in found if state]
    for container, state in sorted(waiting, key=lambda each: text(each[1], "reason") in BENIGN):
        word, message = text(state, "reason") or "ContainerCreating", text(state, "message")
        last = mapping(container, "lastState", "terminated")
        if word == "CrashLoopBackOff" and last:
            code = number(last, "exitCode")
            how = text(last, "reason") or "Error"
            message = (
                f"it ended {counted(number(container, 'restartCount'), 'time')}, last as {how}, exit status {code}"
            )
        return word, message
    return None


def _end(value: Object, conditions: Mapping[str, Object], containers: Sequence[Object]) -> JobReport | None:
    """How the pod failed, or is about to: an eviction is announced before the pod is removed."""
    name, status = text(value, "metadata", "name"), mapping(value, "status")
    target = conditions.get("DisruptionTarget", {})
    disrupted = text(target, "reason") if text(target, "status") == "True" else ""
    own, message = text(status, "reason"), text(status, "message")
    first = _first_failed(containers)
    at = time_of(first, "state", "terminated", "finishedAt") or time_of(target, "lastTransitionTime")
    if disrupted in DISRUPTIONS:
        why = _pod_line(name, text(target, "message"))
        return JobReport(DISRUPTIONS[disrupted], disrupted, why, ended_at=at)
    if text(status, "phase") != "Failed":
        return None
    if own:
        ended = _OF_PODS.get(own, JobState.FAILED)
        said = f"Evicted ({_resource(message)})" if own == "Evicted" and _resource(message) else own
        return JobReport(ended, said, _pod_line(name, message), ended_at=at)
    if first is None:
        return JobReport(JobState.FAILED, "Error", f"pod {name} failed, and says no more", ended_at=at)
    state = mapping(first, "state", "terminated")
    why = text(state, "reason")
    # Kubernetes makes up an exit code for a container that it has lost.
    code, signal = (None, None) if why == "ContainerStatusUnknown" else _exit(number(state, "exitCode"))
    which = f"{name}, container {text(first, 'name')}" if len(containers) > 1 else name
    said = "Error" if why in _GENERIC else why
    return JobReport(JobState.FAILED, said, _pod_line(which, text(state, "message")), code, signal, ended_at=at)


def _first_failed(containers: Sequence[Object]) -> Object | None:
    bad = [
        (time_of(state, "finishedAt") or _NO_TIME, number, each)
        for number, each in enumerate(containers)
        if (state := mapping(each, "state", "terminated"))
        and (state.get("exitCode") != 0 or text(state, "reason") == "OOMKilled")
    ]
    return min(bad, key=lambda row: row[:2])[2] if bad else None


def _pod_line(name: str, message: str) -> str:
    return f"pod {name}: {message}" if message else f"pod {name}"


def _resource(message: str) -> str:
    """The resource that ran short on an evicted pod's node, or in the pod."""
    found = re.search(r"low on resource: ([a-z-]{1,40})", message)
    if found is not None:
        return found[1]
    return "limit" if re.search(r"exceeds the (?:total )?limit", message) is not None else ""


def _exit(code: int | None) -> tuple[int | None, int | None]:
    """Exit status, and the number of the signal that ended the container."""
    if code is None:
        return None, None
    return (None, code - 128) if code in _SIGNALS else (code, None)
