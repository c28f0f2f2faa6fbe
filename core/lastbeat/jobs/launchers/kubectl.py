"""Runs kubectl with limits on its time and on its answer, and turns its errors into advice.

kubectl prints its own messages and those of a command in a pod on the same streams. Its last line separates the two: it
names the exit status of a command that ran. Without that line, kubectl itself failed.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from lastbeat.jobs.launchers.asking import MOST_BYTES, Answer, ask
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError
from lastbeat.model.json_values import json_object
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import one_line

_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""A DNS-1123 label, such as the name of a namespace or container."""
_LONGEST_NAME: Final = 253
_MOST_FAULT: Final = 300
_OWN_S: Final = 2.0
"""kubectl gives up this many seconds before our own limit, because then it says why."""
_ENDED: Final = re.compile(r"command terminated with exit code (\d{1,3})")
_MISSING: Final = re.compile(r'Error from server \(NotFound\): ([a-z0-9./-]{1,100}) "([^"]{1,253})" not found')
_FORBIDDEN: Final = re.compile(
    r'cannot (?P<verb>[a-z]{1,20}) resource "(?P<resource>[a-z0-9./-]{1,100})" '
    r'in API group "(?P<group>[a-z0-9./-]{0,100})"(?: in the namespace "(?P<namespace>[a-z0-9-]{1,63})")?'
)
_USUAL_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_CONTEXTS: Final = "'kubectl config get-contexts' lists the clusters that kubectl knows here; set KUBECONFIG"
_CLUSTER: Final = "'kubectl cluster-info' says whether the cluster answers from here"
_NOT_INSTALLED: Final = "install kubectl, or run this where it is"


class AbsentError(LauncherError):
    """The cluster answered that it has no such object."""


class NotRunningError(LauncherError):
    """The pod exists, but no command can run in it now: it has not begun, it has ended, or its container restarts."""


class _Remedy(NamedTuple):
    """What kubectl's words mean. The first row that matches applies."""

    words: tuple[str, ...]
    advice: str
    error: type[LauncherError] = LauncherError


_REMEDIES: Final = (
    _Remedy(
        (
            "localhost:8080 was refused",
            "no configuration has been provided",
            "current-context must exist",
            "Please enter Username",
            "error loading config file",
        ),
        f"kubectl is not set up here: {_CONTEXTS}",
    ),
    _Remedy(
        ("context was not found", "cannot locate context", "no context exists", 'error: context "'),
        f"there is no such context here: {_CONTEXTS}",
    ),
    _Remedy(
        ("Unauthorized", "getting credentials", "provide credentials"),
        "its credentials are missing or over: log in again; 'kubectl auth whoami' shows whom the cluster takes you for",
    ),
    _Remedy(
        ("in a completed pod", "does not have a host assigned", "container not found (", "pod does not exist"),
        "'kubectl describe pod' says why it does not run",
        NotRunningError,
    ),
    _Remedy(("error dialing backend",), "the pod's node does not answer the cluster: 'kubectl get nodes' shows it"),
    _Remedy(("x509:",), "the cluster's certificate is not the one that kubectl was set up with"),
    _Remedy(("doesn't have a resource type",), "the operator of such objects is not installed in this cluster"),
    _Remedy(
        ("TooManyRequests", "ServiceUnavailable", "etcdserver:", "InternalError", "(Timeout)"),
        "the cluster is in trouble of its own: try again in a moment",
    ),
    _Remedy(
        ("unable to upgrade connection", "error sending request", "unexpected EOF", "stream error"),
        "the connection into the pod was cut or refused: does a proxy let it pass? Try 'kubectl exec' by hand",
    ),
)


@dataclass(frozen=True)
class Kubectl:
    """kubectl as one user calls it for one namespace.

    Raises :class:`JobRefusedError` for an invalid namespace or context, so that no name can act as an option of
    kubectl.
    """

    namespace: str = ""
    """Namespace; empty for the context's own."""
    context: str = ""
    """Context; empty for kubectl's current one."""
    call_s: float = 20.0
    """Time limit of one call, s."""

    def __post_init__(self) -> None:
        if self.namespace:
            check_label("namespace", self.namespace)
        if self.context.startswith("-") or not self.context.isprintable() or len(self.context) > _LONGEST_NAME:
            raise JobRefusedError(f"{one_line(self.context)[:60]!r} is no name of a context", _CONTEXTS)

    def run(self, arguments: Sequence[str], *, stdin: str = "", most: int = MOST_BYTES) -> Answer:
        """Run kubectl with ``arguments`` and return its answer, whatever its exit status.

        Raises :class:`LauncherError` if it did not end in time or printed more than ``most`` bytes on a stream: what it
        did is unknown then. Raises :class:`JobRefusedError` if kubectl is not installed.
        """
        if shutil.which("kubectl") is None:
            raise JobRefusedError("kubectl is not installed here", _NOT_INSTALLED)
        whose = {"--namespace": self.namespace, "--context": self.context}
        command = ["kubectl", *(f"{option}={text}" for option, text in whose.items() if text)]
        command.append(f"--request-timeout={max(1.0, self.call_s - _OWN_S):g}s")
        # Option defaults that the user has set would change the answers.
        environment = {**os.environ, "LC_ALL": "C", "KUBERC": "off", "KUBECTL_KUBERC": "false"}
        return ask([*command, *arguments], environment, self.call_s, stdin=stdin, advice=_CLUSTER, most=most)

    def json(self, arguments: Sequence[str], *, most: int = MOST_BYTES) -> dict[str, Any]:
        """The object that kubectl answers with. Raises :class:`AbsentError` if the cluster has no such object,
        :class:`LauncherError` if that is unknown."""
        answer = self.run([*arguments, "--output=json"], most=most)
        if answer.code != 0:
            raise self.unanswered(answer)
        found = json_object(answer.out)
        if found is None:
            raise LauncherError("kubectl's answer is no JSON object", _CLUSTER)
        return found

    def pod(self, name: str) -> dict[str, Any]:
        """The pod as the cluster has it. Raises as :meth:`json`, and :class:`JobRefusedError` for an invalid name."""
        return self.json(["get", "pod", check_name("pod", name)])

    def place(self) -> str:
        """Address of the cluster and the namespace, as in ``10.1.2.3:6443/ml``. Reads only kubectl's settings. Raises
        :class:`LauncherError` if they name no cluster."""
        try:
            server, namespace = self.settings()
        except LauncherError:
            # In a pod with a service account, kubectl needs no settings.
            if self.context or "KUBERNETES_SERVICE_HOST" not in os.environ:
                raise
            host = f"{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}"
            return f"{host}/{self.namespace or _of_service_account()}"
        address = urlsplit(server)
        if not address.hostname:
            raise LauncherError("kubectl's settings name no cluster", f"kubectl is not set up here: {_CONTEXTS}")
        return one_line(f"{address.netloc.rpartition('@')[2]}{address.path.rstrip('/')}/{namespace}")

    def settings(self) -> tuple[str, str]:
        """The cluster's address, which may hold a password, and the namespace, as kubectl's settings name them. Raises
        :class:`LauncherError` without settings, as in a pod."""
        view = self.json(["config", "view", "--minify"])
        clusters, contexts = view.get("clusters") or [{}], view.get("contexts") or [{}]
        namespace = self.namespace or (contexts[0].get("context") or {}).get("namespace") or "default"
        return str((clusters[0].get("cluster") or {}).get("server") or ""), str(namespace)

    def exec(
        self, pod: str, command: Sequence[str], *, container: str = "", stdin: str = "", most: int = MOST_BYTES
    ) -> Answer:
        """Run ``command`` in the pod without a shell. Returns its exit status and output. The command must not read
        past the end of ``stdin``, because some versions of kubectl never close it.

        Raises :class:`JobRefusedError` for an invalid name of a pod or container, :class:`AbsentError` if the pod does
        not exist, :class:`NotRunningError`, and :class:`LauncherError` if it is unknown whether the command ran.
        """
        arguments = ["exec", "--stdin", check_name("pod", pod)]
        if container:
            arguments.append(f"--container={check_label('container', container)}")
        answer = self.run([*arguments, "--", *command], stdin=stdin, most=most)
        if answer.code == 0:
            return replace(answer, program=command[0])
        said, line, _ = answer.err.rstrip().rpartition("command terminated with exit code ")
        ended = _ENDED.fullmatch(answer.err.rstrip()[len(said) :]) if line else None
        if ended is not None and int(ended[1]) == answer.code:
            return Answer(command[0], answer.code, answer.out, said)
        raise self._unrun(answer, pod)

    def unanswered(self, answer: Answer) -> LauncherError:
        """Why kubectl failed, with advice. :class:`AbsentError`: the cluster answered that it has no such object."""
        said = fault(answer)
        where = f" -n {self.namespace}" if self.namespace else ""
        if (missing := _MISSING.search(answer.err)) is not None:
            kind = missing[1]
            return AbsentError(said, f"'kubectl get {kind}{where}' lists those that there are")
        if (forbidden := _FORBIDDEN.search(answer.err)) is not None:
            what = forbidden["resource"] + (f".{forbidden['group']}" if forbidden["group"] else "")
            its = f" -n {forbidden['namespace']}" if forbidden["namespace"] else where
            return LauncherError(
                said, f"it needs the right: 'kubectl auth can-i {forbidden['verb']} {what}{its}' must say yes"
            )
        if answer.says(("(Forbidden)",)):
            return LauncherError(said, f"'kubectl auth can-i --list{where}' shows what you may do")
        for remedy in _REMEDIES:
            if answer.says(remedy.words):
                return remedy.error(said, remedy.advice)
        return LauncherError(said, _CLUSTER)

    def _unrun(self, answer: Answer, pod: str) -> LauncherError:
        """Why no command could run in the pod. For an unknown container, the error lists those that the pod has."""
        if answer.says(("is not valid for pod", f"not found in pod {pod}")):
            names = ", ".join(containers(self.pod(pod)))
            return JobRefusedError(fault(answer), f"name one of its containers: {names}" if names else _CLUSTER)
        return self.unanswered(answer)


def fault(answer: Answer) -> str:
    """The last line that kubectl printed, sanitized and bounded, because pods and their programs can write into it."""
    lines = [line for line in answer.err.splitlines() if line.strip()]
    said = one_line(mask_tokens(lines[-1][:2000])) if lines else f"exit status {answer.code}"
    return f"kubectl: {said.removeprefix('error: ')[:_MOST_FAULT]}"


def containers(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a pod's containers. The first is the default."""
    listed = [str(each.get("name")) for each in (pod.get("spec") or {}).get("containers") or ()]
    usual = ((pod.get("metadata") or {}).get("annotations") or {}).get(_USUAL_CONTAINER)
    return tuple(sorted(filter(_LABEL.fullmatch, listed), key=lambda name: name != usual))


def container_status(pod: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The cluster's status of a pod's container; empty if it has none yet."""
    listed = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((dict(each) for each in listed if each.get("name") == name), {})


def _of_service_account() -> str:
    try:
        return _NAMESPACE.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return "default"


def check_label(what: str, name: str) -> str:
    """Return ``name``. Raises :class:`JobRefusedError` unless it can name a namespace or a container."""
    if _LABEL.fullmatch(name) is None:
        raise JobRefusedError(
            f"{one_line(name)[:60]!r} is no name of a {what}", "it has lower-case letters, digits and '-', at most 63"
        )
    return name


def check_name(what: str, name: str) -> str:
    """Return ``name``. Raises :class:`JobRefusedError` unless it can name a pod, as it can most other objects."""
    if len(name) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, name.split("."))):
        raise JobRefusedError(
            f"{one_line(name)[:60]!r} is no name of a {what}",
            f"it has lower-case letters, digits, '-' and '.'; 'kubectl get {what}s' lists those that there are",
        )
    return name
