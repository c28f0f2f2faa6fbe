"""Handles SIGTERM: ends the runs of this process as cancelled, before the process dies of the signal as usual.

A signal ends a process without a report, so SIGTERM gets a handler while there is a run, unless it has one. Python's
handlers run in the main thread, between two bytecode instructions. A rank that waits in a collective for a dead peer
never gets there: with a handler it would outlive SIGTERM until SIGKILL, which torchrun, Slurm and Kubernetes send half
a minute later, and would delay the restart as long. Without one it would have died at once. So a thread waits on the
file descriptor that Python's C-level handler writes to, and acts if the main thread has not. Native code that holds the
interpreter lock stops that thread as well.

Training that checks ``run.should_stop``, or has set an exit signal, is *graceful*: the first SIGTERM only sets a flag,
and training ends when it has saved a checkpoint. A second one, some seconds later, ends it at once. A handler that was
there before is called in either case.

In a child made by fork none of this applies, because its end is not the run's. The child ignores the exit signal,
unless that is SIGTERM, by which pools end their workers.
"""

import ctypes
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from lastbeat.training.sdk.run import END_WAIT_S, Run
from lastbeat.training.sdk.safe_log import safe_log
from lastbeat.training.sdk.threads import start_thread

SECOND_SIGNAL_WAIT_S = 2.0
"""Most time in s that the end waits for sentinels after a second signal."""
LATE_S = 2.0
"""Time in s that the main thread has to handle a signal itself."""
AGAIN_S = 5.0
"""A signal within this many s of the first is the same request: a launcher may pass on a signal to its whole group."""

_Handler = Callable[[int, FrameType | None], Any] | int | None


class Termination:
    """The runs of this process that SIGTERM ends."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.pid = os.getpid()
        self._handling = False
        """Whether the main thread is handling SIGTERM."""
        self._listener: _Listener | None = None
        self._before: dict[int, _Handler] = {}
        """Signal → its handler before this one."""
        self._asked_at: float | None = None
        """When graceful training first got SIGTERM, by the monotonic clock."""
        self._comes_late = False
        """Whether the main thread's handler is still to be called for a signal that the listener has handled."""

    def watch(self, run: Run) -> None:
        """Handle SIGTERM and the exit signal for ``run`` from now on. Only in the main thread; another handler of
        SIGTERM stays."""
        self.runs.append(run)
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            self._handles(signal.SIGTERM, self._on_sigterm)
            self._listener = self._listener or listen(signal.SIGTERM, self._on_late_sigterm)
        if run.heeds_stop:
            self.heed(run)
        if run.exit_signal not in {None, signal.SIGTERM}:
            self._handles(run.exit_signal, self._on_exit_signal)

    def heed(self, run: Run) -> None:
        """Let SIGTERM ask ``run`` to stop from now on. A previous handler is still called. An ignored signal stays
        ignored."""
        if run in self.runs and threading.current_thread() is threading.main_thread():
            self._handles(signal.SIGTERM, self._on_sigterm)

    def _handles(self, number: int, handler: "Callable[[int, FrameType | None], None]") -> bool:
        """Install ``handler`` before the present one. Returns False if the present one is not Python's, or this
        module's handler is installed already. A handler that was put before it since calls it, or leaves it out on
        purpose."""
        before = signal.getsignal(number)
        known = number in self._before and before != signal.SIG_DFL
        if known or before is None or before in (signal.SIG_IGN, handler):
            return False
        signal.signal(number, handler)
        self._before[number] = before
        if number != signal.SIGTERM:
            _ignored_in_children.add(number)
            _hook_forks()
        safe_log(logging.INFO, "Signal handler installed for %d", number)
        return True

    def leave(self, run: Run) -> None:
        """Note that ``run`` is over. The last one restores all signals, except those with another handler by now."""
        if run in self.runs:
            self.runs.remove(run)
        if self.runs or not self.in_own_process or threading.current_thread() is not threading.main_thread():
            return
        for number, before in list(self._before.items()):
            if signal.getsignal(number) in (self._on_sigterm, self._on_exit_signal):
                signal.signal(number, before)
                del self._before[number]
                _ignored_in_children.discard(number)
                if number == signal.SIGTERM and self._listener is not None:
                    self._listener.close()
                    self._listener = None
        self._asked_at = None

    @property
    def listens(self) -> bool:
        """Whether a thread listens for SIGTERM."""
        return self._listener is not None

    @property
    def in_own_process(self) -> bool:
        """Whether this is the process of these runs, not a fork of it."""
        return os.getpid() == self.pid

    def _on_sigterm(self, number: int, _frame: FrameType | None) -> None:
        """The main thread's handler.

        1. Ask graceful training to stop, and let it go on. Call a previous handler.
        2. A second SIGTERM during step 4 only shortens that wait, which is further down on this stack.
        3. End the runs as cancelled.
        4. Wait for their sentinels.
        5. Die by the default action, so that the sender sees what it expects.
        """
        graceful = self.in_own_process and (self._comes_late or self._asks_to_stop(number))
        self._comes_late = False
        before = self._before.get(number)
        if callable(before):
            before(number, _frame)
            return
        if graceful:
            return
        if self._handling and self.in_own_process:
            self._shorten_wait()
            return
        self._handling = True
        try:
            if self.in_own_process:
                for run in self.runs:
                    run.terminated(f"received signal {number} ({signal.Signals(number).name})")
                self.wait_for_sentinels()
        finally:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _asks_to_stop(self, number: int) -> bool:
        """Ask graceful training to stop. Returns False if no run is graceful, or it was asked a while ago."""
        if not any(run.heeds_stop and not run.ended for run in self.runs):
            return False
        now = time.monotonic()
        if self._asked_at is not None and now - self._asked_at > AGAIN_S:
            return False
        self._asked_at = self._asked_at or now
        for run in self.runs:
            _ask_to_stop(run, number)
        return True

    def _on_exit_signal(self, number: int, frame: FrameType | None) -> None:
        """The main thread's handler of the exit signal, which only asks training to stop."""
        if self.in_own_process:
            for run in self.runs:
                if run.exit_signal == number:
                    _ask_to_stop(run, number)
        before = self._before.get(number)
        if callable(before):
            before(number, frame)

    def _on_late_sigterm(self, came_again: Callable[[], bool]) -> None:
        """Handle SIGTERM in the listening thread, unless the main thread does, or training has installed a handler."""
        if self.in_own_process and not self._handling and signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            if self._asked_at is not None and time.monotonic() - self._asked_at <= AGAIN_S + LATE_S:
                # The main thread has handled it, or will.
                return
            self._comes_late = True
            if self._asks_to_stop(signal.SIGTERM):
                # A step in native code may take long.
                return
            self._comes_late = False
            for run in self.runs:
                run.terminated("received signal 15 (SIGTERM), in the midst of native code")
            self.wait_for_sentinels(came_again)
            _die_of(signal.SIGTERM)

    def wait_for_sentinels(self, came_again: Callable[[], bool] = lambda: False) -> None:
        """Wait until all sentinels are written, or each run's total time for its end is over."""
        now = time.monotonic()
        for run in self.runs:
            run.end_deadline = now + END_WAIT_S if run.end_deadline is None else run.end_deadline
        # Polled, because a signal handler may interrupt it and shorten it.
        while any(
            run.end_pending and run.end_deadline is not None and time.monotonic() < run.end_deadline
            for run in self.runs
        ):
            if came_again():
                self._shorten_wait()
            time.sleep(0.005)

    def _shorten_wait(self) -> None:
        soon = time.monotonic() + SECOND_SIGNAL_WAIT_S
        for run in self.runs:
            run.end_deadline = soon if run.end_deadline is None else min(run.end_deadline, soon)


def _ask_to_stop(run: Run, number: int) -> None:
    why = f"received signal {number} ({signal.Signals(number).name})"
    run.ask_to_stop(why, f"Received signal {number}, initiating graceful stop")


_termination: Termination | None = None


def termination() -> Termination:
    """The :class:`Termination` of this process."""
    global _termination  # noqa: PLW0603 - a process has one SIGTERM
    if _termination is None or not _termination.in_own_process:
        _termination = Termination()
    return _termination


# The listener.

_fork_hooked = False
_ignored_in_children: set[int] = set()


class _Listener:
    """A thread that listens for signals, and its pipe."""

    def __init__(self, writing: int) -> None:
        self._writing = writing

    def close(self) -> None:
        """Stop listening. Call this in the main thread."""
        now = signal.set_wakeup_fd(-1)
        if now != self._writing:
            signal.set_wakeup_fd(now)
        # The thread reads the end of the pipe, and ends.
        os.close(self._writing)


def listen(number: int, on_late: Callable[[Callable[[], bool]], None]) -> _Listener | None:
    """Call ``on_late`` in another thread, ``LATE_S`` after each signal ``number``.

    Its argument returns whether another signal has come since its last call. Call this in the main thread. Returns None
    if listening is impossible: another listener exists (for example an event loop), or no pipe or thread is available.
    """
    try:
        reading, writing = os.pipe()
    except OSError:
        return None
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    if before == -1 and start_thread("lastbeat-signals", _hear, reading, number, on_late) is not None:
        _hook_forks()
        return _Listener(writing)
    signal.set_wakeup_fd(before)
    os.close(reading)
    os.close(writing)
    return None


def _die_of(number: int) -> None:
    """Kill this process by the signal's default action. Works in any thread, which ``signal.signal`` does not."""
    ctypes.CDLL(None).signal(number, None)
    os.kill(os.getpid(), number)


def _hear(reading: int, number: int, on_late: Callable[[Callable[[], bool]], None]) -> None:
    ready = select.poll()
    ready.register(reading, select.POLLIN)
    closed = False

    def came(wait_ms: float | None) -> bool:
        """Wait up to ``wait_ms`` (None: without limit) for the signal. Returns whether it came."""
        nonlocal closed
        if closed or not ready.poll(wait_ms):
            return False
        numbers = os.read(reading, 64)
        closed = not numbers
        return number in numbers

    while not closed:
        if came(None):
            time.sleep(LATE_S)
            on_late(lambda: came(0))
    os.close(reading)


def _hook_forks() -> None:
    global _fork_hooked  # noqa: PLW0603 - a process has one such descriptor, and a hook of os cannot be removed
    if not _fork_hooked and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)
        _fork_hooked = True


def _forked() -> None:
    """Reset signals in a forked child. A signal to a DataLoader worker must not reach the parent through the shared
    pipe, and one that a scheduler sends to all processes of a job must not end the worker."""
    if threading.current_thread() is threading.main_thread():
        if _termination is not None and _termination.listens:
            signal.set_wakeup_fd(-1)
        for number in _ignored_in_children:
            signal.signal(number, signal.SIG_IGN)
