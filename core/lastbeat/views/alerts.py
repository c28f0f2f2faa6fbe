"""Alerts of a run, and what became of each on every channel."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Final

from lastbeat.model.alert import Alert, Delivery
from lastbeat.model.record import Record
from lastbeat.model.route import LEFT_OUT
from lastbeat.model.view import SentAlert
from lastbeat.views.safe import Safe
from lastbeat.watch.effects.outbox import OUTBOX_LIMIT, name_of

SENT: Final = "sent"
WAITING: Final = "waiting"
FAILED: Final = "failed"
TOLD: Final = "told by a group"
DROPPED: Final = "dropped"
_ERROR_LIMIT: Final = 500
_REASON_LIMIT: Final = 500
_CHANNELS: Final = 20


def alerts(record: Record, safe: Safe) -> tuple[SentAlert, ...]:
    """Those that the record still knows, oldest first; no more than a watchdog keeps."""
    return tuple(_alert(alert, safe) for alert in record.outbox[-OUTBOX_LIMIT:])


def pending(record: Record) -> int:
    """Alerts that still have to go out on some channel."""
    return sum(any(not each.settled for each in alert.deliveries.values()) for alert in record.outbox)


def _alert(alert: Alert, safe: Safe) -> SentAlert:
    told = tuple(_deliveries(alert, safe)) or _dropped(alert, safe)
    faults = (each.failed or each.last_error for each in alert.deliveries.values() if each.sent_at is None)
    fault = next((each for each in faults if each), None)
    return SentAlert(
        alert.number,
        str(alert.event),
        alert.created_at,
        safe.name(alert.message.reason, _REASON_LIMIT),
        told,
        safe.maybe(fault, _ERROR_LIMIT),
    )


def _deliveries(alert: Alert, safe: Safe) -> Iterator[tuple[str, str, datetime | None]]:
    meant = ((each, it) for each, it in alert.deliveries.items() if not (it.told_by or "").startswith(LEFT_OUT))
    for identity, delivery in islice(meant, _CHANNELS):
        # What follows the last colon tells two web hooks apart, and is not for people.
        yield (safe.name(name_of(identity)), *_state(delivery))


def _dropped(alert: Alert, safe: Safe) -> tuple[tuple[str, str, datetime | None], ...]:
    """Text for an alert that its route drops."""
    if alert.routed_to != ():
        return ()
    return ((safe.name(f"route {', '.join(alert.routed_by)}"), DROPPED, alert.created_at),)


def _state(delivery: Delivery) -> tuple[str, datetime | None]:
    if delivery.sent_at is not None:
        return (TOLD if delivery.told_by else SENT), delivery.sent_at
    if delivery.failed is not None:
        return FAILED, None
    return WAITING, delivery.not_before
