"""Alerts that wait to be told together: held in the run's own record, then released or told by a group. Pure.

    a look                     the end of the pass                       and if it dies before
    ──────                     ───────────────────                       ─────────────────────
    write: transition + alert, few like it: released, sent alone         the next sweep finds out; when the hold
    held until ``until``       many: a group's notice tells it           has run out, any other watcher sends it

A delivery is held that was neither tried nor claimed and is not to be tried before some time.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from lastbeat.effects.outbox import ADOPT_S
from lastbeat.model.alert import Alert, Delivery
from lastbeat.model.record import Record
from lastbeat.model.status import Event

GROUPED = frozenset({Event.TIMED_OUT, Event.RECOVERED})
"""What groups tell of. Whatever else happens to a run is told by itself and at once."""
LONGEST_S = 1800.0
"""An alert older than this is not held again when its hold has run out. It is longer than a group waits for its next
notice, and a few passes that die before their end: what is told alone and by the group as well is told twice."""


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """What became of deliveries."""

    sent: int = 0
    failed: int = 0
    """Tried in vain."""
    pending: int = 0

    def __add__(self, other: "DeliveryCounts") -> "DeliveryCounts":
        return DeliveryCounts(self.sent + other.sent, self.failed + other.failed, self.pending + other.pending)


def defer(record: Record, decided_after: int, identities: Iterable[str], now: datetime, until: datetime) -> Record:
    """Hold what groups may tell of the alerts with a number above ``decided_after``, which were decided just now.

    Likewise those that a watcher without the channels ``identities`` decided and that these have yet to meet, and those
    that were held before: a group may have told them already, and the end of this pass finds out. Passes that never
    come to their end do not keep people waiting for ever: see :data:`LONGEST_S`.
    """
    identities = tuple(identities)

    def wants(alert: Alert, identity: str) -> bool:
        known = alert.deliveries.get(identity)
        if alert.number > decided_after:
            return True
        # What happened long ago happened together with nothing that happens now.
        young = (now - alert.created_at).total_seconds() <= LONGEST_S
        return young and (known is None or _runs_out(known, until))

    def held(alert: Alert) -> Alert:
        if alert.event not in GROUPED or (now - alert.created_at).total_seconds() > ADOPT_S:
            return alert
        fresh = {each: Delivery(not_before=until) for each in identities if wants(alert, each)}
        return replace(alert, deliveries={**alert.deliveries, **fresh}) if fresh else alert

    return _changed(record, held)


def deferred_numbers(record: Record, identities: Iterable[str]) -> tuple[int, ...]:
    """Numbers of the alerts that are held, or were until just now, on any of the channels."""
    wanted = tuple(identities)
    return tuple(
        alert.number
        for alert in record.outbox
        if alert.event in GROUPED
        and any(_is_held(alert.deliveries[each]) for each in wanted if each in alert.deliveries)
    )


def release(record: Record, identities: Iterable[str], *, numbers: Collection[int]) -> Record:
    """Let them go: they are due at once."""
    return _with(record, numbers, identities, not_before=None)


def prolong(record: Record, identities: Iterable[str], *, numbers: Collection[int], until: datetime) -> Record:
    """Hold them until ``until``, those that are held for a shorter time."""
    return _with(record, numbers, identities, not_before=until, later_than=until)


def settle_as_told(
    record: Record, identities: Iterable[str], *, numbers: Collection[int], key: str, now: datetime
) -> Record:
    """A group's alert ``key`` has told them. One that somebody is sending stays as it is."""
    return _with(record, numbers, identities, not_before=None, sent_at=now, told_by=key)


def trouble(record: Record, numbers: Collection[int], identities: Iterable[str]) -> int:
    """Deliveries of these alerts that were tried in vain so far."""
    wanted = set(identities)
    return sum(
        identity in wanted and (delivery.failed or delivery.last_error) is not None
        for alert in record.outbox
        if alert.number in numbers
        for identity, delivery in alert.deliveries.items()
    )


def _is_held(delivery: Delivery) -> bool:
    waits = delivery.not_before is not None and not delivery.tries and delivery.claimed_by is None
    return waits and not delivery.settled


def _runs_out(delivery: Delivery, until: datetime) -> bool:
    return _is_held(delivery) and delivery.not_before is not None and delivery.not_before < until


def _with(
    record: Record,
    numbers: Collection[int],
    identities: Iterable[str],
    *,
    later_than: datetime | None = None,
    **changes: object,
) -> Record:
    wanted = set(identities)

    def one(identity: str, delivery: Delivery) -> Delivery:
        if identity not in wanted or not _is_held(delivery):
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
