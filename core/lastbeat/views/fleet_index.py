"""What passes over a fleet leave for views: their memory of its runs, and their mark."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.fleet.index import FleetIndex, IndexedRun
from lastbeat.fleet.index_store import WHOLE_NAME, index_names, read_index
from lastbeat.fleet.mark import PassMark, read_mark
from lastbeat.model import runid
from lastbeat.model.named_view import VIEWS, NamedView
from lastbeat.model.silence import SILENCES, Silence
from lastbeat.model.view import STRIP_S, WatchState
from lastbeat.stores.port import Entry, Store, StoreError
from lastbeat.views.known_run import KnownDocument
from lastbeat.views.left_gists import gists_names, read_gists
from lastbeat.views.named_views import read_views
from lastbeat.views.safe import shown
from lastbeat.views.standing import Standing, of_memory
from lastbeat.watch.record.silences import Silenced, Silences

log = logging.getLogger(__name__)

MARK_EVERY: Final = 10
"""Number of listings after which a mark is read again. The listing itself shows its time."""
_VIEWS: Final = VIEWS.partition("/")[2]
_SILENCES: Final = SILENCES.partition("/")[2]


@dataclass
class Index:
    """``lines``: run → what it is, and the version of the record that says so. ``finished``: run that ended long ago →
    unix seconds that nothing of it is younger than."""

    store: Store
    mask: Callable[[str], str] = str
    lines: dict[str, tuple[Standing, str | None]] = field(default_factory=dict)
    finished: Mapping[str, int] = field(default_factory=dict)
    own: Mapping[str, Entry] = field(default_factory=dict)
    """The fleet's own files, as last listed."""
    closed: bool = False
    """The last listing could not look at them."""
    gists: dict[str, dict[str, KnownDocument]] = field(default_factory=dict)
    """What passes have left of runs' heartbeats, as read when the view was opened."""
    readings: int = 0
    """How often something was read that ``lines`` and ``finished`` are made of."""
    silences: Silenced = ()
    """Those that are not over, as last read."""
    _silences_read: str | None = None
    """At which version."""
    views: tuple[NamedView, ...] = ()
    """The team's, as last read."""
    _views_read: str | None = None
    """At which version."""
    _read: dict[str, tuple[str, FleetIndex]] = field(default_factory=dict)
    _mark: PassMark | None = None
    _mark_read: int | None = None

    def due(self) -> list[str]:
        """The memories that were written since they were read."""
        return [name for name in index_names(self.own) if self._read.get(name, ("",))[0] != self.own[name].version]

    def mark_due(self, listing: int) -> bool:
        """Whether the mark is worth a read."""
        if _mark_name() not in self.own:
            return False
        return self._mark_read is None or listing - self._mark_read >= MARK_EVERY

    def read(self, at: datetime) -> int:
        """Read the memories that are due; how many requests that took. Nothing rests on them, so that one that cannot
        be had is passed over."""
        due = self.due()
        for name in due:
            if not self._read_one(name, self.own[name].version):
                break
        if due:
            self._read = {name: known for name, known in self._read.items() if name in self.own}
            self._understand(at)
        return len(due)

    def read_ahead(self, at: datetime) -> None:
        """Before the first listing, which need not hold on to a run that this knows to be over long since."""
        if not self._read and self._read_one(WHOLE_NAME, None):
            self._understand(at)

    def read_gists(self) -> None:
        """Read what passes have left of records and heartbeats. What cannot be had is passed over."""
        for name in gists_names(self.own):
            try:
                found = read_gists(self.store, name)
            except StoreError as error:
                log.info("what passes left of the runs cannot be read, so each run is: %s", error)
                continue
            self.gists |= found.beats
            for run_id, recorded in found.records.items():
                known = self.lines.get(run_id)
                if known is None or known[1] == recorded[1]:
                    self.lines[run_id] = recorded

    def _read_one(self, name: str, version: str | None) -> bool:
        """Whether the store answered."""
        memory = None
        try:
            memory, read = read_index(self.store, name)
            version = version or read
        except StoreError as error:
            log.info("the fleet's memory cannot be read, so that records are: %s", error)
            if error.retryable:
                return False
        if version is not None:
            self._read[name] = version, memory or FleetIndex()
        return True

    def read_mark(self, listing: int) -> None:
        """Find out how often passes are made."""
        try:
            self._mark = read_mark(self.store)
        except StoreError as error:
            log.info("the mark of the last pass cannot be read: %s", error)
            if error.retryable:
                return
        self._mark_read = listing

    def silences_due(self) -> bool:
        """Whether silences were made or lifted since they were read."""
        entry = self.own.get(_SILENCES)
        if entry is None and not self.closed:
            self.silences, self._silences_read = (), None
        return entry is not None and entry.version != self._silences_read

    def read_silences(self, at: datetime) -> None:
        """Find out which runs are silenced. What cannot be had is passed over: people are shown all the same."""
        try:
            held = Silences(self.store).all(at)
        except StoreError as error:
            log.info("the silences cannot be read: %s", error)
            if error.retryable:
                return
            held = ()
        self._silences_read = self.own[_SILENCES].version
        self.silences = tuple(shown_silence(each, self.mask) for each in held)

    def views_due(self) -> bool:
        """Whether views were saved since they were read."""
        entry = self.own.get(_VIEWS)
        if entry is None and not self.closed:
            self.views, self._views_read = (), None
        return entry is not None and entry.version != self._views_read

    def read_views(self) -> None:
        """Find out which views there are. People can do without them."""
        try:
            self.views = read_views(self.store)
        except StoreError as error:
            log.info("the team's views cannot be read: %s", error)
            if error.retryable:
                return
            self.views = ()
        self._views_read = self.own[_VIEWS].version

    def watching(self, at: datetime) -> WatchState:
        """Whether passes are being made as of ``at``."""
        entry = self.own.get(_mark_name())
        if self.closed:
            return WatchState(None if entry is None else entry.modified, known=False)
        if entry is None:
            return WatchState()
        # Of a mark that cannot be read it is known that it is there, and not when the next one is due.
        return WatchState(entry.modified) if self._mark is None else watched(self._mark, entry.modified, at)

    def _understand(self, at: datetime) -> None:
        """Join the parts. If several know a run, the part that saw it last counts."""
        self.readings += 1
        strip_from = at - timedelta(seconds=STRIP_S)
        best: dict[str, IndexedRun] = {}
        finished: dict[str, int] = {}
        for memory in self._memories():
            for run_id, run in memory.runs.items():
                known = best.get(run_id)
                if known is None or known.seen_at < run.seen_at:
                    best[run_id] = run
            for run_id, ended in memory.finished.items():
                finished[run_id] = max(ended, finished.get(run_id, 0))
        self.finished = finished
        self.lines = {
            run_id: (of_memory(run, strip_from, self.mask), (run.files.get(runid.RECORD) or (0.0, None))[1])
            for run_id, run in best.items()
        }

    def _memories(self) -> Iterator[FleetIndex]:
        return (memory for _, memory in self._read.values())


def watched(mark: PassMark, left_at: datetime, at: datetime) -> WatchState:
    """What a mark that was left at ``left_at`` tells as of ``at``."""
    return WatchState(left_at, mark.interval_s, overdue=at - left_at > timedelta(seconds=mark.late_s))


def shown_silence(silence: Silence, mask: Callable[[str], str]) -> Silence:
    """``silence`` as people are shown it."""
    return replace(silence, why=shown(silence.why, mask), by=shown(silence.by, mask))


def _mark_name() -> str:
    return runid.SWEEP_MARK.partition("/")[2]
