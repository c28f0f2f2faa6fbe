"""Jobs of Kubernetes, through kubectl: a Job, JobSet, PyTorchJob or RayJob for each start of a run.

    submit ──► kubectl create: an object whose name derives from (name, since), so it is created only once;
               its labels let any watcher find it
    state  ◄── the object first, then its pods: so "no more pods will come" is read before the empty list of pods
    cancel ──► suspended and marked: the object stays as a record, and its pods are ended

A queue (Kueue) would start a suspended object again. There the object is deleted, and only the process that deleted it
remembers that.
"""

import io
import json
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

import yaml

from lastbeat.jobs.launchers.asking import Answer
from lastbeat.jobs.launchers.kubectl import AbsentError, Kubectl, check_label, check_name, fault
from lastbeat.jobs.launchers.kubernetes import manifests, reports
from lastbeat.jobs.launchers.kubernetes.kinds import JOB, KINDS, RAYJOB, Kind, Object, listed, mapping, text
from lastbeat.jobs.launchers.kubernetes.reports import Pod
from lastbeat.jobs.launchers.port import (
    JobPreview,
    JobRefusedError,
    Launcher,
    LauncherError,
    NotLaunchedError,
    TooLongError,
)
from lastbeat.model.job import AdoptedJob, JobReport, JobSpec, JobState
from lastbeat.model.json_values import json_object
from lastbeat.model.text import one_line

log = logging.getLogger(__name__)

CALL_S: Final = 15.0
"""Time limit of one call, s."""
_CALLS: Final = 6
"""Most calls of kubectl that one call of the launcher makes."""
FEW: Final = 2
"""Up to this number, jobs are asked about each by itself."""
_ASKED_AT_ONCE: Final = 100
"""Jobs whose pods one list is asked for: some 5 KB of the request's address."""
_OPTIONS: Final = ("--namespace", "--context")
_MOST_LISTED: Final = 32 << 20
"""Most bytes read of a list of pods: some thousand pods."""
_MOST_REMEMBERED: Final = 256
_MOST_LOGS: Final = 64
"""Most pods whose logs are read."""
_SHORT_LINE: Final = 100
"""Assumed length of a short log line in bytes, and the least number of lines to ask for."""
_LEAST_LIMIT: Final = 1 << 16
_LONGEST_PREFIX: Final = 200
"""Most bytes of a line's prefix ``[pod/NAME/CONTAINER] `` with our names."""
_CLUSTER_MARK: Final = "kube-root-ca.crt"
"""A ConfigMap that every namespace has. Its uid identifies the namespace and the cluster."""
_QUEUE: Final = "kueue.x-k8s.io/queue-name"
_ID: Final = re.compile(r"([a-z]{1,20})/([a-z0-9][a-z0-9.-]{0,252})")
_ALIASES: Final = {
    "jobs": "job", "job.batch": "job", "jobs.batch": "job", "jobsets": "jobset", "pytorchjobs": "pytorchjob",
    "rayjobs": "rayjob",
}  # fmt: skip
_NO_SUCH_KIND: Final = ("doesn't have a resource type",)
_UNCHECKED: Final = "failed to download openapi"
"""kubectl could not fetch the schema for checking a manifest. The same line also says "error validating"."""
_JUDGED: Final = (
    "denied the request", "(Forbidden)", "(Invalid)", " is invalid:", "(BadRequest)", "(NotFound)",
    "(MethodNotAllowed)", "(NotAcceptable)", "(UnsupportedMediaType)", "(RequestEntityTooLarge)",
    "request is too large", "error validating", "error parsing", "no matches for kind", "does not match the namespace",
)  # fmt: skip
"""The server or kubectl has checked the manifest and refuses it, whatever else the message says."""
_NOT_CONNECTED: Final = (
    "dial tcp", "TLS handshake timeout", "connection refused", "no such host", "no route to host",
    "network is unreachable", "was refused - did you specify", "x509:", "Unauthorized", "must be logged in",
    "getting credentials", "context was not found", "no context exists", 'error: context "',
    "no configuration has been provided", "current-context must exist", "error loading config file",
)  # fmt: skip
"""kubectl's own errors before it sends anything: the call may be repeated."""
_ASIDE: Final = re.compile(r"^(?:[IWEF]\d{4} |Warning: ).*$", re.MULTILINE)
"""Lines of kubectl's log and warnings of the server. They do not say how the call ended."""
_OF_SERVER: Final = "Error from server"
_TURNED_AWAY: Final = ("(TooManyRequests)", "(ServiceUnavailable)", "failed calling webhook")
"""Errors that the server gives before it creates anything."""
_QUOTA: Final = "exceeded quota"
_LOG_NOT_THERE: Final = (
    "is waiting to start",
    "not found",
    "PodInitializing",
    "ContainerCreating",
    "trying and failing",
)


def launcher(state: Path, options: Sequence[str] = (), place: str = "") -> "KubernetesLauncher":
    """The launcher of the namespace and context that ``options`` name, or of kubectl's own."""
    said = dict(_option(each) for each in options)
    return KubernetesLauncher(Kubectl(said.get("--namespace", ""), said.get("--context", ""), CALL_S), place)


def adoption(job: str, options: Sequence[str] = ()) -> AdoptedJob:
    """What is known of an object, by ``KIND/NAME`` or the name of a Job. A restart uses the API server's copy."""
    kind, name = _named(job)
    asking = launcher(Path(), options)
    value = asking.object(kind, name)
    if value is None:
        raise JobRefusedError(f"there is no {kind.word} {name}", f"kubectl get {kind.resource} lists them")
    report = asking.state(f"{kind.name}/{name}")
    if report.state is JobState.UNKNOWN:
        raise LauncherError(f"{job}: {report.reason}")
    if report.state.ended:
        raise JobRefusedError(f"{job} has ended already ({report.said})", "begin the run with its manifest")
    return AdoptedJob(
        f"{kind.name}/{name}", report.started_at, script=manifests.manifest_text(manifests.exported(value))
    )


def preview(spec: JobSpec, name: str, now: datetime) -> JobPreview:
    """The object that would be created from the manifest. ``now`` determines the end of its name."""
    if not spec.manifest:
        return JobPreview()
    made = manifests.rendered(spec, name, now)
    shown = yaml.safe_dump(made, sort_keys=False, allow_unicode=True, width=120).splitlines()
    # As text, because a supervision file limits how deeply it nests.
    return JobPreview({"manifest": json.dumps(made)}, ("kubectl create -f - <<'EOF'", *shown, "EOF"))


class KubernetesLauncher(Launcher):
    """Creates objects, and queries them and their pods."""

    kind = "kubernetes"
    limit_s = _CALLS * CALL_S

    def __init__(
        self,
        kubectl: Kubectl,
        place: str = "",
        *,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        """``place`` is where its jobs are; jobs anywhere else are unknown. Empty for the place that kubectl is set up
        for at the first call."""
        self._kubectl = kubectl
        self._place = place
        self._compared = False
        self._now = now
        self._lost: dict[str, dict[str, Pod]] = {}
        """Job → its pods that failed or were evicted. The cluster soon removes them, and the reason with them."""
        self._deleted: dict[str, datetime] = {}
        """Jobs that this process deleted → when."""

    def place(self) -> str:
        try:
            mark = self._kubectl.json(["get", "configmap", _CLUSTER_MARK])
        except LauncherError as error:
            # Settle this only on an answer. After a failed call, a later one may still read the mark.
            answered = isinstance(error, AbsentError) or "(Forbidden)" in str(error)
            server = self._server() if answered else None
            if server is None:
                raise
            log.info("the cluster is known by its address: %s", error)
            return server
        uid, namespace = text(mark, "metadata", "uid"), text(mark, "metadata", "namespace")
        if not uid:
            raise LauncherError("the cluster does not say which one it is")
        return f"namespace {namespace} of the cluster with {_CLUSTER_MARK} {uid}"

    def submit(self, spec: JobSpec, name: str, since: datetime) -> str:
        try:
            self._check_place()
        except JobRefusedError:
            raise
        except LauncherError as error:
            raise NotLaunchedError(str(error), error.advice) from None
        made = manifests.rendered(spec, name, since)
        its = manifests.namespace(made)
        if its and its != self._kubectl.namespace:
            told = self._kubectl.namespace or "kubectl's own"
            raise JobRefusedError(
                f"the manifest is for namespace {its}, and this launcher for {told}", f"give --namespace {its}"
            )
        kind = manifests.read(spec.manifest)[1]
        job = f"{kind.name}/{made['metadata']['name']}"
        answer = self._kubectl.run(["create", "--filename=-", "--output=name"], stdin=json.dumps(made))
        if answer.code == 0 or answer.says(("(AlreadyExists)",)):
            # An object of this name belongs to the same job and the same start.
            return job
        raise _refusal(self._kubectl, answer)

    def find(self, name: str, since: datetime) -> str | None:
        self._check_place()
        # Kubernetes' timestamps have whole seconds.
        earliest = since.replace(microsecond=0)
        found: list[tuple[datetime, str]] = []
        for kind in KINDS.values():
            for each in self._listed(kind.resource, f"--selector={manifests.NAME}={manifests.label(name)}"):
                created = reports.time_of(each, "metadata", "creationTimestamp")
                its = mapping(each, "metadata", "annotations").get(manifests.NAME)
                if its == name and created is not None and created >= earliest:
                    found.append((created, f"{kind.name}/{text(each, 'metadata', 'name')}"))
        return max(found)[1] if found else None

    def state(self, job: str) -> JobReport:
        try:
            kind, name = _named(job)
        except JobRefusedError as error:
            return JobReport(JobState.GONE, reason=str(error))
        try:
            if not self._compared:
                self._check_place()
            report, pods = self._look(kind, name)
            if report.state is JobState.GONE:
                # Another cluster would lack the object, too.
                self._check_place()
            if reports.unexplained(report):
                for reason in reports.EVENTS:
                    report = reports.with_disruption(report, self._events(f"reason={reason}"), name)
            elif reports.needs_word(report):
                about = next((pod.name for pod in pods if pod.lives and not pod.begun), name)
                report = reports.with_warning(report, self._events(f"involvedObject.name={about},type=Warning"))
        except LauncherError as error:
            return JobReport(JobState.UNKNOWN, reason=error.told)
        if report.state is JobState.GONE and job in self._deleted:
            at = self._deleted[job]
            return JobReport(JobState.CANCELLED, "deleted", "its end was asked for, and it was deleted", ended_at=at)
        return report

    def states(self, jobs: Collection[str]) -> Mapping[str, JobReport]:
        """As the port says, by one list of the objects of each kind, and one of the pods of some hundred jobs. Leaves
        out objects that lastbeat did not create, jobs of which events tell more, and a few jobs altogether."""
        if len(jobs) <= FEW:
            return {}
        try:
            if not self._compared:
                self._check_place()
            found = self._objects(jobs)
            pods = self._pods_of_all(found)
        except TooLongError as error:
            log.info("each job is asked about by itself: %s", error)
            return {}
        except LauncherError as error:
            return dict.fromkeys(jobs, JobReport(JobState.UNKNOWN, reason=error.told))
        told = {job: self._report(*found[job], pods[job]) for job in found}
        return {job: each for job, each in told.items() if not (reports.unexplained(each) or reports.needs_word(each))}

    def _objects(self, jobs: Collection[str]) -> dict[str, tuple[Kind, str, Object]]:
        """Job → its kind, name and object, of those that have our label."""
        named: dict[str, tuple[Kind, str]] = {}
        for job in jobs:
            with suppress(JobRefusedError):
                named[job] = _named(job)
        objects = {
            (kind.name, text(each, "metadata", "name")): each
            for kind in KINDS.values()
            if any(kind is its for its, _ in named.values())
            for each in self._listed(kind.resource, f"--selector={manifests.NAME}")
        }
        return {
            job: (kind, name, objects[kind.name, name])
            for job, (kind, name) in named.items()
            if (kind.name, name) in objects
        }

    def _pods_of_all(self, found: Mapping[str, tuple[Kind, str, Object]]) -> dict[str, list[Pod]]:
        """Job → its pods."""
        selectors = {job: kind.selectors(value, name) for job, (kind, name, value) in found.items()}
        wanted: dict[str, list[str]] = {}
        for label, value in (each.split("=", 1) for several in selectors.values() for each in several):
            wanted.setdefault(label, []).append(value)
        documents: dict[str, list[Object]] = {}
        for label, values in wanted.items():
            for start in range(0, len(values), _ASKED_AT_ONCE):
                some = ",".join(values[start : start + _ASKED_AT_ONCE])
                for each in self._listed("pods", f"--selector={label} in ({some})"):
                    documents.setdefault(f"{label}={text(each, 'metadata', 'labels', label)}", []).append(each)
        return {
            job: reports.pods_of([each for one in several for each in documents.get(one, ())])
            for job, several in selectors.items()
        }

    def output(self, job: str, most: int) -> bytes | None:
        kind, name = _named(job)
        value = self.object(kind, name)
        # The output of a RayJob is in the pod that submitted it.
        selectors = kind.selectors(value or {}, name)[:1] if kind is RAYJOB else kind.selectors(value or {}, name)
        pods = self._pods(selectors)
        if not pods:
            return b""
        if len(pods) == 1:
            return self._log_of(pods[0], most)
        return self._logs_of(pods, selectors[0], most)

    def cancel(self, job: str) -> None:
        try:
            kind, name = _named(job)
        except JobRefusedError:
            return
        self._check_place()
        value = self.object(kind, name)
        if value is None:
            return
        pods = self._pods(kind.selectors(value, name))
        if reports.report(kind, value, pods).state.ended:
            return
        if manifests.CANCELLED in mapping(value, "metadata", "annotations") or text(
            value, "metadata", "deletionTimestamp"
        ):
            if why := reports.stuck(pods):
                raise LauncherError(why)
            return
        if text(value, "metadata", "labels", _QUEUE):
            self._deleted[job] = self._now()
            answer = self._kubectl.run(["delete", kind.resource, name, "--cascade=foreground", "--wait=false"])
        else:
            patch = json.dumps(_cancelling(kind, self._now()))
            answer = self._kubectl.run(["patch", kind.resource, name, "--type=merge", f"--patch={patch}"])
        if answer.code != 0 and not answer.says(("(NotFound)",)):
            self._deleted.pop(job, None)
            raise self._kubectl.unanswered(answer)

    def object(self, kind: Kind, name: str) -> Object | None:
        """The API server's object, or None if it certainly does not exist. Raises :class:`LauncherError`."""
        try:
            return self._kubectl.json(["get", kind.resource, name], most=_MOST_LISTED)
        except AbsentError:
            return None

    def _look(self, kind: Kind, name: str) -> tuple[JobReport, list[Pod]]:
        value = self.object(kind, name)
        pods = self._pods(kind.selectors(value or {}, name))
        return self._report(kind, name, value, pods), pods

    def _report(self, kind: Kind, name: str, value: Object | None, pods: Sequence[Pod]) -> JobReport:
        """The report of a job, with its pods that failed earlier."""
        lost = self._lost.pop(name, {})
        lost |= {pod.name: pod for pod in pods if pod.end is not None}
        if lost:
            self._lost[name] = dict(list(lost.items())[-_MOST_REMEMBERED:])
            self._lost = dict(list(self._lost.items())[-_MOST_REMEMBERED:])
        here = {pod.name for pod in pods}
        gone = [reports.gone(pod) for pod in lost.values() if pod.name not in here]
        return reports.report(kind, value, sorted([*pods, *gone], key=lambda pod: (pod.created_at, pod.name)))

    def _pods(self, selectors: Sequence[str]) -> list[Pod]:
        return reports.pods_of([each for one in selectors for each in self._listed("pods", f"--selector={one}")])

    def _events(self, which: str) -> list[Object]:
        """The events that ``which`` selects. Empty if they cannot be read, because they only add detail."""
        try:
            return self._listed("events", f"--field-selector={which}")
        except LauncherError as error:
            log.info("events cannot be had: %s", error.told)
            return []

    def _listed(self, resource: str, which: str) -> list[Object]:
        answer = self._kubectl.run(["get", resource, which, "--output=json"], most=_MOST_LISTED)
        if answer.code != 0:
            if answer.says(_NO_SUCH_KIND):
                # The kind's operator is not installed, so no object of it exists.
                return []
            raise self._kubectl.unanswered(answer)
        found = json_object(answer.out) or {}
        if not isinstance(found.get("items"), list):
            raise LauncherError(f"kubectl's answer is no list of {resource}")
        return listed(found, "items")

    def _log_of(self, pod: Pod, most: int) -> bytes:
        """The end of one pod's log, or of the previous container's if a restarted one has printed nothing yet."""
        which = [check_name("pod", pod.name)]
        if pod.container:
            which.append(f"--container={check_label('container', pod.container)}")
        said = b"".join(self._tails(which, most).values())
        if not said and pod.restarts > 0:
            said = b"".join(self._tails([*which, "--previous"], most).values())
        return _end_of(said, most)

    def _logs_of(self, pods: Sequence[Pod], selector: str, most: int) -> bytes:
        """The ends of several pods' logs, each line with its pod's name. Each log gets an equal share of ``most``."""
        share = most // min(len(pods), _MOST_LOGS)
        which = [f"--selector={selector}", "--prefix", "--ignore-errors", f"--max-log-requests={len(pods)}"]
        said = self._tails(which, share, len(pods))
        return b"".join(_end_of(each, share) for each in list(said.values())[:_MOST_LOGS])

    def _tails(self, which: Sequence[str], most: int, logs: int = 1) -> dict[bytes, bytes]:
        """Prefix → the last lines of that log, about ``most`` bytes of each.

        A limit on bytes would cut off the end of the log. Instead, it asks for fewer lines until they fit.
        """
        lines, limit = max(_SHORT_LINE, most // _SHORT_LINE), max(2 * most, _LEAST_LIMIT)
        while True:
            asked = ["logs", *which, f"--tail={lines}", f"--limit-bytes={limit}"]
            answer = self._kubectl.run(asked, most=logs * (limit + lines * _LONGEST_PREFIX))
            if answer.code != 0:
                if answer.says(_LOG_NOT_THERE):
                    return {}
                raise self._kubectl.unanswered(answer)
            said: dict[bytes, bytes] = {}
            for line in io.BytesIO(answer.out.encode("utf-8", "replace")):
                prefix = line.partition(b" ")[0] if logs > 1 else b""
                said[prefix] = said.get(prefix, b"") + line
            if lines == 1 or all(len(each) < limit for each in said.values()):
                return said
            lines = max(1, lines // 8)

    def _server(self) -> str | None:
        """The cluster's address and the namespace from kubectl's settings, or None without settings, as in a pod."""
        try:
            server, namespace = self._kubectl.settings()
        except LauncherError:
            return None
        server = re.sub(r"//[^/@]*@", "//", text(server))
        return f"namespace {text(namespace)} of {server}" if server else None

    def _check_place(self) -> None:
        """Raises :class:`LauncherError` if kubectl is set up for another cluster or namespace than that of the jobs.
        There, they would seem to be gone."""
        # The user may point kubectl at another cluster at any time.
        here = self.place()
        if not self._place:
            self._place = here
        # The user that began the run may not have been allowed to read the mark.
        if here != self._place and self._server() != self._place:
            raise LauncherError(
                f"its jobs are in {self._place}, and this is {here}",
                "go on with it there, or name it by --at context=…",
            )
        self._compared = True


def _option(given: str) -> tuple[str, str]:
    name, _, said = given.partition("=")
    if name not in _OPTIONS:
        raise JobRefusedError(
            f"{one_line(given)[:60]!r} is no option of the launcher kubernetes",
            "it takes --namespace and --context; all else stands in the manifest",
        )
    return name, said


def _named(job: str) -> tuple[Kind, str]:
    """The kind and name in ``job``: ``KIND/NAME``, or the name of a Job. Raises :class:`JobRefusedError`."""
    kind, _, name = job.rpartition("/")
    found = KINDS.get(_ALIASES.get(kind, kind)) if kind else JOB
    if found is None or _ID.fullmatch(f"x/{name}") is None:
        raise JobRefusedError(
            f"{one_line(job)[:60]!r} is no job of Kubernetes", f"it is KIND/NAME, where KIND is {', '.join(KINDS)}"
        )
    return found, name


def _cancelling(kind: Kind, now: datetime) -> Object:
    """The patch that ends an object."""
    held: object = True
    for name in reversed(kind.suspend):
        held = {name: held}
    patch: Object = dict(held) if isinstance(held, dict) else {}
    patch["metadata"] = {"annotations": {manifests.CANCELLED: now.isoformat(timespec="seconds")}}
    if kind is RAYJOB:
        # KubeRay suspends only objects with this field.
        patch["spec"]["shutdownAfterJobFinishes"] = True
    return patch


def _refusal(kubectl: Kubectl, answer: Answer) -> LauncherError:
    """The error for a failed create. Its type says whether the object may exist, and whether to try again."""
    told = kubectl.unanswered(answer)
    answer = replace(answer, err=_ASIDE.sub("", answer.err))
    if _QUOTA in answer.err:
        return NotLaunchedError(
            fault(answer), "kubectl describe resourcequota shows what is used: end another job, or ask for less"
        )
    if not answer.says(_JUDGED) or _UNCHECKED in answer.err:
        # A server also reports failed connections to its own store. By then, the object may have been created.
        if answer.says(_TURNED_AWAY if _OF_SERVER in answer.err else (_UNCHECKED, *_NOT_CONNECTED)):
            return NotLaunchedError(str(told), told.advice)
        return LauncherError(str(told), told.advice)
    if "no matches for kind" in answer.err:
        return JobRefusedError(fault(answer), "the operator of such objects is not installed in this cluster")
    advice = told.advice if "(Forbidden)" in answer.err else ""
    return JobRefusedError(
        str(told), advice or "kubectl create --dry-run=server -f with the same manifest says the same"
    )


def _end_of(said: bytes, most: int) -> bytes:
    """The last whole lines, ``most`` bytes at most."""
    if len(said) <= most:
        return said
    end = said[len(said) - most :]
    # If the byte before the window ends a line, the first line is whole.
    return end if said[len(said) - most - 1 : len(said) - most] == b"\n" else end.partition(b"\n")[2]
