"""The outbox: recorded alerts, and their deliveries on each channel.

    one pass                                     another pass
    ────────                                     ────────────
    write: transition + alert + claim            (its own write of the same record fails: it reads again,
    send ──────────────► people                   finds the alert claimed, and leaves it alone)
    write: sent

A pass that dies after its first write leaves a claim that expires after ``lease_s``; the next pass then sends. So an
alert goes out twice only if a pass dies between sending and writing "sent".

Each channel gets the alerts of a record in the order in which they were decided. While it has not settled one (it is
deferred, being sent, or failed for now), it gets nothing newer: a RECOVERED must not overtake its TIMED_OUT, and the
receipt of the one is for the other. All functions here are pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from lastbeat.alerts.port import DeliveryError, Receipt
from lastbeat.model.alert import Alert, Delivery, Message
from lastbeat.model.data import dataclass
from lastbeat.model.record import Record
from lastbeat.model.route import LEFT_OUT
from lastbeat.model.times import backoff_s

OUTBOX_LIMIT = 50
RECEIPTS_LIMIT = 50
ADOPT_S = 24 * 3600.0
"""Age in s up to which a channel takes on an alert that was decided by a watcher without that channel. It does not if a
channel of its name has delivered the alert, which is the same channel under a new address, or if it did not exist yet,
see :func:`without_new`."""
ORDER_S = 24 * 3600.0
"""Age in s from which a failing alert no longer holds up newer ones, because a channel may refuse only this one."""
_BACKOFF_S = 5.0
_BACKOFF_CAP_S = 900.0
_RETRY_AFTER_CAP_S = 3600.0


@dataclass(frozen=True, slots=True)
class DeliveryClaim:
    """One alert on one channel that only this pass may send for now."""

    number: int
    identity: str
    message: Message
    receipt: Receipt | None = None
    """The channel's receipt of an earlier alert on the same topic."""
    keeps_order: bool = True
    """Whether the channel gets nothing newer in this pass if this alert fails for now."""


DeliveryResult = DeliveryError | Receipt | None
"""The result of one delivery: an error, or success with or without a new receipt."""


@dataclass(frozen=True, slots=True)
class RoutedTo:
    """The destinations to which routes send an alert."""

    to: tuple[str, ...]
    """Destinations by name, see :func:`answers_to`; empty if the alert is dropped."""
    by: tuple[str, ...]
    """The routes that took it."""
    left_out: tuple[str, ...] = ()
    """Channels of this watcher that do not get the alert."""


def enqueue(record: Record, message: Message, identities: Iterable[str] = (), routed: RoutedTo | None = None) -> Record:
    """Add an alert for the channels ``identities``. Other channels may take it on, see :data:`ADOPT_S`; if it is
    ``routed``, only those that routes name.

    A full outbox drops its oldest entries, settled ones first, and counts unsettled ones that it dropped.
    """
    number = record.alerts + 1
    # Attempt and transition do not identify an alert: warnings have neither of their own.
    keyed = replace(message, key=message.key or f"{record.run_id}/{number}")
    outbox, dropped = list(record.outbox), 0
    while len(outbox) >= OUTBOX_LIMIT:
        spent = next((alert for alert in outbox if _spent(alert, message.at)), None)
        dropped += spent is None
        outbox.remove(spent or outbox[0])
    if dropped:
        lost = record.dropped + dropped
        keyed = replace(keyed, notes=(*keyed.notes, f"{lost} earlier alerts were given up: no channel took them."))
    outbox.append(addressed(Alert(number, keyed.event, keyed.at, keyed), identities, routed))
    return replace(record, outbox=tuple(outbox), alerts=number, dropped=record.dropped + dropped)


def addressed(alert: Alert, identities: Iterable[str], routed: RoutedTo | None) -> Alert:
    """``alert`` with a delivery for each of ``identities``. It counts as delivered on a channel that is left out."""
    deliveries = {identity: Delivery() for identity in identities}
    if routed is None:
        return replace(alert, deliveries=deliveries)
    told_by = LEFT_OUT + ",".join(routed.by)
    spared = {identity: Delivery(sent_at=alert.created_at, told_by=told_by) for identity in routed.left_out}
    return replace(alert, deliveries={**deliveries, **spared}, routed_to=routed.to, routed_by=routed.by)


def without_new(alert: Alert, identities: Iterable[str]) -> Alert:
    """``alert`` with nothing to deliver for ``identities``, which did not exist when it was decided."""
    done = {each: Delivery(sent_at=alert.created_at, told_by=f"{LEFT_OUT}new") for each in identities}
    return replace(alert, deliveries={**alert.deliveries, **done}) if done else alert


def claim(
    record: Record, identities: Iterable[str], token: str, now: datetime, lease_s: float
) -> tuple[Record, tuple[DeliveryClaim, ...]]:
    """Claim the due alerts on the channels ``identities`` for the holder of ``token``. Each channel has its oldest open
    alerts up to the first that is not due."""
    claims: list[DeliveryClaim] = []
    outbox = list(_forget_old(record.outbox, now))
    for identity in identities:
        if _channel_waits(outbox, identity, now):
            continue
        for index, alert in enumerate(outbox):
            if not _open(alert, identity, now):
                continue
            if not _due(alert, identity, now):
                break
            delivery = replace(
                alert.deliveries.get(identity, Delivery()),
                claimed_until=now + timedelta(seconds=lease_s),
                claimed_by=token,
            )
            outbox[index] = replace(alert, deliveries={**alert.deliveries, identity: delivery})
            known = record.receipts.get(_receipt_key(identity, alert.message))
            receipt = Receipt(known) if known is not None else None
            keeps_order = (now - alert.created_at).total_seconds() <= ORDER_S
            claims.append(DeliveryClaim(alert.number, identity, alert.message, receipt, keeps_order))
    return (replace(record, outbox=tuple(outbox)), tuple(claims)) if claims else (record, ())


def settle(record: Record, results: Mapping[tuple[int, str], DeliveryResult], token: str, now: datetime) -> Record:
    """Record the results of the deliveries that ``token`` had claimed: sent, failed for good, or to be tried again.
    Deliveries without a result were not begun, and are free again."""
    outbox, sent, receipts = list(record.outbox), 0, dict(record.receipts)
    for index, alert in enumerate(outbox):
        deliveries = dict(alert.deliveries)
        for identity, delivery in alert.deliveries.items():
            if delivery.settled:
                continue
            if (alert.number, identity) not in results:
                if delivery.claimed_by == token:
                    deliveries[identity] = replace(delivery, claimed_until=None, claimed_by=None)
                continue
            result = results[alert.number, identity]
            error = result if isinstance(result, DeliveryError) else None
            if error is not None and delivery.claimed_by != token:
                # The claim expired and another watcher has it, so this failure does not count for its try.
                continue
            receipt = receipt_of(result)
            if receipt is not None:
                key = _receipt_key(identity, alert.message)
                receipts.pop(key, None)
                receipts[key] = receipt
            deliveries[identity] = _after(delivery, error, now)
            sent += error is None
        outbox[index] = replace(alert, deliveries=deliveries)
    latest = dict(list(receipts.items())[-RECEIPTS_LIMIT:])
    return replace(record, outbox=tuple(outbox), delivered=record.delivered + sent, receipts=latest)


def receipt_of(result: DeliveryResult) -> Receipt | None:
    """The new receipt that a delivery left, whether it succeeded or not."""
    return result.receipt if isinstance(result, DeliveryError) else result


def _receipt_key(identity: str, message: Message) -> str:
    return f"{identity}/{message.topic}" if message.topic else identity


def pending(record: Record, identities: Iterable[str], now: datetime) -> int:
    """Deliveries on the channels ``identities`` that still have to go out, including those under way. Deliveries on
    other watchers' channels do not count.
    """
    return sum(_open(alert, identity, now) for identity in identities for alert in record.outbox)


def failures(record: Record, now: datetime) -> tuple[str, ...]:
    """Failed deliveries that have not succeeded since, one line each. Refused ones are listed for a day."""
    lines = []
    for alert in record.outbox:
        for identity, delivery in alert.deliveries.items():
            channel = name_of(identity)
            if delivery.failed is not None and _adoptable(alert, now):
                lines.append(f"alert {alert.number} ({alert.event}) was refused by {channel}: {delivery.failed}")
            elif delivery.last_error is not None and not delivery.settled:
                lines.append(f"alert {alert.number} ({alert.event}) waits for {channel}: {delivery.last_error}")
    return tuple(lines)


def delivered_under_name(alert: Alert, identity: str) -> bool:
    """Whether a channel of the name of ``identity`` has delivered it, perhaps under an earlier address."""
    name = name_of(identity)
    return any(delivery.sent_at is not None and name_of(each) == name for each, delivery in alert.deliveries.items())


def name_of(identity: str) -> str:
    """The channel's name, as ``slack`` for ``slack:1f2e3d4c`` and ``slack:oncall`` for ``slack:oncall:1f2e3d4c``."""
    return identity.rpartition(":")[0] or identity


def answers_to(identity: str) -> frozenset[str]:
    """The destinations to which a channel belongs: ``slack:oncall`` also to ``oncall``, ``apprise-discord`` also to
    ``apprise``."""
    name = name_of(identity)
    kind, _, own = name.partition(":")
    return frozenset({name, own or kind.partition("-")[0]})


def may_take(alert: Alert, identity: str) -> bool:
    """Whether the alert's routes allow that channel."""
    return alert.routed_to is None or not answers_to(identity).isdisjoint(alert.routed_to)


def _takes_on(alert: Alert, identity: str, now: datetime) -> bool:
    """Whether a channel that was missing at the alert's decision still has to deliver it."""
    return _adoptable(alert, now) and may_take(alert, identity) and not delivered_under_name(alert, identity)


def _settled(alert: Alert) -> bool:
    return bool(alert.deliveries) and all(delivery.settled for delivery in alert.deliveries.values())


def _spent(alert: Alert, now: datetime) -> bool:
    """Whether an alert has no open delivery: every channel has settled it, or none took it on in time."""
    return _settled(alert) if alert.deliveries else not _adoptable(alert, now)


def _adoptable(alert: Alert, now: datetime) -> bool:
    return (now - alert.created_at).total_seconds() <= ADOPT_S


def _forget_old(outbox: Iterable[Alert], now: datetime) -> Iterable[Alert]:
    """``outbox`` without the alerts that no channel can need any more."""
    return (alert for alert in outbox if _adoptable(alert, now) or not _spent(alert, now))


def _open(alert: Alert, identity: str, now: datetime) -> bool:
    """Whether the channel still has to deliver it."""
    delivery = alert.deliveries.get(identity)
    return _takes_on(alert, identity, now) if delivery is None else not delivery.settled


def _due(alert: Alert, identity: str, now: datetime) -> bool:
    """Whether an open alert may be sent now."""
    delivery = alert.deliveries.get(identity, Delivery())
    return all(until is None or until <= now for until in (delivery.claimed_until, delivery.not_before))


def _channel_waits(outbox: Iterable[Alert], identity: str, now: datetime) -> bool:
    """Whether the channel requested a pause or is down, so that every alert waits, including those that have not
    failed."""
    asked = (alert.deliveries[identity] for alert in outbox if identity in alert.deliveries)
    # An alert that was never tried is deferred, so it is no sign of the channel's state.
    return any(each.tries and each.not_before is not None and each.not_before > now for each in asked)


def _after(delivery: Delivery, error: DeliveryError | None, now: datetime) -> Delivery:
    tried = replace(delivery, tries=delivery.tries + 1, claimed_until=None, claimed_by=None, not_before=None)
    if error is None:
        return replace(tried, sent_at=now, last_error=None)
    if not error.retryable:
        return replace(tried, failed=str(error), last_error=None)
    if error.retry_after_s is not None:
        wait_s = min(error.retry_after_s, _RETRY_AFTER_CAP_S)
    else:
        # The very next pass retries a first failure: most are brief.
        wait_s = backoff_s(tried.tries - 1, _BACKOFF_S, _BACKOFF_CAP_S)
    return replace(tried, last_error=str(error), not_before=now + timedelta(seconds=wait_s) if wait_s else None)
