"""The columns of ``lastbeat fleet``: each turns a run into one cell of the table."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from lastbeat.alerts.facts import number
from lastbeat.model import amounts
from lastbeat.model import status as names
from lastbeat.model.figures import FIGURES
from lastbeat.model.status import Status, steps_done
from lastbeat.model.text import counted
from lastbeat.model.times import format_duration
from lastbeat.model.view import Row
from lastbeat.views.lines import signs
from lastbeat.views.lines.signs import Signs
from lastbeat.views.order import NEEDS_PEOPLE, need
from lastbeat.views.row_keys import value

_BAR: Final = 10
_SPARK: Final = 16
_SHORT_SPARK: Final = 6
_EXCEPTION: Final = re.compile(r"(?<!\S)[A-Za-z_][\w.]{0,200}(?:Error|Exception): ")
_MOST: Final = 10**15
"""Larger numbers are not taken as steps."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The values that all cells of one picture share."""

    at: datetime | None
    """The store's time now; None before the first answer."""
    signs: Signs
    wide: bool = False
    """Whether there is room for whole words."""


Cell = tuple[str, str]
"""A text and its style."""


def status(row: Row, sight: Sight) -> Cell:
    """The status as a sign and a word, with a question mark if it is in doubt."""
    word = signs.word(row)
    # A stalled run is marked, though no status says so.
    looks = signs.WARNING if row.stands_still else word
    return f"{sight.signs.of(looks)} {word}{'' if row.doubt is None else '?'}", signs.style(looks)


def run(row: Row, sight: Sight) -> Cell:
    """The run's id."""
    return signs.name(row.run_id), "heading" if need(row, sight.at) <= NEEDS_PEOPLE else ""


def percent(row: Row, sight: Sight) -> Cell:
    step, total = _steps(row)
    if step is None:
        return "", ""
    # A wide table has a column of its own for the step.
    text = amounts.percent(step, total) if total else "" if sight.wide else si(step)
    return text, "mark" if row.stands_still else ""


def steps(row: Row, _: Sight) -> Cell:
    step, total = _steps(row)
    if step is None:
        return "", ""
    return (f"{step:,}/{total:,}" if total else f"{step:,}"), "mark" if row.stands_still else ""


def step_age(row: Row, sight: Sight) -> Cell:
    """The age of the last step if it is more than some minutes."""
    age_s = amounts.step_age_s(row, sight.at)
    if age_s is None:
        return "", ""
    return (format_duration(age_s) if sight.wide else short_duration(age_s)), "mark" if row.stands_still else ""


def bar(row: Row, sight: Sight) -> Cell:
    step, total = _steps(row)
    return (signs.bar(step, total, _BAR, sight.signs), "") if step is not None and total else ("", "")


def _steps(row: Row) -> tuple[int | None, int | None]:
    step, total = _count(row.step), _count(row.total_steps)
    return (None if step is None else steps_done(step, total, row.status)), total


def eta(row: Row, sight: Sight) -> Cell:
    if row.eta_s is None or not 0 <= row.eta_s < _MOST:
        return "", ""
    return (format_duration(row.eta_s) if sight.wide else short_duration(row.eta_s)), ""


def _figure(name: str) -> Callable[[Row, Sight], Cell]:
    """The cells of a figure's column."""

    def cell(row: Row, sight: Sight) -> Cell:
        value: float | None = getattr(row.figures, name)
        if value is None:
            return "", ""
        text = f"{value:,}" if isinstance(value, int) else number(value, 4 if sight.wide else 3)
        return text, "" if math.isfinite(value) else "mark"

    return cell


def spark(row: Row, sight: Sight) -> Cell:
    return signs.spark(row.losses, _SPARK if sight.wide else _SHORT_SPARK, sight.signs), ""


def beat(row: Row, sight: Sight) -> Cell:
    if row.beat_at is None or sight.at is None:
        return "", ""
    seconds = (sight.at - row.beat_at).total_seconds()
    text = format_duration(seconds) if sight.wide else short_duration(seconds)
    return text, "mark" if row.doubt is not None else ""


def job(row: Row, _: Sight) -> Cell:
    """The job of a supervised run, and the number of restarts used."""
    if row.job is None:
        return "", ""
    return signs.harmless(row.job.text, 100), "mark" if row.job.waits else ""


def why(row: Row, sight: Sight) -> Cell:
    """The reason of the status: doubts, warnings, failures and unreadable documents; also a silence."""
    said = reason(row, sight.at, short=not sight.wide)
    if row.acknowledged is not None:
        note = f": {signs.harmless(row.acknowledged.note, 100)}" if row.acknowledged.note else ""
        said = f"acknowledged by {signs.harmless(row.acknowledged.by, 100)}{note}; {said}"
    if row.silence is None:
        return said, ""
    left = "" if sight.at is None else f" {short_duration((row.silence.until - sight.at).total_seconds())}"
    because = f": {signs.harmless(row.silence.why, 100)}" if row.silence.why else ""
    told = f"silenced{left}{because}"
    return f"{told}; {said}" if said else told, ""


def reason(row: Row, at: datetime | None, *, short: bool = False) -> str:
    """The reason of a run's status in one sentence as of ``at``; empty if all is well."""
    return "; ".join(signs.harmless(text, 300) for text in _why(row, at, short=short) if text)


def _why(row: Row, at: datetime | None, *, short: bool) -> list[str]:
    told = [row.doubt or "", amounts.standstill(row, at)]
    word = signs.word(row)
    if word == signs.WARNING:
        named = ", ".join(row.conditions)
        # The reason names the rank, which matters more than the condition's name.
        told.append(f"{named}: {row.reason}" if names.STRAGGLER in row.conditions and row.reason else named)
    elif row.status is Status.SUCCEEDED and row.conditions:
        # First, because the rest may be cut off.
        told.append(f"{', '.join(row.conditions)}: {row.reason}")
    elif row.cause and row.reason and not row.reason.startswith(row.cause):
        # The cause says more than the exception's name.
        text = _EXCEPTION.sub("", row.reason[:1000]) if short else row.reason
        told.append(f"{row.cause}: {text}")
    elif row.status is not Status.RUNNING or row.cause:
        told.append(row.reason or row.cause or "")
    if row.fault:
        told.append(f"unreadable: {row.fault}")
    if row.pending:
        told.append(f"{counted(row.pending, 'alert')} waiting")
    if not row.complete and not any(told):
        told.append("still reading")
    elif not row.recorded and row.status is not Status.UNKNOWN and row.doubt is None:
        told.append("not recorded yet")
    return told


def _count(value: int | None) -> int | None:
    return value if value is not None and 0 <= value < _MOST else None


def short_duration(seconds: float) -> str:
    """A duration in its largest unit, rounded down: ``45s``, ``3m``, ``2h``, ``9d``."""
    whole = max(0, int(seconds))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= (length if unit != "h" else 5400) and not (unit == "d" and whole < 2 * 86400):
            return f"{whole // length}{unit}"
    return f"{whole}s"


def si(value: float) -> str:
    """``value`` with at most three digits and a letter for its magnitude."""
    if not math.isfinite(value):
        return number(value)
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def rate(per_s: float) -> str:
    """The speed in the unit that reads better: steps per second, or seconds per step."""
    if 0 < per_s < 0.1:
        return f"{number(1 / per_s, 3)} s/step"
    return f"{number(per_s, 3)}/s"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Without room, columns of the least ``worth`` are dropped first."""

    heading: str
    cell: Callable[[Row, Sight], Cell]
    worth: int
    right: bool = False
    least: int | None = None
    """Smallest width to which it may be cut; None if it is shown whole or not at all."""
    first: bool = False
    """Whether it is cut last, after columns of less worth are dropped."""
    asked: bool = False
    """Whether people asked for it: then it is shown, whatever there is in it."""
    usual: int = 0
    """Width that it gets before columns of less worth; it gets more if there is room."""


def _text(of: Callable[[Row], str], style: str = "") -> Callable[[Row, Sight], Cell]:
    """The cells of a column whose text needs the row alone."""
    return lambda row, _: (of(row), style)


ESSENTIAL: Final = 100
"""Columns of at least this worth are shown on 80 columns, unless run ids are long."""
VITAL: Final = 130
"""To show columns of at least this worth, a live screen cuts long run ids."""
ALWAYS: Final = 200
"""Columns of this worth are shown at any width."""
_FIGURES: Final = tuple(
    Column(each.label.upper(), _figure(each.name), 115 - 35 * place, right=True)
    for place, each in enumerate(each for each in FIGURES if each.label)
)
"""The loss, then any other: without room, those give way first."""
COLUMNS: Final = (
    Column("STATUS", status, ALWAYS),
    Column("RUN", run, ALWAYS, least=10, first=True),
    Column("PHASE", _text(lambda row: signs.harmless(row.phase or "", 100)), 90, least=6, usual=14),
    Column("STEP", steps, 82, right=True),
    Column("", bar, 70),
    Column("DONE", percent, 130, right=True),
    Column("AGE", step_age, 135, right=True),
    Column("ETA", eta, 120, right=True),
    *_FIGURES[:1],
    Column("", spark, 105),
    *_FIGURES[1:],
    Column("SPEED", _text(lambda row: "" if row.steps_per_s is None else rate(row.steps_per_s)), 80, right=True),
    Column(
        "TOKENS", _text(lambda row: "" if row.tokens_per_s is None else f"{si(row.tokens_per_s)}/s"), 50, right=True
    ),
    Column("BEAT", beat, 140, right=True),
    # From the second attempt on: most runs have only one.
    Column("ATTEMPT", _text(lambda row: str(row.attempt) if row.attempt > 1 else ""), 85, right=True),
    Column("JOB", job, 84, least=6, usual=14),
    Column("OWNER", _text(lambda row: signs.harmless(row.owner or row.team or "", 100)), 88, least=5, usual=12),
    Column("WHY", why, ALWAYS, least=12, usual=36),
    Column("HOST", _text(lambda row: signs.harmless(row.host or "", 100), "dim"), 10),
)
_MORE: Final = (
    Column("TAGS", _text(lambda row: signs.harmless(", ".join(row.tags), 200)), ALWAYS, least=6, usual=20),
    Column("TEAM", _text(lambda row: signs.harmless(row.team or "", 100)), ALWAYS),
    Column("CAUSE", _text(lambda row: signs.harmless(row.cause or "", 100)), ALWAYS),
)
_HEADED: Final = {each.heading.lower(): each for each in (*COLUMNS, *_MORE) if each.heading}
_NAMED: Final = {**_HEADED, "progress": _HEADED["done"], "tag": _HEADED["tags"]}
NAMES: Final = tuple(_NAMED)
"""The columns that have names of their own; any other name is a key of a configuration, or a metric."""


def column(name: str) -> Column:
    """The column that people ask for as ``name``."""
    known = _NAMED.get(name.casefold())
    return replace(known, worth=ALWAYS, asked=True) if known else Column(name, _key(name), ALWAYS, True, asked=True)


def key_text(row: Row, name: str) -> str:
    """What ``row`` says under a name, in a few words; empty if nothing."""
    found = value(row, name)
    if found is None or isinstance(found, bool):
        return "" if found is None else str(found).lower()
    return signs.harmless(number(found, 4) if isinstance(found, float) else str(found), 100)


def _key(name: str) -> Callable[[Row, Sight], Cell]:
    """The cells of a key of configurations, or of a metric."""

    def cell(row: Row, _: Sight) -> Cell:
        return key_text(row, name), ""

    return cell
