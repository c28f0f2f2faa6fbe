"""The table of conditions in docs/statuses.md against the table in the code."""

from lastbeat.explain.signals.error_types import TYPES
from lastbeat.model.health import HEALTH_CONDITIONS
from lastbeat.watch.decide.conditions import table
from lastbeat.watch.decide.conditions.condition import Condition

NAMES = {row.name for row in table.TABLE}


def test_whatever_raises_a_condition_has_a_row() -> None:
    raised = {*HEALTH_CONDITIONS, *(each.traits.condition for each in TYPES.values())}
    assert raised - NAMES == set()


def test_a_row_is_one_line_of_the_table() -> None:
    def fits(row: Condition) -> bool:
        return bool(row.meaning) and not set("|\n") & set(row.meaning)

    assert [row.name for row in table.TABLE if not fits(row)] == []
