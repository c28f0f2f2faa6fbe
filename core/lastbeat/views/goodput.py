"""What runs spent their time on, for people and programs."""

from collections.abc import Sequence
from typing import Final

from lastbeat.model.goodput import Goodput, TimeSpent
from lastbeat.model.observation import Seen
from lastbeat.model.progress_lines import Progress
from lastbeat.model.times import format_time
from lastbeat.model.timesheet import AttemptTimes, Timesheet, TimeUse
from lastbeat.model.view import Excerpt
from lastbeat.views.as_json import Json, as_json, picked
from lastbeat.watch.decide.timesheet import with_step

SCHEMA: Final = 1


def with_log(sheet: Timesheet | None, seen: Seen | None, tail: Excerpt | None) -> Timesheet | None:
    """``sheet`` with the step at the end of the log, of a run that lives and writes steps nowhere else."""
    last = sheet.last if sheet is not None else None
    if sheet is None or last is None or tail is None or tail.modified is None:
        return sheet
    if seen is None or seen.progress is not None or last.began_at is None or tail.modified < last.began_at:
        return sheet
    said = Progress()
    for each in tail.lines:
        said.read(each)
    # Counts that restart in each epoch cannot be recognized from the end of a log alone.
    if said.step is None or said.step < (last.last_step or 0):
        return sheet
    return with_step(sheet, said.step, tail.modified)


def goodput_document(found: Goodput) -> Json:
    """The promised keys, all of them always there; what is not known is null."""
    return {**picked(found, "since until over first_attempt"), **spent_document(found)}


def spent_document(found: TimeSpent) -> Json:
    """What one run and many have in common. Seconds; ratios from 0 to 1."""
    return {
        "wall_s": _seconds(found.wall_s),
        "ettr": _ratio(found.ettr),
        "ettr_most": _ratio(found.ettr_most),
        "spent_s": {use.value: _seconds(found.spent.get(use)) for use in TimeUse},
        **picked(found, "attempts lost_steps failures"),
        "mean_time_to_detect_s": _seconds(found.mean_detect_s),
        "mean_time_to_recover_s": _seconds(found.mean_recover_s),
    }


def times_document(attempts: Sequence[AttemptTimes]) -> list[Json]:
    """The known times of each attempt."""
    return [
        {
            "attempt": each.number,
            **picked(each, "submitted_at started_at first_step first_step_at last_step last_step_at died_at seen_at"),
            "resumed_from_step": each.resumed_from,
            "ended_as": as_json(each.end),
            "restart_decided_at": format_time(each.decided_at),
        }
        for each in attempts
    ]


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _ratio(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
