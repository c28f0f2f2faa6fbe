"""Folders of a pod as a read-only store: checkpoints that only the cluster sees."""

import errno
import os
import posixpath
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Final

from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError
from lastbeat.jobs.launchers.ray_pod.pod_python import PodPython, Said, bytes_of
from lastbeat.model.text import one_line
from lastbeat.stores.kind import FREE, Traits
from lastbeat.stores.port import (
    Blob,
    Cleared,
    DeniedError,
    Entry,
    Expect,
    MissingStoreError,
    Page,
    StoreError,
    UnreachableError,
    check_folder,
    check_key,
)

_MOST_READ: Final = 4 << 20
"""Most bytes that one call reads; longer parts take several."""
_REFUSED: Final = {errno.EACCES, errno.EPERM}
_GONE_AWAY: Final = {
    errno.ESTALE, errno.EIO, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOTCONN, errno.ESHUTDOWN,
    errno.EAGAIN, errno.EINTR,
}  # fmt: skip
_MISSING: Final = {errno.ENOENT, errno.ENOTDIR}
_NEVER: Final = datetime.fromtimestamp(0, tz=timezone.utc)


class PodFiles:
    """The files below ``path`` in the pod, read-only, by one call of ``kubectl exec`` for each request.

    Keys, links and hidden files are as in a directory of this machine that a person names: links are followed, to
    folders right below ``path`` alone.
    """

    def __init__(self, python: PodPython, path: str) -> None:
        self._python = python
        self._path = posixpath.normpath(path) if path else "."

    @property
    def url(self) -> str:
        return self._path

    @property
    def traits(self) -> Traits:
        return Traits(FREE)

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        asked = {"prefix": check_folder(prefix), "after": start_after, "limit": max(1, min(limit, 1000))}
        found = self._ask("list", f"list {prefix or 'the directory'}", asked)
        return Page(tuple(self._entry(each) for each in found["entries"]), bool(found["more"]))

    def folders(self) -> tuple[str, ...]:
        return tuple(map(str, self._ask("folders", "list the directory", {})["names"]))

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        asked = {"key": check_key(key), "from_end": from_end, "start": start}
        first = self._ask("read", f"read {key}", {**asked, "most": max(0, min(limit_bytes, _MOST_READ))})
        if first["size"] is None:
            return None
        body = bytearray(bytes_of(first))
        if from_end and limit_bytes > _MOST_READ:
            # The whole end, from where it begins.
            body.clear()
            first["at"] = max(0, first["size"] - limit_bytes)
        while len(body) < min(limit_bytes, max(0, first["size"] - first["at"])):
            most = min(limit_bytes - len(body), _MOST_READ)
            rest = {"key": key, "from_end": False, "start": first["at"] + len(body), "most": most}
            more = self._ask("read", f"read {key}", rest)
            if more["size"] is None or more["version"] != first["version"]:
                raise UnreachableError(f"{self.url}: {key} was changed while it was read", "it is read again later")
            part = bytes_of(more)
            if not part:
                raise UnreachableError(f"{self.url}: {key} is shorter than it says", "it is read again later")
            body += part
        return Blob(bytes(body), first["size"], _time(first["modified_ns"]), str(first["version"]))

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:  # noqa: ARG002 - the port's face
        raise DeniedError(f"{self.url}: what lies in a pod is only read, so {key} is not written")

    def delete(self, key: str) -> None:
        raise DeniedError(f"{self.url}: what lies in a pod is only read, so {key} is not deleted")

    def clear(self, prefix: str, *, keep: str = "", limit: int = 1000) -> Cleared:  # noqa: ARG002 - as above
        raise DeniedError(f"{self.url}: what lies in a pod is only read, so nothing of {prefix} is deleted")

    def clock(self) -> datetime:
        return _time(self._ask("clock", "ask for its time", {})["ns"])

    def _entry(self, found: Sequence[Any]) -> Entry:
        if len(found) == 4:
            key, size, modified_ns, version = found
            return Entry(str(key), int(size), _time(modified_ns), str(version))
        key, number, why = found
        doing = f"{'list' if str(key).endswith('/') else 'look at'} {key}"
        return Entry(str(key), 0, _NEVER, f"unseen-{number}", self._explained(number, str(why), doing))

    def _ask(self, do: str, doing: str, asked: Mapping[str, Any]) -> Said:
        try:
            answer = self._python.ask({**asked, "do": do, "root": self._path})
        except JobRefusedError as error:
            raise StoreError(f"{self.url}: cannot {doing}: {error}", error.advice) from None
        except LauncherError as error:
            raise UnreachableError(f"{self.url}: cannot {doing} now: {error}", error.advice) from None
        if "fault" in answer:
            raise self._explained(answer.get("errno"), str(answer["fault"]), doing)
        return answer

    def _explained(self, number: int | None, why: str, doing: str) -> StoreError:
        where = f"{self.url} in pod {self._python.pod}"
        said = os.strerror(number) if number is not None and number != errno.EPERM else one_line(why)[:300]
        if number in _REFUSED:
            advice = "check owner and mode there: the user that 'kubectl exec' becomes in the pod has to be let in"
            return DeniedError(f"{where}: not allowed to {doing}: {said}", advice)
        if number in _GONE_AWAY:
            return UnreachableError(
                f"{where}: cannot {doing} now: {said}", "check that the file system is mounted there"
            )
        if number in _MISSING:
            return MissingStoreError(
                f"{where}: there is no such directory", "create it, mount its file system, or correct --checkpoint-dir"
            )
        return StoreError(f"{where}: cannot {doing}: {said}")


def _time(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds / 1e9, tz=timezone.utc)
