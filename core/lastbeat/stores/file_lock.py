"""One writer at a time in a folder, also across processes and, where the file system can, across machines."""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

NAME = ".lastbeat.lock"
"""Hidden, and never removed: two writers that lock a file before and after its removal would both go on."""

_POLL_S = 0.003


class BusyError(Exception):
    """The lock was not to be had in time."""


@contextmanager
def locked(
    folder: int,
    wait_s: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
    steady: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Hold the lock of the open folder ``folder``, waiting for it ``wait_s`` seconds at most.

    Raises :class:`BusyError` when it is not to be had, ``OSError`` when the file system has no locks.
    """
    handle = _open(folder)
    try:
        until = steady() + wait_s
        while not _taken(handle):
            if steady() >= until:
                raise BusyError
            sleep(_POLL_S)
        yield
    finally:
        # A child that was forked meanwhile holds the handle too; closing ours would leave the lock with it.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _open(folder: int) -> int:
    # Should it be a pipe, nobody has to come to its other end.
    flags = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(NAME, os.O_RDWR | flags, 0o666, dir_fd=folder)
    except PermissionError:
        # Made by another user, and not ours to write. Locking it needs no more than to read it.
        return os.open(NAME, os.O_RDONLY | flags, 0o666, dir_fd=folder)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES, errno.EINTR}:
            return False
        raise
    return True
