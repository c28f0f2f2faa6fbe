"""What holds a state or figures offers each of their fields under its own name."""

from dataclasses import fields
from datetime import datetime, timezone
from typing import Any

import pytest

from lastbeat.model.cause import Cause, Evidence
from lastbeat.model.figures import Figures
from lastbeat.model.fleet import RunFigures, RunLine
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.observation import NeverSeen
from lastbeat.model.outcome import Outcome
from lastbeat.model.record import Record
from lastbeat.model.state import RecordedCause, ShownState, State
from lastbeat.model.status import Status
from lastbeat.model.view import Row
from lastbeat.watch.decide.verdict import Verdict

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
WHY = RecordedCause(Cause("oom", Evidence("train.log", 7, "out of memory"), 0.9))
STATE = State(Status.FAILED, "boom", "oom", "Reduce the batch size.", {"stalled": "no step for 31m"}, WHY)
SHOWN = ShownState(Status.FAILED, "boom", "oom", "Reduce the batch size.", ("stalled",))
FIGURES = Figures(7, 100, 2.5)


@pytest.mark.parametrize(
    ("holder", "held"),
    [
        pytest.param(Record("run", STATE), STATE, id="the state of a record"),
        pytest.param(Verdict(STATE), STATE, id="the state of a verdict"),
        pytest.param(Outcome("run", STATE, NeverSeen(), NOW), STATE, id="the state of an outcome"),
        pytest.param(Row("run", SHOWN), SHOWN, id="the state of a row"),
        pytest.param(Row("run", SHOWN, figures=FIGURES), FIGURES, id="the figures of a row"),
        pytest.param(RunFigures(RunLine("run", Status.FAILED), figures=FIGURES), FIGURES, id="those of a pass"),
    ],
)
def test_a_holder_has_each_field_of_what_it_holds(holder: Any, held: Any) -> None:
    assert {each.name: getattr(holder, each.name) for each in fields(held)} == {
        each.name: getattr(held, each.name) for each in fields(held)
    }


def test_a_heartbeat_fills_each_figure_from_its_field_of_that_name() -> None:
    given: dict[str, Any] = {each.name: getattr(FIGURES, each.name) for each in fields(Figures)}
    assert Heartbeat(NOW, "v1", **given).figures == FIGURES


def test_a_record_without_a_state_has_no_status_and_empty_fields() -> None:
    record = Record("run")
    assert (record.status, record.reason, record.cause, record.conditions) == (None, "", None, {})
