"""Opens what lies below a root and nothing else: no link leads out of it, not even one that is put there meanwhile.

Every part of a key is opened below the part before it, and never through a link. Where one is met it is found out where
it leads, and what lies there is opened in the same way, part by part, from the root on. So what was allowed is what is
read, whoever renames and links beside it.

What the owner of a run's folder may not read must not be shown to him in our alerts either. Whoever owns a run's folder
decides what lies in it, and may put another name of somebody else's file there (a hard link). So a file has to belong
to the folder's owner. Root and this program's own user write into others' folders, too (a container, an epilogue of the
scheduler, ``lastbeat fail``), and others write into theirs where the mode lets them; such a file is read as long as it
has this one name. (Where a file server squashes root, folder and files both belong to nobody, and so to one user.)

A link within the root is another such name, of a file that may lie where its maker cannot go: in a closed folder of
somebody else's. So what a link leads to out of its run's folder has to belong to whoever made the link.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, NamedTuple

from lastbeat.model import runid
from lastbeat.model.data import dataclass
from lastbeat.stores.regular_file import open_regular

_TRUST: Final = "where everybody is trusted who may write there, set LASTBEAT_FOLLOW_LINKS=on"
_OUTSIDE: Final = f"let it lie below the fleet root, as a file of whoever owns the run's folder; {_TRUST}"
_OTHER_OWNER: Final = (
    "go on with another user's run under a run id of your own, or have its folder and files given to one user (chown); "
    + _TRUST
)
LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
"""How a folder is opened that is to be listed."""
# Nobody has to be allowed to list a folder in order to go through it.
THROUGH: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_ROOT: Final = 0
_OF_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH

Parts = Sequence[str]


class UnsafePathError(PermissionError):
    """The system might allow it, and lastbeat does not; ``strerror`` says why."""

    def __init__(self, why: str, advice: str = _OUTSIDE) -> None:
        super().__init__(errno.EPERM, why)
        self.advice = advice


class _LinkError(Exception):
    """There is a link on the way, made by the user ``maker``."""

    def __init__(self, maker: int) -> None:
        self.maker = maker


class _Place(NamedTuple):
    """Where a key leads: ``name`` in the open folder ``at``, which is ``found`` there and no link."""

    at: int
    name: str
    found: os.stat_result
    run: os.stat_result
    """The folder of the key's run."""
    maker: int | None = None
    """Who made the link that leads there out of the run's folder, if one does."""


@dataclass(frozen=True, slots=True)
class Beneath:
    """What lies below ``root``, which may itself be a link. Keys come as their parts; none of these is ``.`` or ``..``.

    With ``trusting``, links are followed wherever they lead, and files are read whoever they belong to. All methods
    raise ``OSError``, and :class:`UnsafePathError` of what is not to be read.
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
        """The folder, for what is done in it while the block lasts; it need not be readable."""
        handle = self.open_folder(parts, THROUGH)
        try:
            yield handle
        finally:
            os.close(handle)

    def stat(self, parts: Parts) -> os.stat_result:
        """What lies there; links are followed, and whoever it belongs to."""
        if self.trusting:
            return os.stat(self._path(parts))  # noqa: PTH116 - names and descriptors here, no paths
        with self._reach(parts) as place:
            return place.found

    def open_file(self, parts: Parts) -> int | None:
        """A descriptor of the regular file, which the caller closes; None for whatever else lies there."""
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
        """The open folder, and the parts that lead there without any link."""
        try:
            return _down(os.open(self.root, THROUGH if parts else flags), parts, flags), parts
        except _LinkError as link:
            real, maker = self._real(parts), link.maker
        with _circles():
            handle = _down(os.open(self.root, THROUGH if real else flags), real, flags)
        # What lies right below the root is a run anyway.
        if len(real) > 1 and (why := _linked_folder_refusal(os.fstat(handle), maker)) is not None:
            os.close(handle)
            raise UnsafePathError(why)
        return handle, real

    def _real(self, parts: Parts) -> Parts:
        """The parts that lead to the same without any link, as of now."""
        try:
            root, real = os.path.realpath(self.root), os.path.realpath(self._path(parts))
        except OSError as error:
            # What was a link a moment ago is none any more.
            number = errno.EAGAIN if error.errno == errno.EINVAL else error.errno
            raise OSError(number, os.strerror(number or 0)) from error
        if real == root:
            return ()
        inside = root.rstrip("/") + "/"
        if not real.startswith(inside):
            raise UnsafePathError("it is a link that leads out of the fleet root")
        return tuple(real[len(inside) :].split("/"))


def _down(at: int, parts: Parts, flags: int) -> int:
    """The folder that ``parts`` lead to from ``at``, which is closed. Raises :class:`_LinkError` at the first link."""
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
    """Why the open file is not to be read."""
    if place.maker is not None and (why := _linked_refusal(file, place.maker)) is not None:
        return why
    return None if _is_watchdogs(parts) else _refusal(file, place.run)


@contextmanager
def _circles() -> Iterator[None]:
    """Where every link was followed already, one more leads to itself, or came this very moment."""
    try:
        yield
    except _LinkError:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None


def _refusal(file: os.stat_result, folder: os.stat_result) -> str | None:
    """Why ``file`` is not to be read in a run whose folder is ``folder``; None: it may be."""
    if file.st_uid == folder.st_uid:
        return None
    trusted = {_ROOT, os.geteuid()}
    expected = file.st_uid in trusted or (folder.st_uid in trusted and folder.st_mode & _OF_OTHERS)
    if expected and file.st_nlink == 1:
        return None
    whose = f"it belongs to user {file.st_uid}, and the run's folder to user {folder.st_uid}"
    return f"{whose}; it has another name elsewhere" if expected else whose


def _linked_refusal(file: os.stat_result, maker: int) -> str | None:
    """Why ``file`` is not to be read by a link that ``maker`` made, out of the run's folder; None: it may be."""
    if file.st_uid == maker:
        return None
    return f"it belongs to user {file.st_uid}, and the link to it to user {maker}"


def _linked_folder_refusal(folder: os.stat_result, maker: int) -> str | None:
    """The same of a folder. Root and this program's own user may lead to anybody's: its files are then judged by it."""
    return None if maker in {_ROOT, os.geteuid()} else _linked_refusal(folder, maker)


def _is_watchdogs(parts: Sequence[str]) -> bool:
    """Whether the key is of what watchdogs write, each as the user that it runs as. None of it is shown as it is."""
    return parts[0] == runid.SWEEP_MARK.partition("/")[0] or (len(parts) == 2 and parts[1] == runid.RECORD)
