"""The Prometheus export of ``lastbeat sweep``: checks its options, and exports the metrics of each pass."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lastbeat.model.fleet import PassReport
from lastbeat.settings import Settings, opening, table
from lastbeat.views.served.door import is_loopback
from lastbeat_cli import logs, metrics
from lastbeat_cli.metrics.endpoint import MISSING, Endpoint, Scrapes, is_installed
from lastbeat_cli.metrics.samples import PassMetrics

log = logging.getLogger(__name__)

PORT_OPTION: Final = "--metrics"
FILE_OPTION: Final = "--metrics-file"
SUFFIX: Final = ".prom"
"""node-exporter reads only files with this suffix."""
_CLOSING_S: Final = 5.0
"""Longest time, in seconds, that a sweep that ends waits for its last metrics file."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options of the export. ``address`` is host and port."""

    address: tuple[str, int] | None = None
    path: Path | None = None


def wanted(port: str | None, file: str | None, faults: list[str], *, once: bool) -> ExportOptions:
    """The parsed options. Adds what is wrong with them to ``faults``."""
    if (port is not None or file is not None) and not is_installed():
        faults.append(f"{PORT_OPTION if port is not None else FILE_OPTION}: {MISSING}")
    address = None if port is None else _address(port, faults)
    if port is not None and once:
        faults.append(f"{PORT_OPTION} is for a sweep that goes on; with --once use {FILE_OPTION} PATH{SUFFIX}")
    if file is not None and (Path(file).suffix != SUFFIX or "\0" in file):
        faults.append(f"{FILE_OPTION}={file[:200]!r} does not end in {SUFFIX}, and node-exporter reads no other files")
        return ExportOptions(address)
    return ExportOptions(address, None if file is None else Path(file).absolute())


def check_token(wanted: ExportOptions, settings: Settings, faults: list[str]) -> None:
    """Add a fault if other machines can scrape but no permanent token is set."""
    if wanted.address is not None and not is_loopback(wanted.address[0]) and not settings[table.DASHBOARD_TOKEN]:
        faults.append(
            f"{PORT_OPTION}={wanted.address[0]}:{wanted.address[1]} lets others in: set LASTBEAT_DASHBOARD_TOKEN, "
            "which Prometheus then sends (authorization: credentials_file), or give the port alone for this machine"
        )


def _address(text: str, faults: list[str]) -> tuple[str, int] | None:
    host, colon, port = text.rpartition(":")
    if port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535 and bool(host) is bool(colon):
        return host or "127.0.0.1", int(port)
    faults.append(f"{PORT_OPTION}={text[:80]!r} is neither a port nor HOST:PORT; use for example {PORT_OPTION} 9108")
    return None


class Exporter:
    """Exports the metrics of each pass to the endpoint and the file. It never raises and never blocks a pass."""

    def __init__(self, wanted: ExportOptions, settings: Settings) -> None:
        fleet = logs.redact(opening.root_url(settings))
        self._metrics = PassMetrics(opening.root_url(settings), settings.fleet.interval_s, logs.redact)
        tokens = settings[table.DASHBOARD_TOKEN]
        token = None if tokens is None else tokens.view or tokens.operate
        self._endpoint = self._file = None
        if wanted.address is not None:
            self._endpoint = Endpoint(*wanted.address, token, Scrapes(self._metrics.samples, fleet))
        if wanted.path is not None:
            self._file = metrics.textfile.TextFile(wanted.path, self._metrics, fleet)

    def start(self) -> None:
        """Start endpoint and file, before the first pass."""
        for each in (self._endpoint, self._file):
            if each is not None:
                each.start()

    def tell(self, report: PassReport) -> None:
        """Export the metrics of a finished pass."""
        try:
            self._metrics.add(report)
        except Exception:
            log.exception("the metrics of a pass could not be made")
        if self._endpoint is not None:
            self._endpoint.retry()
        if self._file is not None:
            self._file.write()

    def close(self) -> None:
        """Wait briefly for the last file when the sweep ends."""
        if self._file is not None and not self._file.wait(_CLOSING_S):
            log.warning("the metrics file could not be written within %.0f s", _CLOSING_S)
