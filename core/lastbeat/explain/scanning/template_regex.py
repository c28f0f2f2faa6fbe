"""Translates a pattern for line templates: the result matches the template of every line that the pattern matches."""

import re
import string
from typing import Final, NamedTuple

from lastbeat.explain.scanning import regex_tree
from lastbeat.explain.scanning.line_templates import fold
from lastbeat.explain.scanning.regex_tree import (
    Alternation,
    Assertion,
    BackReference,
    CharSet,
    Concatenation,
    Node,
    Repeat,
)

_ALPHABET: Final = frozenset(string.ascii_letters + "^")
_UNLIMITED: Final = 2000
"""Repetitions that count as unlimited."""
_COPIES_LIMIT: Final = 4
"""Most repetitions that are written out."""
_SHORT: Final = 200
"""Most repetitions of a repeat that does not run on over many lines."""
_NEWLINE: Final = 1 << ord("\n")


class TemplateRegex(NamedTuple):
    """A translated pattern. It admits more than the original, never less."""

    pattern: "re.Pattern[str]"
    is_context_free: bool
    """The original may be searched for in text of many lines with their prefixes: except for word boundaries, it does
    not depend on what surrounds a match, and nothing in it runs on over many lines, which would take long."""


def template_regex(pattern: str, *, ignore_case: bool) -> TemplateRegex:
    """Translate ``pattern``.

    1. Each character set becomes those of its letters that templates keep.
    2. Characters that templates drop become optional.
    3. Assertions are dropped.
    4. Neighbouring runs of varying length, and nested repeats, are merged: they could make the search exponential.
    """
    tree = regex_tree.parse(pattern, ignore_case=ignore_case)
    is_context_free = all(
        node.name == "AT_BOUNDARY" if isinstance(node, Assertion) else not _runs_on(node)
        for node in regex_tree.nodes(tree)
    )
    compiled = re.compile(_written(_Row().add(tree)), re.IGNORECASE if ignore_case else 0)
    return TemplateRegex(compiled, is_context_free)


def _runs_on(node: Node) -> bool:
    inside = regex_tree.nodes(node) if isinstance(node, Repeat) and node.most > _SHORT else ()
    return any(isinstance(each, CharSet) and each.mask & _NEWLINE for each in inside)


class _Run(NamedTuple):
    """From ``least`` to ``most`` letters of a set."""

    letters: frozenset[str]
    least: int
    most: int

    def __str__(self) -> str:
        letters = "".join(sorted(self.letters - {"^"})) + ("^" if "^" in self.letters else "")
        inside = r"\^" if letters == "^" else letters if len(letters) == 1 else f"[{letters}]"
        if (self.least, self.most) == (1, 1):
            return inside
        return f"{inside}{{{self.least},{'' if self.most >= _UNLIMITED else self.most}}}"


class _Row:
    def __init__(self) -> None:
        self.tokens: list[_Run | str] = []

    def add(self, node: Node) -> "_Row":
        if isinstance(node, CharSet):
            self._add_run(_run(node.mask))
        elif isinstance(node, Concatenation):
            for item in node.items:
                self.add(item)
        elif isinstance(node, Alternation):
            self.tokens.append("(?:" + "|".join(_written(_Row().add(option)) for option in node.options) + ")")
        elif isinstance(node, Repeat):
            self._add_repeat(node)
        elif isinstance(node, BackReference):
            self._add_run(_Run(_ALPHABET, 0, _UNLIMITED))
        return self

    def _add_repeat(self, node: Repeat) -> None:
        if isinstance(node.item, CharSet):
            once = _run(node.item.mask)
            self._add_run(_Run(once.letters, once.least * min(node.least, _UNLIMITED), min(node.most, _UNLIMITED)))
        elif node.most <= 1:
            inside = _written(_Row().add(node.item))
            if inside:
                self.tokens.append(f"(?:{inside})?" if node.least == 0 else f"(?:{inside})")
        elif node.least == node.most <= _COPIES_LIMIT:
            for _ in range(node.most):
                self.add(node.item)
        else:
            # Without digits and punctuation, a repeat of repeats may be ambiguous and so exponential.
            letters = [
                _run(inside.mask).letters for inside in regex_tree.nodes(node.item) if isinstance(inside, CharSet)
            ]
            anything = any(isinstance(inside, BackReference) for inside in regex_tree.nodes(node.item))
            self._add_run(_Run(_ALPHABET if anything else frozenset().union(*letters), 0, _UNLIMITED))

    def _add_run(self, run: _Run) -> None:
        if not run.letters:
            return
        before = self.tokens[-1] if self.tokens else None
        if isinstance(before, _Run) and run.least < run.most and before.least < before.most:
            # Two runs of varying length in a row could divide letters between them in many ways: merge them.
            both = before.letters | run.letters
            self.tokens[-1] = _Run(both, before.least + run.least, min(before.most + run.most, _UNLIMITED))
        else:
            self.tokens.append(run)


def _run(mask: int) -> _Run:
    letters = {fold(character, ignore_case=False) for character in regex_tree.characters(mask)}
    may_be_dropped = "" in letters or bool(mask & regex_tree.OTHER)
    return _Run(frozenset(letters - {""}), 0 if may_be_dropped else 1, 1)


def _written(row: _Row) -> str:
    return "".join(map(str, row.tokens))
