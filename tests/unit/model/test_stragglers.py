"""Stragglers: scores against the rule done by hand, what is flagged and when, and laws that hold for any windows."""

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.straggler_lines import report_fields, report_json, report_lines
from lastbeat.model.stragglers import (
    Basis,
    Detector,
    RankWindow,
    Scores,
    StragglerReport,
    Thresholds,
    comparable,
    flags,
    read_window,
    scores,
    window_fields,
)
from support.straggler_traces import windows as simulated

EVEN = (1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.0)


def told(*own_s: float, number: int = 1, best_s: float | None = None, **more: object) -> list[RankWindow]:
    """A window of each rank, whose own times are these, and which had the best ones that ``best_s`` says."""
    found = []
    for rank, own in enumerate(own_s):
        best = own if best_s is None else min(best_s, own)
        found.append(RankWindow(rank, number, 100, own, own, best, best, "compute", f"n{rank // 4}"))
    return [replace(each, **more) for each in found]  # type: ignore[arg-type]


ROWS = [
    pytest.param(told(*EVEN), (), (), False, id="ranks that differ by 2 %"),
    pytest.param(told(*EVEN[:-1], 1.5), (7,), (), False, id="one takes half as long again: below 0.7"),
    pytest.param(told(*EVEN[:-1], 1.2), (7,), (), False, id="one takes 20 % longer: 0.83, and an outlier"),
    pytest.param(told(*EVEN[:-1], 1.08), (), (), False, id="an outlier of 8 %, which is worth no word"),
    pytest.param(told(1.0, 1.1, 0.9, 1.15, 0.85, 1.05, 0.95, 1.2), (), (), False, id="ranks that are far apart anyway"),
    pytest.param(told(1.0, 1.2), (), (), False, id="two ranks: nobody knows what is usual"),
    pytest.param(told(1.0, 1.6), (1,), (), False, id="two ranks, one below the threshold"),
    pytest.param(told(0.2, 1.0, 1.0, 1.0), (), (), False, id="one has nothing to do: the others are no stragglers"),
    pytest.param(told(1.0, 1.0, 2.0, 2.0), (2, 3), (), False, id="half of them are twice as slow"),
    pytest.param(told(1.6, best_s=1.0), (), (), True, id="one rank alone that became slow is a slow job"),
    pytest.param(told(1.6, 1.6, 1.6, 1.6, best_s=1.0), (), (), True, id="all became slow together"),
    pytest.param(told(1.0, 1.0, 1.0, 1.5, best_s=1.0), (3,), (3,), False, id="one became slow"),
    pytest.param(told(1.6, 1.6, 1.6, 3.0, best_s=1.0), (3,), (3,), False, id="all became slow, and one far more"),
    pytest.param(
        [*told(1.0, 1.0, 1.0), *(replace(each, rank=3, basis="step") for each in told(9.0))],
        (), (), False, id="a rank that tells of another kind of time is not compared",
    ),
    pytest.param(told(1.0, 1.0, 9.0, 9.0, steps=2), (), (), False, id="too few steps"),
    pytest.param([], (), (), False, id="nobody has told anything"),
]  # fmt: skip


@pytest.mark.parametrize(("windows", "relative", "individual", "slow"), ROWS)
def test_what_one_window_shows(
    windows: list[RankWindow], relative: tuple[int, ...], individual: tuple[int, ...], slow: bool
) -> None:
    found = flags(windows)
    assert (sorted(found.relative), sorted(found.individual), found.slow) == ([*relative], [*individual], slow)


def test_each_score_can_be_switched_off() -> None:
    windows = told(1.0, 1.0, 1.0, 1.5, best_s=1.0)
    no_relative, no_individual = Thresholds(relative=None), Thresholds(individual=None)
    assert (flags(windows, no_relative).relative, scores(windows, no_relative).relative) == (frozenset(), {})
    assert flags(windows, no_relative).individual == {3}
    assert (flags(windows, no_individual).individual, scores(windows, no_individual).individual) == (frozenset(), {})
    assert flags(windows, no_individual).relative == {3}


TIMES = st.floats(1e-4, 1e4)


@st.composite
def any_windows(draw: st.DrawFn) -> list[RankWindow]:
    bases: st.SearchStrategy[Basis] = st.sampled_from(["compute", "outside_collectives", "step"])
    found = []
    for rank in draw(st.lists(st.integers(0, 40), max_size=12, unique=True)):
        step_s, own_s = draw(TIMES), draw(TIMES)
        best = draw(st.floats(0.01, 1.0))
        steps, number = draw(st.integers(1, 9)), draw(st.integers(1, 4))
        found.append(
            RankWindow(rank, number, steps, step_s, own_s, step_s * best, own_s * best, draw(bases), f"n{rank // 4}")
        )
    return found


@given(any_windows())
def test_scores_are_those_of_brute_force(windows: list[RankWindow]) -> None:
    compared = comparable(windows)
    found = scores(windows)
    assert found.relative == {
        one.rank: max(other.own_s / one.own_s for other in compared if all(other.own_s <= o.own_s for o in compared))
        for one in compared
    }
    assert found.individual == {one.rank: one.best_own_s / one.own_s for one in compared}
    assert all(0 < score <= 1 for score in (*found.relative.values(), *found.individual.values()))
    assert not compared or 1.0 in found.relative.values()


@given(any_windows())
def test_a_flagged_rank_is_slower_than_most(windows: list[RankWindow]) -> None:
    found, compared = flags(windows), comparable(windows)
    own = {each.rank: each.own_s for each in compared}
    assert all(own[rank] > 1.1 * median(own.values()) for rank in found.relative)
    assert 2 * len(found.relative) <= len(compared)
    assert not (found.slow and (found.relative or found.individual))


@given(any_windows(), st.randoms())
def test_the_order_of_ranks_does_not_matter(windows: list[RankWindow], order: random.Random) -> None:
    other = [*windows]
    order.shuffle(other)
    assert flags(other) == flags(windows)


@given(any_windows())
def test_a_heartbeat_tells_a_window_whole(windows: list[RankWindow]) -> None:
    for each in windows:
        read = read_window(window_fields(each), each.rank, each.node)
        assert read is not None
        assert read.own_s == pytest.approx(each.own_s, rel=1e-4)
        assert (read.rank, read.number, read.steps, read.basis, read.node) == (
            each.rank, each.number, each.steps, each.basis, each.node,
        )  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["number", "steps", "of", "step_s", "own_s", "best_step_s", "best_own_s"]), JSON)
)
def test_a_hostile_heartbeat_gives_no_window_or_a_sound_one(fields: Mapping[str, object]) -> None:
    found = read_window(fields, 3, "x" * 500)
    if found is not None:
        assert len(found.node) <= 100
        assert 0 < found.best_own_s <= found.own_s
        assert all(0 < each <= 1 for each in scores([replace(found, steps=9)]).individual.values())


def reports(*windows: list[RankWindow], world: int = 8) -> list[StragglerReport]:
    """The reports after each."""
    detector, found = Detector(), []
    for number, each in enumerate(windows, 1):
        numbered = [replace(one, number=number) if one.number == 1 else one for one in each]
        detector, report = detector.judge(numbered, world)
        found.append(report)
    return found


FINE, ILL = told(*EVEN), told(*EVEN[:-1], 2.0)
ILL_BEFORE = told(*EVEN[:-1], 2.0, number=-1)
OVER_TIME = [
    pytest.param([ILL], False, id="one window may be chance"),
    pytest.param([ILL, ILL], True, id="two in a row"),
    pytest.param([ILL, FINE, ILL], True, id="two of three"),
    pytest.param([ILL, FINE, FINE, ILL], False, id="two of four"),
    pytest.param([ILL, ILL, FINE], True, id="one good window does not clear it"),
    pytest.param([ILL, ILL, FINE, FINE], False, id="two do"),
    pytest.param([ILL, ILL[:-1], ILL], True, id="a window that came too late counts neither way"),
    pytest.param([ILL, ILL, ILL[:-1]], True, id="nor does it clear a flag"),
    pytest.param([ILL, ILL, ILL[:-1], ILL[:-1], ILL[:-1]], False, id="a rank that is lost is forgotten"),
    pytest.param([ILL_BEFORE, ILL_BEFORE, ILL_BEFORE], False, id="a window that was told before counts once"),
    pytest.param([told(*EVEN[:-1], 2.0, number=40), ILL_BEFORE], True, id="a rank that was started again counts anew"),
]


@pytest.mark.parametrize(("windows", "expected"), OVER_TIME)
def test_a_rank_is_a_straggler_after_two_of_three_windows(windows: list[list[RankWindow]], expected: bool) -> None:
    assert (7 in reports(*windows)[-1].worse) is expected


def test_a_smaller_world_leaves_no_ranks_of_the_larger_one_behind() -> None:
    report = reports(ILL, ILL, world=7)[-1]
    assert (report.worse, len(report.scores.relative)) == ((), 7)


def test_clocks_do_not_matter_for_windows_are_told_by_their_numbers() -> None:
    """Ranks that began at other times, on machines with other clocks, number their windows as they come."""
    late = [replace(each, number=1 if each.rank % 2 else 40) for each in ILL]
    later = [replace(each, number=2 if each.rank % 2 else 43) for each in ILL]
    detector, _ = Detector().judge(late, 8)
    assert detector.judge(later, 8)[1].worse == (7,)


def test_stragglers_are_told_worst_first_with_their_nodes() -> None:
    slow = told(1.0, 1.0, 1.0, 1.0, 3.0, 2.0, 1.0, 2.5)
    report = reports(slow, slow)[-1]
    assert [each.rank for each in report.stragglers] == [4, 7, 5]
    assert report.slow_nodes == {"n1": (3, 4)}
    assert report.stragglers[0].relative == pytest.approx(1 / 3)


def detected(slowed: Callable[[int, int], float], count: int, seed: int = 7) -> list[set[int]]:
    """Of a simulated training of 512 ranks: who was a straggler after each window."""
    detector, found = Detector(), []
    for windows in simulated(512, count, seed, slowed):
        detector, report = detector.judge(windows, 512)
        found.append({each.rank for each in report.stragglers})
    return found


def test_a_rank_of_512_that_takes_20_percent_longer_is_named_within_three_reports() -> None:
    found = detected(lambda rank, window: 1.2 if rank == 76 and window >= 4 else 1.0, 12)
    assert found[:4] == [set()] * 4
    assert all(each == {76} for each in found[6:])


def test_four_hours_of_512_healthy_ranks_have_no_false_flag() -> None:
    detector = Detector()
    for windows in simulated(512, 48, 11):
        detector, report = detector.judge(windows, 512)
        assert (report.stragglers, report.slow) == ((), None)


BIG = StragglerReport(
    3,
    512,
    Scores(
        dict.fromkeys(range(512), 0.99) | {76: 0.61, 13: 0.64, 45: 0.69, 7: 0.94, 8: 0.95, 0: 1.0},
        dict.fromkeys(range(512), 1.0) | {13: 0.5},
    ),
    {rank: f"h100-{rank // 8:03}" for rank in range(512)},
    "compute",
    (76, 13, 45),
    (13,),
)
SMALL = StragglerReport(1, 2, Scores({0: 1.0, 1: 0.94}, {}), {0: "h100-001-253-012"}, "step")
SLOW = StragglerReport(4, 2, Scores({0: 1.0, 1: 1.0}, {0: 0.5, 1: 0.5}), {}, "step", slow=0.512)


def text(report: StragglerReport, most: int = 5) -> list[str]:
    return [line.text for line in report_lines(report, most, 0.0421)]


def test_the_worst_and_the_best_of_many_ranks_then_the_warnings() -> None:
    relative, individual, worse, dropped, took = text(BIG)
    assert relative.splitlines() == [
        "GPU relative performance:",
        " Worst performing 5/512 ranks:",
        "  Rank=76 Node=h100-009 Score=0.61",
        "  Rank=13 Node=h100-001 Score=0.64",
        "  Rank=45 Node=h100-005 Score=0.69",
        "  Rank=7 Node=h100-000 Score=0.94",
        "  Rank=8 Node=h100-001 Score=0.95",
        " Best performing 5/512 ranks:",
        "  Rank=0 Node=h100-000 Score=1.00",
        *(f"  Rank={rank} Node=h100-063 Score=0.99" for rank in (511, 510, 509, 508)),
    ]
    assert individual.startswith("GPU individual performance:\n Worst performing 5/512 ranks:\n  Rank=13 ")
    assert worse == (
        "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: [76, 13, 45]"
    )
    assert dropped == "STRAGGLER DETECTION WARNING: Some GPUs performance dropped. Affected ranks: [13]"
    assert took == "Straggler report processing time: 0.042 sec."


def test_of_few_ranks_all_stand_there() -> None:
    assert text(SMALL) == [
        "GPU relative performance:\n  Rank=1 Node=<unk> Score=0.94\n  Rank=0 Node=h100-001-253-012 Score=1.00",
        "Straggler report processing time: 0.042 sec.",
    ]


def test_quiet_means_warnings_alone() -> None:
    assert text(SMALL, most=0) == []
    assert [line[:27] for line in text(BIG, most=0)] == ["STRAGGLER DETECTION WARNING"] * 2
    assert all(line.warns for line in report_lines(BIG, 0, 0.0))


def test_a_slow_job_is_no_straggler() -> None:
    lines = text(SLOW)
    assert not any("STRAGGLER" in line for line in lines)
    assert any(line.startswith("SLOW JOB WARNING: All ranks alike are slower than they were") for line in lines)


def test_thousands_of_slow_ranks_make_no_endless_line() -> None:
    many = StragglerReport(1, 9000, worse=tuple(range(4000)))
    (line,) = text(many, most=0)
    assert re.search(r"\[0, 1, .*, 63, and 3936 more\]$", line)
    fields = report_fields(many)
    assert (len(fields["ranks"]), fields["count"]) == (64, 4000)


@pytest.mark.parametrize("most", [5, 0])
def test_json_is_one_line_with_the_same(most: int) -> None:
    line = report_json(BIG, most, 0.0421)
    assert line is not None
    assert (line.warns, "\n" in line.text) == (True, False)
    told = json.loads(line.text)
    assert [each["rank"] for each in told["ranks"]] == [13, 76, 45]
    assert told["nodes"][0] == {"node": "h100-001", "ranks": 1, "of": 8}
    assert told.get("relative", [{}])[0] == ({"rank": 76, "node": "h100-009", "score": 0.61} if most else {})
