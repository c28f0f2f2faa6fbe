"""A store in memory whose clock is turned by hand, which can fail or stop at any of its calls."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from lastbeat.stores.port import Blob, ConflictError, Entry, Expect, Page

START = datetime(2026, 1, 1, 12, 0, 0, tzinfo=timezone.utc)


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the watcher runs after it."""


@dataclass(frozen=True)
class _Held:
    body: bytes
    modified: datetime
    version: str


class MemoryStore:
    """One fleet root in a dictionary. ``before`` and ``after`` are called with (operation, key) around each
    call and may raise: before means that nothing happened, after that it happened and the answer got lost."""

    url = "memory://runs"

    def __init__(self, now: datetime = START) -> None:
        self.now = now
        self.held: dict[str, _Held] = {}
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

    def heal(self) -> None:
        """No faults any more."""
        self.before = self.after = lambda _operation, _key: None

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def put_text(self, key: str, text: str, *, modified: datetime | None = None) -> None:
        """What training does, without the faults that the watchdog meets."""
        with self._lock:
            self._set(key, text.encode())
            if modified is not None:
                self.held[key] = replace(self.held[key], modified=modified)

    def _set(self, key: str, body: bytes) -> str:
        self._writes += 1
        # S3 gives LastModified in whole seconds.
        self.held[key] = _Held(body, self.now.replace(microsecond=0), f"v{self._writes}")
        return self.held[key].version

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        self._enter("list", prefix)
        with self._lock:
            keys = sorted((k for k in self.held if k.startswith(prefix) and k > start_after), key=str.encode)
            entries = tuple(
                Entry(k, len(self.held[k].body), self.held[k].modified, self.held[k].version) for k in keys[:limit]
            )
        self.after("list", prefix)
        return Page(entries, more=len(keys) > limit)

    def folders(self) -> tuple[str, ...]:
        self._enter("folders", "")
        with self._lock:
            found = tuple({key.split("/", 1)[0]: None for key in self.held if "/" in key})
        self.after("folders", "")
        return found

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        self._enter("read", key)
        with self._lock:
            held = self.held.get(key)
        self.after("read", key)
        if held is None:
            return None
        body = held.body[-limit_bytes:] if from_end else held.body[start : start + limit_bytes]
        return Blob(body, len(held.body), held.modified, held.version)

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        self._enter("write", key)
        with self._lock:
            held = self.held.get(key)
            refused = (
                held is not None
                if expect is Expect.NOTHING
                else isinstance(expect, str) and (held is None or held.version != expect)
            )
            version = "" if refused else self._set(key, body)
        self.after("write", key)
        if refused:
            raise ConflictError(f"{key} is not as expected ({expect})")
        return version

    def delete(self, key: str) -> None:
        self._enter("delete", key)
        with self._lock:
            self.held.pop(key, None)
        self.after("delete", key)

    def clock(self) -> datetime:
        return self.now

    def _enter(self, operation: str, key: str) -> None:
        self.calls.append((operation, key))
        self.before(operation, key)
