"""The events of all ranks in order of time."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lastbeat.explain.scanning.splitting import line_of
from lastbeat.model.cause import Evidence
from lastbeat_cli.explain.story import ExplainReport

_HEAD_CHARS = 2000
_NUMBERS = re.compile(r"\b(?:0x)?[0-9a-f]{0,40}\d[0-9a-f.:]{0,40}", re.IGNORECASE)
# [E1125 08:57:47.170660935 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) Rank 1]
# E1121 04:29:05.239000 26936 torch/distributed/elastic/api.py:1002]
# 2026-11-21 04:28:49,641 [INFO]
_HEADER = re.compile(
    r"\s{0,8}(?:\[?[EWIFC](?:\d{3,4} [0-9:.]{8,18})? {1,4}(?:\d{1,10} )?[\w./-]{1,120}:\d{1,6}\]|"
    r"\[?\d{4}-\d\d-\d\d[ T][0-9:.,]{8,15}(?:Z|[+-][0-9:]{4,6})?\]?(?: \[?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\]?:?)?)"
    r"\s{0,8}(?:\[[^\]]{0,80}rank ?\d{1,6}\]:?\s{0,8})?",
    re.IGNORECASE,
)

CAUSE, PERHAPS, FOLLOWED, END, DONE = ">", "?", "+", " ", "="


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One row: a line of a log, and its role in the explanation."""

    sign: str
    evidence: Evidence
    what: str
    ranks: tuple[int, ...] = ()
    """All ranks that logged the same line; the first one is the evidence's."""


def events(story: ExplainReport, mask: Callable[[str], str]) -> list[TimelineRow]:
    """The cause, the other possible causes, the downstream errors and the end of each log, in order of time.

    Each line occurs once, and the same line from several ranks is one row. A line without a time gets the time of the
    line before it in its file.
    """
    found = story.explanation
    told: dict[tuple[str, int], TimelineRow] = {}

    def add(sign: str, evidence: Evidence, what: str = "") -> None:
        key = (evidence.file, evidence.line)
        told.setdefault(key, TimelineRow(sign, evidence, what or bare(mask(evidence.text))))

    if found.cause is not None:
        add(CAUSE, found.cause.evidence)
    for each in found.downstream:
        add(FOLLOWED, each)
    for other in found.alternatives:
        add(PERHAPS, other.evidence)
    for log in story.logs if len(story.logs) > 1 else ():
        # In a hang, the rank that fell silent first is the best lead.
        if log.last_time is not None:
            end = Evidence(log.name, log.lines, "", log.rank, None, log.last_time)
            add(END, end, "its last line" + (f", step {log.step}" if log.step is not None else ""))
    if found.success is not None:
        add(DONE, found.success)
    return _joined(_ordered(told.values()))


def _joined(rows: list[TimelineRow]) -> list[TimelineRow]:
    """``rows`` with the rows of ranks that logged the same line joined into one."""
    first: dict[tuple[str, str], int] = {}
    joined: list[TimelineRow] = []
    cause = next((row for row in rows if row.sign == CAUSE), None)
    for row in rows:
        rank = row.evidence.rank
        if cause is not None and row.sign == FOLLOWED and (row.what, rank) == (cause.what, cause.evidence.rank):
            continue  # The same process printed the same line again.
        own = () if rank is None else (rank,)
        # Ends are joined only within the same step and minute, because people look for the rank that lags behind.
        time = row.evidence.time
        minute = f" {time:%F %R}" if row.sign == END and time is not None else ""
        alike = row.what + minute if row.sign == END else _NUMBERS.sub("#", row.what)
        at = first.setdefault((row.sign, alike), len(joined))
        if at == len(joined) or row.sign == CAUSE:
            joined.append(replace(row, ranks=own))
        elif rank is not None and rank not in joined[at].ranks:
            joined[at] = replace(joined[at], ranks=(*joined[at].ranks, rank))
    return joined


def ranks_told(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 0-7``, ``ranks 0,2,5``, ``ranks 0,2,5+9``."""
    if not ranks:
        return ""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    ordered = sorted(ranks)
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"ranks {ordered[0]}-{ordered[-1]}"
    more = f"+{len(ordered) - 3}" if len(ordered) > 3 else ""
    return f"ranks {','.join(map(str, ordered[:3]))}{more}"


def bare(text: str) -> str:
    """The message of a line without the rank, time and source before it, which have columns of their own."""
    message = line_of(1, text[:_HEAD_CHARS]).text + text[_HEAD_CHARS:]
    header = _HEADER.match(message)
    return (message[header.end() :] if header is not None else message).strip() or text.strip()


def _ordered(told: Iterable[TimelineRow]) -> list[TimelineRow]:
    files: dict[str, list[TimelineRow]] = {}
    for event in sorted(told, key=lambda event: (event.evidence.file, event.evidence.line)):
        files.setdefault(event.evidence.file, []).append(event)
    placed: list[tuple[bool, float, int, TimelineRow]] = []
    for rows in files.values():
        times = _filled([row.evidence.time for row in rows])
        # A file without any times comes first if it holds the cause, else last.
        timeless = -1.0 if any(row.sign == CAUSE for row in rows) else 0.0
        for when, row in zip(times, rows, strict=True):
            placed.append((when is None and timeless == 0.0, when if when is not None else timeless, len(placed), row))
    return [row for _, _, _, row in sorted(placed, key=lambda each: each[:3])]


def _filled(times: list[datetime | None]) -> list[float | None]:
    """``times`` in seconds, never decreasing, with gaps filled; all None if there is no time at all."""
    filled: list[float | None] = []
    last: float | None = None
    for when in times:
        if when is not None:
            last = max(when.timestamp(), last) if last is not None else when.timestamp()
        filled.append(last)
    first = next((when for when in filled if when is not None), None)
    return [first if when is None else when for when in filled]
