"""Derives when to ask training to stop from its job's time limit, which the scheduler gives at the start."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lastbeat.model.times import format_duration

SLURM_END: Final = "SLURM_JOB_END_TIME"
"""Variable in the environment of a job with its end in Unix time."""


USUAL_MARGIN_S: Final = 60.0
"""Default time in s between the request to stop and the end of the job."""


@dataclass(frozen=True, slots=True)
class StopTime:
    """When to ask training to stop, in Unix time, and why."""

    stop_at: float
    why: str


def time_limit(environ: Mapping[str, str], margin_s: float) -> StopTime | None:
    """The time ``margin_s`` before Slurm ends the job; None if that end is unknown, or ``margin_s`` is 0."""
    text = environ.get(SLURM_END, "").strip()
    if margin_s <= 0 or not re.fullmatch(r"[1-9]\d{8,10}", text, re.ASCII):
        return None
    return StopTime(int(text) - margin_s, f"{format_duration(margin_s)} before the time limit of its Slurm job")
