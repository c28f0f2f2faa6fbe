"""Finding a run's own files by listing, whatever else training keeps in the same folder."""

from lastbeat.model import runid
from lastbeat.observe.log_files import FOLDER, LISTED, choose, is_log, of_logs
from lastbeat.stores.port import Entry, Store, StoreError

# In the order of their UTF-8 bytes, which is the order in which a store lists keys.
_NAMES = (runid.COMPLETE, runid.ERROR, runid.RECORD, runid.LOG, runid.STACKS, runid.METADATA, runid.PROGRESS)
WANTED = tuple(sorted(_NAMES, key=str.encode))
LOG_PAGES = 1
"""So many pages may be asked for on top of those that hold a run's own files, for what else lies in ``logs/``."""
BEHIND = "\U0010ffff"
"""Sorts after whatever lies in a folder."""
_CLOSED = 10
"""So many logs that cannot be looked at are remembered."""


class Folder:
    """One run's own files, picked out of all that is listed of its folder.

    Wanted are :data:`WANTED` and every log in ``logs/``. Logs are looked for in the page that the listing comes to
    ``logs/`` with and in :data:`LOG_PAGES` more, which together hold more of them than are ever read; then the listing
    goes on with the next wanted name. Of very many logs those are kept that :func:`choose` chooses.

    What could not be looked at is the ``fault`` of the run where a decision needs it. A log, or the folder of them, is
    among the files with its own: the run is watched without it.
    """

    def __init__(self) -> None:
        self.fault: StoreError | None = None
        """Why nobody knows what this run is."""
        self._found: dict[str, Entry] = {}
        self._logs: dict[str, Entry] = {}
        self._closed: dict[str, Entry] = {}
        self._pages_left = LOG_PAGES

    def see(self, name: str, entry: Entry) -> None:
        """``name``, below the folder, was listed; it is empty for the folder itself."""
        if entry.fault is not None:
            self._miss(name, entry, entry.fault)
        elif is_log(name):
            self._logs[name] = entry
        elif name in WANTED:
            self._found[name] = entry

    def _miss(self, name: str, entry: Entry, fault: StoreError) -> None:
        if of_logs(name) or name == runid.STACKS:
            if len(self._closed) < _CLOSED:
                self._closed[name] = entry
        elif not name or name in WANTED:
            self.fault = self.fault or fault

    @property
    def files(self) -> dict[str, Entry]:
        """What was found, by name."""
        return {**self._found, **choose(self._logs, LISTED), **self._closed}

    def onward(self, last: str) -> str | None:
        """The name right after which the next page begins, when ``last`` was the last of one; None: it holds nothing
        more that is wanted. Asked once a page."""
        if last.startswith(FOLDER):
            if self._pages_left > 0:
                self._pages_left -= 1
                below, slash, _ = last.removeprefix(FOLDER).partition("/")
                # What lies deeper in is none of ours.
                return f"{FOLDER}{below}/{BEHIND}" if slash else last
        elif last.encode() < FOLDER.encode():
            ahead = next((name for name in WANTED if name.encode() > last.encode()), FOLDER)
            return FOLDER if ahead.startswith(FOLDER) else ahead[:-1]
        ahead_or_none = next((name for name in WANTED if name.encode() > last.encode()), None)
        # The longest proper prefix of a name sorts before it, with next to nothing in between.
        return None if ahead_or_none is None else ahead_or_none[:-1]


def ask_files(store: Store, run_id: str) -> dict[str, Entry]:
    """The same from one read for each name: seven cost half of what a listing does. Of the logs it knows the main one
    alone, so that a log file which is missing here need not be gone."""
    found: dict[str, Entry] = {}
    for name in WANTED:
        key = f"{run_id}/{name}"
        blob = store.read(key, 1)
        if blob is not None:
            found[name] = Entry(key, blob.size_bytes, blob.modified, blob.version)
    return found


def run_files(store: Store, run_id: str, folder: Folder | None = None) -> dict[str, Entry]:
    """The run's files by their name below its folder, from as few listing requests as possible; ``folder`` picks them
    out, where more is wanted than :class:`Folder` knows.

    One page (1,000 keys) usually holds them all. Where it does not, because checkpoints lie between them,
    the listing goes on right before the next wanted name, so 100,000 checkpoint files cost one request more
    and nothing costs more than one for each wanted name.

    Raises :class:`StoreError`, also where something could not be looked at that a decision needs.
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
            # A store that lists folder by folder, in which the same page would come for ever.
            start_after = last
        if start_after in begun:
            return folder.files
        begun.add(start_after)
