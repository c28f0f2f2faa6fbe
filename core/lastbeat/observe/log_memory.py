"""How far a run's logs were read, kept between processes, so that ``--once`` reads only what is new, too.

It is a cache: of two watchers the last one wins, and whoever finds nothing, or something damaged, begins anew.
"""

import hashlib
import json
import logging
import zlib
from dataclasses import dataclass
from typing import Any

from lastbeat.model.version import __version__
from lastbeat.observe.logs import RunLogs
from lastbeat.stores.port import Store, StoreError

LIMIT_BYTES = 256 * 1024
_UNPACKED_BYTES = 16 << 20
_READERS_BYTES = 192 * 1024
_VERSION = 2
log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class LogMemory:
    """Of one run, in ``store``. ``url`` is the fleet's root; ``signals`` says what is looked for (LASTBEAT_SIGNALS):
    what was read with other signals in mind has to be read again."""

    store: Store
    url: str
    run_id: str
    signals: str = ""

    @property
    def key(self) -> str:
        root = hashlib.sha256(self.url.encode()).hexdigest()[:16]
        return f"logs/{root}/{self.run_id}.json.z"

    def load(self, logs: RunLogs) -> None:
        """Let ``logs`` go on where an earlier process was. Never raises."""
        try:
            blob = self.store.read(self.key, LIMIT_BYTES)
            if blob is None:
                return
            unpacking = zlib.decompressobj()
            document = json.loads(unpacking.decompress(blob.body, _UNPACKED_BYTES))
            if document["stamp"] == self._stamp:
                logs.restore(document["logs"])
        except StoreError as error:
            log.debug("how far the logs of %s were read is not known: %s", self.run_id, error)
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError, zlib.error) as error:
            log.info("%s/%s is damaged (%s); the logs are read anew", self.store.url, self.key, type(error).__name__)

    def save(self, logs: RunLogs) -> None:
        """Write it down if anything has changed. Never raises."""
        if not logs.changed:
            return
        try:
            self.store.write(self.key, _packed({"stamp": self._stamp, "logs": _bounded(logs.state())}))
        except StoreError as error:
            log.debug("how far the logs of %s were read could not be written down: %s", self.run_id, error)

    @property
    def _stamp(self) -> str:
        return f"{_VERSION} {__version__} {self.signals}"


def _bounded(state: dict[str, Any]) -> dict[str, Any]:
    """Where it is too much, without what was said by some of the files, the largest accounts first: those are read on
    from the same place."""
    sizes = {index: len(_packed(file["reader"])) for index, file in enumerate(state["files"]) if file["reader"]}
    left = _READERS_BYTES
    for index in sorted(sizes, key=lambda each: sizes[each]):
        left -= sizes[index]
        if left < 0:
            state["files"][index].update(reader=None, late=True)
    return state


def _packed(document: Any) -> bytes:
    return zlib.compress(json.dumps(document).encode(), 1)
