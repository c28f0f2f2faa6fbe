"""Tables whose rows begin with a name or a sentence: one test for each row, or one that names every wrong row."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def check_each(rows: Iterable[tuple[str, tuple[Any, ...]]], check: Callable[..., None]) -> None:
    """Calls ``check`` with the values of each row, and fails with the name of every row that it does not pass.

    A failure of pytest's own counts too: ``pytest.raises`` tells by one that nothing was raised, and pytest-timeout
    that a row hangs. A row that hangs is the last, since no timer runs for those behind it.
    """
    table = list(rows)
    assert table, "a table without rows checks nothing"
    wrong: list[tuple[str, BaseException]] = []
    for name, values in table:
        try:
            check(*values)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001, PERF203 - whatever is wrong with the row
            wrong.append((name, error))
            if "pytest-timeout" in str(error):
                break
    if wrong:
        told = [f"{name}: {type(error).__name__}: {error}" for name, error in wrong]
        raise AssertionError("\n".join([f"rows that are wrong: {len(wrong)} of {len(table)}", *told])) from wrong[0][1]


def labelled(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The rows of a table for ``parametrize``: the first value of each is its id."""
    return [pytest.param(*values, id=name) for name, *values in rows]
