"""Local processes by an identity that is never reused: pid, start and boot."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from random import randrange
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK: Final = "LASTBEAT_JOB_FOLDER"
"""Environment variable of all processes of a job. It finds them after their keeper has died."""
_LIMIT: Final = 12
"""Number of RLIMIT_MSGQUEUE, which Python does not name."""
_TAG: Final = re.compile(r"^Max msgqueue size +(\d+) ", re.MULTILINE)
_USUAL: Final = 819_200
"""Default of RLIMIT_MSGQUEUE, in bytes."""
_LEAST: Final = 65_536
_DRAWS: Final = 20
_SUBREAPER: Final = 36
"""prctl's PR_SET_CHILD_SUBREAPER."""
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class ProcessIdentity(NamedTuple):
    """One process of one boot."""

    pid: int
    started: int
    """Its start in clock ticks since the boot, from /proc."""
    boot: str


def boot() -> str:
    """Identifies this boot of the machine."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def identity(pid: int) -> ProcessIdentity | None:
    """The identity of process ``pid``, or None if it has ended. A zombie has ended."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in "ZX" else ProcessIdentity(pid, int(fields[19]), boot())


def began_at(process: ProcessIdentity) -> datetime:
    """When it began, by this machine's clock as it is now."""
    uptime_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    age_s = uptime_s - process.started / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(time.time() - max(0.0, age_s), tz=timezone.utc)


def lives(process: ProcessIdentity) -> bool:
    """Whether this very process still runs. Also true if /proc hides it, as it may another user's processes."""
    if _stat(process.pid) is not None:
        return identity(process.pid) == process
    try:
        os.kill(process.pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    # It may have begun or been reaped between the two reads.
    return identity(process.pid) == process


def of_job(folder: str, tag: int | None = None, since: int = 0) -> Iterator[ProcessIdentity]:
    """Processes of the job of ``folder``, without zombies: those with MARK in their environment or with ``tag`` that
    began at ``since`` (clock ticks since the boot) or later."""
    mark = b"\0" + f"{MARK}={folder}".encode() + b"\0"
    for pid in _pids():
        process = identity(pid)
        if process is None or process.started < since:
            continue
        if tag is not None and tag_of(pid) == tag:
            yield process
            continue
        # The process may be another user's, or gone by now.
        with suppress(OSError):
            if mark in b"\0" + Path(f"/proc/{pid}/environ").read_bytes():
                yield process


def new_tag() -> int | None:
    """A limit of POSIX message queues, in bytes, that no local process has, or None if no value is free.

    A process inherits limits whatever it does to its environment, session and files. Hardly any program uses this
    limit, and those that do leave it as it is.
    """
    soft, hard = resource.getrlimit(_LIMIT)
    most = _USUAL if soft == resource.RLIM_INFINITY else soft
    if most < _LEAST or (hard != resource.RLIM_INFINITY and hard < most):
        return None
    taken = {tag_of(pid) for pid in _pids()}
    drawn = (randrange(most // 2, most) for _ in range(_DRAWS))  # noqa: S311 - no secret
    return next((tag for tag in drawn if tag not in taken), None)


def wear(tag: int) -> None:
    """Tag this process and all that it starts."""
    resource.setrlimit(_LIMIT, (tag, resource.getrlimit(_LIMIT)[1]))


def tag_of(pid: int) -> int | None:
    """The message queue limit of a process, which is its tag if it has one."""
    try:
        text = Path(f"/proc/{pid}/limits").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    found = _TAG.search(text)
    return int(found[1]) if found is not None else None


def become_reaper() -> None:
    """Make orphans below this process its children, if the system supports that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)


def below(ancestor: int) -> Iterator[ProcessIdentity]:
    """Descendants of ``ancestor`` at this moment, zombies left out."""
    parents: dict[int, list[ProcessIdentity]] = {}
    this_boot = boot()
    for pid in _pids():
        fields = _stat(pid)
        if fields is not None and fields[0] not in "ZX":
            parents.setdefault(int(fields[1]), []).append(ProcessIdentity(pid, int(fields[19]), this_boot))
    waiting = [ancestor]
    while waiting:
        for child in parents.get(waiting.pop(), ()):
            yield child
            waiting.append(child.pid)


def send(process: ProcessIdentity, signal_number: int) -> None:
    """Send the signal unless the process has ended. Never signals another process that has reused its pid."""
    with suppress(ProcessLookupError):
        try:
            handle = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return
        except (AttributeError, OSError):
            # pidfd needs Python 3.9, kernel 5.3, and a container that permits the call.
            if lives(process):
                os.kill(process.pid, signal_number)
            return
        try:
            # The handle refers to the process that has this pid now, and keeps doing so.
            if lives(process):
                signal.pidfd_send_signal(handle, signal_number)
        finally:
            os.close(handle)


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208 - thousands of names


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text.rpartition(b")")[2].decode("ascii", "replace").split()
    return fields if len(fields) > 20 else None
