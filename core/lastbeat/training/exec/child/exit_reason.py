"""How a child exited, in words: exit status, signal, and whether the kernel's OOM killer was at work."""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lastbeat.model.oom_kills import NONE_COUNTED

_MEANINGS = {
    "SIGABRT": "it aborted: a failed assertion or allocation, or an uncaught C++ exception",
    "SIGBUS": "a bus error: a truncated memory-mapped file, or a full /dev/shm",
    "SIGFPE": "an arithmetic error",
    "SIGILL": "an instruction that this processor does not support",
    "SIGSEGV": "a segmentation fault in native code",
    "SIGTERM": "it was told to end: by a person, the scheduler or a spot reclaim",
    "SIGXCPU": "its CPU time limit",
    "SIGPIPE": "the reader of its output went away",
}
_SIGKILL_IN_OUTPUT = re.compile(r"\bSIGKILL\b|\bexit ?code\s{0,8}:? -9\b|\bKilled\b")
"""Words of launchers and shells in output for a process that was killed."""
_STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How a child exited."""

    status: int
    """Exit status, or minus the number of the signal that killed it."""
    oom_kills: int | None = None
    """Number of processes of its cgroup that the kernel's OOM killer killed while it ran; None if unknown."""
    signals: tuple[int, ...] = ()
    """Signals that reached this process, and so the child, shortly before the exit, oldest first."""

    @property
    def cancelled(self) -> bool:
        """Whether a signal from outside stopped it."""
        return any(number in _STOP_SIGNALS for number in self.signals) or self.status == -signal.SIGINT

    @property
    def succeeded(self) -> bool:
        """Whether its exit status is 0 and no signal stopped it."""
        return self.status == 0 and not self.cancelled


def signal_name(number: int) -> str:
    """The signal's name, as ``SIGTERM`` for 15; ``signal 40`` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def reason(child_exit: ChildExit, *, one_was_killed: bool = False) -> str:
    """The reason of the exit: ``exit status 3``, or ``killed by SIGSEGV (signal 11): …``. ``one_was_killed`` says that
    by its output, SIGKILL ended one of its processes."""
    if child_exit.status >= 0:
        said = f"exit status {child_exit.status}"
        if 128 < child_exit.status < 128 + signal.NSIG:
            number = child_exit.status - 128
            said += f" (128 + {number}: one of its processes was killed by {signal_name(number)})"
            one_was_killed = one_was_killed or number == signal.SIGKILL
        if child_exit.status and child_exit.oom_kills:
            said += "; the kernel's OOM killer (oom-kill) killed one of its processes: out of memory"
        elif child_exit.status and child_exit.oom_kills == 0 and one_was_killed:
            said += f"; {NONE_COUNTED}"
        return said
    number = -child_exit.status
    name = signal_name(number)
    said = f"killed by {name}" + (f" (signal {number})" if name != f"signal {number}" else "")
    if number == signal.SIGKILL and child_exit.oom_kills:
        why = "the host is out of memory, or the job reached its memory limit"
        return f"{said}: the kernel's OOM killer (oom-kill) killed it: {why}"
    if number == signal.SIGKILL and child_exit.oom_kills == 0:
        return f"{said}, and {NONE_COUNTED}: often a person or the scheduler"
    if number == signal.SIGKILL:
        return f"{said}: often the OOM killer or the scheduler"
    return said + (f": {_MEANINGS[name]}" if name in _MEANINGS else "")


def first_line(child_exit: ChildExit, program: str, error: str | None = None, tail: str = "") -> str:
    """The first line of ``_error``. ``error`` is the exception that the output ends with, ``tail`` its last lines."""
    told = reason(child_exit, one_was_killed=_SIGKILL_IN_OUTPUT.search(tail) is not None)
    if child_exit.cancelled:
        stop = next((number for number in reversed(child_exit.signals) if number in _STOP_SIGNALS), signal.SIGINT)
        # Both words, so that a search for either finds it.
        name = "SIGINT, KeyboardInterrupt" if stop == signal.SIGINT else signal_name(stop)
        return f"Cancelled: received signal {int(stop)} ({name}); {_message(child_exit, program, told)}"
    if error is not None and child_exit.status > 0:
        return f"{error} ({told})"
    return _message(child_exit, program, told)


def _message(child_exit: ChildExit, program: str, told: str) -> str:
    verb = "ended with" if child_exit.status >= 0 else "was"
    return f"{program} {verb} {told}"


def sentinel_text(child_exit: ChildExit, program: str, error: str | None, tail: str) -> str:
    """The text of ``_error``: the message, then the last lines of output."""
    message = first_line(child_exit, program, error, tail)
    return f"{message}\n\nThe last lines of its output:\n{tail}\n" if tail else f"{message}\n\nIt printed nothing.\n"


class OomKillCounter:
    """Counts the kernel's OOM kills in a process's memory cgroups, version 2 or 1.

    ``cgroups`` is the mount point of cgroups, ``processes`` is /proc. Without readable counters the count is unknown.
    """

    def __init__(self, cgroups: Path = Path("/sys/fs/cgroup"), processes: Path = Path("/proc")) -> None:
        self._cgroups = cgroups
        self._processes = processes
        self._known: dict[Path, int] = {}
        """Counter file → its count when it was first read."""

    def watch(self, process: int | str) -> None:
        """Count the kills in the cgroups that ``process`` is in now, each from its first call on."""
        text = _read(self._processes / str(process) / "cgroup")
        for line in text.splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            for file in self._files(controllers.split(","), path):
                count = _oom_kills(_read(file))
                if count is not None:
                    self._known.setdefault(file, count)
                    break

    def _files(self, controllers: Sequence[str], path: str) -> Sequence[Path]:
        inner = path.lstrip("/").removesuffix(" (deleted)")
        if controllers == [""]:
            return [root / inner / "memory.events" for root in (self._cgroups, self._cgroups / "unified")]
        if "memory" in controllers:
            # In a container the path may be the host's, while the mount has the container's own cgroup as its root.
            return [self._cgroups / "memory" / folder / "memory.oom_control" for folder in (inner, "")]
        return []

    @property
    def count(self) -> int | None:
        """OOM kills so far; None if no counter could be read, or one without kills has become unreadable."""
        counts = [(_oom_kills(_read(file)), before) for file, before in self._known.items()]
        seen = sum(max(0, now - before) for now, before in counts if now is not None)
        return seen if seen or (counts and all(now is not None for now, _ in counts)) else None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _oom_kills(text: str) -> int | None:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isascii() and value.strip().isdigit():
            return int(value)
    return None
