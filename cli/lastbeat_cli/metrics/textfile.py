"""The metrics as a file that node-exporter's textfile collector reads, written by a thread of its own."""

import logging
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from lastbeat_cli.metrics import table
from lastbeat_cli.metrics.exposition import read, render
from lastbeat_cli.metrics.samples import PassMetrics, Sample

log = logging.getLogger(__name__)

SUFFIX: Final = ".prom"
"""node-exporter reads no others."""
_LIMIT_BYTES: Final = 16 * 1024 * 1024
"""More than a file of ours ever has."""
_LEFT_S: Final = 3600.0
"""A temporary file that is older belongs to nobody any more."""
_MODE: Final = 0o644
"""node-exporter runs as another user."""
_OF_NOW: Final = frozenset({table.UP, table.DURATION, table.BUILD_INFO, table.INTERVAL})


class TextFile:
    """Writes ``path`` anew after each pass, by a temporary file in the same folder and a rename, so that nobody ever
    reads half of one. A file system that hangs or is full keeps no pass waiting and is told once.

    Counters go on from where the file that is there left them, so that one process a pass (``--once``) counts too; and
    as long as this process has not seen the fleet, what that file knew of it stands.
    """

    def __init__(self, path: Path, metrics: PassMetrics, fleet: str) -> None:
        self._path = path
        self._metrics = metrics
        self._fleet = fleet
        self._before: list[Sample] | None = None
        self._fault: str | None = None
        self._wanted = 0
        self._written = 0
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="lastbeat-metrics-file", daemon=True)

    def start(self) -> None:
        """Begin to wait for passes."""
        self._thread.start()

    def write(self) -> None:
        """Have it written; does not wait."""
        with self._change:
            self._wanted += 1
            self._change.notify_all()

    def wait(self, seconds: float) -> bool:
        """Whether all that was wanted is written, or could not be, within so many seconds."""
        with self._change:
            return self._change.wait_for(lambda: self._written >= self._wanted, seconds)

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._written < self._wanted)
                wanted = self._wanted
            fault = self._try()
            if fault != self._fault:
                if fault is not None:
                    log.warning("%s; the sweep goes on, and each pass tries again", fault)
                else:
                    log.warning("the metrics file %s can be written again", self._path)
            self._fault = fault
            with self._change:
                self._written = wanted
                self._change.notify_all()

    def _try(self) -> str | None:
        """Write it; why it could not be."""
        try:
            if self._before is None:
                self._before = self._left_there()
                self._tidy()
            text, _ = render(_went_on(self._before, self._metrics.samples()), self._fleet)
            _replace(self._path, text)
        except OSError as error:
            return f"the metrics file {self._path} cannot be written: {error.strerror or error}"
        except Exception:
            log.exception("the metrics file could not be made")
            return f"the metrics file {self._path} is not written"
        return None

    def _left_there(self) -> list[Sample]:
        """What an earlier process wrote; nothing where there is no such file, or it is damaged."""
        try:
            with self._path.open("rb") as file:
                return read(file.read(_LIMIT_BYTES).decode(), self._fleet)
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            log.info("the metrics file %s cannot be read (%s): counters begin at zero", self._path, error)
            return []

    def _tidy(self) -> None:
        """Take away what a process left that was killed while it wrote."""
        for path in self._path.parent.iterdir():
            if path.name.startswith(_prefix(self._path)) and path.name.endswith(_TEMPORARY):
                with suppress(OSError):
                    if time.time() - path.stat().st_mtime > _LEFT_S:
                        path.unlink()


def _went_on(before: Sequence[Sample], now: Sequence[Sample]) -> list[Sample]:
    counted = {(each.metric, each.labels): each.value for each in before if each.metric.counts}
    found = [
        each._replace(value=each.value + counted.get((each.metric, each.labels), 0.0)) if each.metric.counts else each
        for each in now
    ]
    if not any(each.metric is table.SEEN for each in now):
        found += [each for each in before if not each.metric.counts and each.metric not in _OF_NOW]
    return found


_TEMPORARY: Final = ".tmp"


def _prefix(path: Path) -> str:
    # Neither hidden files nor such an ending are read by node-exporter.
    return f".{path.name}."


def _replace(path: Path, text: bytes) -> None:
    number, name = tempfile.mkstemp(dir=path.parent, prefix=_prefix(path), suffix=_TEMPORARY)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(text)
            file.flush()
            os.fchmod(number, _MODE)
            os.fsync(number)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
