"""Signals as something to wait for, instead of something that interrupts."""

import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType

PASSED = (
    signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGQUIT,
    signal.SIGWINCH,
)  # fmt: skip
_FROM_KERNEL = 0x80  # SI_KERNEL


@dataclass(frozen=True, slots=True)
class Arrived:
    """A signal that arrived."""

    number: int
    from_terminal: bool = False
    """Whether a key or the terminal itself sent it, and so to the whole foreground process group."""


class Signals:
    """Holds back ``PASSED`` and SIGCHLD inside its block; :meth:`wait` gives them out one by one.

    Enter it in the main thread before any other thread starts, for those inherit what is held back. What was ignored
    from the start (``nohup``) stays ignored.
    """

    def __init__(self, passed: Iterable[signal.Signals] = PASSED) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        heeded = {number for number in passed if signal.getsignal(number) != signal.SIG_IGN}
        self.heeded = frozenset(int(number) for number in heeded)
        """Those of ``passed`` that are given out."""
        self._waited = heeded | {signal.SIGCHLD}
        self.before: set[int] = set()
        """What was held back before: what a child must start with."""

    def __enter__(self) -> "Signals":
        self.before = {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)

    def wait(self, most_s: float) -> Arrived | None:
        """The next signal; None when none came within ``most_s``."""
        if sys.platform == "linux":
            found = signal.sigtimedwait(self._waited, most_s)
            return Arrived(found.si_signo, found.si_code == _FROM_KERNEL) if found is not None else None
        # Elsewhere nobody tells who sent it, nor waits with a limit.
        deadline = time.monotonic() + most_s
        while time.monotonic() < deadline:
            if pending := signal.sigpending() & self._waited:
                return Arrived(int(signal.sigwait(pending)))
            time.sleep(min(0.02, most_s))
        return None


def die_of(number: int) -> int:
    """End this process by the signal ``number``, without a core file; the exit status to use where that fails, as
    it does for process 1 of a container."""
    import resource  # noqa: PLC0415 - only for who dies

    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if number not in {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number
