"""``ranks/{rank}.health``: marks a rank whose node is worth a warning.

Listings show names and times but no text. Without this file a watcher would have to read the heartbeats of all nodes.
"""

import json
import logging
from collections.abc import Sequence
from typing import Any, Final

from lastbeat.stores.port import DeniedError, Store
from lastbeat.training.sdk.safe_log import safe_log

_REFRESH_BEATS: Final = 10
"""An unchanged mark is rewritten after this many beats, to refresh its numbers."""


class NodeMark:
    """The mark of one rank, which exists only while its node has conditions."""

    def __init__(self, rank: int) -> None:
        self._key = f"ranks/{rank}.health"
        self._there: tuple[str, ...] = ()
        """Names of the conditions in the written mark."""
        self._age = 0

    def set(self, store: Store, folder: str, conditions: Sequence[dict[str, Any]], about: dict[str, Any]) -> None:
        """Write, refresh or delete the mark as ``conditions`` require. ``about`` holds its other fields. Raises
        :class:`StoreError`."""
        names = tuple(each["name"] for each in conditions)
        self._age += 1
        if names == self._there and (not names or self._age < _REFRESH_BEATS):
            return
        if names:
            document = {name: value for name, value in about.items() if value is not None}
            store.write(folder + self._key, json.dumps({**document, "conditions": list(conditions)}).encode())
        elif self._there:
            try:
                store.delete(folder + self._key)
            except DeniedError as error:
                # Some policies let training write but not delete.
                safe_log(logging.DEBUG, "%s cannot be deleted, and is emptied: %s", self._key, error)
                store.write(folder + self._key, b"{}")
        self._there, self._age = names, 0
