"""A small API server behind the fake kubectl: its Jobs run as processes of this machine.

No API server is to be had where these tests run. This one knows ``create``, ``get`` by name and by label, ``patch``,
``delete`` and ``logs``; of a Job it makes pods as the Job controller of Kubernetes 1.31 does, and each pod's container
is a process with a parent of its own, which plays the kubelet. Nothing else of it runs: whoever calls kubectl first
has the controller do what is due. Objects of other kinds (JobSet, PyTorchJob, RayJob) are kept; what becomes of
them is the test's to say.

    FOLDER/objects/NS/RESOURCE/NAME.json    what get answers
    FOLDER/kubelet/UID.exit, .stop, .log    how a pod's process ended; that it is to end; what it wrote
"""

import copy
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support import fake_kubectl
from support.fake_kubectl import Call, FakeCluster, fresh_uid, now
from support.kubectl_program import program

Object = dict[str, Any]
RESOURCES = {
    "Job": "jobs.batch",
    "JobSet": "jobsets.jobset.x-k8s.io",
    "PyTorchJob": "pytorchjobs.kubeflow.org",
    "RayJob": "rayjobs.ray.io",
}
"""Kind → resource of objects that can be created."""
NO_SUCH_IMAGE = "registry.invalid/training:gone"
"""An image that no node can pull."""
_EVENTS = {"PreemptionByScheduler": "Preempted", "DeletionByTaintManager": "TaintManagerEviction"}
"""Why a pod is taken away → the event of which people hear."""
_POLL_S = 0.02
_HERE = f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[1])!r})\nfrom support import fake_kubernetes\n"


class FakeKubernetes(FakeCluster):
    """The cluster as a test has it in its hands."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name in ("objects", "kubelet"):
            (folder / name).mkdir(exist_ok=True)
        self.folder = folder
        self.put("configmap", "kube-root-ca.crt", {"metadata": {"uid": fresh_uid(), "namespace": "default"}})
        (self.bin / "kubectl").write_text(program("kubernetes", folder), encoding="utf-8")

    def objects(self, resource: str = "jobs.batch", namespace: str = "default") -> list[Object]:
        """All of them, oldest first."""
        found = [_read(path) for path in (self.folder / "objects" / namespace / resource).glob("*.json")]
        return sorted(found, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))

    def pods(self, namespace: str = "default") -> list[Object]:
        """The pods of its jobs, oldest first."""
        return self.objects("pods", namespace)

    def everything(self, namespace: str = "default") -> list[Object]:
        """All objects that were created."""
        return [each for resource in RESOURCES.values() for each in self.objects(resource, namespace)]

    def freeze(self, pod: Object, condition: Object) -> None:
        """The pod's node does not answer any more: it hears and ends nothing. ``condition`` is what is known of it."""
        (self.folder / "kubelet" / f"{pod['metadata']['uid']}.frozen").touch()
        self.change(pod, lambda each: each["status"].setdefault("conditions", []).append(condition))

    def has_restarted(self, pod: Object, said: str) -> None:
        """The pod's container was started again; before that it had ``said`` this."""
        (self.folder / "kubelet" / f"{pod['metadata']['uid']}.previous").write_text(said)
        self.change(pod, lambda each: each["status"]["containerStatuses"][0].update(restartCount=1))

    def change(self, found: Object, change: Callable[[Object], object]) -> None:
        """Have an object look otherwise."""
        with self._state.locked():
            server = _Server(self.folder)
            fresh = server.get(_resource(found), _namespace(found), found["metadata"]["name"])
            assert fresh is not None
            change(fresh)
            server.put(_resource(found), fresh)

    def remove(self, found: Object) -> None:
        """Have no such object any more, whatever of it still runs."""
        with self._state.locked():
            _Server(self.folder).remove(found)

    def kill(self, pod: Object, reason: str = "OOMKilled") -> None:
        """The kernel ends the pod's processes."""
        _write(self.folder / "kubelet" / f"{pod['metadata']['uid']}.stop", {"grace": 0, "reason": reason})

    def take_away(self, pod: Object, reason: str = "PreemptionByScheduler", message: str = "") -> None:
        """The pod is deleted, as whoever has ``reason`` does it."""
        with self._state.locked():
            server = _Server(self.folder)
            fresh = server.get("pods", _namespace(pod), pod["metadata"]["name"])
            assert fresh is not None
            fresh["status"].setdefault("conditions", []).append(
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": reason,
                    "message": message,
                    "lastTransitionTime": now(),
                }
            )
            server.end_pod(fresh)
        event = _EVENTS.get(reason)
        if event is not None:
            self.warn(pod["metadata"]["name"], event, message, "Normal", _namespace(pod))

    def warn(self, about: str, reason: str, message: str, kind: str = "Warning", namespace: str = "default") -> None:
        """Have such an event."""
        with self._state.locked():
            event = {
                "metadata": {"name": f"{about}.{fresh_uid()[:8]}", "namespace": namespace},
                "involvedObject": {"name": about},
                "type": kind,
                "reason": reason,
                "message": message,
                "lastTimestamp": now(),
            }
            event["metadata"]["creationTimestamp"] = now()  # type: ignore[index]
            _Server(self.folder).put("events", event)

    def end_all(self) -> None:
        """Nothing of it runs any more."""
        for namespace in (self.folder / "objects").iterdir():
            for pod in self.pods(namespace.name):
                self.kill(pod, "Error")
        deadline = time.monotonic() + 30
        for namespace in (self.folder / "objects").iterdir():
            for pod in self.pods(namespace.name):
                ran = (self.folder / "kubelet" / f"{pod['metadata']['uid']}.begun").exists()
                while ran and _exit_of(self.folder, pod) is None:
                    assert time.monotonic() < deadline, f"{pod['metadata']['name']} does not end"
                    time.sleep(_POLL_S)


class _Server:
    """Its objects. Whoever uses it holds the lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, resource: str, namespace: str, name: str) -> Path:
        return self.folder / "objects" / namespace / resource / f"{name}.json"

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        path = self.path(resource, namespace, name)
        return _read(path) if path.exists() else None

    def all(self, resource: str, namespace: str) -> list[Object]:
        folder = self.folder / "objects" / namespace / resource
        return [_read(path) for path in sorted(folder.glob("*.json"))]

    def put(self, resource: str, value: Object) -> None:
        path = self.path(resource, _namespace(value), value["metadata"]["name"])
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, value)

    def remove(self, value: Object) -> None:
        self.path(_resource(value), _namespace(value), value["metadata"]["name"]).unlink(missing_ok=True)

    # The Job controller.

    def reconcile(self, namespace: str) -> None:
        for pod in self.all("pods", namespace):
            self._see(pod)
        for job in self.all("jobs.batch", namespace):
            self._control(job)
        for pod in self.all("pods", namespace):
            if self.get("jobs.batch", namespace, pod["metadata"]["labels"]["job-name"]) is None:
                self.end_pod(pod)

    def _control(self, job: Object) -> None:
        status = job.setdefault("status", {})
        pods = [each for each in self.all("pods", _namespace(job)) if _owner(each) == job["metadata"]["uid"]]
        active = [each for each in pods if each["status"]["phase"] in {"Pending", "Running"}]
        new = [each for each in pods if each not in active and not each["metadata"].get("lastbeat-counted")]
        for pod in new:
            key = "succeeded" if pod["status"]["phase"] == "Succeeded" else "failed"
            status[key] = status.get(key, 0) + 1
            pod["metadata"]["lastbeat-counted"] = True
            self.put("pods", pod)
            if pod["metadata"].get("deletionTimestamp"):
                # Its finalizer is gone.
                self.remove(pod)
        status["active"] = len(active)
        if job["metadata"].get("deletionTimestamp"):
            for pod in active:
                self.end_pod(pod)
            if not active:
                self.remove(job)
                return
        elif not _condition(job, "Complete") and not _condition(job, "Failed"):
            self._decide(job, active)
        self.put("jobs.batch", job)

    def _decide(self, job: Object, active: list[Object]) -> None:
        spec, status = job["spec"], job["status"]
        wanted = spec.get("completions", 1)
        if _condition(job, "FailureTarget"):
            if not active:
                failed = _condition(job, "FailureTarget")
                _set(job, "Failed", failed["reason"], failed["message"])
        elif spec.get("suspend"):
            for pod in active:
                self.end_pod(pod)
            _set(job, "Suspended", "JobSuspended", "Job suspended")
        elif status.get("succeeded", 0) >= wanted and not active:
            status["completionTime"] = now()
            _set(job, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        elif status.get("failed", 0) > spec.get("backoffLimit", 6):
            _set(job, "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
            for pod in active:
                self.end_pod(pod)
            self._decide(job, active)
        else:
            status.setdefault("startTime", now())
            for _ in range(min(spec.get("parallelism", 1), wanted - status.get("succeeded", 0)) - len(active)):
                self._begin_pod(job)

    def _begin_pod(self, job: Object) -> None:
        template = copy.deepcopy(job["spec"]["template"])
        name = f"{job['metadata']['name']}-{fresh_uid()[:5]}"
        labels = {
            **template.get("metadata", {}).get("labels", {}),
            "batch.kubernetes.io/job-name": job["metadata"]["name"],
            "job-name": job["metadata"]["name"],
            "controller-uid": job["metadata"]["uid"],
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **template.get("metadata", {}),
                "name": name,
                "namespace": _namespace(job),
                "uid": fresh_uid(),
                "creationTimestamp": now(),
                "labels": labels,
            },
            "spec": template["spec"],
            "status": {"phase": "Pending"},
        }
        container = template["spec"]["containers"][0]
        pod["spec"]["nodeName"] = "node-7"
        waiting = {"reason": "ContainerCreating"}
        if container["image"] == NO_SUCH_IMAGE:
            waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{NO_SUCH_IMAGE}"'}
        pod["status"]["containerStatuses"] = [
            {"name": container["name"], "restartCount": 0, "ready": False, "state": {"waiting": waiting}}
        ]
        self.put("pods", pod)
        if container["image"] != NO_SUCH_IMAGE:
            _start_kubelet(self.folder, pod)

    def _see(self, pod: Object) -> None:
        """What the kubelet tells of the pod."""
        uid, status = pod["metadata"]["uid"], pod["status"]
        begun, ended = self.folder / "kubelet" / f"{uid}.begun", _exit_of(self.folder, pod)
        if status["phase"] in {"Succeeded", "Failed"}:
            return
        if ended is not None:
            code = ended["code"]
            status["phase"] = "Succeeded" if code == 0 else "Failed"
            state = {
                "exitCode": code,
                "reason": ended.get("reason") or ("Completed" if code == 0 else "Error"),
                "startedAt": ended["started"],
                "finishedAt": ended["at"],
            }
            status["containerStatuses"][0]["state"] = {"terminated": state}
        elif begun.exists():
            status["phase"] = "Running"
            status["containerStatuses"][0] |= {"ready": True, "state": {"running": {"startedAt": begun.read_text()}}}
        elif pod["metadata"].get("deletionTimestamp"):
            # It never began, so nothing has to end.
            status["phase"] = "Failed"
        self.put("pods", pod)

    def end_pod(self, pod: Object) -> None:
        """Delete the pod: its processes are told to end, and killed after its grace."""
        if pod["status"]["phase"] in {"Succeeded", "Failed"}:
            self.remove(pod)
            return
        if not pod["metadata"].get("deletionTimestamp"):
            pod["metadata"]["deletionTimestamp"] = now()
            grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
            _write(self.folder / "kubelet" / f"{pod['metadata']['uid']}.stop", {"grace": grace})
        self.put("pods", pod)


# kubectl.


def _create(state: Any, call: Call) -> int:
    value = json.loads(sys.stdin.read())
    server, resource, name = _Server(state.folder), RESOURCES[value["kind"]], value["metadata"]["name"]
    with state.locked():
        if server.get(resource, call.namespace, name) is not None:
            said = f'{resource} "{name}" already exists'
            return _failed(f'Error from server (AlreadyExists): error when creating "STDIN": {said}')
        value["metadata"] |= {"namespace": call.namespace, "uid": fresh_uid(), "creationTimestamp": now()}
        server.put(resource, value)
        server.reconcile(call.namespace)
    sys.stdout.write(f"{resource}/{name}\n")
    return 0


def _get(state: Any, call: Call) -> int:
    resource = {"pod": "pods", "job": "jobs.batch", "event": "events"}.get(call.words[1], call.words[1])
    if "said" in (trouble := state.trouble(f"get {resource}")):
        return _failed(trouble["said"])
    if resource == "configmap":
        return _get_other(state, call)
    with state.locked():
        server = _Server(state.folder)
        server.reconcile(call.namespace)
        if len(call.words) > 2:
            found = server.get(resource, call.namespace, call.words[2])
            if found is None:
                return _failed(f'Error from server (NotFound): {resource} "{call.words[2]}" not found')
            sys.stdout.write(json.dumps(found))
            return 0
        items = [each for each in server.all(resource, call.namespace) if _selected(each, call)]
    sys.stdout.write(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return 0


def _selected(value: Object, call: Call) -> bool:
    for option in call.options:
        name, _, said = option.partition("=")
        for one in re.split(r",(?![^(]*\))", said):
            key, _, wanted = one.partition("=")
            if name == "--selector" and not _has_label(value["metadata"].get("labels", {}), one):
                return False
            if name == "--field-selector":
                found: Any = value
                for part in key.split("."):
                    found = found.get(part, {})
                if found != wanted:
                    return False
    return True


def _has_label(labels: Object, selector: str) -> bool:
    """Whether the labels are as ``KEY=VALUE``, ``KEY in (VALUE,VALUE)`` or ``KEY`` says."""
    key, several, values = selector.partition(" in ")
    if several:
        return labels.get(key) in values.strip("()").split(",")
    key, one, value = selector.partition("=")
    return labels.get(key) == value if one else key in labels


def _patch(state: Any, call: Call) -> int:
    patch = json.loads(next(each for each in call.options if each.startswith("--patch="))[8:])
    assert "--type=merge" in call.options
    with state.locked():
        server = _Server(state.folder)
        found = server.get(call.words[1], call.namespace, call.words[2])
        if found is None:
            return _failed(f'Error from server (NotFound): {call.words[1]} "{call.words[2]}" not found')
        server.put(call.words[1], _merged(found, patch))
        server.reconcile(call.namespace)
    sys.stdout.write(f"{call.words[1]}/{call.words[2]} patched\n")
    return 0


def _merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    value = dict(value) if isinstance(value, dict) else {}
    for key, each in patch.items():
        value[key] = _merged(value.get(key), each)
    return value


def _delete(state: Any, call: Call) -> int:
    with state.locked():
        server = _Server(state.folder)
        found = server.get(call.words[1], call.namespace, call.words[2])
        if found is None:
            return _failed(f'Error from server (NotFound): {call.words[1]} "{call.words[2]}" not found')
        found["metadata"]["deletionTimestamp"] = now()
        server.put(call.words[1], found)
        server.reconcile(call.namespace)
    return 0


def _logs(state: Any, call: Call) -> int:
    options = dict(each.partition("=")[::2] for each in call.options)
    with state.locked():
        server = _Server(state.folder)
        if "--selector" in options:
            pods = [each for each in server.all("pods", call.namespace) if _selected(each, call)]
        else:
            pod = server.get("pods", call.namespace, call.words[1])
            if pod is None:
                return _failed(f'Error from server (NotFound): pods "{call.words[1]}" not found')
            pods = [pod]
    for pod in pods:
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]
        which = "previous" if "--previous" in options else "log"
        path = state.folder / "kubelet" / f"{pod['metadata']['uid']}.{which}"
        if not path.exists():
            if "--ignore-errors" in options:
                continue
            why = f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating'
            return _failed(f"Error from server (BadRequest): {why}")
        # A line ends with \n alone.
        lines = list(io.BytesIO(path.read_bytes()))
        said = b"".join(lines[-int(options["--tail"]) :])[: int(options["--limit-bytes"])]
        prefix = f"[pod/{name}/{container}] ".encode() if "--prefix" in options else b""
        for line in io.BytesIO(said):
            sys.stdout.buffer.write(prefix + line)
    sys.stdout.flush()
    return 0


_get_other = fake_kubectl.VERBS["get"]
VERBS: dict[str, Callable[[Any, Call], int]] = {
    "create": _create,
    "get": _get,
    "patch": _patch,
    "delete": _delete,
    "logs": _logs,
}


def main(folder: str, arguments: Sequence[str]) -> int:
    """One call of kubectl."""
    fake_kubectl.VERBS.update(VERBS)
    return fake_kubectl.main(folder, arguments)


# The kubelet.


def _start_kubelet(folder: Path, pod: Object) -> None:
    _write(folder / "kubelet" / f"{pod['metadata']['uid']}.pod", pod)
    subprocess.Popen(
        [sys.executable, "-IS", "-c", f"{_HERE}fake_kubernetes.keep({str(folder)!r}, {pod['metadata']['uid']!r})"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )


def keep(place: str, uid: str) -> None:
    """Run the pod's container, and say how it ended. Its processes are one session."""
    here = Path(place) / "kubelet"
    pod = _read(here / f"{uid}.pod")
    container = pod["spec"]["containers"][0]
    stop = here / f"{uid}.stop"
    variables: dict[str, str] = {}
    for each in container.get("env", []):
        variables[each["name"]] = _expanded(each.get("value", ""), variables)
    command = [_expanded(each, variables) for each in (*container.get("command", []), *container.get("args", []))]
    home = here / f"{uid}.home"
    home.mkdir()
    started = now()
    path = os.pathsep.join((str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"))
    with (here / f"{uid}.log").open("wb") as output:
        process = subprocess.Popen(
            command,
            env={"PATH": path, "HOSTNAME": pod["metadata"]["name"], **variables},
            cwd=container.get("workingDir", home),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    (here / f"{uid}.begun").write_text(started)
    killed_at, reason = None, None
    while process.poll() is None:
        frozen = (here / f"{uid}.frozen").exists() and _read(stop).get("reason") is None if stop.exists() else False
        if frozen:
            time.sleep(_POLL_S)
            continue
        if killed_at is None and stop.exists():
            asked = _read(stop)
            reason = asked.get("reason")
            killed_at = time.monotonic() + asked["grace"]
            if asked["grace"] > 0:
                process.send_signal(signal.SIGTERM)
        if stop.exists() and _read(stop)["grace"] == 0:
            killed_at, reason = 0.0, _read(stop).get("reason")
        if killed_at is not None and time.monotonic() >= killed_at:
            _kill(process.pid)
        time.sleep(_POLL_S)
    # With its first process a container ends as a whole.
    _kill(process.pid)
    code = process.returncode
    end = {"code": code if code >= 0 else 128 - code, "reason": reason, "started": started, "at": now()}
    _write(here / f"{uid}.exit", end)


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _expanded(text: str, variables: dict[str, str]) -> str:
    """``$(NAME)`` replaced where there is such a variable, ``$$`` a dollar."""

    def one(found: "re.Match[str]") -> str:
        if found[0] == "$$":
            return "$"
        return variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)", one, text)


# Small things.


def _resource(value: Object) -> str:
    return {**RESOURCES, "Pod": "pods"}[value["kind"]]


def _namespace(value: Object) -> str:
    return str(value["metadata"]["namespace"])


def _owner(pod: Object) -> object:
    return pod["metadata"]["labels"]["controller-uid"]


def _condition(value: Object, name: str) -> Object:
    found = value.get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == name and each["status"] == "True"), {})


def _set(value: Object, name: str, reason: str, message: str) -> None:
    if not _condition(value, name):
        value["status"].setdefault("conditions", []).append(
            {"type": name, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now()}
        )


def _exit_of(folder: Path, pod: Object) -> Object | None:
    path = folder / "kubelet" / f"{pod['metadata']['uid']}.exit"
    return _read(path) if path.exists() else None


def _failed(said: str) -> int:
    sys.stderr.write(said + "\n")
    return 1


def _read(path: Path) -> Object:
    found: Object = json.loads(path.read_text(encoding="utf-8"))
    return found


def _write(path: Path, value: Object) -> None:
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.write_text(json.dumps(value), encoding="utf-8")
    fresh.replace(path)
