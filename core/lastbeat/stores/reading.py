"""A store that is only read: what a dry run looks at, so that nothing in it can write by mistake."""

from datetime import datetime

from lastbeat.stores.kind import Traits
from lastbeat.stores.port import Blob, Cleared, DeniedError, Expect, Page, Store


class ReadingStore:
    """``store``, which refuses each write and each deletion."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def traits(self) -> Traits:
        return self._store.traits

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        return self._store.list(prefix, start_after, limit)

    def folders(self) -> tuple[str, ...]:
        return self._store.folders()

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        return self._store.read(key, limit_bytes, from_end=from_end, start=start)

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:  # noqa: ARG002 - the port's face
        raise DeniedError(f"a dry run writes nothing, not even {key}")

    def delete(self, key: str) -> None:
        raise DeniedError(f"a dry run deletes nothing, not even {key}")

    def clear(self, prefix: str, *, keep: str = "", limit: int = 1000) -> Cleared:  # noqa: ARG002 - as above
        raise DeniedError(f"a dry run deletes nothing, not even {prefix}")

    def clock(self) -> datetime:
        return self._store.clock()
