"""Passes windows of steps from each rank to rank 0 through the key-value store of torch.distributed, if that is in use.
This module never imports torch.

It uses no collective. One in a thread beside training could meet training's own in another order on another rank, and
both would wait for ever. The store answers each rank by itself. It gets a connection of its own, because training may
be waiting in the other one, and a thread of its own, which may hang without harm.
"""

import json
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from lastbeat.training.sdk.agreement import in_use
from lastbeat.training.sdk.safe_log import fault_text, safe_log
from lastbeat.training.sdk.timed_calls import CallThread

LIMIT_S: Final = 2.0
"""Most time in s that a rank waits for the store."""
_BYTES: Final = 4096


class TorchExchange:
    """One rank's side of the exchange. Every method returns within :data:`LIMIT_S` and raises nothing."""

    def __init__(self, run_id: str) -> None:
        self._prefix = f"lastbeat/{run_id}/stragglers/"
        self._thread = CallThread[Any]("lastbeat-stragglers")
        self._default: Any = None
        self._own: Any = None
        """A second connection to the default store."""

    def tell(self, rank: int, document: Mapping[str, Any]) -> None:
        """Leave ``document`` of ``rank`` for rank 0."""
        body = json.dumps(document)
        self._call_store(lambda store: store.set(f"{self._prefix}{rank}", body))

    def ask(self, world: int) -> dict[int, dict[str, Any]] | None:
        """Rank → its latest document, without rank 0. None if torch.distributed is not in use, or its store has
        none."""
        found: dict[int, dict[str, Any]] | None = self._call_store(lambda store: self._read_documents(store, world))
        return found

    def _read_documents(self, store: Any, world: int) -> dict[int, dict[str, Any]] | None:
        keys = {rank: f"{self._prefix}{rank}" for rank in range(1, world)}
        # Reading a key that is not set yet would wait for it.
        if not store.check([*keys.values()]):
            keys = {rank: key for rank, key in keys.items() if store.check([key])}
        bodies = store.multi_get([*keys.values()]) if keys else []
        found = {rank: _document(body) for rank, body in zip(keys, bodies, strict=True)}
        return {rank: document for rank, document in found.items() if document} or None

    def _call_store(self, what: Any) -> Any:
        if in_use() is None:
            return None
        try:
            return self._thread.call(lambda: self._with_store(what), LIMIT_S)
        except Exception as fault:  # noqa: BLE001 - the store's server may be gone, and torch's errors are of many kinds
            self._own = None
            safe_log(logging.DEBUG, "the store of torch.distributed does not pass stragglers on: %s", fault_text(fault))
            return None

    def _with_store(self, what: Any) -> Any:
        dist = in_use()
        default = dist.distributed_c10d._get_default_store() if dist is not None else None  # noqa: SLF001 - no other way
        if default is None or not hasattr(default, "clone"):
            return None
        if self._own is None or default is not self._default:
            self._default, self._own = default, default.clone()
            self._own.set_timeout(timedelta(seconds=LIMIT_S))
        return what(self._own)

    def close(self) -> None:
        """Let the exchange's thread end."""
        self._thread.close()


def _document(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body) if len(body) <= _BYTES else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
