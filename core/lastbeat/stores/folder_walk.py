"""Lists the keys of a directory tree in an object store's order, a page at a time.

A folder sorts as its name with the slash: ``a-b`` < ``a/b`` < ``a0``. Folders that lie wholly before the starting
point are skipped unopened, so 100,000 checkpoints in one of them cost nothing. An unreadable file comes as its key with
the reason, and does not hide its neighbours.
"""

import errno
import os
import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from lastbeat.stores.beneath import LISTED, Beneath, UnsafePathError

MOST_DEEP: Final = 64
"""Deepest nesting of folders that is listed, because each is kept open during the walk of its contents."""
_GONE: Final = {errno.ENOENT, errno.ELOOP, errno.ENAMETOOLONG}
"""Errors of a link to nowhere or to itself, or of a file that was removed since its folder was read."""
_NOT_ITS_FAULT: Final = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Errors of this process or machine, not of the file."""

_LAST: Final = "\U0010ffff".encode()
"""Bytes that sort behind every name."""

Found = tuple[str, os.stat_result | OSError]


class _Name(NamedTuple):
    ordering: bytes
    """Sort key of the name."""
    name: str
    fault: OSError | None = None
    """Why its kind is unknown; None if it is known."""
    linked: bool = False

    @property
    def is_folder(self) -> bool:
        return self.ordering.endswith(b"/")


@dataclass(slots=True)
class _Level:
    """An open folder, and the names in it that are still to be listed."""

    handle: int
    prefix: str
    names: Iterator[_Name]


def walk(beneath: Beneath, prefix: str, start_after: str) -> Generator[Found]:
    """Keys and status of the regular files below the folder ``prefix`` that sort after ``start_after``, lazily.

    An unreadable file or folder comes with its error instead of a status. Such a folder's key ends in a slash, and
    comes also if ``start_after`` lies within the folder. Names that are not UTF-8 are left out, and so are hidden ones,
    except folders of the root.

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
    """The folders right below the root, including unreadable ones. Raises ``OSError``."""
    handle = beneath.open_folder(())
    try:
        return tuple(found.name for found in _names(handle, beneath, "", b"") if found.is_folder)
    finally:
        os.close(handle)


def _open(levels: list[_Level], found: _Name, beneath: Beneath, after: bytes) -> Iterator[Found]:
    """Enter a folder. Yields its key with the error if that fails."""
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
    """Whether the folder may have keys after ``after``."""
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
    """The names in the folder that may be, or contain, a key after ``after``."""
    start = prefix.encode()
    with os.scandir(handle) as listed:
        for entry in listed:
            hidden = entry.name.startswith(".")
            if hidden and prefix:
                continue
            try:
                name = entry.name.encode()
            except UnicodeEncodeError:
                continue  # the file system gave bytes that are not text, and a key is text
            key = start + name + b"/"
            if key <= after and not after.startswith(key):
                # It sorts before ``after`` as a folder and as a file, and every page meets it again.
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
        # A file of the root belongs to no run, so an unknown kind counts as a folder there.
        return _Name(name + b"/" if at_root else name, entry.name, error)


def _is_no_folder(entry: "os.DirEntry[str]") -> bool:
    """Whether a link that is not followed is known to lead to something other than a folder."""
    try:
        return not stat.S_ISDIR(entry.stat().st_mode)
    except OSError:
        return False


def _parts(prefix: str) -> list[str]:
    return [part for part in prefix.split("/") if part]
