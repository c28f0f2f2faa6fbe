"""Keeps the fleet index between processes: one document beside the runs, written when that is worth a request.

Writes need no condition. Each entry was true after a recorded look, and an outdated entry only costs an extra look. A
document that is lost, damaged or of another schema is no error, because a listing finds everything in it again.
"""

import hashlib
import json
import logging
import re
import zlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Final

from lastbeat.fleet.index import FleetIndex, IndexedRun, LeftOutRun
from lastbeat.fleet.scan_plan import READS_PER_PAGE, SMALL_PAGES
from lastbeat.model import runid
from lastbeat.model.codec import codec
from lastbeat.model.fleet import WHOLE, Shard
from lastbeat.model.text import owner_name
from lastbeat.stores.port import Blob, ConflictError, DeniedError, Entry, Store, StoreError
from lastbeat.watch.record import fleet_document

log = logging.getLogger(__name__)

SCHEMA: Final = 1
WHOLE_NAME: Final = "fleet.json.z"
"""Name of the index of a whole fleet, below ``_watchdog/``."""
_FOLDER: Final = "_watchdog/"
_NAME: Final = re.compile(r"fleet(-[^/]*)?\.json\.z")
_SHARDS_LIMIT: Final = 64
LIMIT_BYTES: Final = 32 * 1024 * 1024
_UNPACKED_BYTES: Final = 96 * 1024 * 1024
"""Most bytes of the unpacked index; a fleet of 200,000 runs needs half of them."""
_EVERY_S: Final = 600.0
"""Least time in s between two writes of the index if only times have changed."""
_WORTH_READS: Final = 6 * READS_PER_PAGE
"""Such a write must save the next process more reads than this. They cost as much as six writes, since few processes
end."""


def key_of(shard: Shard) -> str:
    """The key of a shard's index in the store."""
    if shard == WHOLE:
        return f"{_FOLDER}{WHOLE_NAME}"
    name = hashlib.sha256(f"{shard.after}\0{shard.until}".encode()).hexdigest()[:16]
    return f"{_FOLDER}fleet-{name}.json.z"


def index_names(own: Iterable[str]) -> list[str]:
    """The names of indices among ``own``, the files below ``_watchdog/``; at most :data:`_SHARDS_LIMIT`."""
    return [name for name in own if _NAME.fullmatch(name)][:_SHARDS_LIMIT]


class FleetIndexStore:
    """Loads a shard's index once a process, and saves it when that is worth it."""

    def __init__(self, store: Store, shard: Shard = WHOLE) -> None:
        self._store = store
        self._shard = shard
        self._index: FleetIndex | None = None
        self._version: str | None = None
        self._saved: tuple[object, ...] = ()
        self._saved_at = 0.0
        self._saved_listing_at = 0.0
        self._first = True

    @property
    def is_new(self) -> bool:
        """Whether the whole fleet had no index document at loading."""
        return self._shard == WHOLE and self._version is None

    @property
    def name(self) -> str:
        """The document's name below ``_watchdog/``."""
        return key_of(self._shard).partition("/")[2]

    def load(self) -> FleetIndex:
        """The index; an empty one if there is none, or if only its document cannot be read. Raises
        :class:`StoreError` if the store does not answer."""
        if self._index is None:
            index: FleetIndex | None = None
            try:
                index = self._read(key_of(self._shard))
                # An index without a document is saved in any case.
                self._saved = () if index is None else _worth(index)
                if index is None and self._shard != WHOLE:
                    # A new shard begins with its part of the whole fleet's index.
                    index = _part(self._read(key_of(WHOLE)), self._shard)
                    self._version = None
            except DeniedError:
                # Raises if the whole store is closed, not only this document.
                self._store.list("", limit=1)
            self._index = index or FleetIndex()
            self._saved_listing_at = self._index.listed_at
        return self._index

    def load_for_pass(self) -> FleetIndex:
        """:meth:`load` for a new pass. Processes take turns with a shard, so what another has saved since the last pass
        here is merged; else each process would read every heartbeat by itself."""
        kept = self._index is not None
        index = self.load()
        if kept and self._shard != WHOLE:
            try:
                self.refresh()
            except StoreError as error:
                # An outdated index costs reads. The pass itself finds out whether the store answers.
                log.info("what another process saved of this shard could not be read: %s", error)
        return index

    def refresh(self, entry: Entry | None = None) -> None:
        """Merge another sweep's changes since the last read. ``entry`` is the document's entry in a listing; without
        one the document is read if it may be. Raises :class:`StoreError`."""
        index = self.load()
        if entry is not None and entry.version == self._version:
            return
        saved = self._version
        try:
            theirs = self._read(key_of(self._shard))
        except DeniedError:
            if entry is None:
                return
            raise
        if theirs is not None and self._version != saved:
            _merge(index, theirs)

    def save(self, index: FleetIndex, now: datetime) -> tuple[str, ...]:
        """Write the index if that is worth a request. Returns notes for the report."""
        worth, first, self._first = _worth(index), self._first, False
        with index.lock:
            unsaved = index.unsaved
        # The first pass of a process may be its only one, and the next process needs the time of the whole listing.
        relisted = first and index.pages > SMALL_PAGES and index.listed_at != self._saved_listing_at
        stands = worth == self._saved and not relisted
        if stands and not self._spares(unsaved, now, first=first):
            return ()
        try:
            self._version = self._store.write(key_of(self._shard), encode(index))
        except StoreError as error:
            return (f"The fleet index could not be written, so the next process lists everything: {error}",)
        self._saved, self._saved_listing_at, self._saved_at = worth, index.listed_at, now.timestamp()
        with index.lock:
            index.unsaved -= unsaved
        return ()

    def _spares(self, unsaved: int, now: datetime, *, first: bool) -> bool:
        """Whether ``unsaved`` reads are worth a write although only times have changed."""
        long_ago = abs(now.timestamp() - self._saved_at) >= _EVERY_S
        if self._store.traits.prices.free:
            return long_ago
        if self._shard != WHOLE and unsaved > READS_PER_PAGE:
            # The shard's next pass is likely another process's, for which one write saves these reads.
            return True
        much = unsaved > _WORTH_READS
        # The first pass of a process may be its only one, and the next process begins with the saved index.
        return unsaved > 0 if long_ago and first else much and (long_ago or first)

    def _read(self, key: str) -> FleetIndex | None:
        blob = self._store.read(key, LIMIT_BYTES)
        if blob is None:
            return None
        self._version, self._saved_at = blob.version, blob.modified.timestamp()
        return _understood(blob, key, self._store.url)


def read_index(store: Store, name: str) -> tuple[FleetIndex | None, str | None]:
    """The index in the document ``name`` below ``_watchdog/``, and the document's version, for read-only programs. None
    for an index that is missing or cannot be used. Raises :class:`StoreError`."""
    key = f"_watchdog/{name}"
    blob = store.read(key, LIMIT_BYTES)
    return (None, None) if blob is None else (_understood(blob, key, store.url), blob.version)


def drop_from_index(store: Store, run_ids: Collection[str]) -> None:
    """Remove these runs from all indices of the fleet. Running sweeps notice the removal themselves. Raises
    :class:`StoreError`."""
    page = store.list("_watchdog/")
    for key in (entry.key for entry in page.entries if entry.key.endswith(".json.z")):
        # A sweep that keeps winning the write notices the removal itself.
        with suppress(ConflictError):
            fleet_document.update(store, key, LIMIT_BYTES, partial(_drop_runs, run_ids, key, store.url))


def _drop_runs(run_ids: Collection[str], key: str, url: str, blob: Blob | None) -> bytes | None:
    """The index in ``blob`` without these runs, or None if it holds none of them or cannot be used."""
    index = _understood(blob, key, url) if blob is not None else None
    if index is None:
        return None
    found = False
    for known in (index.runs, index.finished, index.unseen, index.left_out):
        for run_id in run_ids:
            found = known.pop(run_id, None) is not None or found
    return encode(index) if found else None


def _understood(blob: Blob, key: str, url: str) -> FleetIndex | None:
    try:
        return decode(blob.body)
    except Exception as error:  # noqa: BLE001 - any damage to the index is repaired by a listing
        what = f"{type(error).__name__}: {error}"[:200]
        log.warning("%s/%s cannot be used (%s): the whole fleet is listed", url, key, what)
        return None


def _worth(index: FleetIndex) -> tuple[object, ...]:
    """The part of the index that only looks could restore."""
    lines = frozenset(
        (run.line.run_id, run.line.status, run.line.since, (run.files.get(runid.RECORD) or (0.0, ""))[1])
        for run in index.recent_runs()
    )
    with index.lock:
        finished = len(index.finished), sum(index.finished.values())
        return lines, finished, index.cursor, frozenset(index.unseen), frozenset(index.left_out.items())


def _merge(ours: FleetIndex, theirs: FleetIndex) -> None:
    """Merge ``theirs`` into ``ours``. The later of two entries wins. A run that the other sweep dropped after this one
    last saw it is dropped."""
    their_last = max((run.seen_at for run in theirs.runs.values()), default=0.0)
    with ours.lock:
        for run_id, run in theirs.runs.items():
            known = ours.runs.get(run_id)
            if known is None or known.seen_at < run.seen_at:
                ours.runs[run_id] = run
                ours.finished.pop(run_id, None)
        for run_id in [run_id for run_id in ours.runs if run_id not in theirs.runs]:
            if ours.runs[run_id].seen_at < their_last:
                del ours.runs[run_id]
        for run_id, ended in theirs.finished.items():
            if run_id not in ours.runs:
                ours.finished[run_id] = max(ended, ours.finished.get(run_id, 0))


def _part(whole: FleetIndex | None, shard: Shard) -> FleetIndex | None:
    if whole is None:
        return None
    return FleetIndex(
        runs={run_id: run for run_id, run in whole.runs.items() if shard.holds(run_id)},
        finished={run_id: ended for run_id, ended in whole.finished.items() if shard.holds(run_id)},
    )


@dataclass(frozen=True)
class _Document:
    """The index as a document. A rewrite drops fields that this version does not know; a listing restores them."""

    schema: int
    cursor: str = ""
    pages: int = 0
    listed_at: float = 0.0
    cuts: tuple[str, ...] = ()
    unseen: Mapping[str, float] = field(default_factory=dict)
    runs: tuple[IndexedRun, ...] = ()
    finished: Mapping[str, int] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)
    """Run id → owner of the run."""
    left_out: Mapping[str, LeftOutRun] = field(default_factory=dict)


def encode(index: FleetIndex) -> bytes:
    """The index as compressed JSON."""
    with index.lock:
        document = _Document(
            SCHEMA,
            index.cursor,
            index.pages,
            index.listed_at,
            index.cuts,
            dict(index.unseen),
            runs=tuple(index.runs.values()),
            finished=dict(index.finished),
            left_out=dict(index.left_out),
            owners={run.line.run_id: run.line.owner for run in index.runs.values() if run.line.owner},
        )
    text = json.dumps(codec(_Document).document(document), ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode(), 3)


def _owned(run: IndexedRun, owners: Mapping[str, str]) -> IndexedRun:
    owner = owner_name(owners.get(run.line.run_id))
    return run if owner is None else replace(run, line=replace(run.line, owner=owner))


def decode(body: bytes) -> FleetIndex:
    """The index that :func:`encode` wrote. Raises any exception for other bytes."""
    text = zlib.decompressobj().decompress(body, _UNPACKED_BYTES)
    document = codec(_Document).read(json.loads(text))
    if document.schema != SCHEMA:
        raise ValueError(f"its schema is {document.schema}, not {SCHEMA}")
    named = chain(document.finished, document.unseen, document.cuts, document.left_out)
    for run_id in chain((run.line.run_id for run in document.runs), named):
        runid.check_run_id(run_id)
    return FleetIndex(
        runs={run.line.run_id: _owned(run, document.owners) for run in document.runs},
        finished=dict(document.finished),
        left_out=dict(document.left_out),
        cursor=document.cursor,
        pages=document.pages,
        listed_at=document.listed_at,
        unseen=dict(document.unseen),
        cuts=document.cuts,
    )
