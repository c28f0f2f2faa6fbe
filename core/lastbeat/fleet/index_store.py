"""The fleet's memory between processes: one document beside the runs, written when it is worth a request.

It is an index, so writes need no condition: each line in it was true of a look that was recorded, and one that is older
than another process's costs a look more. A document that is lost, damaged or of another version is no fault: everything
in it is found again by listing.
"""

import hashlib
import json
import logging
import zlib
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Final

from lastbeat.fleet.index import LOG, FleetIndex, IndexedRun, ListingRound
from lastbeat.fleet.scan_plan import SMALL_PAGES
from lastbeat.model import runid
from lastbeat.model.fleet import WHOLE, RunLine, Shard
from lastbeat.model.status import Status
from lastbeat.stores.port import Blob, DeniedError, Entry, Store, StoreError

log = logging.getLogger(__name__)

SCHEMA: Final = 1
LIMIT_BYTES: Final = 32 * 1024 * 1024
_UNPACKED_BYTES: Final = 96 * 1024 * 1024
"""A fleet of 200,000 runs needs half of it."""
_EVERY_S: Final = 600.0
"""A memory in which only times have moved is written no more often."""
_WORTH_WRITES: Final = 6
"""Nor before the requests that it spares the next process cost as much as so many writes: few processes end."""
_FOLDER_LIMIT: Final = 1024
_NAMES: Final = (runid.ERROR, runid.COMPLETE, runid.METADATA, runid.PROGRESS, runid.RECORD, LOG)
_WITHOUT_LOG: Final = 5
"""How many files a run had here before its log was one of them."""
_FORMER: Final[Mapping[str, object]] = {"discovered_at": 0.0, "empty": {}}
"""What earlier versions do not read a memory without."""
Json = Any


def key_of(shard: Shard) -> str:
    """Where the memory of a shard lies."""
    if shard == WHOLE:
        return "_watchdog/fleet.json.z"
    name = hashlib.sha256(f"{shard.after}\0{shard.until}".encode()).hexdigest()[:16]
    return f"_watchdog/fleet-{name}.json.z"


class FleetIndexStore:
    """Loads a shard's memory once a process, and saves it as it changes."""

    def __init__(self, store: Store, shard: Shard = WHOLE) -> None:
        self._store = store
        self._shard = shard
        self._memory: FleetIndex | None = None
        self._version: str | None = None
        self._saved: tuple[object, ...] = ()
        self._saved_at = 0.0
        self._saved_round = ListingRound()
        self._first = True

    @property
    def name(self) -> str:
        """The document's name below ``_watchdog/``."""
        return key_of(self._shard).partition("/")[2]

    def load(self) -> FleetIndex:
        """What is known; where that alone may not be read it is nothing, and a listing finds it all. Raises
        :class:`StoreError` when it cannot be found out."""
        if self._memory is None:
            memory: FleetIndex | None = None
            try:
                memory = self._read(key_of(self._shard))
                # What has no document of its own yet is saved whatever it is worth.
                self._saved = () if memory is None else _worth(memory)
                if memory is None and self._shard != WHOLE:
                    # A part that is new begins with what the whole knows of it.
                    memory = _part(self._read(key_of(WHOLE)), self._shard)
                    self._version = None
            except DeniedError:
                # Is it this document, or is it the store?
                self._store.list("", limit=1)
            self._memory = memory or FleetIndex()
            self._saved_round = self._memory.round
        return self._memory

    def refresh(self, entry: Entry | None = None) -> None:
        """Learn what another sweep of the fleet has written since. ``entry`` is the document's line in a listing;
        without one it is read, if it may be. Raises :class:`StoreError`."""
        memory = self.load()
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
            _merge(memory, theirs)

    def save(self, memory: FleetIndex, now: datetime) -> tuple[str, ...]:
        """Write it if it is worth it; returns what people must know."""
        worth, first, self._first = _worth(memory), self._first, False
        with memory.lock:
            unsaved = memory.unsaved
        # The first pass of a process may be its only one, and then the next lists what this one had no part in.
        parted = first and memory.pages > SMALL_PAGES and memory.round != self._saved_round
        stands = worth == self._saved and not parted
        if stands and not self._spares(unsaved, now, first=first):
            return ()
        try:
            self._version = self._store.write(key_of(self._shard), encode(memory))
        except StoreError as error:
            return (f"The fleet's memory could not be written, so the next process lists everything: {error}",)
        self._saved, self._saved_round, self._saved_at = worth, memory.round, now.timestamp()
        with memory.lock:
            memory.unsaved -= unsaved
        return ()

    def _spares(self, unsaved: float, now: datetime, *, first: bool) -> bool:
        """Whether ``unsaved`` dollars are worth a write although only times have moved."""
        long_ago = abs(now.timestamp() - self._saved_at) >= _EVERY_S
        prices = self._store.traits.prices
        if prices.free:
            return long_ago
        much = unsaved > _WORTH_WRITES * prices.per_request["PUT"]
        # The first pass of a process may be its only one, and then the next begins with what was saved.
        return unsaved > 0 if long_ago and first else much and (long_ago or first)

    def _read(self, key: str) -> FleetIndex | None:
        blob = self._store.read(key, LIMIT_BYTES)
        if blob is None:
            return None
        self._version, self._saved_at = blob.version, blob.modified.timestamp()
        return _understood(blob, key, self._store.url)


def read_index(store: Store, name: str) -> tuple[FleetIndex | None, str | None]:
    """For whoever only looks: the memory in the document ``name`` below ``_watchdog/``, None where there is none that
    can be used, and the document's version. Raises :class:`StoreError`."""
    key = f"_watchdog/{name}"
    blob = store.read(key, LIMIT_BYTES)
    return (None, None) if blob is None else (_understood(blob, key, store.url), blob.version)


def _understood(blob: Blob, key: str, url: str) -> FleetIndex | None:
    try:
        return decode(blob.body)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with an index, the fleet is found without it
        what = f"{type(error).__name__}: {error}"[:200]
        log.warning("%s/%s cannot be used (%s): the fleet is listed anew", url, key, what)
        return None


def _worth(memory: FleetIndex) -> tuple[object, ...]:
    """What it would cost looks to find out again."""
    lines = frozenset(
        (run.line.run_id, run.line.status, run.line.since, (run.files.get(runid.RECORD) or (0.0, ""))[1])
        for run in memory.known()
    )
    with memory.lock:
        finished = len(memory.finished), sum(memory.finished.values())
        return lines, finished, memory.cursor, frozenset(memory.unseen)


def _merge(ours: FleetIndex, theirs: FleetIndex) -> None:
    """Whichever has seen a run later knows it better; a run that they have let go of since we saw it is let go of."""
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


def encode(memory: FleetIndex) -> bytes:
    """Compressed JSON."""
    with memory.lock:
        rows = [_row(run) for run in memory.runs.values()]
        finished, unseen, part = dict(memory.finished), dict(memory.unseen), memory.round
    document = {
        "schema": SCHEMA,
        "cursor": memory.cursor,
        "pages": memory.pages,
        "listed_at": memory.listed_at,
        "round": [part.began_at, part.pages, part.reached, part.done],
        "passes": memory.passes,
        "cuts": memory.cuts,
        "unseen": unseen,
        **_FORMER,
        "runs": rows,
        "finished": finished,
    }
    return zlib.compress(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(), 3)


def decode(body: bytes) -> FleetIndex:
    """What :func:`encode` wrote. Raises for anything else."""
    unpack = zlib.decompressobj()
    document = json.loads(unpack.decompress(body, _UNPACKED_BYTES))
    if document["schema"] != SCHEMA:
        raise ValueError(f"its schema is {str(document['schema'])[:20]}, not {SCHEMA}")
    runs = (_run(row) for row in document["runs"])
    return FleetIndex(
        runs={run.line.run_id: run for run in runs},
        finished={runid.check_run_id(name): int(ended) for name, ended in document["finished"].items()},
        unseen={runid.check_run_id(name): float(since) for name, since in document["unseen"].items()},
        cuts=tuple(runid.check_run_id(name) for name in document["cuts"]),
        cursor=str(document["cursor"]),
        pages=int(document["pages"]),
        listed_at=float(document["listed_at"]),
        round=_round(document["round"]) if "round" in document else ListingRound(),
        passes=int(document["passes"]),
    )


def _round(value: Json) -> ListingRound:
    began_at, pages, reached, done = value
    return ListingRound(float(began_at), int(pages), _text(reached)[:_FOLDER_LIMIT], bool(done))


def _row(run: IndexedRun) -> Json:
    line, since = run.line, _seconds(run.line.since)
    return [
        [line.run_id, line.status.value, line.reason, line.cause, line.action, line.conditions, since, line.attempt],
        [run.looked_at, run.seen_at, run.moved, run.wake, run.newest, run.beating, run.by_log],
        [_file(run.files, name) for name in _NAMES],
        [run.pending, _seconds(run.start_time), run.transitions, run.alerts],
    ]


def _run(row: Json) -> IndexedRun:
    told, times, files, (pending, start, transitions, alerts) = row
    name, status, reason, cause, action, conditions, since, attempt = told
    looked_at, seen_at, moved, wake, newest, beating, *by_log = times
    line = RunLine(
        runid.check_run_id(name), Status(status), _text(reason), _optional(cause), _optional(action),
        tuple(_text(each) for each in conditions), _time(since), int(attempt),
    )  # fmt: skip
    if len(files) not in {len(_NAMES), _WITHOUT_LOG}:
        raise ValueError(f"a run has {len(files)} files where {len(_NAMES)} belong")
    return IndexedRun(
        line=line,
        looked_at=float(looked_at),
        seen_at=float(seen_at),
        files={name: _pair(file) for name, file in zip(_NAMES, files, strict=False) if file != 0},
        moved=float(moved),
        wake=None if wake is None else float(wake),
        pending=int(pending),
        start_time=_time(start),
        transitions=int(transitions),
        alerts=int(alerts),
        newest=float(newest),
        beating=bool(beating),
        by_log=any(by_log),
    )


def _file(files: Mapping[str, tuple[float, str] | None], name: str) -> Json:
    """0: not known; None: not there."""
    return files.get(name) if name in files else 0


def _pair(file: Json) -> tuple[float, str] | None:
    return None if file is None else (float(file[0]), _text(file[1]))


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text was expected, not {type(value).__name__}")
    return value


def _optional(value: Json) -> str | None:
    return None if value is None else _text(value)


def _seconds(when: datetime | None) -> float | None:
    return None if when is None else when.timestamp()


def _time(value: Json) -> datetime | None:
    return None if value is None else datetime.fromtimestamp(float(value), tz=timezone.utc)
