"""One log file, as it is known from look to look."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from lastbeat.observe.log_cursor import Cursor
from lastbeat.observe.log_files import rank_of

if TYPE_CHECKING:
    from lastbeat.causes.mentions import Account
    from lastbeat.causes.reading import LogReader
    from lastbeat.observe.log_source import LogSource

HALF_KEPT_BYTES = 4096


class Readers(NamedTuple):
    """Where what reads text comes from: nothing of it is loaded before there is any."""

    fresh: "Callable[[str, int | None, int], LogReader]"
    """Of the file's name, its rank and the number of the first line that it will be given."""
    restore: "Callable[[Mapping[str, Any]], LogReader]"


@dataclass(eq=False, repr=False)
class FileLog:
    """How far a file was read, and what that said.

    Text counts up to the last line that has ended. What comes after that is read again with what follows it, for it may
    be drawn anew, as a progress bar is; when the file stands still for a look, it counts as it is.
    """

    name: str
    rank: int | None
    cursor: Cursor | None = None
    reader: "LogReader | None" = None
    kept: Mapping[str, Any] | None = None
    """The reader as a state, until it is needed."""
    line: int = 1
    """The number of the line that is to be read next, while there is no reader."""
    shift: int | None = 0
    """By how much the reader's line numbers are above those of the file as it is now; None: nobody knows."""
    late: bool = False
    """The reader has not read all that the attempt wrote into this file."""
    own: int | None = None
    """How many bytes before the cursor belong to this attempt; None: as many as there are."""
    sorted_out: bool = False
    """It is known where this attempt's text begins in what was read."""
    half: bytes = b""
    """The line that has not ended yet, as far as it is kept."""
    half_is_old: bool = False
    """That line was an earlier attempt's."""
    still: bool = False
    """The file has not changed since the look before."""
    written_at: datetime | None = None
    """When it was last stored with new text of this attempt."""
    step: int | None = None
    progress_at: datetime | None = None
    turn: int = 0
    """The look at which it was read last."""
    anew: bool = False
    """At the last look it was another file than before."""
    notes: list[str] = field(default_factory=list)
    """Of the last look."""

    @property
    def line_now(self) -> int:
        """The number of the line that is to be read next."""
        return self.line if self.reader is None else int(self.reader.state()["splitter"]["number"])

    @property
    def has_text(self) -> bool:
        """Whether there is text of this attempt."""
        return self.written_at is not None

    def is_read(self, source: "LogSource") -> bool:
        """Whether there is nothing in it that was not read."""
        return self.cursor is not None and source.version == self.cursor.version and not self.cursor.behind

    @property
    def mark(self) -> str:
        """Names the text as it was read; the same text gets the same again, whoever read it."""
        cursor = self.cursor
        return "" if cursor is None else f"{self.name}\0{cursor.offset}\0{cursor.digest}\0{self.half!r}"

    def begin_attempt(self) -> None:
        """What was read so far belongs to an earlier attempt."""
        self.line = self.line_now
        self.reader, self.kept, self.late = None, None, False
        self.own, self.half_is_old, self.sorted_out = 0, bool(self.half), False
        self.written_at = self.step = self.progress_at = None

    def forget(self) -> None:
        """What its text said is lost; reading goes on at the same place."""
        self.line, self.shift, self.late = self.line_now, None, True
        self.reader = self.kept = None

    def begin_anew(self) -> None:
        """The file is another one now: nothing of what it was counts, and all that it is does."""
        self.begin_attempt()
        self.line, self.shift, self.own, self.half, self.half_is_old = 1, 0, None, b"", False
        self.anew = True

    def read_by(self, readers: Readers) -> "LogReader":
        """What has read this attempt's text, and goes on reading."""
        if self.reader is None:
            known = self.kept
            self.reader = readers.restore(known) if known else readers.fresh(self.name, self.rank, self.line)
            self.kept = None
        return self.reader

    def account(self, readers: Readers, *, ended: bool = False) -> "Account | None":
        """What this attempt's text says; None when there is none. ``ended``: the last line counts as it is."""
        if not self.has_text:
            return None
        reader = self.read_by(readers)
        if not self.half or self.half_is_old or not (ended or self.still):
            return reader.account()
        # What comes next may belong to the same line, so another one reads it.
        reader = readers.restore(reader.state())
        reader.feed(self.half, self.written_at)
        reader.finish()
        return reader.account()

    def state(self) -> dict[str, Any]:
        """As JSON, with what its reader knows."""
        known = self.reader.state() if self.reader is not None else self.kept
        return {
            "name": self.name,
            "cursor": self.cursor.state() if self.cursor is not None else None,
            "reader": known,
            "line": self.line_now,
            "shift": self.shift,
            "late": self.late,
            "own": self.own,
            "sorted_out": self.sorted_out,
            "half": self.half.decode("latin-1"),
            "half_is_old": self.half_is_old,
            "still": self.still,
            "written_at": _text(self.written_at),
            "step": self.step,
            "progress_at": _text(self.progress_at),
            "turn": self.turn,
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> "FileLog":
        """Raises ``ValueError``, ``TypeError`` or ``KeyError`` for what :meth:`state` did not give."""
        name, own, step = str(state["name"]), state["own"], state["step"]
        return cls(
            name,
            rank_of(name),
            Cursor.restore(state["cursor"]) if state["cursor"] is not None else None,
            kept=dict(state["reader"]) if state["reader"] is not None else None,
            line=int(state["line"]),
            shift=int(state["shift"]) if state["shift"] is not None else None,
            late=bool(state["late"]),
            own=int(own) if own is not None else None,
            sorted_out=bool(state["sorted_out"]),
            half=str(state["half"]).encode("latin-1")[:HALF_KEPT_BYTES],
            half_is_old=bool(state["half_is_old"]),
            still=bool(state["still"]),
            written_at=_time(state["written_at"]),
            step=int(step) if step is not None else None,
            progress_at=_time(state["progress_at"]),
            turn=int(state["turn"]),
        )


def _text(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat()


def _time(text: object) -> datetime | None:
    return None if text is None else datetime.fromisoformat(str(text))
