"""Signals as a queue to wait on, instead of interruptions."""

import os
import signal
import sys
import time
from dataclasses import dataclass
from types import TracebackType

FORWARDED = (
    signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGQUIT,
    signal.SIGWINCH,
)  # fmt: skip
_FROM_KERNEL = 0x80  # SI_KERNEL


@dataclass(frozen=True, slots=True)
class ReceivedSignal:
    """One signal that reached us."""

    number: int
    from_terminal: bool = False
    """Whether the terminal sent it (a key or a hang-up), and so to the whole foreground process group."""


class SignalQueue:
    """Blocks :data:`FORWARDED` and SIGCHLD inside its ``with`` block; :meth:`wait` returns them one by one.

    Enter it in the main thread before any other thread starts, because threads inherit the mask. Signals that were
    ignored from the start (``nohup``) stay ignored.
    """

    def __init__(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        numbers = {number for number in FORWARDED if signal.getsignal(number) != signal.SIG_IGN}
        self.forwarded = frozenset(int(number) for number in numbers)
        """Signals to forward, without ignored ones."""
        self._blocked = numbers | {signal.SIGCHLD}
        self.original_mask: set[int] = set()
        """Signals that were blocked before; the child starts with this mask."""

    def __enter__(self) -> "SignalQueue":
        self.original_mask = {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, self._blocked)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self.original_mask)

    def wait(self, most_s: float) -> ReceivedSignal | None:
        """The next signal; None if none came within ``most_s``."""
        if sys.platform == "linux":
            found = signal.sigtimedwait(self._blocked, most_s)
            return ReceivedSignal(found.si_signo, found.si_code == _FROM_KERNEL) if found is not None else None
        # Other systems have neither a wait with a timeout nor the sender.
        deadline = time.monotonic() + most_s
        while time.monotonic() < deadline:
            if pending := signal.sigpending() & self._blocked:
                return ReceivedSignal(int(signal.sigwait(pending)))
            time.sleep(min(0.02, most_s))
        return None


def exit_by_signal(number: int) -> int:
    """Kill this process with the signal ``number``, without a core file.

    Returns only if that fails, as it does for process 1 of a container: then with the exit status to use.
    """
    import resource  # noqa: PLC0415 - only for a process that ends like this

    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if number not in {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number
