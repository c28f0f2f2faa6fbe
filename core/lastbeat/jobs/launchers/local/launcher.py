"""Runs jobs as local processes, each in a folder that belongs to its name (:mod:`.folder`)."""

import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from lastbeat.jobs.launchers import processes
from lastbeat.jobs.launchers.local.folder import (
    GRACE_S,
    KEEPER_LOG,
    OUTPUT,
    JobFolder,
    JobFolderError,
    KeptJob,
    end_all,
    with_children,
)
from lastbeat.jobs.launchers.port import JobRefusedError, Launcher, LauncherError, NotLaunchedError
from lastbeat.jobs.launchers.processes import ProcessIdentity
from lastbeat.model.job import AdoptedJob, JobReport, JobSpec, JobState

_BEGIN_S: Final = 20.0
"""Most seconds until a keeper writes ``job.json``, even on a busy machine."""
_LONGEST_PID: Final = 10
_ADOPTED: Final = re.compile(r"pid:(\d{1,10}):(\d{1,20}):([0-9a-f-]{0,36})(?::(.{1,255}))?")
"""Id of a process that lastbeat did not start: pid, start, boot and host."""
LOST: Final = "its keeper is gone, so how it ended is unknown"
_BROKEN: Final = (OSError, ValueError, TypeError, KeyError, OverflowError)
"""Errors while a job's documents are read."""


def launcher(state: Path, options: Sequence[str] = (), place: str = "") -> "LocalLauncher":
    """The launcher of this machine's processes. It keeps their folders below ``state``."""
    return LocalLauncher(state / "jobs")


def adoption(job: str, options: Sequence[str] = ()) -> AdoptedJob:
    """What is known of the process with that pid. Its exit status stays unknown, because it is not our child."""
    if not job.isdecimal() or len(job) > _LONGEST_PID:
        raise JobRefusedError(f"{job[:60]!r} is no number of a process", "pgrep -af python shows them")
    pid = int(job)
    identity = processes.identity(pid)
    if identity is None:
        raise JobRefusedError(f"there is no process {pid} on this machine", "name one that runs, as ps shows it")
    if os.getpid() in {pid, *(each.pid for each in processes.below(pid))}:
        raise JobRefusedError(
            f"process {pid} is the supervisor's own, or one that it runs under", "name the process that trains"
        )
    process = Path(f"/proc/{pid}")
    try:
        if os.getuid() not in {0, process.stat().st_uid}:
            raise JobRefusedError(f"process {pid} is another user's, so it could not be ended")
        cwd = str((process / "cwd").readlink())
        outputs = {str((process / f"fd/{number}").readlink()) for number in (1, 2)}
    except OSError as error:
        raise LauncherError(f"process {pid} cannot be looked at: {error.strerror or error}") from None
    files = tuple(sorted(each for each in outputs if each.startswith("/") and Path(each).is_file()))
    name = f"pid:{pid}:{identity.started}:{identity.boot}:{os.uname().nodename}"
    return AdoptedJob(name, processes.began_at(identity), cwd, files)


class LocalLauncher(Launcher):
    """Runs jobs as processes that outlive the supervisor."""

    kind = "local"
    limit_s = 30.0

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._asked: dict[str, float] = {}
        """Jobs without a keeper → when their end was requested, on the monotonic clock."""
        self._adopted: dict[str, list[ProcessIdentity]] = {}
        """Adopted job → its processes seen so far."""

    def place(self) -> str:
        return f"{os.uname().nodename}:{self._folder.absolute()} uid {os.getuid()}"

    def submit(self, spec: JobSpec, name: str, since: datetime) -> str:
        folder = self._of(name)
        kept = spec_document(replace(spec, output=str(_output(spec, folder.path))))
        try:
            folder.submit(kept, since.timestamp(), _start_keeper, _BEGIN_S)
        except JobFolderError as error:
            raise (LauncherError if error.done else NotLaunchedError)(f"{name}: {error}") from None
        except _BROKEN as error:
            raise NotLaunchedError(f"{name}: {folder.path}: {error}", "make room there") from None
        return name

    def find(self, name: str, since: datetime) -> str | None:
        folder = self._of(name)
        try:
            return name if folder.find(since.timestamp()) else None
        except JobFolderError as error:
            raise LauncherError(f"{name}: {error}") from None
        except _BROKEN as error:
            raise LauncherError(f"{name}: {folder.path}: {error}") from None

    def state(self, job: str) -> JobReport:
        host = os.uname().nodename
        if (found := _ADOPTED.fullmatch(job)) is not None:
            if any(self._family(job, found)):
                return JobReport(JobState.RUNNING, "running", nodes=(host,))
            if found[4] not in {None, host}:
                return JobReport(JobState.UNKNOWN, reason=f"it runs on {found[4]}, so only {found[4]} can tell of it")
            return JobReport(JobState.GONE, "gone", "no process collected its exit status")
        folder = self._of(job)
        try:
            kept = folder.look()
            if kept is None:
                # It may run on another machine, or be remembered in another folder.
                why = f"nothing in {self._folder} on {host} knows of it: ask where it was started"
                return JobReport(JobState.UNKNOWN, reason=why)
            return _report(kept, host)
        except _BROKEN as error:
            return JobReport(JobState.UNKNOWN, reason=f"{folder.path}: {error}")

    def cancel(self, job: str) -> None:
        try:
            if (found := _ADOPTED.fullmatch(job)) is not None:
                self._end(job, self._family(job, found), GRACE_S)
            else:
                self._of(job).cancel(lambda left, grace_s: self._end(job, left, grace_s))
        except _BROKEN as error:
            raise LauncherError(f"{job} could not be ended: {error}") from None

    def _end(self, job: str, left: Iterable[ProcessIdentity], grace_s: float) -> None:
        """End a job without a keeper: SIGTERM first, and SIGKILL for processes still alive ``grace_s`` later. The
        caller repeats the call until the job has ended."""
        now = time.monotonic()
        end_all(left, late=now - self._asked.setdefault(job, now) > grace_s)

    def _family(self, job: str, found: "re.Match[str]") -> list[ProcessIdentity]:
        """The living processes among an adopted process and all descendants seen so far."""
        first = ProcessIdentity(int(found[1]), int(found[2]), found[3])
        known = self._adopted[job] = with_children(self._adopted.get(job, [first]))
        return known

    def _of(self, name: str) -> JobFolder:
        """The job's folder. Its name is hashed, because job names may be too long for a file or differ only in case."""
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        return JobFolder(self._folder / f"{name[:100]}-{digest}")


def _report(job: KeptJob, host: str) -> JobReport:
    known = JobReport(
        JobState.RUNNING,
        "running",
        nodes=(host,),
        started_at=_time(job.begun["started_at"]),
        outputs=(str(job.spec["output"]),) if job.spec.get("output") else (),
    )
    if job.ended is not None:
        return with_end(known, job.ended)
    there = job.begun.get("host", host)
    if job.runs:
        return known
    if there != host:
        # Its home is shared between machines, or it runs in a container of this machine, with its own process ids.
        return JobReport(JobState.UNKNOWN, reason=f"it was started on {there}, so only {there} can tell of it")
    if job.begun["boot"] != processes.boot():
        return replace(known, state=JobState.NODE_LOST, said="boot", reason="the machine has been started again")
    return replace(known, state=JobState.GONE, said="gone", reason=LOST)


def with_end(known: JobReport, ended: Mapping[str, Any]) -> JobReport:
    """``known`` with the end that the job's keeper saw."""
    code, number = ended.get("code"), ended.get("signal")
    said = f"signal {int(number)}" if number is not None else f"exit status {int(ended['code'])}"
    # A cancelled job may still end with exit status 0.
    state = JobState.CANCELLED if ended.get("cancelled") else JobState.SUCCEEDED if code == 0 else JobState.FAILED
    return replace(
        known,
        state=state,
        said=said,
        reason=str(ended.get("reason", "")),
        exit_code=code,
        signal=number,
        ended_at=_time(ended["ended_at"]),
    )


def _start_keeper(folder: Path, lock: int) -> None:
    # Run the same sources as this process, without changing the environment that the job inherits. The double fork
    # detaches the keeper, so that a long-lived supervisor need not reap it.
    script = (
        "import os, sys; os.fork() and os._exit(0); sys.path[:0] = sys.argv[2:]; "
        "from pathlib import Path; from lastbeat.jobs.launchers.local import keeper; keeper.main(Path(sys.argv[1]))"
    )
    sources = [entry for entry in sys.path if Path(entry).is_absolute()]
    with (folder / KEEPER_LOG).open("wb") as said:
        subprocess.run(
            [sys.executable, "-c", script, str(folder), *sources],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
            pass_fds=(lock,),
            cwd="/",
            check=False,
            timeout=_BEGIN_S,
        )


def _output(spec: JobSpec, folder: Path) -> Path:
    """The file for the output. A relative path is resolved in the job's folder, not in the keeper's."""
    return Path(spec.cwd, spec.output) if spec.output else folder / OUTPUT


def spec_document(spec: JobSpec) -> dict[str, Any]:
    """What the keeper of a job reads."""
    return {
        "command": list(spec.command),
        "cwd": spec.cwd,
        "environment": dict(spec.environment),
        "inherited": None if spec.inherited is None else dict(spec.inherited),
        "output": spec.output,
        "grace_s": spec.grace_s,
    }


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)
