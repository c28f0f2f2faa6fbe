"""How far a run's logs were read, kept between processes, so that ``--once`` reads only what is new, too.

It is a cache. Of two watchers the last one wins. Whoever finds nothing, or something damaged or foreign, reads anew.
"""

import hashlib
import json
import logging
import zlib
from dataclasses import dataclass
from typing import Any, Final

from lastbeat.codec import codec
from lastbeat.model.version import __version__
from lastbeat.observe.logs import RunLogs, RunLogsState
from lastbeat.stores.port import Store, StoreError

LIMIT_BYTES: Final = 256 * 1024
_UNPACKED_BYTES: Final = 16 << 20
_READERS_BYTES: Final = 192 * 1024
_VERSION: Final = 3
log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class LogCache:
    """Of one run, in ``store``. ``url`` is the fleet's root. ``signals`` names the catalogues (LASTBEAT_SIGNALS): what
    was read with other ones is read again."""

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
            # The layout of another version is none of our business.
            if document["stamp"] == self._stamp:
                logs.restore(codec(RunLogsState).read(document["logs"]))
        except StoreError as error:
            log.debug("how far the logs of %s were read is not known: %s", self.run_id, error)
        except (ValueError, TypeError, KeyError, RecursionError, zlib.error) as error:
            # The text of the fault may quote a log.
            log.info("%s/%s is damaged (%s); the logs are read anew", self.store.url, self.key, type(error).__name__)

    def save(self, logs: RunLogs) -> None:
        """Write it down if anything has changed. Never raises."""
        if not logs.changed:
            return
        state = logs.state()
        _bound(state)
        try:
            self.store.write(self.key, _packed({"stamp": self._stamp, "logs": codec(RunLogsState).document(state)}))
        except StoreError as error:
            log.debug("how far the logs of %s were read could not be written down: %s", self.run_id, error)

    @property
    def _stamp(self) -> str:
        return f"{_VERSION} {__version__} {self.signals}"


def _bound(state: RunLogsState) -> None:
    """If it is too much, drop what some of the files said, the largest first. Those are read on from the same place."""
    documents = [file for file in state.files if file.reader_document is not None]
    sizes = {file.name: len(_packed(file.reader_document)) for file in documents}
    left = _READERS_BYTES
    for file in sorted(documents, key=lambda each: sizes[each.name]):
        left -= sizes[file.name]
        if left < 0:
            file.reader_document, file.late = None, True


def _packed(document: Any) -> bytes:
    return zlib.compress(json.dumps(document).encode(), 1)
