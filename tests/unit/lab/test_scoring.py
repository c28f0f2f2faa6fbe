"""How a catalogue is scored on labelled logs."""

import json
from collections.abc import Mapping

import pytest

from lastbeat.explain.scanning.matching import Matcher
from lastbeat.explain.scanning.splitting import line_of
from lastbeat.lab.scoring import (
    NONE,
    Case,
    Diagnosis,
    LabelsError,
    ScoreCounts,
    any_match,
    read_index,
    score,
)
from lastbeat.model.signal import Signal

LABELS = ("oom", "nccl", "nccl_timeout", "cancelled")
GOOD = {"id": "a", "file": "a.log", "label": "oom", "first_cause_lineno": 3}


def index(*rows: "Mapping[str, object] | str") -> str:
    return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n"


def test_an_index_is_read() -> None:
    healthy = {"id": "b", "file": "b.log", "label": "none", "notes": "warm"}
    full = GOOD | {"id": "c", "acceptable_labels": ["nccl"], "provenance": "local_run", "cascade": True}
    full |= {"source": "owner/name#1", "framework": "pytorch"}
    assert read_index(index(GOOD, "", healthy, full), "index.jsonl", LABELS) == [
        Case("a", "a.log", "oom", line=3),
        Case("b", "b.log", NONE),
        Case("c", "a.log", "oom", ("nccl",), 3, "local_run", cascade=True, source="owner/name#1", framework="pytorch"),
    ]


FAULTS = [
    pytest.param("{", "it is not JSON", id="no JSON"),
    pytest.param("[1]", "it is no JSON object", id="no object"),
    pytest.param(GOOD | {"file": 3}, "file is missing", id="a file that is no text"),
    pytest.param(GOOD | {"label": "omm"}, "'omm' is no error type; there are cancelled, nccl", id="an unknown label"),
    pytest.param(GOOD | {"acceptable_labels": ["x"]}, "'x' is no error type", id="an unknown acceptable label"),
    pytest.param(GOOD | {"acceptable_labels": "nccl"}, "acceptable_labels is no list", id="no list"),
    pytest.param(GOOD | {"acceptable_labels": [["oom"]]}, "is no error type", id="a list in a list"),
    pytest.param(GOOD | {"first_cause_lineno": None}, "which line shows the cause", id="a failure without a line"),
    pytest.param(GOOD | {"first_cause_lineno": 0}, "lines count from 1", id="a line before the first"),
    pytest.param(GOOD | {"first_cause_lineno": True}, "no line number", id="a line that is no number"),
]


@pytest.mark.parametrize(("row", "fault"), FAULTS)
def test_a_bad_row_is_told_with_its_line(row: "dict[str, object] | str", fault: str) -> None:
    with pytest.raises(LabelsError) as refused:
        read_index(index(GOOD, row, "]"), "index.jsonl", LABELS)
    first, second = str(refused.value).splitlines()
    assert first.startswith("index.jsonl:2: ")
    assert fault in first
    assert second.startswith("index.jsonl:3: "), "all faults are told at once"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("\n\n", "it has no rows", id="nothing"),
        pytest.param(index(GOOD, GOOD), "the id 'a' is there 2 times", id="an id twice"),
    ],
)
def test_an_index_that_says_nothing_sure_is_refused(text: str, fault: str) -> None:
    with pytest.raises(LabelsError, match=fault):
        read_index(text, "index.jsonl", LABELS)


CASES = [
    Case("right", "", "oom", line=10, provenance="local_run"),
    Case("accepted", "", "nccl", ("nccl_timeout",), 10, "reconstructed", cascade=True),
    Case("wrong", "", "nccl", (), 10, "local_run", cascade=True),
    Case("missed", "", "cancelled", (), 10, "local_run"),
    Case("healthy", "", NONE),
    Case("misread", "", NONE),
]
DIAGNOSES = {
    "right": Diagnosis("oom", 12),
    "accepted": Diagnosis("nccl_timeout", 13),
    "wrong": Diagnosis("oom", 10),
    "missed": Diagnosis(None),
    "healthy": Diagnosis(None),
    "misread": Diagnosis("oom", 1),
}
SCORE = score(CASES, lambda case: DIAGNOSES[case.id])


def test_the_counts_of_each_type_and_each_kind() -> None:
    groups = SCORE.groups()
    assert groups == {
        "cancelled": ScoreCounts(1, 0, 0, 0),
        "nccl": ScoreCounts(2, 0, 1, 1),
        "oom": ScoreCounts(1, 1, 1, 1),
        "all failures": ScoreCounts(4, 1, 2, 2),
        "local_run": ScoreCounts(3, 1, 1, 2),
        "reconstructed": ScoreCounts(1, 0, 1, 0),
        "cascades": ScoreCounts(2, 0, 1, 1),
        "others": ScoreCounts(2, 1, 1, 1),
    }


def test_what_was_taken_for_what() -> None:
    assert SCORE.confusions == {("cancelled", "none"): ["missed"], ("nccl", "oom"): ["wrong"]}
    assert [row.case.id for row in SCORE.misread] == ["misread"]


def test_misread_logs_are_counted_where_they_come_from() -> None:
    cases = [
        Case("a", "", NONE, provenance="local_run"),
        Case("misread", "", NONE, provenance="local_run"),
        Case("b", "", NONE, provenance="reconstructed"),
        Case("c", "", NONE),
        Case("wrong", "", "nccl"),
    ]
    scored = score(cases, lambda case: DIAGNOSES.get(case.id, Diagnosis(None)))
    told = {"unknown provenance": (0, 1), "local_run": (1, 2), "reconstructed": (0, 1)}
    assert scored.misread_by_provenance() == told


def test_any_match_takes_the_first_failure_signal_for_the_cause() -> None:
    signals = [
        Signal("step", "step", substring=True, kind="progress", literals=("step",)),
        Signal("closed", "peer closed", substring=True, error_type="nccl", role="cascade", literals=("peer closed",)),
        Signal("memory", "out of memory", substring=True, error_type="oom", literals=("out of memory",)),
    ]
    said = [line_of(number, text) for number, text in enumerate(["step 1", "peer closed", "out of memory"], start=1)]
    assert any_match(said, Matcher(signals)) == Diagnosis("nccl", 2)
    assert any_match(said[:1], Matcher(signals)) == Diagnosis(None)
