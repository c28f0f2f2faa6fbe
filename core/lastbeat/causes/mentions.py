"""Mentions: the lines of a log that a signal was found in, few enough to be kept and sent on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final, Literal

from lastbeat.model.cause import TEXT_LIMIT, Evidence
from lastbeat.model.persisted import Form

MOST_FIELDS: Final = 8
_FIELD_LIMIT: Final = 120
_TEXT_LIMIT: Final = min(400, TEXT_LIMIT)

FIRST: Final = 24
LAST: Final = 12
"""So many mentions are kept from either end of a window."""
ENOUGH_STEPS: Final = 2
"""Training that gets so many steps further survived whatever was reported before. One step may have been under way."""
_REPEATS: Final = 3
_PASSED: Final = 3
_NEAR_LINES: Final = 4

Link = Literal["", "handling", "cause"]
"""How an exception is chained to the one printed before it: raised while that was handled, or raised from it."""


@dataclass(slots=True)
class Mention:
    """A line that a signal was found in, and its context."""

    FORM: ClassVar = Form.SPARSE

    signal: str
    line: int
    """Its number, from 1."""
    order: int
    """Counts everything read of its file, states of overwritten lines included."""
    text: str = ""
    rank: int | None = None
    host: str | None = None
    time: datetime | None = None
    """The time that the line itself names."""
    steps: int = 0
    """How often training had been seen to get further before it."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """What its signal extracts."""
    weak: bool = False
    """Said in passing: a warning, a retry, something ignored."""
    low: bool = False
    """Logged below the level of an error, or a traceback that a logger printed: somebody carried on."""
    raised: bool = False
    """The last line of a traceback, as opposed to a line that somebody logged."""
    fatal: bool = False
    """The traceback began at the program's entry point: nobody caught the exception."""
    where: str = ""
    """Which kind of code raised it, see ``tracebacks.place_of``."""
    site: str = ""
    """The innermost frame of the program's own code."""
    link: Link = ""
    after: int = -1
    """Order of the mention that ``link`` refers to."""
    count: int = 1
    """How often the same rank said it."""

    def evidence(self, file: str) -> Evidence:
        return Evidence(file, self.line, self.text, self.rank, self.host, self.time)


def is_over(mention: Mention, steps: int) -> bool:
    """Whether the run survived it: training has got further ``steps`` times by now."""
    return steps - mention.steps >= (1 if mention.weak else ENOUGH_STEPS)


def fields_of(groups: Mapping[str, str | None], extract: Mapping[str, str]) -> dict[str, str]:
    """What a signal extracts from a match, bounded."""
    found = {name: groups.get(group) for name, group in list(extract.items())[:MOST_FIELDS]}
    return {name: value.strip()[:_FIELD_LIMIT] for name, value in found.items() if value}


def text_of(raw: str) -> str:
    """A line as it is kept for evidence."""
    raw = raw.rstrip()
    return raw if len(raw) <= _TEXT_LIMIT else raw[: _TEXT_LIMIT - 1] + "…"


@dataclass(eq=False, repr=False)
class MentionWindow:
    """The mentions since training was last seen to get further. What the run survived is dropped, so it stays small."""

    FORM: ClassVar = Form.SPARSE

    steps: int = 0
    """How often training was seen to get further."""
    mentions: list[Mention] = field(default_factory=list)
    passed: list[Mention] = field(default_factory=list)
    """The last few uncaught tracebacks that training survived all the same."""

    def __post_init__(self) -> None:
        del self.mentions[FIRST + LAST :], self.passed[_PASSED:]

    def add(self, mention: Mention) -> bool:
        """Whether it is kept. Of what one rank says over and over, only the first few are, and a count."""
        said, rank = mention.signal, mention.rank
        same = [
            each
            for each in self.mentions
            if each.signal == said and each.rank == rank and each.raised == mention.raised
        ]
        if len(same) >= _REPEATS:
            same[-1].count += 1
            return False
        self.mentions.append(mention)
        if len(self.mentions) > FIRST + LAST:
            del self.mentions[FIRST]
        return True

    def advance(self, steps: int = 1) -> bool:
        """Training got further. Whether no mention is left."""
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

    def weaken_above(self, number: int) -> None:
        """Line ``number`` says that something is retried or done without: what was reported just above it is no end."""
        for mention in self.mentions:
            if number - mention.line <= _NEAR_LINES and not mention.fatal:
                mention.weak = True

    def at(self, order: int) -> Mention | None:
        return next((mention for mention in self.mentions if mention.order == order), None)
