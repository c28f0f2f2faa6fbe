"""Jobs of a Ray cluster by Ray's own commands in its head pod: ``kubectl exec POD -- ray …``.

These print what can be read for certain: ``ray job status``, ``ray job logs`` and ``ray status``. ``ray job list``
prints Python objects, so a job's details are those of ``ray list jobs``, which prints JSON.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lastbeat.jobs.launchers.asking import MOST_BYTES, Answer
from lastbeat.jobs.launchers.kubectl import Kubectl, check_name
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError, NotLaunchedError
from lastbeat.jobs.launchers.ray.reports import STATES
from lastbeat.jobs.launchers.ray.resources import resources_in
from lastbeat.model.job import JobState
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import clean, one_line
from lastbeat.model.training_health import RayResources

CALL_S: Final = 60.0
"""Time limit of one call. Each of Ray's commands begins with an import of Ray, on a head that is busy."""
_MOST_LISTED: Final = 32 << 20
"""Most bytes of a list of all jobs. Ray remembers thousands, each with its whole submission."""
NOT_FOUND: Final = (127, 126)
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

_ENDS: Final[Mapping[str, JobState]] = {
    "succeeded": JobState.SUCCEEDED,
    "failed": JobState.FAILED,
    "was stopped": JobState.CANCELLED,
}
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]{0,16}m")
_BEFORE: Final = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\s+[A-Z]{3,8} cli\.py:\d{1,6} -- "
_OF_COMMAND: Final = re.compile(_BEFORE)
_OWN_LINE: Final = re.compile(_BEFORE + r"Job submission server address: .*\n?")


class PodJobs:
    """Jobs of the cluster whose head is a pod: a :class:`JobsApi`, as :class:`RayJobs` is by the dashboard."""

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

    def session(self) -> str:
        """Which life of the head this is. Raises :class:`LauncherError`, as all of these do."""
        answer = self.exec(["sh", "-c", _SESSION])
        if answer.code != 0:
            raise self.fault(answer)
        said = answer.out.strip().rpartition("/")[2]
        if not said.startswith("session_"):
            # Its folder is elsewhere. A head that is started again is another node.
            heads = [str(each.get("node_id")) for each in self.nodes() if each.get("is_head_node") is True]
            said = f"session_of_{heads[0][:32]}" if heads else ""
        return said

    def state(self, submission_id: str) -> JobState | None:
        answer = self.ray("job", "status", "--", submission_id)
        if answer.code != 0:
            self._absent(answer)
            return None
        return state_in(answer.out, submission_id)

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
        if answer.code in NOT_FOUND:
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
            raise NotLaunchedError(f"{self.address}: its version of Ray is unknown", _INSTALL)
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
        text = log_in(answer.out).encode("utf-8", "replace")
        return text[-most:], len(text) <= most

    def resources(self) -> RayResources | None:
        answer = self.ray("status")
        if answer.code != 0:
            raise self.fault(answer)
        return resources_in(answer.out)

    # Asking

    def ray(self, *arguments: str) -> Answer:
        """What Ray's command answers in the pod."""
        return self.exec(["ray", *arguments], most=_MOST_LISTED)

    def exec(self, command: Sequence[str], *, stdin: str = "", most: int = MOST_BYTES) -> Answer:
        """What ``command`` answers in the pod."""
        return self.kubectl.exec(self.pod, command, container=self.container, stdin=stdin, most=most)

    def fault(self, answer: Answer) -> LauncherError:
        """Why that is no answer."""
        if answer.code in NOT_FOUND:
            return JobRefusedError(f"{self.address}: there is no program ray in it", _INSTALL)
        lines = [line.strip(" .") for line in answer.err.splitlines() if line.strip(" .")]
        said = one_line(mask_tokens(lines[-1][:2000]))[:300] if lines else f"exit status {answer.code}"
        return LauncherError(f"{self.address}: ray: {said}", "`ray status` in the pod says whether Ray runs")

    def _listed(self, what: str, *more: str) -> list[dict[str, Any]]:
        answer = self.ray("list", what, "--format=json", "--detail", "--limit=10000", *more)
        if answer.code != 0:
            raise self.fault(answer)
        try:
            return listed_in(answer.out)
        except ValueError:
            raise LauncherError(f"{self.address}: `ray list {what}` printed no list", _INSTALL) from None

    def _absent(self, answer: Answer) -> None:
        """Return where Ray answered that it knows no such job. Raises :class:`LauncherError` otherwise."""
        if _UNKNOWN_JOB not in answer.err and _UNKNOWN_JOB not in answer.out:
            raise self.fault(answer)


def words_of(entrypoint: str) -> list[str]:
    """``entrypoint``, which a shell reads, as the arguments that ``ray job submit`` puts together to it again: the job
    that it makes has the same entrypoint, or a shell that reads it."""
    try:
        words = shlex.split(entrypoint)
    except ValueError:
        words = []
    return words if shlex.join(words) == entrypoint else ["sh", "-c", entrypoint]


# What Ray's commands print. All of it is hostile text. The wordings are those of Ray 2.9 to 2.60.


def state_in(text: str, job: str) -> JobState:
    """The state that ``ray job status JOB`` prints. What the job has written may follow it, and is not read."""
    head = clean(text).partition("Status message: ")[0]
    told = f"Status for job '{job}': "
    if told in head:
        return STATES.get(head.partition(told)[2].split("\n", 1)[0].strip(), JobState.UNKNOWN)
    for word, meaning in _ENDS.items():
        if f"Job '{job}' {word}\n" in f"{head}\n":
            return meaning
    return JobState.UNKNOWN


def log_in(text: str) -> str:
    """The job's log in the output of ``ray job logs``, without the command's own lines."""
    text = _COLOUR.sub("", text)
    if (own := _OWN_LINE.match(text)) is not None:
        text = text[own.end() :]
    # The log's first line stands behind the time and place at which the command prints it.
    return text[found.end() :] if (found := _OF_COMMAND.match(text)) is not None else text


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
