"""The answer of ``explain`` as lines for people: the cause first, then the advice, then the rest."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from lastbeat.alerts.facts import SIMILAR, number
from lastbeat.explain.signals.error_types import traits_of
from lastbeat.explain.signals.hints import GUESS, restart_hint
from lastbeat.model.amounts import percent
from lastbeat.model.cause import CERTAIN, Cause, Evidence, sureness
from lastbeat.model.text import counted, one_line
from lastbeat.model.times import format_time
from lastbeat.views.lines.paint import Line, cells, cut, folded, line, paragraph, wrapped
from lastbeat.views.lines.paint import columns as columns_of
from lastbeat.views.lines.stuck import stuck_lines
from lastbeat_cli.explain.story import ExplainReport, LogRead, hint, place, restartable
from lastbeat_cli.explain.timeline import CAUSE, DONE, FOLLOWED, PERHAPS, TimelineRow, bare, events, ranks_told

MOST_EVENTS = 20
MOST_ALTERNATIVES = 4
MOST_NOTES = 8
_EVIDENCE_ROWS = 8
_ALIKE = 80
_INDENT = "  "
_ROOM_FOR_TWO = 76
"""Least number of columns for two causes side by side."""
_BETWEEN = " │ "
_NOTHING_FOUND = (
    "If it ended all the same: --exit-code N or --scheduler-state WORD tell more (sacct -j ID, kubectl describe pod).",
    "If it stands still: py-spy dump --pid PID on each rank shows what it waits for.",
)
_LEGEND = {CAUSE: "> cause", FOLLOWED: "+ followed", PERHAPS: "? perhaps the cause", DONE: "= done"}

# Python marks a part of the line above. Once that line is cut, the marks point elsewhere.
_CARETS = re.compile(r"(?:\[[a-z]{1,20}\d{1,6}\]:|\d{1,5}:)? *[~^]+ *")
_FRAME = re.compile(r"(.{0,60}? {2}File \")([^\"]{1,1000})(\", line \d{1,9}(?:, in .{0,80})?)")

Mask = Callable[[str], str]


def story_lines(story: ExplainReport, columns: int, mask: Mask) -> list[Line]:
    """The whole answer in ``columns``. ``mask`` hides secrets in text from training."""
    return list(_blank_between(_blocks(story, columns, mask)))


def _blank_between(blocks: Iterator[list[Line]]) -> Iterator[Line]:
    first = True
    for block in blocks:
        if block and not first:
            yield line("")
        first = first and not block
        yield from block


def _blocks(story: ExplainReport, columns: int, mask: Mask) -> Iterator[list[Line]]:
    names = _Names(story)
    cause = story.explanation.cause
    if cause is None:
        yield list(_nothing(story, columns, names, mask))
        yield list(_timeline(story, columns, names, mask))
    else:
        yield list(_head(story, cause, names, columns, mask))
        yield list(_evidence(story, cause, columns, mask))
        second = story.explanation.second
        if second is None:
            yield list(_action(story, cause, columns, mask))
        else:
            yield list(_either(story, (cause, second), names, columns, mask))
        if story.explanation.stuck is not None:
            yield list(stuck_lines(story.explanation.stuck, columns, mask))
        yield list(_missing_log(story, columns, names))
        yield list(_others(story, columns, names, mask))
        yield list(_timeline(story, columns, names, mask))
    yield list(_warned(story, columns, names, mask))
    yield list(_foot(story, columns, names, mask))


class _Names:
    """Short names of the logs: the folder that they all share is left out and shown once, at the end."""

    def __init__(self, story: ExplainReport) -> None:
        logs = [log.name for log in story.logs]
        common = os.path.commonpath(logs) if len(logs) > 1 and not {"-"} & set(logs) else ""
        if common and any(name == common for name in logs):
            common = str(os.path.dirname(common))  # noqa: PTH120 - a name, which need be no path
        self._start = f"{common}{os.sep}" if common and common != os.sep else ""
        self.folder = one_line(common)
        """The folder that all logs share; empty for a single log."""
        self._one = len(logs) == 1

    def file(self, name: str) -> str:
        return one_line(name.removeprefix(self._start))

    def short(self, evidence: Evidence) -> str:
        """The place of ``evidence``; with a single log, which the head names, the line alone."""
        return f"line {evidence.line}" if self._one and evidence.line > 0 else self.place(evidence)

    def place(self, evidence: Evidence) -> str:
        return one_line(place(evidence).removeprefix(self._start))


def _nothing(story: ExplainReport, columns: int, names: _Names, mask: Mask) -> Iterator[Line]:
    if not story.logs:
        yield line("No collective keeps a rank waiting in these dumps.", "good")
        return
    if not any(log.lines for log in story.logs):
        yield line("Empty: there is no line in it.", "heading")
        return
    success = story.explanation.success
    told = "Nothing in it ended the run" + ("." if success is None else ": it says that it is done.")
    yield line(told, "good")
    if success is not None:
        yield from paragraph(f"{names.short(success)}: {bare(one_line(mask(success.text)))}", columns)
    yield from map(line, _attempt(story, names, columns))
    for log in _furthest(story.logs):
        yield from paragraph(f"Last: {_progress(log)} ({names.file(log.name)})", columns)
    finished = any(log.step is not None and log.step == log.total_steps for log in story.logs)
    if success is None and not finished:
        for advice in _NOTHING_FOUND:
            yield from paragraph(advice, columns)


def _furthest(logs: Sequence[LogRead]) -> list[LogRead]:
    known = [log for log in logs if log.step is not None]
    return [max(known, key=lambda log: log.step or 0)] if known else []


def _progress(log: LogRead) -> str:
    text = f"step {log.step}"
    if log.total_steps:
        text += f" of {log.total_steps} ({percent(log.step or 0, log.total_steps)})"
    return text + (f", loss {number(log.loss)}" if log.loss is not None else "")


def _head(story: ExplainReport, cause: Cause, names: _Names, columns: int, mask: Mask) -> Iterator[Line]:
    # "Unknown" is no guess, so it has no confidence.
    sure = f" ({sureness(cause.confidence)})" if not traits_of(cause.error_type).says_nothing else ""
    second = story.explanation.second
    other = ((" or ", ""), (second.error_type, "bad")) if second is not None else ()
    yield (("Cause: ", "heading"), (cause.error_type, "bad"), *other, (sure, ""))
    if second is None:
        yield from map(line, wrapped(_meaning(story, cause), columns) if _meaning(story, cause) else ())
    else:
        yield line(f"{_INDENT}It is undecided which of the two; below is what each means.")
    where = [one_line(place(cause.evidence)), *_whose(cause.evidence)]
    if cause.evidence.time is not None:
        where.append(str(format_time(cause.evidence.time.replace(microsecond=0))))
    yield from paragraph("At: " + ", ".join(where), columns)
    yield from map(line, _attempt(story, names, columns))
    if story.explanation.peer is not None:
        peer = replace(story.explanation.peer, log=names.file(story.explanation.peer.log))
        told = one_line(mask(peer.told))
        yield from paragraph(f"{told[0].upper()}{told[1:]}.", columns)
    if story.explanation.idle is not None:
        yield from paragraph(f"After that the job {story.explanation.idle.told}.", columns)
    if story.similar is not None:
        yield from paragraph(f"{SIMILAR}{story.similar}", columns)
    if not story.explanation.ended:
        told = "The log does not show that the run ended with it: it may still be alive."
        yield from paragraph(told, columns)


def _meaning(story: ExplainReport, cause: Cause) -> str:
    if story.explanation.stuck is not None and cause is story.explanation.cause:
        return "Ranks wait in a collective, and what the others did shows why."
    known = story.error_types.get(cause.error_type)
    return known.meaning if known is not None else ""


def _attempt(story: ExplainReport, names: _Names, columns: int) -> Iterator[str]:
    """Which attempt is explained, if a file holds several."""
    attempt = story.explanation.attempt
    if attempt is not None:
        told = replace(attempt, file=names.file(attempt.file)).told
        yield from wrapped(f"This is {told}; what the earlier ones said does not count.", columns)


def _warned(story: ExplainReport, columns: int, names: _Names, mask: Mask) -> Iterator[Line]:
    if story.explanation.warned:
        yield line("Warnings beside", "heading")
    for each in story.explanation.warned:
        told = f"{names.short(each.evidence)}: {bare(one_line(mask(each.evidence.text)))}"
        yield from paragraph(told, columns)
        yield from map(line, wrapped(mask(each.hint), columns) if each.hint else ())


def _whose(evidence: Evidence) -> Iterator[str]:
    if evidence.rank is not None:
        yield f"rank {evidence.rank}"
    if evidence.host:
        yield f"host {one_line(evidence.host)[:80]}"


def _evidence(story: ExplainReport, cause: Cause, columns: int, mask: Mask) -> Iterator[Line]:
    evidence = cause.evidence
    shown = list(story.around)
    said = one_line(mask(evidence.text))
    at = next((index for index, (number_, _) in enumerate(shown) if number_ == evidence.line), None)
    if at is None:
        shown = [(evidence.line, mask(evidence.text))]
    elif said[:_ALIKE] not in one_line(shown[at][1]):
        # The file was rewritten meanwhile.
        yield from _neighbours(shown, columns)
        yield from ((((f"> {row}"), "mark"),) for row in folded(said, columns - 2))
        return
    digits = max(len(str(number_)) for number_, _ in shown)
    room = columns - digits - 5
    for number_, text in shown:
        whole = one_row(text)
        if number_ != evidence.line:
            yield from _neighbours([(number_, whole)], columns, digits)
            continue
        rows = list(folded(whole, room))
        for row in rows[:_EVIDENCE_ROWS]:
            first = row is rows[0]
            yield ((f"> {number_ if first and number_ else '':>{digits}}  {row}", "mark"),)
        if len(rows) > _EVIDENCE_ROWS:
            yield line(f"  {'':>{digits}}  …")


def _neighbours(shown: Sequence[tuple[int, str]], columns: int, digits: int = 0) -> Iterator[Line]:
    wide = digits or len(str(shown[-1][0]))
    room = columns - wide - 5
    for number_, text in shown:
        if not _CARETS.fullmatch(text):
            yield ((f"  {number_:>{wide}}  {cut(_frame(one_row(text), room), room)}", "dim"),)


def _frame(text: str, room: int) -> str:
    """``text``; a traceback frame that is too long keeps the end of its path, the line number and the function."""
    found = _FRAME.fullmatch(text) if cells(text) > room else None
    if found is None:
        return text
    start, path, end = found.groups()
    kept = max(0, room - cells(start) - cells(end) - 1)
    tail = path[len(path) - kept :]
    at = tail.find("/")
    return f"{start}…{tail[at:] if at >= 0 else tail}{end}" if kept else text


def one_row(text: str) -> str:
    """``text`` without line breaks, its indentation kept."""
    return text.replace("\n", " ").rstrip()


def _action(story: ExplainReport, cause: Cause, columns: int, mask: Mask) -> Iterator[Line]:
    yield line("What to do", "heading")
    if text := mask(hint(cause, story.error_types)):
        yield from paragraph(text, columns)
    again = restart_hint(restartable(cause, story.error_types), cause.confidence)
    yield from paragraph(f"Restart: {again}", columns)


def _missing_log(story: ExplainReport, columns: int, names: _Names) -> Iterator[Line]:
    """The end of the log of the rank that is missing."""
    missing = story.explanation.missing
    if missing is None or not story.missing_end:
        return
    first = missing.ranks[0]
    yield (
        (f"The end of rank {first.rank}'s log", "heading"),
        (f"  {names.file(first.log)}", "dim"),
    )
    yield from _neighbours(story.missing_end, columns)


def _either(
    story: ExplainReport, readings: tuple[Cause, Cause], names: _Names, columns: int, mask: Mask
) -> Iterator[Line]:
    """Both possible causes with their advice: side by side if there is room, else one below the other."""
    beside = columns >= _ROOM_FOR_TWO
    wide = (columns - len(_BETWEEN)) // 2 if beside else columns
    first, second = (list(_reading(story, each, readings[0], names, wide, mask)) for each in readings)
    if not beside:
        yield from (*first, line(""), *second)
        return
    for left, right in zip_longest(first, second, fillvalue=line("")):
        gap = " " * (wide - sum(cells(text) for text, _ in left))
        yield (*left, (gap + _BETWEEN, "dim"), *right)


def _reading(
    story: ExplainReport, cause: Cause, first: Cause, names: _Names, columns: int, mask: Mask
) -> Iterator[Line]:
    yield line(cut(f"If it is {cause.error_type}", columns), "heading")
    where = [names.short(cause.evidence), *_whose(cause.evidence)]
    told = [
        _meaning(story, cause),
        "" if cause is first else _same_or(cause, first, where),
        mask(hint(cause, story.error_types)).removeprefix(GUESS),
        f"Restart: {restart_hint(restartable(cause, story.error_types), cause.confidence)}",
    ]
    for text in filter(None, told):
        yield from paragraph(text, columns)


def _same_or(cause: Cause, first: Cause, where: Sequence[str]) -> str:
    """Where the evidence of the second cause stands."""
    if cause.evidence != first.evidence:
        return f"At: {', '.join(where)}"
    return "The same line." if cause.evidence.line > 0 else ""


def _others(story: ExplainReport, columns: int, names: _Names, mask: Mask) -> Iterator[Line]:
    others = list(_other_causes(story))
    if not others:
        return
    yield line("It may also be", "heading")
    for other in others[:MOST_ALTERNATIVES]:
        where = ", ".join([names.short(other.evidence), *_whose(other.evidence)])
        yield from paragraph(f"{other.error_type} ({sureness(other.confidence)}): {where}", columns)
        yield line(cut(_INDENT * 2 + bare(one_line(mask(other.evidence.text))), columns))
    if len(others) > MOST_ALTERNATIVES:
        yield line(f"{_INDENT}… and {len(others) - MOST_ALTERNATIVES} more (--json has all)")


def _other_causes(story: ExplainReport) -> Iterator[Cause]:
    """Further possible causes. If the cause is certain, those that followed from it are only in the timeline."""
    found = story.explanation
    sure = found.cause is not None and found.cause.confidence >= CERTAIN
    followed = {(each.file, each.line) for each in found.downstream} if sure else set()
    beside = found.alternatives[1:] if found.second is not None else found.alternatives
    yield from (each for each in beside if (each.evidence.file, each.evidence.line) not in followed)


def _timeline(story: ExplainReport, columns: int, names: _Names, mask: Mask) -> Iterator[Line]:
    rows = events(story, lambda text: one_line(mask(text)))
    if len(rows) < 2:
        return
    shown = _bounded(rows)
    signs = {row.sign for row in shown}
    legend = "   ".join(told for sign, told in _LEGEND.items() if sign in signs)
    title = f"Timeline   {legend}" if story.explanation.cause is not None else "Who fell silent first"
    yield line(cut(title, columns), "heading")
    days = {row.evidence.time.date() for row in shown if row.evidence.time is not None}
    # The head shows the day already, so rows show it only if there are two.
    form = "%m-%d %H:%M:%S" if len(days) > 1 else "%H:%M:%S"
    table = [
        (
            row.evidence.time.strftime(form) if row.evidence.time is not None else "",
            ranks_told(row.ranks),
            _tail(names.short(row.evidence), max(16, columns // 3)),
            row.what,
        )
        for row in shown
    ]
    for row, text in zip(shown, columns_of(table), strict=True):
        yield ((cut(f"{row.sign} {text}", columns), "mark" if row.sign == CAUSE else ""),)
    if len(shown) < len(rows):
        yield line(f"{_INDENT}… and {len(rows) - len(shown)} more (--json has all)")


def _bounded(rows: list[TimelineRow]) -> list[TimelineRow]:
    """The cause's row with the rows around it, more of them after the cause than before."""
    if len(rows) <= MOST_EVENTS:
        return rows
    at = next((index for index, row in enumerate(rows) if row.sign == CAUSE), 0)
    first = max(0, min(at - MOST_EVENTS // 3, len(rows) - MOST_EVENTS))
    return rows[first : first + MOST_EVENTS]


def _tail(text: str, columns: int) -> str:
    return text if len(text) <= columns else "…" + text[-(columns - 1) :]


def _foot(story: ExplainReport, columns: int, names: _Names, mask: Mask) -> Iterator[Line]:
    logs = story.logs
    size, count = sum(log.size_bytes for log in logs), sum(log.lines for log in logs)
    what = one_line(place(Evidence(logs[0].name, 0, ""))) if len(logs) == 1 else f"{len(logs)} logs"
    what += f" in {names.folder}" if names.folder else ""
    what += f" and {counted(story.dumps, 'dump')} of flight recorders" if story.dumps else ""
    told = f"Read: {what}, {counted(count, 'line')}, {_bytes(size)}"
    cause = story.explanation.cause
    if cause is not None:
        told += "".join(f"; last {_progress(log)}" for log in _furthest(logs))
    for text in (told, *(f"Note: {one_line(mask(note))}" for note in story.notes[:MOST_NOTES])):
        yield from paragraph(text, columns, "", style="dim")
    if len(story.notes) > MOST_NOTES:
        yield line(f"Note: … and {len(story.notes) - MOST_NOTES} more (--json has all)", "dim")


def _bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
