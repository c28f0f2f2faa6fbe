"""Several commands of one job, on its nodes or one for each rank, are ended and started again together, or not at all.

The present start is a number in ``in_place.json``, which only grows, by compare-and-set. Whoever sees that its own
command hangs or has failed, and is to be started again, asks for the next number; of several at once one is heard, and
the others follow it. All look at the file every few seconds. Who sees a higher number ends its own command, leaves a
mark that it is ready, and starts when the marks of all are there::

    node 0    start 0 ····················· sees 1: ends start 0 ── mark 1/0 ── all are there: start 1
    node 1    start 0 ── fails ── asks for 1 ────── mark 1/1 ·················· all are there: start 1

Nothing is started where the store cannot be read, or one of them does not come: none goes on alone.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from lastbeat.codec import DamagedError, codec
from lastbeat.in_place.participants import Participant
from lastbeat.model.starts_in_place import FOLDER, KEY, StartsInPlace
from lastbeat.sdk.documents import encode
from lastbeat.stores.port import Blob, Expect, Store, StoreError

_LIMIT_BYTES: Final = 1 << 20
_AGAIN_S: Final = 0.5


class Together:
    """One of several, and what it knows of the others."""

    def __init__(
        self, run_id: str, launch: str, own: Participant, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._key = f"{run_id}/{KEY}"
        self._folder = f"{run_id}/{FOLDER}"
        self._launch, self.own, self._pause = launch, own, pause
        self.number = 0
        """Of the start that is its own."""
        self._seen: StartsInPlace | None = None

    @property
    def called(self) -> StartsInPlace | None:
        """What the others do, and this one does not yet: a later start, or none any more."""
        seen = self._seen
        return seen if seen is not None and (seen.over or seen.number > self.number) else None

    def look(self, store: Store) -> None:
        """See what the others do. Raises :class:`StoreError`."""
        self._seen = self._read(store)[0]

    def ask_for(self, store: Store, wanted: StartsInPlace, limit_s: float) -> StartsInPlace | None:
        """Have all of them make the start ``wanted``, or end. Returns what they do: what somebody else asked for at the
        same time, where that was heard first. None: the store did not answer within ``limit_s``, and nobody knows."""
        deadline = time.monotonic() + limit_s
        while (done := self._asked(store, wanted)) is None and time.monotonic() < deadline:
            self._pause(_AGAIN_S)
        return done

    def _asked(self, store: Store, wanted: StartsInPlace) -> StartsInPlace | None:
        """One try."""
        try:
            found, blob = self._read(store)
            # Whoever came first is followed, also if it was this one and the answer was lost.
            if found is not None and (found.over or found.number >= max(wanted.number, self.number + 1)):
                return found
            store.write(self._key, encode_starts(wanted), Expect.NOTHING if blob is None else blob.version)
        except StoreError:
            # Somebody else was faster, or it does not answer.
            return None
        return wanted

    def gather(self, store: Store, number: int, limit_s: float) -> tuple[StartsInPlace | None, tuple[int, ...]]:
        """Wait until all are ready for start ``number``. Returns those that did not come within ``limit_s``; and what
        the others do, if that is something else by now."""
        deadline, place = time.monotonic() + limit_s, f"{self._folder}{self._launch}-{number}/"
        marked, missing = False, tuple(each for each in range(self.own.count) if each != self.own.number)
        while True:
            # A store that does not answer says of nobody that he is there.
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
        """What this launch does, and the file as it is: an earlier launch's says nothing."""
        blob = store.read(self._key, _LIMIT_BYTES)
        if blob is None:
            return None, None
        try:
            found = codec(StartsInPlace).read(json.loads(blob.body))
        except (ValueError, RecursionError, DamagedError):
            return None, blob
        return (found if found.launch == self._launch else None), blob


def encode_starts(starts: StartsInPlace) -> bytes:
    """The document."""
    return encode(codec(StartsInPlace).document(starts))
