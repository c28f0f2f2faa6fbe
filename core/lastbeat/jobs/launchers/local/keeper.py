"""The process beside a local job: it starts the job, waits for it, and writes down how it ended.

A supervisor may die or restart at any time, and only a parent learns an exit status. So this process is the job's
parent, and does nothing else. ``FOLDER`` has the job's ``spec.json``. The keeper inherits an open, locked file. The
lock is held as long as the keeper lives, so any process can check that it does.

It reserves the disk space for its result when it starts.

It is the reaper of its descendants (PR_SET_CHILD_SUBREAPER): every process that the command starts is below it, even in
another session. When the command ends, the keeper ends the processes that it left behind, because two runs that write
into one folder of checkpoints are worse than none.

This module and :mod:`lastbeat.jobs.launchers.processes` also run in pods, with the pod's Python, 3.8 or later.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from lastbeat.jobs.launchers import processes

SPEC: Final = "spec.json"
JOB: Final = "job.json"
EXIT: Final = "exit.json"
_RESERVED: Final = "exit.new"
_RESULT_BYTES: Final = 4096
_REASON: Final = 300
_AGAIN_S: Final = 0.5
"""Seconds between attempts to write the result."""
_POLL_S: Final = 0.05
_AWAITED: Final = {signal.SIGTERM, signal.SIGCHLD}
_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126


def main(folder: Path) -> None:
    """Run the job of ``folder`` to its end."""
    # Wait for signals instead of handling them, so that nothing is interrupted and nothing polls.
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    processes.become_reaper()
    spec = json.loads((folder / SPEC).read_text(encoding="utf-8"))
    tag = processes.new_tag()
    # Write this before the job starts, because a watcher that finds no job.json may start the job again.
    _write(folder / JOB, _job(tag))
    try:
        child = _start(spec, folder, tag)
    except OSError as error:
        status = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
        _write_result(folder, {"code": status, "reason": _why(error, spec), "ended_at": time.time()})
        return
    ended, cancelled = None, False
    while ended is None and not cancelled:
        cancelled = signal.sigwait(_AWAITED) == signal.SIGTERM
        ended = _reaped(child.pid)
    ended = _end_all(child.pid, ended, spec["grace_s"])
    how = {"code": ended if ended >= 0 else None, "signal": -ended if ended < 0 else None, "cancelled": cancelled}
    _write_result(folder, {**how, "ended_at": time.time()})


def reserve(folder: Path) -> None:
    """Reserve disk space for the job's result, because the job may fill the disk. Raises ``OSError``."""
    with (folder / _RESERVED).open("wb") as file:
        file.write(b" " * _RESULT_BYTES)
        file.flush()
        os.fsync(file.fileno())


def _write_result(folder: Path, document: dict[str, Any]) -> None:
    """Write how the job ended into the space reserved for it. Retry until that succeeds, and stay alive: a job whose
    result is lost might run again although it succeeded."""
    text = json.dumps(document).encode().ljust(_RESULT_BYTES)
    while folder.is_dir() and not _is_written(folder, text):
        # By now, a signal to end changes nothing.
        signal.sigtimedwait(_AWAITED, _AGAIN_S)


def _is_written(folder: Path, text: bytes) -> bool:
    try:
        handle = os.open(folder / _RESERVED, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            whole = os.pwrite(handle, text, 0) == len(text)
            os.fsync(handle)
        finally:
            os.close(handle)
        if whole:
            (folder / _RESERVED).replace(folder / EXIT)
    except OSError:
        return False
    return whole


def _start(spec: dict[str, Any], folder: Path, tag: int | None) -> subprocess.Popen[bytes]:
    Path(spec["output"]).parent.mkdir(parents=True, exist_ok=True)
    with Path(spec["output"]).open("ab") as output:
        return subprocess.Popen(
            spec["command"],
            cwd=spec["cwd"],
            env={**(spec.get("inherited") or os.environ), **spec["environment"], processes.MARK: str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: _begin(tag),  # noqa: PLW1509 - there are no threads here
        )


def _begin(tag: int | None) -> None:
    """Prepare the child process, before it executes the command."""
    if tag is not None:
        processes.wear(tag)
    # The command must not inherit the keeper's signal handling.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)


def _end_all(command: int, ended: int | None, grace_s: float) -> int:
    """Send SIGTERM to all descendants, and SIGKILL after ``grace_s``. Returns how ``command`` ended."""
    began = time.monotonic()
    asked: set[processes.ProcessIdentity] = set()
    while True:
        ended = _reaped(command, ended)
        left = set(processes.below(os.getpid()))
        if not left and ended is not None:
            return ended
        late = time.monotonic() - began > grace_s
        for process in left if late else left - asked:
            processes.send(process, signal.SIGKILL if late else signal.SIGTERM)
        asked |= left
        signal.sigtimedwait({signal.SIGCHLD}, _POLL_S)


def _reaped(command: int, ended: int | None = None) -> int | None:
    """Reap every child that has ended. Returns how ``command`` ended: its exit status, or minus a signal's number."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            if pid == command:
                ended = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return ended


def _job(tag: int | None) -> dict[str, Any]:
    keeper = processes.identity(os.getpid())
    return {
        "boot": processes.boot(),
        "host": os.uname().nodename,
        "keeper": os.getpid(),
        "keeper_started": keeper.started if keeper is not None else 0,
        "started_at": time.time(),
        "tag": tag,
    }


def _why(error: OSError, spec: dict[str, Any]) -> str:
    named = error.filename if isinstance(error.filename, str) else spec["command"][0]
    return f"{named}: {error.strerror or error}"[:_REASON]


def _write(path: Path, document: dict[str, Any]) -> None:
    """Write ``document`` atomically, and flush it to disk."""
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
