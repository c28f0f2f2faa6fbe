"""Reading a run's logs further back, once something has happened to it."""

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from lastbeat.observe.file_log import FileLog, Readers
from lastbeat.observe.log_source import LogSource
from lastbeat.observe.log_times import TOLERANCE, earlier

if TYPE_CHECKING:
    from lastbeat.causes.mentions import Account

_CHUNK_BYTES = 512 * 1024


class Share(NamedTuple):
    """How much of one file may be read."""

    source: LogSource
    file: FileLog
    room: int


def shares(found: list[tuple[LogSource, FileLog]], file_bytes: int, all_bytes: int) -> list[Share]:
    """Everybody gets the same, and what small files do not need goes to the large ones; the largest come last."""
    shared: list[Share] = []
    by_size = sorted(found, key=lambda each: each[0].size_bytes)
    left = all_bytes
    for index, (source, file) in enumerate(by_size):
        room = min(source.size_bytes + 1, file_bytes, left // (len(by_size) - index))
        left -= room
        shared.append(Share(source, file, room))
    return shared


class Told(NamedTuple):
    """What a file says, and by how much its line numbers are too high (see :attr:`FileLog.shift`)."""

    account: "Account"
    shift: int | None


def known(file: FileLog, readers: Readers) -> Told | None:
    """What the looks have found in ``file``; None when there is no text of this attempt."""
    account = file.account(readers, ended=True)
    return None if account is None else Told(account, file.shift)


def read_back(share: Share, since: datetime | None, readers: Readers) -> Told | None:
    """What the file's end says, as far back as the share goes; None when none of it is this attempt's.

    Where the looks have read everything, nothing is read again. Raises :class:`StoreError`.
    """
    file, source = share.file, share.source
    before = known(file, readers)
    if before is not None and not file.late:
        return before
    if since is not None and source.modified < since - TOLERANCE:
        return None
    begin = max(0, source.size_bytes - share.room)
    if file.own is not None and file.cursor is not None:
        begin = max(begin, file.cursor.offset - file.own)
    blob = source.read(max(0, begin - 1), share.room + 1)
    if blob is None:
        return before
    text = blob.body
    old = earlier(text, since, blob.modified) if since is not None else 0
    if old == len(text):
        return None
    reader = readers.fresh(file.name, file.rank, 1 if begin else 1 + text.count(b"\n", 0, old))
    if begin:
        reader.skipped(begin)
        # It waits for the end of the line that it came into the middle of.
        old = max(0, old - 1)
    for start in range(old, len(text), _CHUNK_BYTES):
        reader.feed(text[start : start + _CHUNK_BYTES], blob.modified)
    reader.finish()
    again = Told(reader.account(), None if begin else 0)
    # A window holds less of the log than the looks have read of it, perhaps.
    return before if before is not None and before.account.lines > again.account.lines else again
