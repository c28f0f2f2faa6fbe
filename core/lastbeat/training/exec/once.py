"""``lastbeat exec`` without restarts: runs a command once, unchanged, and reports it as a run."""

import os
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial

from lastbeat.settings import Settings
from lastbeat.training.exec.child import process as child_process
from lastbeat.training.exec.child.group_signals import GroupSignalMonitor
from lastbeat.training.exec.child.output_summary import OutputSummary
from lastbeat.training.exec.child.signal_queue import SignalQueue, exit_by_signal
from lastbeat.training.exec.reporting import ask_child, on_output, reporter, start_or_run, write_sentinel
from lastbeat.training.exec.wrapped import WrappedCommand
from lastbeat.training.guardian.start import WRAPPED
from lastbeat.training.node.resources import ResourceMeter
from lastbeat.training.sdk.capture import Capture
from lastbeat.training.sdk.run import Run


def run_once(wrapped: WrappedCommand, settings: Settings | None, tell: Callable[[str], None]) -> int:
    """Run a command once, and report it as a run. Returns the exit status, or exits by the command's signal.

    1. Block the signals to forward, and fork the group monitor: both must come before the first thread.
    2. Start the run, and with it the beat thread, so that a command which cannot be started is reported too.
    3. Start the command. Its output feeds the run's progress, its log, and the summary for ``_error``.
    4. Wait for its exit, forwarding signals.
    5. Write the sentinel in a thread, so that a signal can end the wait for a slow store.
    6. Restore the terminal, and exit as the command did.

    Without ``settings`` the command runs without a report. ``tell`` shows a line to the user.
    """
    apart = child_process.needs_terminal(wrapped.streams)
    with SignalQueue() as signals, closing(GroupSignalMonitor(signals.forwarded, own_session=apart)) as group_signals:
        summary = OutputSummary()
        printed = Capture()
        meter = ResourceMeter(wraps=True)
        run = Run(
            wrapped.name,
            reporter(settings, printed, summary, meter, dumps=wrapped.dumps) if settings is not None else None,
            wrapped.steps,
        )
        run.set_phase(wrapped.phase)
        if settings is not None:
            run.on_stop, run.heeds_stop = partial(ask_child, settings, meter), True
            # If the command calls lastbeat.run with this id, it needs no guardian: exec sees how it ends.
            os.environ[WRAPPED] = wrapped.name
        try:
            child = child_process.start(
                wrapped.command, wrapped.streams, on_output(run, summary, printed), signals, group_signals
            )
        except child_process.NotStartedError as fault:
            tell(f"Error: {fault}")
            run.fail(f"Not started: {fault}")
            return fault.status
        meter.root = child.pid
        try:
            ended = child.wait()
            arguments = (run, ended, wrapped.program, summary)
            ending = threading.Thread(target=write_sentinel, args=arguments, name="lastbeat-end", daemon=True)
            if settings is not None:
                start_or_run(ending)
            child.wait_for(lambda: not ending.is_alive())
        finally:
            child.restore_terminals()
    return exit_by_signal(-ended.status) if ended.status < 0 else ended.status
