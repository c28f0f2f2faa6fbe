"""Changes a document of the store by compare-and-set, so that concurrent writers do not undo each other's changes."""

from collections.abc import Callable
from typing import Final

from lastbeat.stores.port import Blob, ConflictError, Expect, Store, UnreachableError

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
