"""The silences of a fleet: one small document beside the runs, changed by compare-and-set."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from lastbeat.model.codec import DamagedError, codec
from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Persisted
from lastbeat.model.silence import SILENCES, WHY_LIMIT, InvalidSilenceError, Silence, check_glob
from lastbeat.model.text import fit, one_line
from lastbeat.stores.port import Blob, Store, StoreError
from lastbeat.watch.record import fleet_document
from lastbeat.watch.record.fleet_document import ASK_AGAIN_S, GOOD_FOR_S, LIMIT_BYTES, Remembered, change

log = logging.getLogger(__name__)

MOST = 200
_NEW = "lastbeat silence RUN-GLOB --for 2h"

Silenced = tuple[Silence, ...]


@dataclass(frozen=True)
class SilenceList(Persisted):
    """The document."""

    silences: Silenced


@dataclass(frozen=True, slots=True)
class MadeSilence:
    """The result of adding a silence."""

    silence: Silence
    """The silence as it is now."""
    extended: Silence | None = None
    """The earlier silence of the same glob, or None."""
    note: str | None = None
    """The document was damaged and had to be replaced."""


class Silences:
    """Reads on the first question and remembers. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: Remembered[Silenced] = Remembered((), self._fetch)

    def why(self, run_id: str, now: datetime) -> str | None:
        """The author and the reason of the run's silence, in one line, or None if it is not silenced.

        Never raises: if the silences cannot be read, alerts go out and the log has the reason.
        """
        silence = self.of(run_id, now)
        if silence is None:
            return None
        log.info("%s raises no alerts: %s", run_id, silence.summary)
        return silence.summary

    def of(self, run_id: str, now: datetime) -> Silence | None:
        """The silence that covers the run, or None. Never raises, like :meth:`why`."""
        return covering(self._read.at(now), run_id, now)

    def _fetch(self) -> tuple[Silenced, float]:
        try:
            return _decode(self._store.read(SILENCES, LIMIT_BYTES)).silences, GOOD_FOR_S
        except DamagedError as fault:
            log.warning("no silence counts: %s is damaged (%s); a new one replaces it: %s", SILENCES, fault, _NEW)
        except StoreError as error:
            log.warning("no silence counts, since they cannot be read: %s", error)
        return (), ASK_AGAIN_S

    def all(self, now: datetime) -> Silenced:
        """The silences in the store that are not over. Raises :class:`StoreError`."""
        try:
            held = _decode(self._store.read(SILENCES, LIMIT_BYTES)).silences
        except DamagedError as fault:
            raise self._damaged(fault) from fault
        return tuple(silence for silence in held if not silence.is_over(now))

    def add(self, silence: Silence, now: datetime, *, extends: bool = True) -> MadeSilence:
        """Add ``silence``. If one of the same glob is not over, that is extended instead, and keeps its id; or it stays
        as it is, without ``extends``.

        Raises :class:`StoreError`.
        """
        made = MadeSilence(silence)

        def changed(blob: Blob | None) -> SilenceList | None:
            nonlocal made
            note = None
            try:
                held = _decode(blob)
            except DamagedError as fault:
                held = SilenceList(())
                note = f"{SILENCES} was damaged ({fault}); the new silence replaces whatever it held."
            lasting = [each for each in held.silences if not each.is_over(now)]
            before = next((each for each in lasting if each.runs == silence.runs), None)
            if before is None:
                if len(lasting) >= MOST:
                    raise StoreError(f"there are {len(lasting)} silences already", "lift some: lastbeat silence --list")
                made = MadeSilence(silence, None, note)
                return replace(held, silences=(*lasting, silence))
            if not extends and before.id != silence.id:
                made = MadeSilence(before, before)
                return None
            until, why = max(before.until, silence.until), silence.why or before.why
            longer = replace(before, until=until, why=why, by=silence.by)
            made = MadeSilence(longer, None if before.id == silence.id else (made.extended or before), note)
            if longer == before:
                return None
            return replace(held, silences=(*(each for each in lasting if each is not before), longer))

        self._change(changed)
        return made

    def lift(self, which: str, now: datetime) -> Silenced:
        """Remove the silence with the id ``which``, else those of exactly that glob. Returns them, perhaps none.

        Raises :class:`StoreError`.
        """
        lifted: dict[str, Silence] = {}

        def changed(blob: Blob | None) -> SilenceList | None:
            try:
                held = _decode(blob)
            except DamagedError as fault:
                raise self._damaged(fault) from fault
            lasting = [each for each in held.silences if not each.is_over(now)]
            chosen = [each for each in lasting if each.id == which] or [each for each in lasting if each.runs == which]
            lifted.update({each.id: each for each in chosen})
            kept = tuple(each for each in lasting if each not in chosen)
            return replace(held, silences=kept) if chosen else None

        self._change(changed)
        return tuple(lifted.values())

    def _change(self, wanted: Callable[[Blob | None], SilenceList | None]) -> None:
        change(self._store, SILENCES, wanted, "lift some: lastbeat silence --list")
        self._read.forget()

    def _damaged(self, fault: DamagedError) -> StoreError:
        return StoreError(f"{self._store.url}/{SILENCES} is damaged: {fault}", f"a new silence replaces it: {_NEW}")


def covering(silences: Iterable[Silence], run_id: str, now: datetime) -> Silence | None:
    """The longest-lasting silence that covers the run, or None. Pure."""
    return max((each for each in silences if each.covers(run_id, now)), key=lambda each: each.until, default=None)


def _decode(blob: Blob | None) -> SilenceList:
    """The document's silences. Raises like :func:`fleet_document.parse`."""
    if blob is None:
        return SilenceList(())
    held = codec(SilenceList).read(fleet_document.parse(blob, SILENCES, '{"schema": 1, "silences": […]}'))
    try:
        return replace(held, silences=tuple(map(_checked, held.silences)))
    except InvalidSilenceError as error:
        raise DamagedError(one_line(fit(str(error), 100))) from error


def _checked(silence: Silence) -> Silence:
    # Any user with write access to the store may have written this, and terminals show it.
    return replace(
        silence,
        id=fit(one_line(silence.id), 40),
        runs=check_glob(silence.runs),
        why=fit(one_line(silence.why), WHY_LIMIT),
        by=fit(one_line(silence.by), 100),
    )
