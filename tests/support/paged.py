"""A store in memory whose pages are small, so that few runs make a long listing, in either order of stores."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from lastbeat.stores import s3
from lastbeat.stores.port import Entry, Page
from support.memory import MemoryStore


class PagedStore(MemoryStore):
    """At most ``most`` keys a page; ``by_folder`` lists ``a/b`` before ``a-b``, as SeaweedFS does."""

    url = "s3://bucket/runs"
    traits = s3.TRAITS

    def __init__(self, most: int, *, by_folder: bool = False) -> None:
        super().__init__()
        self.most = most
        self.by_folder = by_folder

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        self._enter("list", prefix)
        with self._lock:
            order: Callable[[str], Any] = _by_folder if self.by_folder else str
            begin = order(start_after)
            keys = sorted((k for k in self.held if k.startswith(prefix) and order(k) > begin), key=order)
            held = [(key, self.held[key]) for key in keys[: min(limit, self.most)]]
        self.after("list", prefix)
        return Page(
            tuple(Entry(key, len(each.body), each.modified, each.version) for key, each in held),
            more=len(keys) > min(limit, self.most),
        )


@lru_cache(maxsize=100_000)
def _by_folder(key: str) -> tuple[str, ...]:
    return tuple(key.split("/"))
