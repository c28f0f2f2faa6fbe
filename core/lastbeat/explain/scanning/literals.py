"""Required literals: text that every match of a pattern contains, so that few lines are searched for the pattern."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, Union

from lastbeat.explain.scanning import regex_tree

Demand = Union[str, "list[Demand]"]
"""A required text, or a formula: all of ``["&", …]``, or at least one of ``["|", …]``."""
Fold = Callable[[str], str]
"""Maps a character to its form in the searched text, or to "" if that drops it."""

ALL: Final = "&"
ANY: Final = "|"
_WIDTH: Final = 24
"""Most distinguished spellings of a stretch of text."""
_LENGTH: Final = 40
"""Most characters of a spelling that is extended further."""
# Common lines of healthy training. A literal that occurs here rules out few lines.
ORDINARY_LINES: Final = (
    (
        " [2026-01-01 00:00:00] iteration 10/ 100 | consumed samples: 10 | elapsed time per iteration (ms): 1.0 |"
        " throughput per gpu (tflop/s/gpu): 1.0 | learning rate: 1.0e-04 | global batch size: 8 | lm loss: 1.0e+00 |"
        " loss scale: 1.0 | grad norm: 1.0 | num zeros: 0 | params norm: 1.0 | number of skipped iterations: 0 |"
        " number of nan iterations: 0 |"
    ),
    " {'loss': 1.0, 'grad_norm': 1.0, 'learning_rate': 1.0, 'epoch': 0.1}",
    " 5%| 1/20 [00:01<00:10, 1.1it/s]",
    " step 1: train loss 1.0, val loss 1.0, time 10.00ms, mfu 1.0%",
    (
        " info - warning: rank 0"
        " worker process node gpu cuda memory allocated nccl info channel model layers parameters tokens dataset data"
        " checkpoint saved saving successfully to path file train.py config arguments true false none"
        " evaluation validation starting using torch python version for with from the and is was in on of at by"
        " distributed group world size"
    ),
)
ORDINARY: Final = "".join(ORDINARY_LINES)
_LETTERS: Final = re.sub("[^a-z]", "", ORDINARY)
_NOTHING: Final = frozenset({""})


def required(pattern: str, *, ignore_case: bool = False, substring: bool = False) -> tuple[str, ...]:
    """Texts of which every matching line has at least one, in lower case with ``ignore_case``.

    Empty if unknown, as for ``\\d+``. Of several such sets, the one that is rarest in logs.
    """
    fold = str.lower if ignore_case else str
    return one_of(demand(pattern, fold, ignore_case=ignore_case, substring=substring))


def demand(pattern: str, fold: Fold, *, ignore_case: bool = False, substring: bool = False) -> Demand | None:
    """Everything that every match contains, as ``fold`` spells it, or None if unknown.

    ``fold`` gets single ASCII characters. With ``ignore_case`` it must not distinguish upper from lower case.
    """
    tree = regex_tree.parse(re.escape(pattern) if substring else pattern, ignore_case=ignore_case)
    return _all(_content(tree, _FoldedSets(fold)).demands)


def one_of(demanded: Demand | None) -> tuple[str, ...]:
    """The rarest set of texts of which one must occur."""
    if demanded is None:
        return ()
    return tuple(sorted(minimal(_rarest(demanded))))


@dataclass(slots=True)
class _FoldedSets:
    fold: Fold
    known: dict[int, frozenset[str] | None] = field(default_factory=dict)

    def __call__(self, mask: int) -> frozenset[str] | None:
        """The forms of the set's characters, or None if they are many."""
        if mask not in self.known:
            texts = frozenset(self.fold(character) for character in regex_tree.characters(mask))
            few = 0 < len(texts) <= 4 and not mask & regex_tree.OTHER
            self.known[mask] = texts if few else None
        return self.known[mask]


@dataclass(frozen=True, slots=True)
class _Content:
    """What a part of the pattern can match: all spellings (``exact``) if they are few, else its required texts."""

    exact: frozenset[str] | None
    inside: tuple[Demand, ...] = ()

    @property
    def demands(self) -> tuple[Demand, ...]:
        return self.inside if self.exact is None else _texts(self.exact)


def _texts(exact: frozenset[str]) -> tuple[Demand, ...]:
    # A single character is in nearly every line.
    return () if any(len(text) < 2 for text in exact) else (_any(sorted(minimal(exact))),)


def minimal(texts: Iterable[str]) -> set[str]:
    """``texts`` without those that contain another of them, which add nothing."""
    known = set(texts)
    return {text for text in known if not any(other != text and other in text for other in known)}


def _content(node: regex_tree.Node, folded: _FoldedSets) -> _Content:
    if isinstance(node, regex_tree.CharSet):
        return _Content(folded(node.mask))
    if isinstance(node, regex_tree.Assertion):
        return _Content(_NOTHING)
    if isinstance(node, regex_tree.Concatenation):
        return _in_concatenation([_content(item, folded) for item in node.items])
    if isinstance(node, regex_tree.Alternation):
        return _in_alternation([_content(option, folded) for option in node.options])
    if isinstance(node, regex_tree.Repeat):
        return _in_repeat(_content(node.item, folded), node.least, node.most)
    return _Content(None)


def _in_concatenation(parts: Sequence[_Content]) -> _Content:
    demands: list[Demand] = []
    run, whole = _NOTHING, True
    for part in parts:
        joined = _joined(run, part.exact) if part.exact is not None else None
        if joined is not None:
            run = joined
            continue
        whole = False
        demands += _texts(run)
        demands += part.inside
        run = part.exact if part.exact is not None else _NOTHING
    if whole:
        return _Content(run)
    return _Content(None, (*demands, *_texts(run)))


def _joined(first: frozenset[str], second: frozenset[str]) -> frozenset[str] | None:
    if len(first) * len(second) > _WIDTH or max(map(len, first)) > _LENGTH:
        return None
    return frozenset(before + after for before, after in product(first, second))


def _in_alternation(options: Sequence[_Content]) -> _Content:
    exact = frozenset().union(*(option.exact or () for option in options))
    if len(exact) <= _WIDTH and all(option.exact is not None for option in options):
        return _Content(exact)
    demanded = [_all(option.demands) for option in options]
    known = [each for each in demanded if each is not None]
    return _Content(None, (_any(known),) if len(known) == len(demanded) else ())


def _in_repeat(item: _Content, least: int, most: int) -> _Content:
    if item.exact == _NOTHING or (least == most == 1):
        return item
    if least == 0:
        return _Content(item.exact | _NOTHING if most == 1 and item.exact is not None else None)
    if least == most <= 4:
        return _in_concatenation([item] * least)
    return _in_concatenation([item, _Content(None), item] if least > 1 else [_Content(None, item.demands)])


def _all(demands: Sequence[Demand]) -> Demand | None:
    return _combined(ALL, demands) if demands else None


def _any(demands: Sequence[Demand]) -> Demand:
    return _combined(ANY, demands)


def _combined(how: str, demands: Sequence[Demand]) -> Demand:
    """One formula without repetitions or nested formulas of the same kind."""
    flat: list[Demand] = []
    for each in demands:
        parts = each[1:] if isinstance(each, list) and each[0] == how else [each]
        flat += [part for part in parts if part not in flat]
    return flat[0] if len(flat) == 1 else [how, *flat]


def _rarest(demanded: Demand) -> frozenset[str]:
    if isinstance(demanded, str):
        return frozenset({demanded})
    how, *parts = demanded
    sets = [_rarest(part) for part in parts]
    return frozenset().union(*sets) if how == ANY else max(sets, key=_worth)


def _worth(texts: Iterable[str]) -> tuple[float, list[str]]:
    """A guess how rarely a line contains any of the texts: long and unusual ones are rare."""
    known = sorted(texts)
    ordinary = any(text.lower() in ORDINARY or text.lower() in _LETTERS for text in known)
    return min(*map(len, known), 12) - 8 * ordinary - 0.2 * len(known), known
