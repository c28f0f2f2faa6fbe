"""Whatever watchers, channels and leases do: a channel gets the alerts of a record as they were decided."""

from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.alerts.port import DeliveryError, Receipt
from lastbeat.model.alert import Message
from lastbeat.model.record import Record
from lastbeat.model.status import Event, Status
from lastbeat.watch.effects.deferral import defer, deferred_numbers, release, settle_as_told
from lastbeat.watch.effects.outbox import OUTBOX_LIMIT, DeliveryClaim, claim, enqueue, pending, settle
from lastbeat.watch.effects.runner import dispatch
from support.channel import ListChannel
from support.laws import examples

BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
PAGER = "pager:1"
LEASE_S = 60.0
EVENTS = [Event.TIMED_OUT, Event.RECOVERED, Event.FAILED, Event.WARNING]


class Faulty(ListChannel):
    """Each send fails as the next of ``faults`` says; none is left: it succeeds."""

    def __init__(self) -> None:
        super().__init__(PAGER)
        self.faults: list[str] = []

    def send(self, message: Message, receipt: Receipt | None = None) -> Receipt | None:
        fault = self.faults.pop(0) if self.faults else "sent"
        if fault != "sent":
            raise DeliveryError(fault, retryable=fault != "refused", retry_after_s=30.0 if fault == "pause" else None)
        self.sent.append(message)
        return None


class Watchers:
    """Two that share a record. One that ``dies`` sends and settles nothing of what it sent."""

    def __init__(self) -> None:
        self.record, self.now, self.channel = Record("run"), BEGAN, Faulty()
        self.told_by_group: set[int] = set()

    def decide(self, event: Event, *, deferring: bool) -> None:
        known = self.record.alerts
        message = Message("run", event, Status.RUNNING, "", self.now)
        self.record = enqueue(self.record, message, [PAGER])
        if deferring:
            self.record = defer(self.record, known, [PAGER], self.now, self.now + timedelta(seconds=180))

    def group(self, *, tells: bool) -> None:
        numbers = deferred_numbers(self.record, [PAGER])
        if tells:
            self.record = settle_as_told(self.record, [PAGER], numbers=numbers, key="_groups/1", now=self.now)
            self.told_by_group |= set(numbers)
        else:
            self.record = release(self.record, [PAGER], numbers=numbers)

    def claim(self, token: str) -> tuple[DeliveryClaim, ...]:
        self.record, claims = claim(self.record, [PAGER], token, self.now, LEASE_S)
        return claims

    def carry_out(self, token: str, claims: tuple[DeliveryClaim, ...], faults: list[str], *, dies: bool) -> None:
        # A refusal that is not recorded refuses nothing: the alert is sent again.
        self.channel.faults = ["down" if dies and each == "refused" else each for each in faults]
        results = dispatch(claims, [self.channel], 60.0)
        if not dies:
            self.record = settle(self.record, results, token, self.now)

    def numbers(self) -> list[int]:
        """The numbers of the alerts, in the order in which they first came."""
        return list(dict.fromkeys(int(message.key.rpartition("/")[2]) for message in self.channel.sent))


faults = st.lists(st.sampled_from(["sent", "down", "pause", "refused"]), max_size=4)
steps = st.one_of(
    st.tuples(st.just("decide"), st.sampled_from(EVENTS), st.booleans()),
    st.tuples(st.just("group"), st.booleans()),
    st.tuples(st.just("pass"), st.sampled_from("ab"), faults, st.booleans()),
    st.tuples(st.just("time"), st.sampled_from([1.0, 31.0, 61.0, 200.0])),
)


@given(st.lists(steps, max_size=30))
@settings(max_examples=examples(80), deadline=None)
def test_the_order_in_which_alerts_were_decided_is_the_order_in_which_a_channel_gets_them(
    did: list[tuple[Any, ...]],
) -> None:
    world = Watchers()
    for step in did:
        match step:
            case ("decide", event, deferring):
                world.decide(event, deferring=deferring)
            case ("group", tells):
                world.group(tells=tells)
            case ("time", seconds):
                world.now += timedelta(seconds=seconds)
            case ("pass", token, failing, dies):
                claims = world.claim(token)
                assert world.claim("b" if token == "a" else "a") == (), "what one has claimed, no other begins to send"
                world.carry_out(token, claims, failing, dies=dies)
        came = world.numbers()
        assert came == sorted(came)
    for _ in range(40):
        world.now += timedelta(seconds=900)
        world.carry_out("c", world.claim("c"), [], dies=False)
    assert world.numbers() == sorted(world.numbers())
    assert pending(world.record, [PAGER], world.now) == 0, "and nothing waits for ever"
    assert len(world.record.outbox) <= OUTBOX_LIMIT
    refused = {alert.number for alert in world.record.outbox if alert.deliveries[PAGER].failed}
    assert {alert.number for alert in world.record.outbox} <= {*world.numbers(), *refused, *world.told_by_group}


def test_a_run_that_is_back_is_told_alone_where_its_silence_has_yet_to_be_told_alone() -> None:
    world = Watchers()
    world.decide(Event.TIMED_OUT, deferring=False)
    world.carry_out("a", world.claim("a"), ["down"], dies=False)
    world.decide(Event.RECOVERED, deferring=True)
    world.group(tells=True)
    world.now += timedelta(seconds=60)
    world.carry_out("a", world.claim("a"), [], dies=False)
    assert world.channel.events == ["TIMED_OUT", "RECOVERED"], "or its incident would stay open"
