"""Follows one log file: reads what is new, with as few requests as possible, and nothing twice."""

from dataclasses import dataclass
from datetime import datetime

from lastbeat.model.times import format_time
from lastbeat.stores.port import Blob, StoreError, UnreachableError
from lastbeat.watch.observe.log_cursor import REACH_BYTES, SEARCHABLE_BYTES, Cursor
from lastbeat.watch.observe.log_source import LogSource
from lastbeat.watch.observe.log_times import TOLERANCE, bytes_before
from lastbeat.watch.observe.tailed_log import PARTIAL_KEPT_BYTES, Readers, TailedLog

FIRST_BYTES = 256 * 1024
"""Bytes of a file's end that the first look reads."""
LONG_LINE_BYTES = 64 * 1024
"""A line of more bytes than this counts even before it ends."""
_WINDOW_BYTES = 128 * 1024
_CHUNK_BYTES = 512 * 1024


def follow(file: TailedLog, source: LogSource, room_bytes: int, since: datetime | None, readers: Readers) -> int:
    """Read what is new in ``file``, about ``room_bytes`` at most. Returns how many bytes were read. Text from before
    the attempt's start ``since`` does not count.

    1. An unknown file: read its end.
    2. More new text than ``room_bytes``: check that the file merely grew, note what is skipped, read its end.
    3. Otherwise read from before the cursor. If the text there is unchanged, the file grew, and the rest is new.
    4. If it changed, search the file for the cursor's text, see :meth:`Cursor.find`.
    5. If that is not found, the file was rotated (read the rest under its new name, then this one from its start), is a
       window that moved on too far (continue after a gap), or is a different file (start over).

    Raises :class:`StoreError`; then nothing has changed.
    """
    file.notes, file.replaced = [], False
    cursor = file.cursor
    if cursor is None:
        return _FirstRead(file, source, room_bytes, since, readers).run()
    return _NextRead(file, source, room_bytes, since, readers, cursor).run()


@dataclass
class _Read:
    file: TailedLog
    source: LogSource
    room_bytes: int
    since: datetime | None
    readers: Readers

    def take(self, cursor: Cursor, blob: Blob, begin: int, read: int) -> None:
        """Take what is new: all of ``blob``, which starts at offset ``begin``, after its first ``read`` bytes.

        1. Feed the lines that have ended, or all of a line that grows too long.
        2. Keep the beginning of the last line. It counts as new text even if it is all there is.
        3. Move the cursor past what was fed.
        """
        file, body = self.file, blob.body
        end = max(body.rfind(b"\n", read), body.rfind(b"\r", read)) + 1
        if end == 0:
            end = len(body) if len(body) - read >= LONG_LINE_BYTES else read
        partial = body[end : end + PARTIAL_KEPT_BYTES]
        old = len(file.partial) if file.partial_is_old and body.startswith(file.partial, read) else 0
        file.partial_is_old = bool(old) and end == read
        if end > read:
            self.feed(body, read + old, end, blob.modified)
        elif partial != file.partial and not file.partial_is_old:
            file.written_at = blob.modified
        if file.own_bytes is not None:
            file.own_bytes += end - read
        file.partial, file.still = partial, False
        cursor.move(blob, begin, end)
        file.cursor = cursor

    def feed(self, text: bytes, begin: int, end: int, at: datetime) -> None:
        """Feed a part of ``text``, which was stored at ``at``, to the file's reader."""
        file = self.file
        if self.since is not None and not file.start_found:
            old = bytes_before(text[begin:end], self.since, at)
            if old:
                file.line, file.own_bytes = file.line + text.count(b"\n", begin, begin + old), -old
            if begin + old == end:
                file.partial_is_old = True
                return
            # A reader that starts in the middle of a line waits for its end.
            begin += old if file.reader is None or not old else old - 1
        file.start_found = True
        reader = file.read_by(self.readers)
        for start in range(begin, end, _CHUNK_BYTES):
            reader.feed(text[start : min(start + _CHUNK_BYTES, end)], at)
        file.written_at = at
        step = reader.step
        if step is not None and step != file.step:
            file.step, file.progress_at = step, at

    def skip(self, count: int) -> None:
        """Note that ``count`` bytes are left out here; 0 means an unknown number."""
        self.file.read_by(self.readers).skipped(count)
        self.file.late, self.file.shift = True, None

    def say(self, what: str) -> None:
        self.file.notes.append(f"{self.source.name}: {what}")

    def read(self, start: int, limit_bytes: int) -> Blob:
        blob = self.source.read(start, limit_bytes)
        if blob is None:
            raise UnreachableError(f"{self.source.name} went away while it was looked at")
        return blob


class _FirstRead(_Read):
    """The first read of an unknown file."""

    def run(self) -> int:
        size = self.source.size_bytes
        if self.since is not None and self.source.modified < self.since - TOLERANCE:
            # An earlier attempt wrote it. This attempt's text will begin where it ends now.
            begin = max(0, size - REACH_BYTES)
            blob = self.read(begin, REACH_BYTES)
            cursor = Cursor(0, "", blob.modified)
            cursor.move(blob, begin, len(blob.body))
            self.file.cursor, self.file.own_bytes = cursor, 0
            return max(1, len(blob.body))
        # Start one byte early, to see whether a line begins there.
        begin = max(0, size - min(FIRST_BYTES, self.room_bytes) - 1)
        blob = self.read(begin, self.room_bytes + 1)
        if begin:
            self.skip(begin)
        self.take(Cursor(begin, "", blob.modified), blob, begin, 0)
        return max(1, len(blob.body))


@dataclass
class _NextRead(_Read):
    """The next read of a file that has changed, or was not read to its end."""

    cursor: Cursor

    def run(self) -> int:
        cursor, size = self.cursor, self.source.size_bytes
        unread = size - cursor.offset
        if unread < 0 or (cursor.moves and size <= self.room_bytes):
            return self._search()
        if unread > self.room_bytes:
            return self._jump()
        if cursor.reach < SEARCHABLE_BYTES and self.source.renamed(cursor.version) is not None:
            # Too little was read to recognize the file again, and it was rotated.
            begin = max(0, size - self.room_bytes)
            blob = self.read(begin, self.room_bytes)
            return max(1, len(blob.body)) + self._begin_again(blob, begin)
        blob = self.read(cursor.anchor, cursor.reach + self.room_bytes)
        if cursor.fits(blob.body[: cursor.reach]):
            cursor.moves = False
            self.take(cursor, blob, cursor.anchor, cursor.reach)
            return max(1, len(blob.body))
        if cursor.anchor == 0 and len(blob.body) >= blob.size_bytes:
            return len(blob.body) + self._go_on(blob, 0)
        return len(blob.body) + self._search()

    def _jump(self) -> int:
        """Skip to the end, which matters most: there is more new text than may be read."""
        cursor = self.cursor
        if not cursor.fits(self.read(cursor.anchor, cursor.reach).body):
            return cursor.reach + self._search()
        begin = self.source.size_bytes - self.room_bytes - 1
        blob = self.read(begin, self.room_bytes + 1)
        gap = begin - cursor.offset
        self.say(f"{gap:,} bytes were skipped: more was new than is read at one look.")
        self.skip(gap)
        self.file.own_bytes = None if self.file.own_bytes is None else self.file.own_bytes + gap
        self.take(cursor, blob, begin, 0)
        return cursor.reach + len(blob.body)

    def _search(self) -> int:
        """The file did not merely grow: find the cursor's place in it."""
        begin = max(0, self.source.size_bytes - self.room_bytes)
        blob = self.read(begin, self.room_bytes)
        return max(1, len(blob.body)) + self._go_on(blob, begin)

    def _go_on(self, blob: Blob, begin: int) -> int:
        """Continue after the text that was read last, wherever that is in ``blob`` now. Returns how many more bytes
        were read."""
        cursor = self.cursor
        place: int | None = cursor.offset - begin
        if not cursor.fits(blob.body[max(0, cursor.anchor - begin) : max(0, cursor.offset - begin)]):
            place = cursor.find(blob.body)
        if place is None:
            return self._begin_again(blob, begin)
        cursor.moves = begin + place != cursor.offset
        if begin == 0 and cursor.moves:
            self.file.shift = self.file.next_line - 1 - blob.body.count(b"\n", 0, place)
        self.take(cursor, blob, begin, place)
        return 0

    def _begin_again(self, blob: Blob, begin: int) -> int:
        file, moves = self.file, False
        rotated = self._read_rotated()
        if rotated is None and not self._is_window(blob, begin):
            self.say(f"it was rewritten (shorter, or something else) at {format_time(blob.modified)}.")
            file.begin_anew()
        elif rotated is None:
            self.say("some of it went by unread between two looks.")
            moves = True
            self.skip(0)
            if begin == 0:
                # Windows begin with whole lines, and what was skipped ended with one.
                self.feed(b"\n", 0, 1, blob.modified)
        file.partial, file.partial_is_old, file.own_bytes = b"", False, None
        if begin:
            self.skip(begin)
        else:
            file.shift = file.next_line - 1
        self.take(Cursor(begin, "", blob.modified, moves=moves), blob, begin, 0)
        return rotated or 0

    def _is_window(self, blob: Blob, begin: int) -> bool:
        """Whether a file without known text may be a window that moved on by more than its length: it is about as
        long as before."""
        cursor = self.cursor
        if begin == 0 and cursor.begins_as_before(blob.body):
            return False
        return (cursor.moves or cursor.offset >= _WINDOW_BYTES) and blob.size_bytes * 4 >= cursor.offset * 3

    def _read_rotated(self) -> int | None:
        """If the file was rotated, read what was written since under its new name. Returns how many bytes were read, or
        None if no rotation was found."""
        cursor = self.cursor
        former = self.source.renamed(cursor.version)
        candidates = [former] if former is not None else []
        if not candidates and cursor.reach >= SEARCHABLE_BYTES:
            # It may have been copied, then truncated.
            candidates = list(self.source.beside())
        blobs = map(self._continued_in, candidates)
        blob = next((each for each in blobs if each is not None), None)
        if blob is None:
            return None
        text, begin = blob.body, cursor.reach
        if self.file.partial_is_old and text.startswith(self.file.partial, begin):
            begin += len(self.file.partial)
        if begin < len(text):
            text = text if text.endswith(b"\n") else text + b"\n"
            self.feed(text, begin, len(text), blob.modified)
        if cursor.anchor + len(blob.body) < blob.size_bytes:
            self.skip(blob.size_bytes - cursor.anchor - len(blob.body))
        return len(blob.body)

    def _continued_in(self, former: LogSource) -> Blob | None:
        """The text of ``former`` from the cursor's anchor on, if it is the file that was read."""
        cursor = self.cursor
        try:
            blob = former.read(cursor.anchor, cursor.reach + self.room_bytes)
        except StoreError:
            # The file may belong to another user.
            return None
        return blob if blob is not None and cursor.fits(blob.body[: cursor.reach]) else None
