"""Deferred alerts: they wait in the run's record until they are released, or a group's notice reports them. Pure.

    a look                     the end of the pass                       and if it dies before
    ──────                     ───────────────────                       ─────────────────────
    write: transition + alert, few like it: released, sent alone         the next sweep decides; when the deferral
    deferred until ``until``   many: a group's notice reports it         has expired, any other watcher sends it

A delivery is deferred if it has a ``not_before`` and was neither tried nor claimed.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime

from lastbeat.model.alert import Alert, Delivery
from lastbeat.model.data import dataclass
from lastbeat.model.record import Record
from lastbeat.model.status import Event
from lastbeat.watch.effects.outbox import ADOPT_S, delivered_under_name, may_take

GROUPED = frozenset({Event.TIMED_OUT, Event.RECOVERED, Event.STARTED})
"""Events that groups report. All other alerts go out alone and at once, except those of a first look at a fleet."""
_BACK = frozenset({Event.RECOVERED, Event.STARTED})
LONGEST_S = 1800.0
"""Age in s from which an alert is not deferred again once its deferral has expired. It covers the wait for a group's
next notice plus a few passes that die, so that an alert is not sent both alone and in the group's notice."""


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """Numbers of deliveries by result."""

    sent: int = 0
    failed: int = 0
    """Tried without success."""
    pending: int = 0

    def __add__(self, other: "DeliveryCounts") -> "DeliveryCounts":
        return DeliveryCounts(self.sent + other.sent, self.failed + other.failed, self.pending + other.pending)


def defer(record: Record, decided_after: int, identities: Iterable[str], now: datetime, until: datetime) -> Record:
    """Defer the alerts that a group may report until ``until``:

    1. those decided just now: with a number above ``decided_after``;
    2. those that other watchers decided, on channels of ``identities`` that have not got them yet;
    3. those deferred before, if that expires and no newer alert of the run waits for them. A group may have reported
       them already, and the end of this pass finds out.

    Passes that never finish do not defer an alert forever: see :data:`LONGEST_S`.
    """
    identities = tuple(identities)

    def wants(alert: Alert, identity: str) -> bool:
        known = alert.deliveries.get(identity)
        if not may_take(alert, identity) or (known is not None and known.settled):
            return False
        if alert.number > decided_after:
            return True
        # An old alert belongs to no group that forms now.
        if (now - alert.created_at).total_seconds() > LONGEST_S:
            return False
        if known is None:
            return not delivered_under_name(alert, identity)
        return _expires(known, until) and not holds_up(record, alert.number, [identity])

    def deferred(alert: Alert) -> Alert:
        if not _may_be_grouped(alert) or (now - alert.created_at).total_seconds() > ADOPT_S:
            return alert
        fresh = {each: Delivery(not_before=until) for each in identities if wants(alert, each)}
        return replace(alert, deliveries={**alert.deliveries, **fresh}) if fresh else alert

    return _changed(record, deferred)


def deferred_numbers(record: Record, identities: Iterable[str]) -> tuple[int, ...]:
    """Numbers of the alerts that are deferred, or were until just now, on any of the channels."""
    wanted = tuple(identities)
    return tuple(
        alert.number
        for alert in record.outbox
        if _may_be_grouped(alert)
        and any(_is_deferred(alert.deliveries[each]) for each in wanted if each in alert.deliveries)
    )


def holds_up(record: Record, number: int, identities: Iterable[str]) -> bool:
    """Whether an alert that no group reports waits for that one to go out first."""
    return any(
        each in alert.deliveries and not alert.deliveries[each].settled
        for alert in record.outbox
        if alert.number > number and not _may_be_grouped(alert)
        for each in identities
    )


def release(record: Record, identities: Iterable[str], *, numbers: Collection[int]) -> Record:
    """End their deferral: they are due at once."""
    return _change_deferred(record, numbers, identities, not_before=None)


def prolong(record: Record, identities: Iterable[str], *, numbers: Collection[int], until: datetime) -> Record:
    """Defer them until ``until``, unless they are deferred for longer."""
    return _change_deferred(record, numbers, identities, not_before=until, later_than=until)


def settle_as_told(
    record: Record, identities: Iterable[str], *, numbers: Collection[int], key: str, now: datetime
) -> Record:
    """Settle the alerts ``numbers``, which the group's alert ``key`` has reported. One that is being sent stays as it
    is.

    A channel that keeps a receipt of this run (its own thread, an open incident), or has yet to send an alert of it
    alone, gets the run's return as well, because the notice of the group ends no incident of the run.
    """
    back = {alert.number for alert in record.outbox if alert.number in numbers and alert.event in _BACK}
    here = {each for each in identities if each in record.receipts or _sends_alone(record, each)}
    settled = _change_deferred(record, numbers, set(identities) - here, not_before=None, sent_at=now, told_by=key)
    settled = _change_deferred(settled, set(numbers) - back, here, not_before=None, sent_at=now, told_by=key)
    return release(settled, here, numbers=back)


def failed_deliveries(record: Record, numbers: Collection[int], identities: Iterable[str]) -> int:
    """Deliveries of these alerts that have failed so far."""
    wanted = set(identities)
    return sum(
        identity in wanted and (delivery.failed or delivery.last_error) is not None
        for alert in record.outbox
        if alert.number in numbers
        for identity, delivery in alert.deliveries.items()
    )


def _may_be_grouped(alert: Alert) -> bool:
    return alert.event in GROUPED or alert.found_ended


def _is_deferred(delivery: Delivery) -> bool:
    waits = delivery.not_before is not None and not delivery.tries and delivery.claimed_by is None
    return waits and not delivery.settled


def _sends_alone(record: Record, identity: str) -> bool:
    """Whether the channel has yet to send an alert of this run that is not deferred."""
    deliveries = (alert.deliveries[identity] for alert in record.outbox if identity in alert.deliveries)
    return any(not each.settled and not _is_deferred(each) for each in deliveries)


def _expires(delivery: Delivery, until: datetime) -> bool:
    return _is_deferred(delivery) and delivery.not_before is not None and delivery.not_before < until


def _change_deferred(
    record: Record,
    numbers: Collection[int],
    identities: Iterable[str],
    *,
    later_than: datetime | None = None,
    **changes: object,
) -> Record:
    wanted = set(identities)

    def one(identity: str, delivery: Delivery) -> Delivery:
        if identity not in wanted or not _is_deferred(delivery):
            return delivery
        if later_than is not None and delivery.not_before is not None and delivery.not_before >= later_than:
            return delivery
        return replace(delivery, **changes)  # type: ignore[arg-type]

    def changed(alert: Alert) -> Alert:
        if alert.number not in numbers:
            return alert
        return replace(alert, deliveries={each: one(each, delivery) for each, delivery in alert.deliveries.items()})

    return _changed(record, changed)


def _changed(record: Record, change: Callable[[Alert], Alert]) -> Record:
    outbox = tuple(map(change, record.outbox))
    return record if outbox == record.outbox else replace(record, outbox=outbox)
