"""The keys of a directory tree in the order in which an object store lists them, a page at a time.

A folder sorts as its name with the slash: ``a-b`` < ``a/b`` < ``a0``. Folders that lie wholly before the starting
point are passed over unopened, so that 100,000 checkpoints in one of them cost nothing. What cannot be looked at comes
as its key and why, and hides nothing beside it.
"""

import errno
import os
import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from lastbeat.stores.beneath import LISTED, Beneath, UnsafePathError

MOST_DEEP: Final = 64
"""What lies deeper than so many folders is not listed: each is kept open while what lies in it is gone through."""
_GONE: Final = {errno.ENOENT, errno.ELOOP, errno.ENAMETOOLONG}
"""A link may lead nowhere, or to itself; a file may have been removed since its folder was read."""
_NOT_ITS_FAULT: Final = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}

_LAST: Final = "\U0010ffff".encode()
"""No name sorts behind this."""

Found = tuple[str, os.stat_result | OSError]


class _Name(NamedTuple):
    ordering: bytes
    """The name as it sorts."""
    name: str
    fault: OSError | None = None
    """Why nobody knows what it is."""
    linked: bool = False

    @property
    def is_folder(self) -> bool:
        return self.ordering.endswith(b"/")


@dataclass(slots=True)
class _Level:
    """An open folder, and what is still to come of it."""

    handle: int
    prefix: str
    names: Iterator[_Name]


def walk(beneath: Beneath, prefix: str, start_after: str) -> Generator[Found]:
    """Keys of the regular files that start with the folder ``prefix`` and sort after ``start_after``, lazily. Of what
    cannot be looked at it is why; a folder's key then ends in a slash, and comes also where ``start_after`` lies within
    the folder. Left out are names that are no UTF-8 and hidden ones, but for folders of the root.

    Raises ``OSError`` for ``prefix`` itself.
    """
    after = start_after.encode("utf-8", "surrogatepass")
    levels: list[_Level] = []
    try:
        _enter(levels, beneath.open_folder(_parts(prefix)), beneath, prefix, after)
        while levels:
            level = levels[-1]
            found = next(level.names, None)
            if found is None:
                os.close(levels.pop().handle)
            elif found.is_folder:
                yield from _open(levels, found, beneath, after)
            else:
                yield from _file(level, found, beneath)
    finally:
        for level in levels:
            os.close(level.handle)


def folder_names(beneath: Beneath) -> tuple[str, ...]:
    """The folders right below the root that :func:`walk` looks into, or cannot look into. Raises ``OSError``."""
    handle = beneath.open_folder(())
    try:
        return tuple(found.name for found in _names(handle, beneath, "", b"") if found.is_folder)
    finally:
        os.close(handle)


def _open(levels: list[_Level], found: _Name, beneath: Beneath, after: bytes) -> Iterator[Found]:
    """Go into a folder. What comes is why that cannot be done."""
    level = levels[-1]
    key = f"{level.prefix}{found.name}/"
    try:
        if found.fault is not None:
            raise found.fault
        if len(levels) >= MOST_DEEP:
            raise UnsafePathError(f"it lies more than {MOST_DEEP} folders deep", "")
        if found.linked:
            handle = beneath.open_folder(_parts(key))
        else:
            handle = os.open(found.name, LISTED | os.O_NOFOLLOW, dir_fd=level.handle)
        _enter(levels, handle, beneath, key, after)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno in _NOT_ITS_FAULT:
            raise
        if _is_due(key.encode(), after):
            yield key, error


def _is_due(folder: bytes, after: bytes) -> bool:
    """Whether something of the folder would have to come after ``after``."""
    return folder > after or (after.startswith(folder) and b"" < after[len(folder) :] < _LAST)


def _enter(levels: list[_Level], handle: int, beneath: Beneath, prefix: str, after: bytes) -> None:
    try:
        names = iter(sorted(_names(handle, beneath, prefix, after)))
    except BaseException:
        os.close(handle)
        raise
    levels.append(_Level(handle, prefix, names))


def _file(level: _Level, found: _Name, beneath: Beneath) -> Iterator[Found]:
    key = level.prefix + found.name
    try:
        if found.fault is not None:
            raise found.fault
        if found.linked:
            there = beneath.stat(_parts(key))
            if stat.S_ISDIR(there.st_mode):
                raise UnsafePathError("it is a link to a folder, and such links are followed only as whole runs", "")
        else:
            there = os.stat(found.name, dir_fd=level.handle, follow_symlinks=False)
    except NotADirectoryError:
        return
    except OSError as error:
        if error.errno in _NOT_ITS_FAULT:
            raise
        if error.errno not in _GONE:
            yield key, error
        return
    if stat.S_ISREG(there.st_mode):
        yield key, there


def _names(handle: int, beneath: Beneath, prefix: str, after: bytes) -> Iterator[_Name]:
    """What in the folder may hold or be a key after ``after``."""
    start = prefix.encode()
    with os.scandir(handle) as listed:
        for entry in listed:
            hidden = entry.name.startswith(".")
            if hidden and prefix:
                continue
            try:
                name = entry.name.encode()
            except UnicodeEncodeError:
                continue  # the file system gave bytes that are no text, and a key is text
            key = start + name + b"/"
            if key <= after and not after.startswith(key):
                # It lies before, be it a folder or a file, and each page of a listing meets it again.
                continue
            found = _kind(entry, name, beneath, at_root=not prefix)
            if found.is_folder or (start + name > after and not hidden):
                yield found


def _kind(entry: "os.DirEntry[str]", name: bytes, beneath: Beneath, *, at_root: bool) -> _Name:
    try:
        linked = entry.is_symlink()
        if not linked:
            return _Name(name + b"/" if entry.is_dir(follow_symlinks=False) else name, entry.name)
        if not at_root:
            # Deeper links to folders could lead round in circles.
            return _Name(name, entry.name, linked=True)
        with beneath.folder((entry.name,)):
            return _Name(name + b"/", entry.name, linked=True)
    except NotADirectoryError:
        return _Name(name, entry.name, linked=True)
    except OSError as error:
        if error.errno in _NOT_ITS_FAULT:
            raise
        if error.errno in _GONE or (isinstance(error, UnsafePathError) and _is_no_folder(entry)):
            return _Name(name, entry.name, linked=True)
        # A file of the root is no run's, and what else may lie there is.
        return _Name(name + b"/" if at_root else name, entry.name, error)


def _is_no_folder(entry: "os.DirEntry[str]") -> bool:
    """Whether a link that is not followed leads to something that is known to be no folder."""
    try:
        return not stat.S_ISDIR(entry.stat().st_mode)
    except OSError:
        return False


def _parts(prefix: str) -> list[str]:
    return [part for part in prefix.split("/") if part]
