"""The filter language of ``lastbeat fleet``, its live table and the page: words, all of which match a run. Pure.

======================  ==========================================================================================
``oom``                 the text stands somewhere in the row, in capitals or not
``owner:ana``           it stands in one field: :data:`~lastbeat.views.row_keys.TEXTS`
``optimizer:adam``      or in a key of the configuration, or a metric; a number is equal: ``lr:1e-4``
``lr>1e-4``             a number of the row, of its configuration or its metrics is larger; also ``>= < <=``
``*-seed1``             a glob of whole run ids; with a field, of its whole text: ``owner:a*``
``/seed[12]$/``         a regular expression, somewhere in the run id
``-…``                  takes out the runs that the rest of the word matches
======================  ==========================================================================================

The page has the same, in filter.js, and one table of tests holds both.

A regular expression may come from a link, so it must not hang the terminal or page that follows it.
:func:`_regex` refuses the kinds that take exponential time, and limits the others by what they may cost.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import translate
from operator import ge, gt, le, lt
from typing import Final

from lastbeat.model.view import Row
from lastbeat.views.row_keys import NUMBER, TEXTS, number, value

WORDS_LIMIT: Final = 20
"""Most words that count."""
_NAMED: Final = re.compile(r"([A-Za-z_][\w./-]*)(>=|<=|[:=<>])(.+)", re.ASCII)
_COMPARED: Final = {">": gt, ">=": ge, "<": lt, "<=": le}
_REGEX_CHARS: Final = 100
"""Longest regular expression."""
_ID_CHARS: Final = 128
"""A regular expression looks at so many characters of a run id."""
_COST_LIMIT: Final = 16
"""Base-2 logarithm of the most ways to match from one character on: a repeat has 7, since it takes up to 128
characters, and a choice 2."""
_REFUSED: Final = (
    (re.compile(r"\\[^dDwWsSbB\W_]|\(\?"), "has something that not all programs know; use . [] () | * + ? {n} ^ $ \\d"),
    (re.compile(r"\)[*+{]"), "repeats a group, which may take for ever; repeat single characters"),
    (
        re.compile(r"[*+?}]\+|\{,|\{\d{4}|\[\^?[\[\]]|\[[^\]]*(?:--|&&|~~|\|\|)"),
        "has a repeat or a class that not all programs know",
    ),
)
Test = Callable[[Row], bool]


@dataclass(frozen=True)
class Filter:
    """Some words as tests. A word with a fault matches nothing."""

    tests: tuple[Test, ...] = ()
    fault: str | None = None

    def matches(self, row: Row) -> bool:
        """Whether all words match."""
        return all(test(row) for test in self.tests)


class _FilterError(ValueError):
    pass


def parse(text: str) -> Filter:
    """The filter that ``text`` states. Never raises."""
    tests, fault = [], None
    for word in text.split()[:WORDS_LIMIT]:
        unwanted = len(word) > 1 and word.startswith("-")
        try:
            test = _test(word[1:] if unwanted else word)
        except _FilterError as error:
            fault, test, unwanted = str(error), lambda _: False, False
        tests.append((lambda row, test=test: not test(row)) if unwanted else test)
    return Filter(tuple(tests), fault)


def _test(word: str) -> Test:
    if len(word) > 2 and word.startswith("/") and word.endswith("/"):
        return _regex(word[1:-1])
    text = word.casefold()
    named = _NAMED.fullmatch(word)
    if named is not None:
        name, sign, part = named[1], named[2], named[3].casefold()
        if sign in _COMPARED:
            if not NUMBER.fullmatch(part):
                raise _FilterError(f"{word[:40]} compares with no number; write for example {name}{sign}0.5")
            return _compared(name, sign, float(part))
        if name.casefold() in TEXTS:
            texts, holds = TEXTS[name.casefold()], _holds(part)
            return lambda row: any(holds(each) for each in texts(row) if each)
        return _in_key(name, part, text)
    if "*" in word or "?" in word:
        whole = _glob(text)
        return lambda row: whole.match(row.run_id.casefold()) is not None
    return lambda row: text in searchable(row)


def _compared(name: str, sign: str, limit: float) -> Test:
    def test(row: Row) -> bool:
        found = number(value(row, name))
        return found is not None and _COMPARED[sign](found, limit)

    return test


def _in_key(name: str, part: str, word: str) -> Test:
    """A key of the configuration or a metric; of a row that has none of that name, a word like others."""
    holds, wanted = _holds(part), float(part) if NUMBER.fullmatch(part) else None

    def test(row: Row) -> bool:
        found = value(row, name)
        if found is None:
            return word in searchable(row)
        known = number(found)
        return known == wanted if None not in (known, wanted) else holds(str(found))

    return test


def _holds(part: str) -> Callable[[str], bool]:
    if "*" in part or "?" in part:
        whole = _glob(part)
        return lambda text: whole.match(text.casefold()) is not None
    return lambda text: part in text.casefold()


def _glob(text: str) -> "re.Pattern[str]":
    return re.compile(translate(text.replace("[", "[[]")))


def _regex(source: str) -> Test:
    pattern = _checked(source)
    return lambda row: pattern.search(row.run_id[:_ID_CHARS]) is not None


def _checked(source: str) -> "re.Pattern[str]":
    """Raises :class:`_FilterError` where it is none, or might take long."""
    shown = f"/{source[:40]}/"
    if len(source) > _REGEX_CHARS:
        raise _FilterError(f"{shown} is longer than {_REGEX_CHARS} characters")
    for refused, why in _REFUSED:
        if refused.search(source):
            raise _FilterError(f"{shown} {why}")
    bare = re.sub(r"\[\^?[^\]]*\]", "a", re.sub(r"\\.", "a", source))
    if 7 * len(re.findall(r"[*+{]", bare)) + 2 * len(re.findall(r"[?|]", bare)) > _COST_LIMIT:
        raise _FilterError(f"{shown} has more than two repeats, or too many choices; use several words")
    try:
        return re.compile(source, re.ASCII | re.IGNORECASE)
    except (re.error, OverflowError, RecursionError):
        raise _FilterError(f"{shown} is no regular expression") from None


def searchable(row: Row) -> str:
    """The text in which a word without a field is looked for."""
    told: tuple[str | None, ...] = (row.run_id, row.shown, row.cause, row.reason, row.phase, row.host)
    told += (row.owner, row.team, row.doubt, row.fault, *row.conditions, *row.tags)
    return "\n".join(each for each in told if each).casefold()
