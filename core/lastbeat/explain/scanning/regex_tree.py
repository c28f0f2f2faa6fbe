"""Parses a regular expression into a syntax tree of the texts that it can match."""

import importlib
import re
import string
import sys
from functools import reduce
from typing import Any, Final, NamedTuple

ASCII: Final = 128
OTHER: Final = 1 << ASCII
"""The bit for every character outside ASCII."""
EVERY: Final = (1 << (ASCII + 1)) - 1
UNLIMITED: Final = 1 << 30

# The standard library's own parser is private, and was renamed in 3.11.
_PARSER: Final[Any] = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")


class CharSet(NamedTuple):
    """One character of a set: bit *n* stands for character *n*, :data:`OTHER` for all outside ASCII."""

    mask: int


class Concatenation(NamedTuple):
    items: tuple["Node", ...]


class Alternation(NamedTuple):
    options: tuple["Node", ...]


class Repeat(NamedTuple):
    item: "Node"
    least: int
    most: int
    """:data:`UNLIMITED` if there is no limit."""


class Assertion(NamedTuple):
    """Zero width: ``^``, ``$``, ``\\b``, or a look-around, whose body is ``inside``."""

    name: str
    inside: "Node | None" = None


class BackReference(NamedTuple):
    """A reference to a group, which the tree takes for any text."""


Node = CharSet | Concatenation | Alternation | Repeat | Assertion | BackReference
ANYTHING: Final = Repeat(CharSet(EVERY), 0, UNLIMITED)


def _mask(characters: str) -> int:
    return reduce(lambda mask, character: mask | 1 << ord(character), characters, 0)


_CATEGORIES: Final = {
    "DIGIT": _mask(string.digits),
    "SPACE": _mask(" \t\n\r\f\v"),
    "WORD": _mask(string.ascii_letters + string.digits + "_"),
}
_NEWLINE: Final = _mask("\n")
_UPPER: Final = _mask(string.ascii_uppercase)
_LOWER: Final = _mask(string.ascii_lowercase)


def parse(pattern: str, *, ignore_case: bool = False) -> Node:
    """The tree of a pattern, with the flags that ``matching`` compiles it with: classes and case are ASCII only.

    Raises what ``re.compile`` raises.
    """
    flags = re.ASCII | (re.IGNORECASE if ignore_case else 0)
    parsed = _PARSER.parse(pattern, flags)
    return _sequence(parsed, parsed.state.flags)


def _sequence(items: Any, flags: int) -> Node:
    nodes = tuple(_node(str(operation), argument, flags) for operation, argument in items)
    return nodes[0] if len(nodes) == 1 else Concatenation(nodes)


def _node(operation: str, argument: Any, flags: int) -> Node:  # noqa: PLR0912 - one branch a kind of node
    if operation == "LITERAL":
        return CharSet(_cased(_one(argument), flags))
    if operation == "NOT_LITERAL":
        return CharSet(EVERY & ~(_cased(_one(argument), flags) & ~OTHER))
    if operation == "ANY":
        return CharSet(EVERY if flags & re.DOTALL else EVERY & ~_NEWLINE)
    if operation == "IN":
        return CharSet(_members(argument, flags))
    if operation == "BRANCH":
        return Alternation(tuple(_sequence(option, flags) for option in argument[1]))
    if operation == "SUBPATTERN":
        _, added, removed, inside = argument
        if added & (re.UNICODE | re.LOCALE):
            return ANYTHING
        return _sequence(inside, (flags | added) & ~removed)
    if operation == "ATOMIC_GROUP":
        return _sequence(argument, flags)
    if operation in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
        least, most, inside = argument
        limit = min(int(most), UNLIMITED)
        return Repeat(_sequence(inside, flags), int(least), limit)
    if operation == "AT":
        return Assertion(str(argument))
    if operation in {"ASSERT", "ASSERT_NOT"}:
        direction, inside = argument
        return Assertion(f"{operation} {'before' if direction < 0 else 'after'}", _sequence(inside, flags))
    if operation == "GROUPREF_EXISTS":
        _, yes, no = argument
        return Alternation((_sequence(yes, flags), _sequence(no or (), flags), BackReference()))
    if operation == "FAILURE":
        return CharSet(0)
    return BackReference()


def _one(code: int) -> int:
    return 1 << code if code < ASCII else OTHER


def _members(items: Any, flags: int) -> int:
    mask, negated = 0, False
    for operation, argument in items:
        name = str(operation)
        if name == "NEGATE":
            negated = True
        elif name == "LITERAL":
            mask |= _one(argument)
        elif name == "RANGE":
            first, last = argument
            mask |= (1 << min(last + 1, ASCII)) - (1 << min(first, ASCII))
            mask |= OTHER if last >= ASCII else 0
        else:
            _, _, category = str(argument).rpartition("_")
            inside = _CATEGORIES[category]
            mask |= EVERY & ~inside if "_NOT_" in str(argument) else inside
    mask = _cased(mask, flags)
    # A negated set may exclude some characters outside ASCII, but the mask cannot tell that it excludes all of them.
    return EVERY & ~(mask & ~OTHER) if negated else mask


def _cased(mask: int, flags: int) -> int:
    if flags & re.IGNORECASE:
        mask |= (mask & _UPPER) << 32 | (mask & _LOWER) >> 32
    return mask


def characters(mask: int) -> str:
    """The ASCII characters in ``mask``."""
    return "".join(chr(code) for code in range(ASCII) if mask >> code & 1)


def nodes(node: Node) -> list[Node]:
    """``node`` and all its descendants."""
    found = [node]
    for inside in _children(node):
        found += nodes(inside)
    return found


def _children(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Concatenation):
        return node.items
    if isinstance(node, Alternation):
        return node.options
    if isinstance(node, Repeat):
        return (node.item,)
    if isinstance(node, Assertion) and node.inside is not None:
        return (node.inside,)
    return ()
