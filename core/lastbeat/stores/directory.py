"""A directory as a fleet root, on this machine or on a shared file system of a cluster."""

import errno
import fcntl
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path

from lastbeat.model.setting import SettingValues
from lastbeat.stores.beneath import (
    LISTED,
    NO_SUCH_FILE,
    THROUGH,
    Beneath,
    UnsafePathError,
    modified_of,
    read_open,
    version_of,
)
from lastbeat.stores.clock import StoreClock
from lastbeat.stores.folder_walk import folder_names, walk
from lastbeat.stores.kind import DEFAULT_DIRECTORY, Root, Traits
from lastbeat.stores.local import FOLLOW_LINKS, TRAITS
from lastbeat.stores.port import (
    Blob,
    Cleared,
    ConflictError,
    DeniedError,
    Entry,
    Expect,
    MissingStoreError,
    Page,
    StoreError,
    UnreachableError,
    check_folder,
    check_key,
    check_run_folder,
)

_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_GONE_AWAY = {
    errno.ESTALE,
    errno.EIO,
    errno.ETIMEDOUT,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENOTCONN,
    errno.ESHUTDOWN,
    errno.EAGAIN,
    errno.EINTR,
}
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}
_FULL = {errno.ENOSPC, errno.EDQUOT}
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}
_LIKE_A_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_NEVER = datetime.fromtimestamp(0, tz=timezone.utc)
"""Modification time of an entry that could not be read."""
LOCK_FILE = ".lastbeat.lock"
"""Name of the lock file. It is never removed: two writers that lock before and after a removal would both proceed."""

OWN_FILE_SYSTEMS = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "tmpfs", "ramfs", "overlay"}
)
"""File systems on which this machine's kernel stamps files, by its own clock. On others the stamp comes from a server
(NFS, Lustre, CephFS), another host of a cluster (GPFS, GFS2), the host around a guest (9p, virtiofs), or an unknown
source."""
_MOUNTS = Path("/proc/self/mountinfo")
_LOCK_POLL_S = 0.003
"""Pause in s between two attempts to take a lock."""


class DirectoryStore:
    """The store port over regular files. Any other file (a pipe, a socket, a device) counts as missing.

    Every writer of this program takes the lock of the key's folder, so a conditional write is one step. A version is
    inode, modification time and size. A write always advances the time, at least by a nanosecond.

    With ``create``, a missing root is empty and the first write creates it. Without ``create`` it is an error, because
    a file system that is not mounted must not look like a fleet without runs. With ``private``, only its user has
    access to a created root. Unless ``trusting``, no link out of the root is followed, and only files that their run
    may show are read (:mod:`lastbeat.stores.beneath`).
    """

    def __init__(
        self,
        root: Path,
        *,
        create: bool = False,
        private: bool = False,
        trusting: bool = False,
        lock_wait_s: float = 10.0,
    ) -> None:
        self._root = Path(os.path.abspath(root.expanduser()))  # noqa: PTH100 - resolve() would rename the user's path
        self._beneath = Beneath(str(self._root), trusting)
        self._create = create
        self._private = private
        self._lock_wait_s = lock_wait_s
        self._clock = StoreClock(self._time_s, str(self._root), level=logging.INFO)
        self._traits: Traits | None = None

    @property
    def url(self) -> str:
        return str(self._root)

    @property
    def traits(self) -> Traits:
        if self._traits is None and self._is_there():
            self._traits = replace(TRAITS, one_clock=file_system_of(self._root) in OWN_FILE_SYSTEMS)
        return self._traits or TRAITS

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        check_folder(prefix)
        limit = max(1, min(limit, 1000))
        with self._explaining(f"list {prefix or 'the directory'}"):
            try:
                with closing(walk(self._beneath, prefix, start_after)) as listed:
                    found = list(islice(listed, limit + 1))
            except (FileNotFoundError, NotADirectoryError):
                # It never existed, or has just been removed.
                self._check_root()
                found = []
        return Page(tuple(self._entry(key, there) for key, there in found[:limit]), more=len(found) > limit)

    def folders(self) -> tuple[str, ...]:
        with self._explaining("list the directory"):
            try:
                return folder_names(self._beneath)
            except (FileNotFoundError, NotADirectoryError):
                self._check_root()
                return ()

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        parts = _parts(key)
        with self._explaining(f"read {key}"):
            try:
                handle = self._beneath.open_file(parts)
            except OSError as error:
                if error.errno not in NO_SUCH_FILE:
                    raise
                self._check_root()
                return None
            return None if handle is None else read_open(handle, limit_bytes, from_end=from_end, start=start)

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        parts = _parts(key)
        with self._explaining(f"write {key}"), ExitStack() as held:
            folder = held.enter_context(self._made_folder(parts[:-1]))
            self._lock(held, folder, parts, expect)
            before = self._regular(parts)
            if expect is Expect.NOTHING and before is not None:
                raise ConflictError(f"{self.url}: {key} exists already")
            if isinstance(expect, str) and (before is None or version_of(before) != expect):
                raise ConflictError(f"{self.url}: {key} is no longer at the expected version")
            return version_of(_replace(folder, parts[-1], body, before))

    def delete(self, key: str) -> None:
        parts = _parts(key)
        with self._explaining(f"delete {key}"), ExitStack() as held:
            if self._regular(parts) is None:
                self._check_root()
                return
            folder = held.enter_context(self._beneath.folder(parts[:-1]))
            self._lock(held, folder, parts, Expect.ANYTHING)
            with suppress(FileNotFoundError):
                os.unlink(parts[-1], dir_fd=folder)

    def clear(self, prefix: str, *, keep: str = "", limit: int = 1000) -> Cleared:
        name = check_run_folder(prefix)
        with self._explaining(f"clear {prefix}"), ExitStack() as held:
            root = os.open(self._root, LISTED)
            held.callback(os.close, root)
            try:
                folder = os.open(name, LISTED | os.O_NOFOLLOW, dir_fd=root)
            except FileNotFoundError:
                return Cleared(0, 0)
            except OSError as error:
                if error.errno not in {errno.ELOOP, errno.ENOTDIR}:
                    raise
                what = f"{self.url}/{name} is a link, or no folder: nothing was deleted there"
                raise StoreError(what, "remove the link itself with rm, if it is not needed") from error
            held.callback(os.close, folder)
            cleared = _clear(folder, keep, max(1, limit))
            if not cleared.more and set(os.listdir(folder)) <= {LOCK_FILE}:  # noqa: PTH208 - an open folder has no path
                with suppress(FileNotFoundError):
                    os.unlink(LOCK_FILE, dir_fd=folder)
                os.rmdir(name, dir_fd=root)
            return cleared

    def clock(self) -> datetime:
        return self._clock()

    def _entry(self, key: str, there: os.stat_result | OSError) -> Entry:
        if isinstance(there, os.stat_result):
            return Entry(key, there.st_size, modified_of(there), version_of(there))
        fault = self._explain(there, f"{'list' if key.endswith('/') else 'look at'} {key}")
        return Entry(key, 0, _NEVER, f"unseen-{there.errno}", fault)

    def _regular(self, parts: Sequence[str]) -> os.stat_result | None:
        """The status of the file at ``parts`` if it is a regular one, or None."""
        try:
            found = self._beneath.stat(parts)
        except OSError as error:
            if error.errno not in NO_SUCH_FILE:
                raise
            return None
        return found if stat.S_ISREG(found.st_mode) else None

    def _is_there(self) -> bool:
        """Whether the root is a directory that this user reaches. Never raises: the next operation says why not."""
        return os.path.isdir(self._root)  # noqa: PTH112 - Path.is_dir() raises for a closed folder, or a stale mount

    def _check_root(self) -> None:
        if not self._create and not self._is_there():
            self._root.stat()  # says why
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self._root))

    @contextmanager
    def _made_folder(self, parts: Sequence[str]) -> Iterator[int]:
        """The open folder, created with its parents if it is missing."""
        try:
            handle = self._beneath.open_folder(parts, THROUGH)
        except FileNotFoundError:
            self._check_root()
            self._make_folder(parts)
            handle = self._beneath.open_folder(parts, THROUGH)
        try:
            yield handle
        finally:
            os.close(handle)

    def _make_folder(self, parts: Sequence[str]) -> None:
        if self._create:
            self._root.mkdir(mode=0o700 if self._private else 0o777, parents=True, exist_ok=True)
        for depth, name in enumerate(parts):
            with self._beneath.folder(parts[:depth]) as above, suppress(FileExistsError):
                os.mkdir(name, dir_fd=above)

    def _lock(self, held: ExitStack, folder: int, parts: Sequence[str], expect: Expect | str) -> None:
        try:
            held.enter_context(_locked(folder, self._lock_wait_s))
        except OSError as error:
            # A heartbeat is useful without a lock, but a conditional write without one would be unsafe.
            if error.errno not in _NO_LOCKS or expect is not Expect.ANYTHING:
                raise
        except _BusyError:
            raise UnreachableError(
                f"{self.url}: another writer holds {self._root.joinpath(*parts[:-1], LOCK_FILE)}",
                f"find it with `fuser {LOCK_FILE}`; a lock that its owner left behind ends with the owner",
            ) from None

    @contextmanager
    def _explaining(self, doing: str) -> Iterator[None]:
        try:
            yield
            self._clock.answered()
        except OSError as error:
            raise self._explain(error, doing) from error

    def _explain(self, error: OSError, doing: str) -> StoreError:
        if isinstance(error, UnsafePathError):
            return DeniedError(f"{self.url}: lastbeat does not {doing}: {error.strerror}", error.advice)
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        if error.errno in _REFUSED:
            advice = "check owner and mode there and of the folders above: the watcher's user has to be let in"
            return DeniedError(f"{self.url}: not allowed to {doing}: {why}", advice)
        if error.errno in _GONE_AWAY:
            return UnreachableError(f"{self.url}: cannot {doing} now: {why}", "check that the file system is mounted")
        if error.errno in _FULL:
            return StoreError(f"{self.url}: cannot {doing}: {why}", "make room on that file system")
        if error.errno in _NO_LOCKS:
            return StoreError(f"{self.url}: cannot {doing}: {why}", "mount that file system with locks")
        if not self._create and not self._is_there():
            return MissingStoreError(
                f"{self.url}: there is no such directory",
                f"create it, mount its file system, or correct MONITORING_ROOT{_as_bucket(self._root)}",
            )
        return StoreError(f"{self.url}: cannot {doing}: {why}")

    def _time_s(self) -> float | None:
        """The time that the file system stamps on a file now, by a file server's own clock. None if unknown."""
        try:
            # A file without a name leaves nothing behind, even after a crash.
            handle = os.open(self._root, getattr(os, "O_TMPFILE", os.O_DIRECTORY) | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except OSError:
            return self._named_time_s()
        try:
            os.utime(handle)
            return os.fstat(handle).st_mtime
        except OSError:
            return None
        finally:
            os.close(handle)

    def _named_time_s(self) -> float | None:
        """:meth:`_time_s` by a file with a name, which some file systems require, such as NFS."""
        probe = self._root / f".lastbeat-clock-{os.getpid()}-{time.monotonic_ns()}"
        try:
            handle = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            try:
                os.utime(handle)
                return os.fstat(handle).st_mtime
            finally:
                os.close(handle)
                probe.unlink(missing_ok=True)
        except OSError:
            return None  # the directory is missing or read-only; the clock logs that it lacks the store's time


def _as_bucket(root: Path) -> str:
    """Advice for a path such as ``my-bucket/training-runs``, which may be meant as a bucket; "" for other paths."""
    try:
        written = root.relative_to(Path.cwd())
    except (OSError, ValueError):
        return ""
    name = next(iter(written.parts), "")
    if str(written) == DEFAULT_DIRECTORY or Path(name).exists() or not re.fullmatch(_LIKE_A_BUCKET, name):
        return ""
    return f"; for a bucket write s3://{written}"


def file_system_of(folder: Path, mounts: Path = _MOUNTS) -> str:
    """The type of the file system of ``folder`` by Linux's name; "" if unknown."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        real = f"{os.path.realpath(folder).rstrip('/')}/"
    except OSError:
        return ""
    found = ("", "")
    for line in lines:
        fields, _, rest = line.partition(" - ")
        # Blanks and similar characters are escaped as three octal digits.
        at = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields.split(" ")[4])
        if real.startswith(f"{at.rstrip('/')}/") and len(at) >= len(found[0]):
            found = (at, rest.split(" ", 1)[0])
    return found[1]


def _parts(key: str) -> list[str]:
    return check_key(key).split("/")


def _clear(folder: int, keep: str, limit: int) -> Cleared:
    """Remove the contents of the open ``folder``, deepest first, without following links."""
    count = size = 0
    for path, folders, files, at in os.fwalk(".", topdown=False, dir_fd=folder):
        for name in files:
            if path == "." and name in {keep, LOCK_FILE}:
                continue
            if count >= limit:
                return Cleared(count, size, more=True)
            if name != LOCK_FILE:
                size += os.stat(name, dir_fd=at, follow_symlinks=False).st_size
                count += 1
            os.unlink(name, dir_fd=at)
        for name in folders:
            is_link = stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
            (os.unlink if is_link else os.rmdir)(name, dir_fd=at)
    return Cleared(count, size)


def _replace(folder: int, name: str, body: bytes, before: os.stat_result | None) -> os.stat_result:
    """Write ``body`` to ``name`` in the open folder, atomically, with a later time than ``before``. It is on the disk
    when this returns."""
    fresh = f".lastbeat-{os.getpid()}-{time.monotonic_ns()}-{os.urandom(4).hex()}"
    handle = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
            file.flush()
            written = _advance_time(handle, before)
            os.fsync(handle)
        os.replace(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        raise
    _sync_folder(folder)
    return written


def _advance_time(handle: int, before: os.stat_result | None) -> os.stat_result:
    """Make the file's modification time later than ``before``, and return its status.

    Inodes are reused at once, so only the time distinguishes a version from the one before the last. File systems keep
    it to a nanosecond, a microsecond or a whole second.
    """
    now = os.fstat(handle)
    step_ns = 1
    while before is not None and now.st_mtime_ns <= before.st_mtime_ns and step_ns <= 2_000_000_000:
        os.utime(handle, ns=(now.st_atime_ns, before.st_mtime_ns + step_ns))
        now = os.fstat(handle)
        step_ns *= 1000 if step_ns < 1_000_000 else 2000
    return now


def _sync_folder(folder: int) -> None:
    handle = os.open(".", LISTED, dir_fd=folder)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:  # some file systems have nothing to sync there
            raise
    finally:
        os.close(handle)


class _BusyError(Exception):
    """The lock could not be taken in time."""


@contextmanager
def _locked(
    folder: int,
    wait_s: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
    steady: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Hold the lock of the open folder ``folder``, after waiting for it ``wait_s`` seconds at most.

    Raises :class:`_BusyError` after that time, and ``OSError`` if the file system has no locks.
    """
    handle = _open_lock(folder)
    try:
        until = steady() + wait_s
        while not _try_lock(handle):
            if steady() >= until:
                raise _BusyError
            sleep(_LOCK_POLL_S)
        yield
    finally:
        # A child that was forked meanwhile shares the handle, so closing this one alone would keep the lock.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _open_lock(folder: int) -> int:
    # O_NONBLOCK, because opening a pipe would wait for its other end.
    flags = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(LOCK_FILE, os.O_RDWR | flags, 0o666, dir_fd=folder)
    except PermissionError:
        # Another user made it, and this one may not write it. Permission to read is enough for a lock.
        return os.open(LOCK_FILE, os.O_RDONLY | flags, 0o666, dir_fd=folder)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES, errno.EINTR}:
            return False
        raise
    return True


def open_store(
    root: Root, values: SettingValues, environ: Mapping[str, str], *, training: bool = False
) -> DirectoryStore:
    """The store for ``root``. With ``training``, the first write creates a missing directory, which is an error for a
    watchdog. And it follows its user's links, because its rights do not exceed its user's."""
    return DirectoryStore(root.path, create=training, trusting=training or values[FOLLOW_LINKS])
