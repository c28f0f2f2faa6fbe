"""The folder of a job's name, and the jobs in it: what a launcher starts, finds, sees and ends by it.

    submit ──► FOLDER/lock, held by the keeper from its start ──► keeper ──► command, in its own session
               FOLDER/spec.json        FOLDER/job.json                  FOLDER/exit.json

A submitter takes the lock first and hands it to the keeper, so no other process can take it in between. A submitter
that dies before the keeper begins leaves the lock free and no ``job.json``: nothing has happened. So a name is used
once, whichever process dies, and a submission that arrives late, or a second time, finds the job that exists.

This module also runs in pods, with the pod's Python, 3.8 or later.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lastbeat.jobs.launchers import processes
from lastbeat.jobs.launchers.local import keeper
from lastbeat.jobs.launchers.local.keeper import EXIT, JOB, SPEC
from lastbeat.jobs.launchers.processes import ProcessIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    Document = dict[str, Any]

_LOCK: Final = "lock"
KEEPER_LOG: Final = "keeper.log"
OUTPUT: Final = "output.log"
"""The file for the output of a job that names none."""
GRACE_S: Final = 30.0
"""Seconds from SIGTERM to SIGKILL if the job sets no other grace period."""
_POLL_S: Final = 0.02


class JobFolderError(Exception):
    """The request had no effect; ``done`` if it may have had one."""

    def __init__(self, why: str, *, done: bool) -> None:
        super().__init__(why)
        self.done = done


class KeptJob(NamedTuple):
    """The job in a folder."""

    spec: Document
    """Empty if it is lost."""
    begun: Document
    ended: Document | None
    """Its end, if it has ended and its keeper lived to see that."""
    runs: bool


class JobFolder:
    """A job's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def submit(
        self, spec: Document, since: float, start: Callable[[Path, int], None], begin_s: float, *, wait_s: float = 0.0
    ) -> None:
        """Start the job ``spec``, unless one has begun at ``since`` or later. ``start`` starts a keeper that inherits
        the locked file. It has ``begin_s`` to write that the job begins, and another submitter ``wait_s`` to finish.

        Raises :class:`JobFolderError` and ``OSError``.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        end = time.monotonic() + wait_s
        while not self.has(since):
            with self._lock() as held:
                if held is not None and not self.has(since):
                    self._begin(spec, start, held)
                    break
            if time.monotonic() > end:
                raise JobFolderError("another process starts it, or an older job of that name runs", done=True)
            time.sleep(_POLL_S)
        try:
            self._await(begin_s)
        except (OSError, ValueError) as error:
            # Its keeper has the lock, so the job may run.
            raise JobFolderError(f"it is unknown whether it began: {error}", done=True) from error

    def _begin(self, spec: Document, start: Callable[[Path, int], None], held: int) -> None:
        begun = self.document(JOB)
        if begun is not None and any(self._survivors(begun)):
            raise JobFolderError("an older job of that name lost its keeper, and a part of it still runs", done=False)
        for name in (JOB, EXIT):
            (self.path / name).unlink(missing_ok=True)
        keeper.reserve(self.path)
        (self.path / SPEC).write_text(json.dumps(spec), encoding="utf-8")
        start(self.path, held)

    def _await(self, begin_s: float) -> None:
        """Wait until the keeper has written ``job.json``, at whatever time: this machine's clock may be behind."""
        end = time.monotonic() + begin_s
        while self.document(JOB) is None:
            with self._lock() as held:
                if held is not None and self.document(JOB) is None:
                    said = (self.path / KEEPER_LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
                    why = said[-1] if said else "without a word"
                    raise JobFolderError(f"its keeper ended at once: {why}", done=False)
            if time.monotonic() > end:
                raise JobFolderError(f"its keeper has not said within {begin_s:g} s what it started", done=True)
            time.sleep(_POLL_S)

    def find(self, since: float) -> bool:
        """Whether a job has begun at ``since`` or later. Raises :class:`JobFolderError` if that is unknown yet."""
        if self.has(since):
            return True
        if not self.path.is_dir():
            return False
        with self._lock() as held:
            if held is None and not self.has(since):
                raise JobFolderError("it is just being started, or an older job of that name runs", done=True)
            return self.has(since)

    def has(self, since: float) -> bool:
        """Whether the job has begun, at ``since`` or later."""
        begun = self.document(JOB)
        return begun is not None and bool(begun["started_at"] >= since)

    def look(self) -> KeptJob | None:
        """The job as it is now, or None if none has begun."""
        spec, begun, ended = (self.document(name) for name in (SPEC, JOB, EXIT))
        if begun is None:
            return None
        runs = ended is None and (self._keeper_lives(begun) or any(self._survivors(begun)))
        if ended is None and not runs:
            # It may have ended between two checks.
            ended = self.document(EXIT)
        return KeptJob(spec or {}, begun, ended, runs)

    def cancel(self, end: Callable[[Iterable[ProcessIdentity], float], None]) -> None:
        """End the job by its keeper. ``end`` ends the processes of a job that has lost it, within a grace period."""
        job = self.look()
        if job is None or job.ended is not None:
            return
        if self._keeper_lives(job.begun):
            processes.send(_keeper(job.begun), signal.SIGTERM)
            # Wake a suspended process, so that it handles the signal.
            processes.send(_keeper(job.begun), signal.SIGCONT)
        else:
            end(self._survivors(job.begun), float(job.spec.get("grace_s", GRACE_S)))

    def document(self, name: str) -> Document | None:
        """The document of that name, or None if it does not exist."""
        try:
            found: Document = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found

    def _keeper_lives(self, begun: Document) -> bool:
        return begun["boot"] == processes.boot() and processes.lives(_keeper(begun))

    def _survivors(self, begun: Document) -> Iterator[ProcessIdentity]:
        """The processes of a job that have outlived its keeper."""
        if begun["boot"] != processes.boot():
            return iter(())
        return processes.of_job(str(self.path), begun.get("tag"), begun["keeper_started"])

    @contextmanager
    def _lock(self) -> Iterator[int | None]:
        """The open, locked file of the folder, or None if another process holds the lock."""
        handle = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield handle
        finally:
            # The lock belongs to the open file description, which the keeper shares once it runs.
            os.close(handle)


def with_children(seen: Iterable[ProcessIdentity]) -> list[ProcessIdentity]:
    """The living processes among ``seen`` and their descendants."""
    living = {each for each in seen if processes.lives(each)}
    return sorted(living | {child for each in living for child in processes.below(each.pid)})


def end_all(left: Iterable[ProcessIdentity], *, late: bool) -> None:
    """Send SIGTERM, or SIGKILL after the grace period."""
    for process in left:
        processes.send(process, signal.SIGKILL if late else signal.SIGTERM)


def _keeper(begun: Document) -> ProcessIdentity:
    return ProcessIdentity(begun["keeper"], begun["keeper_started"], begun["boot"])
