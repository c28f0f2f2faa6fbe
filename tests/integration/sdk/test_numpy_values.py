"""A training that says all it knows in numpy's numbers, and some of it in no numbers at all."""

import json

import pytest

from support.training import Site

TRAIN = """\
import sys
import numpy as np
import lastbeat

def train(run_id, total_steps):
    rng = np.random.default_rng(7)
    weights, data = np.zeros(4), rng.normal(size=(64, 4))
    with lastbeat.run(run_id, total_steps=total_steps) as run:
        for step in np.arange(1, 4):
            weights -= 0.1 * (2 * data.T @ (data @ weights - 1) / len(data))
            loss = np.mean((data @ weights - 1) ** 2)
            run.step(step, loss=loss, learning_rate=np.float32(0.1), epoch=np.array([step / 3]), tokens=np.int64(64),
                     weights=weights, name="sgd", best=np.array(loss), half=np.float16(0.5))
        if run_id == "fails":
            raise FloatingPointError(weights)
"""
TOTALS = {
    "a text": ("'5000'", 5000),
    "numpy's int": ("np.int64(5000)", 5000),
    "an array": ("np.array(5000)", 5000),
    "numpy's float": ("np.ceil(4999.5)", 5000),
    "infinity": ("float('inf')", None),
    "NaN": ("float('nan')", None),
    "a list": ("[5]", None),
    "10 ** 400": ("10**400", None),
    "another text": ("'many'", None),
}


def test_its_end_is_told_and_all_that_is_a_number(directory: Site) -> None:
    """One process trains with all of them."""
    calls = [f"train('run-{number}', {total})\n" for number, (total, _) in enumerate(TOTALS.values())]
    trained = directory.train(TRAIN + "".join(calls))
    assert trained.exit == 0, trained.said
    for number, (what, (_, read)) in enumerate(TOTALS.items()):
        found = directory.look(f"run-{number}")
        assert (found["status"], found["step"], found["total_steps"]) == ("SUCCEEDED", 3, read), what
        progress = json.loads(directory.read("progress.json", f"run-{number}") or "")
        assert (progress["learning_rate"], progress["epoch"], progress["tokens"]) == (pytest.approx(0.1), 1.0, 3 * 64)
        assert progress["metrics"] == {"weights": None, "name": None, "best": progress["loss"], "half": 0.5}
