"""All about a run as JSON: every key always, no number that JSON does not have, columns of one length."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.cause import Cause, Evidence
from lastbeat.model.record import Transition
from lastbeat.model.resources import Gpu, Resources
from lastbeat.model.similar import SimilarFailure
from lastbeat.model.state import RecordedCause, ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import (
    Excerpt,
    HeartbeatFile,
    NodeCurves,
    PhaseSpan,
    Point,
    RankLine,
    Row,
    RunView,
    SentAlert,
    Span,
)
from lastbeat.views.run_document import run_document, speeds
from support.memory import START

EMPTY = RunView(Row("run-1", ShownState(Status.RUNNING)), START, "memory://runs/run-1/")
FULL = replace(
    EMPTY,
    link="https://console.example/",
    stale_s=600.0,
    conditions={"stalled": "no new step"},
    explained=RecordedCause(
        Cause("oom", Evidence("logs/a.log", 3, "boom", 1, "node-1", START), 0.87654, "gpu_memory", False, "less", "s"),
        ("also",),
        SimilarFailure("run-0", START, 2, runs=3, aftermath="went_on"),
        Cause("cancelled", Evidence("logs/b.log", 4, "scancel"), 0.25, restartable=True, hint="ask"),
    ),
    evidence=Excerpt("logs/a.log", ("boom",), 3, 0, START, 5, "note"),
    beats=(HeartbeatFile("metadata.json", START, START, "fault", {"host": "node-1"}),),
    points=(Point(START, 1, float("nan"), 1e-4), Point(START + timedelta(seconds=10), 21, float("inf"))),
    metrics={"acc": 0.5, "bad": float("-inf"), "none": None},
    learning_rate=1e-4,
    epoch=0.123456789,
    resources=Resources(1.5, 1, 2, 3, (Gpu("H100", 0.5, 1, 2),)),
    node=NodeCurves(START, 150.0, {"gpu": (0.5, None)}),
    phases=(PhaseSpan(START, "train"),),
    ranks=(RankLine(3, START, 5, float("nan"), "train", "running", "node-1", 2, None),),
    ranks_left_out=7,
    world_size=8,
    history=(Transition(1, START, None, Status.RUNNING, "began", 1, None, None),),
    transitions=1,
    attempts=(Span(START, Status.RUNNING, 1),),
    alerts=(SentAlert(1, "FAILED", START, "boom", (("slack", "sent", START),), None),),
    alerts_pending=1,
    alerts_delivered=2,
    alerts_dropped=3,
    log=Excerpt("logs/a.log", ("x",)),
    logs=(("logs/a.log", START, 5),),
    stacks=Excerpt("logs/stacks.txt", ("Thread 1",)),
    error_text="boom",
    notes=("a note",),
)
AT = "2026-01-01T12:00:00Z"


def test_what_is_not_known_is_null_or_empty_and_every_key_is_there() -> None:
    document = run_document(EMPTY)
    assert list(document) == list(run_document(FULL))
    assert document["explained"] is document["evidence"] is document["log"] is document["resources"] is None
    assert document["points"] == {"at": [], "step": [], "loss": [], "learning_rate": [], "steps_per_s": []}
    assert document["alerts"] == {"pending": 0, "delivered": 0, "dropped": 0, "list": []}


def test_of_a_record_that_could_not_be_read_no_count_is_told() -> None:
    unread = replace(EMPTY, transitions=None, alerts_pending=None, alerts_delivered=None, alerts_dropped=None)
    document = run_document(unread)
    assert document["transitions"] is None
    assert document["alerts"] == {"pending": None, "delivered": None, "dropped": None, "list": []}


@pytest.mark.parametrize(
    ("key", "told"),
    [
        pytest.param("at", AT, id="times are ISO 8601 with Z"),
        pytest.param("conditions", {"stalled": "no new step"}, id="conditions with what was seen"),
        pytest.param(
            "points",
            {
                "at": [START.timestamp(), START.timestamp() + 10],
                "step": [1, 21],
                "loss": ["NaN", "Infinity"],
                "learning_rate": [0.0001, None],
                "steps_per_s": [None, 2.0],
            },
            id="points are columns, with the speed between two of them",
        ),
        pytest.param("metrics", {"acc": 0.5, "bad": "-Infinity", "none": None}, id="numbers that JSON does not have"),
        pytest.param("epoch", 0.123457, id="no more digits than people can make use of"),
        pytest.param("phases", [[AT, "train"]], id="phases"),
        pytest.param("attempts", [[AT, "RUNNING", 1]], id="attempts"),
        pytest.param("logs", [["logs/a.log", AT, 5]], id="logs"),
        pytest.param(
            "alerts",
            {
                "pending": 1,
                "delivered": 2,
                "dropped": 3,
                "list": [
                    {
                        "number": 1,
                        "event": "FAILED",
                        "at": AT,
                        "reason": "boom",
                        "deliveries": [["slack", "sent", AT]],
                        "error": None,
                    }
                ],
            },
            id="alerts with what became of each",
        ),
        pytest.param(
            "evidence",
            {
                "file": "logs/a.log",
                "lines": ["boom"],
                "first_line": 3,
                "marked": 0,
                "modified": AT,
                "size_bytes": 5,
                "note": "note",
            },
            id="evidence in its context",
        ),
    ],
)
def test_what_is_told(key: str, told: object) -> None:
    assert run_document(FULL)[key] == told


def test_any_parser_of_json_can_read_it() -> None:
    hostile = replace(FULL, notes=("\ud800",), metrics={"\udfff": float("nan")}, error_text="</script>\u2028")
    text = json.dumps(run_document(hostile), allow_nan=False)
    assert json.loads(text)["notes"] == ["\ufffd"]


_TIMES = st.floats(0, 86400).map(lambda seconds: START + timedelta(seconds=seconds))


@given(st.lists(st.builds(Point, _TIMES, st.integers(0, 10**9), st.one_of(st.none(), st.floats())), max_size=12))
def test_all_columns_have_one_length_and_no_speed_is_negative_or_endless(points: list[Point]) -> None:
    document = run_document(replace(EMPTY, points=tuple(points)))
    columns = document["points"]
    assert isinstance(columns, dict)
    assert {len(column) for column in columns.values()} == {len(points)}
    json.dumps(document, allow_nan=False)
    assert all(speed is None or 0 <= speed < float("inf") for speed in speeds(points))


def test_a_failure_that_was_seen_before_names_the_run_and_what_became_of_it() -> None:
    told: Any = run_document(FULL)["explained"]
    assert told["similar"] == {
        "run_id": "run-0",
        "at": AT,
        "attempt": 2,
        "own": False,
        "runs": 3,
        "aftermath": "went_on",
        "text": "same as run run-0 on 1 Jan (3 runs so far), which went on after a restart",
    }
