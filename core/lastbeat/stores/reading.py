"""A read-only store for dry runs, which cannot be written by mistake."""

from collections.abc import Callable
from typing import Final, TypeVar

from lastbeat.stores.port import DeniedError
from lastbeat.stores.wrapped import Operation, WrappedStore

T = TypeVar("T")
_READS: Final = frozenset[Operation]({"list", "folders", "read", "clock"})


class ReadingStore(WrappedStore):
    """``store`` that refuses every write and deletion."""

    def _call(self, operation: Operation, key: str, function: Callable[[], T]) -> T:
        if operation not in _READS:
            what = "writes" if operation == "write" else "deletes"
            raise DeniedError(f"a dry run {what} nothing, not even {key}")
        return function()
