"""Finds out whether a signal was sent to us alone, or to our whole process group or job.

A scheduler that ends a job (``scancel``), a shell that ends a pipeline and a key on the terminal signal every process.
Then the child has the signal already, and forwarding it would send a second one, which means "stop at once":
``torchrun`` and many scripts abandon their clean-up when signalled twice. The kernel does not say to whom else a signal
was sent. So a second process of ours stands by and reports the signals that reach it.
"""

import os
import select
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

from lastbeat.training.exec.child.descriptors import pipe

_RECENT_S = 1.0


class GroupSignalMonitor:
    """A fork of this process that reports the signals it receives, and exits with us.

    Create it before any thread starts, with ``numbers`` blocked. ``own_session`` moves it into its own session, which
    is where the child is behind a pseudo-terminal; otherwise it stays in our process group, as the child does.
    """

    def __init__(self, numbers: Iterable[int], *, own_session: bool) -> None:
        numbers = list(numbers)
        life_read, self._life_write = pipe()
        self._report_read, report_write = pipe()
        self._seen: dict[int, float] = {}
        self.process = os.fork()
        """Its number."""
        if self.process == 0:
            os.close(self._life_write)
            os.close(self._report_read)
            _report_signals(numbers, life_read, report_write, own_session=own_session)
        os.close(life_read)
        os.close(report_write)
        os.set_blocking(self._report_read, False)

    def reached_group(self, number: int, most_s: float = 0.1) -> bool:
        """Whether the signal ``number``, which has just reached us, reached the monitor too. Waits up to ``most_s``."""
        deadline = time.monotonic() + most_s
        while True:
            self.collect()
            at = self._seen.pop(number, None)
            if at is not None and time.monotonic() - at < _RECENT_S:
                return True
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self._report_read], [], [], left_s)[0]:
                return False

    def collect(self) -> None:
        """Read the reports so far. Call it now and then: their time is when they were read."""
        with suppress(BlockingIOError):
            while numbers := os.read(self._report_read, 256):
                self._seen.update(dict.fromkeys(numbers, time.monotonic()))

    def close(self) -> None:
        """Let the fork exit. Do not wait for it: it may have been stopped, and we exit anyway."""
        os.close(self._life_write)


def _report_signals(numbers: Iterable[int], life_read: int, report_write: int, *, own_session: bool) -> None:
    """The fork's work until its parent is gone. Never returns."""
    try:
        if own_session:
            os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            # Or a reader of our output would wait for the fork as well.
            os.dup2(null, stream)
        os.set_blocking(report_write, False)
        signal.set_wakeup_fd(report_write, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        while os.read(life_read, 1):
            continue
    finally:
        os._exit(0)
