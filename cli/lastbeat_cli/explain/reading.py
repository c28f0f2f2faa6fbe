"""Reads logs of any size from beginning to end and explains them; then reads the lines around the evidence again."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

from lastbeat.explain import flight_recorder
from lastbeat.explain.causes.explaining import explain, with_last_words
from lastbeat.explain.causes.log_reader import LogReader
from lastbeat.explain.scanning.prefixes import UNKNOWN_YEAR
from lastbeat.explain.scanning.splitting import line_of
from lastbeat.model import runid
from lastbeat.model.cause import Evidence
from lastbeat.model.signal import Catalogue
from lastbeat.model.text import clean, one_line
from lastbeat.watch.observe.flight_recorders import DumpFile, DumpsRead, read_dumps
from lastbeat.watch.observe.log_times import last_time
from lastbeat_cli.explain.log_bytes import Note, UnreadableLogError
from lastbeat_cli.explain.log_sources import LogInput
from lastbeat_cli.explain.story import ExplainReport, LogRead
from lastbeat_cli.terminal.progress_line import ProgressLine

if TYPE_CHECKING:
    from lastbeat.explain.causes.log_summary import LogSummary
    from lastbeat_cli.explain.run import RankFacts

MOST_NOTES: Final = 100
_TAIL_BYTES: Final = 8192
_HEAD_BYTES: Final = 64 * 1024
_LONG: Final = timedelta(days=300)
"""Longest time from the first date in a log to its end: longer than any run, and less than a year."""
BEFORE = 4
"""Number of lines shown before the evidence."""
BEFORE_IN_TRACEBACK = 9
"""Most lines shown before the evidence of a traceback: three frames, as Python prints them."""
AFTER = 3
"""Number of lines shown after the evidence."""
LINE_BYTES = 4096
"""Longer lines are cut to this many bytes."""
_BARE = re.compile(r"^(?:\[[a-z]{1,20}\d{1,6}\]: ?|\d{1,5}: )+")


class StatedEnd(NamedTuple):
    """What the user says of the run's end."""

    exit_code: int | None = None
    scheduler: str | None = None
    """The scheduler's word for the job's state."""


def story(  # noqa: PLR0913 - the question, and two lists for what went wrong
    sources: Sequence[LogInput],
    signals: Catalogue,
    mask: Callable[[str], str],
    faults: list[UnreadableLogError],
    notes: list[str],
    *,
    end: StatedEnd | None = None,
    neighbours: bool = True,
    ranks: "RankFacts | None" = None,
    dumps: Sequence[DumpFile] = (),
) -> ExplainReport | None:
    """The report on ``sources``, or None if none could be read. Unreadable logs are added to ``faults``.

    With ``neighbours`` the evidence's log is read a second time for the lines around it. ``ranks`` supplies the world
    size and hosts, and ``dumps`` are those of flight recorders.
    """

    def note(text: str) -> None:
        if len(notes) < MOST_NOTES:
            notes.append(text)

    end = end or StatedEnd()
    summaries: list[LogSummary] = []
    read: list[LogRead] = []
    for source in sources:
        reader = LogReader(signals, source.name, rank=source.rank)
        try:
            size, last_time = _feed(reader, source, note)
        except UnreadableLogError as fault:
            faults.append(fault)
            continue
        summary = reader.summary()
        summaries.append(summary)
        told = summary.progress
        rank = summary.rank
        read.append(LogRead(source.name, rank, summary.lines, size, told.step, told.total_steps, told.loss, last_time))
    world_size = None if ranks is None else ranks.world_size()
    recorded = _recorded(dumps, summaries, world_size, ranks)
    if not summaries and not recorded.number:
        return None
    for text in recorded.notes:
        note(text)
    found = explain(
        summaries, signals, exit_code=end.exit_code, scheduler=end.scheduler, world_size=world_size, whole=not faults
    )
    if recorded.stuck is not None:
        found = flight_recorder.cause.with_stuck(found, recorded.stuck, signals.error_types)
    found = with_last_words(found, summaries, signals)
    if found.missing is not None:
        ends = {log.name: log.last_time for log in read}
        times = {each.rank: at for each in found.missing.ranks if (at := ends.get(each.log)) is not None}
        hosts = {} if ranks is None else ranks.hosts([each.rank for each in found.missing.ranks])
        found = found.located(hosts, times)
    if end.exit_code is not None or end.scheduler or any(_is_error(log.name) for log in read):
        # The run did end: the user says so, or training wrote _error.
        found = replace(found, ended=True)
    lines = _around(sources, found.cause.evidence, mask) if found.cause is not None and neighbours else ()
    last_lines: tuple[tuple[int, str], ...] = ()
    if found.missing is not None and neighbours:
        log = found.missing.ranks[0].log
        last = next(each.lines for each in summaries if each.file == log)
        last_lines = _around(sources, Evidence(log, last, ""), mask)
    notes_once = tuple(dict.fromkeys(notes))
    return ExplainReport(
        found, tuple(read), signals.error_types, lines, notes_once, missing_end=last_lines, dumps=recorded.number
    )


def _recorded(
    dumps: Sequence[DumpFile], logs: "Sequence[LogSummary]", world_size: int | None, ranks: "RankFacts | None"
) -> DumpsRead:
    """What the dumps of flight recorders show."""
    if not dumps:
        return DumpsRead(None)
    ended = [log.rank for log in logs if log.rank is not None and log.success is not None]
    if ranks is None:
        return read_dumps(dumps, world_size=world_size, ended=ended)
    return read_dumps(dumps, world_size=world_size, ended=ended, hosts=ranks.hosts)


def _is_error(name: str) -> bool:
    return PurePath(name).name.removesuffix(".gz") == runid.ERROR


def _feed(reader: LogReader, source: LogInput, note: Note) -> tuple[int, datetime | None]:
    """Feed the log to ``reader``. Returns its size in bytes and the last time that it names."""
    size, tail = 0, b""
    at = source.written_at or datetime.now(timezone.utc)
    with ProgressLine() as progress:
        for chunk in source.chunks(note):
            at = at if size else _reference(chunk, at)
            reader.feed(chunk, at)
            size += len(chunk)
            tail = (tail + chunk)[-_TAIL_BYTES:]
            progress.show(partial(_how_far, source, size))
    reader.finish()
    return size, last_time(tail, at)


def _reference(beginning: bytes, at: datetime) -> datetime:
    """A time after which no line of the log was printed. It gives the year for times without one.

    The log may have been copied long after it was written, and ``at`` is the time of the copy. A date in the log itself
    is better.
    """
    for line in beginning[:_HEAD_BYTES].decode("utf-8", "replace").splitlines():
        named = line_of(0, line).time
        if named is not None and named.year != UNKNOWN_YEAR:
            return min(at, named + _LONG)
    return at


def _how_far(source: LogInput, size: int) -> str:
    """How much of the log was read, for people."""
    total = source.size_bytes
    of = f" of {total / 1e6:,.0f}" if total is not None and size <= total else ""
    return f"reading {one_line(source.name)[-60:]}: {size / 1e6:,.0f}{of} MB"


def _around(
    sources: Sequence[LogInput], evidence: "Evidence", mask: Callable[[str], str]
) -> tuple[tuple[int, str], ...]:
    source = next((each for each in sources if each.name == evidence.file), None)
    if source is None:
        return ()
    try:
        return around(source.chunks(lambda _: None), evidence, mask)
    except UnreadableLogError:
        # The log is gone, or was kept only in part: the evidence itself is still shown.
        return ()


def around(chunks: Iterable[bytes], evidence: Evidence, mask: Callable[[str], str]) -> tuple[tuple[int, str], ...]:
    """The evidence's line with the lines around it, each with its number; empty if the evidence has no line number.

    Only these lines of ``chunks`` are kept in memory, each cut at :data:`LINE_BYTES`.
    """
    if evidence.line < 1:
        return ()
    first, last = max(1, evidence.line - BEFORE_IN_TRACEBACK), evidence.line + AFTER
    wanted: dict[int, bytes] = {}
    number = 1  # The line that the next byte belongs to.
    for chunk in chunks:
        newlines = chunk.count(b"\n")
        if number + newlines >= first:
            at = 0
            # Lines before the first wanted one are skipped without splitting: there may be millions.
            while number < first:
                at = chunk.index(b"\n", at) + 1
                number += 1
            while number <= last:
                end = chunk.find(b"\n", at)
                piece = chunk[at : end if end >= 0 else len(chunk)]
                if piece or end >= 0:  # An empty piece behind the last newline is not a line.
                    so_far = wanted.get(number, b"")
                    wanted[number] = so_far + piece[: max(0, LINE_BYTES - len(so_far))]
                if end < 0:
                    break
                at, number = end + 1, number + 1
            if number > last:
                break
        else:
            number += newlines
    shown = {line: mask(_shown(data, line, evidence)) for line, data in wanted.items()}
    start = evidence.line - BEFORE
    if _BARE.sub("", shown.get(evidence.line - 1, "")).startswith("    "):
        began = [line for line, text in shown.items() if _BARE.sub("", text).startswith("Traceback (")]
        start = max([line for line in began if line < evidence.line], default=0)
    return tuple((line, text) for line, text in shown.items() if line >= start)


def _shown(data: bytes, number: int, evidence: Evidence) -> str:
    text = clean(data.decode("utf-8", "replace")).rstrip()
    if number == evidence.line and b"\r" in data.rstrip(b"\r"):
        # The line was overwritten with carriage returns, and the evidence may be one of its earlier states.
        return clean(evidence.text).rstrip()
    return text
