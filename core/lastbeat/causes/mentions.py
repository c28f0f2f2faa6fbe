"""What reading a log leaves behind: the lines that say something, few enough to be kept and sent on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Final, Literal

from lastbeat.causes.kept import made_of, whole
from lastbeat.model.cause import TEXT_LIMIT, Evidence
from lastbeat.model.progress_lines import Progress
from lastbeat.model.times import format_time, parse_time

MOST_FIELDS: Final = 8
_FIELD_LIMIT: Final = 120
_TEXT_LIMIT: Final = min(400, TEXT_LIMIT)

Link = Literal["", "handling", "cause"]
"""How an exception follows from the one printed before it: raised while that was handled, or raised from it."""


@dataclass(slots=True)
class Mention:
    """A line that a signal was found in, and what stood around it."""

    signal: str
    evidence: Evidence
    order: int
    """Counts everything that was read of its file."""
    steps: int
    """How often training had been seen to go on before it."""
    fields: Mapping[str, str] = field(default_factory=dict)
    weak: bool = False
    """Said in passing: a warning, a retry, something that was ignored."""
    low: bool = False
    """Its line states a level below that of an error, or a logger printed its traceback: somebody went on."""
    raised: bool = False
    """The last line of a traceback, as opposed to a line that somebody logged."""
    fatal: bool = False
    """The traceback began at a program's top: nobody caught the exception."""
    where: str = ""
    """Which part of the world the exception was raised in (``tracebacks.place_of``)."""
    site: str = ""
    """The innermost frame of the program's own code."""
    link: Link = ""
    after: int = -1
    """Order of the mention that ``link`` is about."""
    count: int = 1
    """How often it was said by the same rank."""

    def document(self) -> dict[str, Any]:
        """As JSON knows it; what is as usual is left out."""
        evidence = self.evidence
        told = {
            "signal": self.signal,
            "line": evidence.line,
            "text": evidence.text,
            "rank": evidence.rank,
            "host": evidence.host,
            "time": format_time(evidence.time),
            "order": self.order,
            "steps": self.steps,
            "fields": dict(self.fields),
            "weak": self.weak,
            "low": self.low,
            "raised": self.raised,
            "fatal": self.fatal,
            "where": self.where,
            "site": self.site,
            "link": self.link,
            "after": self.after,
            "count": self.count,
        }
        usual = {"after": -1, "count": 1}
        return {
            name: value
            for name, value in told.items()
            # Rank 0 is a rank, and the same as False to ``in``.
            if value is not None and value is not False and value not in ("", {}) and usual.get(name) != value
        }

    @classmethod
    def of(cls, document: Mapping[str, Any], file: str) -> "Mention":
        evidence = Evidence(
            file,
            int(document["line"]),
            str(document.get("text", "")),
            whole(document.get("rank")),
            str(document["host"]) if document.get("host") is not None else None,
            parse_time(document.get("time")),
        )
        return cls(
            str(document["signal"]),
            evidence,
            int(document["order"]),
            int(document.get("steps", 0)),
            {str(key): str(value) for key, value in document.get("fields", {}).items()},
            bool(document.get("weak", False)),
            bool(document.get("low", False)),
            bool(document.get("raised", False)),
            bool(document.get("fatal", False)),
            str(document.get("where", "")),
            str(document.get("site", "")),
            document.get("link", ""),
            int(document.get("after", -1)),
            int(document.get("count", 1)),
        )


def fields_of(groups: Mapping[str, str | None], extract: Mapping[str, str]) -> dict[str, str]:
    """What a signal extracts from a match, bounded."""
    found = {name: groups.get(group) for name, group in list(extract.items())[:MOST_FIELDS]}
    return {name: value.strip()[:_FIELD_LIMIT] for name, value in found.items() if value}


def text_of(raw: str) -> str:
    """A line as evidence keeps it."""
    raw = raw.rstrip()
    return raw if len(raw) <= _TEXT_LIMIT else raw[: _TEXT_LIMIT - 1] + "…"


@dataclass(slots=True)
class Stack:
    """A thread's or a rank's stack that was printed because it stood still."""

    line: int
    rank: int | None
    innermost: str
    """File and function of the innermost frame."""
    site: str
    """The innermost frame of the program's own code."""
    text: str = ""
    """The line that it begins with."""


@dataclass(slots=True)
class Account:
    """What one file says, bounded."""

    file: str
    rank: int | None = None
    lines: int = 0
    """The number of the last line that was read."""
    talked: int = 0
    """The number of the last line, behind a report, that a program prints which goes on."""
    steps: int = 0
    """How often training was seen to go on."""
    mentions: list[Mention] = field(default_factory=list)
    """In the order of the file; of what training went on after, only a little."""
    stacks: list[Stack] = field(default_factory=list)
    nan: Mention | None = None
    """The first of the lines, up to now, that say that the loss or the gradients are no number."""
    success: Mention | None = None
    progress: Progress = field(default_factory=Progress)
    progress_time: datetime | None = None
    """The time that the last line of them named."""
    last_time: datetime | None = None
    """The newest time that a line named."""
    last_seen: dict[str, datetime] = field(default_factory=dict)
    """Signal → when a line that it matches was last new."""
    skipped_bytes: int = 0

    def document(self) -> dict[str, Any]:
        """What is kept between two processes, as JSON knows it; mentions and stacks have places of their own."""
        return {
            "file": self.file,
            "rank": self.rank,
            "lines": self.lines,
            "talked": self.talked,
            "nan": self.nan.document() if self.nan is not None else None,
            "success": self.success.document() if self.success is not None else None,
            "progress": asdict(self.progress),
            "progress_time": format_time(self.progress_time),
            "last_time": format_time(self.last_time),
            "last_seen": {name: format_time(when) for name, when in self.last_seen.items()},
            "skipped_bytes": self.skipped_bytes,
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Account":
        file = str(document["file"])
        known = {each.name for each in fields(Progress)}
        nan, success = document["nan"], document["success"]
        seen = {str(name): parse_time(text) for name, text in document["last_seen"].items()}
        return cls(
            file,
            whole(document["rank"]),
            int(document["lines"]),
            int(document.get("talked", 0)),
            nan=Mention.of(nan, file) if nan is not None else None,
            success=Mention.of(success, file) if success is not None else None,
            progress=made_of(Progress, {k: value for k, value in document["progress"].items() if k in known}),
            progress_time=parse_time(document["progress_time"]),
            last_time=parse_time(document["last_time"]),
            last_seen={name: when for name, when in seen.items() if when is not None},
            skipped_bytes=int(document["skipped_bytes"]),
        )
