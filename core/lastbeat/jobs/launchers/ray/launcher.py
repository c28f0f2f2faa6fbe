"""Runs jobs on Ray through the Jobs REST API of its dashboard.

Ray accepts a submission id once. A job's id derives from its name and time, so Ray refuses a second submission. A
cluster forgets its jobs when its head restarts without history. So a job is known by its id *and* the head's session:
``run-r0-1f2e3d4c5b@session_2026-…``. If another session does not know the job, it may still be running in the first
one for a while, or on another cluster that had this address. So the launcher concludes nothing for ten minutes, and
nothing ever from an older session.
"""

import json
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from lastbeat.jobs.launchers.port import JobRefusedError, Launcher, LauncherError, NotLaunchedError, TooLongError
from lastbeat.jobs.launchers.ray import jobs as ray_jobs
from lastbeat.jobs.launchers.ray import submission
from lastbeat.jobs.launchers.ray.jobs import JobsApi, RayAddress, RayJobs
from lastbeat.jobs.launchers.ray.reports import STATES, moment, node_ids, report
from lastbeat.jobs.launchers.ray.submission import RayOptions
from lastbeat.model.job import AdoptedJob, GpuUse, JobReport, JobSpec, JobState
from lastbeat.model.text import counted

log = logging.getLogger(__name__)

LATE_S: Final = 600.0
"""Jobs of a cluster's previous session may still be running for this many seconds."""
FEW: Final = 4
"""Up to this number, jobs are asked about each by itself."""
GPUS_S: Final = 30.0
"""Most seconds that a count of GPUs is reused."""
_MOST_CALLS: Final = 9
"""Most calls of a submission: find it, list the nodes, send it twice, and find it again."""
_SESSION: Final = re.compile(r"session_(\d{4}-\d{2}-\d{2}_\d{2}-\d{2}-\d{2}_\d{1,9})\w*")
_JOB_ID: Final = re.compile(r"([^\s/@]{1,300})(?:@(session_[\w.-]{1,100}))?")
_SETTING_UP: Final = re.compile(rb"\A\S+ \S+\s+INFO job_manager\.py:\d+ -- Runtime env is setting up\.\n")
_LISTED: Final = "'ray job list' shows them"
_LINES: Final = 2_000
_MOST_LINES: Final = 200_000
_MOST_REMEMBERED: Final = 1_000
"""Most jobs that an agent keeps notes about."""
_TAILS: Final = 6
"""Most requests for the end of a log, until its length fits."""
_EXTRA: Final = 2
"""Each request transfers at most this many times the bytes wanted."""
_KEPT_PENDING: Final = (
    "it was asked to stop, and Ray cannot stop a job that it has not scheduled: it stays PENDING until what it asks "
    "for is there, or until Ray gives it up (RAY_JOB_START_TIMEOUT_SECONDS on the head, 15 min by default)"
)


def launcher(state: Path, options: Sequence[str] = (), place: str = "") -> "RayLauncher":
    """The launcher of the cluster whose dashboard ``options`` name, or ``place``, or the environment."""
    wanted = submission.options(options)
    return RayLauncher(RayJobs(_address(wanted, place, os.environ)), place)


def adoption(job: str, options: Sequence[str] = ()) -> AdoptedJob:
    """What is known of the job with that submission id or Ray job id."""
    wanted = submission.options(options)
    return adopted(RayJobs(_address(wanted, "", os.environ)), job)


def adopted(jobs: JobsApi, job: str) -> AdoptedJob:
    """:func:`adoption` on the cluster of ``jobs``."""
    asked = _JOB_ID.fullmatch(job)
    if asked is None:
        raise JobRefusedError(f"{job[:60]!r} is no id of a job on Ray", _LISTED)
    session = jobs.session()
    info = jobs.job(asked[1])
    if info is None:
        raise JobRefusedError(f"{jobs.address} knows no job {job[:100]}", _LISTED)
    submission_id = info.get("submission_id")
    if not isinstance(submission_id, str) or not submission_id:
        raise JobRefusedError(
            f"job {job[:100]} was not submitted by 'ray job submit', so Ray neither stops it nor keeps its log",
            "submit it, or watch it by its log",
        )
    if submission_id != asked[1] and _JOB_ID.fullmatch(submission_id) is None:
        raise JobRefusedError(f"its submission id {submission_id[:60]!r} has characters that no id should have")
    entrypoint = info.get("entrypoint")
    began = None if info.get("status") == "PENDING" else moment(info.get("start_time"))
    runtime_env = _without_ours(info.get("runtime_env"))
    environment = runtime_env.pop("env_vars", None)
    metadata = _metadata(info)
    known = []
    if runtime_env:
        known.append(f"{submission.RUNTIME_ENV_JSON}={json.dumps(runtime_env)}")
    if metadata:
        known.append(f"{submission.METADATA_JSON}={json.dumps(metadata)}")
    return AdoptedJob(
        _job_id(submission_id, session),
        began,
        command=("sh", "-c", entrypoint) if isinstance(entrypoint, str) and entrypoint else (),
        options=tuple(known),
        environment={str(k): str(v) for k, v in environment.items()} if isinstance(environment, dict) else {},
    )


class RayLauncher(Launcher):
    """Submits jobs and queries them."""

    kind = "ray"
    limit_s = _MOST_CALLS * ray_jobs.LIMITS.total_s

    def __init__(
        self,
        jobs: JobsApi,
        place: str = "",
        *,
        completed: Callable[[JobSpec], JobSpec] = lambda spec: spec,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``place`` is where its jobs are; anywhere else they are unknown. Empty for the current place. ``completed``
        adds to each job what no record may hold: secrets."""
        self._jobs = jobs
        self._awaited_place = place
        self._completed = completed
        self._clock = clock
        self._lost_since: dict[str, float] = {}
        """Job that another session does not know → since when, on the monotonic clock."""
        self._session = ""
        self._session_at: float | None = None
        """When this session was first seen after another one. None for the first session seen."""
        self._stopped: set[str] = set()
        self._lines: dict[str, int] = {}
        """Job → lines of its log that make about the bytes wanted."""
        self._gpus: GpuUse | None = None
        self._gpus_at: float | None = None
        self._warned = False

    @property
    def reached_by(self) -> tuple[str, ...]:
        """The options of a job by which another process reaches this cluster."""
        return (f"{submission.ADDRESS}={self._jobs.address}",)

    def place(self) -> str:
        return f"{self._jobs.address} uid {os.getuid()}"

    def submit(self, spec: JobSpec, name: str, since: datetime) -> str:
        spec = self._completed(spec)
        asked = submission.request(spec, submission.options(spec.options), name, since)
        known = self.find(name, since)
        if known is not None:
            return known
        session = self._session
        narrowed = self._excluding(asked, spec.excluded_nodes)
        try:
            return _job_id(self._submitted(narrowed, asked, spec.excluded_nodes), session)
        except LauncherError as error:
            if "already exists" not in str(error):
                raise
            # Another process submitted it first.
            found = self.find(name, since)
            if found is None:
                raise
            return found

    def _submitted(self, narrowed: Mapping[str, Any], asked: Mapping[str, Any], excluded: tuple[str, ...]) -> str:
        try:
            return self._jobs.submit(narrowed)
        except JobRefusedError as error:
            if narrowed is asked or "entrypoint_label_selector" not in str(error):
                raise
            self._warn("this version of Ray cannot exclude nodes for an entrypoint", excluded)
            return self._jobs.submit(asked)

    def find(self, name: str, since: datetime) -> str | None:
        self._check_place()
        submission_id = submission.submission_id(name, since)
        session = self._seen_session()
        if self._jobs.job(submission_id) is not None:
            return _job_id(submission_id, session)
        rows = [row for row in self._listed() if _is_of(row, name, since)]
        if rows:
            return _job_id(str(max(rows, key=lambda row: row.get("start_time") or 0)["submission_id"]), session)
        changed_s = LATE_S if self._session_at is None else self._clock() - self._session_at
        if changed_s < LATE_S:
            raise LauncherError(
                f"the cluster at {self._jobs.address} was started again {changed_s:.0f} s ago and has forgotten its "
                f"jobs: whether {name} was among them is unknown",
                f"nothing is started for {LATE_S / 60:g} min, in which what it ran may still end",
            )
        return None

    def alive(self, run_id: str) -> str | None:
        """The submission id of the newest job of the run that is alive, or None. Raises :class:`LauncherError`."""
        of_run = re.compile(rf"{re.escape(run_id)}-r\d{{1,9}}")
        found = [
            row
            for row in self._jobs.jobs()
            if of_run.fullmatch(str((row.get("metadata") or {}).get(submission.NAME)))
            and not STATES.get(str(row.get("status")), JobState.GONE).ended
            and row.get("submission_id")
        ]
        newest = max(found, key=lambda row: row.get("start_time") or 0, default=None)
        return None if newest is None else str(newest["submission_id"])

    def adopted(self, job: str) -> AdoptedJob | None:
        """What is known of the job, which another process submitted, or None if the cluster knows no such job. Raises
        as :func:`adoption`."""
        return None if self._jobs.job(job.partition("@")[0]) is None else adopted(self._jobs, job)

    def _listed(self) -> list[dict[str, Any]]:
        """All jobs, or none if the list is too long. A caller that repeats the same start has already found its id."""
        try:
            return self._jobs.jobs()
        except TooLongError as error:
            log.info("jobs are looked for by their ids alone: %s", error)
            return []

    def state(self, job: str) -> JobReport:
        found = _JOB_ID.fullmatch(job)
        if found is None:
            return JobReport(JobState.GONE, reason=f"{job[:60]!r} is no id of a job on Ray")
        try:
            self._check_place()
            info = self._jobs.job(found[1])
            if info is None:
                return self._forgotten(job, found[2] or "")
        except LauncherError as error:
            return JobReport(JobState.UNKNOWN, reason=error.told)
        return self._report(job, info)

    def _report(self, job: str, info: Mapping[str, Any]) -> JobReport:
        """The report of a job that the cluster knows."""
        self._lost_since.pop(job, None)
        told = report(info)
        if told.state is JobState.PENDING and job in self._stopped:
            return replace(told, reason=_KEPT_PENDING)
        if told.state is JobState.RUNNING:
            return replace(told, gpus=self._gpus_now())
        return told

    def states(self, jobs: Collection[str]) -> Mapping[str, JobReport]:
        """As the port says, by one list of all jobs. Leaves out jobs that the cluster does not know, and a few jobs
        altogether, because the list also has those of other users and those that ended long ago."""
        if len(jobs) <= FEW:
            return {}
        try:
            self._check_place()
            known = {str(row.get("submission_id")): row for row in self._jobs.jobs()}
        except TooLongError as error:
            log.info("each job is asked about by itself: %s", error)
            return {}
        except LauncherError as error:
            return dict.fromkeys(jobs, JobReport(JobState.UNKNOWN, reason=error.told))
        named = {job: known.get(job.partition("@")[0]) for job in jobs if _JOB_ID.fullmatch(job)}
        return {job: self._report(job, row) for job, row in named.items() if row is not None and row.get("status")}

    def output(self, job: str, most: int) -> bytes | None:
        found = _JOB_ID.fullmatch(job)
        if found is None:
            return b""
        self._check_place()
        info = self._jobs.job(found[1])
        if info is None:
            raise LauncherError(f"{self._jobs.address} knows no job {found[1]}, so there is no log", _LISTED)
        node = info.get("driver_node_id")
        if not isinstance(node, str) or not node:
            # It never ran, so Ray's message is the only output.
            message = info.get("message")
            text = message.encode("utf-8", "replace") if isinstance(message, str) and info.get("end_time") else b""
            return _end_of(text, most)
        return _end_of(_own_output(self._tail(node, found[1], most), info), most)

    def cancel(self, job: str) -> None:
        found = _JOB_ID.fullmatch(job)
        if found is None:
            return
        self._check_place()
        if self._jobs.stop(found[1]):
            if len(self._stopped) >= _MOST_REMEMBERED:
                self._stopped.clear()
            self._stopped.add(job)

    # Asking

    def _check_place(self) -> None:
        if self._awaited_place:
            here = self.place()
            if here != self._awaited_place:
                raise LauncherError(f"its jobs are in {self._awaited_place}, and this is {here}", "go on with it there")
            self._awaited_place = ""

    def _seen_session(self) -> str:
        session = self._jobs.session()
        if session != self._session:
            self._session_at = self._clock() if self._session else None
            self._session = session
        return session

    def _forgotten(self, job: str, session: str) -> JobReport:
        """The report of a job that the cluster does not know."""
        now_session = self._seen_session()
        if not session or session == now_session:
            return JobReport(JobState.GONE, "gone", "the cluster answered that it knows no such job")
        before, now = _SESSION.fullmatch(session), _SESSION.fullmatch(now_session)
        if before is not None and now is not None and now[1] < before[1]:
            return JobReport(
                JobState.UNKNOWN,
                reason=f"another cluster answers at {self._jobs.address}: its {now_session} is older than the job's "
                f"own {session}; go on where the job's cluster is reached",
            )
        why = (
            f"the cluster at {self._jobs.address} was started again without its history, or it is another one: its "
            f"{now_session} does not know what {session} ran"
        )
        at = self._clock()
        gone_s = at - self._lost_since.setdefault(job, at)
        if gone_s < LATE_S:
            left = max(1, round((LATE_S - gone_s) / 60))
            return JobReport(
                JobState.UNKNOWN,
                reason=f"{why}; it may still be running, so for {counted(left, 'minute')} nothing follows from that",
            )
        return JobReport(JobState.GONE, "gone", why)

    def _gpus_now(self) -> GpuUse | None:
        """The cluster's allocated GPUs, at most :data:`GPUS_S` old."""
        now = self._clock()
        if self._gpus_at is None or now - self._gpus_at >= GPUS_S:
            self._gpus_at = now
            try:
                found = self._jobs.resources()
                self._gpus = None if found is None else GpuUse(found.gpus_used, found.gpus_available)
            except LauncherError as error:
                log.debug("how many GPUs are given out is not told: %s", error)
                self._gpus = None
        return self._gpus

    def _excluding(self, asked: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
        """``asked`` with those nodes excluded. This binds only the entrypoint, not the tasks and actors that it
        starts."""
        if not names:
            return asked
        if not submission.is_placed(asked):
            self._warn("Ray runs an entrypoint without resources of its own on the head", names)
            return asked
        try:
            known = node_ids(names, self._jobs.nodes())
        except LauncherError as error:
            raise NotLaunchedError(str(error), error.advice) from None
        for name, ids in known.items():
            if not ids:
                log.info("%.100r is no living node of the cluster, so it is not excluded", name)
        excluded = sorted({each for ids in known.values() for each in ids})
        return submission.excluding(asked, excluded) if excluded else asked

    def _warn(self, why: str, names: tuple[str, ...]) -> None:
        if not self._warned:
            self._warned = True
            log.warning("%s, so it cannot be kept away from %s", why, ", ".join(names)[:300])

    def _tail(self, node: str, submission_id: str, most: int) -> bytes:
        """The end of the log. Ray counts it in lines."""
        lines = self._lines.get(submission_id, _LINES)
        best = b""
        for _ in range(_TAILS):
            text, whole = self._jobs.log_tail(node, submission_id, lines, _EXTRA * most)
            count = text.count(b"\n")
            if whole:
                best = text
                if 2 * len(text) >= most or count < lines or lines >= _MOST_LINES:
                    break
                # At the length of these lines, this many fill three quarters of the bytes wanted.
                lines = min(_MOST_LINES, max(2 * lines, 3 * most * lines // (4 * max(1, len(text)))))
            elif lines == 1:
                raise LauncherError(
                    f"the last line of its log is longer than {_EXTRA * most >> 20} MiB", "let it end its lines"
                )
            else:
                lines = max(1, min(lines - 1, 3 * count // (4 * _EXTRA)))
        if len(self._lines) >= _MOST_REMEMBERED:
            self._lines.clear()
        self._lines[submission_id] = lines
        return best


def _address(wanted: RayOptions, place: str, environment: Mapping[str, str]) -> RayAddress:
    """Where the dashboard is. Raises :class:`JobRefusedError`."""
    if wanted.address:
        return ray_jobs.address(wanted.address, submission.ADDRESS)
    named = [(name, environment[name]) for name in ray_jobs.ADDRESSES if environment.get(name)]
    recorded = place.partition(" uid ")[0]
    if recorded:
        # The environment may have a login for the same address.
        for name, text in named:
            try:
                found = ray_jobs.address(text, name)
            except JobRefusedError:
                continue
            if found.url == recorded:
                return found
        return ray_jobs.address(recorded, "the recorded place")
    return ray_jobs.address(named[0][1], named[0][0]) if named else ray_jobs.address(ray_jobs.DEFAULT_ADDRESS, "")


def _job_id(submission_id: str, session: str) -> str:
    return f"{submission_id}@{session}" if re.fullmatch(r"session_[\w.-]{1,100}", session) else submission_id


def _is_of(row: Mapping[str, Any], name: str, since: datetime) -> bool:
    """Whether ``row`` is a job called ``name`` that was submitted at ``since`` or later."""
    metadata, at = row.get("metadata"), row.get("start_time")
    if not isinstance(metadata, dict) or metadata.get(submission.NAME) != name or not row.get("submission_id"):
        return False
    return not isinstance(at, int | float) or at >= int(since.timestamp() * 1000)


def _without_ours(runtime_env: object) -> dict[str, Any]:
    """A job's runtime environment without the entries that lastbeat or Ray added."""
    if not isinstance(runtime_env, dict):
        return {}
    found = {key: value for key, value in runtime_env.items() if not key.startswith("_") and value}
    own = found.get("env_vars")
    if isinstance(own, dict):
        found["env_vars"] = {key: value for key, value in own.items() if not str(key).startswith("LASTBEAT_")}
    return found


def _metadata(info: Mapping[str, Any]) -> dict[str, str]:
    found = info.get("metadata")
    if not isinstance(found, dict):
        return {}
    ours = {submission.NAME, "job_submission_id", "job_name"}
    return {key: value for key, value in found.items() if key not in ours and isinstance(value, str)}


def _own_output(text: bytes, info: Mapping[str, Any]) -> bytes:
    """The job's own output. Ray adds lines to its log with the whole entrypoint, which may hold any text, such as an
    error message that a script searches for. Ray adds them after the job starts, so a quick job's first lines come
    first."""
    text = _SETTING_UP.sub(b"", text, count=1)
    head = f"Running entrypoint for job {info.get('submission_id')}: {info.get('entrypoint')}\n".encode()
    before, found, after = text.partition(head)
    if found:
        return before + after
    # The window may begin within Ray's lines.
    lines = head.splitlines(keepends=True)
    for skipped in range(1, len(lines)):
        rest = b"".join(lines[skipped:])
        if text.startswith(rest):
            return text[len(rest) :]
    return text


def _end_of(text: bytes, most: int) -> bytes:
    """The last whole lines, ``most`` bytes at most."""
    if len(text) <= most:
        return text
    cut = text[-most:]
    return cut[cut.find(b"\n") + 1 :] if b"\n" in cut else cut
