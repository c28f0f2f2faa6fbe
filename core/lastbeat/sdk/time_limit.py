"""When the job that training belongs to is ended, as its scheduler says at its start."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lastbeat.model.times import format_duration

SLURM_END: Final = "SLURM_JOB_END_TIME"
"""Unix time, in the environment of a job."""


USUAL_MARGIN_S: Final = 60.0
"""How long before its end a training is asked to stop, where nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class StopTime:
    """When training is asked to stop, in Unix time, and why."""

    stop_at: float
    why: str


def time_limit(environ: Mapping[str, str], margin_s: float) -> StopTime | None:
    """``margin_s`` before Slurm ends the job; None: it has no end that is known, or ``margin_s`` is 0."""
    text = environ.get(SLURM_END, "").strip()
    if margin_s <= 0 or not re.fullmatch(r"[1-9]\d{8,10}", text, re.ASCII):
        return None
    return StopTime(int(text) - margin_s, f"{format_duration(margin_s)} before the time limit of its Slurm job")
