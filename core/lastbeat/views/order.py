"""In which order people are shown runs, and which of them they asked for. Pure.

Live trouble goes first: runs with warnings, that stand still, that seem to have failed or fallen silent without a pass
having judged it, and runs that cannot be seen. Then what is new: runs that failed or fell silent within a day. Both
need attention. Below them are acknowledged runs, runs that live, older failures, and runs that are done.
Among equals the newest change goes first (of a run that is doubted, its last beat), then the run id decides. Only a
row's own fields decide (and the time, a day after a failure), so a row keeps its place among the others until it
changes itself.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Final

from lastbeat.model.status import UNWELL, Status
from lastbeat.model.view import Row
from lastbeat.views.filters import parse

FRESH_S: Final = 86400.0
"""A failure needs attention for this long, in seconds."""
NEEDS_PEOPLE: Final = 1
"""What :func:`need` says at most of runs that need attention."""


def need(row: Row, at: datetime | None) -> int:
    """How much a run needs attention as of ``at``, 0 most, 5 least."""
    if row.status is Status.UNKNOWN:
        return 0
    if row.status in {Status.SUCCEEDED, Status.CANCELLED, Status.PREEMPTED}:
        return 5
    if row.doubt is not None and row.status not in UNWELL:
        return 0
    age_s = (at - row.since).total_seconds() if at is not None and row.since is not None else 0.0
    if row.status in UNWELL and age_s > FRESH_S:
        return 4
    if row.acknowledged is not None and row.doubt is None:
        return 2
    if row.status in UNWELL:
        return 1
    return 0 if row.conditions or row.fault is not None or row.stands_still else 3


def sorted_rows(rows: Iterable[Row], at: datetime | None) -> tuple[Row, ...]:
    """``rows`` with those first that need people, as of ``at``."""

    def place(row: Row) -> tuple[int, float, str]:
        changed = row.since if row.doubt is None else row.beat_at
        return need(row, at), -changed.timestamp() if changed is not None else 0.0, row.run_id

    return tuple(sorted(rows, key=place))


def select(
    rows: Iterable[Row], globs: Sequence[str] = (), statuses: Sequence[str] = (), text: str = ""
) -> tuple[Row, ...]:
    """Those that people asked for, in the same order: whose id matches one of ``globs``, which are shown as one of
    ``statuses``, and which every word of ``text`` matches, in capitals or not. Nothing asked for is all.

    The words are those of :mod:`lastbeat.views.filters`.

    A status is one as it is shown (``RUNNING (WARNING)``), or ``WARNING`` for that, or ``RUNNING`` for both.
    """
    wanted = {status.strip().upper() for status in statuses}
    words = parse(text)
    return tuple(
        row
        for row in rows
        if (not globs or any(fnmatchcase(row.run_id, glob) for glob in globs))
        and (not wanted or not wanted.isdisjoint(_names(row)))
        and words.matches(row)
    )


def _names(row: Row) -> tuple[str, ...]:
    warned = ("WARNING",) if row.shown != row.status.value else ()
    return row.status.value, row.shown, *warned
