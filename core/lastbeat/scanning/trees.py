"""A regular expression's parse tree, in the few terms that tell what it can match."""

import importlib
import re
import string
import sys
from functools import reduce
from typing import Any, Final, NamedTuple

ASCII: Final = 128
OTHER: Final = 1 << ASCII
"""The bit that stands for all characters outside ASCII."""
EVERY: Final = (1 << (ASCII + 1)) - 1
UNBOUNDED: Final = 1 << 30

# The standard library keeps its parser of regular expressions to itself, under two names.
_PARSER: Final[Any] = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")


class Chars(NamedTuple):
    """One character out of a set: bit *n* for the character *n*, and :data:`OTHER`."""

    mask: int


class Sequence(NamedTuple):
    items: tuple["Node", ...]


class Choice(NamedTuple):
    options: tuple["Node", ...]


class Repeat(NamedTuple):
    item: "Node"
    least: int
    most: int
    """:data:`UNBOUNDED` for no limit."""
    possessive: bool = False


class Edge(NamedTuple):
    """Matches a place, no character: ``^``, ``$``, ``\\b``; or a look around it, which has ``inside``."""

    name: str
    inside: "Node | None" = None


class Again(NamedTuple):
    """What a group matched, once more: anything, as far as can be told."""


Node = Chars | Sequence | Choice | Repeat | Edge | Again
ANYTHING: Final = Repeat(Chars(EVERY), 0, UNBOUNDED)


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
    """The tree of a pattern as ``matching`` compiles it: ``\\d``, ``\\s``, ``\\w``, ``\\b`` and case know ASCII alone.

    Raises what ``re.compile`` raises.
    """
    flags = re.ASCII | (re.IGNORECASE if ignore_case else 0)
    parsed = _PARSER.parse(pattern, flags)
    return _sequence(parsed, parsed.state.flags)


def _sequence(items: Any, flags: int) -> Node:
    nodes = tuple(_node(str(operation), argument, flags) for operation, argument in items)
    return nodes[0] if len(nodes) == 1 else Sequence(nodes)


def _node(operation: str, argument: Any, flags: int) -> Node:  # noqa: PLR0912 - one branch a kind of node
    if operation == "LITERAL":
        return Chars(_cased(_one(argument), flags))
    if operation == "NOT_LITERAL":
        return Chars(EVERY & ~(_cased(_one(argument), flags) & ~OTHER))
    if operation == "ANY":
        return Chars(EVERY if flags & re.DOTALL else EVERY & ~_NEWLINE)
    if operation == "IN":
        return Chars(_members(argument, flags))
    if operation == "BRANCH":
        return Choice(tuple(_sequence(option, flags) for option in argument[1]))
    if operation == "SUBPATTERN":
        _, added, removed, inside = argument
        if added & (re.UNICODE | re.LOCALE):
            return ANYTHING
        return _sequence(inside, (flags | added) & ~removed)
    if operation == "ATOMIC_GROUP":
        return _sequence(argument, flags)
    if operation in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
        least, most, inside = argument
        limit = min(int(most), UNBOUNDED)
        return Repeat(_sequence(inside, flags), int(least), limit, operation.startswith("POSSESSIVE"))
    if operation == "AT":
        return Edge(str(argument))
    if operation in {"ASSERT", "ASSERT_NOT"}:
        direction, inside = argument
        return Edge(f"{operation} {'before' if direction < 0 else 'after'}", _sequence(inside, flags))
    if operation == "GROUPREF_EXISTS":
        _, yes, no = argument
        return Choice((_sequence(yes, flags), _sequence(no or (), flags), Again()))
    if operation == "FAILURE":
        return Chars(0)
    return Again()


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
    # Some character outside ASCII may be excluded, never all of them as far as a mask can tell.
    return EVERY & ~(mask & ~OTHER) if negated else mask


def _cased(mask: int, flags: int) -> int:
    if flags & re.IGNORECASE:
        mask |= (mask & _UPPER) << 32 | (mask & _LOWER) >> 32
    return mask


def characters(mask: int) -> str:
    """The ASCII characters of a set."""
    return "".join(chr(code) for code in range(ASCII) if mask >> code & 1)


def nodes(node: Node) -> list[Node]:
    """The node and all below it."""
    found = [node]
    for inside in _inside(node):
        found += nodes(inside)
    return found


def _inside(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Sequence):
        return node.items
    if isinstance(node, Choice):
        return node.options
    if isinstance(node, Repeat):
        return (node.item,)
    if isinstance(node, Edge) and node.inside is not None:
        return (node.inside,)
    return ()
