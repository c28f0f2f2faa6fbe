"""Training's side: starts the guardian of this node, or finds the one that another rank has started, and reports the
state of the run to it.

They meet at a socket in Linux's abstract namespace. The process that binds its name starts the guardian, which then
listens; the others connect. The name is free again as soon as the guardian stops listening. Nothing here raises.
"""

import contextlib
import json
import logging
import math
import os
import select
import signal
import socket
import stat
import struct
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from lastbeat.model.version import __version__
from lastbeat.settings import Settings
from lastbeat.settings.opening import root_url
from lastbeat.settings.table import MONITORING_PREFIX, MONITORING_ROOT
from lastbeat.stores.kind import DIRECTORY
from lastbeat.training.sdk.beat_tasks import BeatTask, RunStart
from lastbeat.training.sdk.documents import iso_time
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import fault_text, safe_log

WRAPPED: Final = "_LASTBEAT_EXEC_RUN"
"""Variable with the run that ``lastbeat exec`` reports, which sees the end of its command itself."""
_SEND_S = 0.2
_CHILD_S = 1.0
"""Longest wait in s of a run's start for the process that starts the guardian, which takes some 2 ms."""
_UNHEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_SHELL = "/bin/sh"
# Shells give background commands only a standard input that is named.
_DETACHES = 'exec 3<&0; "$@" <&3 3<&- &'
_TRIES = 4
_TEXT_CHARS = 20_000
_DROPPED = ("LD_PRELOAD",)


class GuardianClient(BeatTask):
    """Reports one run of this process to the guardian, which can report an end that this process cannot.

    Create it where the run begins: the process that starts the guardian is a child for a moment, and training must not
    find it when it waits for its own children.
    """

    purpose = "tell the guardian how the run stands"

    def __init__(self, settings: Settings, run_id: str, dumps: str | None = None) -> None:
        self._settings = settings
        self._run_id = run_id
        self._dumps = dumps
        self._begin: dict[str, Any] = {}
        self._heard = False
        """Whether the guardian has answered."""
        self._begun = False
        self._ending_told = False
        self._line: _Line | None = None
        with _quietly():
            self._line = _join(settings, run_id)

    def begin(self, start: RunStart) -> None:
        """Report which run begins."""
        rank = start.rank
        with _quietly():
            self._begin = {
                "start_time": iso_time(start.unix),
                "started_monotonic": start.monotonic,
                "rank": rank.number,
                "world": rank.world,
                "place": str(rank),
                "who": _program() if rank.world < 2 else f"rank {rank.number}{f' on {rank.host}' if rank.host else ''}",
                "settings": _place(self._settings),
                "path": [entry for entry in sys.path if Path(entry).is_absolute()],
                "stderr": _stderr_file(),
                "dumps": self._dumps,
            }
            self._say("begin", **self._begin)

    def beaten(self, *, begun: bool) -> None:
        """Report once that the attempt has begun. If the guardian was just about to leave, join another one."""
        with _quietly():
            if not self._heard and self._line is not None:
                answer = self._line.answer()
                if answer is False:
                    self._line = _join(self._settings, self._run_id)
                    self._say("begin", **self._begin)
                    self._begun = False
                self._heard = bool(answer)
            if begun and not self._begun:
                self._begun = self._say("begun")

    def look(self, run: Run) -> float:
        """Report once that training has ended the run, and its sentinel is about to be written."""
        if run.ending is not None and not self._ending_told:
            self._ending_told = True
            sentinel, text = run.ending
            with _quietly():
                self._say("ending", ending=[sentinel, text[:_TEXT_CHARS]])
        return math.inf

    def over(self) -> None:
        """Report that the sentinel is written, so that the guardian has nothing left to do."""
        with _quietly():
            self._say("over")
            if self._line is not None:
                self._line.leave(self._run_id)

    def _say(self, what: str, **facts: object) -> bool:
        line = json.dumps({"say": what, "run": self._run_id, **facts}).encode("ascii") + b"\n"
        return self._line is not None and self._line.say(line)


class _Line:
    """The connection of this process to its guardian, one at a time for all of its runs."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(_SEND_S)
        self._connection = connection
        self._process = os.getpid()
        self.runs: set[str] = set()

    @property
    def open(self) -> bool:
        """Whether it can be used: the guardian has not closed it, and this is no fork."""
        return self._process == os.getpid() and self._connection.fileno() >= 0 and self.answer() is not False

    def say(self, line: bytes) -> bool:
        try:
            with _lock:
                left = memoryview(line)
                while left:
                    # Without SIGPIPE, which would end training that has reset it to its default.
                    left = left[self._connection.send(left, socket.MSG_NOSIGNAL) :]
        except OSError:
            return False
        return True

    def answer(self) -> bool | None:
        """Whether the guardian has answered and not closed the connection; None while it has done neither."""
        ready = select.poll()
        ready.register(self._connection, select.POLLIN)
        if not ready.poll(0):
            return None
        try:
            return bool(self._connection.recv(64, socket.MSG_PEEK))
        except OSError:
            return False

    def leave(self, run_id: str) -> None:
        """Remove a run; the last one closes the connection."""
        with _lock:
            self.runs.discard(run_id)
            if not self.runs:
                # A fork of this process may hold the connection as well, and would keep it open.
                with contextlib.suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)
                self.close()

    def close(self) -> None:
        self._connection.close()


_lock = threading.Lock()
_line: _Line | None = None


def _forget() -> None:
    """Reset the state in a fork: the guardian belongs to the parent, and the lock may be held by a missing thread."""
    global _lock, _line
    _lock, _line = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def guardian_client(settings: Settings, run_id: str, dumps: str | None = None) -> GuardianClient | None:
    """What reports the end of ``run_id`` in this process; None if no guardian is possible, or ``lastbeat exec`` reports
    that. ``dumps`` is the folder of its flight recorder's dumps. Never raises."""
    with _quietly():
        if _possible() and os.environ.get(WRAPPED) != run_id:
            return GuardianClient(settings, run_id, dumps)
    return None


def _possible() -> bool:
    """Whether a process can be started here that outlives this one and sees its end."""
    # All other processes of a container end with its process 1.
    if sys.platform != "linux" or not hasattr(os, "posix_spawn") or os.getpid() == 1:
        return False
    # In a program that embeds Python, this is that program, or nothing.
    name = os.path.basename(sys.executable or "")  # noqa: PTH119 - of any text
    return "python" in name.lower() and not getattr(sys, "frozen", False) and _SCRIPT.is_file()


_SCRIPT = Path(__file__).with_name("__main__.py")


def _join(settings: Settings, run_id: str) -> "_Line | None":
    """The connection of this process, created if none works; None if that fails."""
    global _line  # noqa: PLW0603 - a process has one guardian
    with _lock:
        if _line is None or not _line.open:
            if _line is not None:
                _line.close()
            _line = _connected(settings, run_id)
        if _line is not None:
            _line.runs.add(run_id)
        return _line


def _connected(settings: Settings, run_id: str) -> _Line | None:
    name = _name(settings, run_id)
    for _ in range(_TRIES):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
            try:
                listener.bind(name)
            except OSError:
                # Another rank was first.
                pass
            else:
                listener.listen(1024)
                _spawn(settings, listener)
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(_SEND_S)
            try:
                connection.connect(name)
            except OSError:
                connection.close()
                time.sleep(0.02)
                continue
        if _user(connection) == os.getuid():
            return _Line(connection)
        connection.close()
    return None


def _name(settings: Settings, run_id: str) -> bytes:
    """The socket's name, which is equal for exactly the ranks of a run on this node."""
    identity = f"{root_url(settings)}\n{run_id}\n{__version__}".encode("utf-8", "surrogateescape")
    return f"\0lastbeat-guardian-{os.getuid()}-{zlib.crc32(identity):08x}-{run_id[:60]}".encode("ascii")


def _user(connection: socket.socket) -> int:
    """The user of the listening process, because any user may bind any name."""
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(user)


def _spawn(settings: Settings, listener: socket.socket) -> None:
    """Start the guardian, which listens on ``listener``, in a session of its own and without any file of this process.

    Training must not find a child that it did not start when it waits for its own. So a shell starts the guardian and
    ends, which takes a millisecond or two. Without a shell the guardian detaches itself.
    """
    environment = {
        name: value
        for name, value in settings.environ.items()
        if name not in _DROPPED and (not name.startswith("PYTHON") or name == "PYTHONHOME")
    }
    isolated = ["-s", "-S"] if "PYTHONHOME" in environment else ["-I", "-S"]
    command = [sys.executable, *isolated, str(_SCRIPT)]
    if os.access(_SHELL, os.X_OK):
        command = [_SHELL, "-c", _DETACHES, "sh", *command, "detached"]
    nothing = os.devnull
    child = os.posix_spawn(
        command[0],
        command,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, listener.fileno(), 0),
            (os.POSIX_SPAWN_OPEN, 1, nothing, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, nothing, os.O_WRONLY, 0),
        ],
        setsid=True,
        # Blocked until the guardian ignores them itself.
        setsigmask=_UNHEEDED,
        setsigdef=sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}),
    )
    until = time.monotonic() + _CHILD_S
    # Training may have reaped all children already.
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(child, os.WNOHANG)[0] == 0 and time.monotonic() < until:
            time.sleep(0.0002)


def _place(settings: Settings) -> dict[str, str]:
    """Settings that name the same fleet root in any directory."""
    root = settings.root
    place = {MONITORING_ROOT.name: root_url(settings)}
    if root.scheme != DIRECTORY and not root.prefix:
        place[MONITORING_PREFIX.name] = "/"
    return place


def _program() -> str:
    """The name of this process for display."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""  # noqa: PTH119 - of any text
    return name if name and name != "-c" else "training"


def _stderr_file() -> dict[str, Any] | None:
    """The file behind stderr, where a crash report may be; None if it is no file."""
    try:
        found = os.fstat(2)
        if not stat.S_ISREG(found.st_mode):
            return None
        path = os.readlink("/proc/self/fd/2")  # noqa: PTH115 - of a descriptor
    except OSError:
        return None
    return {"path": path, "file": [found.st_dev, found.st_ino], "size": found.st_size}


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Suppress any fault in the block, so that training and its heartbeats go on as without a guardian."""
    try:
        yield
    except Exception as fault:  # noqa: BLE001 - as above
        safe_log(logging.DEBUG, "no guardian sees how this process ends: %s", fault_text(fault))
