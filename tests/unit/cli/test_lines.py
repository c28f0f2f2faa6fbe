"""An outcome as text and as JSON."""

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.alert import Alert, Delivery, Message
from lastbeat.model.amounts import percent
from lastbeat.model.cause import Cause, Evidence
from lastbeat.model.document import outcome_document
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.observation import NeverSeen, Seen, Unreadable
from lastbeat.model.outcome import Outcome
from lastbeat.model.record import Attempt, Record
from lastbeat.model.similar import SimilarFailure
from lastbeat.model.state import RecordedCause, State
from lastbeat.model.status import Event, Status
from lastbeat.views.lines import signs
from lastbeat_cli import exits
from lastbeat_cli.document import dump
from lastbeat_cli.plain import lines
from support.states import with_state

NOW = datetime(2026, 1, 1, 12, 0, 0, 250000, tzinfo=timezone.utc)
METADATA = Heartbeat(NOW, "v1", phase="train")
PROGRESS = Heartbeat(NOW, "v2", step=25, total_steps=100, loss=2.345678)
RECORD = Record("run-1", State(Status.RUNNING), since=NOW - timedelta(hours=1), attempt=Attempt(3))
RUNNING = Outcome(
    "run-1",
    State(Status.RUNNING, "Heartbeats: metadata.json 3s ago"),
    Seen(metadata=METADATA, progress=PROGRESS),
    NOW,
    record=RECORD,
    last_metadata_at=NOW - timedelta(seconds=3),
    step_source=PROGRESS,
)
TIMED_OUT = replace(
    RUNNING,
    state=State(Status.TIMED_OUT, "Both heartbeats stale (>10m)", action="SSH to the instance"),
    last_metadata_at=NOW - timedelta(minutes=12, seconds=5),
    last_progress_at=NOW - timedelta(hours=2),
    pending=1,
    delivered=4,
    failures=("Slack (hooks.slack.com): 404 no_service",),
    notes=("The record is on this machine alone.",),
)
WARNED = with_state(RUNNING, conditions={"loss_nan": "loss is NaN at step 25", "clock_skew": "1h ahead"})
BLIND = Outcome(
    "run-1", State(Status.UNKNOWN, "s3://b: access denied"), Unreadable("s3://b: access denied"), NOW, record=RECORD
)


def test_every_line_of_an_outcome_in_its_order() -> None:
    assert lines(TIMED_OUT) == [
        "Run run-1: TIMED_OUT",
        "Detail: Both heartbeats stale (>10m)",
        "Action: SSH to the instance",
        "Progress: phase train, step 25 of 100 (25%), loss 2.346",
        "Heartbeats: metadata 12m 05s ago, progress 2h 00m ago",
        "Alerts: 1 pending, 4 delivered",
        "Undelivered: Slack (hooks.slack.com): 404 no_service",
        "Note: The record is on this machine alone.",
        "Checked: 2026-01-01T12:00:00Z",
    ]


def test_conditions_show_beside_running_and_a_line_each() -> None:
    told = lines(WARNED)
    assert told[0] == "Run run-1: RUNNING (WARNING)"
    assert told[2:4] == ["Warning: loss_nan: loss is NaN at step 25", "Warning: clock_skew: 1h ahead"]


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        pytest.param(RUNNING, exits.OK, id="a running run is OK"),
        pytest.param(with_state(RUNNING, status=Status.SUCCEEDED), exits.OK, id="so is one that succeeded"),
        pytest.param(WARNED, exits.WARNING, id="a running run with conditions is a WARNING"),
        pytest.param(with_state(WARNED, status=Status.SUCCEEDED), exits.WARNING, id="so is a success with conditions"),
        pytest.param(TIMED_OUT, exits.CRITICAL, id="a time-out is CRITICAL"),
        pytest.param(with_state(RUNNING, status=Status.FAILED), exits.CRITICAL, id="so is a failure"),
        pytest.param(with_state(RUNNING, status=Status.CANCELLED), exits.CRITICAL, id="and what a person ended"),
        pytest.param(with_state(RUNNING, status=Status.PREEMPTED), exits.WARNING, id="a preemption is a WARNING"),
        pytest.param(BLIND, exits.UNKNOWN, id="a pass that saw nothing is UNKNOWN"),
    ],
)
def test_the_exit_status(outcome: Outcome, code: int) -> None:
    assert exits.of(outcome) == code


def test_the_document_of_a_run() -> None:
    message = Message("run-1", Event.FAILED, Status.FAILED, "boom", NOW)
    refused = Alert(7, Event.FAILED, NOW, message, {"slack:1": Delivery(failed="404"), "sns:1": Delivery(sent_at=NOW)})
    record = replace(RECORD, outbox=(refused,))
    failed = with_state(WARNED, cause="cuda_oom")
    assert outcome_document(replace(failed, record=record, delivered=1, last_progress_at=NOW)) == {
        "run_id": "run-1",
        "status": "RUNNING",
        "reason": "Heartbeats: metadata.json 3s ago",
        "cause": "cuda_oom",
        "action": None,
        "conditions": ["loss_nan", "clock_skew"],
        "attempt": 3,
        "step": 25,
        "total_steps": 100,
        "last_metadata_at": "2026-01-01T11:59:57.250000Z",
        "last_progress_at": "2026-01-01T12:00:00.250000Z",
        "since": "2026-01-01T11:00:00.250000Z",
        "alerts": {"pending": 0, "delivered": 1, "failed": 1},
    }


def test_what_a_blind_pass_does_not_know_is_null() -> None:
    blind = outcome_document(BLIND)
    assert (blind["status"], blind["since"], blind["step"], blind["total_steps"]) == ("UNKNOWN", None, None, None)
    assert outcome_document(replace(BLIND, record=None))["attempt"] is None


@given(st.text(), st.text(), st.text(), st.floats(), st.integers(-(10**15), 10**15))
def test_hostile_text_is_one_harmless_line_each_and_valid_json(
    reason: str, phase: str, note: str, loss: float, step: int
) -> None:
    progress = replace(PROGRESS, step=step, loss=loss)
    seen = Seen(metadata=replace(METADATA, phase=phase), progress=progress)
    warned = with_state(WARNED, reason=reason, conditions={"stalled": note})
    outcome = replace(warned, observation=seen, step_source=progress, notes=(note,))
    for line in lines(outcome):
        assert "\n" not in line
        assert "\x1b" not in line
    text = dump(outcome_document(outcome))
    assert text.isascii()
    assert "\n" not in text
    json.loads(text, parse_constant=pytest.fail).items()
    text.encode()


@pytest.mark.parametrize(
    ("step", "total", "told"),
    [
        pytest.param(0, 3, "0%", id="nothing yet"),
        pytest.param(999, 1000, "99%", id="100% is only done"),
        pytest.param(7, 3, "100%", id="a step beyond the last"),
        pytest.param(-1, 3, "0%", id="a step before the first"),
        pytest.param(1, 0, "?", id="no total"),
    ],
)
def test_how_far_a_run_is(step: int, total: int, told: str) -> None:
    assert percent(step, total) == told


def test_the_bar_is_full_only_at_the_end() -> None:
    plain = signs.ascii_only()
    bars = [signs.bar(step, total, 4, plain) for step, total in ((1, 2), (999, 1000), (5, 2), (-5, 2))]
    assert bars == ["##..", "###.", "####", "...."]


def test_a_run_without_total_or_anything_seen_has_short_lines() -> None:
    bare = Heartbeat(NOW, "v", step=5, total_steps=-1)
    assert "Progress: step 5" in lines(replace(RUNNING, observation=Seen(progress=bare), step_source=bare))
    nothing = replace(
        TIMED_OUT, observation=NeverSeen(), last_metadata_at=None, last_progress_at=None, step_source=None
    )
    assert not any(line.startswith(("Progress", "Heartbeats")) for line in lines(nothing))


def test_what_shows_the_cause_is_told_with_where_it_was_raised() -> None:
    evidence = Evidence("exit status", 0, "killed by SIGKILL")
    frames = ("train.py:33 in main: loss = \x1b[31mmodel(batch)", "torch/nn/linear.py:9 in forward")
    explained = RecordedCause(Cause("oom", evidence, 0.5, frames=frames))
    told = lines(with_state(TIMED_OUT, cause="oom", explained=explained))
    assert "Cause: oom (perhaps)" in told
    assert "Evidence: exit status: killed by SIGKILL" in told
    assert [line for line in told if line.startswith("Raised at")] == [
        "Raised at: train.py:33 in main: loss = model(batch)",
        "Raised at: torch/nn/linear.py:9 in forward",
    ]


def test_where_it_is_undecided_both_causes_are_told() -> None:
    line = Evidence("exit status", 0, "killed by SIGKILL")
    explained = RecordedCause(Cause("oom", line, 0.5), second=Cause("cancelled", line, 0.25))
    assert "Cause: oom or cancelled (perhaps)" in lines(with_state(TIMED_OUT, cause="oom", explained=explained))


def test_a_failure_that_was_seen_before_is_told_with_its_run() -> None:
    similar = SimilarFailure("llama-7", NOW, runs=3, aftermath="failed_again")
    explained = RecordedCause(Cause("oom", Evidence("a.log", 3, "boom"), 0.9), similar=similar)
    (told,) = [line for line in lines(with_state(TIMED_OUT, explained=explained)) if line.startswith("Seen before")]
    assert told.startswith("Seen before: same as run llama-7 on ")
    assert told.endswith(" (3 runs so far), which failed again the same way after a restart")
