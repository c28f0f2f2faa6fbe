"""The limits of a fleet: one small document beside the runs, read by every watcher, changed by compare-and-set."""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from lastbeat.model.codec import DamagedError, codec
from lastbeat.model.data import dataclass
from lastbeat.model.limits import FIXED, LEARNED, LIMITS, MEND, MOST_MINUTES, LimitEntry, by_specificity, limits_of
from lastbeat.model.persisted import Persisted
from lastbeat.model.policy import Policy
from lastbeat.model.silence import check_glob
from lastbeat.model.text import fit, one_line
from lastbeat.stores.port import Blob, Entry, Store, StoreError
from lastbeat.watch.record import fleet_document
from lastbeat.watch.record.fleet_document import ASK_AGAIN_S, GOOD_FOR_S, LIMIT_BYTES, change

log = logging.getLogger(__name__)

MOST: Final = 200
LISTED_FOR_S: Final = 900.0
"""Seconds for which the limits are relied on if none may decide anything, and if listings show changes of the
document: longer than the longest time between two listings."""
_REMEMBERED: Final = 100_000
_NAMED: Final = 5

Entries = tuple[LimitEntry, ...]


@dataclass(frozen=True)
class LimitsDocument(Persisted):
    """The document."""

    limits: Entries


class FleetLimits:
    """Reads on the first question and remembers; a listing or the time shows when to read again. Thread-safe.

    While the store does not return the document, the limits read before apply. If there were none, or the document is
    damaged, the limits are unknown, and a policy says that they are ``unread``. :attr:`note` reports both.
    """

    def __init__(self, store: Store, good_for_s: float = LISTED_FOR_S) -> None:
        self._store = store
        self._good_for_s = good_for_s
        self._asking = threading.Lock()
        self._lock = threading.Lock()
        """Guards the fields below."""
        self._entries: Entries = ()
        self._version: str | None = None
        """Version of the document when last requested; None if there was none."""
        self._known = False
        self._fault: str | None = None
        self._strange: str | None = None
        self._refused = False
        """The store did not return it, which may be temporary."""
        self._asked_at: datetime | None = None
        self._applied: dict[str, tuple[Policy, Policy]] = {}
        self.readings = 0
        """How often a read found other limits than before."""

    def policy(self, run_id: str, policy: Policy, now: datetime) -> Policy:
        """``policy`` with the fleet's limits for the run. Never raises. ``now`` is the store's time."""
        self.read(now)
        return self.known_policy(run_id, policy)

    def known_policy(self, run_id: str, policy: Policy) -> Policy:
        """The same with the limits known now, without a request."""
        with self._lock:
            return self._apply(run_id, policy)

    def listed(self, entry: Entry | None, now: datetime) -> None:
        """Take the document's ``entry`` in a listing made at ``now``; None if there is no document."""
        with self._lock:
            if entry is None:
                self._version, self._asked_at, self._refused = None, now, False
                self._learn((), None)
            elif entry.fault is not None or entry.version != self._version:
                self._asked_at = None
            elif not self._refused:
                self._asked_at = now

    def due(self, now: datetime) -> bool:
        """Whether the next question costs a read."""
        with self._lock:
            return self._is_due(now)

    def read(self, now: datetime) -> None:
        """Read the document if its interval has passed. Never raises. A second thread waits for the answer to the first
        one's read; :meth:`known_policy` does not wait."""
        if self.due(now):
            with self._asking:
                if self.due(now):
                    self._ask(now)

    def renew(self, now: datetime) -> bool:
        """Read the document, for a decision depends on it, unless that was a moment ago. Returns whether the limits
        have changed."""
        with self._lock:
            if self._asked_at is not None and abs((now - self._asked_at).total_seconds()) < GOOD_FOR_S:
                return False
            self._asked_at = None
            before = self.readings, self._fault
        self.read(now)
        with self._lock:
            return (self.readings, self._fault) != before

    @property
    def note(self) -> str | None:
        """What people must know about the limits, or None if all is well."""
        with self._lock:
            if self._fault is None:
                return self._strange
            what = "the limits that were last read still hold" if self._known else MEND
            return f"The fleet's limits cannot be read: {self._fault}; {what}"

    def _is_due(self, now: datetime) -> bool:
        good_for_s = ASK_AGAIN_S if self._refused else self._good_for_s
        return self._asked_at is None or abs((now - self._asked_at).total_seconds()) >= good_for_s

    def _ask(self, now: datetime) -> None:
        try:
            blob = self._store.read(LIMITS, LIMIT_BYTES)
        except StoreError as error:
            with self._lock:
                self._asked_at, self._refused = now, True
                self._lose(str(error))
            return
        with self._lock:
            self._asked_at, self._refused = now, False
            self._version = None if blob is None else blob.version
            try:
                found = _decode(blob)
            except DamagedError as fault:
                self._known = False
                self._lose(f"{LIMITS} is damaged: {fault}")
            except StoreError as error:
                self._known = False
                self._lose(str(error))
            else:
                self._learn(found.limits, strangeness(found))

    def _lose(self, why: str) -> None:
        why = one_line(fit(why, 300))
        if why != self._fault:
            log.warning("the fleet's limits cannot be read: %s", why)
            self._applied.clear()
        self._fault = why

    def _learn(self, entries: Entries, strange: str | None) -> None:
        entries = by_specificity(entries)
        if entries != self._entries or not self._known or self._fault is not None:
            self._applied.clear()
            self.readings += 1
        self._entries, self._strange, self._fault, self._known = entries, strange, None, True

    def _apply(self, run_id: str, policy: Policy) -> Policy:
        if self._fault is not None and not self._known:
            return replace(policy, unread=f"The fleet's limits cannot be read: {self._fault}")
        if not self._entries:
            return policy
        held = self._applied.get(run_id)
        if held is None or held[0] is not policy:
            if len(self._applied) >= _REMEMBERED:
                self._applied.clear()
            held = self._applied[run_id] = policy, policy.of_fleet(limits_of(run_id, self._entries))
        return held[1]

    # For commands that show or set the limits.

    def all(self) -> Entries:
        """What is in the store, the most specific first. Raises :class:`StoreError`."""
        return by_specificity(self._document(self._store.read(LIMITS, LIMIT_BYTES)).limits)

    def change(self, runs: str, change: Callable[[LimitEntry], LimitEntry]) -> LimitEntry:
        """Replace the entry of the glob ``runs`` by what ``change`` makes of it, and keep the others. An entry without
        limits is removed. Returns the entry. Raises :class:`StoreError`."""
        made = LimitEntry(runs)

        def changed(blob: Blob | None) -> LimitsDocument | None:
            nonlocal made
            held = self._document(blob)
            before = next((entry for entry in held.limits if entry.runs == runs), None)
            made = change(before or LimitEntry(runs))
            kept = tuple(made if entry is before else entry for entry in held.limits)
            if before is None:
                kept = (*held.limits, made)
            kept = tuple(entry for entry in kept if not entry.says_nothing)
            if len(kept) > MOST:
                raise StoreError(
                    f"there are limits of {MOST} globs already", "remove some: lastbeat limits GLOB --remove"
                )
            same = before is not None and replace(made, at=before.at, by=before.by) == before
            return None if same or kept == held.limits else replace(held, limits=kept)

        self._change(changed)
        return made

    def clear(self, runs: str) -> LimitEntry | None:
        """Remove the entry of exactly this glob. Returns it, or None if there was none. Raises :class:`StoreError`."""
        removed: LimitEntry | None = None

        def changed(blob: Blob | None) -> LimitsDocument | None:
            nonlocal removed
            held = self._document(blob)
            removed = next((entry for entry in held.limits if entry.runs == runs), removed)
            kept = tuple(entry for entry in held.limits if entry.runs != runs)
            return None if kept == held.limits else replace(held, limits=kept)

        self._change(changed)
        return removed

    def clear_all(self) -> None:
        """Remove all limits, even from a damaged document; a newer version's keys stay. Raises :class:`StoreError`."""

        def changed(blob: Blob | None) -> LimitsDocument | None:
            try:
                held = _decode(blob)
            except DamagedError:
                return LimitsDocument(())
            return replace(held, limits=()) if held.limits else None

        self._change(changed)

    def _document(self, blob: Blob | None) -> LimitsDocument:
        try:
            return _decode(blob)
        except DamagedError as fault:
            raise StoreError(
                f"{self._store.url}/{LIMITS} is damaged: {fault}",
                "correct it by hand, or remove all limits: lastbeat limits --remove-all",
            ) from fault

    def _change(self, wanted: Callable[[Blob | None], LimitsDocument | None]) -> None:
        change(self._store, LIMITS, wanted, "clear some limits")
        with self._lock:
            self._asked_at = None


def strangeness(held: LimitsDocument) -> str | None:
    """The parts of the document that this version ignores, perhaps because they are misspelt; or None."""
    told = [f"{key} of {entry.runs}" for entry in held.limits for key in entry.unknown]
    told += [
        f"stale: {entry.stale} of {entry.runs}" for entry in held.limits if entry.stale not in {None, LEARNED, FIXED}
    ]
    told += list(held.unknown)
    if not told:
        return None
    more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    named = one_line(fit(", ".join(told[:_NAMED]), 200))
    return (
        f"In {LIMITS} this lastbeat does not know {named}{more}: a newer one may, or it is misspelt (lastbeat limits)"
    )


def parse(blob: Blob) -> dict[str, object]:
    """The document as JSON data, without its schema number. Raises as :func:`fleet_document.parse`."""
    return fleet_document.parse(blob, LIMITS, '{"schema": 1, "limits": […]}')


def _decode(blob: Blob | None) -> LimitsDocument:
    """Raises as :func:`parse` does."""
    if blob is None:
        return LimitsDocument(())
    held = codec(LimitsDocument).read(parse(blob))
    try:
        entries = tuple(map(_checked, held.limits))
    except ValueError as error:
        raise DamagedError(one_line(fit(str(error), 200))) from error
    globs = [entry.runs for entry in entries]
    twice = next((glob for glob in globs if globs.count(glob) > 1), None)
    if twice is not None:
        raise DamagedError(f"the glob {twice} stands there twice")
    return replace(held, limits=entries)


def _checked(entry: LimitEntry) -> LimitEntry:
    # Any user with write access to the store may have written this, and terminals show it.
    check_glob(entry.runs)
    for name, minutes, zero in (
        ("stale_minutes", entry.stale_minutes, False),
        ("stall_minutes", entry.stall_minutes, True),
        ("start_minutes", entry.start_minutes, True),
    ):
        if minutes is not None:
            check_minutes(f"{name} of {entry.runs}", minutes, zero=zero)
    return replace(entry, by=fit(one_line(entry.by), 100), stale=entry.stale and fit(one_line(entry.stale), 40))


def check_minutes(name: str, minutes: float, *, zero: bool) -> float:
    """``minutes``, unchanged. Raises ``ValueError`` with a whole sentence if they are out of range."""
    if minutes < 0 or (minutes == 0 and not zero):
        raise ValueError(f"{name} is {minutes:g}; it has to be {'0 or more' if zero else 'more than 0'}")
    if minutes > MOST_MINUTES:
        raise ValueError(f"{name} is {minutes:g}; {MOST_MINUTES:g} minutes (30 days) is the most")
    return minutes
