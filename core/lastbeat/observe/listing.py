"""Finding a run's own files by listing, whatever else training keeps in the same folder."""

from lastbeat.model import runid
from lastbeat.stores.port import Entry, Store

# In the order of their UTF-8 bytes, which is the order in which a store lists keys.
_NAMES = (runid.COMPLETE, runid.ERROR, runid.RECORD, runid.LOG, runid.STACKS, runid.METADATA, runid.PROGRESS)
WANTED = tuple(sorted(_NAMES, key=str.encode))


def ask_files(store: Store, run_id: str) -> dict[str, Entry]:
    """The same from one read for each name: seven cost half of what a listing does."""
    found: dict[str, Entry] = {}
    for name in WANTED:
        key = f"{run_id}/{name}"
        blob = store.read(key, 1)
        if blob is not None:
            found[name] = Entry(key, blob.size_bytes, blob.modified, blob.version)
    return found


def run_files(store: Store, run_id: str) -> dict[str, Entry]:
    """The run's files by their name below its folder, from as few listing requests as possible.

    One page (1,000 keys) usually holds them all. Where it does not, because checkpoints lie between them,
    the listing goes on right before the next wanted name, so 100,000 checkpoint files cost one request more
    and nothing costs more than one for each wanted name.
    """
    folder = f"{run_id}/"
    found: dict[str, Entry] = {}
    start_after = ""
    while True:
        page = store.list(folder, start_after)
        for entry in page.entries:
            name = entry.key[len(folder) :]
            if name in WANTED:
                found[name] = entry
        if not page.more or not page.entries:
            return found
        last = page.entries[-1].key[len(folder) :].encode()
        ahead = next((name for name in WANTED if name.encode() > last), None)
        if ahead is None:
            return found
        # The longest proper prefix of a name sorts before it, with next to nothing in between.
        before = folder + ahead[:-1]
        start_after = max(before, page.entries[-1].key, key=str.encode)
