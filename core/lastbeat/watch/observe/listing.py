"""Lists a run's own files among whatever else training keeps in the same folder."""

import re
from typing import TYPE_CHECKING, Final

from lastbeat.model import runid
from lastbeat.model.observation import RankFiles
from lastbeat.stores.port import DeniedError, Entry, Store, StoreError
from lastbeat.watch.observe.log_files import FLIGHT, FOLDER, LISTED, choose, is_log, of_logs

if TYPE_CHECKING:
    from datetime import datetime

# Ordered by their UTF-8 bytes, as stores list keys.
_NAMES = (
    runid.ALERTS, runid.COMPLETE, runid.ERROR, runid.PREEMPTED, runid.STOP, runid.RECORD, runid.LOG,
    runid.STACKS, runid.METADATA, runid.PROGRESS,
)  # fmt: skip
_SIDE = (runid.STOP, runid.ALERTS)
"""Files that a run is judged without if they cannot be read: any user may have left them there."""
WANTED = tuple(sorted(_NAMES, key=str.encode))
LOG_PAGES = 1
"""Pages that may be listed for other log files, on top of those with a run's own files."""
RANK_PAGES: Final = 20
"""Pages that may be listed within ``ranks/``: as many as 20,000 files, so 16,384 ranks and the marks of some."""
RANKS: Final = "ranks/"
_RANK: Final = re.compile(r"ranks/(0|[1-9]\d{0,6})\.(json|late|health)")
BEHIND = "\U0010ffff"
"""Sorts after everything in a folder."""
_CLOSED = 10
"""At most this many unreadable logs are remembered."""


class Folder:
    """Picks one run's own files out of a listing of its folder.

    Wanted are :data:`WANTED` and the logs in ``logs/``. Logs are taken from the page in which the listing reaches
    ``logs/`` and from :data:`LOG_PAGES` more, which together hold more logs than are ever read. Then the listing
    continues with the next wanted name. Among very many logs, :func:`choose` selects. For ``ranks/``, which comes last,
    only times are kept; ``rank_pages`` may be listed for them alone.

    A file that a decision needs and that could not be read becomes the ``fault`` of the run. An unreadable log, or log
    folder, is kept with its own fault: the run is watched without it.
    """

    def __init__(self, rank_pages: int = 0) -> None:
        self.fault: StoreError | None = None
        """Why the run cannot be judged."""
        self._found: dict[str, Entry] = {}
        self._logs: dict[str, Entry] = {}
        self._closed: dict[str, Entry] = {}
        self._pages_left = LOG_PAGES
        self._beats: dict[int, datetime] = {}
        self._late: dict[int, datetime] = {}
        self._health: dict[int, datetime] = {}
        self._rank_pages_left = rank_pages
        self.dumps_at: datetime | None = None
        """When the newest file in ``flight/`` was stored, of those in pages that are listed anyway."""
        self.ranks_cut = False
        """Whether there may be more files in ``ranks/`` than were listed."""

    def see(self, name: str, entry: Entry) -> None:
        """Take the listed ``name``, below the folder. An empty name is the folder itself."""
        if entry.fault is not None:
            self._miss(name, entry, entry.fault)
        elif name.startswith(RANKS):
            found = _RANK.fullmatch(name)
            if found is not None:
                kept = {"json": self._beats, "late": self._late, "health": self._health}[found[2]]
                kept[int(found[1])] = entry.modified
        elif is_log(name):
            self._logs[name] = entry
        elif name in WANTED:
            self._found[name] = entry
        elif name.startswith(FLIGHT):
            self.dumps_at = max(entry.modified, self.dumps_at or entry.modified)

    def _miss(self, name: str, entry: Entry, fault: StoreError) -> None:
        if of_logs(name) or name == runid.STACKS:
            if len(self._closed) < _CLOSED:
                self._closed[name] = entry
        elif not name or (name in WANTED and name not in _SIDE):
            self.fault = self.fault or fault

    @property
    def files(self) -> dict[str, Entry]:
        """The files found so far, by name."""
        return {**self._found, **choose(self._logs, LISTED), **self._closed}

    @property
    def ranks(self) -> RankFiles:
        """The files of the run's ranks found so far."""
        return RankFiles(self._beats, self._late, self._health)

    def onward(self, last: str) -> str | None:
        """The name after which the next page begins, if ``last`` was the last of this page, or None if none is wanted.
        Called once per page."""
        if last.startswith(FOLDER):
            if self._pages_left > 0:
                self._pages_left -= 1
                below, slash, _ = last.removeprefix(FOLDER).partition("/")
                # Deeper folders hold no logs of the run.
                return f"{FOLDER}{below}/{BEHIND}" if slash else last
        elif last.encode() < FOLDER.encode():
            ahead = next((name for name in WANTED if name.encode() > last.encode()), FOLDER)
            return FOLDER if ahead.startswith(FOLDER) else ahead[:-1]
        ahead_or_none = next((name for name in WANTED if name.encode() > last.encode()), None)
        # The longest proper prefix of a name sorts before it, with almost nothing in between.
        return self._among_ranks(last) if ahead_or_none is None else ahead_or_none[:-1]

    def _among_ranks(self, last: str) -> str | None:
        before = last.encode() < RANKS.encode()
        if not before and not last.startswith(RANKS):
            return None
        self.ranks_cut = self._rank_pages_left <= 0
        self._rank_pages_left -= 1
        if self.ranks_cut:
            return None
        # After all that begins with ``ranks`` and is no folder of that name.
        return f"{RANKS[:-1]}.{BEHIND}" if before else last


def rank_of(name: str) -> int | None:
    """The rank whose heartbeat a file is, by its name below the run's folder, or None if it is no such file."""
    found = _RANK.fullmatch(name)
    return int(found[1]) if found is not None and found[2] == "json" else None


def ask_files(store: Store, run_id: str) -> dict[str, Entry]:
    """The run's files by one read per name: ten reads cost less than a listing. Of the logs it covers only the main
    one, so a log file missing here may still exist. A request to end counts only with an error or a preemption."""
    found: dict[str, Entry] = {}
    for name in WANTED:
        if name == runid.STOP and not {runid.ERROR, runid.PREEMPTED} & found.keys():
            continue
        key = f"{run_id}/{name}"
        try:
            blob = store.read(key, 1)
        except DeniedError:
            if name not in _SIDE:
                raise
            continue
        if blob is not None:
            found[name] = Entry(key, blob.size_bytes, blob.modified, blob.version)
    return found


def run_files(store: Store, run_id: str, folder: Folder | None = None) -> dict[str, Entry]:
    """The run's files by their name below its folder, with as few listing requests as possible. ``folder`` selects
    them; pass another one for more than :class:`Folder` selects.

    One page (1,000 keys) usually holds them all. If checkpoints lie between them, the listing continues right before
    the next wanted name: 100,000 checkpoint files cost one more request, and there is never more than one per name.

    Raises :class:`StoreError`, also if a file that a decision needs could not be read.
    """
    prefix = f"{run_id}/"
    folder = Folder() if folder is None else folder
    start_after = ""
    begun = {start_after}
    while True:
        page = store.list(prefix, start_after)
        for entry in page.entries:
            folder.see(entry.key[len(prefix) :], entry)
        if folder.fault is not None:
            raise folder.fault
        if not page.more or not page.entries:
            return folder.files
        last = page.entries[-1].key
        onward = folder.onward(last[len(prefix) :])
        if onward is None:
            return folder.files
        start_after = max(prefix + onward, last, key=str.encode)
        if start_after in begun:
            # A store that lists folder by folder would return the same page forever.
            start_after = last
        if start_after in begun:
            return folder.files
        begun.add(start_after)
