"""Checkpoints on which attempts died before their first step. Pure.

A damaged checkpoint may look complete. Two attempts that died on it before they made a step put it in quarantine, and
the next restart takes the one before it. Nothing is deleted. A checkpoint that is saved again counts as a new one.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from lastbeat.model.checkpoint import Quarantine
from lastbeat.model.job import JobSight, JobState
from lastbeat.model.observation import Seen
from lastbeat.model.restart import RestartEntry
from lastbeat.model.text import counted

DEATHS: Final = 2
"""Attempts that have to die on a checkpoint before it is put in quarantine."""
QUICK_S: Final = 900.0
"""An attempt without visible steps died before its first step only if it lived for fewer seconds than this."""
_ENDED_BY_OTHERS: Final = frozenset(
    {JobState.CANCELLED, JobState.PREEMPTED, JobState.NODE_LOST, JobState.TIMEOUT, JobState.GONE}
)


def first_step(
    seen: Seen, sight: JobSight, resume_step: int | None, restarts: Iterable[RestartEntry], now: datetime
) -> bool | None:
    """Whether the attempt that ends now, and was to resume from ``resume_step``, made a step of its own. None if that
    is unknown, or if it did not end by itself.

    1. A step other than that of its checkpoint was seen: True.
    2. Something else ended it, its logs could not be read, or it never ran: None.
    3. Other attempts of the run have shown steps, or it died soon after its start: False.
    """
    told = seen.knows_step
    if told is not None and told.step is not None and told.step != resume_step:
        return True
    report = sight.report
    unread = seen.logs is not None and bool(seen.logs.unread or seen.logs.hidden)
    if report.state in _ENDED_BY_OTHERS or report.state is JobState.UNKNOWN or unread:
        return None
    shows_steps = told is not None and told.step is not None
    if shows_steps or any(each.step is not None for each in restarts):
        return False
    if report.started_at is None:
        return None
    lived_s = ((report.ended_at or now) - report.started_at).total_seconds()
    return False if lived_s < QUICK_S else None


def quarantined(restarts: Iterable[RestartEntry]) -> dict[str, Quarantine]:
    """Name of each checkpoint in quarantine → why, from the restarts that the record keeps."""
    died: dict[str, list[datetime]] = {}
    for each in restarts:
        if each.resumed_from is None:
            continue
        name = each.resumed_from.rstrip("/").rpartition("/")[2]
        if each.first_step:
            died.pop(name, None)
        elif each.first_step is False:
            died.setdefault(name, []).append(each.at)
    return {
        name: Quarantine(f"{counted(len(times), 'attempt')} died on it before their first step", times[-1])
        for name, times in died.items()
        if len(times) >= DEATHS
    }
