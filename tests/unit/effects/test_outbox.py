"""Claims: an alert belongs to one watcher at a time, and what became of it is never unsaid."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.alerts.port import DeliveryError, Receipt
from lastbeat.model.alert import Message
from lastbeat.model.record import Record
from lastbeat.model.status import Event, Status
from lastbeat.watch.effects.outbox import RECEIPTS_LIMIT, claim, enqueue, pending, settle
from lastbeat.watch.effects.runner import dispatch
from support.channel import ListChannel

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
LATER = NOW + timedelta(seconds=61)
SLACK = "slack:1"


def record_with_alert() -> Record:
    return enqueue(Record("run"), Message("run", Event.FAILED, Status.FAILED, "boom", NOW))


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


def test_each_channel_has_its_own_delivery() -> None:
    claimed, mine = claim(record_with_alert(), [SLACK, "sns:2"], "me", NOW, 60)
    assert [(c.number, c.identity) for c in mine] == [(1, SLACK), (1, "sns:2")]
    settled = settle(claimed, {(1, SLACK): None, (1, "sns:2"): DeliveryError("503", retryable=True)}, "me", NOW)
    assert (settled.delivered, pending(settled, [SLACK], NOW), pending(settled, ["sns:2"], NOW)) == (1, 0, 1)


NEW_ADDRESS = "slack:9"
ROTATED: list[tuple[str, dict[str, DeliveryError | None], list[str]]] = [
    ("what was delivered there before is not sent to the new address", {SLACK: None}, []),
    ("what the old address refused for good goes out", {SLACK: DeliveryError("410", retryable=False)}, [NEW_ADDRESS]),
    ("what waits for the old address goes out", {SLACK: DeliveryError("503", retryable=True)}, [NEW_ADDRESS]),
    ("what another kind of channel delivered goes out", {"sns:2": None}, [NEW_ADDRESS]),
    ("what nobody delivered goes out", {}, [NEW_ADDRESS]),
]


@pytest.mark.parametrize(("before", "sent"), [pytest.param(b, s, id=name) for name, b, s in ROTATED])
def test_a_new_address_of_a_channel(before: dict[str, DeliveryError | None], sent: list[str]) -> None:
    record, _ = claim(record_with_alert(), list(before), "me", NOW, 60)
    record = settle(record, {(1, identity): error for identity, error in before.items()}, "me", NOW)
    assert pending(record, [NEW_ADDRESS], LATER) == len(sent)
    _, claims = claim(record, [NEW_ADDRESS], "me", LATER, 60)
    assert [c.identity for c in claims] == sent


def test_while_another_sends_on_a_channel_later_alerts_wait_for_it() -> None:
    timed_out, _ = claim(record_with_alert(), [SLACK], "me", NOW, 60)
    both = enqueue(timed_out, Message("run", Event.RECOVERED, Status.RUNNING, "back", NOW), [SLACK, "sns:2"])
    soon = NOW + timedelta(seconds=5)
    _, theirs = claim(both, [SLACK, "sns:2"], "they", soon, 60)
    assert [(c.number, c.identity) for c in theirs] == [(1, "sns:2"), (2, "sns:2")], "another channel does not wait"
    _, mine = claim(both, [SLACK], "me", soon, 60)
    assert mine == (), "the one that sends waits, too"
    _, theirs = claim(both, [SLACK], "they", LATER, 60)
    assert [c.number for c in theirs] == [1, 2], "and the dead hold up nobody"


DOWN = DeliveryError("503", retryable=True)
REFUSED = DeliveryError("400", retryable=False)
PASSES: list[tuple[str, dict[int, DeliveryError], list[int], list[int]]] = [
    ("a channel that takes all gets all, in order", {}, [1, 2, 3], []),
    ("what comes after an alert that failed for now is not begun", {1: DOWN}, [1], [1, 2, 3]),
    ("what came before it is sent", {2: DOWN}, [1, 2], [2, 3]),
    ("an alert that is refused for good holds up none", {1: REFUSED}, [1, 2, 3], []),
    ("one that is refused, then one that failed", {1: REFUSED, 2: DOWN}, [1, 2], [2, 3]),
]


@pytest.mark.parametrize(("faults", "tried", "left"), [pytest.param(f, t, n, id=name) for name, f, t, n in PASSES])
def test_a_channel_gets_nothing_newer_before_what_it_failed_on(
    faults: dict[int, DeliveryError], tried: list[int], left: list[int]
) -> None:
    class Failing(ListChannel):
        def send(self, message: Message, receipt: Receipt | None = None) -> Receipt | None:
            number = int(message.key.rpartition("/")[2])
            self.sent.append(message)
            if number in faults:
                raise faults[number]
            return None

    channel = Failing()
    claimed, claims = claim(three_alerts(), [channel.identity], "me", NOW, 60)
    settled = settle(claimed, dispatch(claims, [channel], 60.0), "me", NOW)
    assert [int(message.key.rpartition("/")[2]) for message in channel.sent] == tried
    _, theirs = claim(settled, [channel.identity], "they", NOW, 60)
    assert [c.number for c in theirs] == left, "whoever is next goes on at once, where it stopped"


def three_alerts(on: tuple[str, ...] = ("list:1",)) -> Record:
    record = Record("run")
    for event in (Event.TIMED_OUT, Event.RECOVERED, Event.FAILED):
        record = enqueue(record, Message("run", event, Status.FAILED, "", NOW), on)
    return record


def test_an_alert_that_a_channel_has_failed_on_for_a_day_holds_up_no_other() -> None:
    class Picky(ListChannel):
        def send(self, message: Message, receipt: Receipt | None = None) -> Receipt | None:
            if message.event is Event.TIMED_OUT:
                raise DOWN
            return super().send(message)

    channel, record, now = Picky(), three_alerts(), NOW
    while not channel.sent:
        assert now - NOW < timedelta(days=2), "the newer ones never came"
        record, claims = claim(record, [channel.identity], "me", now, 60)
        record = settle(record, dispatch(claims, [channel], 60.0), "me", now)
        now += timedelta(minutes=5)
    assert channel.events == ["RECOVERED", "FAILED"]
    assert now - NOW > timedelta(days=1)
    assert pending(record, [channel.identity], now) == 1, "it is tried further on"


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        pytest.param(Receipt("new"), "new", id="an alert that was sent"),
        pytest.param(None, "old", id="one that left nothing new"),
        pytest.param(
            DeliveryError("503", retryable=True, receipt=Receipt("half")), "half", id="one that was half done"
        ),
        pytest.param(DeliveryError("503", retryable=True), "old", id="one that failed"),
    ],
)
def test_a_channel_gets_what_it_kept_of_the_alert_before(result: DeliveryError | Receipt | None, kept: str) -> None:
    record = replace(record_with_alert(), receipts={SLACK: "old", "sns:2": "theirs", f"{SLACK}/group-1": "a group's"})
    claimed, mine = claim(record, [SLACK], "me", NOW, 60)
    assert [c.receipt for c in mine] == ["old"]
    settled = settle(claimed, {(1, SLACK): result}, "me", NOW)
    _, mine = claim(enqueue(settled, Message("run", Event.FAILED, Status.FAILED, "2", LATER)), [SLACK], "me", LATER, 60)
    assert {c.receipt for c in mine} == {kept}
    assert settled.receipts["sns:2"] == "theirs"


def test_each_group_has_receipts_of_its_own_and_the_latest_are_kept() -> None:
    record = Record("_groups")
    for number in range(1, RECEIPTS_LIMIT + 3):
        message = Message("_groups", Event.TIMED_OUT, Status.TIMED_OUT, "", NOW, group=number)
        claimed, mine = claim(enqueue(record, message), [SLACK], "me", NOW, 60)
        assert [c.receipt for c in mine] == [None]
        record = settle(claimed, {(number, SLACK): Receipt(str(number))}, "me", NOW)
    assert len(record.receipts) == RECEIPTS_LIMIT
    assert record.receipts[f"{SLACK}/group-{RECEIPTS_LIMIT + 2}"] == str(RECEIPTS_LIMIT + 2)


def test_of_two_alerts_in_one_pass_the_second_gets_what_the_first_left() -> None:
    class Threaded(ListChannel):
        def send(self, message: Message, receipt: Receipt | None = None) -> Receipt | None:
            super().send(message)
            return Receipt(f"{receipt}+{message.event}")

    both = enqueue(record_with_alert(), Message("run", Event.RESTARTED, Status.RUNNING, "again", NOW))
    claimed, claims = claim(replace(both, receipts={"list:1": "0"}), ["list:1"], "me", NOW, 60)
    settled = settle(claimed, dispatch(claims, [Threaded()], 60.0), "me", NOW)
    assert settled.receipts == {"list:1": "0+FAILED+RESTARTED"}
