"""How a program died, in words: exit status, signal, and whether the kernel ran out of memory."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_WHAT = {
    "SIGABRT": "it ended itself: a failed assertion or allocation, or an uncaught C++ exception",
    "SIGBUS": "a bus error: a truncated file in memory, or a full /dev/shm",
    "SIGFPE": "an arithmetic error",
    "SIGILL": "an instruction that this processor does not know",
    "SIGSEGV": "a segmentation fault in native code",
    "SIGTERM": "somebody ended it: a person, the scheduler or a spot reclaim",
    "SIGXCPU": "its limit of processor time",
    "SIGPIPE": "whoever read its output went away",
}
_STOPS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}


@dataclass(frozen=True, slots=True)
class Death:
    """The end of a child."""

    status: int
    """Exit status, or minus the signal that killed it."""
    oom_kills: int = 0
    """How many processes of its cgroup the kernel's OOM killer ended while it ran."""
    passed: tuple[int, ...] = ()
    """Signals that reached the wrapper, and so the child, not long before its end, in their order."""

    @property
    def cancelled(self) -> bool:
        """Whether somebody outside stopped it."""
        return any(number in _STOPS for number in self.passed) or self.status == -signal.SIGINT

    @property
    def well(self) -> bool:
        return self.status == 0 and not self.cancelled


def signal_name(number: int) -> str:
    """``SIGTERM`` for 15; ``signal 40`` for what has no name of its own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def how(death: Death) -> str:
    """What ended it: ``exit status 3``, ``killed by SIGSEGV (signal 11): …``."""
    memory = "the kernel's OOM killer (oom-kill) ended it: the host or the job's memory limit ran out of memory"
    if death.status >= 0:
        said = f"exit status {death.status}"
        if 128 < death.status < 128 + signal.NSIG:
            said += f" (128 + {death.status - 128}: a process of it was killed by {signal_name(death.status - 128)})"
        if death.status and death.oom_kills:
            said += "; the kernel's OOM killer (oom-kill) ended a process of it: out of memory"
        return said
    number = -death.status
    name = signal_name(number)
    said = f"killed by {name}" + (f" (signal {number})" if name != f"signal {number}" else "")
    if number == signal.SIGKILL:
        return f"{said}: {memory if death.oom_kills else 'often the OOM killer or the scheduler'}"
    return said + (f": {_WHAT[name]}" if name in _WHAT else "")


def first_line(death: Death, program: str, error: str | None = None) -> str:
    """The message of ``_error``. ``error`` is the exception that the output ends with."""
    if death.cancelled:
        stop = next((number for number in reversed(death.passed) if number in _STOPS), signal.SIGINT)
        # As Python calls it, so that whoever searches for either word finds it.
        name = "SIGINT, KeyboardInterrupt" if stop == signal.SIGINT else signal_name(stop)
        return f"Cancelled: received signal {int(stop)} ({name}); {_ended(death, program)}"
    if error is not None and death.status > 0:
        return f"{error} ({how(death)})"
    return _ended(death, program)


def _ended(death: Death, program: str) -> str:
    return f"{program} ended with {how(death)}" if death.status >= 0 else f"{program} was {how(death)}"


def describe(death: Death, program: str, error: str | None, tail: str) -> str:
    """The text of ``_error``: the message, then the last lines of output."""
    message = first_line(death, program, error)
    return f"{message}\n\nThe last lines of its output:\n{tail}\n" if tail else f"{message}\n\nIt printed nothing.\n"


class OomKills:
    """Counts what the kernel's OOM killer ended in a process's memory cgroups, of version 2 or 1.

    ``cgroups`` is where they are mounted. Where there are none, or none can be read, it counts nothing.
    """

    def __init__(self, cgroups: Path = Path("/sys/fs/cgroup"), processes: Path = Path("/proc")) -> None:
        self._cgroups = cgroups
        self._processes = processes
        self._known: dict[Path, int] = {}
        """Counter's file → what it said when it was first looked at."""

    def look(self, process: int | str) -> None:
        """Find the cgroups that ``process`` is in now; a cgroup counts from when it was first seen."""
        text = _read(self._processes / str(process) / "cgroup")
        for line in text.splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            for file in self._files(controllers.split(","), path):
                count = _count(_read(file))
                if count is not None:
                    self._known.setdefault(file, count)
                    break

    def _files(self, controllers: Sequence[str], path: str) -> Sequence[Path]:
        below = path.lstrip("/").removesuffix(" (deleted)")
        if controllers == [""]:
            return [root / below / "memory.events" for root in (self._cgroups, self._cgroups / "unified")]
        if "memory" in controllers:
            # In a container the path may be the host's, while the mount shows the container's own as its root.
            return [self._cgroups / "memory" / inside / "memory.oom_control" for inside in (below, "")]
        return []

    @property
    def kills(self) -> int:
        """How many since."""
        return sum(max(0, (_count(_read(file)) or 0) - before) for file, before in self._known.items())


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _count(text: str) -> int | None:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isascii() and value.strip().isdigit():
            return int(value)
    return None
