"""The guardian's work while training lives: it waits, with next to nothing in memory.

Each process of training on this node connects to one socket and sends a line of JSON at a time: the run that it
``begin``s, that it has ``begun``, how it is ``ending``, and that it is ``over``, once its own report is in the store.
If a process ends before that, the guardian reports its end. Only then is the store loaded, in a fork that has 15 s.
"""

import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from lastbeat.training.exec.child.exit_reason import OomKillCounter
from lastbeat.training.guardian.process import Process

LIMIT_S = 15
"""Time limit in s for the report of an end, even if the store hangs."""
_FIRST_S = 30.0
"""Longest wait in s for the first process to connect."""
_PACE_S = 60.0
"""Time in s between two checks of the OOM counters. Kills before the last two checks did not end training."""
_UNSEEN_PACE_S = 1.0
"""Time in s between two checks of processes whose end the kernel does not report."""
_MOST_BYTES = 1 << 20
_PEER_PIDFD = 77
"""SO_PEERPIDFD, on every relevant architecture."""

Said = Mapping[str, Any]


class _Member:
    """A process of training, and its reports about its runs."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        # The connecting process by the kernel, in this process's pid namespace.
        pid, self.user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        self.connection: socket.socket | None = connection
        self.process = Process(pid, _pidfd_of(connection))
        self.runs: dict[str, dict[str, Any]] = {}
        """Run id → its reports, for runs that are not over."""
        self._text = b""

    def hear(self) -> None:
        """Read its new reports; ``connection`` is None after the last one."""
        while self.connection is not None:
            try:
                chunk = self.connection.recv(1 << 16)
            except BlockingIOError:
                break
            except OSError:
                chunk = b""
            self._text += chunk
            if not chunk or len(self._text) > _MOST_BYTES:
                self.hang_up()
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            # The line is incomplete, or from another program.
            with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
                self._take_report(json.loads(line))

    def _take_report(self, said: dict[str, Any]) -> None:
        run, what = str(said["run"]), said.pop("say")
        if what == "begin":
            self.runs[run] = said
            if self.connection is not None:
                with suppress(OSError):
                    self.connection.send(b"\n")
        elif what == "begun" and run in self.runs:
            self.runs[run]["begun"] = True
        elif what == "ending" and run in self.runs:
            self.runs[run]["ending"] = said["ending"]
        elif what == "over":
            self.runs.pop(run, None)

    def hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def close(self) -> None:
        self.hang_up()
        self.process.close()


def _pidfd_of(connection: socket.socket) -> int | None:
    """A pidfd of the connecting process, from Linux 6.5 on, even if that is gone already; else None."""
    try:
        return connection.getsockopt(socket.SOL_SOCKET, _PEER_PIDFD)
    except OSError:
        return None


class _Memory:
    """The latest OOM kills by the kernel, for the processes of this node."""

    def __init__(self) -> None:
        self._latest = self._before = OomKillCounter()
        self._at = time.monotonic()

    def look(self, pid: int) -> None:
        self._latest.watch(pid)
        self._before.watch(pid)

    def move_on(self, members: list[_Member]) -> None:
        if time.monotonic() - self._at < _PACE_S:
            return
        self._before, self._latest, self._at = self._latest, OomKillCounter(), time.monotonic()
        for member in members:
            self.look(member.process.pid)

    @property
    def kills(self) -> int | None:
        return self._before.count


class _Guardian:
    def __init__(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._listener: socket.socket | None = listener
        self._members: list[_Member] = []
        self._reports: dict[int, float] = {}
        """Process that writes a report → its deadline, by the monotonic clock."""
        self._memory = _Memory()
        self._until: float | None = time.monotonic() + _FIRST_S
        """Deadline for the first process; None once that has come."""

    def watch(self) -> None:
        """Watch until all processes have ended."""
        while True:
            self._bury()
            if not self._members and (self._until is None or time.monotonic() > self._until):
                # A process that comes from now on starts a guardian of its own.
                self._stop_listening()
                if not self._members and not self._reports:
                    return
            self._wait()
            self._memory.move_on(self._members)

    def _wait(self) -> None:
        ready = select.poll()
        if self._listener is not None:
            ready.register(self._listener, select.POLLIN)
        for member in self._members:
            if member.connection is not None:
                ready.register(member.connection, select.POLLIN)
            if member.process.pidfd is not None:
                ready.register(member.process.pidfd, select.POLLIN)
        found = {descriptor for descriptor, _ in ready.poll(self._patience_s() * 1000)}
        for member in list(self._members):
            self._attend(member, found)
        if self._listener is not None and self._listener.fileno() in found:
            self._accept()

    def _patience_s(self) -> float:
        if self._reports:
            return 0.05
        if any(member.process.pidfd is None for member in self._members) or self._until is not None:
            return _UNSEEN_PACE_S
        return _PACE_S

    def _attend(self, member: _Member, found: set[int]) -> None:
        process = member.process
        if member.connection is not None and member.connection.fileno() in found:
            member.hear()
            if member.connection is None and member.runs:
                process.catch_end()
        if process.pidfd in found or (process.pidfd is None and process.ended()):
            # Its last report may just have come.
            member.hear()
            self._ended(member)
        elif member.connection is None and not member.runs:
            self._leave(member)

    def _accept(self) -> None:
        while self._listener is not None:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:
                time.sleep(0.05)
                return
            member = _Member(connection)
            if member.user != os.getuid() or member.process.pid <= 0:
                # It is another user, or a process of a container that is not visible from here.
                member.close()
                continue
            self._until = None
            self._members = [other for other in self._members if not self._replaced(other, member)]
            self._members.append(member)
            self._memory.look(member.process.pid)

    def _replaced(self, other: _Member, member: _Member) -> bool:
        """Whether ``other`` is the same process before it executed another program. Closes it then."""
        gone = other.process.pid == member.process.pid and other.connection is None
        if gone:
            other.close()
        return gone

    def _ended(self, member: _Member) -> None:
        ended = time.monotonic()
        status = member.process.wait_status() if member.runs else None
        for said in member.runs.values():
            self._report({**said, "wait_status": status, "ended_monotonic": ended, "oom_kills": self._memory.kills})
        self._leave(member)

    def _leave(self, member: _Member) -> None:
        self._members.remove(member)
        member.close()

    def _report(self, said: Said) -> None:
        try:
            process = os.fork()
        except OSError:
            # No process or memory is left; the watchdog will notice the silence.
            return
        if process:
            self._reports[process] = time.monotonic() + LIMIT_S
            return
        try:
            # SIGALRM ends this process even in native code.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(LIMIT_S)
            self._close()
            sys.path[1:] = [entry for entry in said["path"] if entry not in sys.path[:1]]
            from lastbeat.training.guardian.report import report  # noqa: PLC0415 - loads the store

            report(said)
        finally:
            os._exit(0)

    def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for member in self._members:
            member.close()

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._accept()
            if not self._members:
                self._listener.close()
                self._listener = None

    def _bury(self) -> None:
        """Reap the processes with finished reports, and end those that take too long."""
        for process, until in list(self._reports.items()):
            try:
                if time.monotonic() > until:
                    os.kill(process, signal.SIGKILL)
                done, _ = os.waitpid(process, os.WNOHANG)
            except OSError:
                done = process
            if done:
                del self._reports[process]


def serve(descriptor: int) -> None:
    """Watch the processes that connect to the listening socket ``descriptor``, until the last one has ended."""
    listener = socket.socket(fileno=os.dup(descriptor))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, descriptor)
    os.close(nothing)
    _Guardian(listener).watch()
