"""Tells whether a signal was sent to us alone, or to everybody in our group or job.

A scheduler that ends a job (``scancel``), a shell that ends a pipeline or a key on the terminal signals every process.
Then the child has its signal already, and a second one would be an order to stop at once: ``torchrun`` and many
scripts leave their clean-up halfway when told twice. Nobody says whom a signal was sent to, so a second process of our
own stands by and notes what reaches it.
"""

import os
import select
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

from lastbeat.sdk.descriptors import pipe

_RECENT_S = 1.0


class Witness:
    """A fork of this process that does nothing but note signals, and ends with it.

    Make it before any thread is started, with ``numbers`` held back. ``apart`` puts it into a session of its own, as
    the child is; otherwise both stay in our process group.
    """

    def __init__(self, numbers: Iterable[int], *, apart: bool) -> None:
        numbers = list(numbers)
        life, self._life = pipe()
        self._told, telling = pipe()
        self._seen: dict[int, float] = {}
        if os.fork() == 0:
            os.close(self._life)
            os.close(self._told)
            _note(numbers, life, telling, apart=apart)
        os.close(life)
        os.close(telling)
        os.set_blocking(self._told, False)

    def saw(self, number: int, most_s: float = 0.1) -> bool:
        """Whether the signal ``number``, which has just reached us, reached others as well."""
        deadline = time.monotonic() + most_s
        while True:
            self.collect()
            at = self._seen.pop(number, None)
            if at is not None and time.monotonic() - at < _RECENT_S:
                return True
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self._told], [], [], left_s)[0]:
                return False

    def collect(self) -> None:
        """Take note of when it saw what; call it now and then."""
        with suppress(BlockingIOError):
            while numbers := os.read(self._told, 256):
                self._seen.update(dict.fromkeys(numbers, time.monotonic()))

    def close(self) -> None:
        """Let it end. Not waited for: it may have been stopped, and we end anyway."""
        os.close(self._life)


def _note(numbers: Iterable[int], life: int, telling: int, *, apart: bool) -> None:
    """What the fork does until whoever made it is gone. Never returns."""
    try:
        if apart:
            os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            # It must not keep open what others wait for the end of.
            os.dup2(nothing, stream)
        os.set_blocking(telling, False)
        signal.set_wakeup_fd(telling, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        while os.read(life, 1):
            continue
    finally:
        os._exit(0)
