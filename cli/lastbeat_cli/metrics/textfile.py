"""The metrics as a file for node-exporter's textfile collector, written by a thread of its own."""

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from lastbeat_cli import whole_file
from lastbeat_cli.metrics import table
from lastbeat_cli.metrics.exposition import read, render
from lastbeat_cli.metrics.samples import PassMetrics, Sample

log = logging.getLogger(__name__)

_LIMIT_BYTES: Final = 16 * 1024 * 1024
"""Most bytes read of an earlier file; lastbeat never writes that many."""
_LEFT_S: Final = 3600.0
"""A temporary file older than this many seconds was left by a killed process, and is deleted."""
_MODE: Final = 0o644
"""Mode of the file: readable for node-exporter, which runs as another user."""
_OF_NOW: Final = frozenset({table.UP, table.DURATION, table.BUILD_INFO, table.INTERVAL})


class TextFile:
    """Rewrites ``path`` after each pass: a temporary file in the same folder is renamed, so no reader sees half a file.

    A file system that hangs or is full never blocks a pass, and is reported once. Counters continue from the existing
    file, so that one process per pass (``--once``) counts, too. Until this process has seen the fleet, the fleet's
    values in that file stay.
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
        """Start the thread that waits for passes."""
        self._thread.start()

    def write(self) -> None:
        """Request a write, without waiting for it."""
        with self._change:
            self._wanted += 1
            self._change.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` until every requested write was tried. Returns whether that is so."""
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
        """Write the file. Returns why that failed, or None."""
        try:
            if self._before is None:
                self._before = self._earlier_samples()
                self._tidy()
            text, _ = render(_continued(self._before, self._metrics.samples()), self._fleet)
            whole_file.replace(self._path, text, _MODE)
        except OSError as error:
            return f"the metrics file {self._path} cannot be written: {error.strerror or error}"
        except Exception:
            log.exception("the metrics file could not be made")
            return f"the metrics file {self._path} is not written"
        return None

    def _earlier_samples(self) -> list[Sample]:
        """The samples in the existing file; empty if there is none, or it is damaged."""
        try:
            with self._path.open("rb") as file:
                return read(file.read(_LIMIT_BYTES).decode(), self._fleet)
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            log.info("the metrics file %s cannot be read (%s): counters begin at zero", self._path, error)
            return []

    def _tidy(self) -> None:
        """Delete temporary files that a killed process left."""
        for path in self._path.parent.iterdir():
            if path.name.startswith(whole_file.prefix(self._path)) and path.name.endswith(whole_file.TEMPORARY):
                with suppress(OSError):
                    if time.time() - path.stat().st_mtime > _LEFT_S:
                        path.unlink()


def _continued(before: Sequence[Sample], now: Sequence[Sample]) -> list[Sample]:
    counted = {(each.metric, each.labels): each.value for each in before if each.metric.counts}
    found = [
        each._replace(value=each.value + counted.get((each.metric, each.labels), 0.0)) if each.metric.counts else each
        for each in now
    ]
    if not any(each.metric is table.SEEN for each in now):
        found += [each for each in before if not each.metric.counts and each.metric not in _OF_NOW]
    return found
