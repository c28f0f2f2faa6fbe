"""A position in a log, and how to find it again after the file has changed."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from lastbeat.model.persisted import Form
from lastbeat.stores.port import Blob

TAIL_BYTES = 256
REACH_BYTES = 4096
SEARCHABLE_BYTES = 64
"""A tail of fewer bytes could be anywhere, so it is not searched for."""
_LEFT_OVER_BYTES = 32
_TRIES = 500


@dataclass(eq=False, repr=False)
class Cursor:
    """Everything before ``offset`` was read or is not wanted.

    The digest of the ``reach`` bytes before it distinguishes a file that grew from one that was rewritten. The last of
    those bytes are kept as ``tail``, to search for the position in a file whose text has moved, such as the window that
    the SDK ships.
    """

    FORM: ClassVar = Form.SPARSE

    offset: int
    version: str
    modified: datetime
    tail: bytes = b""
    reach: int = 0
    digest: str = ""
    head: str = ""
    """Digest of the file's first bytes, if they were read."""
    moves: bool = False
    """The file is a window that moves along a log: its position had shifted at the last read."""
    behind: bool = False
    """Part of the file was left unread."""

    def __post_init__(self) -> None:
        if not 0 <= self.reach <= min(self.offset, REACH_BYTES):
            raise ValueError(f"a reach of {self.reach} before offset {self.offset} cannot be")
        self.tail = self.tail[-TAIL_BYTES:]

    @property
    def anchor(self) -> int:
        """Where a read must begin to show whether the file merely grew."""
        return self.offset - self.reach

    def fits(self, before: bytes) -> bool:
        """Whether ``before``, the file's text right before :attr:`offset` now, is unchanged."""
        return len(before) == self.reach and _digest(before) == self.digest

    def find(self, text: bytes) -> int | None:
        """How many bytes of ``text``, the file's current content, were read before, or None if unknown.

        1. A short tail proves nothing: give up.
        2. Search for the tail from the end. If the whole reach precedes it, the digest decides.
        3. If less precedes it, the window has moved past the rest: remember the last such place.
        4. If the tail is not found, the text may still begin with its last whole lines.

        On ties take the last place: skipping a repeat beats counting a line twice.
        """
        if len(self.tail) < SEARCHABLE_BYTES:
            return None
        unproven, end = None, len(text)
        for _ in range(_TRIES):
            at = text.rfind(self.tail, 0, end)
            if at < 0:
                break
            behind = at + len(self.tail)
            if behind < self.reach:
                unproven = behind if unproven is None else unproven
            elif _digest(text[behind - self.reach : behind]) == self.digest:
                return behind
            end = behind - 1
        return unproven if unproven is not None else self._left_over(text)

    def begins_as_before(self, text: bytes) -> bool:
        """Whether ``text``, the file from its start, begins as it did."""
        return self.head != "" and _digest(text[: min(TAIL_BYTES, self.offset)]) == self.head

    def _left_over(self, text: bytes) -> int | None:
        """How many bytes of ``text`` were read: a window of whole lines may begin with the last few lines; or None."""
        at = self.tail.find(b"\n") + 1
        while 0 < at <= len(self.tail) - _LEFT_OVER_BYTES:
            if text.startswith(self.tail[at:]):
                return len(self.tail) - at
            at = self.tail.find(b"\n", at) + 1
        return None

    def move(self, blob: Blob, begin: int, read: int) -> None:
        """Move past the first ``read`` bytes of ``blob``, which was read from offset ``begin``."""
        before = blob.body[max(0, read - REACH_BYTES) : read]
        self.offset = begin + read
        self.tail, self.reach, self.digest = before[-TAIL_BYTES:], len(before), _digest(before)
        self.version, self.modified = blob.version, blob.modified
        if begin == 0:
            self.head = _digest(blob.body[: min(TAIL_BYTES, read)])
        self.behind = begin + len(blob.body) < blob.size_bytes


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=12).hexdigest()
