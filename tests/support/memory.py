"""A store in memory whose clock is turned by hand, which can fail or stop at any of its calls."""

import threading
from collections.abc import Callable, Collection
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from lastbeat.stores import s3
from lastbeat.stores.port import Blob, Cleared, ConflictError, Entry, Expect, Page, StoreError, check_run_folder
from lastbeat.stores.volatile import IN_MEMORY

START = datetime(2026, 1, 1, 12, 0, 0, tzinfo=timezone.utc)


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the watcher runs after it."""


class _Held(NamedTuple):
    body: bytes
    modified: datetime
    version: str


def _folder(closed: str) -> str:
    """What lies in a closed folder begins with this; in a closed file lies nothing."""
    return closed if closed.endswith("/") else f"{closed}\0"


class MemoryStore:
    """One fleet root in a dictionary. ``before`` and ``after`` are called with (operation, key) around each
    call and may raise: before means that nothing happened, after that it happened and the answer got lost."""

    url = "memory://runs"
    traits = IN_MEMORY

    def __init__(self, now: datetime = START) -> None:
        self.now = now
        self.held: dict[str, _Held] = {}
        self.closed: dict[str, StoreError] = {}
        """Keys, and folders with their slash, that nobody can look at, and why."""
        self.calls: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda _operation, _key: None
        self.after: Callable[[str, str], None] = lambda _operation, _key: None
        self._lock = threading.Lock()
        self._writes = 0

    def die_at(self, call: int, *, before: bool) -> None:
        """Raise :class:`Killed` before, or after, the call with this number, counted from 0, and at every one after."""
        left = call

        def hook(_operation: str, _key: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed

        if before:
            self.before = hook
        else:
            self.after = hook

    def refuse(
        self,
        operation: str | Collection[str],
        error: BaseException | type[BaseException],
        *,
        key: str = "",
        under: str = "",
        named: str = "",
    ) -> None:
        """Raise ``error`` at every call of ``operation``, of one of several, or of "any", whose key is ``key``, begins
        with ``under`` and contains ``named``, as far as they are given."""
        operations = {operation} if isinstance(operation, str) else set(operation)

        def hook(asked: str, at: str) -> None:
            if not operations.isdisjoint({"any", asked}) and key in {"", at} and at.startswith(under) and named in at:
                raise error

        self.before = hook

    def in_s3(self) -> None:
        """From now on it costs what S3 does."""
        self.url, self.traits = "s3://bucket/training-runs", s3.TRAITS

    def heal(self) -> None:
        """No faults any more."""
        self.before = self.after = lambda _operation, _key: None

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def put_text(self, key: str, text: str | bytes, *, modified: datetime | None = None) -> None:
        """What training does, without the faults that the watchdog meets."""
        with self._lock:
            # S3 gives LastModified in whole seconds.
            self._set(
                key, text.encode() if isinstance(text, str) else text, modified or self.now.replace(microsecond=0)
            )

    def _set(self, key: str, body: bytes, modified: datetime) -> str:
        self._writes += 1
        self.held[key] = _Held(body, modified, f"v{self._writes}")
        return self.held[key].version

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        self._enter("list", prefix)
        self._check_open(prefix)
        with self._lock:
            keys = {k for k in self.held if k.startswith(prefix) and k > start_after and self._shut(k) is None}
            keys |= {k for k in self.closed if k.startswith(prefix) and k != prefix and self._is_due(k, start_after)}
            found = sorted(keys)
            entries = tuple(self._entry(k) for k in found[:limit])
        self.after("list", prefix)
        return Page(entries, more=len(found) > limit)

    def _entry(self, key: str) -> Entry:
        if key in self.closed:
            return Entry(key, 0, datetime.fromtimestamp(0, tz=timezone.utc), "unseen", self.closed[key])
        held = self.held[key]
        return Entry(key, len(held.body), held.modified, held.version)

    def _shut(self, key: str) -> StoreError | None:
        """Why ``key`` cannot be looked at, be it for a folder that it lies in."""
        if not self.closed:
            return None
        return next((why for each, why in self.closed.items() if each == key or key.startswith(_folder(each))), None)

    def _is_due(self, closed: str, start_after: str) -> bool:
        within = closed.endswith("/") and start_after.startswith(closed)
        within = within and "" < start_after.removeprefix(closed) < "\U0010ffff"
        outer = any(closed.startswith(_folder(each)) and closed != each for each in self.closed)
        return (closed > start_after or within) and not outer

    def _check_open(self, key: str) -> None:
        if (why := self._shut(key)) is not None:
            raise why

    def folders(self) -> tuple[str, ...]:
        self._enter("folders", "")
        with self._lock:
            found = tuple({key.split("/", 1)[0]: None for key in (*self.held, *self.closed) if "/" in key})
        self.after("folders", "")
        return found

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        self._enter("read", key)
        self._check_open(key)
        with self._lock:
            held = self.held.get(key)
        self.after("read", key)
        if held is None:
            return None
        body = held.body[-limit_bytes:] if from_end else held.body[start : start + limit_bytes]
        return Blob(body, len(held.body), held.modified, held.version)

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        self._enter("write", key)
        self._check_open(key)
        with self._lock:
            held = self.held.get(key)
            refused = (
                held is not None
                if expect is Expect.NOTHING
                else isinstance(expect, str) and (held is None or held.version != expect)
            )
            version = "" if refused else self._set(key, body, self.now.replace(microsecond=0))
        self.after("write", key)
        if refused:
            raise ConflictError(f"{key} is not as expected ({expect})")
        return version

    def clear(self, prefix: str, *, keep: str = "", limit: int = 1000) -> Cleared:
        check_run_folder(prefix)
        self._enter("clear", prefix)
        keys = [key for key in sorted(self.held) if key.startswith(prefix) and key != f"{prefix}{keep}"]
        sizes = [len(self.held.pop(key).body) for key in keys[:limit]]
        return Cleared(len(sizes), sum(sizes), len(keys) > limit)

    def delete(self, key: str) -> None:
        self._enter("delete", key)
        self._check_open(key)
        with self._lock:
            self.held.pop(key, None)
        self.after("delete", key)

    def clock(self) -> datetime:
        return self.now

    def _enter(self, operation: str, key: str) -> None:
        self.calls.append((operation, key))
        self.before(operation, key)
