"""Figures as short texts for people: shares, ages, sizes."""

from datetime import datetime
from typing import TYPE_CHECKING, Final

from lastbeat.model.status import STALLED, Status
from lastbeat.model.times import format_duration

if TYPE_CHECKING:
    from lastbeat.model.view import Row

_OLD_STEP_S: Final = 300.0
"""The age of a step is shown from this on, in seconds."""


def percent(step: int, total: int) -> str:
    """Progress in percent, rounded down: 100% means done."""
    return f"{max(0, min(step * 100 // total, 100))}%" if total > 0 else "?"


def age(now: datetime, then: datetime) -> str:
    """The time since ``then``; never negative, even if a clock runs ahead."""
    return f"{format_duration(now - then)} ago"


def step_age_s(row: "Row", at: datetime | None) -> float | None:
    """The age of a RUNNING run's last step in seconds, or None if it is less than some minutes."""
    if row.status is not Status.RUNNING or row.step is None or row.step_at is None or at is None:
        return None
    age_s = (at - row.step_at).total_seconds()
    return age_s if row.stands_still or age_s > _OLD_STEP_S else None


def standstill(row: "Row", at: datetime | None) -> str:
    """A sentence if the run is stalled as of ``at``; empty if it is not, or a condition says so already."""
    if not row.stands_still or row.step_at is None or at is None or STALLED in row.conditions:
        return ""
    unlimited = ", and no stall limit is set" if row.stall_limited is False else ""
    return f"no step for {format_duration(at - row.step_at)}{unlimited}"


def step_age(row: "Row", at: datetime | None) -> str:
    """The age of the step as text behind it: ``, 58m ago``; empty for a recent one."""
    age_s = step_age_s(row, at)
    return "" if age_s is None else f", {format_duration(age_s)} ago"


def cores(used: float) -> str:
    """CPU cores in use: ``3.19``, or ``under 0.01`` for a nearly idle process."""
    return "under 0.01" if used < 0.01 else f"{round(used, 2 if used < 10 else 1):g}"


def size(count: int) -> str:
    """``count`` bytes in a unit for people."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.3g} TiB"
