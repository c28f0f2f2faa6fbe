"""Reading a part of a regular file, and of nothing else: a pipe under its name would hold up whoever opens it."""

import errno
import os
import stat
from datetime import datetime, timezone
from pathlib import Path

from lastbeat.stores.port import Blob

NO_SUCH_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO, errno.ENODEV}


def read_part(path: Path, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
    """As :meth:`lastbeat.stores.port.Store.read`; None for what is no regular file, too. Links are followed.

    Raises ``OSError``, also where there is no such file (:data:`NO_SUCH_FILE`).
    """
    if not stat.S_ISREG(path.stat().st_mode):
        return None
    # Should a pipe have taken the file's place by now, not even that can keep us waiting.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return None
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
