"""A training that says all it knows in numpy's numbers, and some of it in no numbers at all."""

import json

import pytest

from support.training import Site

TRAIN = """\
import sys
import numpy as np
import lastbeat
rng = np.random.default_rng(7)
weights, data = np.zeros(4), rng.normal(size=(64, 4))
with lastbeat.run("run-1", total_steps={total}) as run:
    for step in np.arange(1, 4):
        weights -= 0.1 * (2 * data.T @ (data @ weights - 1) / len(data))
        loss = np.mean((data @ weights - 1) ** 2)
        run.step(step, loss=loss, learning_rate=np.float32(0.1), epoch=np.array([step / 3]), tokens=np.int64(64),
                 weights=weights, name="sgd", best=np.array(loss), half=np.float16(0.5))
    {end}
"""
TOTALS = [
    pytest.param("'5000'", 5000, id="a text"),
    pytest.param("np.int64(5000)", 5000, id="numpy's int"),
    pytest.param("np.array(5000)", 5000, id="an array"),
    pytest.param("np.ceil(4999.5)", 5000, id="numpy's float"),
    pytest.param("float('inf')", None, id="infinity"),
    pytest.param("float('nan')", None, id="NaN"),
    pytest.param("[5]", None, id="a list"),
    pytest.param("10**400", None, id="10 ** 400"),
    pytest.param("'many'", None, id="another text"),
]


@pytest.mark.parametrize(("total", "read"), TOTALS)
def test_its_end_is_told_and_all_that_is_a_number(directory: Site, total: str, read: int | None) -> None:
    trained = directory.train(TRAIN.format(total=total, end=""))
    assert trained.exit == 0, trained.said
    found = directory.look()
    assert (found["status"], found["step"], found["total_steps"]) == ("SUCCEEDED", 3, read)
    progress = json.loads(directory.read("progress.json") or "")
    assert (progress["learning_rate"], progress["epoch"], progress["tokens"]) == (pytest.approx(0.1), 1.0, 3 * 64)
    assert progress["metrics"] == {"weights": None, "name": None, "best": progress["loss"], "half": 0.5}
    lines = trained.said.splitlines()
    assert [line for line in lines if "total_steps" in line] == lines[:1] if read is None else True
    assert len(lines) == 2 + (read is None), lines


def test_its_error_is_told(directory: Site) -> None:
    end = "raise FloatingPointError(weights)"
    trained = directory.train(TRAIN.format(total="[5]", end=end))
    assert trained.exit == 1
    found = directory.look()
    assert (found["status"], found["step"]) == ("FAILED", 3)
    assert found["reason"].startswith("FloatingPointError: [")
