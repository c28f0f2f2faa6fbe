"""Backfill: reading a run's logs further back than the looks did, to explain an event."""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from lastbeat.stores.port import StoreError
from lastbeat.watch.observe.log_source import LogSource
from lastbeat.watch.observe.log_times import TOLERANCE, bytes_before
from lastbeat.watch.observe.tailed_log import Readers, TailedLog

if TYPE_CHECKING:
    from lastbeat.explain.causes.log_summary import LogSummary
    from lastbeat.watch.observe.logs import Isolation, LogReadLimits

_CHUNK_BYTES = 512 * 1024


class NumberedSummary(NamedTuple):
    """The summary of a file, and the excess of its line numbers (see :attr:`TailedLog.shift`)."""

    summary: "LogSummary"
    shift: int | None


def backfill(
    found: "Sequence[tuple[LogSource, TailedLog]]",
    gone: "Sequence[TailedLog]",
    since: datetime | None,
    limits: "LogReadLimits",
    isolation: "Isolation",
) -> list[NumberedSummary]:
    """The summaries of this attempt's text in the files ``found``, and in the files ``gone`` that were read before.

    1. Share out the bytes that may be read over all files.
    2. Read each file's end, as far back as its share goes.
    3. If that takes too long, or a file cannot be read, use what the looks found in it.
    """
    began = time.monotonic()

    def summary_of(file: TailedLog) -> NumberedSummary | None:
        return isolation.ask(file, lambda: _summary_of(file, isolation.readers))

    def read(share: Share) -> NumberedSummary | None:
        if time.monotonic() - began >= limits.deep_s:
            return summary_of(share.file)
        try:
            return isolation.ask(share.file, lambda: _read_back(share, since, isolation.readers))
        except StoreError:
            return summary_of(share.file)

    summaries = [*map(read, _shares(found, limits.deep_file_bytes, limits.deep_bytes)), *map(summary_of, gone)]
    return [each for each in summaries if each is not None]


class Share(NamedTuple):
    """How much of one file may be read."""

    source: LogSource
    file: TailedLog
    room_bytes: int


def _shares(found: Sequence[tuple[LogSource, TailedLog]], file_bytes: int, all_bytes: int) -> list[Share]:
    """Equal shares, smallest file first. What small files leave goes to the large ones."""
    shared: list[Share] = []
    by_size = sorted(found, key=lambda each: each[0].size_bytes)
    left = all_bytes
    for index, (source, file) in enumerate(by_size):
        room = min(source.size_bytes + 1, file_bytes, left // (len(by_size) - index))
        left -= room
        shared.append(Share(source, file, room))
    return shared


def _summary_of(file: TailedLog, readers: Readers) -> NumberedSummary | None:
    """What the looks found in ``file``, or None if it has no text of this attempt."""
    summary = file.summary(readers, ended=True)
    return None if summary is None else NumberedSummary(summary, file.shift)


def _read_back(share: Share, since: datetime | None, readers: Readers) -> NumberedSummary | None:
    """The summary of the file's end, as far back as the share goes, or None if none of it belongs to this attempt.

    1. If the looks have read all of the file, read nothing again.
    2. A file last written before the attempt does not belong to it.
    3. Read the end, starting one byte early to see whether a line begins there. Drop what earlier attempts wrote.
    4. Return whichever has more lines: a shipped window may hold less of the log than the looks have read.

    Raises :class:`StoreError`.
    """
    file, source = share.file, share.source
    before = _summary_of(file, readers)
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
        # The reader starts in the middle of a line and waits for its end.
        old = max(0, old - 1)
    for start in range(old, len(text), _CHUNK_BYTES):
        reader.feed(text[start : start + _CHUNK_BYTES], blob.modified)
    reader.finish()
    again = NumberedSummary(reader.summary(), None if begin else 0)
    return before if before is not None and before.summary.lines > again.summary.lines else again
