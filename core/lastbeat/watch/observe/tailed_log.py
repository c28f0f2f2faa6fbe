"""One log file as it is tailed: how far it was read, and what its text says."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

from lastbeat.model.persisted import Form
from lastbeat.watch.observe.log_cursor import Cursor
from lastbeat.watch.observe.log_files import rank_of

if TYPE_CHECKING:
    from lastbeat.explain.causes.log_summary import LogSummary
    from lastbeat.watch.observe.log_source import LogSource

PARTIAL_KEPT_BYTES: Final = 4096


class TextReader(Protocol):
    """Reads the text of one log; :class:`lastbeat.explain.causes.log_reader.LogReader` extracts its meaning."""

    @property
    def next_line(self) -> int:
        """Number of the line being read."""
        ...

    @property
    def step(self) -> int | None:
        """The last step in the text, if this reader looks for steps."""
        ...

    def feed(self, data: bytes, at: datetime | None = None) -> None:
        """Read more text, which the store first had at ``at``."""
        ...

    def skipped(self, bytes_count: int) -> None:
        """Note that text was left out here; 0 means an unknown amount."""
        ...

    def finish(self) -> None:
        """End the text: an unfinished last line counts."""
        ...

    def summary(self) -> "LogSummary":
        """The summary of the text so far."""
        ...

    def document(self) -> Any:
        """Everything that a later process needs to continue, as JSON data."""
        ...


class Readers(NamedTuple):
    """Creates readers; their code is loaded only when there is text."""

    fresh: Callable[[str, int | None, int], TextReader]
    """Creates a reader from the file's name, its rank and the number of the first line that it will be fed."""
    restore: Callable[[Any], TextReader]
    """Recreates a reader from its :meth:`TextReader.document`."""


@dataclass(eq=False, repr=False)
class TailedLog:
    """The state of one log between looks. Fields that ``__init__`` takes are kept between processes.

    Text counts up to the last finished line. The rest is read again with the text that follows it, since it may be
    redrawn, like a progress bar. If the file stands still for a look, the rest counts as it is.
    """

    FORM: ClassVar = Form.SPARSE

    name: str
    cursor: Cursor | None = None
    reader_document: Any = None
    """The reader's document, until the reader is needed."""
    line: int = 1
    """Number of the next line, used while there is no reader."""
    shift: int | None = 0
    """By how much the reader's line numbers exceed those of the current file; None if unknown."""
    late: bool = False
    """The reader missed some of what the attempt wrote to this file."""
    own_bytes: int | None = None
    """How many bytes before the cursor belong to this attempt; None means all."""
    start_found: bool = False
    """The beginning of this attempt's text is known."""
    partial: bytes = b""
    """The beginning of the unfinished last line."""
    partial_is_old: bool = False
    """An earlier attempt wrote that line."""
    still: bool = False
    """The file has not changed since the previous look."""
    written_at: datetime | None = None
    """When it was last stored with new text of this attempt."""
    step: int | None = None
    progress_at: datetime | None = None
    turn: int = 0
    """Number of the look that last read it."""
    reader: TextReader | None = field(default=None, init=False)
    replaced: bool = field(default=False, init=False)
    """The last look found a different file under this name."""
    notes: list[str] = field(default_factory=list, init=False)
    """Remarks of the last look, for people."""

    def __post_init__(self) -> None:
        self.partial = self.partial[:PARTIAL_KEPT_BYTES]

    @property
    def rank(self) -> int | None:
        return rank_of(self.name)

    @property
    def next_line(self) -> int:
        return self.line if self.reader is None else self.reader.next_line

    @property
    def has_text(self) -> bool:
        """Whether there is text of this attempt."""
        return self.written_at is not None

    def is_read(self, source: "LogSource") -> bool:
        """Whether all of it is read."""
        return self.cursor is not None and source.version == self.cursor.version and not self.cursor.behind

    @property
    def mark(self) -> str:
        """Identifies the text that was read: the same text gives the same mark in any process."""
        cursor = self.cursor
        return "" if cursor is None else f"{self.name}\0{cursor.offset}\0{cursor.digest}\0{self.partial!r}"

    def begin_attempt(self) -> None:
        """Count all text so far as that of an earlier attempt."""
        self.line = self.next_line
        self.reader, self.reader_document, self.late = None, None, False
        self.own_bytes, self.partial_is_old, self.start_found = 0, bool(self.partial), False
        self.written_at = self.step = self.progress_at = None

    def forget(self) -> None:
        """Drop the content of its text. Reading continues at the same place."""
        self.line, self.shift, self.late = self.next_line, None, True
        self.reader = self.reader_document = None

    def begin_anew(self) -> None:
        """Start over with a different file under this name: the old text no longer counts, and all of the new does."""
        self.begin_attempt()
        self.line, self.shift, self.own_bytes, self.partial, self.partial_is_old = 1, 0, None, b"", False
        self.replaced = True

    def read_by(self, readers: Readers) -> TextReader:
        """The reader of this attempt's text; it is created if needed."""
        if self.reader is None:
            known = self.reader_document
            self.reader = readers.fresh(self.name, self.rank, self.line) if known is None else readers.restore(known)
            self.reader_document = None
        return self.reader

    def summary(self, readers: Readers, *, ended: bool = False) -> "LogSummary | None":
        """The summary of this attempt's text, or None if there is none. ``ended``: an unfinished last line counts."""
        if not self.has_text:
            return None
        reader = self.read_by(readers)
        if not self.partial or self.partial_is_old or not (ended or self.still):
            return reader.summary()
        # The line may continue, so only a copy of the reader reads it.
        reader = readers.restore(reader.document())
        reader.feed(self.partial, self.written_at)
        reader.finish()
        return reader.summary()

    def kept(self) -> "TailedLog":
        """A copy for a later process."""
        document = self.reader_document if self.reader is None else self.reader.document()
        return replace(self, reader_document=document, line=self.next_line)
