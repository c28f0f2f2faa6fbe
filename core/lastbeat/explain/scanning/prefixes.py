"""Reads rank, host and time from the prefixes that launchers, ranks and log collectors put before a line."""

import re
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Final, NamedTuple

UNKNOWN_YEAR: Final = 1900
"""The year of a time without one (glog, syslog) if there is no reference."""
_AHEAD: Final = timedelta(days=2)
"""Most that a line's time may lie after its reference."""
_DEPTH: Final = 8
"""Most prefixes of a line."""
_HEAD: Final = 240
"""Characters at a line's beginning that are searched for rank, host and time."""

_DIGITS: Final = "0123456789"
_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"
_LETTERS: Final = _LOWER + _LOWER.upper()
# For each prefix: its possible first characters; a text that it contains, so that few patterns are compiled; and its
# pattern. The groups global, task and local name the rank, the most reliable first. Prefixes are removed one by one
# from the start. Distinctive ones come first. The last are words that programs also print, so they need more context.
_PREFIXES: Final = (
    ("[ \t", "[rank", r"\s{0,8}\[rank(?P<global>\d{1,6})\]: ?"),
    (">", "> ", r"> (?!>)"),  # a quotation in Markdown
    # torchrun --tee: [default0]:, [trainer0]:
    ("[ \t", "]:", r"\s{0,8}\[[A-Za-z_]{2,20}(?P<local>\d{1,6})\]: ?"),
    (_DIGITS, ":", r"(?P<task>\d{1,5}):(?: |$)"),  # srun --label
    (
        "[",
        "]<std",
        r"\[(?:\d{1,9},)?(?:mpirank:)?(?P<global>\d{1,6})(?:,(?P<host>[\w.-]{1,80}))?\]<std(?:out|err)> ?: ?",
    ),
    # Ray; also where its colours have lost their escape character
    (
        "([",
        ")",
        (
            r"(?:\[\d{1,2}m)?\((?:[\w.:<>*\[\]-]{1,80} pid=\d{1,10}(?:, ip=(?P<host>[\w.:-]{1,80}))?|"
            r"raylet(?:, ip=[\w.:-]{1,80})?|autoscaler \+\w{1,12})\)(?:\[0m(?= ))? ?"
        ),
    ),
    # Container runtimes and log viewers. A program's own time has no T, no zone, or stands elsewhere.
    (
        _DIGITS + " \t|",
        "T",
        (
            r"\s{0,8}(?:\| )?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d) "
            r"(?:std(?:out|err) [FP] |\| )?"
        ),
    ),
    (
        "JFMASOND",
        ": ",
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<host>[\w.-]{1,80}) [\w./@-]{1,60}(?:\[\d{1,10}\])?: ",
    ),
    (_LETTERS + _DIGITS, " kernel: ", r"(?=[\w.-]{0,79}[\d-])(?P<host>[\w.-]{1,80}) kernel: "),
    # dmesg: seconds since boot, or with -T the time
    ("[<", "] ", r"(?:<\d{1,3}>)?\[ {0,8}\d{1,9}\.\d{6}\] "),
    ("[", "] ", r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] "),
    # metaflow
    (
        _DIGITS,
        " (pid ",
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \[[\w./-]{1,100} \(pid \d{1,10}\)\] (?:\[[\w-]{1,40}\] )?",
    ),
    ("[", "[pod/", r"\[pod/[\w.-]{1,100}/[\w.-]{1,100}\] "),
    (_LETTERS, " | ", r"[A-Za-z][\w.-]{0,60}[_-]\d{1,5} {1,40}\| "),  # docker compose
    # torchx, with role and replica
    (
        _LOWER,
        "/",
        (
            r"(?!(?:step|iter|iteration|epoch|batch|sample|shard|part|chunk|layer|eval|val|train|test)s?/)"
            r"[a-z][\w.-]{0,60}/(?P<local>\d{1,5}) (?=\S)"
        ),
    ),
    # pdsh, kubectl
    (
        _LETTERS,
        ": ",
        (
            r"(?!slurm|(?:step|iter|epoch|batch|sample|shard|layer|block|stage|loss|exp|run|errno|[a-z]{0,20}error)"
            r"[\w.-]{0,60}:)(?P<host>(?:[A-Za-z][\w.]{0,40}-[\w.-]{0,60}|"
            r"(?:node|gpu|worker|host|nid|dgx|cn|algo|pod)s?)\d{1,6}): "
        ),
    ),
)
_RANK: Final = (
    r"(?i)\[(?:[^\[\]]{0,60} )?rank[ :=]{0,2}(?P<rank>\d{1,6})\]|srun: error: [\w.-]{1,80}: task (?P<task>\d{1,6}): "
)
_HOST: Final = (
    r"(?P<nccl>[A-Za-z][\w.-]{0,80}):\d{1,8}:\d{1,8} \[\d{1,3}\] |slurmstepd-(?P<slurm>[\w.-]{1,80}): |"
    r"srun: error: (?P<srun>[A-Za-z][\w.-]{0,80}): tasks? "
)
_TIME: Final = (
    r"(?<!\d)(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)"
    r"(?:[.,](?P<fraction>\d{1,9}))?(?: ?(?P<zone>Z|UTC\b|[+-]\d\d:?\d\d(?!\d)))?|"
    r"(?<![A-Za-z0-9])[IWEF](?P<gmonth>\d{1,2})(?P<gday>\d\d) (?P<gclock>\d\d:\d\d:\d\d)\.(?P<gfraction>\d{1,9})|"
    r"(?<![A-Za-z])(?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (?P<sday>[ \d]\d) "
    r"(?P<sclock>\d\d:\d\d:\d\d)(?: (?P<syear>\d{4})(?!\d))?"
)
# Looked for before any of these. The clock of a progress bar has no date before it.
_CLOCK: Final = r":\d\d:\d\d(?<=\d[T ]\d\d:\d\d:\d\d)"
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Origin(NamedTuple):
    """The origin of a line according to its prefixes. Its own text starts at ``begin``."""

    begin: int
    rank: int | None
    host: str | None


def origin(raw: str) -> Origin:
    """The origin of the line ``raw``."""
    begin, host = 0, None
    ranks: dict[str, str] = {}
    for _ in range(_DEPTH):
        found = _prefix(raw, begin)
        if found is None:
            break
        begin = found.end()
        for name, value in found.groupdict().items():
            if value is not None and name == "host":
                host = host or value
            elif value is not None:
                ranks.setdefault(name, value)
    head = raw[begin : begin + _HEAD].lower()
    if "rank" in head or "srun" in head:
        inside = _compiled(_RANK).search(raw, begin, begin + _HEAD)
        if inside is not None:
            ranks.setdefault("global", inside["rank"] or inside["task"])
    named = _compiled(_HOST).match(raw, begin)
    if named is not None:
        host = named["nccl"] or named["slurm"] or named["srun"]
    rank = next((int(ranks[name]) for name in ("global", "task", "local") if name in ranks), None)
    return Origin(begin, rank, host)


def _prefix(raw: str, begin: int) -> "re.Match[str] | None":
    first = raw[begin : begin + 1]
    if not first:
        return None
    for beginnings, held, pattern in _PREFIXES:
        if first in beginnings and raw.find(held, begin, begin + _HEAD) >= 0:
            found = _compiled(pattern).match(raw, begin)
            if found is not None:
                return found
    return None


@cache
def _compiled(pattern: str) -> "re.Pattern[str]":
    return re.compile(pattern, re.ASCII)


def time_of(raw: str, reference: datetime | None = None) -> datetime | None:
    """The first time in a line, in UTC unless it names a zone; None if it has none.

    A time without a year gets the latest year in which it is not after ``reference``, or :data:`UNKNOWN_YEAR` without a
    reference.
    """
    if _compiled(_CLOCK).search(raw, 0, _HEAD) is None:
        return None
    found = _compiled(_TIME).search(raw, 0, _HEAD)
    if found is None:
        return None
    try:
        if found["year"] is not None:
            day = (int(found["year"]), int(found["month"]), int(found["day"]))
            return _moment(day, found["clock"], found["fraction"]) - _offset(found["zone"])
        if found["gmonth"] is not None:
            month_day = (int(found["gmonth"]), int(found["gday"]))
            return _nearest(month_day, found["gclock"], found["gfraction"], reference)
        month_day = (_MONTHS.index(found["name"]) + 1, int(found["sday"]))
        if found["syear"] is not None:
            return _moment((int(found["syear"]), *month_day), found["sclock"], None)
        return _nearest(month_day, found["sclock"], None, reference)
    except (ValueError, OverflowError):
        return None


def _moment(day: tuple[int, int, int], clock: str, fraction: str | None) -> datetime:
    hour, minute, second = (int(part) for part in clock.split(":"))
    microsecond = int((fraction or "0")[:6].ljust(6, "0"))
    # A leap second counts as the one before it: close enough for ordering events.
    return datetime(*day, hour, minute, min(second, 59), microsecond, tzinfo=timezone.utc)


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone in {"Z", "UTC"}:
        return timedelta(0)
    digits = zone[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -offset if zone[0] == "-" else offset


def _nearest(
    month_day: tuple[int, int], clock: str, fraction: str | None, reference: datetime | None
) -> datetime | None:
    if reference is None:
        # 1900 was no leap year.
        month, day = month_day
        return _moment((UNKNOWN_YEAR, month, min(day, 28) if month == 2 else day), clock, fraction)
    # Not every year has a 29th of February.
    years = [year for year in (reference.year - 1, reference.year, reference.year + 1) if _exists(year, month_day)]
    moments = [_moment((year, *month_day), clock, fraction) for year in years]
    # A line was printed before it was stored, apart from differences of clocks and zones.
    before = [moment for moment in moments if moment <= reference + _AHEAD]
    return max(before) if before else min(moments, default=None)


def _exists(year: int, month_day: tuple[int, int]) -> bool:
    return month_day != (2, 29) or (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))
