"""Mentions: the log lines in which signals were found, bounded in number."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final, Literal

from lastbeat.explain.scanning.splitting import Line
from lastbeat.model.cause import TEXT_LIMIT, Evidence
from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import Form

_MOST_FIELDS: Final = 8
"""Most fields that are extracted from a line."""
_FIELD_LIMIT: Final = 120
"""Most characters of a field."""
_TEXT_LIMIT: Final = min(400, TEXT_LIMIT)

FIRST: Final = 24
LAST: Final = 12
"""Most mentions that are kept at the beginning and at the end of a window."""
ENOUGH_STEPS: Final = 2
"""A run that makes this many more steps has survived any error before. One step may have been under way."""
_REPEATS: Final = 3
"""Most mentions of one signal by one rank that are kept; further ones are counted."""
_PASSED: Final = 3
"""Most uncaught tracebacks that are kept although the run survived them."""
_NEAR_LINES: Final = 4
"""Most lines between an error and the retry that weakens it."""

_PROCESS: Final = Pattern(r".{0,80}? pid=(?P<pid>\d{1,10})[,)]")
"""Prefix by which Ray, SkyPilot and metaflow name the process that printed a line."""

Link = Literal["", "handling", "cause", "detail"]
"""How a mention is linked to an earlier one: an exception raised during the handling of that, or from it; or the detail
of an envelope, which names the failure."""
DETAIL: Final = "detail"


@dataclass(slots=True)
class Mention:
    """A line in which a signal was found, and its context."""

    FORM: ClassVar = Form.SPARSE

    signal: str
    line: int
    """Line number, from 1."""
    order: int
    """Index among all lines read, counting states of overwritten lines."""
    text: str = ""
    rank: int | None = None
    host: str | None = None
    time: datetime | None = None
    """Time in the line itself."""
    before: datetime | None = None
    """Newest time in the parsed lines above it."""
    steps: int = 0
    """How often training had progressed before it."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Fields that its signal extracts."""
    weak: bool = False
    """Whether it is a warning, a retry, or ignored by the program."""
    quiet: bool = False
    """Whether it ends a traceback that was announced as ignored, or raised in a destructor."""
    low: bool = False
    """Whether it was logged below error level, or its traceback was printed by a logger, so that the program went
    on."""
    raised: bool = False
    """Whether it is the last line of a traceback, not a logged line."""
    fatal: bool = False
    """Whether the traceback began at the program's entry point, so that the exception was not caught."""
    where: str = ""
    """The kind of code that raised it, see ``tracebacks.place_of``."""
    deliberate: bool = False
    """Whether a ``raise`` statement raised it, so that its words were chosen for people."""
    site: str = ""
    """The innermost frame of the program's own code."""
    frames: tuple[str, ...] = ()
    """Frames for display of the traceback that it ends, see ``tracebacks.OpenTraceback.innermost``."""
    link: Link = ""
    after: int = -1
    """Order of the mention that ``link`` refers to."""
    count: int = 1
    """How often the same rank printed it."""
    last_line: int = 0
    """Number of the last of these lines; 0 if there is only one."""

    def evidence(self, file: str) -> Evidence:
        return Evidence(file, self.line, self.text, self.rank, self.host, self.time)


def repeats(mention: Mention, cause: Mention) -> bool:
    """Whether ``mention`` repeats the cause, as ``_error`` repeats the last line of a traceback."""
    one, other = mention.text.strip(), cause.text.strip()
    ends, begins = (one.endswith(other) or other.endswith(one)), (one.startswith(other) or other.startswith(one))
    return mention.rank in {None, cause.rank} and (ends or begins)


def _is_by(mention: Mention, line: Line) -> bool:
    """Whether the same process may have printed both."""
    if mention.rank is not None and line.rank is not None and mention.rank != line.rank:
        return False
    one, other = _PROCESS.match(mention.text), _PROCESS.match(line.raw)
    return one is None or other is None or one["pid"] == other["pid"]


def is_over(mention: Mention, steps: int) -> bool:
    """Whether the run survived ``mention``; ``steps`` counts the progress of training by now."""
    return steps - mention.steps >= (1 if mention.weak else ENOUGH_STEPS)


def fields_of(groups: Mapping[str, str | None], extract: Mapping[str, str]) -> dict[str, str]:
    """The fields that a signal extracts from a match, bounded in number and length."""
    found = {name: groups.get(group) for name, group in list(extract.items())[:_MOST_FIELDS]}
    return {name: value.strip()[:_FIELD_LIMIT] for name, value in found.items() if value}


def text_of(raw: str) -> str:
    """``raw`` as evidence, cut to a bounded length."""
    raw = raw.rstrip()
    return raw if len(raw) <= _TEXT_LIMIT else raw[: _TEXT_LIMIT - 1] + "…"


@dataclass(eq=False, repr=False)
class MentionWindow:
    """The mentions since the last progress of training. Those that the run survived are dropped, so it stays small."""

    FORM: ClassVar = Form.SPARSE

    steps: int = 0
    """How often training progressed."""
    mentions: list[Mention] = field(default_factory=list)
    passed: list[Mention] = field(default_factory=list)
    """The last few uncaught tracebacks that the run survived nevertheless."""

    def __post_init__(self) -> None:
        del self.mentions[FIRST + LAST :], self.passed[_PASSED:]

    def add(self, mention: Mention) -> bool:
        """Add a mention. Returns whether it is kept: of repetitions by one rank, only the first few are, with a
        count."""
        said, rank = mention.signal, mention.rank
        same = [
            each
            for each in self.mentions
            if each.signal == said and each.rank == rank and each.raised == mention.raised
        ]
        if len(same) >= _REPEATS:
            same[-1].count += 1
            same[-1].last_line = mention.line
            return False
        self.mentions.append(mention)
        if len(self.mentions) > FIRST + LAST:
            del self.mentions[FIRST]
        return True

    def advance(self, steps: int = 1) -> bool:
        """Note progress of training. Returns whether no mention is left."""
        self.steps += steps
        if not self.mentions:
            return True
        kept: list[Mention] = []
        for mention in self.mentions:
            if not is_over(mention, self.steps):
                kept.append(mention)
            elif mention.fatal and not mention.weak:
                self.passed = [*self.passed, mention][-_PASSED:]
        self.mentions = kept
        return not kept

    def weaken_above(self, line: Line) -> None:
        """Weaken the errors just above ``line``, in which the same process retries or skips the failed operation."""
        for mention in self.mentions:
            if line.number - mention.line <= _NEAR_LINES and not mention.fatal and _is_by(mention, line):
                mention.weak = True

    def explain_above(self, raised: Mention) -> None:
        """Give mentions of the same exception above the frames of the traceback that ends in ``raised``. The first line
        of ``_error`` is such a mention without a traceback."""
        for mention in self.mentions:
            if not mention.where and not mention.frames and repeats(mention, raised):
                mention.where, mention.site, mention.frames = raised.where, raised.site, raised.frames
                mention.fields = {**raised.fields, **mention.fields}

    def at(self, order: int) -> Mention | None:
        return next((mention for mention in self.mentions if mention.order == order), None)
