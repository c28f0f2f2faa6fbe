"""Which patterns could keep the interpreter busy on hostile text, told from the pattern alone."""

import re
from collections.abc import Sequence as Row
from dataclasses import dataclass, field
from typing import Final

from lastbeat.scanning import trees
from lastbeat.scanning.matching import MATCH_LIMIT

STEPS_LIMIT: Final = 2e8
"""Steps of the search in the worst line: a few tenths of a second. What needs more is refused."""
_OFTEN: Final = 8
"""Repeated more often than this, two ways to match one thing are too many ways to match all of them."""
_COPIES_LIMIT: Final = 4
_PLACES_LIMIT: Final = 400


def fault(pattern: str, *, ignore_case: bool = False) -> str | None:
    """What is wrong with a pattern that may take far too long on some line; None for one that may be used.

    Patterns have no back-references, which RE2 does not know either, since no limit holds for what they cost. A look
    around is allowed where it looks at no more than a bounded stretch; the pattern is then not in RE2's syntax.

    Raises what ``re.compile`` raises.
    """
    tree = trees.parse(pattern, ignore_case=ignore_case)
    for node in trees.nodes(tree):
        if isinstance(node, trees.Again) or node is trees.ANYTHING:
            return "refers back to a group, or changes the flags to Unicode; write out what may stand there"
        if isinstance(node, trees.Edge) and node.inside is not None and _longest(node.inside) > MATCH_LIMIT:
            return "looks around without a limit; write {0,80} instead of * or + inside (?=…), (?!…), (?<=…), (?<!…)"
        if isinstance(node, trees.Repeat) and node.most > _OFTEN and _ambiguous(node):
            return (
                f"repeats something that can match the same text in more than one way ({_shown(node)}), which takes "
                "exponential time where it fails; let each repetition begin with a character that nothing else in "
                "it matches"
            )
    steps = _steps(tree)
    if steps > STEPS_LIMIT:
        return (
            f"takes up to {steps:.0e} steps on one line, since several of its repeats can share the same text out "
            "among them in many ways; write .{0,80} instead of .* or put a distinct character between them"
        )
    return None


def unshared(pattern: str, *, ignore_case: bool = False) -> str | None:
    """What in a pattern RE2 does not know; None for one that both engines take."""
    for node in trees.nodes(trees.parse(pattern, ignore_case=ignore_case)):
        if isinstance(node, trees.Again):
            return "a reference back to a group"
        if isinstance(node, trees.Edge) and node.inside is not None:
            return "a look ahead or behind"
        if isinstance(node, trees.Repeat) and node.possessive:
            return "a possessive repeat"
    return None


def _longest(node: trees.Node) -> int:
    """Characters that a match has at most; more than any line has, for no limit."""
    if isinstance(node, trees.Chars):
        return 1
    if isinstance(node, trees.Repeat):
        return min(node.most * _longest(node.item), trees.UNBOUNDED)
    if isinstance(node, trees.Choice):
        return max((_longest(option) for option in node.options), default=0)
    if isinstance(node, trees.Sequence):
        return min(sum(_longest(item) for item in node.items), trees.UNBOUNDED)
    return 0 if isinstance(node, trees.Edge) else trees.UNBOUNDED


def _shown(node: trees.Node) -> str:
    """A hint of which part is meant: the characters that it is about."""
    masks = [inside.mask for inside in trees.nodes(node) if isinstance(inside, trees.Chars)]
    names = []
    for mask in masks[:4]:
        known = trees.characters(mask)
        names.append(known if len(known) <= 2 else "any" if mask & trees.OTHER else f"{known[0]}…{known[-1]}")
    return re.sub(r"\s", " ", " ".join(names)).strip()


# Exponential time: two different ways through the body of a loop with the same text. The places of the pattern's
# characters are the states of an automaton; two walks through it, side by side, show whether they can part and meet.


@dataclass(slots=True)
class _Places:
    masks: list[int] = field(default_factory=list)
    follow: list[set[int]] = field(default_factory=list)
    twice: bool = False
    """Whether one place follows another for two reasons: two ways already."""

    def new(self, mask: int) -> int:
        self.masks.append(mask)
        self.follow.append(set())
        return len(self.masks) - 1

    def join(self, last: set[int], first: set[int]) -> None:
        for place in last:
            self.twice = self.twice or not self.follow[place].isdisjoint(first)
            self.follow[place] |= first


@dataclass(frozen=True, slots=True)
class _Part:
    empty: bool
    first: set[int]
    last: set[int]


_NO_PART: Final = _Part(True, set(), set())


def _part(node: trees.Node, places: _Places) -> _Part:
    if len(places.masks) > _PLACES_LIMIT:
        return _NO_PART
    if isinstance(node, trees.Chars):
        place = places.new(node.mask)
        return _Part(False, {place}, {place})
    if isinstance(node, trees.Sequence):
        return _row([_part(item, places) for item in node.items], places)
    if isinstance(node, trees.Choice):
        options = [_part(option, places) for option in node.options]
        return _Part(
            any(option.empty for option in options),
            {place for option in options for place in option.first},
            {place for option in options for place in option.last},
        )
    if isinstance(node, trees.Repeat):
        if node.most <= _COPIES_LIMIT:
            copies = [_part(node.item, places) for _ in range(node.most)]
            optional = [_Part(True, part.first, part.last) for part in copies[node.least :]]
            return _row(copies[: node.least] + optional, places)
        part = _part(node.item, places)
        if not isinstance(node.item, trees.Chars) and node.least == node.most and node.most <= _OFTEN:
            return part
        places.join(part.last, part.first)
        return _Part(part.empty or node.least == 0, part.first, part.last)
    return _NO_PART


def _row(parts: Row[_Part], places: _Places) -> _Part:
    whole = _NO_PART
    for part in parts:
        places.join(whole.last, part.first)
        whole = _Part(
            whole.empty and part.empty,
            whole.first | part.first if whole.empty else whole.first,
            whole.last | part.last if part.empty else part.last,
        )
    return whole


def _ambiguous(loop: trees.Repeat) -> bool:
    if isinstance(loop.item, trees.Chars):
        return False
    places = _Places()
    body = _part(loop.item, places)
    if len(places.masks) > _PLACES_LIMIT:
        return True
    places.join(body.last, body.first)
    return places.twice or _part_and_meet(places)


def _part_and_meet(places: _Places) -> bool:
    """Whether two walks with the same text, from one place, can part, and meet there again."""
    count = len(places.masks)
    edges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for one in range(count):
        for other in range(one, count):
            if not places.masks[one] & places.masks[other]:
                continue
            edges[one, other] = [
                (min(pair), max(pair))
                for pair in ((a, b) for a in places.follow[one] for b in places.follow[other])
                if places.masks[pair[0]] & places.masks[pair[1]]
            ]
    back: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for start, ends in edges.items():
        for end in ends:
            back.setdefault(end, []).append(start)
    same = [(place, place) for place in range(count) if (place, place) in edges]
    parted = {pair for pair in _reached(same, edges) if pair[0] != pair[1]}
    # All places of a loop reach each other, so two walks that met anywhere can go on to where they began.
    return not parted.isdisjoint(_reached(same, back))


def _reached(starts: Row[tuple[int, int]], edges: dict[tuple[int, int], list[tuple[int, int]]]) -> set[tuple[int, int]]:
    reached = set(starts)
    ahead = list(starts)
    while ahead:
        for pair in edges.get(ahead.pop(), ()):
            if pair not in reached:
                reached.add(pair)
                ahead.append(pair)
    return reached


# Polynomial time: a row of repeats, each of which can end at many places.


@dataclass(frozen=True, slots=True)
class _Stretch:
    """So many characters out of a set: ``spread`` is 0 for exactly one, else how much its length may vary."""

    mask: int
    spread: int


def _steps(tree: trees.Node) -> float:
    """About how many steps a search takes that fails, in the worst line."""
    row = _stretches(tree)
    unbounded, steps = 0, 1.0
    if not _anchored(tree):
        unbounded, steps = 1, MATCH_LIMIT / max(1, _fixed(row, 0))
    for index, stretch in enumerate(row[:-1]):
        following = row[index + 1]
        if stretch.spread == 0 or not stretch.mask & following.mask:
            continue
        far = stretch.spread >= MATCH_LIMIT
        unbounded += far
        # A short way that could be many is bounded by itself, a long one by how often what follows fits into a line.
        last = not any(later.spread for later in row[index + 1 :])
        ways = MATCH_LIMIT if far else stretch.spread
        steps *= ways / max(1, 1 if last or not far else _fixed(row, index + 1))
    inside = [node.inside for node in trees.nodes(tree) if isinstance(node, trees.Edge) and node.inside is not None]
    looks = max((_longest(node) for node in inside), default=1)
    # All of them share one line: the longer one, the shorter the others.
    return float(steps * max(1, looks) / max(1, unbounded) ** unbounded)


def _fixed(row: Row[_Stretch], start: int) -> int:
    """How many single characters stand there in a row."""
    count = 0
    for stretch in row[start:]:
        if stretch.spread:
            break
        count += 1
    return count


def _stretches(node: trees.Node) -> list[_Stretch]:
    if isinstance(node, trees.Chars):
        return [_Stretch(node.mask, 0)]
    if isinstance(node, trees.Sequence):
        return [stretch for item in node.items for stretch in _stretches(item)]
    if isinstance(node, trees.Choice):
        options = [_stretches(option) for option in node.options]
        return max(options, key=lambda row: sum(min(stretch.spread, MATCH_LIMIT) for stretch in row), default=[])
    if isinstance(node, trees.Repeat):
        item = _stretches(node.item)
        if node.most <= 1 or (node.least == node.most and node.most <= _OFTEN):
            return item * node.most
        mask = 0
        for stretch in item:
            mask |= stretch.mask
        return [_Stretch(mask, max(1, min((node.most - node.least) * max(1, len(item)), MATCH_LIMIT)))]
    return []


def _anchored(node: trees.Node) -> bool:
    if isinstance(node, trees.Edge):
        return node.name in {"AT_BEGINNING", "AT_BEGINNING_STRING"}
    if isinstance(node, trees.Sequence):
        return bool(node.items) and _anchored(node.items[0])
    return isinstance(node, trees.Choice) and bool(node.options) and all(map(_anchored, node.options))
