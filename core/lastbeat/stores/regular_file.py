"""Reads parts of regular files only, because opening a pipe would block."""

import errno
import os
import stat
from datetime import datetime, timezone
from pathlib import Path

from lastbeat.stores.port import Blob

NO_SUCH_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO, errno.ENODEV}


def open_regular(path: str | Path, *, at: int | None = None, follow: bool = True) -> int | None:
    """A descriptor of the regular file at ``path``, which the caller closes; None if it is no regular file. ``path`` is
    relative to the open folder ``at`` if one is given. ``follow`` follows links. Raises ``OSError``."""
    if not stat.S_ISREG(os.stat(path, dir_fd=at, follow_symlinks=follow).st_mode):
        return None
    # O_NONBLOCK, so that a pipe in the file's place by now would not block either.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    handle = os.open(path, flags | (0 if follow else os.O_NOFOLLOW), dir_fd=at)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def read_part(path: Path, limit_bytes: int, *, start: int = 0) -> Blob | None:
    """At most ``limit_bytes`` from ``start`` on; None if ``path`` is no regular file. Links are followed.

    Raises ``OSError``, also for a missing file (:data:`NO_SUCH_FILE`).
    """
    handle = open_regular(path)
    return None if handle is None else read_open(handle, limit_bytes, start=start)


def read_open(handle: int, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob:
    """At most ``limit_bytes`` of an open file from ``start`` on, or with ``from_end`` its last ones. Closes the
    file."""
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        file.seek(max(0, found.st_size - limit_bytes) if from_end else start)
        body = file.read(max(0, limit_bytes))
    return Blob(body, found.st_size, modified_of(found), version_of(found))


def modified_of(found: os.stat_result) -> datetime:
    """The modification time."""
    return datetime.fromtimestamp(found.st_mtime, tz=timezone.utc)


def version_of(found: os.stat_result) -> str:
    """A version from inode, modification time and size. No two contents of a path share all three."""
    return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"


def regular(path: Path) -> os.stat_result | None:
    """The status of ``path`` if it is a regular file, or None."""
    try:
        found = path.stat()
    except OSError as error:
        if error.errno in NO_SUCH_FILE:
            return None
        raise
    return found if stat.S_ISREG(found.st_mode) else None
