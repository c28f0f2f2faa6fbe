"""Few rows in place of the product of several axes."""

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any


def all_pairs(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Rows in which each pair of values of any two axes occurs, the same rows each time.

    The choice is the greedy one of AETG: D. M. Cohen, S. R. Dalal, M. L. Fredman and G. C. Patton, "The AETG System: An
    Approach to Testing Based on Combinatorial Design", IEEE Transactions on Software Engineering 23(7), 1997. A row
    begins with a pair that no row has yet. Each further axis adds the value that brings the most new pairs. AETG takes
    the axes in random order and keeps the best of many rows; here the longest axes come first, once.
    """
    values = [list(axis) for axis in axes]
    # A value goes by its axis and its position there, so that it need not be hashable.
    places = [[(axis, at) for at in range(len(each))] for axis, each in enumerate(values)]
    places.sort(key=len, reverse=True)
    missing = dict.fromkeys(frozenset(pair) for two in combinations(places, 2) for pair in product(*two))
    uses = dict.fromkeys((place for axis in places for place in axis), 0)
    rows = []
    while missing:
        row = set(next(iter(missing)))
        for axis in places:
            if row.isdisjoint(axis):
                new = {place: sum(frozenset((place, other)) in missing for other in row) for place in axis}
                row.add(max(axis, key=lambda place: (new[place], -uses[place])))
        for place in row:
            uses[place] += 1
        for pair in combinations(row, 2):
            missing.pop(frozenset(pair), None)
        rows.append(tuple(values[axis][at] for axis, at in sorted(row)))
    return rows
