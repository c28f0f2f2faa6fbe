"""Reads a growing log into a :class:`LogSummary`.

The summary does not depend on how the text is cut, or on which process continues. In a healthy log hardly any line is
parsed: only those that may match a signal, one in :data:`_EACH`, and the last few lines of steps before either. While a
traceback is open, or a report that further steps may prove harmless, every line is parsed.
"""

import json
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final

from lastbeat.explain.causes import error_file
from lastbeat.explain.causes.contexts import level_of
from lastbeat.explain.causes.log_parser import LogParser, ParserState, StepLine, Vocabulary
from lastbeat.explain.causes.log_summary import LogSummary
from lastbeat.explain.causes.tracebacks import HEADER
from lastbeat.explain.scanning.matching import matcher_of
from lastbeat.explain.scanning.prefilter import Prefilter
from lastbeat.explain.scanning.splitting import Batch, Line, Splitter, line_of
from lastbeat.model.codec import codec
from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import Form
from lastbeat.model.signal import Catalogue

_EACH: Final = 512
"""One line in this many is parsed in any case."""
_STEPS_LIMIT: Final = 4
"""Most lines of steps that are kept for the next parsed line."""
_STEP_CHARS: Final = 500
"""Most characters that are kept of such a line."""


@dataclass(eq=False, repr=False)
class ReaderState:
    """The bounded state of a reader."""

    FORM: ClassVar = Form.SPARSE

    parser: ParserState
    splitter: Splitter = field(default_factory=Splitter)
    order: int = 0
    """Number of lines read, counting each state of an overwritten one."""
    steps: list[StepLine] = field(default_factory=list)
    """The latest lines of steps, parsed when any other line is."""

    def __post_init__(self) -> None:
        del self.steps[:-_STEPS_LIMIT]


class LogReader:
    """Reads one file from the point where feeding begins, in bounded memory."""

    def __init__(self, catalogue: Catalogue, file: str, *, rank: int | None = None, line: int = 1) -> None:
        """``line`` is the number of the first line fed."""
        self._state = ReaderState(ParserState(LogSummary(file, rank)), Splitter(line))
        self._prefilter = Prefilter(matcher_of(catalogue))
        self._vocabulary = Vocabulary.of(catalogue)
        self._parser = LogParser(self._vocabulary, self._state.parser)

    def document(self) -> Any:
        """The state from which a later process continues, as JSON data of less than 64 KB."""
        return codec(ReaderState).document(self._state)

    @classmethod
    def restore(cls, catalogue: Catalogue, document: Any) -> "LogReader":
        """A reader that continues from :meth:`document`. Raises :class:`lastbeat.model.codec.DamagedError`."""
        state = codec(ReaderState).read(document)
        reader = cls(catalogue, state.parser.summary.file)
        reader._state, reader._parser = state, LogParser(reader._vocabulary, state.parser)
        return reader

    @property
    def next_line(self) -> int:
        """Number of the current line."""
        return self._state.splitter.number

    @property
    def step(self) -> int | None:
        """The last step so far."""
        return self._parser.progress(ahead=self._state.steps).step

    def feed(self, data: bytes, at: datetime | None = None) -> None:
        """Read more text, which the store first had at ``at``."""
        self._take(self._state.splitter.feed(data, at), at)

    def finish(self, at: datetime | None = None) -> None:
        """End the text, so that an unfinished last line counts."""
        self._take(self._state.splitter.finish(at), at)

    def skipped(self, bytes_count: int) -> None:
        """Note that ``bytes_count`` bytes of text are missing here."""
        self._state.splitter.skip()
        self._parser.skipped(bytes_count)

    def summary(self) -> LogSummary:
        """The summary of the text so far."""
        return self._parser.summary(ahead=self._state.steps)

    def _take(self, batch: Batch, at: datetime | None) -> None:
        """Parse the relevant lines of a batch.

        1. The prefilter finds the lines that may match a signal.
        2. Unless the parser is attentive, skip to the next of those, or to the next that is parsed in any case. Keep
           the last lines of steps among the skipped ones.
        3. Before a line is parsed, parse those steps, because the parser has to know the progress of training.
        """
        count = len(batch)
        if not count:
            return
        state, parser = self._state, self._parser
        begun, position = state.order, 0
        suspicious = list(self._prefilter.lines(batch))
        while position < count:
            if not parser.is_attentive(begun + position):
                upcoming = bisect_left(suspicious, position)
                stop = suspicious[upcoming] if upcoming < len(suspicious) else count
                stop = min(stop, position + (-(begun + position) - 1) % _EACH)
                self._skim(batch, position, stop, at)
                position = stop
                if position >= count:
                    break
            self._catch_up()
            parser.line(begun + position + 1, unwrapped(batch.line(position)), at)
            position += 1
        state.order = begun + count
        parser.read_to(batch.number(count - 1))

    def _skim(self, batch: Batch, start: int, stop: int, at: datetime | None) -> None:
        """Skip lines that may only show steps, and keep the last few of those."""
        if start >= stop:
            return
        last: list[StepLine] = []
        for index in self._prefilter.progress(batch, start, stop):
            line = batch.line(index)
            last.append((line.text[:_STEP_CHARS], line.time))
            self._parser.note_awaited(line.text, at)
            if len(last) == _STEPS_LIMIT:
                break
        self._state.steps = [*self._state.steps, *reversed(last)][-_STEPS_LIMIT:]

    def _catch_up(self) -> None:
        steps, self._state.steps = self._state.steps, []
        for text, time in steps:
            self._parser.progressed(text, time)


# Log collectors wrap each line into JSON.

_MESSAGE_KEYS: Final = ("log", "message", "@message", "msg", "MESSAGE", "text", "event")
_LEVEL_KEYS: Final = ("level", "severity", "levelname", "lvl", "log_level", "priority", "PRIORITY")
_MESSAGE: Final = Pattern(r"\"(?:log|@?message|msg|MESSAGE|text|event)\"\s{0,3}:\s{0,3}\"")
_ANSI: Final = Pattern(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")


def unwrapped(line: Line) -> Line:
    """The line that the program itself printed. For a traceback in some field, that is its last line. The raw text
    stays as evidence, and the wrapping's time counts if the line has none. The wrapping's level is put before the text,
    unless the text is an exception's."""
    text = line.text.strip()
    member = error_file.member_in(text)
    if member is not None:
        return line._replace(text=member)
    if not text.startswith("{") or not text.endswith("}") or _MESSAGE.search(text) is None:
        return line
    try:
        wrapping = json.loads(text)
    except (ValueError, RecursionError):
        return line
    wrapping = inner if isinstance(wrapping, dict) and isinstance(inner := wrapping.get("message"), dict) else wrapping
    if not isinstance(wrapping, dict):
        return line
    texts = {name: value.rstrip("\r\n") for name, value in wrapping.items() if isinstance(value, str)}
    message = next((texts.pop(name) for name in _MESSAGE_KEYS if name in texts), None)
    level = next((texts[name] for name in _LEVEL_KEYS if name in texts), "")
    raised = next((text for text in [*texts.values(), message or ""] if HEADER in text), "")
    if raised and (last := raised.strip().rpartition("\n")[2].strip()):
        return line._replace(text=last if _level(level) == "ERROR" else f"{_level(level)}: {last}")
    if message is None or "\n" in message or any("\n" in text or "Error" in text for text in texts.values()):
        # A logger's own document with an exception in some field is searched unchanged.
        return line
    # Carriage returns overwrite the line, so only its last state counts.
    own = line_of(line.number, _ANSI.sub("", message).rsplit("\r", 1)[-1])
    if level and level_of(own.text) is None:
        own = own._replace(text=f"{_level(level)}: {own.text}")
    rank = own.rank if own.rank is not None else line.rank
    return own._replace(raw=line.raw, rank=rank, host=own.host or line.host, time=line.time or own.time)


def _level(word: str) -> str:
    begin = word[:4].lower()
    return "ERROR" if begin in {"erro", "fata", "crit", "aler", "emer"} else "WARNING" if begin == "warn" else "INFO"
