"""The lines above and below the table of a fleet: counts, time, warnings and notes."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from lastbeat.model.text import counted
from lastbeat.model.times import format_duration, format_time
from lastbeat.model.view import FleetView, Row, WatchState
from lastbeat.views.lines import signs
from lastbeat.views.lines.paint import Line, cells, cut, line, sentence
from lastbeat.views.lines.signs import Signs, harmless

_ORDER = (
    "FAILED", "TIMED_OUT", "UNKNOWN", signs.WARNING, "RUNNING", "NO_HEARTBEAT", "PREEMPTED", "CANCELLED", "SUCCEEDED",
)  # fmt: skip
_MOST_NAMES = 5
_MOST_NOTES = 3


def head(view: FleetView, now: datetime | None, columns: int, signs_of: Signs, most: int = 1) -> list[Line]:
    """The fleet, the number of runs by status, and warnings about the watching itself, in ``most`` lines each."""
    told = [_place(view, now, columns), *_counts(view, signs_of, columns)]
    for text, style in _warnings(view, now):
        told += [line(part, style) for part in sentence(text, columns, most)]
    return [signs_of.line(each) for each in told]


def notes(view: FleetView, columns: int, signs_of: Signs, most: int = 1) -> list[Line]:
    """The remarks below the table, in ``most`` lines each."""
    told: list[str] = []
    if view.ignored:
        names = ", ".join(harmless(name, 60) for name in view.ignored[:_MOST_NAMES])
        more = f" and {len(view.ignored) - _MOST_NAMES} more" if len(view.ignored) > _MOST_NAMES else ""
        told.append(f"Ignored: no run may be called {names}{more}")
    told += [f"Note: {harmless(note)}" for note in view.notes[:_MOST_NOTES]]
    return [signs_of.line(line(part, "dim")) for text in told for part in sentence(text, columns, most)]


def none(view: FleetView) -> str:
    """The sentence shown in place of rows; empty while it is not known whether there are runs."""
    if view.at is None or (view.fault is not None and not view.rows):
        return ""
    if others := len(view.rows):
        return f"No run matches; {counted(others, 'other')} can be seen without globs, --status and --filter"
    if view.older:
        return "no run lives, or did within that time; --since 30d goes further back"
    return (
        "A run comes with what reports it: lastbeat exec --run-id NAME -- COMMAND, or the SDK in the training script."
    )


def _place(view: FleetView, now: datetime | None, columns: int) -> Line:
    if view.at is None:
        seen = "not seen yet"
    else:
        ago = "" if now is None or now - view.at < timedelta(seconds=1) else f" ({format_duration(now - view.at)} ago)"
        seen = f"seen {format_time(view.at.replace(microsecond=0))}{ago}"
    room = columns - cells(seen) - 3
    return ((cut(harmless(view.root), max(room, 10)), "heading"), (" · ", "dim"), (seen, ""))


def _counts(view: FleetView, signs_of: Signs, columns: int) -> list[Line]:
    """The counts in as many lines as they take: a missing count would look like zero."""
    counted: dict[str, int] = {}
    for row in view.rows:
        counted[signs.word(row)] = counted.get(signs.word(row), 0) + 1
    order = [*(word for word in _ORDER if word in counted), *sorted(counted.keys() - set(_ORDER))]
    pieces = [(f"{signs_of.of(word)} {counted[word]:,} {word}", signs.style(word)) for word in order]
    if view.silenced:
        pieces.append((f"{view.silenced:,} silenced", "dim"))
    if view.older:
        pieces.append((f"{view.older:,} older", "dim"))
    if not pieces and (view.at is not None or view.fault is None):
        pieces.append(("no runs" if view.at is not None else "looking for runs …", ""))
    told: list[Line] = [()]
    for piece in pieces:
        if told[-1] and sum(cells(text) for text, _ in told[-1]) + 2 + cells(piece[0]) > columns:
            told.append(())
        told[-1] += (("  ", ""), piece) if told[-1] else (piece,)
    return told


def _warnings(view: FleetView, now: datetime | None) -> Iterator[tuple[str, str]]:
    """Warnings about store and watching, each a sentence and its style."""
    if view.fault is not None:
        since = ""
        if view.fault.since is not None and now is not None:
            since = f" for {format_duration(now - view.fault.since)}"
        yield f"! The fleet cannot be seen{since}: {harmless(view.fault.reason)}", "bad"
        if view.at is not None:
            yield f"What is shown is as of {format_time(view.at.replace(microsecond=0))}.", "bad"
        if view.fault.advice:
            yield harmless(view.fault.advice), ""
    elif view.watching.overdue and view.watching.last_pass_at is not None:
        since = f" for {format_duration(now - view.watching.last_pass_at)}" if now is not None else ""
        if single := _by_watch(view):
            yield f"! No sweep{since}; {single}; lastbeat sweep watches all runs", "mark"
        else:
            yield f"! Nothing watches: no pass has left its mark{since}; lastbeat sweep makes passes", "mark"
    elif view.watching.recorded_at is not None and view.at is not None and _anything_lives(view.rows):
        yield f"No sweep runs; {_by_watch(view)}; lastbeat sweep watches all runs", "dim"
    elif view.watching == WatchState() and view.at is not None and _anything_lives(view.rows):
        text = "! Nothing watches this fleet yet: lastbeat sweep sends alerts, this view is read-only"
        yield text, "dim"
    if view.unread:
        yield f"… {counted(view.unread, 'document is', 'documents are')} still to be read", "dim"


def _by_watch(view: FleetView) -> str:
    at = view.watching.recorded_at
    if at is None or view.at is None:
        return ""
    return f"lastbeat watch recorded one run {format_duration(view.at - at)} ago"


def _anything_lives(rows: Sequence[Row]) -> bool:
    return any(not row.status.finished for row in rows)
