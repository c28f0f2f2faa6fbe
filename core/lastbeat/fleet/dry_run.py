"""What a dry pass would send: its alerts and notices, chosen by the same rules as a real pass chooses. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from lastbeat.effects.deferral import prolong, release, settle_as_told
from lastbeat.effects.outbox import DeliveryClaim, claim
from lastbeat.fleet.groups import GroupedAlerts
from lastbeat.model.fleet import PlannedAlert
from lastbeat.model.record import Record

_TOKEN = "dry-run"  # noqa: S105 - names whose claims these would be


def due(record: Record, identities: Sequence[str], now: datetime) -> tuple[DeliveryClaim, ...]:
    """The deliveries of ``record`` that a pass would make now."""
    return claim(record, identities, _TOKEN, now, lease_s=1.0)[1]


def planned(
    records: Mapping[str, Record], decision: GroupedAlerts, identities: Sequence[str], now: datetime
) -> tuple[PlannedAlert, ...]:
    """What would go out: the notices of ``decision``, then what the ``records`` of runs hold after it."""
    claims = list(decision.planned)
    for run_id in sorted(records):
        record = records[run_id]
        for key, numbers in decision.told.get(run_id, {}).items():
            record = settle_as_told(record, identities, numbers=numbers, key=key, now=now)
        if run_id in decision.wait:
            waiting, until = decision.wait[run_id]
            record = prolong(record, identities, numbers=waiting, until=until)
        if run_id in decision.release:
            record = release(record, identities, numbers=decision.release[run_id])
        claims += due(record, identities, now)
    return tuple(_by_message(claims))


def _by_message(claims: Iterable[DeliveryClaim]) -> Iterable[PlannedAlert]:
    found: dict[str, PlannedAlert] = {}
    for each in claims:
        known = found.get(each.message.key)
        channels = (*(known.channels if known is not None else ()), each.identity)
        found[each.message.key] = PlannedAlert(each.message, channels)
    return found.values()
