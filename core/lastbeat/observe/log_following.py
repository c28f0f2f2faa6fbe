"""Reading what is new in one log file: in as few requests as will do, and never anything twice."""

from dataclasses import dataclass
from datetime import datetime

from lastbeat.model.times import format_time
from lastbeat.observe.file_log import HALF_KEPT_BYTES, FileLog, Readers
from lastbeat.observe.log_cursor import REACH_BYTES, SEARCHABLE_BYTES, Cursor
from lastbeat.observe.log_source import LogSource
from lastbeat.observe.log_times import TOLERANCE, earlier
from lastbeat.stores.port import Blob, StoreError, UnreachableError

FIRST_BYTES = 256 * 1024
"""So much of the end of a file is read at the first look."""
HALF_BYTES = 64 * 1024
"""A line that is longer counts before it has ended."""
_WINDOW_BYTES = 128 * 1024
_CHUNK_BYTES = 512 * 1024


def follow(file: FileLog, source: LogSource, room: int, since: datetime | None, readers: Readers) -> int:
    """Read what is new in ``file``, at most about ``room`` bytes, and say how many bytes that took. What the attempt
    that began at ``since`` did not write counts for nothing.

    Raises :class:`StoreError`; then everything is as it was before.
    """
    file.notes, file.anew = [], False
    cursor = file.cursor
    if cursor is None:
        return _First(file, source, room, since, readers).look()
    return _Next(file, source, room, since, readers, cursor).look()


@dataclass
class _Looking:
    file: FileLog
    source: LogSource
    room: int
    since: datetime | None
    readers: Readers

    def take(self, cursor: Cursor, blob: Blob, begin: int, read: int) -> None:
        """What ``blob``, which was read from ``begin`` on, has behind its first ``read`` bytes is new."""
        file, body = self.file, blob.body
        end = max(body.rfind(b"\n", read), body.rfind(b"\r", read)) + 1
        if end == 0:
            end = len(body) if len(body) - read >= HALF_BYTES else read
        half = body[end : end + HALF_KEPT_BYTES]
        old = len(file.half) if file.half_is_old and body.startswith(file.half, read) else 0
        file.half_is_old = bool(old) and end == read
        if end > read:
            self.feed(body, read + old, end, blob.modified)
        elif half != file.half and not file.half_is_old:
            file.written_at = blob.modified
        if file.own is not None:
            file.own += end - read
        file.half, file.still = half, False
        cursor.move(blob, begin, end)
        file.cursor = cursor

    def feed(self, text: bytes, begin: int, end: int, at: datetime) -> None:
        """Give a part of ``text``, which was stored at ``at``, to the file's reader."""
        file = self.file
        if self.since is not None and not file.sorted_out:
            old = earlier(text[begin:end], self.since, at)
            if old:
                file.line, file.own = file.line + text.count(b"\n", begin, begin + old), -old
            if begin + old == end:
                file.half_is_old = True
                return
            # One that came in the middle of a line waits for its end.
            begin += old if file.reader is None or not old else old - 1
        file.sorted_out = True
        reader = file.read_by(self.readers)
        for start in range(begin, end, _CHUNK_BYTES):
            reader.feed(text[start : min(start + _CHUNK_BYTES, end)], at)
        file.written_at = at
        step = reader.account().progress.step
        if step is not None and step != file.step:
            file.step, file.progress_at = step, at

    def skip(self, count: int) -> None:
        """So many bytes are left out here; 0: nobody knows how many."""
        self.file.read_by(self.readers).skipped(count)
        self.file.late, self.file.shift = True, None

    def say(self, what: str) -> None:
        self.file.notes.append(f"{self.source.name}: {what}")

    def read(self, start: int, limit_bytes: int) -> Blob:
        blob = self.source.read(start, limit_bytes)
        if blob is None:
            raise UnreachableError(f"{self.source.name} went away while it was looked at")
        return blob


class _First(_Looking):
    """A file that was not known."""

    def look(self) -> int:
        size = self.source.size_bytes
        if self.since is not None and self.source.modified < self.since - TOLERANCE:
            # Not this attempt's. Where it ends now is where this attempt's text will begin.
            begin = max(0, size - REACH_BYTES)
            blob = self.read(begin, REACH_BYTES)
            cursor = Cursor(0, "", blob.modified)
            cursor.move(blob, begin, len(blob.body))
            self.file.cursor, self.file.own = cursor, 0
            return max(1, len(blob.body))
        # From the byte before, to see whether a line begins there.
        begin = max(0, size - min(FIRST_BYTES, self.room) - 1)
        blob = self.read(begin, self.room + 1)
        if begin:
            self.skip(begin)
        self.take(Cursor(begin, "", blob.modified), blob, begin, 0)
        return max(1, len(blob.body))


@dataclass
class _Next(_Looking):
    """A file that has changed, or of which something was left to read."""

    cursor: Cursor

    def look(self) -> int:
        cursor, size = self.cursor, self.source.size_bytes
        unread = size - cursor.offset
        if unread < 0 or (cursor.moves and size <= self.room):
            return self._search()
        if unread > self.room:
            return self._jump()
        if cursor.reach < SEARCHABLE_BYTES and self.source.renamed(cursor.version) is not None:
            # So little was read that any file looks as if it had merely grown.
            begin = max(0, size - self.room)
            blob = self.read(begin, self.room)
            return max(1, len(blob.body)) + self._begin_again(blob, begin)
        blob = self.read(cursor.anchor, cursor.reach + self.room)
        if cursor.fits(blob.body[: cursor.reach]):
            cursor.moves = False
            self.take(cursor, blob, cursor.anchor, cursor.reach)
            return max(1, len(blob.body))
        if cursor.anchor == 0 and len(blob.body) >= blob.size_bytes:
            return len(blob.body) + self._go_on(blob, 0)
        return len(blob.body) + self._search()

    def _jump(self) -> int:
        """More is new than may be read now: the end of it matters most."""
        cursor = self.cursor
        if not cursor.fits(self.read(cursor.anchor, cursor.reach).body):
            return cursor.reach + self._search()
        begin = self.source.size_bytes - self.room - 1
        blob = self.read(begin, self.room + 1)
        gap = begin - cursor.offset
        self.say(f"{gap:,} bytes were skipped: more was new than is read at one look.")
        self.skip(gap)
        self.file.own = None if self.file.own is None else self.file.own + gap
        self.take(cursor, blob, begin, 0)
        return cursor.reach + len(blob.body)

    def _search(self) -> int:
        """The file did not merely grow: find the place in what is there now."""
        begin = max(0, self.source.size_bytes - self.room)
        blob = self.read(begin, self.room)
        return max(1, len(blob.body)) + self._go_on(blob, begin)

    def _go_on(self, blob: Blob, begin: int) -> int:
        """Behind what was read last, wherever in ``blob`` that lies now; returns what was read besides, in bytes."""
        cursor = self.cursor
        place: int | None = cursor.offset - begin
        if not cursor.fits(blob.body[max(0, cursor.anchor - begin) : max(0, cursor.offset - begin)]):
            place = cursor.find(blob.body)
        if place is None:
            return self._begin_again(blob, begin)
        cursor.moves = begin + place != cursor.offset
        if begin == 0 and cursor.moves:
            self.file.shift = self.file.line_now - 1 - blob.body.count(b"\n", 0, place)
        self.take(cursor, blob, begin, place)
        return 0

    def _begin_again(self, blob: Blob, begin: int) -> int:
        file, moves = self.file, False
        rotated = self._rest_under_another_name()
        if rotated is None and not self._is_window(blob, begin):
            self.say(f"it was written anew (shorter, or something else) at {format_time(blob.modified)}.")
            file.begin_anew()
        elif rotated is None:
            self.say("some of it went by unread between two looks.")
            moves = True
            self.skip(0)
            if begin == 0:
                # Windows begin with whole lines, and what was skipped ended with one.
                self.feed(b"\n", 0, 1, blob.modified)
        file.half, file.half_is_old, file.own = b"", False, None
        if begin:
            self.skip(begin)
        else:
            file.shift = file.line_now - 1
        self.take(Cursor(begin, "", blob.modified, moves=moves), blob, begin, 0)
        return rotated or 0

    def _is_window(self, blob: Blob, begin: int) -> bool:
        """Whether a file of which nothing is known again may be a window that moved on by more than its length: one as
        long as before, or nearly."""
        cursor = self.cursor
        if begin == 0 and cursor.begins_as_before(blob.body):
            return False
        return (cursor.moves or cursor.offset >= _WINDOW_BYTES) and blob.size_bytes * 4 >= cursor.offset * 3

    def _goes_on_in(self, former: LogSource) -> Blob | None:
        """The text of ``former`` from the cursor's anchor on, if that is there."""
        cursor = self.cursor
        try:
            blob = former.read(cursor.anchor, cursor.reach + self.room)
        except StoreError:
            # Somebody else's file, perhaps.
            return None
        return blob if blob is not None and cursor.fits(blob.body[: cursor.reach]) else None

    def _rest_under_another_name(self) -> int | None:
        """Where the file was rotated: read what was written to it after it was read last, and say how much; None: it
        was not, as far as can be known."""
        cursor = self.cursor
        former = self.source.renamed(cursor.version)
        candidates = [former] if former is not None else []
        if not candidates and cursor.reach >= SEARCHABLE_BYTES:
            # Or copied and truncated.
            candidates = list(self.source.beside())
        blobs = map(self._goes_on_in, candidates)
        blob = next((each for each in blobs if each is not None), None)
        if blob is None:
            return None
        text, begin = blob.body, cursor.reach
        if self.file.half_is_old and text.startswith(self.file.half, begin):
            begin += len(self.file.half)
        if begin < len(text):
            text = text if text.endswith(b"\n") else text + b"\n"
            self.feed(text, begin, len(text), blob.modified)
        if cursor.anchor + len(blob.body) < blob.size_bytes:
            self.skip(blob.size_bytes - cursor.anchor - len(blob.body))
        return len(blob.body)
