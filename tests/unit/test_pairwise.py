"""Pairwise rows stand for a whole product: no pair of values may be left out."""

from itertools import combinations, product

import pytest

from support.pairwise import all_pairs


@pytest.mark.parametrize("sizes", [(2, 2), (5, 6, 2, 2), (2, 2, 3, 4), (2, 2, 2, 2, 2, 2), (1, 3, 1), (7, 3, 4, 2, 5)])
def test_every_pair_of_values_of_any_two_axes_occurs(sizes: tuple[int, ...]) -> None:
    axes = [[f"value {at} of axis {axis}" for at in range(size)] for axis, size in enumerate(sizes)]
    rows = all_pairs(*axes)
    found = {pair for row in rows for pair in combinations(row, 2)}
    assert found == {pair for two in combinations(axes, 2) for pair in product(*two)}
    *_, second, first = sorted(sizes)
    assert len(rows) <= 2 * first * second
    assert rows == all_pairs(*axes), "a row that fails is there again"
