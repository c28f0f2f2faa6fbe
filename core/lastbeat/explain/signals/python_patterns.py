"""Python regular expressions from scripts → patterns for a catalogue that match the same lines."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from lastbeat.explain.signals import pattern_checks

WHOLE: Final = "match"
"""Stands for the whole match, in place of a group."""
_FLAGS: Final = re.compile(r"\(\?([aimsux]+)\)")
_SET: Final = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
"""A set of characters, in which a parenthesis opens nothing."""
_ANY_TAIL: Final = re.compile(r"(?<!\\)\.\*\??(\(\?P<\w+>\.(?:[+*]|\{\d*,\d*\})\??\))$")
"""``.*`` before a last group of anything. Without it the same lines match, and much faster."""


class TranslatedPattern(NamedTuple):
    """A pattern as a catalogue has it."""

    fields: Mapping[str, Any]
    """``pattern``, and ``ignore_case`` and ``extract`` if they apply."""
    missing: tuple[object, ...] = ()
    """Requested groups that the pattern lacks."""
    fault: str | None = None
    """Why it cannot be used, or None."""


def unfit(pattern: str, *, substring: bool) -> str | None:
    """Why no line can be searched for ``pattern``, or None."""
    if not pattern.strip():
        return "it has no pattern"
    if "${" in pattern:
        return "its pattern is filled in elsewhere (${…})"
    if "\n" in pattern or (not substring and re.search(r"(?<!\\)(?:\\\\)*\\n", pattern)):
        return "its pattern spans lines, and logs are searched line by line"
    if "\0" in pattern or len(pattern) > pattern_checks.PATTERN_LIMIT:
        return f"its pattern has more than {pattern_checks.PATTERN_LIMIT:,} characters, or a NUL"
    return None


def translate_pattern(pattern: str, groups: Mapping[str, object]) -> TranslatedPattern:
    """Translate the regular expression ``pattern``. ``groups`` maps fields to groups: a name, a number, or
    :data:`WHOLE`."""
    flags = _FLAGS.match(pattern)
    letters = flags[1] if flags is not None else ""
    # Leading flags: i has a key of its own, a and m have no effect here, u is not supported.
    kept = "".join(letter for letter in "sux" if letter in letters)
    prefix = f"(?{kept})" if kept else ""
    pattern = _ANY_TAIL.sub(r"\1", pattern[flags.end() :] if flags is not None else pattern)
    ignore_case = "i" in letters
    try:
        compiled = re.compile(prefix + pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return TranslatedPattern({}, fault=f"its pattern does not compile: {error}")
    extract, new, missing = _groups(compiled, groups)
    pattern = _with_names(pattern, new)
    if 0 in new:
        pattern = f"(?P<{new[0]}>{pattern})"
    fields: dict[str, Any] = {"pattern": prefix + pattern}
    if ignore_case:
        fields["ignore_case"] = True
    if extract:
        fields["extract"] = extract
    fault = next(iter(pattern_checks.faults(prefix + pattern, ignore_case=ignore_case)), None)
    return TranslatedPattern(fields, missing, fault)


def _groups(
    compiled: "re.Pattern[str]", wanted: Mapping[str, object]
) -> tuple[dict[str, str], dict[int, str], tuple[object, ...]]:
    """Field → group; number → new name for a group without one (0 is the whole match); missing groups."""
    names = {number: name for name, number in compiled.groupindex.items()}
    extract, new, missing = {}, {}, []
    for called, group in wanted.items():
        number = 0 if group == WHOLE else compiled.groupindex.get(group) if isinstance(group, str) else group
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= compiled.groups:
            missing.append(group)
            continue
        if number not in names:
            names[number] = new[number] = _free(called, set(names.values()))
        extract[called] = names[number]
    return extract, new, tuple(missing)


def _free(name: str, taken: set[str]) -> str:
    """A group's name that is not taken."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    plain = plain if plain.isidentifier() else f"group_{plain}"
    while plain in taken:
        plain += "_"
    return plain


def _with_names(pattern: str, wanted: Mapping[int, str]) -> str:
    """``pattern`` with names for its groups of these numbers, which have none."""
    parts: list[str] = []
    number, place = 0, 0
    while place < len(pattern):
        inside = _SET.match(pattern, place) if pattern[place] == "[" else None
        piece = inside[0] if inside is not None else pattern[place : place + (2 if pattern[place] == "\\" else 1)]
        place += len(piece)
        if piece == "(" and (pattern[place : place + 1] != "?" or pattern.startswith("?P<", place)):
            number += 1
            piece = f"(?P<{wanted[number]}>" if number in wanted else piece
        parts.append(piece)
    return "".join(parts)
