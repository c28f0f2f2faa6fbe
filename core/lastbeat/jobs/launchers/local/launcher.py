"""Runs jobs as local processes.

    submit ──► FOLDER/lock, held by the keeper from its start ──► keeper ──► command, in its own session
               FOLDER/spec.json        FOLDER/job.json                  FOLDER/exit.json

``FOLDER`` belongs to the job's name. A submitter takes its lock first and hands it to the keeper, so no other process
can take it in between. A submitter that dies before the keeper begins leaves the lock free and no ``job.json``: nothing
has happened. So a name is used once, whichever process dies.
"""

import fcntl
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from lastbeat.jobs.launchers import processes
from lastbeat.jobs.launchers.local import keeper
from lastbeat.jobs.launchers.local.keeper import EXIT, JOB, SPEC
from lastbeat.jobs.launchers.port import JobPreview, JobRefusedError, LauncherError, NotLaunchedError
from lastbeat.jobs.launchers.processes import ProcessIdentity
from lastbeat.model.job import AdoptedJob, JobReport, JobSpec, JobState
from lastbeat.stores.port import Store

_LOCK: Final = "lock"
_SAID: Final = "keeper.log"
_BEGIN_S: Final = 20.0
"""Most seconds until a keeper writes ``job.json``, even on a busy machine."""
_POLL_S: Final = 0.02
_LONGEST_PID: Final = 10
_ADOPTED: Final = re.compile(r"pid:(\d{1,10}):(\d{1,20}):([0-9a-f-]{0,36})(?::(.{1,255}))?")
"""Id of a process that lastbeat did not start: pid, start, boot and host."""
_GRACE_S: Final = 30.0
"""Seconds from SIGTERM to SIGKILL if the job sets no other grace period."""
_LOST: Final = "its keeper is gone, so how it ended is unknown"


def launcher(state: Path, options: Sequence[str] = (), place: str = "") -> "LocalLauncher":
    """The launcher of this machine's processes. It keeps their folders below ``state``."""
    return LocalLauncher(state / "jobs")


def adopted(pid: int) -> str:
    """The id of a local process that lastbeat did not start. Raises :class:`JobRefusedError`."""
    process = processes.identity(pid)
    if process is None:
        raise JobRefusedError(f"there is no process {pid} on this machine", "name one that runs, as ps shows it")
    return f"pid:{process.pid}:{process.started}:{process.boot}:{os.uname().nodename}"


def adoption(job: str, options: Sequence[str] = ()) -> AdoptedJob:
    """What is known of the process with that pid. Its exit status stays unknown, because it is not our child."""
    if not job.isdecimal() or len(job) > _LONGEST_PID:
        raise JobRefusedError(f"{job[:60]!r} is no number of a process", "pgrep -af python shows them")
    pid = int(job)
    identity = adopted(pid)
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
        began_at = processes.began_at(ProcessIdentity(pid, int(identity.split(":")[2]), identity.split(":")[3]))
    except OSError as error:
        raise LauncherError(f"process {pid} cannot be looked at: {error.strerror or error}") from None
    files = tuple(sorted(each for each in outputs if each.startswith("/") and Path(each).is_file()))
    return AdoptedJob(identity, began_at, cwd, files)


def preview(spec: JobSpec, name: str, now: datetime) -> JobPreview:
    """An empty preview: the command says it all."""
    return JobPreview()


class LocalLauncher:
    """Runs jobs as processes that outlive the supervisor."""

    kind = "local"
    limit_s = 30.0

    def __init__(self, folder: Path, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._folder = folder
        self._sleep = sleep
        self._asked: dict[str, float] = {}
        """Jobs without a keeper → when their end was requested, on the monotonic clock."""
        self._adopted: dict[str, set[ProcessIdentity]] = {}
        """Adopted job → its processes seen so far."""

    def place(self) -> str:
        return f"{os.uname().nodename}:{self._folder.absolute()} uid {os.getuid()}"

    def submit(self, spec: JobSpec, name: str, since: datetime) -> str:
        folder = self._of(name)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_younger(folder, since):
                return name
            # The keeper inherits the lock and holds it as long as it lives.
            with _lock(folder) as held:
                if held is None:
                    raise LauncherError(f"another process starts {name}, or an older job of that name runs")
                if self._is_younger(folder, since):
                    return name
                if _outlived(folder):
                    raise LauncherError(
                        f"{name}: an older job of that name lost its keeper, and a part of it still runs"
                    )
                for file in (JOB, EXIT):
                    (folder / file).unlink(missing_ok=True)
                keeper.reserve(folder)
                _write_spec(folder, replace(spec, output=str(_output(spec, folder))))
                _start_keeper(folder, held)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise NotLaunchedError(f"{name}: {folder}: {error}", "make room there") from None
        self._await(folder)
        return name

    def find(self, name: str, since: datetime) -> str | None:
        folder = self._of(name)
        try:
            if self._is_younger(folder, since):
                return name
            if not folder.is_dir():
                return None
            with _lock(folder) as held:
                if held is not None:
                    return name if self._is_younger(folder, since) else None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise LauncherError(f"{name}: {folder}: {error}") from None
        raise LauncherError(f"{name} is just being started, or an older job of that name runs")

    def _is_younger(self, folder: Path, since: datetime) -> bool:
        """Whether the job in ``folder`` began at ``since`` or later."""
        begun = _document(folder / JOB)
        return begun is not None and _time(begun["started_at"]) >= since

    def state(self, job: str) -> JobReport:
        if (found := _ADOPTED.fullmatch(job)) is not None:
            host = os.uname().nodename
            if any(self._family(job, found)):
                return JobReport(JobState.RUNNING, "running", nodes=(host,))
            if found[4] not in {None, host}:
                return JobReport(JobState.UNKNOWN, reason=f"it runs on {found[4]}, so only {found[4]} can tell of it")
            return JobReport(JobState.GONE, "gone", "no process collected its exit status")
        folder = self._of(job)
        try:
            spec, begun, ended = (_document(folder / name) for name in (SPEC, JOB, EXIT))
            if begun is None:
                # It may run on another machine, or be remembered in another folder.
                why = f"nothing in {self._folder} on {os.uname().nodename} knows of it: ask where it was started"
                return JobReport(JobState.UNKNOWN, reason=why)
            return _report(folder, spec or {}, begun, ended)
        except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
            return JobReport(JobState.UNKNOWN, reason=f"{folder}: {error}")

    def states(self, jobs: Collection[str]) -> Mapping[str, JobReport]:  # noqa: ARG002 - each has files of its own
        return {}

    def output(self, job: str, most: int) -> bytes | None:  # noqa: ARG002 - it is in files
        return None

    def files(self, path: str) -> Store | None:  # noqa: ARG002 - the port's signature
        return None

    def cancel(self, job: str) -> None:
        if (found := _ADOPTED.fullmatch(job)) is not None:
            self._end(job, self._family(job, found), _GRACE_S)
            return
        try:
            folder = self._of(job)
            begun, ended = (_document(folder / name) for name in (JOB, EXIT))
            if begun is None or ended is not None:
                return
            parent = _keeper(begun)
            if processes.lives(parent):
                processes.send(parent, signal.SIGTERM)
                # Wake a suspended process, so that it handles the signal.
                processes.send(parent, signal.SIGCONT)
                return
            spec = _document(folder / SPEC) or {}
            self._end(job, _survivors(folder, begun), float(spec.get("grace_s", _GRACE_S)))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise LauncherError(f"{job} could not be ended: {error}") from None

    def _end(self, job: str, left: Iterable[ProcessIdentity], grace_s: float) -> None:
        """End a job without a keeper: SIGTERM first, and SIGKILL for processes still alive ``grace_s`` later. The
        caller repeats the call until the job has ended."""
        now = time.monotonic()
        late = now - self._asked.setdefault(job, now) > grace_s
        for process in left:
            processes.send(process, signal.SIGKILL if late else signal.SIGTERM)

    def _family(self, job: str, found: "re.Match[str]") -> list[ProcessIdentity]:
        """The living processes among an adopted process and all descendants seen so far."""
        first = ProcessIdentity(int(found[1]), int(found[2]), found[3])
        known = {each for each in self._adopted.get(job, {first}) if processes.lives(each)}
        known |= {child for each in known for child in processes.below(each.pid)}
        self._adopted[job] = known
        return sorted(known)

    def _of(self, name: str) -> Path:
        """The job's folder. Its name is hashed, because job names may be too long for a file or differ only in case."""
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        return self._folder / f"{name[:100]}-{digest}"

    def _await(self, folder: Path) -> None:
        """Wait until the keeper has written ``job.json``."""
        until = time.monotonic() + _BEGIN_S
        while not (folder / JOB).exists():
            with _lock(folder) as held:
                if held is not None and not (folder / JOB).exists():
                    said = (folder / _SAID).read_text(encoding="utf-8", errors="replace").strip().splitlines()
                    raise NotLaunchedError(f"its keeper ended at once: {said[-1] if said else 'without a word'}")
            if time.monotonic() > until:
                raise LauncherError(f"its keeper has not said within {_BEGIN_S:g} s what it started")
            self._sleep(_POLL_S)


def _report(folder: Path, spec: dict[str, Any], begun: dict[str, Any], ended: dict[str, Any] | None) -> JobReport:
    known = JobReport(
        JobState.RUNNING,
        "running",
        nodes=(os.uname().nodename,),
        started_at=_time(begun["started_at"]),
        outputs=(str(spec["output"]),) if spec.get("output") else (),
    )
    if ended is None:
        if begun["boot"] != processes.boot():
            host = begun.get("host", known.nodes[0])
            if host not in known.nodes:
                # The home is shared between machines: from here, it is unknown whether the job lives.
                return JobReport(JobState.UNKNOWN, reason=f"it was started on {host}, so only {host} can tell of it")
            return replace(known, state=JobState.NODE_LOST, said="boot", reason="the machine has been started again")
        if processes.lives(_keeper(begun)) or any(_survivors(folder, begun)):
            return known
        host = begun.get("host", known.nodes[0])
        if host not in known.nodes:
            # The job runs in a container of this machine, with its own process ids.
            return JobReport(JobState.UNKNOWN, reason=f"it was started on {host}, so only {host} can tell of it")
        ended = _document(folder / EXIT)
        if ended is None:
            return replace(known, state=JobState.GONE, said="gone", reason=_LOST)
        # Its keeper ended between two checks.
    code, number = ended.get("code"), ended.get("signal")
    # A cancelled job may still end with exit status 0.
    state = JobState.CANCELLED if ended.get("cancelled") else JobState.SUCCEEDED if code == 0 else JobState.FAILED
    said = f"exit status {code}" if number is None else f"signal {number}"
    return replace(
        known,
        state=state,
        said=said,
        reason=str(ended.get("reason", "")),
        exit_code=code,
        signal=number,
        ended_at=_time(ended["ended_at"]),
    )


def _outlived(folder: Path) -> bool:
    """Whether processes of the job in ``folder`` have outlived its keeper."""
    begun = _document(folder / JOB)
    return begun is not None and any(_survivors(folder, begun))


def _keeper(begun: dict[str, Any]) -> ProcessIdentity:
    return ProcessIdentity(begun["keeper"], begun["keeper_started"], begun["boot"])


def _survivors(folder: Path, begun: dict[str, Any]) -> Iterator[ProcessIdentity]:
    """The processes of a job that have outlived its keeper."""
    if begun["boot"] != processes.boot():
        return iter(())
    return processes.of_job(str(folder), begun.get("tag"), begun["keeper_started"])


def _start_keeper(folder: Path, lock: int) -> None:
    # Run the same sources as this process, without changing the environment that the job inherits. The double fork
    # detaches the keeper, so that a long-lived supervisor need not reap it.
    script = (
        "import os, sys; os.fork() and os._exit(0); sys.path[:0] = sys.argv[2:]; "
        "from pathlib import Path; from lastbeat.jobs.launchers.local import keeper; keeper.main(Path(sys.argv[1]))"
    )
    sources = [entry for entry in sys.path if Path(entry).is_absolute()]
    with (folder / _SAID).open("wb") as said:
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


@contextmanager
def _lock(folder: Path) -> Iterator[int | None]:
    """The open, locked file of the folder, or None if another process holds the lock."""
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield handle
    finally:
        # The lock belongs to the open file description, which the keeper shares once it runs.
        os.close(handle)


def _output(spec: JobSpec, folder: Path) -> Path:
    """The file for the output. A relative path is resolved in the job's folder, not in the keeper's."""
    return Path(spec.cwd, spec.output) if spec.output else folder / "output.log"


def _write_spec(folder: Path, spec: JobSpec) -> None:
    document = {
        "command": list(spec.command),
        "cwd": spec.cwd,
        "environment": dict(spec.environment),
        "inherited": None if spec.inherited is None else dict(spec.inherited),
        "output": spec.output,
        "grace_s": spec.grace_s,
    }
    (folder / SPEC).write_text(json.dumps(document), encoding="utf-8")


def _document(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)
