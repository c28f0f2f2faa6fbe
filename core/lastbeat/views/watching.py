"""A fleet as people look at it, again and again, for no more than one listing an interval."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from lastbeat.model.limits import LIMITS
from lastbeat.model.policy import Policy
from lastbeat.model.text import counted
from lastbeat.model.times import format_duration
from lastbeat.model.view import FleetView, StoreOutage
from lastbeat.settings import Settings, opening
from lastbeat.stores.port import Blob, Store, StoreError
from lastbeat.views.fleet_index import Index
from lastbeat.views.fleet_state import FleetState, understand
from lastbeat.views.judging import READ_LIMITS
from lastbeat.views.known_run import DocumentRequest
from lastbeat.views.log_judge import LOOK_S, ROUND_S, JudgedRun, LogJudge, UnrecordedRun
from lastbeat.views.safe import shown
from lastbeat.watch.observe.fleet import FleetListing, RunFiles
from lastbeat.watch.observe.log_observer import log_settings
from lastbeat.watch.record.limits import LISTED_FOR_S, FleetLimits

_IN_A_ROW: Final = 3
"""Reads in a row without an answer after which the store counts as unreachable."""
_TASK_MOST: Final = 16
"""Most documents that one task of a thread reads, one after another."""
Answer = Blob | StoreError | None
"""The content of a document, or why it cannot be read; None: it is gone."""


@dataclass
class Fetching:
    """Reads documents until ``until`` (``time.monotonic()``), or until the store does not answer any more. ``take``
    gets each answer, in the thread that read it."""

    store: Store
    threads: int
    take: Callable[[DocumentRequest, Answer], None]
    until: float = float("inf")
    asked: int = 0
    trouble: StoreError | None = None
    """Why the store does not answer."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _failed: int = 0
    _over: bool = False

    def fetch(self, requests: Sequence[DocumentRequest], on_progress: Callable[[int, int], None] | None = None) -> None:
        """All of ``requests``, in their order as far as threads keep one."""
        threads = min(self.threads, len(requests))
        if threads < 2:
            for done, request in enumerate(requests, 1):
                self._one(request)
                _tell(on_progress, done, len(requests))
            return
        # Of thousands, several a task: a task of its own would cost more than to read a small file.
        size = min(_TASK_MOST, max(1, len(requests) // (threads * 8)))
        tasks = [requests[start : start + size] for start in range(0, len(requests), size)]
        with ThreadPoolExecutor(threads, "lastbeat-look") as pool:
            try:
                for done, _ in enumerate(pool.map(self._some, tasks), 1):
                    _tell(on_progress, min(done * size, len(requests)), len(requests))
            finally:
                # Whatever ended this, Ctrl-C perhaps: nothing that waits is begun any more.
                self._over = True

    @property
    def _ended(self) -> bool:
        return self._over or self.trouble is not None or time.monotonic() >= self.until

    def _some(self, requests: Sequence[DocumentRequest]) -> None:
        for request in requests:
            self._one(request)

    def _one(self, request: DocumentRequest) -> None:
        if self._ended:
            return
        with self._lock:
            self.asked += 1
        answer = self._read(request)
        self.take(request, answer)
        with self._lock:
            self._failed = self._failed + 1 if isinstance(answer, StoreError) and answer.retryable else 0
            if isinstance(answer, StoreError) and self._failed >= _IN_A_ROW:
                self.trouble = answer

    def _read(self, request: DocumentRequest) -> Answer:
        entry = request.entry
        if not entry.size_bytes:
            return Blob(b"", 0, entry.modified, entry.version)
        try:
            return self.store.read(entry.key, READ_LIMITS[request.name])
        except StoreError as error:
            return error


def _tell(on_progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if on_progress is not None:
        on_progress(done, total)


READS_A_PAGE: Final = 12
"""Most documents read in an interval that does not list, for each page of the last listing. An object store charges
about as much for them as for the page."""
FRESHEN_S: Final = 0.5
"""Time in s in which opening a view reads what was written since passes left the gist of it."""
_FOREVER: Final = float("inf")
_AT_ONCE: Final = 200
"""Most runs of a listing that are taken in at once."""
_WAVES: Final = 3
"""What one document tells decides whether another is needed, twice at most."""
_MOMENT_S: Final = 0.02
"""Longest time in s that a reader of the view waits while documents are taken in."""
_OLD_S: Final = 120.0
"""Age in s of a shown step from which the view says so."""
_NAMED: Final = 5
"""Most unreadable folders that are named."""
_LIMITS: Final = LIMITS.partition("/")[2]
_MANY_RECORDS: Final = 3
"""Number of records from which on reading the fleet's memory, which may know their content, is cheaper."""


class FleetWatch:
    """A fleet as people look at it: what is read once is read again only when the listing shows that it changed.

    ``since_s``: runs that ended, or fell silent, longer ago than that are counted and not read. ``log_judge`` reads
    the logs of runs that no pass has recorded; without it their rows say that nothing is explained. Any thread may call
    any method; what asks the store is done by one at a time.
    """

    def __init__(  # noqa: PLR0913 - what it looks with, each by its name
        self,
        store: Store,
        policy: Policy,
        *,
        mask: Callable[[str], str] = str,
        since_s: float = 86400.0,
        threads: int = 16,
        limits: FleetLimits | None = None,
        log_judge: LogJudge | None = None,
    ) -> None:
        self._store = store
        self._log_judge = log_judge
        self._mask = mask
        self._free = store.traits.prices.free
        limits = limits or FleetLimits(store, LISTED_FOR_S)
        self._threads = max(1, threads)
        self._asking = threading.Lock()
        """Guards requests to the store, and the attributes up to the next lock."""
        self._index = Index(store, mask)
        self._limits = limits
        self._told_time: tuple[datetime, float] | None = None
        """The store's time when it last told it, and the steady clock's."""
        self._pages = 1
        self._list_next = True
        self._lock = threading.Lock()
        """Guards the attributes below."""
        self._state = FleetState(policy, since_s, mask, all_beats=self._free, limits=limits)
        self._fault: StoreOutage | None = None
        self._ignored: tuple[str, ...] = ()
        self._notes: tuple[str, ...] = ()
        self._seen = FleetView(store.url, None)

    def open(self, until: float = _FOREVER, on_progress: Callable[[int, int], None] | None = None) -> FleetView:
        """List the fleet and read all that rows need, until ``until``, a time of ``time.monotonic()``. ``on_progress``
        gets how many documents were read, of how many. Never raises for the store: the view says what is wrong."""
        with self._asking:
            self._see_all((), until, on_progress, opening=True)
            self._explain(min(LOOK_S, until - time.monotonic()), _FOREVER)
            # What rows can do without waits until something that they need does not.
            self._list_next = not self._has_requests(extras=False)
            return self._now_known()

    def round(self, wanted: Sequence[str] = ()) -> FleetView:
        """Do what one interval may do: list the fleet, or read at most :data:`READS_A_PAGE` changed documents for each
        page of the last listing. Those of ``wanted`` runs go first, for people see them right now. Never raises
        for the store."""
        if not self._asking.acquire(blocking=False):
            with self._asking:
                # Another thread did it meanwhile.
                return self._now_known()
        try:
            if self._free:
                self._see_all(wanted, _FOREVER)
                self._explain(ROUND_S, _FOREVER)
            elif self._list_next or not (self._has_requests(extras=True) or self._is_due() or self._explains()):
                self._list_next = not self._list(_FOREVER)
            else:
                self._list_next = True
                left = self._pages * READS_A_PAGE - self._learn(at_any_price=False)
                # Documents that change all the time leave room for logs.
                documents = left / 2 if self._explains() else left
                left -= self._read(documents, wanted, _FOREVER, extras=True)
                self._explain(ROUND_S, left)
            return self._now_known()
        finally:
            self._asking.release()

    @property
    def pages(self) -> int:
        """Number of pages of the last whole listing, at least 1."""
        return self._pages

    def view(self) -> FleetView:
        """The present view, or that of a moment ago while much is being taken in. Neither asks the store nor waits."""
        if self._lock.acquire(timeout=_MOMENT_S):
            try:
                self._seen = self._as_known()
            finally:
                self._lock.release()
        return self._seen

    def _now_known(self) -> FleetView:
        with self._lock:
            self._seen = self._as_known()
            return self._seen

    def _as_known(self) -> FleetView:
        state = self._state
        state.settle()
        remarks = (self._limits.note, _unexplained(state.unexplained), _outdated(*state.outdated))
        return FleetView(
            root=self._store.url,
            at=state.at,
            rows=state.table.rows(state.at),
            older=state.older,
            unread=state.unread,
            watching=state.watching,
            fault=self._fault,
            ignored=self._ignored,
            notes=(*self._notes, *filter(None, remarks)),
            views=self._index.views,
            silences=tuple(each for each in self._index.silences if state.at is None or not each.is_over(state.at)),
        )

    # ---- asking the store, under ``_asking`` -----------------------------------------------------------------------

    def _see_all(
        self,
        wanted: Sequence[str],
        until: float,
        on_progress: Callable[[int, int], None] | None = None,
        *,
        opening: bool = False,
    ) -> None:
        if not self._list(until, opening=True):
            return
        if opening:
            self._recall()
        self._learn(at_any_price=True)
        self._read(_FOREVER, wanted, until, extras=self._free, newer=False, on_progress=on_progress)
        if opening:
            # The rest follows as people look on.
            until = min(until, time.monotonic() + FRESHEN_S)
        self._read(_FOREVER, wanted, until, extras=self._free, on_progress=on_progress)

    def _recall(self) -> None:
        """Take on what passes have left of the runs."""
        self._index.read(self._state.at or self._now())
        self._index.read_gists()
        with self._lock:
            self._state.recall(self._index)
            # Rows hold on to what they need of it.
            self._index.gists = {}

    def _list(self, until: float, *, opening: bool = False) -> bool:
        """Take in a listing, as far as it came; whether there was one at all. ``opening``: more is read at once."""
        count, broken = 0, None
        try:
            at = self._now()
            if opening:
                self._index.read_ahead(at)
            listing = FleetListing(self._store, clock=self._now, until=until)
            try:
                for found in _some(listing):
                    with self._lock:
                        if not count:
                            self._state.begin(at)
                        self._state.see(found, self._index)
                    count += len(found)
            except StoreError as error:
                if not listing.pages:
                    raise
                broken = f"The listing broke off after {counted(count, 'run')}: {shown(str(error), self._mask)}."
        except StoreError as error:
            self._lose(error)
            return False
        if broken is None and not listing.done:
            broken = f"The listing could not be finished in time; it came to {counted(count, 'run')}."
        if broken is None:
            self._pages = max(1, listing.pages)
        if (broken is None and listing.own_fault is None) or listing.own:
            self._index.own = dict(listing.own)
        self._index.closed = listing.own_fault is not None
        if listing.own_known:
            self._limits.listed(listing.own_entry(_LIMITS), at)
        with self._lock:
            self._fault = None
            self._ignored = tuple(shown(name) for name in listing.ignored)
            if not count:
                self._state.begin(at)
            self._notes = tuple(self._listing_notes(broken, listing.own_fault))
            self._state.end(complete=broken is None)
            if not opening:
                self._state.judge(self._index)
        return True

    def _listing_notes(self, broken: str | None, own_fault: StoreError | None) -> Iterator[str]:
        """Remarks on the last listing, for people. The caller holds ``_lock``."""
        if broken:
            yield f"{broken} Runs after those are shown as last seen."
        if own_fault is not None:
            why = shown(str(own_fault), self._mask)
            yield f"Whether a watchdog runs is unknown, because its marks cannot be read: {why}."
        closed = self._state.closed
        if closed:
            named = "; ".join(f"{shown(name)}: {why}" for name, why in list(closed.items())[:_NAMED])
            more = f"; and {len(closed) - _NAMED} more" if len(closed) > _NAMED else ""
            yield f"Not taken for runs, because they may not be opened: {named}{more}."

    def _learn(self, *, at_any_price: bool) -> int:
        """Read what passes left, as far as that is worth it; how many requests it took."""
        at, spent = self._state.at, 0
        if at is None:
            return 0
        if self._index.mark_due(self._state.listings):
            self._index.read_mark(self._state.listings)
            spent += 1
        if self._index.silences_due():
            self._index.read_silences(at)
            spent += 1
        if self._index.views_due():
            self._index.read_views()
            spent += 1
        if self._limits.due(at):
            self._limits.read(at)
            spent += 1
        due = len(self._index.due())
        with self._lock:
            first = not self._index.lines and not self._index.finished
            worth = at_any_price or first or due * _MANY_RECORDS <= self._state.record_requests()
        if due and worth and (at_any_price or due + spent < self._pages * READS_A_PAGE):
            spent += self._index.read(at)
        with self._lock:
            self._state.judge(self._index)
        return spent

    def _is_due(self) -> bool:
        """Whether something of the fleet itself is worth a read."""
        at = self._state.at
        limits = at is not None and self._limits.due(at)
        return (
            limits
            or self._index.views_due()
            or self._index.mark_due(self._state.listings)
            or self._index.silences_due()
        )

    def _has_requests(self, *, extras: bool) -> bool:
        with self._lock:
            return bool(self._state.requests(1, (), extras=extras))

    def _read(
        self,
        most: float,
        wanted: Sequence[str],
        until: float,
        *,
        extras: bool,
        newer: bool = True,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """At most ``most`` documents, the most urgent first; how many were asked for. See
        :meth:`FleetState.requests`."""
        seen, asked = frozenset(wanted), 0
        for _ in range(_WAVES):
            with self._lock:
                requests = self._state.requests(most - asked, seen, extras=extras, newer=newer)
            if not requests:
                break
            fetching = Fetching(self._store, self._threads, self._take, until)
            fetching.fetch(requests, on_progress)
            if fetching.trouble is not None:
                self._lose(fetching.trouble)
                break
            asked += fetching.asked
        return asked

    def _explains(self) -> bool:
        """Whether the logs of an unrecorded run are to be read."""
        with self._lock:
            return self._log_judge is not None and bool(self._state.unread_runs())

    def _explain(self, seconds: float, requests: float) -> None:
        """Read the logs of unrecorded runs, the most urgent first, within these limits."""
        with self._lock:
            at, answers = self._state.at, self._fault is None
            runs = self._state.unread_runs() if self._log_judge is not None and answers else []
        if self._log_judge is not None and runs and at is not None:
            self._log_judge.look(runs, at, self._take_judged, seconds=seconds, requests=requests)

    def _take_judged(self, run: UnrecordedRun, found: JudgedRun | None) -> None:
        with self._lock:
            self._state.take_judged(run, found)

    def _take(self, request: DocumentRequest, answer: Answer) -> None:
        if isinstance(answer, StoreError):
            with self._lock:
                self._state.refuse(request, answer)
            return
        content, fault = understand(request, answer, self._mask)
        with self._lock:
            self._state.take(request, content, fault)

    def _lose(self, error: StoreError) -> None:
        """The store does not answer: everything stands as it was."""
        fault = StoreOutage(shown(str(error), self._mask), shown(error.advice, self._mask), self._reckoned())
        with self._lock:
            self._state.forgive()
            since = self._fault.since if self._fault is not None else fault.since
            self._fault = StoreOutage(fault.reason, fault.advice, since)

    def _now(self) -> datetime:
        """The store's time; where it cannot be asked, as this machine's steady clock carries it on. Raises
        :class:`StoreError` where it was never told."""
        try:
            now = self._store.clock()
        except StoreError:
            carried = self._reckoned()
            if carried is None:
                raise
            return carried
        self._told_time = now, time.monotonic()
        return now

    def _reckoned(self) -> datetime | None:
        if self._told_time is None:
            return None
        told, at = self._told_time
        return told + timedelta(seconds=time.monotonic() - at)


def fleet_watch(
    settings: Settings,
    *,
    since_s: float = 86400.0,
    at: Store | None = None,
    limits: FleetLimits | None = None,
    explains: bool = False,
) -> FleetWatch:
    """The view of the fleet that ``settings`` name. ``at`` is the store of an earlier call, or one that counts
    requests. It keeps ``limits`` up to date, by what its listings show. ``explains``: it also reads the logs of runs
    that no pass has recorded."""
    store = at or opening.store(settings)
    logs = log_settings(settings, dumps=False)
    log_judge = LogJudge(store, settings.redactor, logs, opening.state(settings)) if explains else None
    return FleetWatch(
        store, settings.policy, mask=settings.redactor, since_s=since_s, limits=limits, log_judge=log_judge
    )


def _unexplained(count: int) -> str | None:
    if not count:
        return None
    return (
        f"{counted(count, 'run')} not explained yet: no pass has recorded them, and this view reads the logs of a few "
        "runs at a time. lastbeat sweep --once records why each of them failed."
    )


def _outdated(count: int, age_s: float) -> str | None:
    if age_s < _OLD_S:
        return None
    return f"Steps and losses of {counted(count, 'run')} are up to {format_duration(age_s)} old; newer ones follow."


def _some(listing: FleetListing) -> Iterator[list[RunFiles]]:
    """What it lists, in parts; a part that was begun before it broke off, too."""
    part: list[RunFiles] = []
    try:
        for run in listing:
            part.append(run)
            if len(part) >= _AT_ONCE:
                yield part
                part = []
    except StoreError:
        if part:
            yield part
        raise
    if part:
        yield part
