"""Whether confidence means something: what is counted, measured, and measured without a repository's own logs."""

import pytest

from lastbeat.lab.calibration import brier, calibration_error, diagnosed, reliability
from lastbeat.lab.scoring import Case, Diagnosis, Score, ScoredCase


def row(
    said: float | None, *, right: bool = True, source: str = "a/b", grounds: str = "", error_type: str = "oom"
) -> ScoredCase:
    case = Case("a", "a.log", error_type if right else "nccl", ("storage",), 1, source=source)
    return ScoredCase(case, Diagnosis(None if said is None else error_type, 1, "", said, grounds))


def test_that_nothing_was_found_or_nothing_is_known_is_no_cause() -> None:
    rows = [row(0.9), row(None), row(0.2, error_type="unknown")]
    assert diagnosed(Score(rows)) == rows[:1]


def test_what_was_said_by_tenths_the_highest_first() -> None:
    accepted = ScoredCase(Case("a", "a.log", "nccl", ("oom",), 1), Diagnosis("oom", 1, "", 0.94))
    rows = [row(1.0), row(0.92), accepted, row(0.48, right=False), row(0.42)]
    found = reliability(rows)
    assert [(each.logs, each.right, each.accepted) for each in found] == [(3, 2, 3), (2, 1, 1)]
    assert [each.said for each in found] == pytest.approx([(1.0 + 0.92 + 0.94) / 3, 0.45])


def test_how_far_off_it_was() -> None:
    assert brier([row(1.0), row(0.0, right=False)]) == 0
    assert brier([row(0.5), row(0.5, right=False)]) == 0.25
    assert calibration_error([row(0.5), row(0.5, right=False)]) == 0
    assert calibration_error([row(0.9), row(0.9, right=False)]) == pytest.approx(0.4)
    assert (brier([]), calibration_error([])) == (0, 0)
