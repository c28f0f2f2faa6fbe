"""Held alerts: no pass sends them, nothing newer of their run overtakes them, and what became of them stands."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.alerts.port import DeliveryError
from lastbeat.model.alert import Message
from lastbeat.model.record import Record
from lastbeat.model.status import Event, Status
from lastbeat.watch.effects.deferral import (
    LONGEST_S,
    DeliveryCounts,
    defer,
    deferred_numbers,
    failed_deliveries,
    holds_up,
    prolong,
    release,
    settle_as_told,
)
from lastbeat.watch.effects.outbox import claim, enqueue, failures, pending, settle

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
UNTIL = NOW + timedelta(seconds=60)
LATER = NOW + timedelta(seconds=120)
SLACK, SNS = "slack:1", "sns:2"


def message(event: Event = Event.TIMED_OUT) -> Message:
    return Message("run", event, Status.TIMED_OUT, "silent", NOW)


def held(*events: Event, on: tuple[str, ...] = (SLACK,)) -> Record:
    record = Record("run")
    for event in events or (Event.TIMED_OUT,):
        record = enqueue(record, message(event), on)
    return defer(record, 0, on, NOW, UNTIL)


def claimed(record: Record, now: datetime, identity: str = SLACK) -> list[int]:
    return [each.number for each in claim(record, [identity], "me", now, 60)[1]]


@pytest.mark.parametrize("event", list(Event))
def test_only_what_groups_tell_is_held(event: Event) -> None:
    record = held(event)
    grouped = event in {Event.TIMED_OUT, Event.RECOVERED, Event.STARTED}
    assert deferred_numbers(record, [SLACK]) == ((1,) if grouped else ())
    assert claimed(record, NOW) == ([] if grouped else [1])


def test_a_hold_that_has_run_out_makes_it_due_and_until_it_is_claimed_a_group_may_still_tell_it() -> None:
    record = held()
    assert claimed(record, UNTIL) == [1]
    assert deferred_numbers(record, [SLACK]) == (1,)
    begun, _ = claim(record, [SLACK], "me", UNTIL, 60)
    assert deferred_numbers(begun, [SLACK]) == ()
    assert settle_as_told(begun, [SLACK], numbers=[1], key="_groups/1", now=UNTIL) is begun


def test_a_newer_alert_of_the_run_waits_for_a_held_one_which_is_not_held_again() -> None:
    record = enqueue(held(), message(Event.FAILED), [SLACK, SNS])
    assert (holds_up(record, 1, [SLACK]), holds_up(record, 2, [SLACK])) == (True, False)
    assert (claimed(record, NOW), claimed(record, NOW, SNS)) == ([], [1, 2]), "nothing is held for the other channel"
    assert defer(record, 2, [SLACK], NOW, LATER) is record
    assert claimed(record, UNTIL) == [1, 2]


def test_what_is_released_is_due_at_once_and_not_held_again() -> None:
    record = release(held(), [SLACK], numbers=[1])
    assert claimed(record, NOW) == [1]
    assert defer(record, 1, [SLACK], NOW, UNTIL) is record


def test_what_another_watcher_decided_without_this_channel_is_held_for_it_too() -> None:
    record = enqueue(Record("run"), message(), [SNS])
    both = defer(record, 1, [SLACK, SNS], NOW, UNTIL)
    assert deferred_numbers(both, [SLACK]) == (1,)
    assert deferred_numbers(both, [SNS]) == (), "it was on its way there already"
    assert defer(record, 1, [SLACK], NOW + timedelta(hours=25), UNTIL) is record, "and old news is no news"


def test_told_by_a_group_is_settled_and_counts_as_no_delivery() -> None:
    record = settle_as_told(held(on=(SLACK, SNS)), [SLACK], numbers=[1], key="_groups/1", now=NOW)
    assert (record.delivered, pending(record, [SLACK], NOW), pending(record, [SNS], NOW)) == (0, 0, 1)
    delivery = record.outbox[0].deliveries[SLACK]
    assert (delivery.told_by, delivery.sent_at, delivery.settled) == ("_groups/1", NOW, True)
    assert claimed(record, UNTIL) == []
    assert deferred_numbers(record, [SNS]) == (1,), "another channel has a sweep of its own to come for it"


@pytest.mark.parametrize("act", ["release", "told", "wait"])
def test_other_alerts_are_left_alone(act: str) -> None:
    record = held(Event.TIMED_OUT, Event.RECOVERED)
    later = UNTIL + timedelta(seconds=60)
    changed = {
        "release": lambda: release(record, [SLACK], numbers=[2]),
        "told": lambda: settle_as_told(record, [SLACK], numbers=[2], key="_groups/1", now=NOW),
        "wait": lambda: prolong(record, [SLACK], numbers=[2], until=later),
    }[act]()
    assert changed.outbox[0] == record.outbox[0]
    assert changed.outbox[1] != record.outbox[1]


def test_a_longer_hold_is_not_made_shorter() -> None:
    record = held()
    assert prolong(record, [SLACK], numbers=[1], until=NOW) is record
    assert claimed(prolong(record, [SLACK], numbers=[1], until=UNTIL + timedelta(seconds=60)), UNTIL) == []


def test_what_was_tried_in_vain_is_counted() -> None:
    record, _ = claim(release(held(), [SLACK], numbers=[1]), [SLACK], "me", NOW, 60)
    record = settle(record, {(1, SLACK): DeliveryError("503", retryable=True)}, "me", NOW)
    assert (
        failed_deliveries(record, [1], [SLACK]),
        failed_deliveries(record, [2], [SLACK]),
        len(failures(record, NOW)),
    ) == (1, 0, 1)
    assert DeliveryCounts(1, 2, 3) + DeliveryCounts(4, 5, 6) == DeliveryCounts(5, 7, 9)


def test_a_hold_that_has_run_out_is_renewed_by_the_next_look_but_not_for_ever() -> None:
    soon, late = NOW + timedelta(seconds=LONGEST_S), NOW + timedelta(seconds=LONGEST_S + 1)
    assert claimed(defer(held(), 1, [SLACK], soon, soon + timedelta(seconds=60)), soon) == []
    assert claimed(defer(held(), 1, [SLACK], late, late + timedelta(seconds=60)), late) == [1]


def test_where_a_run_has_a_thread_or_an_incident_that_it_is_back_is_told_there_and_not_only_by_its_group() -> None:
    record = replace(held(Event.TIMED_OUT, Event.RECOVERED, on=(SLACK, SNS)), receipts={SNS: "an incident"})
    told = settle_as_told(record, [SLACK, SNS], numbers=[1, 2], key="_groups/1", now=NOW)
    assert claimed(told, NOW, SLACK) == []
    assert claimed(told, NOW, SNS) == [2]
    assert told.outbox[0].deliveries[SNS].told_by == "_groups/1"
