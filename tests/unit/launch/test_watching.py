"""When a job that is watched counts as forgotten: only what the cluster answers says so."""

import pytest

from lastbeat.launch.jobs import ABSENT, Forgetting
from support.row_by_row import labelled

ROWS = [
    ("it has just been forgotten", [(0, ABSENT), (599, ABSENT)], False),
    ("it has been for ten minutes", [(0, ABSENT), (600, ABSENT)], True),
    ("no answer for an hour is none", [(0, None), (600, None), (3600, None)], False),
    ("it was forgotten, and now nobody answers", [(0, ABSENT), (3600, None)], False),
    ("nobody answered, and now it is forgotten", [(0, None), (3600, ABSENT), (3900, ABSENT)], False),
    ("it is known again", [(0, ABSENT), (300, "RUNNING"), (650, ABSENT)], False),
    ("its state is a strange one", [(0, ABSENT), (700, "UNKNOWN")], False),
]


@pytest.mark.parametrize(("answers", "certain"), labelled(ROWS))
def test_a_forgotten_job(answers: list[tuple[float, str | None]], certain: bool) -> None:
    forgetting = Forgetting()

    assert [forgetting.is_certain(answer, at) for at, answer in answers][-1] is certain  # type: ignore[arg-type]
