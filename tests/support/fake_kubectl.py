"""A ``kubectl`` without a cluster: a program on PATH that runs what ``exec`` says in a process of this machine.

No API server is to be had where these tests run. What this one answers comes out of a folder, which a test fills:

    FOLDER/bin/kubectl            the program, for PATH
    FOLDER/pods/NS/POD.json       pods, as the API shows them
    FOLDER/homes/UID/             what a pod has for HOME, TMPDIR and the folder in which its commands begin; bin/ in it
                                  comes first on its PATH
    FOLDER/answers/NS/KIND.json   other objects of a namespace by their names, for ``get``
    FOLDER/troubles.json          what is to go wrong, and how often
    FOLDER/server                 the address of the cluster that it talks to, where that is another one
    FOLDER/calls.jsonl            the arguments of every call

What it prints when it fails is what real ones print: FAULTS has the texts, of kubectl 1.32 against a small HTTP server
that answered as an API server does, and of public reports of older versions.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from support.kubectl_program import program

FAULTS = {
    "refused": "The connection to the server 10.1.2.3:6443 was refused - did you specify the right host or port?",
    "not set up": "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
    "no context": "error: current-context must exist in order to minify",
    "other context": "Error in configuration: context was not found for specified context: west",
    "unauthorized": "error: You must be logged in to the server (Unauthorized)",
    "no plugin": "Unable to connect to the server: getting credentials: exec: executable aws not found",
    "tls timeout": "Unable to connect to the server: net/http: TLS handshake timeout",
    "no such host": "Unable to connect to the server: dial tcp: lookup k8s.invalid on 10.0.0.2:53: no such host",
    "certificate": "Unable to connect to the server: tls: failed to verify certificate: x509: certificate signed by "
    "unknown authority",
    "busy": "Error from server (TooManyRequests): the server has received too many requests and has asked us to try "
    "again later",
    "forbidden": 'Error from server (Forbidden): pods "ray-head" is forbidden: User "bob" cannot create resource '
    '"pods/exec" in API group "" in the namespace "ml"',
    "dial": "Error from server: error dialing backend: dial tcp 10.0.0.4:10250: connect: connection refused",
    "upgrade": "error: unable to upgrade connection: Forbidden (user=kube-apiserver, verb=create, resource=nodes)",
    "no container": 'error: unable to upgrade connection: container not found ("ray-head")',
}
_MEMCACHE = (
    'E1123 02:11:10.014964    5133 memcache.go:265] "Unhandled Error" err="couldn\'t get current server API group list"'
)
"""Before its last word, kubectl says this several times where there is no connection."""
_LATER_S = 3600.0


class FakeCluster:
    """The cluster as a test has it in its hands."""

    def __init__(self, folder: Path) -> None:
        self._state = _State(folder)
        self.bin = folder / "bin"
        for name in ("bin", "pods", "homes", "answers"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        kubectl = self.bin / "kubectl"
        kubectl.write_text(program("pods", folder), encoding="utf-8")
        kubectl.chmod(0o755)

    @property
    def path(self) -> str:
        """A PATH on which its kubectl comes first."""
        return f"{self.bin}:{os.environ['PATH']}"

    def add_pod(
        self, name: str, namespace: str = "default", containers: Sequence[str] = ("ray-head",), phase: str = "Running"
    ) -> Path:
        """Have such a pod, in the place of one that there may be of that name. Returns the folder that is its HOME."""
        if self._state.pod(name, namespace) is not None:
            self.delete_pod(name, namespace)
        uid = fresh_uid()
        running = {"running": {"startedAt": now()}}
        statuses = [{"name": each, "restartCount": 0, "ready": True, "state": running} for each in containers]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "spec": {"containers": [{"name": each} for each in containers], "nodeName": "node-7"},
            "status": {"phase": phase, "containerStatuses": statuses},
        }
        self._state.write_pod(pod)
        return self._state.home(pod)

    def pod(self, name: str, namespace: str = "default") -> dict[str, Any]:
        """The pod as ``get`` answers it."""
        found = self._state.pod(name, namespace)
        assert found is not None, f"there is no pod {name}"
        return found

    def home(self, name: str, namespace: str = "default") -> Path:
        """The folder that is the pod's HOME."""
        return self._state.home(self.pod(name, namespace))

    def change_pod(self, name: str, change: Callable[[dict[str, Any]], object], namespace: str = "default") -> None:
        """Have the pod look otherwise."""
        pod = self.pod(name, namespace)
        change(pod)
        self._state.write_pod(pod)

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        """Have no such pod any more, nor any process of it."""
        home = self.home(name, namespace)
        self._state.pod_file(name, namespace).unlink()
        _end_all(home)

    def end_container(self, name: str, reason: str = "Error", namespace: str = "default", *, number: int = 0) -> None:
        """A container of the pod ends, with all that runs in the pod, and is not started again yet."""
        ended = {"terminated": {"exitCode": 137, "reason": reason, "finishedAt": now()}}
        waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}

        def change(pod: dict[str, Any]) -> None:
            pod["status"]["containerStatuses"][number].update(state=waiting, lastState=ended, ready=False)

        self.change_pod(name, change, namespace)
        _end_all(self.home(name, namespace))

    def start_container(
        self, name: str, namespace: str = "default", *, number: int = 0, keeps_tmp: bool = False
    ) -> None:
        """It is started again, with a file system as fresh as its image; ``keeps_tmp``: /tmp is a volume."""
        if not keeps_tmp:
            old = self._state.folder / "gone" / fresh_uid()
            old.parent.mkdir(exist_ok=True)
            (self.home(name, namespace) / "tmp").rename(old)
            (self.home(name, namespace) / "tmp").mkdir()

        def change(pod: dict[str, Any]) -> None:
            status = pod["status"]["containerStatuses"][number]
            status.update(state={"running": {"startedAt": now()}}, restartCount=status["restartCount"] + 1)

        self.change_pod(name, change, namespace)

    def end_pod(self, name: str, phase: str, reason: str = "", namespace: str = "default") -> None:
        """All of the pod's containers end for good; with ``reason`` the pod itself is why (Evicted)."""

        def change(pod: dict[str, Any]) -> None:
            pod["status"].update(phase=phase, **({"reason": reason} if reason else {}))
            ended = {"terminated": {"exitCode": 137, "reason": "Error", "finishedAt": now()}}
            for each in pod["status"]["containerStatuses"]:
                each.update(state=ended, ready=False)

        self.change_pod(name, change, namespace)
        _end_all(self.home(name, namespace))

    def end(self) -> None:
        """No process of any pod runs any more."""
        for home in (self._state.folder / "homes").iterdir():
            _end_all(home)

    def put(self, kind: str, name: str, document: dict[str, Any], namespace: str = "default") -> None:
        """Have such an object, for ``get KIND NAME``; ``kind`` as it is asked for."""
        path = self._state.folder / "answers" / namespace / f"{kind}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, {**_read(path, {}), name: document})

    def fail(self, said: str, *, verb: str = "", code: int = 1, times: int = -1, after: bool = False) -> None:
        """From now on calls fail like this: ``verb`` alone, or all of them; ``times``, or until :meth:`heal`. With
        ``after``, they do what they are told before that."""
        said = FAULTS.get(said, said)
        self._trouble({"verb": verb, "said": said, "code": code, "times": times, "after": after})

    def hang(self, verb: str) -> None:
        """From now on these calls do not answer."""
        self._trouble({"verb": verb, "hang": True, "times": -1})

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        with self._state.locked():
            _write(self._state.troubles, [])

    def switch(self, server: str) -> None:
        """From now on it talks to the cluster at that address, as after a ``kubectl config use-context`` elsewhere."""
        (self._state.folder / "server").write_text(server, encoding="utf-8")

    def calls(self) -> list[list[str]]:
        """The arguments of every call so far."""
        path = self._state.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def _trouble(self, trouble: dict[str, Any]) -> None:
        with self._state.locked():
            _write(self._state.troubles, [*_read(self._state.troubles, []), trouble])


class Call:
    """What kubectl was told to do."""

    def __init__(self) -> None:
        self.namespace = "default"
        self.context = self.container = self.output = ""
        self.stdin = False
        self.words: list[str] = []
        self.command: list[str] = []
        """What stands behind ``--``."""
        self.options: list[str] = []
        """Those that are the verb's own business."""


class _State:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.troubles = folder / "troubles.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def pod_file(self, name: str, namespace: str) -> Path:
        return self.folder / "pods" / namespace / f"{name}.json"

    def pod(self, name: str, namespace: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = _read(self.pod_file(name, namespace), None)
        return found

    def write_pod(self, pod: dict[str, Any]) -> None:
        path = self.pod_file(pod["metadata"]["name"], pod["metadata"]["namespace"])
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, pod)
        (self.home(pod) / "tmp").mkdir(parents=True, exist_ok=True)

    def home(self, pod: dict[str, Any]) -> Path:
        return self.folder / "homes" / str(pod["metadata"]["uid"])

    def trouble(self, verb: str) -> dict[str, Any]:
        """What is to go wrong with this call."""
        with self.locked():
            known: list[dict[str, Any]] = _read(self.troubles, [])
            for each in known:
                if each["verb"] in {"", verb} and each["times"] != 0:
                    each["times"] -= 1
                    _write(self.troubles, known)
                    return each
        return {}


def _get(state: _State, call: Call) -> int:
    kind, name = (*call.words[1:], "", "")[:2]
    found = state.pod(name, call.namespace) if kind in {"pod", "pods"} else None
    found = found or _read(state.folder / "answers" / call.namespace / f"{kind}.json", {}).get(name)
    if found is None:
        plural = kind if kind.endswith("s") else f"{kind}s"
        return _failed(f'Error from server (NotFound): {plural} "{name}" not found')
    sys.stdout.write((json.dumps(found, indent=4) if call.output == "json" else f"{kind}/{name}") + "\n")
    return 0


def _exec(state: _State, call: Call) -> int:
    name = call.words[1]
    pod = state.pod(name, call.namespace)
    if pod is None:
        return _failed(f'Error from server (NotFound): pods "{name}" not found')
    phase = pod["status"]["phase"]
    if phase in {"Succeeded", "Failed"}:
        return _failed(f"error: cannot exec into a container in a completed pod; current phase is {phase}")
    if not pod["spec"].get("nodeName"):
        return _failed(f"Error from server (BadRequest): pod {name} does not have a host assigned")
    names = [each["name"] for each in pod["spec"]["containers"]]
    if call.container and call.container not in names:
        return _failed(f"Error from server (BadRequest): container {call.container} is not valid for pod {name}")
    if not call.container and len(names) > 1:
        sys.stderr.write(f'Defaulted container "{names[0]}" out of: {", ".join(names)}\n')
    container = call.container or names[0]
    status = next(each for each in pod["status"]["containerStatuses"] if each["name"] == container)
    if "running" not in status["state"]:
        return _failed(f'error: unable to upgrade connection: container not found ("{container}")')
    return _run(state.home(pod), name, call)


def _run(home: Path, pod: str, call: Call) -> int:
    """The command in a process of its own, which goes on when kubectl is killed, as it does in a pod."""
    environment = {
        "PATH": f"{home / 'bin'}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "HOSTNAME": pod,
    }
    if not any(os.access(Path(each) / call.command[0], os.X_OK) for each in environment["PATH"].split(":")):
        why = f'exec: "{call.command[0]}": executable file not found in $PATH: unknown'
        sys.stderr.write(f"OCI runtime exec failed: exec failed: unable to start container process: {why}\n")
        return _ended(127)
    process = subprocess.Popen(
        call.command,
        env=environment,
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    # It has ended when its output has, even if whoever still holds that is another process. Where its input ends it is
    # not told, as by kubectl before 1.30.
    text = sys.stdin.buffer.read() if call.stdin else b""
    assert process.stdin is not None
    threading.Thread(target=_feed, args=(process.stdin, text), daemon=True).start()
    copies = [
        threading.Thread(target=_copy, args=pair)
        for pair in ((process.stdout, sys.stdout.buffer), (process.stderr, sys.stderr.buffer))
    ]
    for each in copies:
        each.start()
    for each in copies:
        each.join()
    code = process.wait()
    sys.stdout.flush()
    sys.stderr.flush()
    return 0 if code == 0 else _ended(code if code > 0 else 128 - code)


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    while chunk := source.read(65536):
        target.write(chunk)


def _feed(stream: IO[bytes], text: bytes) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        return


def _ended(code: int) -> int:
    sys.stderr.write(f"command terminated with exit code {code}\n")
    return code


def _config(state: _State, call: Call) -> int:
    other = state.folder / "server"
    server = other.read_text(encoding="utf-8") if other.exists() else "10.1.2.3:6443"
    context = {"cluster": "east", "user": "bob", "namespace": call.namespace}
    view = {
        "kind": "Config",
        "clusters": [{"name": "east", "cluster": {"server": f"https://bob:hunter2@{server}"}}],
        "contexts": [{"name": call.context or "east", "context": context}],
        "current-context": call.context or "east",
    }
    sys.stdout.write(json.dumps(view) + "\n")
    return 0


def _failed(said: str, code: int = 1) -> int:
    if "connect" in said:
        sys.stderr.write(_MEMCACHE + "\n")
    sys.stderr.write(said + "\n")
    return code


VERBS: dict[str, Callable[[_State, Call], int]] = {"get": _get, "exec": _exec, "config": _config}
"""What it can do. A test that needs another verb of kubectl's adds a line."""


def _parsed(arguments: Sequence[str]) -> Call:
    call, waiting = Call(), list(arguments)
    while waiting:
        word = waiting.pop(0)
        name, _, text = word.partition("=")
        if word == "--":
            call.command = waiting
            break
        if name in {"--namespace", "--context", "--container", "--output"}:
            setattr(call, name[2:], text)
        elif name in {"-n", "-c", "-o"}:
            setattr(call, {"-n": "namespace", "-c": "container", "-o": "output"}[name], waiting.pop(0))
        elif word in {"-i", "--stdin"}:
            call.stdin = True
        elif name == "--request-timeout":
            continue
        elif word.startswith("-"):
            call.options.append(word)
        else:
            call.words.append(word)
    return call


def main(folder: str, arguments: Sequence[str]) -> int:
    """One call of kubectl."""
    state = _State(Path(folder))
    with state.locked(), (state.folder / "calls.jsonl").open("a", encoding="utf-8") as calls:
        calls.write(json.dumps(list(arguments)) + "\n")
    call = _parsed(arguments)
    verb = call.words[0]
    trouble = state.trouble(verb)
    if trouble.get("hang"):
        time.sleep(_LATER_S)
    code = VERBS[verb](state, call) if trouble.get("after", not trouble) else 0
    return _failed(trouble["said"], trouble["code"]) if trouble else code


def fresh_uid() -> str:
    """A uid as no other object has it."""
    return os.urandom(16).hex()


def now() -> str:
    """The time as the API writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _end_all(home: Path) -> None:
    """End what runs in the pod with that HOME, as the end of a container does. What it starts meanwhile ends, too."""
    mark = f"\0HOME={home}\0".encode()
    living = True
    while living:
        living = False
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in b"\0" + (folder / "environ").read_bytes():
                    living = True
                    os.kill(int(folder.name), signal.SIGKILL)
        time.sleep(0.01)


def _read(path: Path, otherwise: Any) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return otherwise


def _write(path: Path, document: Any) -> None:
    fresh = path.with_suffix(f".{os.getpid()}.new")
    fresh.write_text(json.dumps(document), encoding="utf-8")
    fresh.replace(path)
