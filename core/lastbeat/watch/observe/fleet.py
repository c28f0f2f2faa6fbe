"""Lists every run of a fleet with its files."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from lastbeat.model import runid
from lastbeat.model.fleet import WHOLE, Shard
from lastbeat.model.observation import RankFiles
from lastbeat.model.runid import InvalidRunIdError, check_run_id
from lastbeat.stores.port import Entry, Page, Store, StoreError
from lastbeat.watch.observe.listing import BEHIND, Folder

IGNORED_LIMIT = 10
_OWN = runid.SWEEP_MARK.split("/", maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class RunFiles:
    """A run's files by their name below its folder, as of ``at`` or later, by the store's clock."""

    run_id: str
    files: dict[str, Entry]
    at: datetime
    fault: StoreError | None = None
    """Why the run cannot be judged; then nothing follows from ``files``."""
    ranks: RankFiles | None = None
    """The files of the run's ranks."""


@dataclass
class FleetListing:
    """Lists a shard once, starting after the folder ``after``; iterate over it.

    Other files in a run's folder cost as little as in ``listing.run_files``: where a page ends
    among them, the listing continues right before the next wanted name, or after the folder. Raises
    :class:`StoreError` midway if a page cannot be listed.
    """

    store: Store
    shard: Shard = WHOLE
    after: str = ""
    clock: Callable[[], datetime] | None = None
    rank_pages: int = 0
    """Pages that each run's ``ranks/`` may take beyond those that show its other files."""
    pages: int = 0
    own: dict[str, Entry] = field(default_factory=dict)
    """The fleet's own files, by their name below ``_watchdog/``."""
    own_fault: StoreError | None = None
    """Why that folder could not be listed."""
    own_known: bool = False
    """The listing has shown all of that folder, before the first run of the same page."""
    _own_listed: dict[str, Entry] = field(default_factory=dict, init=False, repr=False)
    ignored: list[str] = field(default_factory=list)
    """The first folders whose names are no valid run ids."""
    done: bool = False
    until: float = float("inf")
    """Deadline by ``time.monotonic()`` for asking for another page."""
    most_pages: float = float("inf")
    """Pages to request; more only until one folder was listed to its end."""
    reached: str = ""
    """The last folder listed to its end, a run's or not: another listing can continue there."""

    def __iter__(self) -> Iterator[RunFiles]:
        now = self.clock or self.store.clock
        begin = max(self.after, self.shard.after, key=_order)
        start_after = f"{begin}/{BEHIND}" if begin else ""
        folder, run, at = "", Folder(self.rank_pages), now()
        begun = {start_after}
        while True:
            asked_at = now()
            enough = self.reached and self.pages >= self.most_pages
            if enough or (self.pages and time.monotonic() >= self.until):
                return
            page = self.store.list("", start_after)
            self.pages += 1
            self._look_ahead(page, start_after)
            for entry in page.entries:
                name, slash, rest = entry.key.partition("/")
                if not slash:
                    continue
                if name != folder:
                    self.reached = folder or self.reached
                    yield from self._run(folder, run, at)
                    # A store that lists folder by folder puts ``a`` before ``a-1``. The end is past both orders.
                    end = self.shard.until
                    if end and name > end and _order(name) > _order(end):
                        self.done = True
                        return
                    run = _OwnFolder(self.own) if name == _OWN else Folder(self.rank_pages)
                    folder, at = name, asked_at
                run.see(rest, entry)
            if not page.more or not page.entries:
                yield from self._run(folder, run, at)
                self.done = not page.more
                return
            last = page.entries[-1].key
            onward = _go_on(last, run)
            if onward in begun:
                onward = last
            if onward in begun:
                raise StoreError(f"{self.store.url}: its listing goes round in circles at {last[:200]!r}")
            begun.add(onward)
            start_after = onward

    def own_entry(self, name: str) -> Entry | None:
        """The listing's entry of the file ``name`` below ``_watchdog/``, with its fault if unreadable; or None."""
        return self._own_listed.get(f"{_OWN}/{name}")

    def _look_ahead(self, page: Page, start_after: str) -> None:
        """Read ahead: the files that watchers rely on lie among the runs, and apply to the runs before them, too."""
        own = {entry.key: entry for entry in page.entries if entry.key.startswith(f"{_OWN}/")}
        self._own_listed.update(own)
        begun = _order(start_after.partition("/")[0]) < _order(_OWN) or bool(self._own_listed)
        over = not page.more or (bool(page.entries) and page.entries[-1].key > f"{_OWN}/{BEHIND}")
        closed = any(entry.key == f"{_OWN}/" for entry in own.values())
        self.own_known = self.own_known or (begun and over and not closed)

    def _run(self, name: str, folder: Folder, at: datetime) -> Iterator[RunFiles]:
        """The run in that folder, if it is one."""
        if not name:
            return
        if name == _OWN:
            self.own_fault = folder.fault
            return
        try:
            check_run_id(name)
        except InvalidRunIdError:
            if len(self.ignored) < IGNORED_LIMIT and name not in self.ignored:
                self.ignored.append(name)
            return
        if (files := folder.files) or folder.fault is not None:
            yield RunFiles(name, files, at, folder.fault, folder.ranks)


class _OwnFolder(Folder):
    """The fleet's own folder. Every file in it is wanted."""

    def __init__(self, own: dict[str, Entry]) -> None:
        super().__init__()
        self._own = own

    def see(self, name: str, entry: Entry) -> None:
        if entry.fault is None:
            self._own[name] = entry
        elif not name:
            self.fault = entry.fault

    def onward(self, last: str) -> str | None:
        return last


def _order(run_id: str) -> bytes:
    """Runs are listed in the order of their folders: ``a-b/`` before ``a/``."""
    return f"{run_id}/".encode() if run_id else b""


def _go_on(last: str, run: Folder) -> str:
    """Where the listing continues after ``last``, in the folder of ``run``, with the fewest pages of unwanted files."""
    folder, slash, rest = last.partition("/")
    if not slash:
        return last
    if not rest:
        return f"{folder}/{BEHIND}"
    name = None if folder.startswith("_") and folder != _OWN else run.onward(rest)
    return max(f"{folder}/{BEHIND if name is None else name}", last, key=str.encode)
