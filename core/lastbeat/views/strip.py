"""The statuses of a run over time, from its history. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from lastbeat.model.record import Transition
from lastbeat.model.status import Status
from lastbeat.model.view import STRIP_S, Span

SPANS_LIMIT: Final = 60


def spans_of(history: Iterable[Transition], status: Status | None, since: datetime | None, attempt: int) -> list[Span]:
    """Every span that is known, oldest first: what ``history`` tells, then what the run is since ``since``."""
    found = [Span(each.at, each.after, each.attempt) for each in history]
    if status is None or status is Status.UNKNOWN:
        return found
    last = found[-1] if found else None
    if since is not None and (last is None or (last.status, last.attempt) != (status, attempt)):
        # Nothing was recorded of how it came to this.
        found.append(Span(since, status, attempt))
    return sorted(found, key=lambda span: span.since)


def strip(spans: Sequence[Span], now: datetime | None, over_s: float = STRIP_S) -> tuple[Span, ...]:
    """What was so within the last ``over_s``. The first span may have begun before that: so the strip of a run to which
    nothing happens stays the same."""
    merged: list[Span] = []
    for span in spans:
        if not merged or (merged[-1].status, merged[-1].attempt) != (span.status, span.attempt):
            merged.append(span)
    if now is not None:
        begin = now - timedelta(seconds=over_s)
        over = sum(following.since <= begin for _, following in pairwise(merged))
        merged = merged[over:]
    return tuple(merged[-SPANS_LIMIT:])
