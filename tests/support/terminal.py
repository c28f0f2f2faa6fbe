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
from typing import Any

from support.cli import environment, popen, without_ansi
from support.waiting import LIMIT_S


class Terminal:
    """What a person would see of ``process``, as text without its colours."""

    def __init__(self, process: "subprocess.Popen[bytes]", master: int, before: list[Any]) -> None:
        self.process = process
        self.raw = b""
        self._master = master
        self._before = before

    def press(self, keys: str) -> None:
        """Type ``keys``; a control character is what the key sends."""
        os.write(self._master, keys.encode())

    def forget(self) -> None:
        """What was shown until now is not of interest any more."""
        self.raw = b""

    def resize(self, columns: int, lines: int) -> None:
        """As a window manager does."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def close(self) -> None:
        """As when a window is closed: nobody holds this side of it any more."""
        with Path(os.devnull).open("r+b", buffering=0) as nothing:
            os.dup2(nothing.fileno(), self._master)

    def modes(self) -> int:
        """The terminal's local modes: whether it echoes, and whether it hands over lines or keys."""
        return int(termios.tcgetattr(self._master)[3])

    @property
    def as_before(self) -> bool:
        """Whether the terminal's modes are as before the process began: lines or keys, echo, control characters."""
        return termios.tcgetattr(self._master)[:4] == self._before

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
        # Asked first: what it wrote before its end is there afterwards.
        ended = self.process.poll() is not None
        if not select.select([self._master], [], [], 0.5)[0]:
            return not ended
        try:
            more = os.read(self._master, 65536)
        except OSError:  # How Linux says that the other side is closed.
            return False
        self.raw += more
        return bool(more)


@contextmanager
def terminal(
    command: list[str],
    *arguments: str,
    cwd: Path,
    columns: int = 80,
    lines: int = 24,
    controlling: bool = False,
    **settings: str,
) -> Iterator[Terminal]:
    """A terminal in which ``command`` runs; it is killed at the end.

    With ``controlling`` it is the terminal that Ctrl-C, Ctrl-Z and a change of its size come from, as a shell has one.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    # Before the process can have changed them.
    before = termios.tcgetattr(master)[:4]
    process = popen(
        [*command, *arguments],
        cwd=cwd,
        env=environment(cwd, **settings),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        controlling=controlling,
    )
    os.close(slave)
    try:
        yield Terminal(process, master, before)
    finally:
        process.kill()
        process.wait(LIMIT_S)
        os.close(master)
