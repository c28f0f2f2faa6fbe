"""The last hours of a node, as a document tells them to the page: what is not a history is none."""

import json
from datetime import datetime
from typing import Any

import pytest

from lastbeat.model.view import NodeCurves
from lastbeat.stores.port import Blob
from lastbeat.views.heartbeats import read_told
from support.memory import START

BEGAN = START.timestamp()


def curves(health: object, modified: datetime = START) -> NodeCurves | None:
    body = json.dumps({"health": health}).encode()
    return read_told(Blob(body, len(body), modified, "v1")).node


def history(**more: Any) -> dict[str, Any]:
    return {"history": {"from": BEGAN, "each_s": 150.0, "series": {"gpu": [0.5, None, 1]}, **more}}


TOLD = [
    pytest.param(history(), {"gpu": (0.5, None, 1.0)}, id="a figure, with a gap"),
    pytest.param(history(series={"gpu": [0.5], "own": [1.0]}), {"gpu": (0.5,)}, id="figures that nobody knows"),
    pytest.param(
        history(series={"cpu": [-1, "x", float("nan"), float("inf"), True, 0.5]}),
        {"cpu": (None, None, None, None, None, 0.5)}, id="what is no number is a gap",
    ),
    pytest.param(history(series={"gpu": [None], "cpu": [0.1]}), {"cpu": (0.1,)}, id="a figure without a value"),
]  # fmt: skip


@pytest.mark.parametrize(("health", "expected"), TOLD)
def test_a_history(health: object, expected: dict[str, tuple[float | None, ...]]) -> None:
    assert curves(health) == NodeCurves(START, 150.0, expected)


NONE: list[Any] = [
    pytest.param(None, id="no health"),
    pytest.param({"conditions": []}, id="no history"),
    pytest.param({"history": []}, id="a list"),
    pytest.param(history(series=[]), id="no series"),
    pytest.param(history(series={"gpu": [0.1] * 5000}), id="more values than anybody keeps"),
    pytest.param(history(series={"gpu": [None]}), id="no value"),
    pytest.param(history(each_s=0), id="a span of nothing"),
    pytest.param(history(**{"from": "soon"}), id="no time"),
]


@pytest.mark.parametrize("health", NONE)
def test_what_is_no_history(health: object) -> None:
    assert curves(health) is None
