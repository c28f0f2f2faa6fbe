"""Selects new alerts raised by training, and writes one text for those of a look."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from lastbeat.model.observation import RaisedDocument
from lastbeat.model.raised_alert import LEVELS, RaisedAlert
from lastbeat.model.record import Record
from lastbeat.model.text import fit

_TOLD: Final = 5
"""At most this many alerts are quoted; the others are counted."""
_LINE_LIMIT: Final = 300
_KNOWN_MOST: Final = 60
_OLD_S: Final = 86400.0
"""Alerts raised more than this many seconds ago are not news."""


def raised_news(before: Record, document: RaisedDocument | None, now: datetime) -> tuple[RaisedAlert, ...]:
    """The alerts that were not reported yet, oldest first. Ids identify them, so each is news once in all attempts."""
    if document is None or (now - document.modified).total_seconds() > _OLD_S:
        return ()
    return tuple(each for each in document.alerts if each.id not in before.raised)


def raised_known(before: Record, document: RaisedDocument | None) -> tuple[str, ...]:
    """Ids of the alerts that are dealt with after this look."""
    if document is None:
        return before.raised
    ids = tuple(each.id for each in document.alerts)
    return (*(old for old in before.raised if old not in ids), *ids)[-_KNOWN_MOST:]


def raised_reason(alerts: Sequence[RaisedAlert]) -> str:
    """The alert's reason: the latest of ``alerts`` in words."""
    lines = [fit(each.line, _LINE_LIMIT) for each in alerts[-_TOLD:]]
    more = len(alerts) - len(lines)
    return " · ".join([*lines, *([f"and {more} more before"] if more else [])])


def worst(alerts: Sequence[RaisedAlert]) -> str:
    """The highest level of ``alerts``."""
    return max((each.level for each in alerts), key=LEVELS.index, default=LEVELS[0])
