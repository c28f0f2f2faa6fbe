"""A Ray cluster by way of its head pod: ``kubectl exec POD -- ray …``.

Ray's own commands are asked where they print what can be read for certain: ``ray job status``, ``ray job logs``, ``ray
status``. ``ray job list`` prints Python objects, so a job's details are those of ``ray list jobs``, which prints JSON.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lastbeat.launch import ray_words
from lastbeat.launch.ray_words import Gpus
from lastbeat.launch.results import JobStatus, RayResources
from lastbeat.launchers.asking import MOST_BYTES, Answer
from lastbeat.launchers.kubectl import Kubectl, check_name
from lastbeat.launchers.port import JobRefusedError, LauncherError, NotLaunchedError
from lastbeat.launchers.ray.jobs import Version
from lastbeat.launchers.ray_pod.pod_files import PodFiles
from lastbeat.launchers.ray_pod.pod_python import PodPython
from lastbeat.model.job import GpuUse
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import one_line
from lastbeat.stores.port import Store

RAY_EXEC: Final = "ray-exec"
"""What records name as the launcher of jobs that are reached so."""
CALL_S: Final = 60.0
"""Of one call. Each of Ray's commands begins with an import of Ray, on a head that is busy."""
_MOST_LISTED: Final = 32 << 20
"""Of a listing of all jobs: Ray remembers thousands, each with the whole of what was submitted."""
_MOST_NETWORK_BYTES: Final = 1 << 18
_NOT_FOUND: Final = (127, 126)
"""Exit statuses of a shell, and of a container's runtime, that found no such program."""
_UNKNOWN_JOB: Final = "does not exist"
_TAKEN: Final = "already exists"
_INSTALL: Final = "name the pod of Ray's head, and the container in which Ray is"

_SHELLS_WORDS: Final = (2, 60)
"""Since this version ``ray job submit`` quotes the words of an entrypoint for the shell that reads them. Before, it did
so as for Windows, and another shell expands what stands in them."""
_VERSION: Final = re.compile(r"\bversion (\d{1,4})\.(\d{1,4})")

# A log may be large: what travels is its end alone, and the exit status is that of Ray's command.
_TAIL: Final = (
    '{ rc=$( { { ray job logs -- "$1"; echo "$?" >&3; } | tail -n "$2" | tail -c "$3" >&4; } 3>&1 ); } 4>&1; exit "$rc"'
)
# What the job's environment holds may be secret: it stands in no list of arguments.
_SUBMIT: Final = 'many=$1; shift; head -c "$many" | ray job submit --runtime-env /dev/stdin "$@"'
# Which life of the head this is: Ray's own name of it.
_SESSION: Final = 'readlink "${RAY_TMPDIR:-/tmp}/ray/session_latest" || true'
# Each rank says it when it begins, so the first lines of each log tell; the newest log comes last.
_NETWORK: Final = (
    'cd "${RAY_TMPDIR:-/tmp}/ray/session_latest/logs" 2>/dev/null || exit 0; '
    "ls -tr worker*.out job-driver-*.log 2>/dev/null | tail -n 64 | while IFS= read -r log; do "
    'grep -aE "NET/|Using network|FI_PROVIDER|FI_EFA_|NET plugin|uverbs|/efa" "./$log" | head -n 50 | cut -c 1-400; '
    'done | tail -c "$1"'
)


class PodJobs:
    """Jobs of the cluster whose head is a pod, asked for as of its dashboard (:class:`RayJobs`)."""

    def __init__(self, kubectl: Kubectl, head_pod: str, container: str = "") -> None:
        """Raises :class:`JobRefusedError` for a name that cannot be a pod's."""
        self.kubectl = kubectl
        self.pod = check_name("pod", head_pod)
        self.container = container

    @property
    def address(self) -> str:
        """What people call it."""
        where = f"{self.kubectl.namespace}/" if self.kubectl.namespace else ""
        return f"pod {where}{self.pod}"

    def place(self) -> str:
        """The pod by cluster and namespace, ``10.1.2.3:6443/ml/ray-head``: names of pods are many clusters'. Raises
        :class:`LauncherError` where kubectl does not know any cluster."""
        return f"{self.kubectl.place()}/{self.pod}"

    def version(self) -> Version:
        """Which life of the head this is. Raises :class:`LauncherError`, as all of these do."""
        answer = self.exec(["sh", "-c", _SESSION])
        if answer.code != 0:
            raise self.fault(answer)
        said = answer.out.strip().rpartition("/")[2]
        if not said.startswith("session_"):
            # Its folder is elsewhere. A head that is started again is another node.
            heads = [str(each.get("node_id")) for each in self.nodes() if each.get("is_head_node") is True]
            said = f"session_of_{heads[0][:32]}" if heads else ""
        return Version("", said)

    def status(self, job: str) -> JobStatus | None:
        """The job's state. None: the cluster answered that it knows no such job."""
        answer = self.ray("job", "status", "--", job)
        if answer.code != 0:
            self._absent(answer)
            return None
        return ray_words.status_in(answer.out, job)

    def job(self, submission_id: str) -> dict[str, Any] | None:
        listed = self._listed("jobs", f"--filter=submission_id={submission_id}")
        return next((each for each in listed if each.get("submission_id") == submission_id), None)

    def jobs(self) -> list[dict[str, Any]]:
        return self._listed("jobs")

    def nodes(self) -> list[dict[str, Any]]:
        return self._listed("nodes")

    def submit(self, request: Mapping[str, Any]) -> str:
        job = str(request["submission_id"])
        runtime_env = json.dumps(request.get("runtime_env") or {}, ensure_ascii=False)
        arguments = ["--no-wait", f"--submission-id={job}"]
        if request.get("metadata"):
            arguments.append(f"--metadata-json={json.dumps(request['metadata'])}")
        for name, value in request.items():
            if name.startswith("entrypoint_"):
                text = json.dumps(value) if isinstance(value, dict) else str(value)
                arguments.append(f"--{name.replace('_', '-')}={text}")
        words = words_of(str(request["entrypoint"]))
        self._check_words(words)
        many = f"{len(runtime_env.encode('utf-8', 'replace'))}"
        command = ["sh", "-c", _SUBMIT, "sh", many, *arguments, "--", *words]
        answer = self.exec(command, stdin=runtime_env)
        if answer.code == 0:
            return job
        if answer.code in _NOT_FOUND:
            raise NotLaunchedError(str(self.fault(answer)), _INSTALL)
        if _TAKEN in answer.err or _TAKEN in answer.out:
            raise JobRefusedError(f"{self.address}: there is a job {job} that already exists", "take another id")
        raise self.fault(answer)

    def _check_words(self, words: Sequence[str]) -> None:
        """Raises :class:`JobRefusedError` where the pod's Ray would run something else than these words."""
        if subprocess.list2cmdline(words) == shlex.join(words):
            return
        answer = self.ray("--version")
        found = _VERSION.search(answer.out) if answer.code == 0 else None
        if found is None:
            raise NotLaunchedError(f"{self.address}: which version of Ray it has cannot be told", _INSTALL)
        if (int(found[1]), int(found[2])) < _SHELLS_WORDS:
            raise JobRefusedError(
                f"'ray job submit' of Ray {found[1]}.{found[2]} does not hand on what a shell reads otherwise",
                "put them into a script and name that, or give the address of the dashboard, http://HOST:8265",
            )

    def stop(self, submission_id: str) -> bool | None:
        answer = self.ray("job", "stop", "--no-wait", "--", submission_id)
        if answer.code != 0:
            self._absent(answer)
            return None
        return True

    def log_tail(self, node_id: str, submission_id: str, lines: int, most: int) -> tuple[bytes, bool]:  # noqa: ARG002 - the head finds the node
        """The end of the job's log, and whether that is all of what was asked for."""
        answer = self.exec(["sh", "-c", _TAIL, "sh", submission_id, f"{lines}", f"{most + 1}"], most=2 * most + 1)
        if answer.code != 0:
            self._absent(answer)
            return b"", True
        text = ray_words.log_in(answer.out).encode("utf-8", "replace")
        return text[-most:], len(text) <= most

    def gpus(self) -> GpuUse | None:
        found = self.resources()
        return None if found is None else GpuUse(found.gpus_used, found.gpus_available)

    def resources(self) -> RayResources | None:
        """What the cluster has, and has given out. None: it does not tell."""
        answer = self.ray("status")
        if answer.code != 0:
            raise self.fault(answer)
        return ray_words.resources_in(answer.out)

    # Asking

    def ray(self, *arguments: str) -> Answer:
        """What Ray's command answers in the pod."""
        return self.exec(["ray", *arguments], most=_MOST_LISTED)

    def exec(self, command: Sequence[str], *, stdin: str = "", most: int = MOST_BYTES) -> Answer:
        """What ``command`` answers in the pod."""
        return self.kubectl.exec(self.pod, command, container=self.container, stdin=stdin, most=most)

    def fault(self, answer: Answer) -> LauncherError:
        """Why that is no answer."""
        if answer.code in _NOT_FOUND:
            return JobRefusedError(f"{self.address}: there is no program ray in it", _INSTALL)
        lines = [line.strip(" .") for line in answer.err.splitlines() if line.strip(" .")]
        said = one_line(mask_tokens(lines[-1][:2000]))[:300] if lines else f"exit status {answer.code}"
        return LauncherError(f"{self.address}: ray: {said}", "`ray status` in the pod says whether Ray runs")

    def _listed(self, what: str, *more: str) -> list[dict[str, Any]]:
        answer = self.ray("list", what, "--format=json", "--detail", "--limit=10000", *more)
        if answer.code != 0:
            raise self.fault(answer)
        try:
            return ray_words.listed_in(answer.out)
        except ValueError:
            raise LauncherError(f"{self.address}: `ray list {what}` printed no list", _INSTALL) from None

    def _absent(self, answer: Answer) -> None:
        """Return where Ray answered that it knows no such job. Raises :class:`LauncherError` otherwise."""
        if _UNKNOWN_JOB not in answer.err and _UNKNOWN_JOB not in answer.out:
            raise self.fault(answer)


class PodCluster:
    """The cluster whose head is the pod of ``jobs``. ``all_pods`` are those with GPUs, where the head alone is not."""

    def __init__(self, jobs: PodJobs, all_pods: Sequence[str] = ()) -> None:
        """Raises :class:`JobRefusedError` for a name that cannot be a pod's."""
        self.jobs = jobs
        self._gpu_pods = tuple(check_name("pod", each) for each in all_pods) or (jobs.pod,)

    def status(self, job: str) -> JobStatus | None:
        return self.jobs.status(job)

    def resources(self) -> RayResources | None:
        return self.jobs.resources()

    def gpus(self) -> tuple[Sequence[Gpus], Sequence[str]]:
        answers = [self._gpus_or_fault(pod) for pod in self._gpu_pods]
        return [each for each in answers if isinstance(each, Gpus)], [each for each in answers if isinstance(each, str)]

    def _gpus_or_fault(self, pod: str) -> Gpus | str:
        try:
            return self._gpus_of(pod)
        except LauncherError as error:
            return f"pod {pod}: {error.told}"

    def _gpus_of(self, pod: str) -> Gpus:
        form = "--format=csv,noheader,nounits"
        answer = self._exec(pod, ["nvidia-smi", ray_words.GPU_QUERY, form])
        if answer.code in _NOT_FOUND:
            raise LauncherError("there is no nvidia-smi in it", "name the pods that have GPUs")
        if answer.code != 0:
            # Where the driver cannot be reached it says so on its output.
            last = [line for line in (answer.err + answer.out).splitlines() if line.strip()]
            said = one_line(last[-1])[:300] if last else f"exit status {answer.code}"
            raise LauncherError(f"nvidia-smi: {said}", "look at the node's driver")
        try:
            gpus = ray_words.gpus_in(answer.out)
        except ValueError as error:
            raise LauncherError(f"nvidia-smi printed no list of GPUs: {error}") from None
        apps = self._exec(pod, ["nvidia-smi", ray_words.PROCESS_QUERY, form])
        return gpus._replace(processes=ray_words.processes_in(apps.out, pod) if apps.code == 0 else ())

    def _exec(self, pod: str, command: Sequence[str]) -> Answer:
        container = self.jobs.container if pod == self.jobs.pod else ""
        return self.jobs.kubectl.exec(pod, command, container=container)

    def files(self, path: str) -> Store | None:
        python = PodPython(self.jobs.kubectl, self.jobs.pod, self.jobs.container)
        return None if "://" in path else PodFiles(python, path)

    def network_lines(self) -> str:
        answer = self.jobs.exec(["sh", "-c", _NETWORK, "sh", f"{_MOST_NETWORK_BYTES}"])
        if answer.code != 0:
            raise self.jobs.fault(answer)
        return answer.out


def words_of(entrypoint: str) -> list[str]:
    """``entrypoint``, which a shell reads, as the arguments that ``ray job submit`` puts together to it again: the job
    that it makes has the same entrypoint, or a shell that reads it."""
    try:
        words = shlex.split(entrypoint)
    except ValueError:
        words = []
    return words if shlex.join(words) == entrypoint else ["sh", "-c", entrypoint]
