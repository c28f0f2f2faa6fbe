"""Decides what follows the end of a start: another one, from which checkpoint, or none."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Final

from lastbeat.jobs.checkpoints.survey import survey
from lastbeat.model.checkpoint import CheckpointSurvey
from lastbeat.model.in_place import RESUME_FROM, RESUME_STEP
from lastbeat.model.restart import JobEnd, RestartDecision, RestartPolicy
from lastbeat.model.starts_in_place import KEPT, StartsInPlace
from lastbeat.settings import Settings, catalogues, opening
from lastbeat.settings.table import SIGNALS
from lastbeat.stores.port import StoreError
from lastbeat.training.exec.in_place import ends
from lastbeat.training.exec.in_place.ending import KILLED_S
from lastbeat.training.exec.in_place.ends import HowItEnded
from lastbeat.training.exec.in_place.looking import PAID_EACH_S
from lastbeat.training.exec.in_place.together import Participant
from lastbeat.training.sdk.sections import SectionLimits
from lastbeat.watch.decide.quarantine import quarantined
from lastbeat.watch.decide.restart import entry

GPU_S: Final = 60.0
"""Longest wait in s for the memory of the GPUs."""
_STARTED_S: Final = 30.0
"""Time in s for the rest of a start."""
_STEP_DIGITS: Final = 19


@dataclass(frozen=True, slots=True)
class InPlaceTerms:
    """The terms for restarts of a command within its job."""

    most: int
    """Most restarts in place."""
    policy: RestartPolicy
    checkpoints: str
    """Folder of its checkpoints; empty if unknown."""
    grace_s: float
    """Time in s between SIGTERM and SIGKILL."""
    sections: SectionLimits
    stall_s: float | None
    launch: str
    """Name of this job's launch."""
    own: Participant
    """This command among those of the job."""

    @property
    def takes_s(self) -> float:
        """Longest time in s from a hang to the next start, if all goes well."""
        return self.grace_s + KILLED_S + GPU_S + PAID_EACH_S + _STARTED_S

    @property
    def gather_s(self) -> float:
        """Longest wait in s for the others, which have to notice and to end their commands."""
        return self.takes_s + 2 * PAID_EACH_S

    @property
    def node(self) -> str:
        """Name of this command for users on other nodes."""
        host = os.uname().nodename
        return host if self.own.count == 1 else f"{host}, {self.own.number} of {self.own.count}"


def first_starts(terms: InPlaceTerms, environ: Mapping[str, str]) -> StartsInPlace:
    """The first start, with the checkpoint from the job's environment."""
    step = environ.get(RESUME_STEP, "")
    known = step.isascii() and step.isdigit() and len(step) < _STEP_DIGITS
    resume_step = int(step) if known else None
    return StartsInPlace(terms.launch, resume_from=environ.get(RESUME_FROM) or None, resume_step=resume_step)


def resume_variables(starts: StartsInPlace) -> dict[str, str | None]:
    """Environment variables for training; None removes a variable. Empty for the first start, which keeps the
    variables of the job."""
    if not starts.number:
        return {}
    return {
        RESUME_FROM: starts.resume_from,
        RESUME_STEP: None if starts.resume_step is None else str(starts.resume_step),
    }


@dataclass(frozen=True, slots=True)
class EndRuling:
    """The decision after the end of a start."""

    decision: RestartDecision
    end: JobEnd
    found: CheckpointSurvey | None = None


def rule(
    settings: Settings, terms: InPlaceTerms, starts: StartsInPlace, ended: HowItEnded, stop_wanted: str | None
) -> EndRuling:
    """The policy's decision after the start of ``starts``. ``stop_wanted`` names the origin of a request to end early.

    Reads the checkpoints, which may take as long as their store takes. Raises :class:`StoreError` if the run's store
    cannot be opened.
    """
    now = opening.bare_store(settings, training=True).clock()
    why = ends.explained(ended, catalogues.catalogue(settings[SIGNALS]))
    end = ends.job_end(ended, why, stop_wanted=stop_wanted)
    found = None
    if terms.checkpoints and end.asked_by is None:
        # The checkpoint on which this start died counts too.
        kept_from = quarantined((*starts.restarts, entry(end, now)))
        try:
            place = opening.place(settings, terms.checkpoints)
            found = survey(place, crashed_at=place.clock(), quarantined=kept_from, stop_at_first=True)
        except StoreError as fault:
            # Without them it would start from scratch, beside its checkpoints.
            decision = RestartDecision(restart=False, reason=f"its checkpoints cannot be looked at: {fault}")
            return EndRuling(decision, end)
        end = replace(end, checkpoint_step=found.newest_step)
    decision = ends.ruled(terms.policy, ended, end, starts.restarts, now)
    return EndRuling(ends.within(decision, starts.number, terms.most), end, found)


def next_starts(terms: InPlaceTerms, starts: StartsInPlace, ended: HowItEnded, ruling: EndRuling) -> StartsInPlace:
    """The start after that of ``starts``, which has ``ended``."""
    resume_from, resume_step = ends.resumes(ruling.found, starts.resume_from, starts.resume_step)
    history = (*starts.restarts, entry(ruling.end, datetime.now(timezone.utc)))[-KEPT:]
    why = ended.hang or ruling.decision.reason
    return StartsInPlace(terms.launch, starts.number + 1, history, why, terms.node, resume_from, resume_step)


def common_pause_s(starts: StartsInPlace) -> float:
    """Pause in s of all commands of a job before ``starts``, by the report of the command that failed."""
    last = starts.restarts[-1] if starts.restarts else None
    if last is None or last.first_step is not False:
        return 0.0
    end = JobEnd(last.mode, last.error_type, first_step=False)
    return ends.pause_s(starts.restarts[:-1], end, 0.0)
