"""What a pattern looks like to a shape: the same pattern over letters alone, for lines that come again and again."""

import re
import string
from typing import Final, NamedTuple

from lastbeat.scanning import trees
from lastbeat.scanning.shapes import fold

_ALPHABET: Final = frozenset(string.ascii_letters + "^")
_LONGEST: Final = 2000
_COPIES: Final = 4


class _Gap(NamedTuple):
    """From ``least`` to ``most`` letters out of a few."""

    letters: frozenset[str]
    least: int
    most: int

    def __str__(self) -> str:
        letters = "".join(sorted(self.letters - {"^"})) + ("^" if "^" in self.letters else "")
        inside = f"[{letters}]" if letters != "^" else r"\^"
        if (self.least, self.most) == (1, 1):
            return inside
        return f"{inside}{{{self.least},{'' if self.most >= _LONGEST else self.most}}}"


class Image(NamedTuple):
    """Of a pattern: it matches the shape of whatever the pattern matches."""

    pattern: "re.Pattern[str]"
    floating: bool
    """Whether it does not matter to the pattern what stands around a match, so that it may be searched for in a text
    of many lines, prefixes and all."""


def image_of(pattern: str, *, ignore_case: bool) -> Image:
    tree = trees.parse(pattern, ignore_case=ignore_case)
    floating = all(not isinstance(node, trees.Edge) or node.name == "AT_BOUNDARY" for node in trees.nodes(tree))
    return Image(re.compile(_written(_Row().add(tree)), re.IGNORECASE if ignore_case else 0), floating)


class _Row:
    def __init__(self) -> None:
        self.tokens: list[_Gap | str] = []

    def add(self, node: trees.Node) -> "_Row":
        if isinstance(node, trees.Chars):
            self._gap(_gap(node.mask))
        elif isinstance(node, trees.Sequence):
            for item in node.items:
                self.add(item)
        elif isinstance(node, trees.Choice):
            self.tokens.append("(?:" + "|".join(_written(_Row().add(option)) for option in node.options) + ")")
        elif isinstance(node, trees.Repeat):
            self._repeat(node)
        elif isinstance(node, trees.Again):
            self._gap(_Gap(_ALPHABET, 0, _LONGEST))
        return self

    def _repeat(self, node: trees.Repeat) -> None:
        if isinstance(node.item, trees.Chars):
            once = _gap(node.item.mask)
            self._gap(_Gap(once.letters, once.least * min(node.least, _LONGEST), min(node.most, _LONGEST)))
        elif node.most <= 1:
            inside = _written(_Row().add(node.item))
            if inside:
                self.tokens.append(f"(?:{inside})?" if node.least == 0 else f"(?:{inside})")
        elif node.least == node.most <= _COPIES:
            for _ in range(node.most):
                self.add(node.item)
        else:
            # A repeat in a repeat would be more than a shape's few letters can keep apart, and so slow.
            letters = [
                _gap(inside.mask).letters for inside in trees.nodes(node.item) if isinstance(inside, trees.Chars)
            ]
            anything = any(isinstance(inside, trees.Again) for inside in trees.nodes(node.item))
            self._gap(_Gap(_ALPHABET if anything else frozenset().union(*letters), 0, _LONGEST))

    def _gap(self, gap: _Gap) -> None:
        if not gap.letters:
            return
        before = self.tokens[-1] if self.tokens else None
        if isinstance(before, _Gap) and gap.least < gap.most and before.least < before.most:
            # Two in a row could share their letters out in many ways.
            both = before.letters | gap.letters
            self.tokens[-1] = _Gap(both, before.least + gap.least, min(before.most + gap.most, _LONGEST))
        else:
            self.tokens.append(gap)


def _gap(mask: int) -> _Gap:
    letters = {fold(character, ignore_case=False) for character in trees.characters(mask)}
    erased = "" in letters or bool(mask & trees.OTHER)
    return _Gap(frozenset(letters - {""}), 0 if erased else 1, 1)


def _written(row: _Row) -> str:
    return "".join(map(str, row.tokens))
