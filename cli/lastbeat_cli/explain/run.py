"""A run's id → its logs below the fleet root, the facts of its ranks, and the last similar failure there."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from lastbeat.model import runid
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, read_heartbeat
from lastbeat.model.record import Attempt
from lastbeat.model.times import format_time
from lastbeat.settings import Settings, opening, table
from lastbeat.stores.directory import DirectoryStore
from lastbeat.stores.port import Entry, Store, StoreError
from lastbeat.watch.decide.past_run import aftermath
from lastbeat.watch.observe import log_files
from lastbeat.watch.observe.flight_recorders import DumpFile, dumps_of_run
from lastbeat.watch.observe.listing import run_files
from lastbeat.watch.observe.local_logs import local_logs
from lastbeat.watch.observe.ranks import rank_hosts
from lastbeat.watch.record.known_failures import KnownFailures
from lastbeat_cli.explain import log_sources
from lastbeat_cli.explain.log_bytes import Note, UnreadableLogError, text_chunks
from lastbeat_cli.explain.log_sources import LogInput

_READ_BYTES: Final = 8 * 1024 * 1024
_CLOCKS: Final = timedelta(minutes=2)
"""Tolerance for an instance's clock that is ahead of the store's."""


def run_sources(settings: Settings, run_id: str, note: Note) -> list[LogInput]:
    """The logs of ``run_id``, including its ``_error``; empty if there is no such run.

    Raises :class:`StoreError`, and :class:`UnreadableLogError` if the run has no logs.
    """
    store = opening.store(settings)
    files = run_files(store, run_id)
    closed = {name: entry.fault for name, entry in files.items() if entry.fault is not None}
    for name, fault in closed.items():
        note(f"{name} could not be looked at: {fault}")
    names = sorted(name for name in files.keys() - closed if name == runid.ERROR or log_files.is_log(name))
    names = _of_this_attempt(store, files, names, note)
    if files and not names and (here := _of_this_machine(settings, note)):
        return here
    if closed and not names:
        fault = next(iter(closed.values()))
        raise UnreadableLogError(str(fault), fault.advice)
    if files and not names:
        raise UnreadableLogError(
            f"the run {run_id} has neither _error nor anything in logs/ of its present attempt",
            "Name the file that it prints into, or LASTBEAT_LOGS. Training may ship its log: "
            "lastbeat.run(..., log_file=...), lastbeat exec, or aws s3 cp.",
        )
    if store.traits.local:
        # Named by their paths, which people can open.
        root = settings.root.path
        for name in names:
            _check(store, files[name].key)
        return [replace(log_sources.file(root / run_id / name), rank=log_files.rank_of(name)) for name in names]
    return [_source(store, files[name]) for name in names]


def run_dumps(settings: Settings, run_id: str, note: Note) -> list[DumpFile]:
    """The dumps of flight recorders in the run's folder, of its present attempt."""
    store, patterns = opening.store(settings), settings[table.FLIGHT_RECORDER]
    metadata = store.read(f"{run_id}/{runid.METADATA}", DOCUMENT_LIMIT_BYTES)
    start = read_heartbeat(metadata).start_time if metadata is not None else None
    try:
        return dumps_of_run(store, run_id, patterns, None if start is None else start - _CLOCKS)
    except StoreError as fault:
        note(f"the dumps of flight recorders could not be looked for: {fault}")
        return []


def similar_failure(settings: Settings, run_id: str, fingerprint: str) -> str | None:
    """The fleet's last failure with ``fingerprint`` that was not of ``run_id``, in a sentence; or None."""
    store = opening.store(settings)
    now = store.clock()
    # Attempt 0 excludes every attempt of this run: the explained failure may be in that document itself.
    found = KnownFailures(store).similar(fingerprint, run_id, 0, now, aftermath)
    return None if found is None else found.told(now)


def _of_this_machine(settings: Settings, note: Note) -> list[LogInput]:
    """The logs in LASTBEAT_LOGS, for a program without the SDK, which leaves no log in the run's folder."""
    patterns = settings[table.LOGS]
    if not patterns:
        return []
    logs, said, hidden = local_logs(patterns)
    for each in (*said, *hidden):
        note(each)
    return [log_sources.file(log.path, log.name) for log in logs]


def _of_this_attempt(store: Store, files: Mapping[str, Entry], names: list[str], note: Note) -> list[str]:
    """``names`` without files last written before the current attempt: earlier ones ended for their own reasons."""
    metadata = files.get(runid.METADATA)
    blob = store.read(metadata.key, DOCUMENT_LIMIT_BYTES) if metadata is not None else None
    start = read_heartbeat(blob).start_time if blob is not None else None
    if start is None:
        return names
    kept = [name for name in names if files[name].modified >= start - _CLOCKS]
    if older := [name for name in names if name not in kept]:
        note(f"{', '.join(older[:5])}: from before this attempt began ({format_time(start)}), so left out")
    return kept


def _check(store: Store, key: str) -> None:
    """Raise :class:`UnreadableLogError` if the store refuses the file, for example because a link leads elsewhere."""
    try:
        store.read(key, 1)
    except StoreError as fault:
        raise UnreadableLogError(str(fault), fault.advice) from None


def _source(store: Store, entry: Entry) -> LogInput:
    key = entry.key
    return LogInput(key, partial(_chunks, store, key), log_files.rank_of(key), entry.size_bytes, entry.modified)


def _chunks(store: Store, key: str, note: Note) -> Iterator[bytes]:
    return text_chunks(key, _Ranges(store, key, note).read, note)


class _Ranges:
    """Reads a key from its beginning, :data:`_READ_BYTES` a request."""

    def __init__(self, store: Store, key: str, note: Note) -> None:
        self._store, self._key, self._note = store, key, note
        self._at = 0
        self._waiting = b""
        self._version: str | None = None

    def read(self, count: int) -> bytes:
        if not self._waiting:
            self._waiting = self._next()
        data, self._waiting = self._waiting[:count], self._waiting[count:]
        return data

    def _next(self) -> bytes:
        try:
            blob = self._store.read(self._key, _READ_BYTES, start=self._at)
        except StoreError as fault:
            raise UnreadableLogError(str(fault), fault.advice) from None
        if blob is None or not blob.body:
            return b""
        if self._version not in {None, blob.version}:
            # The file was replaced meanwhile, so the next bytes do not continue those read before.
            self._note(f"{self._key} was replaced while it was read; run this again to read all of it")
            return b""
        self._version = blob.version
        self._at += len(blob.body)
        return blob.body


@dataclass(frozen=True, slots=True)
class RankFacts:
    """Reads world size and hosts of the run ``run_id`` in ``store``."""

    store: Store
    run_id: str
    mask: Callable[[str], str]

    @classmethod
    def of_folder(cls, folder: Path, mask: Callable[[str], str]) -> "RankFacts":
        """The facts of the run in ``folder``; unknown if the folder holds no run."""
        place = folder.resolve()
        return cls(DirectoryStore(place.parent), place.name, mask)

    def world_size(self) -> int | None:
        """The number of ranks in metadata.json, or None if unknown."""
        try:
            blob = self.store.read(f"{self.run_id}/{runid.METADATA}", DOCUMENT_LIMIT_BYTES)
        except StoreError:
            return None
        return None if blob is None else read_heartbeat(blob).world_size

    def hosts(self, ranks: Collection[int]) -> Mapping[int, str]:
        """Rank → host, for those of ``ranks`` whose host is known."""
        return rank_hosts(self.store, self.run_id, self.mask, ranks, Attempt())
