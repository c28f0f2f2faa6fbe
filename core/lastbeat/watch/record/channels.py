"""When each channel of a fleet was added: one small document beside the runs, changed by compare-and-set.

A channel gets no alert that was decided before it existed. Watchers of one fleet may have different channels, so a
run's record cannot tell a new channel from another watcher's old one. Each watcher registers its channels by their
names when it starts. A channel of unknown age counts as old: it may get an alert too many, and never one too few.
"""

import logging
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from typing import Final

from lastbeat.model.codec import DamagedError, codec
from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Persisted
from lastbeat.stores.limited import LimitedStore
from lastbeat.stores.port import Blob, DeniedError, Store, StoreError
from lastbeat.stores.reading import ReadingStore
from lastbeat.watch.record.fleet_document import LIMIT_BYTES, change, encode, parse

log = logging.getLogger(__name__)

CHANNELS: Final = "_watchdog/channels.json"
_EXAMPLE: Final = '{"schema": 1, "channels": {"slack": null}}'
_ASK_AGAIN_S: Final = 300.0
"""Seconds between two tries while the document cannot be read or written."""
_ANSWER_S: Final = 1.5
"""Longest wait for one answer of the store, in seconds: no alert waits for longer."""

Since = Mapping[str, datetime | None]
"""Name of a channel → when it was registered; None if it is at least as old as the document."""


@dataclass(frozen=True)
class ChannelList(Persisted):
    """The document."""

    channels: Since = field(default_factory=dict)


class KnownChannels:
    """Reads and registers on the first question, and remembers. Thread-safe."""

    def __init__(self, store: Store, state: Store | None = None, state_key: str = "channels.json") -> None:
        """``state`` is the state directory: a watcher whose channels are listed there does not ask ``store``."""
        self._store, self._state, self._state_key = store, state, state_key
        self._lock = threading.Lock()
        self._known: ChannelList | None = None
        self._began: datetime | None = None
        self._asked_at: datetime | None = None

    def since(self, names: Iterable[str], now: datetime) -> Since:
        """When each of these channels was registered; ``now`` is the store's time. A channel of unknown age is left
        out. Never raises."""
        wanted = frozenset(names)
        with self._lock:
            self._register(wanted, now)
            known = self._known.channels if self._known is not None else {}
        return {name: known[name] for name in sorted(wanted) if name in known}

    def begin(self, now: datetime) -> None:
        """Register that this fleet has watchers, and no channel yet. Never raises."""
        with self._lock:
            self._register(frozenset(), now)

    def _register(self, wanted: frozenset[str], now: datetime) -> None:
        # A channel that is registered late existed when this process began.
        self._began = self._began or now
        if self._has(wanted) or (
            self._asked_at is not None and abs((now - self._asked_at).total_seconds()) < _ASK_AGAIN_S
        ):
            return
        if self._known is None and self._state is not None:
            with suppress(StoreError, DamagedError):
                self._known = _decode(self._state.read(self._state_key, LIMIT_BYTES))
        if self._has(wanted):
            return
        self._asked_at = now
        try:
            self._known = self._registered(wanted, self._began)
        except (StoreError, DamagedError) as fault:
            log.info("%s cannot be used, so each channel counts as an old one: %s", CHANNELS, fault)
            return
        self._asked_at = None
        if self._state is not None:
            with suppress(StoreError):
                self._state.write(self._state_key, encode(self._known))

    def _has(self, wanted: frozenset[str]) -> bool:
        return self._known is not None and wanted <= self._known.channels.keys()

    def _registered(self, wanted: frozenset[str], began: datetime) -> ChannelList:
        """The document with ``wanted``; the one in the state directory if this watcher may not write the fleet's.
        Raises :class:`StoreError` and :class:`DamagedError`."""
        found = ChannelList()

        def added(blob: Blob | None) -> ChannelList | None:
            nonlocal found
            held = _decode(blob)
            if held is None:
                # Without a document these channels may be old: they lose no alerts.
                found = ChannelList(dict.fromkeys(sorted(wanted)))
                return found
            new = wanted - held.channels.keys()
            found = ChannelList({**held.channels, **dict.fromkeys(sorted(new), began)})
            return found if new else None

        remedy = "delete it: each channel then counts as an old one"
        try:
            change(LimitedStore(self._store, _ANSWER_S), CHANNELS, added, remedy)
        except DeniedError:
            if isinstance(self._store, ReadingStore):
                return found
            if self._state is None:
                raise
            change(self._state, self._state_key, added, remedy)
        return found


def _decode(blob: Blob | None) -> ChannelList | None:
    """The document; None if there is none. Raises :class:`DamagedError` and :class:`StoreError`."""
    return None if blob is None else codec(ChannelList).read(parse(blob, CHANNELS, _EXAMPLE))
