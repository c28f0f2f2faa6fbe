"""Goodput as lines for people: a bar and its parts for one run, a table for a fleet."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lastbeat.model.goodput import MEANINGS, Goodput, TimeSpent
from lastbeat.model.text import counted
from lastbeat.model.times import format_duration, format_time
from lastbeat.model.timesheet import AttemptTimes, TimeUse
from lastbeat.views.goodput import FleetGoodput, RunGoodput
from lastbeat_cli.terminal.paint import Line, line, sentence
from lastbeat_cli.terminal.signs import Signs, harmless, name, padded

_WIDEST: Final = 100
_INDENT: Final = "  "
_MOST_ATTEMPTS: Final = 8
_MOST_FAULTS: Final = 5
_SURE: Final = 0.005
"""If less than this share of the wall time is unknown, ETTR is shown as one number, not as a range."""
_SIGNS: Final[Mapping[TimeUse, tuple[str, str, str]]] = {
    TimeUse.PRODUCTIVE: ("█", "#", "good"),
    TimeUse.LOST: ("\u00d7", "x", "bad"),
    TimeUse.QUEUED: ("░", ".", ""),
    TimeUse.STARTING: ("▒", ":", ""),
    TimeUse.UNNOTICED: ("!", "!", "mark"),
    TimeUse.RESTARTING: ("~", "~", "mark"),
    TimeUse.UNKNOWN: ("?", "?", "unknown"),
}
"""Time use → its sign, its sign in ASCII, and its style."""
_HEADINGS: Final[Mapping[TimeUse, str]] = {
    TimeUse.LOST: "LOST",
    TimeUse.QUEUED: "QUEUE",
    TimeUse.STARTING: "START",
    TimeUse.UNNOTICED: "UNSEEN",
    TimeUse.RESTARTING: "RESTART",
    TimeUse.UNKNOWN: "UNKNOWN",
}
_NUMBERS: Final = 9
"""Number of columns of the table after the run and its wall time."""
_CELL: Final = 7


def run_lines(run_id: str, found: Goodput, attempts: Sequence[AttemptTimes], columns: int, signs: Signs) -> list[Line]:
    """One run."""
    since = format_time(found.since.replace(microsecond=0))
    many = counted(found.attempts, "attempt")
    over = "" if not found.over else "; it is over"
    told = [
        (("Run ", "heading"), (run_id, "heading"), (f": {ettr(found)}", "")),
        line(f"{format_duration(found.wall_s)} of wall time since {since}, {many}{over}"),
        line(""),
        bar(found, min(columns, _WIDEST), signs),
        line(""),
        *_parts(found, signs),
        line(""),
        *(line(text) for text in _means(found)),
    ]
    if found.first_attempt > 1:
        before = f"the attempts before number {found.first_attempt}"
        counts = found.attempts >= found.first_attempt
        told.append(line(f"When {before} ran is not known." if counts else f"Of {before} nothing is known."))
    if len(attempts) > 1:
        told += [line(""), *_attempts(attempts)]
    return [signs.line(each) for each in told]


def ettr(found: TimeSpent) -> str:
    """The ratio in words: a range if unknown time could change it."""
    least, most = found.ettr, found.ettr_most
    if least is None or most is None:
        return "ETTR not known: no step of it is"
    if most - least < _SURE:
        return f"ETTR {percent(least)}"
    return f"ETTR {percent(least)} at least, {percent(most)} at most: the rest is not known"


def percent(share: float | None) -> str:
    """``share`` as a percentage with one decimal; ``?`` if unknown."""
    return "?" if share is None else f"{100 * share:.1f}%"


def bar(found: TimeSpent, columns: int, signs: Signs) -> Line:
    """``columns`` signs, divided by the time of each use; each use with any time gets at least one."""
    used = [(use, seconds) for use, seconds in found.spent.items() if seconds > 0]
    widths = [1] * len(used)
    wall_s = sum(seconds for _, seconds in used)
    for _ in range(columns - len(used) if used else 0):
        # The next sign goes to the use with the largest deficit.
        lacks = [columns * seconds / wall_s - width for (_, seconds), width in zip(used, widths, strict=True)]
        widths[lacks.index(max(lacks))] += 1
    return tuple((_sign(use, signs) * width, _SIGNS[use][2]) for (use, _), width in zip(used, widths, strict=True))


def _sign(use: TimeUse, signs: Signs) -> str:
    return _SIGNS[use][1 if signs.plain else 0]


def _parts(found: TimeSpent, signs: Signs) -> Iterator[Line]:
    for use, what in MEANINGS.items():
        seconds = found.spent.get(use)
        if use is TimeUse.UNKNOWN and not seconds:
            continue
        if use is TimeUse.LOST and found.lost_steps:
            what += f": {counted(found.lost_steps, 'step')}"  # noqa: PLW2901 - the same words, and more
        if seconds is None:
            yield line(f"{_INDENT}{_sign(use, signs)} {'?':>7} {'not known':>9}  {what}")
            continue
        share, long = percent(found.share(seconds)), format_duration(seconds)
        yield ((_INDENT, ""), (_sign(use, signs), _SIGNS[use][2]), (f" {share:>7} {long:>9}  {what}", ""))


def _means(found: Goodput) -> Iterator[str]:
    if not found.failures:
        yield "No failure was seen."
        return
    failures = counted(found.failures, "failure")
    detect, recover = found.mean_detect_s, found.mean_recover_s
    seen = "not known" if detect is None else format_duration(detect)
    never = "it has not come back" if found.down else "not known"
    back = never if recover is None else format_duration(recover)
    yield f"{failures}: mean time to detect {seen}, to recover {back}"


def _attempts(attempts: Sequence[AttemptTimes]) -> Iterator[Line]:
    yield line("Attempts", "heading")
    for each in attempts[-_MOST_ATTEMPTS:]:
        begun = each.began_at
        when = format_time(begun.replace(microsecond=0)) if begun is not None else "not known when"
        steps = ""
        if each.first_step is not None and each.last_step is not None:
            steps = f", steps {each.first_step:,} to {each.last_step:,}"
        given = f", from step {each.resumed_from:,}" if each.resumed_from else ""
        end = str(each.end) if each.end is not None else "its end was not seen" if each is not attempts[-1] else "lives"
        yield line(f"{_INDENT}{each.number}: {when}{given}{steps}, {end}")
    if len(attempts) > _MOST_ATTEMPTS:
        yield line(f"{_INDENT}and {len(attempts) - _MOST_ATTEMPTS} before those (--json has the latest 16)")


def fleet_lines(where: str, found: FleetGoodput, unasked: Sequence[str], columns: int, signs: Signs) -> list[Line]:
    """A table with a total. ``unasked`` are sentences about the runs that were not read."""
    told: list[Line] = [((harmless(where), "heading"), (f" · {ettr(found.total)}", ""))]
    if found.runs:
        told += [line(""), *_table(found)]
    else:
        told.append(line("Of no run anything is known of this: passes and supervisors record it.", "dim"))
    remarks = [*unasked]
    if found.unrecorded:
        remarks.append(f"Nothing of this recorded yet: {found.unrecorded:,}.")
    remarks += [f"{each.run_id} could not be read: {each.fault}" for each in found.unread[:_MOST_FAULTS]]
    if len(found.unread) > _MOST_FAULTS:
        remarks.append(f"and {len(found.unread) - _MOST_FAULTS:,} more could not be read.")
    if remarks:
        told.append(line(""))
        told += [line(part, "dim") for text in remarks for part in sentence(harmless(text), columns, 3)]
    return [signs.line(each) for each in told]


def _table(found: FleetGoodput) -> Iterator[Line]:
    # Ids of a parameter sweep may differ anywhere, so they stay whole and lines may be too long.
    width = max(*(len(each.run_id) for each in found.runs), len("total, 1,000 runs"))
    heads = ("ETTR", *_HEADINGS.values(), "MTTD", "MTTR")
    yield line(f"{'RUN':<{width}} {'WALL':>8} " + " ".join(f"{head:>{_CELL}}" for head in heads), "dim")
    for each in found.runs:
        yield _row(each, width)
    count = f"total, {counted(len(found.runs), 'run')}"
    yield line(f"{padded(count, width)} {_figures(found.total)}", "heading")


def _row(each: RunGoodput, width: int) -> Line:
    assert each.goodput is not None  # noqa: S101 - the table has only runs with goodput
    return line(f"{padded(name(each.run_id), width)} {_figures(each.goodput)}")


def _figures(found: TimeSpent) -> str:
    means = [found.mean_detect_s, found.mean_recover_s]
    cells = [
        percent(found.ettr),
        *(percent(found.share(found.spent.get(use))) for use in _HEADINGS),
        *("-" if mean is None else format_duration(mean) for mean in means),
    ]
    return f"{format_duration(found.wall_s):>8} " + " ".join(f"{cell:>{_CELL}}" for cell in cells)
