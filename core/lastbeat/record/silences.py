"""The silences of a fleet: one small document beside the runs, changed by compare-and-set."""

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from lastbeat.codec import DamagedError, codec
from lastbeat.model.persisted import Persisted
from lastbeat.model.silence import SILENCES, WHY_LIMIT, InvalidSilenceError, Silence, check_glob
from lastbeat.model.text import fit, one_line
from lastbeat.stores.port import Blob, ConflictError, Expect, Store, StoreError, UnreachableError

log = logging.getLogger(__name__)

SCHEMA = 1
LIMIT_BYTES = 64 * 1024
MOST = 200
GOOD_FOR_S = 60.0
"""How long a watcher relies on what it has read, so a new silence takes effect within this time."""
_ASK_AGAIN_S = 10.0
"""The same after a failed read: a pass with a thousand alerts must not read a thousand times."""
_RACES = 20
_NEW = "lastbeat silence RUN-GLOB --for 2h --why …"

Silenced = tuple[Silence, ...]


@dataclass(frozen=True)
class SilenceList(Persisted):
    """The document."""

    silences: Silenced


class Silences:
    """Reads on the first question and remembers. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._held: Silenced = ()
        self._read_at: datetime | None = None
        self._good_for_s = 0.0

    def why(self, run_id: str, now: datetime) -> str | None:
        """Who silenced the run and why, in one line. None: it is not silenced.

        Never raises: if the silences cannot be read, alerts go out and the log has the reason.
        """
        for silence in self._known(now):
            if silence.covers(run_id, now):
                log.info("%s raises no alerts: %s", run_id, silence.summary)
                return silence.summary
        return None

    def _known(self, now: datetime) -> Silenced:
        # A thread that comes while another reads waits for its answer.
        with self._lock:
            if self._read_at is None or abs((now - self._read_at).total_seconds()) >= self._good_for_s:
                self._held, self._good_for_s, self._read_at = *self._asked(), now
            return self._held

    def _asked(self) -> tuple[Silenced, float]:
        try:
            return _decode(self._store.read(SILENCES, LIMIT_BYTES)).silences, GOOD_FOR_S
        except DamagedError as fault:
            log.warning("no silence counts: %s is damaged (%s); a new one replaces it: %s", SILENCES, fault, _NEW)
        except StoreError as error:
            log.warning("no silence counts, since they cannot be read: %s", error)
        return (), _ASK_AGAIN_S

    def all(self, now: datetime) -> Silenced:
        """The silences in the store that are not over. Raises :class:`StoreError`."""
        try:
            held = _decode(self._store.read(SILENCES, LIMIT_BYTES)).silences
        except DamagedError as fault:
            raise self._damaged(fault) from fault
        return tuple(silence for silence in held if not silence.is_over(now))

    def add(self, silence: Silence, now: datetime) -> str | None:
        """Add ``silence``. Returns a note if the document was damaged and had to be replaced.

        Raises :class:`StoreError`.
        """
        notes: list[str] = []

        def change(blob: Blob | None) -> SilenceList | None:
            notes.clear()
            try:
                held = _decode(blob)
            except DamagedError as fault:
                held = SilenceList(())
                notes.append(f"{SILENCES} was damaged ({fault}); the new silence replaces whatever it held.")
            if any(each.id == silence.id for each in held.silences):
                return None
            lasting = [each for each in held.silences if not each.is_over(now)]
            if len(lasting) >= MOST:
                raise StoreError(f"there are {len(lasting)} silences already", "lift some: lastbeat silence --list")
            return replace(held, silences=(*lasting, silence))

        self._change(change)
        return notes[0] if notes else None

    def lift(self, which: str, now: datetime) -> Silenced:
        """Remove the silence with the id ``which``, or else those of that very glob; returns them, perhaps none.

        Raises :class:`StoreError`.
        """
        lifted: dict[str, Silence] = {}

        def change(blob: Blob | None) -> SilenceList | None:
            try:
                held = _decode(blob)
            except DamagedError as fault:
                raise self._damaged(fault) from fault
            lasting = [each for each in held.silences if not each.is_over(now)]
            chosen = [each for each in lasting if each.id == which] or [each for each in lasting if each.runs == which]
            lifted.update({each.id: each for each in chosen})
            kept = tuple(each for each in lasting if each not in chosen)
            return replace(held, silences=kept) if chosen else None

        self._change(change)
        return tuple(lifted.values())

    def _change(self, change: Callable[[Blob | None], SilenceList | None]) -> None:
        """Write what ``change`` makes of the document; None: nothing to change.

        After a lost race or a lost answer it is read anew: if the write happened, there is nothing left to change.
        """
        unsure = False
        for _ in range(_RACES):
            blob = self._store.read(SILENCES, LIMIT_BYTES)
            wanted = change(blob)
            if wanted is None:
                break
            body = _encode(wanted)
            if len(body) > LIMIT_BYTES:
                raise StoreError(
                    f"{SILENCES} would become larger than {LIMIT_BYTES // 1024} KB",
                    "lift some: lastbeat silence --list",
                )
            try:
                self._store.write(SILENCES, body, blob.version if blob is not None else Expect.NOTHING)
            except ConflictError:
                continue
            except UnreachableError:
                if unsure:
                    raise
                unsure = True
                continue
            break
        else:
            raise ConflictError(f"{SILENCES} was changed by others every time", "try again in a moment")
        with self._lock:
            self._read_at = None

    def _damaged(self, fault: DamagedError) -> StoreError:
        return StoreError(f"{self._store.url}/{SILENCES} is damaged: {fault}", f"a new silence replaces it: {_NEW}")


def _encode(held: SilenceList) -> bytes:
    document = {"schema": SCHEMA, **codec(SilenceList).document(held)}
    return json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "replace")


def _decode(blob: Blob | None) -> SilenceList:
    """Raises :class:`DamagedError`, and :class:`StoreError` for a document that only a newer lastbeat can read."""
    if blob is None:
        return SilenceList(())
    if blob.size_bytes > LIMIT_BYTES:
        raise DamagedError(f"it has {blob.size_bytes} bytes")
    try:
        document = json.loads(blob.body)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"it is not JSON ({type(error).__name__})") from error
    schema = document.pop("schema", None) if isinstance(document, dict) else None
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise DamagedError("it is not a JSON object with a schema number")
    if schema > SCHEMA:
        raise StoreError(
            f"{SILENCES} has schema {schema}, written by a newer lastbeat; this one reads {SCHEMA}",
            "upgrade lastbeat on this machine",
        )
    held = codec(SilenceList).read(document)
    try:
        return replace(held, silences=tuple(map(_checked, held.silences)))
    except InvalidSilenceError as error:
        raise DamagedError(one_line(fit(str(error), 100))) from error


def _checked(silence: Silence) -> Silence:
    # Anybody who can write to the store may have written this, and terminals show it.
    return replace(
        silence,
        id=fit(one_line(silence.id), 40),
        runs=check_glob(silence.runs),
        why=fit(one_line(silence.why), WHY_LIMIT),
        by=fit(one_line(silence.by), 100),
    )
