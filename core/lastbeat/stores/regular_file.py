"""Reading a part of a regular file, and of nothing else: a pipe under its name would hold up whoever opens it."""

import errno
import os
import stat
from datetime import datetime, timezone
from pathlib import Path

from lastbeat.stores.port import Blob

NO_SUCH_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO, errno.ENODEV}


def open_regular(path: str | Path, *, at: int | None = None, follow: bool = True) -> int | None:
    """A descriptor of the regular file at ``path``, below the open folder ``at`` where one is given, which the caller
    closes; None for what is no regular file. ``follow``: links are. Raises ``OSError``."""
    if not stat.S_ISREG(os.stat(path, dir_fd=at, follow_symlinks=follow).st_mode):
        return None
    # Should a pipe have taken the file's place by now, not even that can keep us waiting.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    handle = os.open(path, flags | (0 if follow else os.O_NOFOLLOW), dir_fd=at)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def read_part(path: Path, limit_bytes: int, *, start: int = 0) -> Blob | None:
    """At most ``limit_bytes`` from ``start`` on; None for what is no regular file. Links are followed.

    Raises ``OSError``, also where there is no such file (:data:`NO_SUCH_FILE`).
    """
    handle = open_regular(path)
    return None if handle is None else read_open(handle, limit_bytes, start=start)


def read_open(handle: int, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob:
    """The same of an open file, which is closed; with ``from_end`` its last ``limit_bytes``."""
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        file.seek(max(0, found.st_size - limit_bytes) if from_end else start)
        body = file.read(max(0, limit_bytes))
    return Blob(body, found.st_size, modified_of(found), version_of(found))


def modified_of(found: os.stat_result) -> datetime:
    """When it was last written to."""
    return datetime.fromtimestamp(found.st_mtime, tz=timezone.utc)


def version_of(found: os.stat_result) -> str:
    """Inode, modification time and size: no two contents of a path share all three."""
    return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"


def regular(path: Path) -> os.stat_result | None:
    """What lies at ``path`` if that is a regular file."""
    try:
        found = path.stat()
    except OSError as error:
        if error.errno in NO_SUCH_FILE:
            return None
        raise
    return found if stat.S_ISREG(found.st_mode) else None
