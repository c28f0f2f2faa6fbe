"""A straggler report in the words that people search for, and as JSON."""

import json
import re

import pytest

from lastbeat.model.straggler_lines import report_fields, report_json, report_lines
from lastbeat.model.stragglers import Scores, StragglerReport

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
