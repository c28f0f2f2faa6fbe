"""Runs a command as it would run without lastbeat: input, output, terminal, signals and exit status pass through.

The command stays in our process group, so a signal to the group or a key on the terminal still reaches it directly.
Behind a pseudo-terminal it gets its own session instead, because a terminal belongs to exactly one session.
"""

import errno
import logging
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lastbeat.training.exec.child.descriptors import pipe
from lastbeat.training.exec.child.exit_reason import ChildExit, OomKillCounter
from lastbeat.training.exec.child.group_signals import GroupSignalMonitor
from lastbeat.training.exec.child.output_pump import OutputPump
from lastbeat.training.exec.child.pseudo_terminal import PseudoTerminal
from lastbeat.training.exec.child.signal_queue import ReceivedSignal, SignalQueue

log = logging.getLogger("lastbeat")

_TICK_S = 1.0
_LAST_OUTPUT_S = 1.0
"""Longest wait in s of an exit for the child's last output, which a slow reader may delay."""
_GRACE_S = 600.0
"""Longest time in s from a signal to an exit that counts as its effect."""
_STOP_WAITING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
# Python ignores these. A program started by a shell finds their default actions.
_RESET_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)


class NotStartedError(Exception):
    """The command could not be started. ``status`` is the exit status that a shell would use."""

    def __init__(self, what: str, status: int) -> None:
        super().__init__(what)
        self.status = status


@dataclass
class ChildProcess:
    """A running command."""

    pid: int
    pumps: Sequence[OutputPump]
    terminals: Sequence[PseudoTerminal]
    signals: SignalQueue
    group_signals: GroupSignalMonitor
    reaps_all: bool = False
    """Whether every orphaned descendant becomes a child of this process, and has to be reaped."""
    stops: frozenset[int] = frozenset(_STOP_WAITING)
    """Signals that request its end."""
    _oom_kills: OomKillCounter = field(default_factory=OomKillCounter)
    _forwarded: list[tuple[float, int]] = field(default_factory=list)
    """Monotonic time and number of the latest signals."""

    def wait_until(self, enough: Callable[[], bool], tick_s: float = _TICK_S) -> ChildExit | None:
        """Forward signals until the command exits. Returns its exit, or None if ``enough`` is true before, which is
        called each ``tick_s``.

        1. Count the OOM kills of our cgroup and of the child's, each from the first look on.
        2. Once a second, and at each signal: forward the signal, then ask whether the child has exited.
        3. Tell the pumps, and give them ``_LAST_OUTPUT_S`` to pass the last output on. A slow reader may take longer.
        4. Report the status, the OOM kills, and the signals of the last ``_GRACE_S``.
        """
        self._oom_kills.watch("self")
        status = None
        while status is None:
            self._oom_kills.watch(self.pid)
            received = self.signals.wait(tick_s)
            if received is None:
                self.group_signals.collect()
            if received is not None and received.number != signal.SIGCHLD:
                self._forward(received)
            status = self._exit_status()
            if status is None and enough():
                return None
        now = time.monotonic()
        for pump in self.pumps:
            pump.child_exited()
        for pump in self.pumps:
            pump.drained.wait(max(0.0, now + _LAST_OUTPUT_S - time.monotonic()))
        return ChildExit(status, self._oom_kills.count, self.recent_signals())

    def wait_for(self, done: Callable[[], bool]) -> bool:
        """Wait for ``done`` and for the rest of the output. Returns False if a signal ended the wait."""
        while not done() or any(pump.is_alive() for pump in self.pumps):
            received = self.signals.wait(0.02)
            if received is not None and received.number in _STOP_WAITING:
                return False
        return True

    @property
    def told_by(self) -> int | None:
        """The latest signal that requests its end, or None."""
        return next((number for _, number in reversed(self._received()) if number in self.stops), None)

    def times_asked(self) -> int:
        """Number of signals so far that request its end."""
        return sum(number in self.stops for _, number in self._received())

    def _received(self) -> list[tuple[float, int]]:
        """Times and numbers of signals to the child, oldest first: those forwarded, and those of keys on its
        terminal."""
        keys = [each for terminal in self.terminals for each in terminal.interrupts.copy()]
        return sorted([*self._forwarded, *keys])

    def recent_signals(self) -> tuple[int, ...]:
        """Signals of the last ``_GRACE_S``, oldest first."""
        now = time.monotonic()
        return tuple(number for at, number in self._received() if now - at < _GRACE_S)

    def hear(self, most_s: float) -> None:
        """Wait up to ``most_s`` for a signal to this process after the child's death, and remember it."""
        received = self.signals.wait(most_s)
        if received is not None and received.number != signal.SIGCHLD:
            self._forwarded.append((time.monotonic(), received.number))

    def abandon(self) -> None:
        """Give up a child that cannot be ended, so that its output is no longer waited for."""
        for pump in self.pumps:
            pump.child_exited()

    def restore_terminals(self) -> None:
        """Give the real terminals their settings back."""
        for terminal in self.terminals:
            terminal.restore()

    def let_go(self, most_s: float) -> None:
        """Leave the terminal and its keyboard to the command that replaces this dead one. Waits up to ``most_s`` for
        the rest of the output."""
        deadline = time.monotonic() + most_s
        for terminal in self.terminals:
            terminal.let_go()
        for pump in self.pumps:
            pump.join(max(0.0, deadline - time.monotonic()))

    def _exit_status(self) -> int | None:
        """Exit status or minus a signal's number; None while the child runs."""
        # Process 1 of a container must reap every orphan.
        reaps_all = self.reaps_all or os.getpid() == 1
        while True:
            pid, status = os.waitpid(-1 if reaps_all else self.pid, os.WNOHANG)
            if pid == self.pid:
                return os.waitstatus_to_exitcode(status)
            if pid == 0:
                return None

    def _forward(self, received: ReceivedSignal) -> None:
        """Send the child a signal that reached us, unless the child got it as well.

        1. A new window size goes to the pseudo-terminals; the kernel then signals the child.
        2. After SIGCONT we may be in the foreground again, so take the keyboard.
        3. Remember the signal: it may explain the exit.
        4. A key on a shared terminal has reached the child already, and a second Ctrl-C means "stop at once".
        5. So has a signal that the group monitor saw too.
        6. Otherwise the signal was for us alone: send it on.
        """
        if received.number == signal.SIGWINCH and self.terminals:
            for terminal in self.terminals:
                terminal.resize()
            return
        if received.number == signal.SIGCONT:
            self.take_keyboard()
        self._forwarded.append((time.monotonic(), received.number))
        del self._forwarded[:-100]
        if received.from_terminal and os.getpgid(self.pid) == os.getpgrp():
            return
        if self.group_signals.reached_group(received.number):
            return
        # Safe: the child has not been reaped yet, so its pid cannot belong to another process. It may have become
        # another user's.
        with suppress(PermissionError):
            os.kill(self.pid, received.number)

    def take_keyboard(self) -> None:
        """Pass keys to the child's terminal, if it has one and stdin is a terminal."""
        if self.terminals and os.isatty(0):
            self.terminals[0].take_keyboard(0)


def needs_terminal(streams: Sequence[int]) -> bool:
    """Whether the child gets a pseudo-terminal, and with it its own session."""
    return any(map(os.isatty, streams))


def start(
    command: Sequence[str],
    streams: Sequence[int],
    on_output: Callable[[int, bytes], None],
    signals: SignalQueue,
    group_signals: GroupSignalMonitor,
    environment: Mapping[str, str] | None = None,
) -> ChildProcess:
    """Start ``command``, in this process's ``environment`` unless another one is given.

    ``streams`` are the open ones among 1 (stdout) and 2 (stderr). ``on_output`` gets each chunk with its stream, from
    one thread a stream.

    1. Each stream that is a terminal gets a pseudo-terminal; two streams on one terminal share it. Others get a pipe.
    2. If there is a pseudo-terminal and stdin is a terminal, stdin becomes that pseudo-terminal.
    3. Spawn the command, and close our copies of its ends.
    4. Start a pump for each pipe and pseudo-terminal.

    Raises :class:`NotStartedError`.
    """
    terminals: dict[int, PseudoTerminal] = {}
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = []
    sources: list[tuple[int, int]] = []
    child_ends: list[int] = []
    for stream in streams:
        if os.isatty(stream):
            device = os.fstat(stream).st_rdev
            if device not in terminals:
                terminals[device] = PseudoTerminal(stream)
                sources.append((terminals[device].our_end, stream))
            # The first terminal that a session's leader opens becomes its controlling terminal.
            actions.append((os.POSIX_SPAWN_OPEN, stream, terminals[device].name, os.O_RDWR, 0))
        else:
            our_end, child_end = pipe()
            sources.append((our_end, stream))
            child_ends.append(child_end)
            actions.append((os.POSIX_SPAWN_DUP2, child_end, stream))
    if terminals and os.isatty(0):
        name = next(iter(terminals.values())).name
        actions.insert(0, (os.POSIX_SPAWN_OPEN, 0, name, os.O_RDWR, 0))
    try:
        own = os.environ if environment is None else environment
        pid = _spawn(command, actions, signals, own, session=bool(terminals))
    except OSError as error:
        raise _not_started(command[0], error) from error
    finally:
        for descriptor in child_ends:
            os.close(descriptor)
        for terminal in terminals.values():
            terminal.child_started()
    pumps = [OutputPump(source, target, _observer(on_output, target)) for source, target in sources]
    for pump in pumps:
        pump.start()
    child = ChildProcess(pid, pumps, tuple(terminals.values()), signals, group_signals)
    child.take_keyboard()
    return child


def _spawn(
    command: Sequence[str],
    actions: Sequence[object],
    signals: SignalQueue,
    environment: Mapping[str, str],
    *,
    session: bool,
) -> int:
    def spawn(program: str, arguments: list[str]) -> int:
        return os.posix_spawnp(
            program,
            arguments,
            environment,
            file_actions=actions,  # type: ignore[arg-type]  # tuples of five shapes
            setsid=session,
            setsigmask=signals.original_mask,
            setsigdef=_RESET_SIGNALS,
        )

    try:
        return spawn(command[0], list(command))
    except OSError as error:
        path = shutil.which(command[0])
        if error.errno != errno.ENOEXEC or path is None or _is_binary(path):
            raise
        # A script without a #! line. Shells and execvp() run it with /bin/sh.
        return spawn("/bin/sh", ["sh", path, *command[1:]])


def _is_binary(path: str) -> bool:
    with open(path, "rb") as file:  # noqa: PTH123 - the name exactly as the shell gave it
        return b"\0" in file.read(256)


def _not_started(name: str, error: OSError) -> NotStartedError:
    path = name if "/" in name else shutil.which(name)
    exists = path is not None and os.path.exists(path)  # noqa: PTH110 - as above
    if error.errno == errno.ENOENT and exists:
        return NotStartedError(f"{name}: the interpreter in its first line (#!) does not exist", 126)
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return NotStartedError(f"{name}: command not found; check its spelling, the current directory and PATH", 127)
    if exists and path is not None and stat.S_ISDIR(os.stat(path).st_mode):  # noqa: PTH116 - as above
        return NotStartedError(f"{name}: it is a directory, not a program", 126)
    if error.errno == errno.EACCES:
        return NotStartedError(f"{name}: permission denied; is it executable (chmod +x)?", 126)
    return NotStartedError(f"{name}: {error.strerror or error}", 126)


def _observer(on_output: Callable[[int, bytes], None], stream: int) -> Callable[[bytes], None]:
    """``on_output`` for one stream, switched off by its first exception: output must flow in any case."""
    failed = False

    def observe(chunk: bytes) -> None:
        nonlocal failed
        if failed:
            return
        try:
            on_output(stream, chunk)
        except Exception:
            failed = True
            log.exception("lastbeat can no longer read progress from this output; the output still passes through")

    return observe
