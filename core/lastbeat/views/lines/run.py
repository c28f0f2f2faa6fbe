"""One run as lines for people: status, cause and advice first, then the evidence, then the rest."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from lastbeat.alerts import facts
from lastbeat.explain.signals.hints import restart_hint, shortened
from lastbeat.model.alert import ALSO_SEEN_LIMIT
from lastbeat.model.amounts import age, standstill
from lastbeat.model.cause import CERTAIN
from lastbeat.model.state import RecordedCause
from lastbeat.model.status import Status
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import format_time
from lastbeat.model.view import Excerpt, RunView
from lastbeat.views.account import Account, account, trimmed
from lastbeat.views.lines import history, state
from lastbeat.views.lines.paint import Line, cut, folded, line, paragraph, wrapped
from lastbeat.views.lines.signs import middle_cut
from lastbeat.views.lines.stuck import stuck_lines

INDENT: Final = "  "
_MARKED_ROWS: Final = 6
_LATE_S: Final = 120.0
_CONFIG_CHARS: Final = 600
"""Most characters of a configuration; the page has all of it."""
"""If an event was seen this many seconds later than it happened, both times are shown."""
_STYLES: Final = {
    Status.RUNNING: "good",
    Status.SUCCEEDED: "good",
    Status.FAILED: "bad",
    Status.TIMED_OUT: "bad",
    Status.UNKNOWN: "mark",
}

NO_STALL_LIMIT: Final = "lastbeat limits '{run}' --stall-minutes 30 sets one"
"""How to set a stall limit."""
Mask = Callable[[str], str]


def show_lines(view: RunView, columns: int, mask: Mask, around: tuple[int, int] | None = None) -> list[Line]:
    """All of ``view`` in ``columns``.

    ``around`` is the number of lines before and after the evidence; None shows the whole traceback. The first two lines
    are those of ``watch``, which scripts rely on.
    """
    found: list[Line] = []
    for block in _blocks(view, columns, around):
        lines = [tuple((mask(text), style) for text, style in each) for each in block]
        if lines and found:
            found.append(line(""))
        found += lines
    # The run's name is not a secret, so it is not masked.
    return [(("Run ", "heading"), (view.row.run_id, "heading"), *found[0][2:]), *found[1:]]


def _blocks(view: RunView, columns: int, around: tuple[int, int] | None) -> Iterator[list[Line]]:
    told = account(view)
    yield list(_head(view, columns))
    yield list(_why(view, told, columns, around))
    yield list(_action(view, columns))
    yield list(state.heartbeats(view, columns))
    yield list(state.limits(view, columns))
    yield list(state.progress(view, columns))
    yield list(state.ranks(view, columns))
    yield list(history.job(view, columns))
    yield list(history.history(view, columns))
    yield list(history.alerts(view, columns))
    yield list(_text("Where it hangs", view.stacks, columns, middle_cut))
    yield list(_log(view, told, columns, around))
    yield list(history.files(view, columns))
    yield list(_notes(view, columns))


def _head(view: RunView, columns: int) -> Iterator[Line]:
    row = view.row
    warned = row.status is Status.RUNNING and (row.conditions or row.doubt or row.stands_still)
    style = "mark" if warned else _STYLES.get(row.status, "mark")
    yield (("Run ", "heading"), (row.run_id, "heading"), (": ", "heading"), (row.shown, style))
    yield line(f"Detail: {_detail(view)}")
    if row.doubt:
        yield from _labelled("In doubt", row.doubt, columns, "mark")
    if row.silence is not None:
        until = format_time(row.silence.until.replace(microsecond=0))
        by = f"by {row.silence.author}"
        yield from _labelled("Silenced", f"no alerts until {until}, {by}", columns, "mark")
    if row.acknowledged is not None:
        yield from _labelled("Acknowledged", row.acknowledged.text, columns)
    if row.fault and not any(row.fault in text for text in view.conditions.values()):
        yield from _labelled("Unreadable", row.fault, columns, "mark")
    if still := standstill(row, view.at):
        how = f": {NO_STALL_LIMIT.format(run=row.run_id)}" if row.stall_limited is False else ""
        yield from _labelled("Warning", f"{still}{how}", columns, "mark")
    for name, text in view.conditions.items():
        yield from _labelled("Warning", f"{name}: {text}", columns, "mark")
    if not row.recorded:
        yield line("Since: no pass has recorded this run yet; this is what one look says")
    elif row.since is not None:
        since = format_time(row.since.replace(microsecond=0))
        late = view.seen_at is not None and (view.seen_at - row.since).total_seconds() > _LATE_S
        word = "watched since" if row.status is Status.RUNNING else "seen"
        seen = f", {word} {format_time(view.seen_at.replace(microsecond=0))}" if view.seen_at and late else ""
        yield line(f"Since: {since} ({age(view.at, row.since)}){seen}, attempt {row.attempt}")
    yield from _whose(view)


def _whose(view: RunView) -> Iterator[Line]:
    whose = facts.whose(view.row.owner, view.row.team)
    if whose:
        yield line(f"Owner: {one_line(whose)}")
    if view.row.tags:
        yield line(f"Tags: {one_line(', '.join(view.row.tags))}")
    if view.training_notes:
        yield line(f"Notes: {one_line(view.training_notes)}")
    if view.config:
        pairs = (f"{name}={value}" for name, value in view.config.items())
        yield line(f"Configuration: {fit(one_line(' '.join(pairs)), _CONFIG_CHARS)}")


def _detail(view: RunView) -> str:
    """The detail line of ``watch``: the reason of the status, or the ages of the heartbeats of a running run."""
    if view.row.status is not Status.RUNNING and view.row.reason:
        return one_line(view.row.reason)
    beats = [(beat.name, beat.modified) for beat in view.beats] or [("log", at) for _, at, _ in view.logs[:1]]
    told = ", ".join(f"{name} {age(view.at, at)}" for name, at in beats)
    return f"Heartbeats: {told or 'none'}"


def _why(view: RunView, told: Account, columns: int, around: tuple[int, int] | None) -> Iterator[Line]:
    explained = view.explained
    if explained is not None:
        cause = explained.cause
        sure = " (sure)" if cause.confidence >= CERTAIN else ""
        second = explained.second.error_type if explained.second is not None else None
        yield (
            ("Cause: ", "heading"),
            (facts.cause(cause.error_type, cause.confidence, second) or "unknown", "bad"),
            (sure, ""),
        )
    elif view.row.cause:
        yield (("Cause: ", "heading"), (view.row.cause, "bad"))
    for each in told.excerpts:
        place = facts.place(explained.cause.evidence) if explained is not None and each.marked is not None else ""
        yield from excerpt(trimmed(each, around)[0], columns, place if place.startswith(each.file) else "")
    if explained is not None:
        if explained.stuck is not None:
            yield from stuck_lines(explained.stuck, columns)
        yield from _also(explained, columns)
    if explained is not None and explained.similar is not None:
        yield from _labelled("Seen before", explained.similar.told(view.at), columns)


def _also(explained: RecordedCause, columns: int) -> Iterator[Line]:
    for text in explained.also_seen[:ALSO_SEEN_LIMIT]:
        yield from _labelled("Also seen", one_line(text), columns)


def _action(view: RunView, columns: int) -> Iterator[Line]:
    row = view.row
    cause = view.explained.cause if view.explained is not None else None
    known = cause is not None and cause.restartable is not None
    again = restart_hint(cause.restartable, cause.confidence) if cause is not None and known else None
    if cause is not None and view.explained is not None and view.explained.second is not None:
        yield line("What to do", "heading")
        for each in (cause, view.explained.second):
            yield from _labelled(f"If {each.error_type}", shortened(one_line(each.hint)), columns)
            yield from _labelled("Restart", restart_hint(each.restartable, each.confidence), columns)
        return
    # A row keeps only the beginning of a long hint.
    hint = view.explained.cause.hint if view.explained is not None else None
    if not hint and not row.action and again is None:
        return
    yield line("What to do", "heading")
    if hint or row.action:
        yield from paragraph(hint or row.action or "", columns)
    if again is not None:
        yield from paragraph(f"Restart: {again}", columns)


def excerpt(found: Excerpt, columns: int, title: str = "") -> Iterator[Line]:
    """Lines of a log with their numbers; a sign marks the evidence."""
    told = title or found.file
    yield line(f"{INDENT}{cut(told, columns - len(INDENT))}")
    first = found.first_line
    digits = len(str(first + len(found.lines) - 1)) if first is not None else 0
    room = max(20, columns - digits - 5)
    for index, text in enumerate(found.lines):
        number = str(first + index) if first is not None else ""
        if index != found.marked:
            yield line(f"    {number:>{digits}} {cut(text, room)}".rstrip(), "dim")
            continue
        rows = list(folded(text, room))
        for place, row in enumerate(rows[:_MARKED_ROWS]):
            yield line(f"  > {number if place == 0 else '':>{digits}} {row}", "mark")
        if len(rows) > _MARKED_ROWS:
            yield line(f"    {'':>{digits}} …")
    if found.note:
        yield from _notice(found.note, columns)


def _text(
    title: str, found: Excerpt | None, columns: int, shortened: Callable[[str, int], str] = cut
) -> Iterator[Line]:
    """The lines of ``found`` under a heading with their file; ``shortened`` cuts long ones."""
    if found is None:
        return
    yield ((title, "heading"), (f"  {found.file}", "dim"))
    if not found.lines and not found.note:
        yield line(f"{INDENT}(empty)")
    for text in found.lines:
        yield line(INDENT + shortened(text, columns - len(INDENT)))
    if found.note:
        yield from _notice(found.note, columns)


def _log(view: RunView, told: Account, columns: int, around: tuple[int, int] | None) -> Iterator[Line]:
    """The end of the log without the lines shown above."""
    if view.log is None:
        return
    rest = [part for each in told.excerpts if each.file == view.log.file for part in trimmed(each, around)[1]]
    parts = [*rest, *told.log]
    if not parts:
        return
    # Marks the place of the failure's lines, which are shown above.
    between = ("… (shown above)",) if len(parts) > 1 else ()
    lines = [text for number, each in enumerate(parts) for text in (*(between if number else ()), *each.lines)]
    above = len(parts) == 1 and len(lines) < len(view.log.lines)
    note = view.log.note or ("lines that are shown above are left out" if above else None)
    yield from _text("Log", replace(view.log, lines=tuple(lines), note=note), columns)


def _notice(note: str, columns: int) -> Iterator[Line]:
    yield from paragraph(f"({note})", columns, style="dim")


def _notes(view: RunView, columns: int) -> Iterator[Line]:
    for note in view.notes:
        yield from _labelled("Note", note, columns, "dim")


def _labelled(label: str, text: str, columns: int, style: str = "") -> Iterator[Line]:
    """A labelled paragraph; continuation lines are indented by two spaces."""
    for index, row in enumerate(wrapped(f"{label}: {text}", columns - len(INDENT), "")):
        yield line(row if index == 0 else INDENT + row, style)
