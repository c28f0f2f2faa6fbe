"""Claims: an alert belongs to one watcher at a time, and what became of it is never unsaid."""

from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.deliver.port import DeliveryError
from lastbeat.effects.outbox import claim, enqueue, pending, settle
from lastbeat.model.alert import Message
from lastbeat.model.record import Record
from lastbeat.model.status import Event, Status

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
LATER = NOW + timedelta(seconds=61)
SLACK = "slack:1"


def record_with_alert() -> Record:
    return enqueue(Record("run"), Message("run", Event.FAILED, Status.FAILED, "boom", NOW))


def test_a_claim_keeps_others_away_until_it_runs_out() -> None:
    claimed, mine = claim(record_with_alert(), [SLACK], "me", NOW, 60)
    assert [c.number for c in mine] == [1]
    same, theirs = claim(claimed, [SLACK], "they", NOW + timedelta(seconds=59), 60)
    assert (theirs, same) == ((), claimed)
    _, theirs = claim(claimed, [SLACK], "they", LATER, 60)
    assert [c.number for c in theirs] == [1]


def test_a_late_failure_does_not_take_the_alert_from_whoever_is_at_it_now() -> None:
    claimed, _ = claim(record_with_alert(), [SLACK], "me", NOW, 60)
    taken_over, _ = claim(claimed, [SLACK], "they", LATER, 60)
    late = {(1, SLACK): DeliveryError("timed out", retryable=True)}
    assert settle(taken_over, late, "me", LATER) == taken_over


def test_a_late_success_is_a_success() -> None:
    claimed, _ = claim(record_with_alert(), [SLACK], "me", NOW, 60)
    taken_over, _ = claim(claimed, [SLACK], "they", LATER, 60)
    settled = settle(taken_over, {(1, SLACK): None}, "me", LATER)
    assert (settled.delivered, pending(settled, [SLACK], LATER)) == (1, 0)
    again = settle(settled, {(1, SLACK): DeliveryError("timed out", retryable=True)}, "they", LATER)
    assert again == settled, "and stays one"


@pytest.mark.parametrize("error", [None, DeliveryError("404", retryable=False)])
def test_what_is_settled_is_not_claimed_again(error: DeliveryError | None) -> None:
    claimed, _ = claim(record_with_alert(), [SLACK], "me", NOW, 60)
    settled = settle(claimed, {(1, SLACK): error}, "me", NOW)
    assert claim(settled, [SLACK], "me", LATER, 60) == (settled, ())


def test_each_channel_has_its_own_delivery() -> None:
    claimed, mine = claim(record_with_alert(), [SLACK, "sns:2"], "me", NOW, 60)
    assert [(c.number, c.identity) for c in mine] == [(1, SLACK), (1, "sns:2")]
    settled = settle(claimed, {(1, SLACK): None, (1, "sns:2"): DeliveryError("503", retryable=True)}, "me", NOW)
    assert (settled.delivered, pending(settled, [SLACK], NOW), pending(settled, ["sns:2"], NOW)) == (1, 0, 1)


def test_the_result_of_an_alert_that_was_given_up_meanwhile_changes_nothing() -> None:
    record = record_with_alert()
    assert settle(record, {(7, SLACK): None}, "me", NOW) == record
