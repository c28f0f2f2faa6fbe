"""What training or anybody else wrote into a fleet is bounded, harmless and without secrets when it is shown."""

import json
from typing import Any

import pytest

from lastbeat.model.view import SPARK_POINTS
from lastbeat.views.documents import row_document
from lastbeat.views.rows import FAULTS_LIMIT
from lastbeat.views.standing import CONDITIONS_LIMIT, SPANS_LIMIT
from support.fleet_views import Looked

SECRET = "hunter2hunter2hunter2"
TOKEN = "ghp_" + "a" * 36
ODD = f"<script>alert(1)</script>\x1b[31m\u202e\x00 {SECRET} {TOKEN}\nnext "


def forged(**fields: Any) -> Looked:
    """A record that somebody else wrote."""
    looked = Looked(paid=True)
    looked.beats("a")
    looked.passes()
    record = json.loads(looked.store.held["a/_watchdog.json"].body)
    looked.run("a").put("_watchdog.json", json.dumps({**record, **fields}))
    looked.table = looked.fresh(mask=lambda text: text.replace(SECRET, "***"))
    return looked


def check(text: str | None) -> None:
    assert text is not None
    assert text.startswith("<script>alert(1)</script>\ufffd\ufffd *** ***")
    assert not {SECRET, TOKEN, "\x1b", "\x00", "\u202e", "\n"} & set(text)
    assert SECRET not in text
    assert TOKEN not in text
    assert len(text) <= 400


@pytest.mark.parametrize("field", ["reason", "cause", "action"])
def test_texts_of_a_record(field: str) -> None:
    looked = forged(**{"status": "FAILED", field: ODD + "x" * 100_000})
    check(getattr(looked.row("a"), field))


@pytest.mark.parametrize("secret", [TOKEN, SECRET])
def test_no_part_of_a_secret_is_left_where_a_text_is_cut(secret: str) -> None:
    looked = Looked()
    looked.table = looked.fresh(mask=lambda text: text.replace(SECRET, "***"))
    long = f"{'x' * 185} {secret}"
    looked.run("a").beat(phase=long, instance_id=long)
    row = looked.row("a")
    assert (row.phase, row.host) == (f"{'x' * 185} ***",) * 2


def test_conditions_of_a_record_are_few_and_harmless() -> None:
    looked = forged(conditions={f"{ODD}{number}": ODD * 50 for number in range(100)})
    row = looked.row("a")
    assert len(row.conditions) == CONDITIONS_LIMIT
    check(row.conditions[0])
    check(row.reason)


def test_a_history_without_end_is_cut() -> None:
    entry = {"before": None, "reason": "", "cause": None, "at": "2026-01-01T11:00:00Z"}
    statuses = ["RUNNING", "TIMED_OUT"]
    looked = forged(
        history=[{**entry, "number": n, "attempt": n, "after": statuses[n % 2]} for n in range(1, 9000)],
    )
    assert len(looked.row("a").strip) <= SPANS_LIMIT


def test_texts_of_heartbeats_of_the_error_and_of_faults() -> None:
    looked = Looked()
    looked.table = looked.fresh(mask=lambda text: text.replace(SECRET, "***"))
    run = looked.run("a")
    run.beat(instance_id=ODD)
    run.progress(1, phase=ODD, last_updated=ODD)
    run.error(ODD * 10_000)
    row = looked.row("a")
    check(row.host)
    check(row.phase)
    assert row.reason.startswith("<script>")
    assert SECRET not in repr(row)
    assert TOKEN not in repr(row)
    assert row.fault is not None
    assert len(row.fault) <= FAULTS_LIMIT


def test_numbers_without_end_are_none() -> None:
    looked = Looked()
    run = looked.run("a")
    run.put("metadata.json", "{}")
    run.put(
        "progress.json",
        '{"step": 1' + "0" * 4000 + ', "loss": 1e999, "eta_s": 1e999, "steps_per_second": 1e400, "recent": '
        + json.dumps([[looked.now.timestamp(), 1, 1.0]] * 5000) + "}",
    )  # fmt: skip
    row = looked.row("a")
    assert (row.step, row.eta_s, row.steps_per_s) == (None, None, None)
    assert len(row.losses) == SPARK_POINTS
    assert json.loads(json.dumps(row_document(row), allow_nan=False))["loss"] == "Infinity"
