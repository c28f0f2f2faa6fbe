"""How long a row stays the same while nothing is written: so rows of a fleet in which little happens are not made anew
in each interval. Pure."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from lastbeat.fleet.index import newest_of
from lastbeat.model import runid
from lastbeat.model.policy import Policy
from lastbeat.model.status import UNWELL, Status
from lastbeat.model.view import STRIP_S, Row
from lastbeat.views.known import Known
from lastbeat.views.order import FRESH_S
from lastbeat.views.rows import last_life

FOREVER: Final = float("inf")


def same_until(known: Known, row: Row, at: datetime, policy: Policy, since_s: float) -> float:
    """Until when, in unix seconds, ``row``, which is that of ``known`` as of ``at``, stays as it is, and shown, whoever
    watches the fleet; from then on it is worth another look. ``at`` itself: nobody can tell."""
    now = at.timestamp()
    told = row.recorded and row.complete and row.doubt is None and not known.refused
    if not told or _may_be_doubted(known, row, now, policy):
        return now
    return min((moment for moment in _moments(known, row, policy, since_s) if moment >= now), default=FOREVER)


def _may_be_doubted(known: Known, row: Row, now: float, policy: Policy) -> bool:
    """Whether it depends on who watches, or on how long they have been at it."""
    life = last_life(known.files)
    fresh = life is not None and now - life.timestamp() <= policy.stale_s
    if row.status is Status.RUNNING:
        ended = any(name in known.files for name in runid.SENTINELS)
        return ended or (life is not None and not fresh)
    went_on = life is not None and row.since is not None and (life - row.since).total_seconds() > policy.stale_s
    return fresh and went_on


def _moments(known: Known, row: Row, policy: Policy, since_s: float) -> Iterator[float]:
    """When something of it may change."""
    files, life = known.files, last_life(known.files)
    if row.status is Status.RUNNING and life is not None:
        # In doubt it is later than this, and for nothing else.
        yield life.timestamp() + policy.stale_s
    if row.status in UNWELL and row.since is not None:
        yield row.since.timestamp() + FRESH_S
    if row.silence is not None:
        yield row.silence.until.timestamp()
    if len(row.strip) > 1:
        yield row.strip[1].since.timestamp() + STRIP_S
    record = files.get(runid.RECORD)
    yield max(newest_of(files), record.modified.timestamp() if record is not None else 0.0) + since_s
