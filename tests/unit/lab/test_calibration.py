"""Whether confidence means something: what is counted, measured, and measured without a repository's own logs."""

import pytest

from lastbeat.explain.causes.confidence import Grounds
from lastbeat.lab.calibration import brier, calibration_error, diagnosed, reliability
from lastbeat.lab.scoring import Case, Diagnosis, Score, ScoredCase
from support.confidence_levels import FEWEST, crosswise, levels


def row(
    said: float | None, *, right: bool = True, source: str = "a/b", grounds: str = "", error_type: str = "oom"
) -> ScoredCase:
    case = Case("a", "a.log", error_type if right else "nccl", ("storage",), 1, source=source)
    return ScoredCase(case, Diagnosis(None if said is None else error_type, 1, "", said, grounds))


def named(count: int, wrong: int = 0, source: str = "acme/{}", said: float = 0.9) -> list[ScoredCase]:
    value = Grounds.NAMED.value
    return [row(said, right=at >= wrong, source=source.format(at), grounds=value) for at in range(count)]


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


def test_a_level_is_what_was_right_at_its_cautious_end() -> None:
    (few,), (many,) = levels(named(FEWEST)).values(), levels(named(4 * FEWEST)).values()
    (worse,) = levels(named(FEWEST, wrong=3)).values()
    assert worse < 0.7 < few < many < 1
    alike = levels(named(20 * FEWEST, source="acme/one"))[Grounds.NAMED]
    assert alike < few, "one repository is one witness"


def test_each_repository_is_judged_by_the_others() -> None:
    good, bad = named(40), named(20, wrong=20, source="acme/bad")
    now = {Grounds.NAMED: 0.9}
    said = {each.case.source: each.diagnosis.confidence for each in crosswise([*good, *bad], now)}
    assert said["acme/bad"] == pytest.approx(levels(good)[Grounds.NAMED])
    assert said["acme/0"] == pytest.approx(levels([*good[1:], *bad])[Grounds.NAMED])
    assert levels([*good[1:], *bad])[Grounds.NAMED] < 0.9 < levels(good)[Grounds.NAMED]
    contested = crosswise([*good, *named(1, source="acme/other", said=0.8)], now)
    moved = next(each.diagnosis.confidence for each in contested if each.case.source == "acme/other")
    assert moved == pytest.approx(levels(good)[Grounds.NAMED] - 0.1), "what is taken off stays off"
    assert crosswise([row(0.5)], now) == [row(0.5)]
