"""How far a log was read, and how that place is found again whatever was done to the file meanwhile."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lastbeat.stores.port import Blob

TAIL_BYTES = 256
REACH_BYTES = 4096
SEARCHABLE_BYTES = 64
"""With less a place is not known again elsewhere."""
_LEFT_OVER_BYTES = 32
_TRIES = 500


@dataclass(eq=False, repr=False)
class Cursor:
    """A place in a file: everything before ``offset`` was read, or was not wanted.

    The file's last bytes before it are known again by their digest (``reach`` of them), and are searched for by the
    last of them themselves (``tail``). So a file that grew is told from one that was written anew, and in a window that
    was moved along, as the SDK ships it, the place is found where it lies now.
    """

    offset: int
    version: str
    modified: datetime
    tail: bytes = b""
    reach: int = 0
    digest: str = ""
    head: str = ""
    """Digest of the file's first bytes, as far as they were read."""
    moves: bool = False
    """The file is a window that is moved along a log: the last time its place had moved."""
    behind: bool = False
    """There was more to read than was read."""

    @property
    def anchor(self) -> int:
        """Where a read has to begin that shows whether the file merely grew."""
        return self.offset - self.reach

    def fits(self, before: bytes) -> bool:
        """Whether ``before``, which the file has right before :attr:`offset` now, is what it had then."""
        return len(before) == self.reach and _digest(before) == self.digest

    def find(self, text: bytes) -> int | None:
        """How many bytes of ``text``, the file as it is now, were read before; None where that cannot be told.

        Of several places that look alike the last is taken: better a repeated line too few than any line twice.
        """
        if len(self.tail) < SEARCHABLE_BYTES:
            # Too little to be told from something that looks the same.
            return None
        maybe, end = None, len(text)
        for _ in range(_TRIES):
            at = text.rfind(self.tail, 0, end)
            if at < 0:
                break
            behind = at + len(self.tail)
            if behind < self.reach:
                # What came before it is not in the window any more.
                maybe = behind if maybe is None else maybe
            elif _digest(text[behind - self.reach : behind]) == self.digest:
                return behind
            end = behind - 1
        return maybe if maybe is not None else self._left_over(text)

    def begins_as_before(self, text: bytes) -> bool:
        """Whether ``text``, the file from its start, begins with what it began with."""
        return self.head != "" and _digest(text[: min(TAIL_BYTES, self.offset)]) == self.head

    def _left_over(self, text: bytes) -> int | None:
        """A window of whole lines may begin with the last few that were read."""
        at = self.tail.find(b"\n") + 1
        while 0 < at <= len(self.tail) - _LEFT_OVER_BYTES:
            if text.startswith(self.tail[at:]):
                return len(self.tail) - at
            at = self.tail.find(b"\n", at) + 1
        return None

    def move(self, blob: Blob, begin: int, read: int) -> None:
        """Everything up to and with the first ``read`` bytes of ``blob``, which was read from ``begin`` on, is done."""
        before = blob.body[max(0, read - REACH_BYTES) : read]
        self.offset = begin + read
        self.tail, self.reach, self.digest = before[-TAIL_BYTES:], len(before), _digest(before)
        self.version, self.modified = blob.version, blob.modified
        if begin == 0:
            self.head = _digest(blob.body[: min(TAIL_BYTES, read)])
        self.behind = begin + len(blob.body) < blob.size_bytes

    def state(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "offset": self.offset,
            "version": self.version,
            "modified": self.modified.isoformat(),
            "tail": self.tail.decode("latin-1"),
            "reach": self.reach,
            "digest": self.digest,
            "head": self.head,
            "moves": self.moves,
            "behind": self.behind,
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> "Cursor":
        """Raises ``ValueError``, ``TypeError`` or ``KeyError`` for what :meth:`state` did not give."""
        offset, reach = int(state["offset"]), int(state["reach"])
        if not 0 <= reach <= min(offset, REACH_BYTES):
            raise ValueError("a place that cannot be")
        return cls(
            offset,
            str(state["version"]),
            datetime.fromisoformat(state["modified"]),
            str(state["tail"]).encode("latin-1")[-TAIL_BYTES:],
            reach,
            str(state["digest"]),
            str(state["head"]),
            bool(state["moves"]),
            bool(state["behind"]),
        )


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=12).hexdigest()
