"""Backfill: once something has happened to a run, its logs are read further back than the looks did."""

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from lastbeat.observe.log_source import LogSource
from lastbeat.observe.log_times import TOLERANCE, bytes_before
from lastbeat.observe.tailed_log import Readers, TailedLog

if TYPE_CHECKING:
    from lastbeat.causes.log_summary import LogSummary

_CHUNK_BYTES = 512 * 1024


class Share(NamedTuple):
    """How much of one file may be read."""

    source: LogSource
    file: TailedLog
    room_bytes: int


def shares(found: list[tuple[LogSource, TailedLog]], file_bytes: int, all_bytes: int) -> list[Share]:
    """Equal shares, where what small files leave over goes to the large ones. The largest come last."""
    shared: list[Share] = []
    by_size = sorted(found, key=lambda each: each[0].size_bytes)
    left = all_bytes
    for index, (source, file) in enumerate(by_size):
        room = min(source.size_bytes + 1, file_bytes, left // (len(by_size) - index))
        left -= room
        shared.append(Share(source, file, room))
    return shared


class NumberedSummary(NamedTuple):
    """What a file says, and how much too high its line numbers are (see :attr:`TailedLog.shift`)."""

    summary: "LogSummary"
    shift: int | None


def known(file: TailedLog, readers: Readers) -> NumberedSummary | None:
    """What the looks have found in ``file``; None when it has no text of this attempt."""
    summary = file.summary(readers, ended=True)
    return None if summary is None else NumberedSummary(summary, file.shift)


def read_back(share: Share, since: datetime | None, readers: Readers) -> NumberedSummary | None:
    """What the end of the file says, as far back as the share goes; None when none of it is this attempt's.

    1. If the looks have read all of it, nothing is read again.
    2. A file that was last written before the attempt is not its.
    3. Read the end, from the byte before, to see whether a line begins there. Drop what earlier attempts wrote.
    4. Take whichever has more lines: a shipped window may hold less of the log than the looks have seen go by.

    Raises :class:`StoreError`.
    """
    file, source = share.file, share.source
    before = known(file, readers)
    if before is not None and not file.late:
        return before
    if since is not None and source.modified < since - TOLERANCE:
        return None
    begin = max(0, source.size_bytes - share.room_bytes)
    if file.own_bytes is not None and file.cursor is not None:
        begin = max(begin, file.cursor.offset - file.own_bytes)
    blob = source.read(max(0, begin - 1), share.room_bytes + 1)
    if blob is None:
        return before
    text = blob.body
    old = bytes_before(text, since, blob.modified) if since is not None else 0
    if old == len(text):
        return None
    reader = readers.fresh(file.name, file.rank, 1 if begin else 1 + text.count(b"\n", 0, old))
    if begin:
        reader.skipped(begin)
        # The reader waits for the end of the line that it came into the middle of.
        old = max(0, old - 1)
    for start in range(old, len(text), _CHUNK_BYTES):
        reader.feed(text[start : start + _CHUNK_BYTES], blob.modified)
    reader.finish()
    again = NumberedSummary(reader.summary(), None if begin else 0)
    return before if before is not None and before.summary.lines > again.summary.lines else again
