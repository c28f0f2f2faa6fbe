"""A program run as it would run without us: its input, output, terminal, signals and end are passed through.

It stays in our process group, so that a kill of the group or a key on the terminal reaches it as before. Only behind
a pseudo-terminal it has a session of its own, for a terminal belongs to one session.
"""

import errno
import logging
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lastbeat.sdk.death import Death, OomKills
from lastbeat.sdk.descriptors import pipe
from lastbeat.sdk.pump import Pump
from lastbeat.sdk.signals_in import Arrived, Signals
from lastbeat.sdk.terminal import Terminal
from lastbeat.sdk.witness import Witness

log = logging.getLogger("lastbeat")

_TICK_S = 1.0
_LAST_OUTPUT_S = 1.0
"""How long the report of a death waits for what the child printed last, which a slow reader may hold up."""
_GRACE_S = 600.0
"""How long a command told to stop may take to do so; an end after that has another reason."""
_GIVE_UP = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
# Python ignores these; a program started by a shell finds them as they are by default.
_DEFAULT = (signal.SIGPIPE, signal.SIGXFSZ)


class NotStartedError(Exception):
    """The command could not be started; ``status`` is what shells exit with then."""

    def __init__(self, what: str, status: int) -> None:
        super().__init__(what)
        self.status = status


@dataclass
class Child:
    """A program that runs."""

    process: int
    pumps: Sequence[Pump]
    terminals: Sequence[Terminal]
    signals: Signals
    witness: Witness
    _oom: OomKills = field(default_factory=OomKills)
    _passed: list[tuple[float, int]] = field(default_factory=list)
    """Monotonic time and number of the latest signals."""

    def wait(self) -> Death:
        """Pass signals on until it is dead, and tell how it died; what it printed has been looked at by then, unless
        whoever reads our output is slow."""
        self._oom.look("self")
        status = None
        while status is None:
            self._oom.look(self.process)
            arrived = self.signals.wait(_TICK_S)
            if arrived is None:
                self.witness.collect()
            if arrived is not None and arrived.number != signal.SIGCHLD:
                self._pass_on(arrived)
            status = self._status()
        now = time.monotonic()
        for pump in self.pumps:
            pump.child_died()
        for pump in self.pumps:
            pump.drained.wait(max(0.0, now + _LAST_OUTPUT_S - time.monotonic()))
        recent = tuple(number for at, number in self._passed if now - at < _GRACE_S)
        return Death(status, self._oom.kills, recent)

    def until(self, done: Callable[[], bool]) -> bool:
        """Wait for ``done``, and for the rest of the output; False when a signal told us to stop waiting."""
        while not done() or any(pump.is_alive() for pump in self.pumps):
            arrived = self.signals.wait(0.02)
            if arrived is not None and arrived.number in _GIVE_UP:
                return False
        return True

    def leave(self) -> None:
        """Give the real terminal back."""
        for terminal in self.terminals:
            terminal.restore()

    def _status(self) -> int | None:
        # Process 1 of a container is given everybody's orphans to bury.
        anybody = os.getpid() == 1
        while True:
            process, status = os.waitpid(-1 if anybody else self.process, os.WNOHANG)
            if process == self.process:
                return os.waitstatus_to_exitcode(status)
            if process == 0:
                return None

    def _pass_on(self, arrived: Arrived) -> None:
        if arrived.number == signal.SIGWINCH and self.terminals:
            # The kernel tells the child.
            for terminal in self.terminals:
                terminal.resize()
            return
        if arrived.number == signal.SIGCONT:
            self._take_keyboard()
        self._passed.append((time.monotonic(), arrived.number))
        del self._passed[:-100]
        if arrived.from_terminal and os.getpgid(self.process) == os.getpgrp():
            # It has had that key already; twice Ctrl-C is an order to stop at once.
            return
        if self.witness.saw(arrived.number):
            return
        # It is not waited for yet, so its number is still its own.
        os.kill(self.process, arrived.number)

    def _take_keyboard(self) -> None:
        if self.terminals and os.isatty(0):
            self.terminals[0].take_keyboard(0)


def on_terminal(streams: Sequence[int]) -> bool:
    """Whether a child gets a terminal, and with it a session of its own."""
    return any(map(os.isatty, streams))


def start(
    command: Sequence[str],
    streams: Sequence[int],
    output: Callable[[int, bytes], None],
    signals: Signals,
    witness: Witness,
) -> Child:
    """Start ``command``; ``output`` is called with each of ``streams`` (stdout 1, stderr 2, as far as they are open)
    and each chunk of it, from two threads.

    Raises :class:`NotStartedError`.
    """
    terminals: dict[int, Terminal] = {}
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = []
    sources: list[tuple[int, int]] = []
    theirs: list[int] = []
    for stream in streams:
        if os.isatty(stream):
            device = os.fstat(stream).st_rdev
            if device not in terminals:
                terminals[device] = Terminal(stream)
                sources.append((terminals[device].ours, stream))
            # The first to be opened becomes the terminal of the child's session.
            actions.append((os.POSIX_SPAWN_OPEN, stream, terminals[device].name, os.O_RDWR, 0))
        else:
            ours, into = pipe()
            sources.append((ours, stream))
            theirs.append(into)
            actions.append((os.POSIX_SPAWN_DUP2, into, stream))
    if terminals and os.isatty(0):
        name = next(iter(terminals.values())).name
        actions.insert(0, (os.POSIX_SPAWN_OPEN, 0, name, os.O_RDWR, 0))
    try:
        process = _spawn(command, actions, signals, session=bool(terminals))
    except OSError as error:
        raise _explained(command[0], error) from error
    finally:
        for descriptor in theirs:
            os.close(descriptor)
        for terminal in terminals.values():
            terminal.child_started()
    pumps = [Pump(source, target, _looking(output, target)) for source, target in sources]
    for pump in pumps:
        pump.start()
    child = Child(process, pumps, tuple(terminals.values()), signals, witness)
    child._take_keyboard()  # noqa: SLF001 - its own beginning
    return child


def _spawn(command: Sequence[str], actions: Sequence[object], signals: Signals, *, session: bool) -> int:
    def spawn(program: str, arguments: list[str]) -> int:
        return os.posix_spawnp(
            program,
            arguments,
            os.environ,
            file_actions=actions,  # type: ignore[arg-type]  # tuples of five shapes
            setsid=session,
            setsigmask=signals.before,
            setsigdef=_DEFAULT,
        )

    try:
        return spawn(command[0], list(command))
    except OSError as error:
        path = shutil.which(command[0])
        if error.errno != errno.ENOEXEC or path is None or _is_binary(path):
            raise
        # A script without #! in its first line: shells run it, and so does execvp().
        return spawn("/bin/sh", ["sh", path, *command[1:]])


def _is_binary(path: str) -> bool:
    with open(path, "rb") as file:  # noqa: PTH123 - a name as the shell gave it
        return b"\0" in file.read(256)


def _explained(name: str, error: OSError) -> NotStartedError:
    path = name if "/" in name else shutil.which(name)
    exists = path is not None and os.path.exists(path)  # noqa: PTH110 - as above
    if error.errno == errno.ENOENT and exists:
        return NotStartedError(f"{name}: the interpreter that its first line (#!) names is not there", 126)
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return NotStartedError(f"{name}: command not found; check its spelling, the current folder and PATH", 127)
    if exists and path is not None and stat.S_ISDIR(os.stat(path).st_mode):  # noqa: PTH116 - as above
        return NotStartedError(f"{name}: it is a folder, not a program", 126)
    if error.errno == errno.EACCES:
        return NotStartedError(f"{name}: permission denied; is it executable (chmod +x)?", 126)
    return NotStartedError(f"{name}: {error.strerror or error}", 126)


def _looking(output: Callable[[int, bytes], None], stream: int) -> Callable[[bytes], None]:
    failed = False

    def look(chunk: bytes) -> None:
        nonlocal failed
        if failed:
            return
        try:
            output(stream, chunk)
        except Exception:
            failed = True
            log.exception("lastbeat cannot look at this output any more; it is passed on all the same")

    return look
