"""Documents that people change for a fleet: JSON with a schema number, changed by compare-and-set, so that concurrent
changes are kept."""

import json
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Final, Generic, TypeVar

from lastbeat.model.codec import DamagedError, NewerError, codec, without_schema
from lastbeat.model.persisted import Persisted
from lastbeat.stores.port import Blob, ConflictError, Expect, Store, StoreError, UnreachableError

LIMIT_BYTES: Final = 64 * 1024
SCHEMA: Final = 1
GOOD_FOR_S: Final = 60.0
"""Seconds for which a watcher relies on what it has read, so people's changes take effect within this time."""
ASK_AGAIN_S: Final = 10.0
"""Seconds until the next try after a failed read: a pass with a thousand alerts must not read a thousand times."""
T = TypeVar("T")


class Remembered(Generic[T]):
    """The last content of a document: read on the first question, and again when it has expired. Thread-safe."""

    def __init__(self, first: T, ask: Callable[[], tuple[T, float]]) -> None:
        """``ask`` reads the document. It returns the content, and the number of seconds for which that is good."""
        self.held = first
        """The content that was last read, however old."""
        self._ask = ask
        self._lock = threading.Lock()
        self._read_at: datetime | None = None
        self._good_for_s = 0.0

    def at(self, now: datetime) -> T:
        """The content at ``now``, by the store's clock. A second thread waits for the answer to the first read."""
        with self._lock:
            if self._read_at is None or abs((now - self._read_at).total_seconds()) >= self._good_for_s:
                self.held, self._good_for_s = self._ask()
                self._read_at = now
            return self.held

    def forget(self) -> None:
        """Make the next question read again."""
        with self._lock:
            self._read_at = None


def encode(held: Persisted) -> bytes:
    """The document, readable for people."""
    document = {"schema": SCHEMA, **codec(type(held)).document(held)}
    return json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "replace")


def parse(blob: Blob, key: str, example: str) -> dict[str, object]:
    """The document ``key`` as JSON data, without its schema number; ``example`` is a complete one. Raises
    :class:`DamagedError`, and :class:`StoreError` for one that only a newer lastbeat can read."""
    if blob.size_bytes > LIMIT_BYTES:
        raise DamagedError(f"it has {blob.size_bytes:,} bytes; {LIMIT_BYTES:,} is the most")
    try:
        document = json.loads(blob.body.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise DamagedError(f"it is not JSON: {error.msg} at line {error.lineno} column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"it is not JSON ({type(error).__name__})") from error
    try:
        return without_schema(document, SCHEMA, key)
    except NewerError as error:
        raise StoreError(str(error), "upgrade lastbeat on this machine") from error
    except DamagedError as error:
        raise DamagedError(f"{error}: {example}") from error


def change(store: Store, key: str, wanted: Callable[[Blob | None], Persisted | None], too_large: str) -> None:
    """Write what ``wanted`` makes of the document ``key``, or nothing if it returns None. Raises :class:`StoreError`.

    ``wanted`` may be called several times; see :func:`update`. ``too_large`` is the advice for a
    document that would become too large.
    """

    def change_body(blob: Blob | None) -> bytes | None:
        held = wanted(blob)
        if held is None:
            return None
        body = encode(held)
        if len(body) > LIMIT_BYTES:
            raise StoreError(f"{key} would become larger than {LIMIT_BYTES // 1024} KB", too_large)
        return body

    update(store, key, LIMIT_BYTES, change_body)


RACES: Final = 20
"""A change is tried this many times while other writers are faster: as many of them may write at once."""


def always_overtaken(key: str) -> ConflictError:
    """The error for a change that lost :data:`RACES` races."""
    return ConflictError(f"{key} was changed by others every time", "try again in a moment")


def update(store: Store, key: str, limit_bytes: int, change: Callable[[Blob | None], bytes | None]) -> None:
    """Write what ``change`` makes of the document ``key``, or nothing if it returns None.

    ``change`` gets at most ``limit_bytes`` of the document, or None if there is none. It is called again after a lost
    race, and after a lost answer: then it may find its own result, so it has to be safe to repeat.

    Raises :class:`ConflictError` after :data:`RACES` lost races, and :class:`StoreError` if the write is not known to
    have happened.
    """
    unsure = False
    for _ in range(RACES):
        blob = store.read(key, limit_bytes)
        body = change(blob)
        if body is None:
            return
        try:
            store.write(key, body, blob.version if blob is not None else Expect.NOTHING)
        except ConflictError:
            continue
        except UnreachableError:
            if unsure:
                raise
            unsure = True
        else:
            return
    raise always_overtaken(key)
