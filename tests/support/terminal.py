"""A real pseudo-terminal, and what a person would see on it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.cli import LIMIT_S, environment, without_ansi


class Terminal:
    """What a person would see of ``process``, as text without its colours."""

    def __init__(self, process: "subprocess.Popen[bytes]", master: int) -> None:
        self.process = process
        self.raw = b""
        self._master = master

    @property
    def shown(self) -> str:
        return without_ansi(self.raw.decode("utf-8", "replace"))

    def wait_for(self, condition: Callable[[str], bool]) -> None:
        limit = time.monotonic() + LIMIT_S
        while not condition(self.shown):
            assert time.monotonic() < limit, self.shown[-3000:]
            if not self._read():
                assert condition(self.shown), self.shown[-3000:]
                return

    def wait_for_end(self) -> int:
        limit = time.monotonic() + LIMIT_S
        while self._read():
            assert time.monotonic() < limit, self.shown[-3000:]
        return self.process.wait(LIMIT_S)

    def _read(self) -> bool:
        if not select.select([self._master], [], [], 0.5)[0]:
            return self.process.poll() is None
        try:
            more = os.read(self._master, 65536)
        except OSError:  # How Linux says that the other side is closed.
            return False
        self.raw += more
        return bool(more)


@contextmanager
def terminal(command: list[str], *arguments: str, cwd: Path, **settings: str) -> Iterator[Terminal]:
    """A terminal of 24 lines and 80 columns in which ``command`` runs; it is killed at the end."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=cwd,
        env=environment(cwd, **settings),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait(LIMIT_S)
        os.close(master)
