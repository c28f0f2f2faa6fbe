"""Opens only regular files, and those below a root: no link leads out of it, not even one that is put there meanwhile.

Opening a pipe would block, so what is no regular file is not opened.

Every part of a key is opened below the part before it, and never through a link. A link is resolved first, and its
target is opened in the same way, part by part, from the root on. So the file that is read is the file that was checked,
even if others rename and link beside it.

An alert must not show the owner of a run's folder a file that this user may not read. The owner controls the folder,
and may put another name of a foreign file there (a hard link). So a file has to belong to the folder's owner. Root and
this program's own user write into others' folders too (a container, an epilogue of the scheduler, ``lastbeat fail``),
and others write into theirs if the mode allows it. Such a file is read as long as it has only one name. (If a file
server squashes root, folder and files belong to the same anonymous user.)

A link within the root is another such name. Its target may lie where the link's maker has no access, in a closed folder
of another user. So a target outside of the link's run folder has to belong to the maker of the link.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Final, NamedTuple

from lastbeat.model import runid
from lastbeat.model.data import dataclass
from lastbeat.stores.port import Blob

_TRUST: Final = "where everyone with write access is trusted, set LASTBEAT_FOLLOW_LINKS=on"
_OUTSIDE: Final = f"let it lie below the fleet root, as a file of the owner of the run's folder; {_TRUST}"
_OTHER_OWNER: Final = (
    "go on with another user's run under a run id of your own, or have its folder and files given to one user (chown); "
    + _TRUST
)
LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
"""Flags to open a folder for listing."""
# Flags to open a folder for access to its files, which needs no permission to list it.
THROUGH: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_ROOT: Final = 0
_OF_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH

Parts = Sequence[str]


class UnsafePathError(PermissionError):
    """An access that lastbeat refuses even if the system allows it; ``strerror`` says why."""

    def __init__(self, why: str, advice: str = _OUTSIDE) -> None:
        super().__init__(errno.EPERM, why)
        self.advice = advice


class _LinkError(Exception):
    """The path contains a link, made by the user ``maker``."""

    def __init__(self, maker: int) -> None:
        self.maker = maker


class _Place(NamedTuple):
    """The target of a key: ``name`` in the open folder ``at``, with the status ``found``, which is no link."""

    at: int
    name: str
    found: os.stat_result
    run: os.stat_result
    """The folder of the key's run."""
    maker: int | None = None
    """Maker of the link that leads there out of the run's folder; None without such a link."""


@dataclass(frozen=True, slots=True)
class Beneath:
    """The files below ``root``, which may itself be a link. Keys come as their parts; none of these is ``.`` or ``..``.

    With ``trusting``, all links are followed, and files of all owners are read. All methods raise ``OSError``, and
    :class:`UnsafePathError` for a file that must not be read.
    """

    root: str
    trusting: bool = False

    def open_folder(self, parts: Parts, flags: int = LISTED) -> int:
        """A descriptor of the folder, which the caller closes."""
        if self.trusting:
            return os.open(self._path(parts), flags)
        handle, _ = self._follow(parts, flags)
        return handle

    @contextmanager
    def folder(self, parts: Parts) -> Iterator[int]:
        """A descriptor of the folder inside the block. The folder need not be readable."""
        handle = self.open_folder(parts, THROUGH)
        try:
            yield handle
        finally:
            os.close(handle)

    def stat(self, parts: Parts) -> os.stat_result:
        """The status of the file at ``parts``, of any owner; links are followed."""
        if self.trusting:
            return os.stat(self._path(parts))  # noqa: PTH116 - names and descriptors here, no paths
        with self._reach(parts) as place:
            return place.found

    def open_file(self, parts: Parts) -> int | None:
        """A descriptor of the regular file, which the caller closes; None if it is no regular file."""
        if self.trusting:
            return open_regular(self._path(parts))
        with self._reach(parts) as place:
            handle = open_regular(place.name, at=place.at, follow=False)
        if handle is None or (why := _why_not(parts, os.fstat(handle), place)) is None:
            return handle
        os.close(handle)
        raise UnsafePathError(why, _OUTSIDE if place.maker is not None else _OTHER_OWNER)

    def _path(self, parts: Parts) -> str:
        return os.path.join(self.root, *parts)  # noqa: PTH118 - as above

    @contextmanager
    def _reach(self, parts: Parts) -> Iterator[_Place]:
        run_parts = parts[:1] if len(parts) > 1 else ()
        with ExitStack() as held:
            handle, real = self._follow(run_parts, THROUGH)
            held.callback(os.close, handle)
            run, maker = os.fstat(handle), None
            try:
                *folder, name = parts[len(run_parts) :]
                at = _down(os.dup(handle), folder, THROUGH)
                held.callback(os.close, at)
                found = _no_link(name, at)
            except _LinkError as link:
                *folder, name = self._real((*real, *parts[len(run_parts) :])) or (".",)
                if not real or (*folder, name)[: len(real)] != tuple(real):
                    maker = link.maker
                with _circles():
                    at = _down(os.open(self.root, THROUGH), folder, THROUGH)
                    held.callback(os.close, at)
                    found = _no_link(name, at)
            yield _Place(at, name, found, run, maker)

    def _follow(self, parts: Parts, flags: int) -> tuple[int, Parts]:
        """The open folder, and its parts without any link."""
        try:
            return _down(os.open(self.root, THROUGH if parts else flags), parts, flags), parts
        except _LinkError as link:
            real, maker = self._real(parts), link.maker
        with _circles():
            handle = _down(os.open(self.root, THROUGH if real else flags), real, flags)
        # A folder right below the root is a run in any case.
        if len(real) > 1 and (why := _linked_folder_refusal(os.fstat(handle), maker)) is not None:
            os.close(handle)
            raise UnsafePathError(why)
        return handle, real

    def _real(self, parts: Parts) -> Parts:
        """The parts that lead to the same file without any link, as of now."""
        try:
            root, real = os.path.realpath(self.root), os.path.realpath(self._path(parts))
        except OSError as error:
            # A link has just been replaced by a file.
            number = errno.EAGAIN if error.errno == errno.EINVAL else error.errno
            raise OSError(number, os.strerror(number or 0)) from error
        if real == root:
            return ()
        inside = root.rstrip("/") + "/"
        if not real.startswith(inside):
            raise UnsafePathError("it is a link that leads out of the fleet root")
        return tuple(real[len(inside) :].split("/"))


def _down(at: int, parts: Parts, flags: int) -> int:
    """Open the folder ``parts`` from ``at``, which is closed. Raises :class:`_LinkError` at the first link."""
    for number, part in enumerate(parts, 1):
        try:
            below = os.open(part, (THROUGH if number < len(parts) else flags) | os.O_NOFOLLOW, dir_fd=at)
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                with suppress(OSError):
                    _no_link(part, at)
            raise
        finally:
            os.close(at)
        at = below
    return at


def _no_link(name: str, at: int) -> os.stat_result:
    found = os.stat(name, dir_fd=at, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        raise _LinkError(found.st_uid)
    return found


def _why_not(parts: Parts, file: os.stat_result, place: _Place) -> str | None:
    """Why the open file must not be read, or None."""
    if place.maker is not None and (why := _linked_refusal(file, place.maker)) is not None:
        return why
    return None if _is_watchdogs(parts) else _refusal(file, place.run)


@contextmanager
def _circles() -> Iterator[None]:
    """Report a link as a loop in the block, where all links are resolved: it leads to itself, or has just appeared."""
    try:
        yield
    except _LinkError:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None


def _refusal(file: os.stat_result, folder: os.stat_result) -> str | None:
    """Why ``file`` must not be read in a run whose folder is ``folder``, or None."""
    if file.st_uid == folder.st_uid:
        return None
    trusted = {_ROOT, os.geteuid()}
    expected = file.st_uid in trusted or (folder.st_uid in trusted and folder.st_mode & _OF_OTHERS)
    if expected and file.st_nlink == 1:
        return None
    whose = f"it belongs to user {file.st_uid}, and the run's folder to user {folder.st_uid}"
    return f"{whose}; it has another name elsewhere" if expected else whose


def _linked_refusal(file: os.stat_result, maker: int) -> str | None:
    """Why ``file`` must not be read through a link that ``maker`` made out of the run's folder, or None."""
    if file.st_uid == maker:
        return None
    return f"it belongs to user {file.st_uid}, and the link to it to user {maker}"


def _linked_folder_refusal(folder: os.stat_result, maker: int) -> str | None:
    """Why a linked folder must not be opened, or None. Root and this program's own user may link to any folder, whose
    files are then judged by its owner."""
    return None if maker in {_ROOT, os.geteuid()} else _linked_refusal(folder, maker)


def _is_watchdogs(parts: Sequence[str]) -> bool:
    """Whether the key is a file that watchdogs write, as any user. Alerts never show these files themselves."""
    return parts[0] == runid.SWEEP_MARK.partition("/")[0] or (len(parts) == 2 and parts[1] == runid.RECORD)


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
