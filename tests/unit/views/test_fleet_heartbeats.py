"""What heartbeat documents tell people: each field on its own, whatever its neighbours are."""

import json
import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.resources import Gpu, Resources
from lastbeat.stores.port import Blob
from lastbeat.views.heartbeats import POINTS_LIMIT, HeartbeatFields, read_told, thinned

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
AT = NOW.timestamp()


def told(document: Any, **options: Any) -> HeartbeatFields:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read_told(Blob(body, len(body), NOW, "v1"), **options)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param({"learning_rate": "3e-4"}, {"learning_rate": 3e-4}, id="a number written as text"),
        pytest.param({"learning_rate": True}, {"learning_rate": None}, id="true is no number"),
        pytest.param({"epoch": 1.5, "loss": []}, {"epoch": 1.5}, id="the epoch beside a broken loss"),
        pytest.param({"steps_per_second": -1}, {"steps_per_s": None}, id="no training goes backwards"),
        pytest.param({"steps_per_second": "Infinity"}, {"steps_per_s": None}, id="nor endlessly fast"),
        pytest.param(
            {"recent": [[AT - 20, 100, 2.0], [AT, 140, 1.9]]}, {"steps_per_s": 2.0}, id="how fast it is, from points"
        ),
        pytest.param(
            {"recent": [[AT - 20, 140, 2.0], [AT, 100, 1.9]]}, {"steps_per_s": None}, id="points that go backwards"
        ),
        pytest.param({"eta_s": 90}, {"eta_s": 90.0}, id="what is left, as told"),
        pytest.param(
            {"step": 40, "total_steps": 100, "steps_per_second": 2}, {"eta_s": 30.0}, id="what is left, from the speed"
        ),
        pytest.param(
            {"step": 140, "total_steps": 9, "steps_per_second": 2}, {"eta_s": None}, id="nothing is left behind the end"
        ),
        pytest.param(
            {"metrics": {"f1": 0.5, "note": "good", "bad": "NaN"}},
            {"metrics": {"f1": 0.5, "note": None, "bad": math.nan}},
            id="metrics, numbers or not",
        ),
        pytest.param({"metrics": [1, 2]}, {"metrics": {}}, id="metrics that are none"),
        pytest.param(
            {"zone": "us-east-1a", "host": "node7", "debug": True, "lost": [1]},
            {"facts": {"zone": "us-east-1a", "host": "node7", "debug": "true"}},
            id="what else stands in it",
        ),
        pytest.param(
            {"process": 3141592, "uid": 10**12, "temperature": 0.6180339887},
            {"facts": {"process": "3141592", "uid": "1000000000000", "temperature": "0.6180339887"}},
            id="numbers as they stand there",
        ),
        pytest.param([1, 2], {"points": (), "facts": {}}, id="no object at all"),
        pytest.param(b"[" * 100_000, {"points": ()}, id="a nesting that is too deep"),
    ],
)  # fmt: skip
def test_a_field_says_what_it_can(document: Any, expected: dict[str, Any]) -> None:
    found = told(document)
    for name, value in expected.items():
        assert repr(getattr(found, name)) == repr(value)


def test_points_have_a_learning_rate_or_not() -> None:
    points = told({"recent": [[AT - 9, 1, 2.5], [AT - 6, 2, "NaN", 1e-4], [AT - 3, 3, None, None]]}).points
    assert [point.step for point in points] == [1, 2, 3]
    assert [point.learning_rate for point in points] == [None, 1e-4, None]
    assert points[0].loss == 2.5
    assert math.isnan(points[1].loss or 0.0)
    assert points[2].loss is None


@pytest.mark.parametrize(
    "row",
    [
        pytest.param([AT, "many", 1.0], id="a step that is none"),
        pytest.param([5, 1, 1.0], id="a time that is none"),
        pytest.param([AT - 40 * 365 * 86400, 1, 1.0], id="a time forty years ago"),
        pytest.param({"at": AT}, id="an object"),
        pytest.param([AT, 1, 2.0] * 4, id="far too many numbers"),
        pytest.param([AT, 10**400, 1.0], id="a step with hundreds of digits"),
    ],
)
def test_a_point_that_is_none_costs_that_point_alone(row: Any) -> None:
    assert [point.step for point in told({"recent": [[AT - 9, 7, 2.0], row, [AT, 9, 2.0]]}).points] == [7, 9]


def test_very_many_points_are_thinned_to_the_first_the_newest_and_some_between() -> None:
    rows = [[AT - 5000 + index, index, 1.0] for index in range(5000)]
    points = told({"recent": rows}).points
    assert len(points) == POINTS_LIMIT
    assert (points[0].step, points[-1].step) == (0, 4999)
    few = told({"recent": rows}, most_points=24).points
    assert (len(few), few[-1].step) == (24, 4999)


def test_phases_are_what_training_was_in_since_when() -> None:
    listed = [[AT - 60, "loading"], [AT - 30, "\x1b[31mtrain\x1b[0m"], [AT - 10, 7], "x", [AT - 5, ""]]
    spans = told({"phases": listed}).phases
    assert [(span.since, span.phase) for span in spans] == [
        (NOW - timedelta(seconds=60), "loading"), (NOW - timedelta(seconds=30), "train"),
    ]  # fmt: skip


def test_resources_are_read_as_far_as_they_make_sense() -> None:
    gpus = [{"name": "H200", "utilization": 0.5, "memory_used_bytes": 5}, {"utilization": 7}, "gpu"]
    found = told({"resources": {"cpu": 1.5, "rss_bytes": -1, "memory_total_bytes": 64, "gpus": gpus}}).resources
    assert found == Resources(cpu=1.5, memory_total_bytes=64, gpus=(Gpu("H200", 0.5, 5), Gpu("GPU")))
    assert told({"resources": {"gpus": "all"}}).resources is None
    assert told({"resources": 3}).resources is None


def test_a_document_that_is_too_long_is_a_fault_and_nothing_else() -> None:
    found = read_told(Blob(b'{"step": 1', 10**9, NOW, "v1"))
    assert found.heartbeat.fault is not None
    assert found.heartbeat.step is None
    assert found.facts == {}


_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=5,
)
_fields = st.sampled_from(
    ["recent", "phases", "resources", "metrics", "eta_s", "step", "total_steps", "steps_per_second", "epoch", "host"]
)


@given(st.dictionaries(_fields, _json | st.lists(st.lists(_json, max_size=5), max_size=3)))
def test_no_document_is_too_odd_to_be_read(document: dict[str, Any]) -> None:
    found = told(document)
    assert len(found.points) <= POINTS_LIMIT
    assert found.eta_s is None or 0 <= found.eta_s < math.inf


@given(st.lists(st.integers(), max_size=300), st.integers(2, 50))
def test_thinning_keeps_the_order_the_first_and_the_last(items: list[int], most: int) -> None:
    kept = thinned(list(enumerate(items)), most)
    assert len(kept) == min(most, len(items))
    assert list(kept) == sorted(set(kept))
    if items:
        assert kept[-1] == (len(items) - 1, items[-1])
        assert kept[0] == (0, items[0])


def test_figures_of_trainings_own_stand_with_the_points_that_they_were_told_with() -> None:
    document = {
        "recent": [[AT - 9, 1, 2.5], [AT - 3, 3, 2.0]],
        "metric_points": {"val_acc": [[AT - 6, 2, 0.5], [AT - 3, 3, "NaN"]], "broken": "x", "half": [[AT], "y", None]},
    }
    points = told(document).points
    assert [(point.step, point.loss, sorted(point.metrics)) for point in points] == [
        (1, 2.5, []),
        (2, None, ["val_acc"]),
        (3, 2.0, ["val_acc"]),
    ]
    assert points[1].metrics == {"val_acc": 0.5}
