"""Asks training to stop before its job's time limit, which the scheduler gives at the start."""

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lastbeat.model.times import format_duration
from lastbeat.training.sdk.beat_tasks import BeatTask
from lastbeat.training.sdk.run import Run

SLURM_END: Final = "SLURM_JOB_END_TIME"
"""Variable in the environment of a job with its end in Unix time."""


USUAL_MARGIN_S: Final = 60.0
"""Default time in s between the request to stop and the end of the job."""


@dataclass(frozen=True)
class JobTimeLimit(BeatTask):
    """Asks training to stop at ``stop_at`` in Unix time, because of ``why``."""

    purpose = "ask training to stop before its time limit"

    stop_at: float
    why: str

    def look(self, run: Run) -> float:
        left_s = self.stop_at - time.time()
        if left_s > 0:
            return left_s
        run.ask_to_stop(self.why, f"The time limit of this job comes near: initiating graceful stop ({self.why})")
        return math.inf


def time_limit(environ: Mapping[str, str], margin_s: float) -> JobTimeLimit | None:
    """The task of a Slurm job, ``margin_s`` before its end; None if that is unknown, or ``margin_s`` is 0."""
    text = environ.get(SLURM_END, "").strip()
    if margin_s <= 0 or not re.fullmatch(r"[1-9]\d{8,10}", text, re.ASCII):
        return None
    return JobTimeLimit(int(text) - margin_s, f"{format_duration(margin_s)} before the time limit of its Slurm job")
