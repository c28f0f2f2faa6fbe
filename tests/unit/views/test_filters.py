"""Which runs a filter leaves, and in which order people may have them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.scanning import backtracking
from lastbeat.model.state import ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import Row
from lastbeat.views.documents import row_document
from lastbeat.views.filters import parse
from lastbeat.views.row_keys import known_keys, sorted_by, telling_keys
from support.filter_table import REFUSED, ROWS, SENTENCES


@pytest.mark.parametrize(("words", "expected"), SENTENCES.values(), ids=SENTENCES)
def test_a_filter_leaves(words: str, expected: set[str]) -> None:
    asked = parse(words)
    assert ({row.run_id for row in ROWS if asked.matches(row)}, asked.fault) == (expected, None)


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_what_may_hang_or_means_nothing_is_refused(words: str) -> None:
    for unwanted in ("", "-"):
        asked = parse(unwanted + words)
        assert asked.fault is not None
        assert not any(asked.matches(row) for row in ROWS)


@given(st.text(st.sampled_from("ab.*+?()[]|{}1,2^$\\d-"), max_size=60))
def test_no_accepted_expression_takes_exponential_time(source: str) -> None:
    asked = parse(f"/{source}/")
    assert asked.fault is not None or "exponential" not in (backtracking.fault(source, ignore_case=True) or "")
    asked.matches(Row("a" * 500, ShownState(Status.RUNNING)))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        pytest.param(["lr"], [1, 0, 2], id="numbers, also where they are texts; what has none is last"),
        pytest.param(["-lr"], [0, 1, 2], id="from large to small; what has none is last still"),
        pytest.param(["loss"], [0, 1, 2], id="NaN is not known"),
        pytest.param(["-owner"], [1, 0, 2], id="texts"),
        pytest.param(["total_steps", "-gpus"], [0, 1, 2], id="equals by the next key"),
        pytest.param(["total_steps", "gpus"], [1, 0, 2], id="and by the next key the other way"),
        pytest.param(["-status"], [2, 1, 0], id="the order of need"),
        pytest.param(["nothing"], [0, 1, 2], id="what none has leaves the order"),
    ],
)
def test_runs_sort(order: list[str], expected: list[int]) -> None:
    assert [ROWS.index(row) for row in sorted_by(ROWS, order)] == expected


def test_rows_have_the_values_that_are_asked_for_alone() -> None:
    assert "values" not in row_document(ROWS[0])
    values = row_document(ROWS[1], keys=["lr", "eval/acc", "gpus", "nothing"])["values"]
    assert values == {"lr": "1e-4", "eval/acc": "Infinity", "gpus": 4}
    assert known_keys(ROWS) == ["eval/acc", "flash", "optim.lr", "optimizer"]


def test_a_file_has_the_keys_in_which_runs_differ_as_far_as_there_is_room() -> None:
    assert telling_keys(ROWS) == ["optim.lr", "optimizer"]
    assert len(telling_keys([*ROWS, *([ROWS[2]] * 15_000)])) == 1
