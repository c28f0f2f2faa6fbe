"""Keeps a record: reads it, changes it by compare-and-set, and finds out who won if the answer was lost. The record of
a run without files lies elsewhere, and so does the mark of one that was forgotten."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.model.codec import DamagedError, NewerError
from lastbeat.model.record import Record
from lastbeat.model.runid import RECORD, waiting_record
from lastbeat.stores.limited import LimitedStore
from lastbeat.stores.port import (
    Blob,
    ConflictError,
    DeniedError,
    Entry,
    Expect,
    Store,
    StoreError,
    UnreachableError,
)
from lastbeat.stores.selftest import honours_conditions
from lastbeat.watch.record.codec import RECORD_LIMIT_BYTES, decode, decode_record, encode
from lastbeat.watch.record.fleet_document import RACES, always_overtaken

log = logging.getLogger(__name__)


@dataclass
class RecordRepository:
    """One record in ``store`` under ``key``, or in ``fallback`` if the store refuses writes.

    It keeps the record between passes, so an unchanged one is not read again. ``token`` identifies this watcher.
    """

    store: Store
    key: str
    token: str
    fallback: Store | None = None
    fallback_key: str = ""
    proven: bool = False
    """The store is known to honour conditional writes, so a new record need not test that."""
    kind: type[Record] = Record
    """The class of the record."""
    limit_bytes: int = RECORD_LIMIT_BYTES

    waiting_key: str = ""
    """Where the record waits in ``store`` while the run has no folder. No folder is made for the record alone, since
    the run's name might be a typing error. Empty: a folder is made."""
    homeless: bool = False
    """The run has no folder yet."""

    record: Record | None = None
    """The record as last read, saved or kept."""
    note: str | None = None
    """A remark for people: the record was damaged, or is kept elsewhere."""
    _version: str | None = None
    _waiting: str | None = None
    """Version of the waiting record."""
    _elsewhere: str | None = None
    """Version in the fallback, if the record is kept there."""
    _writes: int = 0

    @classmethod
    def of_run(cls, store: Store, run_id: str) -> "RecordRepository":
        """The record of a run, for a process that is no watcher of it."""
        return cls(store, f"{run_id}/{RECORD}", os.urandom(6).hex())

    @property
    def version(self) -> str | None:
        """Version of the record in ``store``, as last seen or written, or None if there is none."""
        return self._version

    def load(self, entry: Entry | None) -> Record | None:
        """The current record, or None if there is none. ``entry`` is its entry in a listing just made, or None.

        Raises :class:`StoreError` if it cannot be read, and :class:`ConflictError` if it is newer than the listing, for
        its writer has seen more than this look. A damaged record will be replaced, with a note.
        """
        if entry is None:
            # The record was deleted, perhaps with the run's files, but this process still has it.
            self._version = None
            self._look_at_waiting()
        elif entry.version != self._version:
            self._read(self.store.read(self.key, self.limit_bytes))
            if self._version != entry.version:
                raise ConflictError(f"{self.key} was written while the run was looked at")
        self._look_elsewhere()
        return self.record

    def reload(self) -> Record | None:
        """Read the record that the winner of a lost race wrote."""
        self._read(self.store.read(self.key, self.limit_bytes))
        if self._version is None:
            self._look_at_waiting()
        self._look_elsewhere()
        return self.record

    @contextmanager
    def hurrying(self, limit_s: float) -> Iterator[None]:
        """Meanwhile each request to ``store`` is abandoned after ``limit_s`` seconds, whatever the store's own limit.

        Every write of a record is conditional, so an abandoned one that arrives late does no harm.
        """
        own, self.store = self.store, LimitedStore(self.store, limit_s)
        try:
            yield
        finally:
            self.store = own

    def keep(self, record: Record) -> None:
        """Keep ``record`` for this process's next pass without writing it: it holds nothing that must not be lost."""
        self.record = record

    def drop(self) -> None:
        """Drop the record: the run was forgotten."""
        self.record = self._version = self._waiting = None

    def save(self, record: Record, now: datetime) -> Record:
        """Write ``record`` unless another watcher wrote it since it was read. Returns it as written.

        1. If no watcher has seen the run yet, write under ``waiting_key``. Otherwise write beside the run.
        2. Write under the condition that the version is unchanged.
        3. If the answer is lost, read it back: the record names its writer and write.
        4. If the store refuses writes for good, write to the fallback.
        5. After creating a record, test once whether the store honours conditions, and record it if not.

        Raises :class:`ConflictError` if another watcher wrote it, any other :class:`StoreError` if it is not known to
        be written.
        """
        self._writes += 1
        written = replace(
            record, seq=record.seq + 1, written_at=now, writer=f"{self.token}.{self._writes}", continues=None
        )
        body, created = encode(written), self._version is None
        if self._waits:
            return self._save_waiting(written, body)
        try:
            expect = self._version if self._version is not None else Expect.NOTHING
            self._version = self._write(body, written.writer, self.key, expect)
        except ConflictError:
            raise
        except StoreError as error:
            if error.retryable or self.fallback is None:
                raise
            return self._save_elsewhere(written, error)
        self.record = written
        self._drop_copy()
        self._drop_waiting()
        if (
            created
            and not self.proven
            and record.conditional_writes is None
            and not self._honoured(body, self._version)
        ):
            return self.save(replace(written, conditional_writes=False), now)
        return written

    def update(self, change: Callable[[Record | None], Record | None], now: datetime | None = None) -> Record | None:
        """Write what ``change`` makes of the record. Returns the record as it is then, or None if there is none.

        1. Read the record, and call ``change`` with it, or with None if there is none.
        2. If ``change`` returns None or the very record, write nothing.
        3. Otherwise save it at ``now``, or at the store's time if there is no ``now``.
        4. After a lost race start again, so ``change`` may be called several times. :meth:`save` finds out whether a
           write with a lost answer happened.

        Raises :class:`ConflictError` after :data:`RACES` lost races, any other :class:`StoreError` if the change is not
        known to be written.
        """
        for _ in range(RACES):
            record = self.reload()
            wanted = change(record)
            if wanted is None or wanted is record:
                return record
            try:
                return self.save(wanted, now or self.store.clock())
            except ConflictError:
                continue
        raise always_overtaken(self.key)

    def _read(self, blob: Blob | None) -> None:
        self.note = None
        # If the record cannot be used, this raises before its version is known: the next look must not write over it.
        self.record = None if blob is None else self._decode(blob)
        self._version = blob.version if blob else None

    def _decode(self, blob: Blob) -> Record | None:
        skipped: list[str] = []
        try:
            # A truncated one is not valid JSON, so its size needs no check.
            record = decode(blob.body, self.kind, skipped)
        except NewerError as error:
            raise StoreError(f"{self.key} cannot be used: {error}", "upgrade lastbeat on this machine") from error
        except DamagedError as error:
            self.note = f"The record {self.key} was damaged ({error}); a new one was begun, its alerts may repeat."
            return None
        if skipped:
            where = ", ".join(sorted(set(skipped)))
            self.note = (
                f"A newer lastbeat wrote parts of {self.key} that this one does not know ({where}); it leaves them "
                "as they are. Upgrade lastbeat on this machine to see them."
            )
        return record

    def _write(self, body: bytes, writer: str, key: str, expect: Expect | str) -> str:
        try:
            return self.store.write(key, body, expect)
        except (ConflictError, UnreachableError):
            # The write may have succeeded with its answer lost: then the record names this write.
            version = self._version_if_written(writer, key)
            if version is None:
                raise
            return version

    def _version_if_written(self, writer: str, key: str) -> str | None:
        try:
            blob = self.store.read(key, self.limit_bytes)
            return blob.version if blob is not None and decode(blob.body, self.kind).writer == writer else None
        except (StoreError, DamagedError) as error:
            log.debug("could not find out whether %s was written: %s", key, error)
            return None

    def _honoured(self, body: bytes, version: str) -> bool:
        """Whether the store refuses what it must refuse: tested once per record, right after its creation."""
        try:
            return honours_conditions(self.store, self.key, body, version)
        except StoreError as error:
            log.debug("could not test conditional writes of %s: %s", self.store.url, error)
            return True

    def _look_elsewhere(self) -> None:
        """Continue from the copy in the fallback, unless the record beside the run has been written since."""
        if self.fallback is None:
            return
        try:
            blob = self.fallback.read(self.fallback_key, self.limit_bytes)
            copy = decode(blob.body, self.kind) if blob is not None else None
        except (StoreError, DamagedError) as error:
            log.debug("the copy of the record in %s cannot be used: %s", self.fallback.url, error)
            return
        if blob is None or copy is None:
            self._elsewhere = None
        elif copy.continues == self._version:
            if blob.version != self._elsewhere:
                self.record, self._elsewhere = copy, blob.version
            self.note = self._note()
        else:
            # The store is written again: its record takes over from the copy.
            self._elsewhere = blob.version
            self._drop_copy()

    def _note(self) -> str:
        kept = self.fallback.url if self.fallback else ""
        return (
            f"{self.store.url}/{self.key} cannot be written: the record is kept in {kept}, "
            "and watchers elsewhere do not see it."
        )

    @property
    def _waits(self) -> bool:
        """Whether the record waits elsewhere, because no watcher has seen the run yet."""
        known = self.record is not None and self._waiting is None and self._elsewhere is None
        return bool(self.homeless and self.waiting_key) and self._version is None and not known

    def _look_at_waiting(self) -> None:
        """Continue from the waiting record, if there is one and none lies beside the run."""
        if not self.waiting_key or (self.record is not None and self._waiting is None):
            return
        try:
            blob = self.store.read(self.waiting_key, self.limit_bytes)
        except DeniedError as error:
            # A user who may read only a single run cannot have written one there either.
            log.debug("%s cannot be read: %s", self.waiting_key, error)
            return
        if blob is None:
            self._waiting = None
        elif blob.version != self._waiting:
            self._waiting, self.record = blob.version, self._decode(blob)

    def _save_waiting(self, written: Record, body: bytes) -> Record:
        expect = self._waiting if self._waiting is not None else Expect.NOTHING
        try:
            self._waiting = self._write(body, written.writer, self.waiting_key, expect)
        except ConflictError:
            # Drop it, so that the next look takes the other watcher's.
            self._waiting, self.record = None, None
            raise
        except StoreError as error:
            if error.retryable or self.fallback is None:
                raise
            return self._save_elsewhere(written, error)
        self.record = written
        self._drop_copy()
        return written

    def _drop_waiting(self) -> None:
        if self._waiting is None:
            return
        self._waiting = None
        try:
            self.store.delete(self.waiting_key)
        except StoreError as error:
            # It is read again only if the record beside the run goes away.
            log.debug("%s could not be removed: %s", self.waiting_key, error)

    def _save_elsewhere(self, written: Record, refused: StoreError) -> Record:
        assert self.fallback is not None  # noqa: S101 - save() has just looked
        log.info("the record cannot be kept beside the run: %s", refused)
        copy = replace(written, continues=self._version)
        expect = self._elsewhere if self._elsewhere is not None else Expect.NOTHING
        try:
            self._elsewhere = self.fallback.write(self.fallback_key, encode(copy), expect)
        except ConflictError:
            raise
        except StoreError as error:
            what = f"the record can be kept neither beside the run ({refused}) nor in {self.fallback.url} ({error})"
            raise StoreError(what, "set LASTBEAT_STATE_DIR to a directory that can be written") from error
        self.record, self.note = copy, self._note()
        return copy

    def _drop_copy(self) -> None:
        """Remove the copy elsewhere: the store accepts the record again."""
        if self._elsewhere is None or self.fallback is None:
            return
        self._elsewhere, self.note = None, None
        try:
            self.fallback.delete(self.fallback_key)
        except StoreError as error:
            # It names the version it continues, so it will not be taken for a newer one.
            log.debug("the copy of the record in %s could not be removed: %s", self.fallback.url, error)


_KEPT: Final = timedelta(days=1)
"""A mark is kept for this long: every pass has seen it by then."""
_FOLDER: Final = "_watchdog/unseen/"


def forgotten(store: Store, run_id: str) -> Record | None:
    """The mark of the run, or None if there is none or it cannot be read."""
    try:
        blob = store.read(waiting_record(run_id), RECORD_LIMIT_BYTES)
        record = decode_record(blob.body) if blob is not None else None
    except (StoreError, DamagedError) as error:
        log.debug("whether %s was forgotten is not known: %s", run_id, error)
        return None
    return record if record is not None and record.left_out is not None and record.left_out.forgotten else None


def leave_word(store: Store, record: Record) -> None:
    """Write ``record``, that of a run to be forgotten, where the record of an unseen run waits. Raises
    :class:`StoreError`."""
    store.write(waiting_record(record.run_id), encode(record))


def drop_old_words(store: Store, now: datetime) -> None:
    """Delete marks that every pass has seen by now, at most a page of them. Raises :class:`StoreError`."""
    for entry in store.list(_FOLDER).entries:
        run_id = entry.key.removeprefix(_FOLDER).removesuffix(f"/{RECORD}")
        if now - entry.modified > _KEPT and "/" not in run_id and forgotten(store, run_id) is not None:
            store.delete(entry.key)
