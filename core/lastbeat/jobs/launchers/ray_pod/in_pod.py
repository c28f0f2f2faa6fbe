"""Carries out one request of lastbeat inside a pod, by the pod's own Python.

It comes over standard input together with the modules that it needs
(:mod:`lastbeat.jobs.launchers.ray_pod.pod_python`). So nothing has to be installed there, and neither the request nor a
secret in it is on a command line. Python 3.8 and its standard library, no more.

Jobs are kept as those of this machine are (:mod:`lastbeat.jobs.launchers.local.folder`).
"""

from __future__ import annotations

import base64
import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lastbeat.jobs.launchers import processes
from lastbeat.jobs.launchers.local import keeper
from lastbeat.jobs.launchers.local.folder import (
    GRACE_S,
    KEEPER_LOG,
    OUTPUT,
    JobFolder,
    JobFolderError,
    end_all,
    with_children,
)
from lastbeat.jobs.launchers.local.keeper import SPEC
from lastbeat.jobs.launchers.processes import ProcessIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Request = dict[str, Any]
    """Or an answer: an object of JSON."""

_ASKED: Final = "asked.json"
"""When the end of a job without a keeper was first requested."""
_ADOPTED: Final = "adopted.json"
_BEGIN_S: Final = 6.0
"""Most seconds until a keeper writes that its job begins, and for another submitter to finish."""
_NVIDIA_S: Final = 5.0
_HELD_MIB: Final = 512
"""Who holds so much of a GPU's memory uses it, also while it computes nothing."""
_MOST_DEEP: Final = 64
_GONE: Final = {errno.ENOENT, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR}
_LAST: Final = "\U0010ffff".encode()


def answered(request: Request) -> Request:
    """The answer to ``request``, within its limit."""
    signal.alarm(int(request["limit_s"]))
    return _answer(request)


def _answer(request: Request) -> Request:
    """The answer to ``request``. An error is its ``fault``, with ``done`` if the request may have taken effect."""
    try:
        found: Request = REQUESTS[request["do"]](request)
    except JobFolderError as error:
        return {"fault": str(error), "done": error.done}
    except (OSError, ValueError, TypeError, KeyError) as error:
        number = error.errno if isinstance(error, OSError) else None
        why = f"{error}" if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        return {"fault": why[:500], "errno": number, "done": False}
    return found


# Jobs.


def _submit(request: Request) -> Request:
    folder, asked = _of(request["name"]), request["spec"]
    cwd = asked["cwd"] or os.getcwd()  # noqa: PTH109 - where the container's commands begin
    output = os.path.join(cwd, asked["output"]) if asked["output"] else str(folder.path / OUTPUT)  # noqa: PTH118 - as given
    its = {"cwd": cwd, "output": output, "inherited": None, "token": request["token"], "there": _pod_life(request)}
    folder.submit({**asked, **its}, request["since"], _start_keeper, _BEGIN_S, wait_s=_BEGIN_S)
    return _known(folder)


def _start_keeper(folder: Path, lock: int) -> None:  # noqa: ARG001 - a fork has it
    (folder / _ASKED).unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _become_keeper(folder)
    os.waitpid(child, 0)


def _become_keeper(folder: Path) -> None:
    """In a child: double-fork the keeper. Neither process returns."""
    try:
        os.setsid()
        if os.fork() == 0:
            # Whoever waits for the end of this request waits for its output's.
            said = os.open(folder / KEEPER_LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for number, handle in enumerate((nothing, said, said)):
                os.dup2(handle, number)
            os.chdir("/")
            keeper.main(folder)
    except BaseException as error:  # noqa: BLE001 - nothing of the request may go on here
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(0)


def _find(request: Request) -> Request:
    folder = _of(request["name"])
    return _known(folder) if folder.find(request["since"]) else {"token": None}


def _known(folder: JobFolder) -> Request:
    """Which job there is."""
    spec = folder.document(SPEC)
    if spec is None:
        raise JobFolderError(f"{folder.path / SPEC} is gone, so which job is there is unknown", done=True)
    return {"token": spec["token"], "there": spec["there"]}


def _pod_life(request: Request) -> str:
    """The pod, its container and this life of it, as ids of jobs have them."""
    return f"{request['there']}/{_life()}"


def _state(request: Request) -> Request:
    folder = _of(request["name"])
    job = folder.look()
    if job is not None and job.spec.get("token") == request["token"]:
        return {"known": True, "begun": job.begun, "ended": job.ended, **_here(request, job.runs)}
    spec = folder.document(SPEC)
    another = spec["there"] if spec is not None and spec["token"] != request["token"] else None
    # Another process may have cleared this folder away from under a job that runs.
    runs = another is None and any(processes.of_job(str(folder.path)))
    return {"known": False, "another": another, **_here(request, runs)}


def _states(request: Request) -> Request:
    answers = [_answer(each) for each in request["jobs"]]
    runs = any(each.get("runs") for each in answers)
    return {"answers": answers, "runs": runs, "gpus": _gpus() if runs and request["gpus"] else None}


def _here(request: Request, runs: bool) -> Request:
    gpus = _gpus() if runs and request["gpus"] else None
    return {"runs": runs, "node": os.uname().nodename, "life": _life(), "gpus": gpus}


def _cancel(request: Request) -> Request:
    folder = _of(request["name"])
    spec = folder.document(SPEC)
    if spec is not None and spec["token"] != request["token"]:
        return {}
    if folder.look() is None:
        _end(folder, processes.of_job(str(folder.path)), GRACE_S)
    else:
        folder.cancel(lambda left, grace_s: _end(folder, left, grace_s))
    return {}


def _end(folder: JobFolder, left: Iterable[ProcessIdentity], grace_s: float) -> None:
    """End a job without a keeper: SIGTERM, then SIGKILL for processes that live ``grace_s`` later. The caller repeats
    the request until the job has ended."""
    now, living = time.time(), list(left)
    if not living:
        return
    asked = folder.document(_ASKED)
    if asked is None:
        _write(folder, _ASKED, {"at": now})
    end_all(living, late=asked is not None and now - asked["at"] > grace_s)


def _output(request: Request) -> Request:
    folder = _of(request["name"])
    if "pid" in request:
        known = folder.document(_ADOPTED) or {}
        paths = known.get("outputs", [])
    else:
        spec = folder.document(SPEC)
        paths = [spec["output"]] if spec is not None and spec["token"] == request["token"] else []
    return _read_at(paths[0], request) if paths else {"size": None}


# Processes of another origin.


def _adopt(request: Request) -> Request:
    pid = request["pid"]
    process = processes.identity(pid)
    if process is None:
        raise JobFolderError(f"there is no process {pid} in the pod's container", done=False)
    if pid == 1:
        raise JobFolderError("process 1 is the container itself: name the process that trains", done=False)
    there = Path(f"/proc/{pid}")
    if os.getuid() not in {0, there.stat().st_uid}:
        raise JobFolderError(f"process {pid} is another user's, so it could not be ended", done=False)
    # Path.readlink came with Python 3.9.
    cwd, *links = (os.readlink(there / name) for name in ("cwd", "fd/1", "fd/2"))  # noqa: PTH115
    outputs = sorted({each for each in links if each.startswith("/") and Path(each).is_file()})
    folder = _of(_adopted_name(process))
    _write(folder, _ADOPTED, {"outputs": outputs, "seen": [list(process)]})
    began_at = processes.began_at(process).timestamp()
    return {"process": list(process), "cwd": cwd, "began_at": began_at, "there": _pod_life(request)}


def _adopted_state(request: Request) -> Request:
    folder = _of(request["name"])
    runs = bool(_family(folder, request))
    return {"known": folder.document(_ADOPTED) is not None, **_here(request, runs)}


def _adopted_cancel(request: Request) -> Request:
    folder = _of(request["name"])
    _end(folder, _family(folder, request), GRACE_S)
    return {}


def _family(folder: JobFolder, request: Request) -> list[ProcessIdentity]:
    """The living processes among an adopted process and all descendants seen so far."""
    kept = folder.document(_ADOPTED) or {"outputs": [], "seen": [request["process"]]}
    living = with_children(ProcessIdentity(*each) for each in kept["seen"])
    if living and [list(each) for each in living] != kept["seen"]:
        _write(folder, _ADOPTED, {**kept, "seen": [list(each) for each in living]})
    return living


def _adopted_name(process: ProcessIdentity) -> str:
    return f"adopted-{process.pid}-{process.started}-{process.boot}"


# Files.


def _list(request: Request) -> Request:
    """A page of keys in the order of their bytes: ``[key, size, modified_ns, version]``, or ``[key, errno, why]``."""
    root, prefix = request["root"], request["prefix"]
    after, limit = request["after"].encode("utf-8", "surrogatepass"), request["limit"]
    found: list[list[Any]] = []
    try:
        for entry in _walk(root, prefix, after, 0):
            found.append(entry)
            if len(found) > limit:
                break
    except OSError as error:
        if error.errno not in _GONE or error.filename != os.path.join(root, prefix):  # noqa: PTH118 - a name, no path
            raise
        _check_root(root)
    return {"entries": found[:limit], "more": len(found) > limit}


def _walk(root: str, prefix: str, after: bytes, deep: int) -> Iterator[list[Any]]:
    start = prefix.encode()
    folder = os.path.join(root, prefix)  # noqa: PTH118 - as above
    with os.scandir(folder) as listed:
        names = sorted(_ordered(listed, prefix))
    for ordering, name in names:
        key = prefix + name
        place = os.path.join(root, key)  # noqa: PTH118 - as above
        full = start + ordering
        if not ordering.endswith(b"/"):
            if full > after:
                yield from _file(place, key)
            continue
        if full + _LAST <= after or (full <= after and not after.startswith(full)):
            continue
        if deep >= _MOST_DEEP:
            if full > after:
                yield [key + "/", errno.EPERM, f"it lies more than {_MOST_DEEP} folders deep"]
            continue
        try:
            yield from _walk(root, key + "/", after, deep + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            if full > after or (after.startswith(full) and after[len(full) :] < _LAST):
                yield [key + "/", error.errno, error.strerror]


def _ordered(listed: Iterator[os.DirEntry[str]], prefix: str) -> Iterator[tuple[bytes, str]]:
    """Names as they sort: a folder's with its slash. Links to folders count as folders right below the root alone:
    deeper ones could lead round in circles. Left out are names that are no UTF-8 and hidden ones, but for folders of
    the root."""
    for entry in listed:
        try:
            name = entry.name.encode()
        except UnicodeEncodeError:
            continue
        try:
            folder = entry.is_dir(follow_symlinks=not prefix)
        except OSError:
            folder = False
        if not entry.name.startswith(".") or (folder and not prefix):
            yield name + b"/" if folder else name, entry.name


def _file(place: str, key: str) -> Iterator[list[Any]]:
    try:
        there = os.stat(place)  # noqa: PTH116 - as above
    except OSError as error:
        if error.errno not in _GONE:
            yield [key, error.errno, error.strerror]
        return
    if stat.S_ISDIR(there.st_mode):
        yield [key, errno.EPERM, "it is a link to a folder, and such links are followed right below the place alone"]
    elif stat.S_ISREG(there.st_mode):
        yield [key, there.st_size, there.st_mtime_ns, _version(there)]


def _folders(request: Request) -> Request:
    try:
        with os.scandir(request["root"]) as listed:
            return {"names": sorted(name for ordering, name in _ordered(listed, "") if ordering.endswith(b"/"))}
    except (FileNotFoundError, NotADirectoryError):
        _check_root(request["root"])
        return {"names": []}


def _read(request: Request) -> Request:
    """A part of a regular file; ``size`` None: there is none."""
    try:
        return _read_at(os.path.join(request["root"], request["key"]), request)  # noqa: PTH118 - as above
    except OSError as error:
        if error.errno not in {*_GONE, errno.ENXIO, errno.ENODEV}:
            raise
        _check_root(request["root"])
        return {"size": None}


def _read_at(path: str, request: Request) -> Request:
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - as above
        return {"size": None}
    # Should a pipe have taken the file's place by now, not even that can keep us waiting.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(handle, "rb") as file:
        there = os.fstat(handle)
        if not stat.S_ISREG(there.st_mode):
            return {"size": None}
        version, most = _version(there), request["most"]
        known = {"size": there.st_size, "modified_ns": there.st_mtime_ns, "version": version}
        if version == request.get("unless"):
            return {**known, "same": True}
        at = max(0, there.st_size - most) if request["from_end"] else request["start"]
        file.seek(at)
        return {**known, "at": at, "body": base64.b64encode(file.read(most)).decode()}


def _clock(request: Request) -> Request:
    """What the file system stamps on a file now: a file server does it by its own clock. A file without a name leaves
    nothing behind; where there can be none, it is the pod's own time."""
    try:
        handle = os.open(request["root"], getattr(os, "O_TMPFILE", os.O_DIRECTORY) | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError:
        return {"ns": time.time_ns()}
    try:
        os.utime(handle)
        return {"ns": os.fstat(handle).st_mtime_ns}
    except OSError:
        return {"ns": time.time_ns()}
    finally:
        os.close(handle)


def _check_root(root: str) -> None:
    """A file system that is not mounted must not look like a place without checkpoints."""
    if not stat.S_ISDIR(os.stat(root).st_mode):  # noqa: PTH116 - as above
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), root)


def _version(there: os.stat_result) -> str:
    return f"{there.st_ino}-{there.st_mtime_ns}-{there.st_size}"


# What all of them need.


def _of(name: str) -> JobFolder:
    """The folder of the job ``name``, below one that is this user's alone."""
    root = Path(os.environ.get("TMPDIR") or "/tmp", f"lastbeat-{os.getuid()}")  # noqa: S108 - looked at, right below
    root.mkdir(mode=0o700, exist_ok=True)
    found = os.lstat(root)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise JobFolderError(f"{root} is no folder of this user's alone, so nothing in it can be trusted", done=False)
    return JobFolder(root / name)


def _life() -> int:
    """Tells this life of the container from its other ones: when its first process began, in clock ticks."""
    first = processes.identity(1)
    return first.started if first is not None else 0


def _gpus() -> list[int] | None:
    """GPUs of this container in use, and in all; None if unknown."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    asked = [program, "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(
            asked, stdin=subprocess.DEVNULL, capture_output=True, timeout=_NVIDIA_S, check=True
        ).stdout[:100_000]
        rows = [[float(each) for each in line.split(",")] for line in told.decode("ascii").splitlines()]
        return [sum(busy > 0 or held >= _HELD_MIB for busy, held in rows), len(rows)]
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _write(folder: JobFolder, name: str, document: Request) -> None:
    path = folder.path / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(document), encoding="utf-8")
    fresh.replace(path)


REQUESTS: Final[dict[str, Callable[[Request], Request]]] = {
    "submit": _submit,
    "find": _find,
    "state": _state,
    "states": _states,
    "cancel": _cancel,
    "output": _output,
    "adopt": _adopt,
    "adopted state": _adopted_state,
    "adopted cancel": _adopted_cancel,
    "list": _list,
    "folders": _folders,
    "read": _read,
    "clock": _clock,
}
