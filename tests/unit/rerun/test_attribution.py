"""Who is to blame for a bad result, as a table of all paths."""

from itertools import combinations

import pytest

from lastbeat.rerun.attribution import (
    MOST_RERUNS,
    CheckedResult,
    PassEvent,
    RerunPhase,
    Suspect,
    following,
    look,
)

HERE, THERE = "GPU-1", "GPU-2"


def result(value: float, why: str | None = None, *, name: str = "loss", number: int = 1) -> CheckedResult:
    return CheckedResult(name, number, value, why, lambda other: other == value)


GOOD = result(2.5)
BAD = result(900.0, "loss is unexpectedly large")
OTHER_BAD = result(700.0, "loss is unexpectedly large")
SECOND_BAD = result(800.0, "loss is unexpectedly large", number=2)
NORM_BAD = result(1e9, "norm is Inf", name="norm")


def suspect(*, fatal: bool = False) -> Suspect:
    return Suspect("loss", 1, 900.0, "loss is unexpectedly large", 7, 3, HERE, "n1", fatal)


@pytest.mark.parametrize(
    ("phase", "doubted", "results", "device", "expected"),
    [
        pytest.param(RerunPhase.IN_PLACE, suspect(), [OTHER_BAD], HERE, "reproduced",
                     id="a bad result again, but another one"),
        pytest.param(RerunPhase.IN_PLACE, suspect(), [result(900.0)], HERE, "reproduced",
                     id="the same result, which is within the limits now"),
        pytest.param(RerunPhase.IN_PLACE, suspect(), [], HERE, "unreached",
                     id="a re-run that does not come to it tells nothing"),
        pytest.param(RerunPhase.IN_PLACE, suspect(), [GOOD, SECOND_BAD], HERE, "not_reproduced rejected",
                     id="good again, and the next of the same name bad"),
        pytest.param(RerunPhase.IN_PLACE, None, [BAD], HERE, "rejected",
                     id="bad in the re-run that another rank had asked for"),
        pytest.param(RerunPhase.ELSEWHERE, suspect(), [BAD, SECOND_BAD], THERE, "same_result",
                     id="with others of its name bad: they have the same reason"),
        pytest.param(RerunPhase.ELSEWHERE, suspect(), [], THERE, "unreached", id="not come to after the resume"),
    ],
)  # fmt: skip
def test_what_a_pass_shows_on_one_rank(
    phase: RerunPhase, doubted: Suspect | None, results: list[CheckedResult], device: str, expected: str
) -> None:
    found = look(phase, doubted, results, device, settled=())
    assert " ".join(sorted(each.value for each in found.events)) == expected


def test_results_that_nobody_can_compare_tell_nothing() -> None:
    unknown = CheckedResult("loss", 1, object(), None, lambda _: None)
    assert look(RerunPhase.ELSEWHERE, suspect(), [unknown], THERE, ()).events == {PassEvent.UNREACHED}


def test_what_is_known_to_be_the_maths_is_not_run_again() -> None:
    assert look(RerunPhase.INITIAL, None, [BAD], HERE, {"loss"}).events == set()
    assert look(RerunPhase.INITIAL, None, [BAD, NORM_BAD], HERE, {"loss"}).fresh == NORM_BAD


@pytest.mark.parametrize(
    ("phase", "agreed", "reruns", "then"),
    [
        pytest.param(RerunPhase.IN_PLACE, "not_reproduced reproduced", 1, RerunPhase.LEAVING,
                     id="reproduced on one rank of two"),
        pytest.param(RerunPhase.IN_PLACE, "not_reproduced rejected", 1, RerunPhase.IN_PLACE,
                     id="never goes on with a bad result"),
        pytest.param(RerunPhase.IN_PLACE, "rejected", MOST_RERUNS, RerunPhase.LEAVING, id="but not for ever"),
        pytest.param(RerunPhase.ELSEWHERE, "same_device", 0, RerunPhase.STUCK, id="the same device: once more"),
        pytest.param(RerunPhase.ELSEWHERE, "differs same_device", 0, RerunPhase.FAILED,
                     id="one verdict outranks one missing"),
        pytest.param(RerunPhase.ELSEWHERE, "rejected same_result", 0, RerunPhase.IN_PLACE,
                     id="correct, and another one is bad"),
    ],
)  # fmt: skip
def test_what_follows_from_what_all_ranks_saw(phase: RerunPhase, agreed: str, reruns: int, then: RerunPhase) -> None:
    assert following(phase, {PassEvent(each) for each in agreed.split()}, reruns) is then


def test_training_never_goes_on_with_a_result_that_nobody_has_judged() -> None:
    for size in range(len(PassEvent) + 1):
        for agreed in combinations(PassEvent, size):
            for phase in (RerunPhase.INITIAL, RerunPhase.IN_PLACE, RerunPhase.ELSEWHERE):
                then = following(phase, agreed, 1)
                assert then is not RerunPhase.READY or PassEvent.REJECTED not in agreed
                assert then is not phase or phase is RerunPhase.IN_PLACE
