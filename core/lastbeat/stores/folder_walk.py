"""The keys of a directory tree in the order in which an object store lists them, a page at a time.

A folder sorts as its name with the slash: ``a-b`` < ``a/b`` < ``a0``. Folders that lie wholly before the starting
point are passed over unopened, so that 100,000 checkpoints in one of them cost nothing.
"""

import errno
import os
import stat
from collections.abc import Iterator

_PASSED_OVER = {errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG}


def walk(root: str, prefix: str, start_after: str) -> Iterator[tuple[str, os.stat_result]]:
    """Keys of the regular files below ``root`` that start with the folder ``prefix`` and sort after
    ``start_after``, lazily. Hidden files and names that are no UTF-8 are left out.

    Raises ``OSError`` for a folder that exists and cannot be read.
    """
    after = start_after.encode("utf-8", "surrogatepass")
    yield from _folder(os.path.join(root, prefix) if prefix else root, prefix, after)  # noqa: PTH118


def folder_names(root: str) -> tuple[str, ...]:
    """The folders right below ``root`` that :func:`walk` looks into; none where there is no ``root``."""
    try:
        with os.scandir(root) as found:
            return tuple(name[:-1].decode() for name, _ in _wanted(found, "", b"") if name.endswith(b"/"))
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _folder(path: str, prefix: str, after: bytes) -> Iterator[tuple[str, os.stat_result]]:
    try:
        with os.scandir(path) as found:
            names = sorted(_wanted(found, prefix, after))
    except (FileNotFoundError, NotADirectoryError):
        return  # never there, or gone since its parent was read
    except OSError as error:
        # Somebody's private checkpoints must not hide the heartbeats beside them; a run's own folder must.
        if prefix.count("/") < 2 or error.errno not in _PASSED_OVER:
            raise
        return
    for ordering, name in names:
        full = os.path.join(path, name)  # noqa: PTH118 - a Path for each of 100,000 names takes a second
        if ordering.endswith(b"/"):
            yield from _folder(full, f"{prefix}{name}/", after)
            continue
        try:
            found_stat = os.stat(full)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if error.errno not in {errno.ELOOP, errno.ENAMETOOLONG}:
                raise
            continue  # a link that leads round in circles is no file
        if stat.S_ISREG(found_stat.st_mode):
            yield prefix + name, found_stat


def _wanted(found: "Iterator[os.DirEntry[str]]", prefix: str, after: bytes) -> Iterator[tuple[bytes, str]]:
    """(name as it sorts, name) of what may hold or be a key after ``after``."""
    start = prefix.encode()
    for entry in found:
        if entry.name.startswith("."):
            continue
        try:
            name = entry.name.encode()
        except UnicodeEncodeError:
            continue  # the file system gave bytes that are no text, and a key is text
        key = start + name + b"/"
        if key <= after and not after.startswith(key):
            # It lies before, be it a folder or a file, and each page of a listing meets it again.
            continue
        if _leads_on(entry, prefix):
            yield name + b"/", entry.name
        elif start + name > after:
            yield name, entry.name


def _leads_on(entry: "os.DirEntry[str]", prefix: str) -> bool:
    # A whole run may lie elsewhere, behind a link; deeper links could lead round in circles.
    try:
        return entry.is_dir(follow_symlinks=not prefix)
    except OSError:
        return False
