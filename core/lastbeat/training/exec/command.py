"""Runs a command for ``lastbeat exec``, and reports it as a run."""

import os
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial

from lastbeat.settings import Settings
from lastbeat.training.exec.child import process as child_process
from lastbeat.training.exec.child.group_signals import GroupSignalMonitor
from lastbeat.training.exec.child.process import ChildProcess
from lastbeat.training.exec.child.signal_queue import SignalQueue, exit_by_signal
from lastbeat.training.exec.start import CommandStart, WrappedCommand
from lastbeat.training.guardian.start import WRAPPED


class CommandRunner:
    """Runs a command unchanged. Without ``settings`` it is not reported. ``tell`` shows a line to the user.

    ``exec.in_place`` has more steps, by which it may start the command again::

        begin ──> launch ──> wait ──> end
                                └───> judge ──> gather ──> begin, the next start
    """

    start: CommandStart
    """The present start."""
    _signals: SignalQueue
    _group: GroupSignalMonitor

    def __init__(self, wrapped: WrappedCommand, settings: Settings | None, tell: Callable[[str], None]) -> None:
        self._wrapped, self._reported_by, self._show = wrapped, settings, tell

    def run(self) -> int:
        """Run the command and return the exit status of its last start, or exit by its signal.

        The signals to forward are blocked, and the group monitor is forked, before the first thread.
        """
        apart, status = child_process.needs_terminal(self._wrapped.streams), None
        with SignalQueue() as signals, closing(GroupSignalMonitor(signals.forwarded, own_session=apart)) as group:
            self._signals, self._group = signals, group
            self._prepare()
            while status is None:
                status = self._one_start()
        return exit_by_signal(-status) if status < 0 else status

    def _prepare(self) -> None:
        """Prepare for the first start."""

    def _one_start(self) -> int | None:
        """Start the command and follow it to its end. Returns the exit status, or minus the signal to exit by; None if
        it is to be started again.

        The run begins first, so that a command which cannot be started is reported too.
        """
        self.start = start = self._begin()
        try:
            start.child = self._launch()
        except child_process.NotStartedError as fault:
            return self._not_started(fault)
        try:
            return self._follow()
        finally:
            start.child.restore_terminals()

    def _begin(self) -> CommandStart:
        return CommandStart(self._wrapped, self._reported_by)

    def _variables(self) -> dict[str, str]:
        """The environment variables of the command."""
        # If it calls lastbeat.run with this id, it needs no guardian: exec sees how it ends.
        return {**os.environ, **({WRAPPED: self._wrapped.name} if self._reported_by is not None else {})}

    def _launch(self) -> ChildProcess:
        """Start the command. Raises :class:`NotStartedError`."""
        start, wrapped = self.start, self._wrapped
        child = child_process.start(
            wrapped.command, wrapped.streams, start.take, self._signals, self._group, self._variables()
        )
        start.meter.root = child.pid
        return child

    def _not_started(self, fault: child_process.NotStartedError) -> int:
        self._show(f"Error: {fault}")
        self.start.run.fail(f"Not started: {fault}")
        return fault.status

    def _follow(self) -> int | None:
        """Wait for the end of the command, forwarding signals, and write it."""
        ended = None
        while ended is None:
            ended = self.start.child.wait_until(lambda: False)
        self._write(partial(self.start.write_sentinel, ended))
        return ended.status

    def _write(self, write: Callable[[], None]) -> None:
        """Write the end in a thread, so that a signal can end the wait for a slow store."""
        ending = threading.Thread(target=write, name="lastbeat-end", daemon=True)
        if self._reported_by is not None:
            start_or_run(ending)
        self.start.child.wait_for(lambda: not ending.is_alive())


def start_or_run(thread: threading.Thread) -> None:
    """Start ``thread``. If no thread can start, do its work in this one."""
    try:
        thread.start()
    except RuntimeError:  # A signal cannot interrupt the work then.
        thread.run()
