"""What passes leave so that looking need not read every run: the gist of each heartbeat and record that a pass read.

A pass reads a document when a run changes, and each heartbeat every so often. Its store is wrapped, so each such read
leaves a gist, and no read is added. A gist names the writing of the file that it is of: who looks reads only what was
written since. One object has all of them, a line each, and is lost without harm.
"""

import json
import logging
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from lastbeat.fleet.index_store import key_of
from lastbeat.fleet.sweep import PageWriter
from lastbeat.model import runid
from lastbeat.model.codec import DamagedError, codec
from lastbeat.model.curve import Curve
from lastbeat.model.fleet import WHOLE, PassReport, Shard
from lastbeat.model.view import SPARK_POINTS
from lastbeat.settings import Settings, table
from lastbeat.stores.counting import Tally
from lastbeat.stores.port import Blob, Expect, Store, StoreError
from lastbeat.stores.wrapped import Operation, T, WrappedStore
from lastbeat.views import page
from lastbeat.views.heartbeats import read_told
from lastbeat.views.known_run import Gist, KnownDocument, gist_of
from lastbeat.views.standing import Standing, of_record
from lastbeat.watch.record.codec import decode_record

log = logging.getLogger(__name__)

LEAST_RUNS: Final = 50
"""Fewest runs of a fleet for which gists are left: fewer are read faster than they are worth a write."""
EVERY_S: Final = 600.0
"""Least time in s between two writes."""
KEPT_S: Final = 2 * 86400.0
"""Age in s of a document from which its gist is dropped. Views show what changed within a day."""
LIMIT_BYTES: Final = 16 * 1024 * 1024
_UNPACKED_BYTES: Final = 96 * 1024 * 1024
_WRITE_S: Final = 5.0
_BEATS: Final = (runid.METADATA, runid.PROGRESS)
_ESCAPED: Final = re.compile(r'\\[^"\\/]')
"""A character that JSON hides: no text that is fit to be shown has one, but a line of another program might."""
_NAME: Final = re.compile(r"gists(-[^/]*)?\.json\.z")
_OBJECTS_LIMIT: Final = 64


def gists_names(own: Iterable[str]) -> list[str]:
    """The names of objects with gists among ``own``, the files below ``_watchdog/``."""
    return [name for name in own if _NAME.fullmatch(name)][:_OBJECTS_LIMIT]


class KeptGists(WrappedStore):
    """``store`` for a pass. :meth:`write_gists` leaves the gists of what was read and written through it."""

    def __init__(self, store: Store, mask: Callable[[str], str], shard: Shard = WHOLE) -> None:
        super().__init__(store)
        self._mask = mask
        # Beside the index of the same shard.
        self._key = key_of(shard).replace("/fleet", "/gists", 1)
        self._lock = threading.Lock()
        self._lines: dict[str, tuple[str, str]] = {}
        """Key of a document → the token of its writing, and its gist."""
        self._saved_at: float | None = None
        """When the object was written, here or by an earlier process; None: it was not read yet."""
        self._news = False

    def _call(self, operation: Operation, key: str, function: Callable[[], T]) -> T:  # noqa: ARG002 - all pass
        return function()

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        blob = self._store.read(key, limit_bytes, from_end=from_end, start=start)
        if blob is not None and not from_end and not start and blob.size_bytes == len(blob.body):
            self._note(key, blob)
        return blob

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        version = self._store.write(key, body, expect)
        if key.endswith(f"/{runid.RECORD}"):
            self._note(key, Blob(body, len(body), self._store.clock(), version))
        return version

    def _note(self, key: str, blob: Blob) -> None:
        run_id, _, name = key.partition("/")
        if name not in {*_BEATS, runid.RECORD} or not runid.is_run_id(run_id):
            return
        try:
            content = _gist(blob, self._mask) if name in _BEATS else _standing(blob, self._mask)
        except DamagedError:
            return
        with self._lock:
            self._lines[key] = _token(blob), _encoded(content)
            self._news = True

    def write_gists(self, report: PassReport, until: float) -> str | None:
        """Write the gists if that is worth a request. Returns why that failed, or None."""
        runs = sum(report.statuses.values())
        if not self._news or runs < LEAST_RUNS or time.monotonic() > until - _WRITE_S:
            return None
        now = report.at.timestamp()
        try:
            if self._saved_at is None:
                self._recall()
            if abs(now - (self._saved_at or 0.0)) < EVERY_S:
                return None
            with self._lock:
                young = {key: line for key, line in self._lines.items() if now - _written(line[0]) < KEPT_S}
                self._lines, self._news = young, False
                text = "\n".join(f"{key}\t{token}\t{gist}" for key, (token, gist) in young.items())
            self._store.write(self._key, zlib.compress(text.encode(), 3))
            self._saved_at = now
        except StoreError as error:
            self._news = True
            return f"What makes looking fast could not be written: {error}"
        return None

    def _recall(self) -> None:
        """Take on the gists of earlier processes."""
        blob = self._store.read(self._key, LIMIT_BYTES)
        self._saved_at = 0.0 if blob is None else blob.modified.timestamp()
        found = {key: (token, gist) for key, token, gist in _lines(blob)}
        with self._lock:
            self._lines = {**found, **self._lines}


@dataclass(frozen=True)
class LeftForViews:
    """What a pass leaves for views: gists, and the page if the settings ask for it."""

    gists: KeptGists
    page: PageWriter | None = None

    @property
    def store(self) -> Store:
        """The store that the pass has to use."""
        return self.gists

    def write(self, report: PassReport, until: float) -> PassReport:
        """As :class:`lastbeat.fleet.sweep.PageWriter`."""
        fault = self.gists.write_gists(report, until)
        if fault is not None:
            report = replace(report, notes=(*report.notes, fault))
        return report if self.page is None else self.page.write(report, until)


@dataclass(frozen=True)
class Gists:
    """Gists as they were read: run → its heartbeats; run → what its record says, and the record's version."""

    beats: dict[str, dict[str, KnownDocument]]
    records: dict[str, tuple[Standing, str]]


def left_for_views(settings: Settings, root: Store, tally: Tally, shard: Shard) -> LeftForViews:
    """What passes over ``shard`` leave. The first part of a split fleet writes the page of all of it."""
    paged = settings[table.PAGE_MINUTES] > 0 and not shard.after
    return LeftForViews(
        KeptGists(root, settings.redactor, shard),
        page.configured.configured_page(settings, root, tally) if paged else None,
    )


def read_gists(store: Store, name: str) -> Gists:
    """The gists in the object ``name`` below ``_watchdog/``; none if it is damaged. Raises :class:`StoreError`."""
    found, skipped = Gists({}, {}), 0
    for key, token, line in _lines(store.read(f"_watchdog/{name}", LIMIT_BYTES)):
        run_id, _, document = key.partition("/")
        try:
            if document == runid.RECORD:
                found.records[run_id] = codec(Standing).read(_decoded(line)), token.partition(":")[2]
                continue
            gist = codec(Gist).read(_decoded(line))
            if not all(isinstance(value, (str, int, float)) for value in gist.config.values()):
                raise DamagedError("a value of its configuration is none")
        except ValueError:
            skipped += 1
        else:
            found.beats.setdefault(run_id, {})[document] = KnownDocument(token, gist, gist.heartbeat.fault)
    if skipped:
        log.info("%d gists in _watchdog/%s cannot be used, so those runs are read", skipped, name)
    return found


def _lines(blob: Blob | None) -> Iterator[tuple[str, str, str]]:
    """Key, token and gist of each line; none of a damaged object."""
    if blob is None:
        return
    try:
        text = zlib.decompressobj().decompress(blob.body, _UNPACKED_BYTES).decode()
    except (zlib.error, UnicodeDecodeError):
        return
    for line in text.split("\n"):
        key, _, rest = line.partition("\t")
        token, _, gist = rest.partition("\t")
        if gist and runid.is_run_id(key.partition("/")[0]):
            yield key, token, gist


def _decoded(line: str) -> Any:
    """The JSON in ``line``. Raises ``ValueError``, also for text that is not fit to be shown."""
    if not line.isprintable() or ("\\" in line and _ESCAPED.search(line)):
        raise ValueError("it hides characters")
    try:
        return json.loads(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _gist(blob: Blob, mask: Callable[[str], str]) -> Any:
    gist = gist_of(read_told(blob, mask, SPARK_POINTS, curve=False))
    return codec(Gist).document(replace(gist, heartbeat=replace(gist.heartbeat, curve=Curve())))


def _standing(blob: Blob, mask: Callable[[str], str]) -> Any:
    return codec(Standing).document(of_record(decode_record(blob.body), mask))


def _encoded(content: Any) -> str:
    return json.dumps(_known(content), ensure_ascii=False, separators=(",", ":"))


def _known(content: Any) -> Any:
    """``content`` without fields that are unknown: reading fills them in."""
    if not isinstance(content, dict):
        return content
    return {name: _known(value) for name, value in content.items() if value is not None and value != []}


def _token(blob: Blob) -> str:
    return f"{blob.modified.timestamp()}:{blob.version}"


def _written(token: str) -> float:
    """When the document was written, in unix seconds; 0 if the line does not say."""
    try:
        return float(token.partition(":")[0])
    except ValueError:
        return 0.0
