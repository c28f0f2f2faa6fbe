"""Ends and restarts several commands of one job together, or not at all: one on each node, or one for each rank.

The present start is a number in ``in_place.json``, which only grows, by compare-and-set. A participant whose command
hangs or has failed, and should restart, asks for the next number. Of several requests at once one wins, and the others
follow it. All poll the file every few seconds. A participant that sees a higher number ends its command, leaves a mark
that it is ready, and starts when all marks exist::

    node 0    start 0 ····················· sees 1: ends start 0 ── mark 1/0 ── all are there: start 1
    node 1    start 0 ── fails ── asks for 1 ────── mark 1/1 ·················· all are there: start 1

No command is started if the store cannot be read, or a participant does not come. None continues alone.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from lastbeat.model.codec import DamagedError, codec
from lastbeat.model.document_field import encode
from lastbeat.model.starts_in_place import FOLDER, KEY, StartsInPlace
from lastbeat.stores.port import Blob, Expect, Store, StoreError
from lastbeat.training.exec.in_place.participants import Participant

_LIMIT_BYTES: Final = 1 << 20
_AGAIN_S: Final = 0.5


class Together:
    """One participant, with its knowledge of the others."""

    def __init__(
        self, run_id: str, launch: str, own: Participant, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._key = f"{run_id}/{KEY}"
        self._folder = f"{run_id}/{FOLDER}"
        self._launch, self.own, self._pause = launch, own, pause
        self.number = 0
        """Number of its own start."""
        self._seen: StartsInPlace | None = None

    @property
    def called(self) -> StartsInPlace | None:
        """The others' decision that this participant has not followed yet: a later start, or the end. None without
        one."""
        seen = self._seen
        return seen if seen is not None and (seen.over or seen.number > self.number) else None

    def look(self, store: Store) -> None:
        """Read the others' decision. Raises :class:`StoreError`."""
        self._seen = self._read(store)[0]

    def ask_for(self, store: Store, wanted: StartsInPlace, limit_s: float) -> StartsInPlace | None:
        """Ask all participants to make the start ``wanted``, or to end. Returns the common decision, which is another
        participant's if that came first. None if the store did not answer within ``limit_s``."""
        deadline = time.monotonic() + limit_s
        while (done := self._try_to_ask(store, wanted)) is None and time.monotonic() < deadline:
            self._pause(_AGAIN_S)
        return done

    def _try_to_ask(self, store: Store, wanted: StartsInPlace) -> StartsInPlace | None:
        """Ask once. Returns the common decision, or None if it is still unknown."""
        try:
            found, blob = self._read(store)
            # The first request wins, also if it was this participant's and its answer was lost.
            if found is not None and (found.over or found.number >= max(wanted.number, self.number + 1)):
                return found
            store.write(self._key, encode_starts(wanted), Expect.NOTHING if blob is None else blob.version)
        except StoreError:
            # Another participant was faster, or the store does not answer.
            return None
        return wanted

    def gather(self, store: Store, number: int, limit_s: float) -> tuple[StartsInPlace | None, tuple[int, ...]]:
        """Wait until all are ready for start ``number``. Returns the others' decision if that is another one by now,
        and the participants that did not come within ``limit_s``."""
        deadline, place = time.monotonic() + limit_s, f"{self._folder}{self._launch}-{number}/"
        marked, missing = False, tuple(each for each in range(self.own.count) if each != self.own.number)
        while True:
            # While the store does not answer, no participant counts as ready.
            with suppress(StoreError):
                if not marked:
                    store.write(f"{place}{self.own.number}", b"")
                    marked = True
                missing = self._missing(store, place)
                if not missing:
                    return None, ()
                found, _ = self._read(store)
                if found is not None and (found.over or found.number > number):
                    return found, missing
            if time.monotonic() >= deadline:
                return None, missing
            self._pause(_AGAIN_S)

    def _missing(self, store: Store, place: str) -> tuple[int, ...]:
        there, after = set[str](), ""
        while True:
            page = store.list(place, after)
            there |= {each.key.removeprefix(place) for each in page.entries}
            if not page.more or not page.entries:
                return tuple(each for each in range(self.own.count) if str(each) not in there)
            after = page.entries[-1].key

    def _read(self, store: Store) -> tuple[StartsInPlace | None, Blob | None]:
        """The decision of this launch, and the file. The decision of an earlier launch counts as None."""
        blob = store.read(self._key, _LIMIT_BYTES)
        if blob is None:
            return None, None
        try:
            found = codec(StartsInPlace).read(json.loads(blob.body))
        except (ValueError, RecursionError, DamagedError):
            return None, blob
        return (found if found.launch == self._launch else None), blob


def encode_starts(starts: StartsInPlace) -> bytes:
    """``starts`` as a document."""
    return encode(codec(StartsInPlace).document(starts))
