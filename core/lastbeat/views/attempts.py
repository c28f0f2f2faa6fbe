"""When each attempt of a run began, and what became of it."""

from datetime import datetime, timedelta

from lastbeat.decide.transition import HISTORY_LIMIT
from lastbeat.model.record import Attempt, Record
from lastbeat.model.view import Span


def began_at(attempt: Attempt) -> datetime | None:
    """When it began, by the store's clock, as everything that is shown; None: nobody knows."""
    if attempt.start_time is None:
        return None
    return attempt.start_time + timedelta(seconds=(attempt.start_skew_s or (0.0, 0.0))[0])


def attempts(record: Record) -> tuple[Span, ...]:
    """Each attempt that history knows of, oldest first: when it began, as far as that is known, and its latest status.

    History keeps the latest transitions alone, so that earlier attempts may be missing, and the first of those that
    are there may have begun before what is told.
    """
    spans: dict[int, Span] = {}
    for each in record.history[-HISTORY_LIMIT:]:
        known = spans.get(each.attempt)
        spans[each.attempt] = Span(each.at if known is None else known.since, each.after, each.attempt)
    now = record.attempt
    latest = spans.get(now.number)
    began = began_at(now)
    if began is not None and record.status is not None:
        status = record.status if latest is None else latest.status
        if latest is None or began < latest.since:
            spans[now.number] = Span(began, status, now.number)
    return tuple(spans[number] for number in sorted(spans))
