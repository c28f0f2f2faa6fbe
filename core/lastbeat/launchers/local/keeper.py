"""The process beside a local job: starts it, waits for it, and writes down how it ended.

A supervisor may die or be started again at any time, and only a parent learns an exit status. So the job's parent is
this process, which does nothing else. ``FOLDER`` has the job's ``spec.json``. The keeper inherits an open file whose
lock is held as long as it lives, so that everybody can tell.

What it writes at the end has its room on disk from the beginning.

It is the reaper of its descendants (PR_SET_CHILD_SUBREAPER): whatever the command starts, in sessions of its own as
well, is below it. When the command itself ends, what it left behind is ended, too: two trainings that write into one
folder of checkpoints are worse than none.

This module and :mod:`lastbeat.launchers.processes` also run in pods, with the Python that is there: 3.8 or later.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from lastbeat.launchers import processes

SPEC: Final = "spec.json"
JOB: Final = "job.json"
EXIT: Final = "exit.json"
_RESERVED: Final = "exit.new"
_RESULT_BYTES: Final = 4096
_REASON: Final = 300
_AGAIN_S: Final = 0.5
"""How soon a result is written again that could not be written."""
_SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER."""
_POLL_S: Final = 0.05
_AWAITED: Final = {signal.SIGTERM, signal.SIGCHLD}
_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126


def main(folder: Path) -> None:
    """Run the job of ``folder`` to its end."""
    # Waited for instead of handled: nothing is interrupted, and nothing polls.
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    spec = json.loads((folder / SPEC).read_text(encoding="utf-8"))
    tag = processes.new_tag()
    # Before anything is started: whoever finds no job.json may start the job again.
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
    """Take the room on disk that the job's result will need, for a job may fill the disk. Raises ``OSError``."""
    with (folder / _RESERVED).open("wb") as file:
        file.write(b" " * _RESULT_BYTES)
        file.flush()
        os.fsync(file.fileno())


def _write_result(folder: Path, document: dict[str, Any]) -> None:
    """How the job ended, into the room that is reserved for it; while it cannot be written, this process holds it, and
    lives: a job whose result is lost might be run again although it has ended well."""
    text = json.dumps(document).encode().ljust(_RESULT_BYTES)
    while folder.is_dir() and not _is_written(folder, text):
        # A signal to end changes nothing any more.
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
    """In the command's process, before it is the command."""
    if tag is not None:
        processes.wear(tag)
    # What the keeper ignores or catches is none of the command's business.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)


def _end_all(command: int, ended: int | None, grace_s: float) -> int:
    """SIGTERM to everything below this process, and SIGKILL after ``grace_s``. Returns how ``command`` ended."""
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
    """Take note of every child that has ended, and of ``command`` how: exit status, or minus a signal's number."""
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
    """In one step, and on the disk."""
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
