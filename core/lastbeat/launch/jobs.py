"""Functions for scripts about one Ray job: its state, its progress, its end, a stall; and submission with resume."""

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

from lastbeat.jobs.checkpoints.layouts import step_in
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError, NotLaunchedError
from lastbeat.jobs.launchers.ray.jobs import JobsApi
from lastbeat.jobs.launchers.ray.launcher import LATE_S, RayLauncher
from lastbeat.launch.errors import JobNotFoundError, LaunchError, NotReachedError, NotSubmittedError, UncertainError
from lastbeat.launch.reaching import launch_error, reach, translated
from lastbeat.launch.results import JobProgress, JobStatus, MonitorResult
from lastbeat.model.job import JobState
from lastbeat.model.progress_lines import Progress

log = logging.getLogger(__name__)
T = TypeVar("T")
Absent = Literal["ABSENT"]
ABSENT: Final[Absent] = "ABSENT"
"""The cluster's answer that it knows no such job."""

RESUME_FROM: Final = "LASTBEAT_RESUME_FROM"
RESUME_STEP: Final = "LASTBEAT_RESUME_STEP"
_MOST_LOG_BYTES: Final = 1 << 20
_TAKEN: Final = "already exists"
_OWN: Final = "lastbeat-"
_OWN_ID: Final = re.compile(rf"{_OWN}[0-9a-f]{{16}}")
_STATUSES: Final[Mapping[JobState, JobStatus]] = {
    JobState.PENDING: "PENDING",
    JobState.RUNNING: "RUNNING",
    JobState.SUCCEEDED: "SUCCEEDED",
    JobState.FAILED: "FAILED",
    # A loop that waits for its end would wait for ever.
    JobState.CANCELLED: "FAILED",
}
_ENDED: Final = frozenset({"SUCCEEDED", "FAILED"})
_WRONG_CONFIG: Final = "write it as {'entrypoint': 'python train.py', 'runtime_env': {…}}"
_CONFIG: Final = frozenset({
    "entrypoint", "runtime_env", "metadata", "submission_id", "entrypoint_num_cpus", "entrypoint_num_gpus",
    "entrypoint_memory", "entrypoint_resources", "entrypoint_label_selector",
})  # fmt: skip


class Forgetting:
    """How long the cluster has answered that it does not know a job."""

    def __init__(self) -> None:
        self._since: float | None = None

    def is_certain(self, answer: JobStatus | Absent | None, at: float) -> bool:
        """Whether it says so at ``at``, in s, and has for ten minutes. None, for no answer, counts neither way."""
        if answer is None:
            return False
        if answer != ABSENT:
            self._since = None
            return False
        if self._since is None:
            self._since = at
        return at - self._since >= LATE_S


def check_job_status(head_pod: str, job_id: str, namespace: str = "default") -> JobStatus:
    """RUNNING, FAILED, SUCCEEDED or PENDING, or UNKNOWN if the cluster does not answer or knows no such job. UNKNOWN is
    no failure, and the log says why. A job that was stopped is FAILED.

    Raises :class:`NotSetUpError` if no try can succeed: no kubectl, no such pod, an invalid address.
    """
    return _status(reach(head_pod, namespace).jobs, job_id) or "UNKNOWN"


def get_progress(head_pod: str, job_id: str, namespace: str = "default") -> JobProgress:
    """The job's progress by the end of its log, in the forms in which training programs print it: the step, the total
    number of steps, the loss and the throughput. Each is None if the log does not show it or could not be read.

    Raises :class:`NotSetUpError` as :func:`check_job_status`.
    """
    return progress_in(_log(reach(head_pod, namespace).jobs, job_id) or "")


def get_current_step(head_pod: str, job_id: str, namespace: str = "default") -> int | None:
    """The last step in the job's log. None: it shows no step yet, or could not be read.

    Raises :class:`NotSetUpError` as :func:`check_job_status`.
    """
    return get_progress(head_pod, job_id, namespace).step


def progress_in(text: str) -> JobProgress:
    """The progress in the lines of a log."""
    found = Progress()
    for line in text.splitlines():
        found.read(line)
    return JobProgress(found.step, found.total_steps, found.loss, found.throughput, found.throughput_unit)


def detect_stall(
    head_pod: str,
    job_id: str,
    stagnation_threshold: float = 300,
    check_interval: float = 10,
    namespace: str = "default",
) -> bool:
    """Whether the job makes no step for ``stagnation_threshold`` seconds.

    It watches until that is clear. False: there is another step, or the job does not run. True: it has run for that
    time without another step. Before its first step, a job stands still if it prints nothing. Also False if the cluster
    could not be asked within twice the time.

    Raises :class:`NotSetUpError` as :func:`check_job_status`.
    """
    jobs = reach(head_pod, namespace).jobs
    began = time.monotonic()
    first: tuple[float, object] | None = None
    while True:
        status = _status(jobs, job_id)
        at = time.monotonic()
        text = _log(jobs, job_id) if status == "RUNNING" else None
        if status in _ENDED or status == "PENDING":
            return False
        if text is not None:
            step = progress_in(text).step
            shows = text if step is None else step
            if first is None:
                first = at, shows
            elif shows != first[1]:
                return False
            elif at - first[0] >= stagnation_threshold:
                return True
        if at - began >= 2 * stagnation_threshold + check_interval:
            log.warning("whether job %.200s stands still could not be found out", job_id)
            return False
        due = began if first is None else first[0]
        time.sleep(max(0.1, min(check_interval, due + stagnation_threshold - at)))


def monitor_job(
    head_pod: str,
    job_id: str,
    check_interval: float = 30,
    timeout: float | None = None,
    namespace: str = "default",
) -> MonitorResult:
    """Watch the job until it has ended, or for ``timeout`` seconds (None: without a limit). A cluster that does not
    answer is asked again. One that no longer knows the job is asked again for ten minutes.

    Raises :class:`JobNotFoundError` or :class:`NotReachedError` if the first question has no answer, and
    :class:`NotSetUpError` as :func:`check_job_status`.
    """
    jobs = reach(head_pod, namespace).jobs
    began = time.monotonic()
    with translated():
        if jobs.state(job_id) is None:
            raise JobNotFoundError(job_id)
    forgetting = Forgetting()
    while True:
        found = _answered(jobs, job_id)
        now = time.monotonic()
        status = _definite(found)
        forgotten = forgetting.is_certain(found, now)
        over = timeout is not None and now - began >= timeout
        if status in _ENDED or forgotten or over:
            text = _log(jobs, job_id)
            return MonitorResult(status or "UNKNOWN", round(now - began, 3), progress_in(text or "").step)
        left = check_interval if timeout is None else min(check_interval, began + timeout - now)
        time.sleep(max(0.1, left))


def stop_job(head_pod: str, job_id: str, timeout: float = 120, namespace: str = "default") -> JobStatus:
    """Stop the job, and wait until it has ended. Returns how it ended: FAILED, or SUCCEEDED if it was faster.

    Raises :class:`NotReachedError` if it has not ended within ``timeout`` seconds, or the cluster does not answer: it
    may still be alive. Raises :class:`JobNotFoundError`, and :class:`NotSetUpError` as :func:`check_job_status`.
    """
    jobs = reach(head_pod, namespace).jobs
    until = time.monotonic() + timeout
    with translated():
        if jobs.state(job_id) is None:
            raise JobNotFoundError(job_id)
        jobs.stop(job_id)
    while True:
        status = _status(jobs, job_id)
        if status is not None and status in _ENDED:
            return status
        if time.monotonic() >= until:
            raise NotReachedError(
                f"job {job_id:.200} was asked to stop, and has not ended within {timeout:g} s ({status or 'UNKNOWN'})",
                "one that Ray has not scheduled stays PENDING until what it asks for is there",
            )
        time.sleep(1.0)


def submit_job_with_resume(
    head_pod: str, checkpoint_path: str | os.PathLike[str] | None, config: Mapping[str, Any], namespace: str = "default"
) -> str:
    """Submit a job that resumes from ``checkpoint_path`` (None: from the beginning). Returns its new id.

    ``config`` has the ``entrypoint``, and may have ``runtime_env``, ``metadata``, ``submission_id`` and the resources
    of ``ray job submit``, such as ``entrypoint_num_gpus`` for ``--entrypoint-num-gpus``. The job finds the checkpoint
    in LASTBEAT_RESUME_FROM, and in LASTBEAT_RESUME_STEP the step that the checkpoint's name shows.

    Raises :class:`NotSubmittedError` if that job certainly does not run, and :class:`NotSetUpError` as
    :func:`check_job_status`. Raises :class:`UncertainError` if that is unknown: the same ``config`` with its
    ``submission_id`` may be submitted again, and is one job.
    """
    request = _request(checkpoint_path, config)
    jobs = reach(head_pod, namespace).jobs
    job = str(request["submission_id"])
    try:
        return jobs.submit(request)
    except LauncherError as error:
        failed = error
    fault = _not_taken(jobs, request, failed)
    if fault is None:
        return job
    # Raised here, so that nothing secret in a request is chained to it.
    raise fault


def _not_taken(jobs: JobsApi, request: Mapping[str, Any], failed: LauncherError) -> LaunchError | None:
    """Why the job of ``request`` was not submitted, or may not have been. None: it was."""
    job, why = str(request["submission_id"]), str(failed)
    taken = _TAKEN in why
    if not taken and isinstance(failed, JobRefusedError | NotLaunchedError):
        return NotSubmittedError(why, failed.advice)
    # The cluster may have the job all the same. An id of ours is submitted again only after an unclear answer.
    if not taken or _OWN_ID.fullmatch(job):
        try:
            found = jobs.job(job)
        except LauncherError:
            return UncertainError(job, why)
        if found is not None and found.get("entrypoint") == request["entrypoint"]:
            return None
    # The job may still come: the request may be on its way.
    return (
        NotSubmittedError(why, "leave 'submission_id' out, or choose another one")
        if taken
        else UncertainError(job, why)
    )


def _request(checkpoint_path: str | os.PathLike[str] | None, config: Mapping[str, Any]) -> dict[str, Any]:
    """The request of a submission. Raises :class:`NotSubmittedError` for an invalid config."""
    entrypoint = config.get("entrypoint")
    if not isinstance(entrypoint, str) or not entrypoint.strip():
        raise NotSubmittedError("config has no 'entrypoint'", _WRONG_CONFIG)
    unknown = sorted(str(each) for each in config if each not in _CONFIG)
    if unknown:
        raise NotSubmittedError(
            f"config has {unknown[0][:60]!r}, which is unknown", f"it may have {', '.join(sorted(_CONFIG))}"
        )
    runtime_env = config.get("runtime_env") or {}
    variables = runtime_env.get("env_vars") or {} if isinstance(runtime_env, Mapping) else None
    if not isinstance(variables, Mapping):
        raise NotSubmittedError("runtime_env is no mapping, or its env_vars are none", _WRONG_CONFIG)
    path = "" if checkpoint_path is None else os.fspath(checkpoint_path)
    step = step_in(path.rstrip("/").rpartition("/")[2]) if path else None
    resume = {RESUME_FROM: path, RESUME_STEP: "" if step is None else str(step)}
    variables = {str(name): str(text) for name, text in variables.items() if name not in resume}
    return {
        **{name: value for name, value in config.items() if value is not None},
        "submission_id": str(config.get("submission_id") or f"{_OWN}{os.urandom(8).hex()}"),
        "runtime_env": {**runtime_env, "env_vars": {**variables, **{k: v for k, v in resume.items() if v}}},
    }


def _status(jobs: JobsApi, job_id: str) -> JobStatus | None:
    """The job's status, or None if it is unknown, which is logged."""
    return _definite(_answered(jobs, job_id))


def _definite(found: JobStatus | Absent | None) -> JobStatus | None:
    return None if found is None or found in {ABSENT, "UNKNOWN"} else found


def _answered(jobs: JobsApi, job_id: str) -> JobStatus | Absent | None:
    """The cluster's answer, or None if there is none."""
    what = f"the state of job {job_id:.200}"

    def ask() -> JobStatus | Absent:
        state = jobs.state(job_id)
        return ABSENT if state is None else _STATUSES.get(state, "UNKNOWN")

    found = _answer_to(what, ask)
    if found == ABSENT:
        log.warning("%s is not known: %s", what, JobNotFoundError(job_id))
    return found


def _log(jobs: JobsApi, job_id: str) -> str | None:
    """The end of the job's log, or None if it could not be read, which is logged."""
    launcher = RayLauncher(jobs)
    found = _answer_to(f"the log of job {job_id:.200}", lambda: launcher.output(job_id, _MOST_LOG_BYTES))
    return None if found is None else found.decode("utf-8", "replace")


def _answer_to(what: str, ask: Callable[[], T]) -> T | None:
    """The answer, or None if there is none but a later try may get one. Raises :class:`NotSetUpError`."""
    try:
        return ask()
    except LauncherError as error:
        fault = launch_error(error)
    if not isinstance(fault, NotReachedError):
        raise fault
    log.warning("%s is not known: %s", what, fault)
    return None
