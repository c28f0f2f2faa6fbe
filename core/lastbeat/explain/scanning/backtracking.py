"""Vets patterns for catastrophic backtracking: finds those that hostile text could make slow, from the pattern alone.

Two checks, after the literature on ReDoS:

* exponential: a loop whose body can match the same text in two ways (an ambiguous position automaton);
* polynomial: several repeats in a row that can share the same text out among them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from lastbeat.explain.scanning import regex_tree
from lastbeat.explain.scanning.matching import MATCH_LIMIT
from lastbeat.explain.scanning.regex_tree import (
    Alternation,
    Assertion,
    BackReference,
    CharSet,
    Concatenation,
    Node,
    Repeat,
)

STEPS_LIMIT: Final = 2e8
"""Most steps of a search on the worst line. They take a few tenths of a second."""
_FEW_TIMES: Final = 8
"""A loop with at most this many repetitions cannot take exponential time, even if its body is ambiguous."""
_COPIES_LIMIT: Final = 4
"""Most repetitions of a loop that the automaton has one by one."""
_POSITIONS_LIMIT: Final = 400
"""Most positions of an automaton. A larger loop counts as ambiguous."""


def fault(pattern: str, *, ignore_case: bool = False) -> str | None:
    """Why ``pattern`` must not be used on hostile text, or None if it may be used.

    Back-references are refused, because their cost has no limit and RE2 lacks them. A look-around is allowed if its
    body is bounded; the pattern is then outside RE2's syntax.

    Raises what ``re.compile`` raises.
    """
    tree = regex_tree.parse(pattern, ignore_case=ignore_case)
    for node in regex_tree.nodes(tree):
        if isinstance(node, BackReference) or node is regex_tree.ANYTHING:
            return "refers back to a group, or changes the flags to Unicode; write out what may stand there"
        if isinstance(node, Assertion) and node.inside is not None and _longest(node.inside) > MATCH_LIMIT:
            return "looks around without a limit; write {0,80} instead of * or + inside (?=…), (?!…), (?<=…), (?<!…)"
        if isinstance(node, Repeat) and node.most > _FEW_TIMES and _is_ambiguous(node):
            return (
                f"repeats something that can match the same text in more than one way ({_excerpt(node)}), which takes "
                "exponential time where it fails; let each repetition begin with a character that nothing else in "
                "it matches"
            )
    steps = _worst_steps(tree)
    if steps > STEPS_LIMIT:
        return (
            f"takes up to {steps:.0e} steps on one line, since several of its repeats can share the same text out "
            "among them in many ways; write .{0,80} instead of .* or put a distinct character between them"
        )
    return None


def _longest(node: Node) -> int:
    """Characters of the longest match; :data:`regex_tree.UNLIMITED` if there is no longest."""
    if isinstance(node, CharSet):
        return 1
    if isinstance(node, Repeat):
        return min(node.most * _longest(node.item), regex_tree.UNLIMITED)
    if isinstance(node, Alternation):
        return max((_longest(option) for option in node.options), default=0)
    if isinstance(node, Concatenation):
        return min(sum(_longest(item) for item in node.items), regex_tree.UNLIMITED)
    return 0 if isinstance(node, Assertion) else regex_tree.UNLIMITED


def _excerpt(node: Node) -> str:
    """The characters in a part of the pattern, by which its author finds it."""
    masks = [inside.mask for inside in regex_tree.nodes(node) if isinstance(inside, CharSet)]
    names = []
    for mask in masks[:4]:
        known = regex_tree.characters(mask)
        names.append(known if len(known) <= 2 else "any" if mask & regex_tree.OTHER else f"{known[0]}…{known[-1]}")
    return re.sub(r"\s", " ", " ".join(names)).strip()


# Exponential time. The character positions of a loop's body are the states of an automaton (Glushkov's). The body is
# ambiguous if two walks through it over the same text can part and meet again.


@dataclass(slots=True)
class _Automaton:
    masks: list[int] = field(default_factory=list)
    """Position → the characters that it takes."""
    follow: list[set[int]] = field(default_factory=list)
    """Position → the positions that may come next."""
    joined_twice: bool = False
    """Whether some position follows another in two ways, which is ambiguous by itself."""

    def add(self, mask: int) -> int:
        self.masks.append(mask)
        self.follow.append(set())
        return len(self.masks) - 1

    def join(self, last: set[int], first: set[int]) -> None:
        for position in last:
            self.joined_twice = self.joined_twice or not self.follow[position].isdisjoint(first)
            self.follow[position] |= first


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A part of the pattern: where a walk through it may begin and end."""

    nullable: bool
    first: set[int]
    last: set[int]


_EMPTY: Final = _Fragment(True, set(), set())


def _fragment(node: Node, automaton: _Automaton) -> _Fragment:
    if len(automaton.masks) > _POSITIONS_LIMIT:
        return _EMPTY
    if isinstance(node, CharSet):
        position = automaton.add(node.mask)
        return _Fragment(False, {position}, {position})
    if isinstance(node, Concatenation):
        return _concatenated([_fragment(item, automaton) for item in node.items], automaton)
    if isinstance(node, Alternation):
        options = [_fragment(option, automaton) for option in node.options]
        return _Fragment(
            any(option.nullable for option in options),
            {position for option in options for position in option.first},
            {position for option in options for position in option.last},
        )
    if isinstance(node, Repeat):
        if node.most <= _COPIES_LIMIT:
            copies = [_fragment(node.item, automaton) for _ in range(node.most)]
            optional = [_Fragment(True, copy.first, copy.last) for copy in copies[node.least :]]
            return _concatenated(copies[: node.least] + optional, automaton)
        part = _fragment(node.item, automaton)
        if not isinstance(node.item, CharSet) and node.least == node.most and node.most <= _FEW_TIMES:
            return part
        automaton.join(part.last, part.first)
        return _Fragment(part.nullable or node.least == 0, part.first, part.last)
    return _EMPTY


def _concatenated(parts: Sequence[_Fragment], automaton: _Automaton) -> _Fragment:
    whole = _EMPTY
    for part in parts:
        automaton.join(whole.last, part.first)
        whole = _Fragment(
            whole.nullable and part.nullable,
            whole.first | part.first if whole.nullable else whole.first,
            whole.last | part.last if part.nullable else part.last,
        )
    return whole


def _is_ambiguous(loop: Repeat) -> bool:
    if isinstance(loop.item, CharSet):
        return False
    automaton = _Automaton()
    body = _fragment(loop.item, automaton)
    if len(automaton.masks) > _POSITIONS_LIMIT:
        return True
    automaton.join(body.last, body.first)
    return automaton.joined_twice or _walks_can_part_and_meet(automaton)


def _walks_can_part_and_meet(automaton: _Automaton) -> bool:
    """Whether two walks over the same text can leave one position, part, and meet again.

    1. Pair up positions that take a character in common: the states of two walks side by side.
    2. Find the pairs that are reachable from a walk paired with itself, and have parted.
    3. Ambiguous if from one of those the walks can meet again. Every position of a loop reaches every other, so two
       walks that meet anywhere can return to where they began.
    """
    count = len(automaton.masks)
    edges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for one in range(count):
        for other in range(one, count):
            if not automaton.masks[one] & automaton.masks[other]:
                continue
            edges[one, other] = [
                (min(pair), max(pair))
                for pair in ((a, b) for a in automaton.follow[one] for b in automaton.follow[other])
                if automaton.masks[pair[0]] & automaton.masks[pair[1]]
            ]
    reverse: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for start, ends in edges.items():
        for end in ends:
            reverse.setdefault(end, []).append(start)
    together = [(position, position) for position in range(count) if (position, position) in edges]
    parted = {pair for pair in _reachable(together, edges) if pair[0] != pair[1]}
    return not parted.isdisjoint(_reachable(together, reverse))


def _reachable(
    starts: Sequence[tuple[int, int]], edges: dict[tuple[int, int], list[tuple[int, int]]]
) -> set[tuple[int, int]]:
    reached = set(starts)
    ahead = list(starts)
    while ahead:
        for pair in edges.get(ahead.pop(), ()):
            if pair not in reached:
                reached.add(pair)
                ahead.append(pair)
    return reached


# Polynomial time: repeats in a row, each of which can end at many places.


@dataclass(frozen=True, slots=True)
class _Span:
    """Characters of one set. ``slack`` is how much the length may vary; 0 for exactly one character."""

    mask: int
    slack: int


def _worst_steps(tree: Node) -> float:
    """About how many steps a failing search takes on the worst line.

    1. Write the pattern as a row of spans.
    2. A search that is not anchored may start anywhere in the line.
    3. Each span with slack that overlaps its successor multiplies the ways to fail. A short one is bounded by its
       slack, a long one by how often what follows it fits into the line.
    4. All unlimited spans share one line: the longer one is, the shorter the others.
    """
    row = _spans(tree)
    unlimited, steps = 0, 1.0
    if not _is_anchored(tree):
        unlimited, steps = 1, MATCH_LIMIT / max(1, _fixed_length(row, 0))
    for index, span in enumerate(row[:-1]):
        successor = row[index + 1]
        if span.slack == 0 or not span.mask & successor.mask:
            continue
        is_long = span.slack >= MATCH_LIMIT
        unlimited += is_long
        is_last = not any(later.slack for later in row[index + 1 :])
        ways = MATCH_LIMIT if is_long else span.slack
        steps *= ways / max(1, 1 if is_last or not is_long else _fixed_length(row, index + 1))
    bodies = [node.inside for node in regex_tree.nodes(tree) if isinstance(node, Assertion) and node.inside is not None]
    look_around = max((_longest(node) for node in bodies), default=1)
    return float(steps * max(1, look_around) / max(1, unlimited) ** unlimited)


def _fixed_length(row: Sequence[_Span], start: int) -> int:
    """How many spans from ``start`` on are exactly one character."""
    count = 0
    for span in row[start:]:
        if span.slack:
            break
        count += 1
    return count


def _spans(node: Node) -> list[_Span]:
    if isinstance(node, CharSet):
        return [_Span(node.mask, 0)]
    if isinstance(node, Concatenation):
        return [span for item in node.items for span in _spans(item)]
    if isinstance(node, Alternation):
        options = [_spans(option) for option in node.options]
        return max(options, key=lambda row: sum(min(span.slack, MATCH_LIMIT) for span in row), default=[])
    if isinstance(node, Repeat):
        item = _spans(node.item)
        if node.most <= 1 or (node.least == node.most and node.most <= _FEW_TIMES):
            return item * node.most
        mask = 0
        for span in item:
            mask |= span.mask
        return [_Span(mask, max(1, min((node.most - node.least) * max(1, len(item)), MATCH_LIMIT)))]
    return []


def _is_anchored(node: Node) -> bool:
    if isinstance(node, Assertion):
        return node.name in {"AT_BEGINNING", "AT_BEGINNING_STRING"}
    if isinstance(node, Concatenation):
        return bool(node.items) and _is_anchored(node.items[0])
    return isinstance(node, Alternation) and bool(node.options) and all(map(_is_anchored, node.options))
