"""What follows once a start has ended: another one, from which checkpoint, or none."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Final

from lastbeat import opening
from lastbeat.checkpoints.survey import survey
from lastbeat.decide.quarantine import quarantined
from lastbeat.decide.restart import entry
from lastbeat.in_place import ends
from lastbeat.in_place.ending import KILLED_S
from lastbeat.in_place.ends import HowItEnded
from lastbeat.in_place.looking import PAID_EACH_S
from lastbeat.in_place.participants import Participant
from lastbeat.model.checkpoint import CheckpointSurvey
from lastbeat.model.in_place import RESUME_FROM, RESUME_STEP
from lastbeat.model.restart import JobEnd, RestartDecision, RestartEntry, RestartPolicy
from lastbeat.model.starts_in_place import KEPT, StartsInPlace
from lastbeat.sdk.sections import SectionLimits
from lastbeat.settings import Settings, catalogues
from lastbeat.settings.table import SIGNALS
from lastbeat.stores.port import StoreError

GPU_S: Final = 60.0
"""How long the memory of the GPUs is awaited."""
_STARTED_S: Final = 30.0
"""What else a start may take."""
_STEP_DIGITS: Final = 19


@dataclass(frozen=True, slots=True)
class InPlaceTerms:
    """When a command is started again within its job."""

    most: int
    """So often at most."""
    policy: RestartPolicy
    checkpoints: str
    """Where it saves them; empty: lastbeat does not know."""
    grace_s: float
    """Between SIGTERM and SIGKILL."""
    sections: SectionLimits
    stall_s: float | None
    launch: str
    """Of this job."""
    own: Participant
    """Which of several commands of this job it is."""

    @property
    def takes_s(self) -> float:
        """How long it may be from a hang to the next start, if all goes well."""
        return self.grace_s + KILLED_S + GPU_S + PAID_EACH_S + _STARTED_S

    @property
    def gather_s(self) -> float:
        """How long the others are awaited: they have to notice, and to end theirs."""
        return self.takes_s + 2 * PAID_EACH_S

    @property
    def node(self) -> str:
        """Who speaks, for people on other nodes."""
        host = os.uname().nodename
        return host if self.own.count == 1 else f"{host}, {self.own.number} of {self.own.count}"


@dataclass(frozen=True, slots=True)
class StartOrder:
    """One start of the command, as it was decided."""

    number: int = 0
    history: tuple[RestartEntry, ...] = ()
    resume_from: str | None = None
    resume_step: int | None = None

    @classmethod
    def first(cls, environ: Mapping[str, str]) -> "StartOrder":
        """With the checkpoint that whoever started this job has given it."""
        step = environ.get(RESUME_STEP, "")
        known = step.isascii() and step.isdigit() and len(step) < _STEP_DIGITS
        return cls(resume_from=environ.get(RESUME_FROM) or None, resume_step=int(step) if known else None)

    @classmethod
    def of(cls, starts: StartsInPlace) -> "StartOrder":
        """As the others know it, too."""
        return cls(starts.number, starts.restarts, starts.resume_from, starts.resume_step)

    def environment(self) -> dict[str, str | None]:
        """What training finds of it in its environment; None: nothing, whatever lastbeat itself was given. Empty of
        the first start, whose checkpoint is whoever's who gave it."""
        if not self.number:
            return {}
        step = None if self.resume_step is None else str(self.resume_step)
        return {RESUME_FROM: self.resume_from, RESUME_STEP: step}


@dataclass(frozen=True, slots=True)
class EndRuling:
    """What becomes of the run after a start has ended."""

    decision: RestartDecision
    end: JobEnd
    found: CheckpointSurvey | None = None


def rule(
    settings: Settings, terms: InPlaceTerms, order: StartOrder, ended: HowItEnded, stop_wanted: str | None
) -> EndRuling:
    """What the policy says after the start ``order``. ``stop_wanted``: who or what had asked training to end early.

    Reads the checkpoints, which may take as long as their store does. Raises :class:`StoreError` if the run's cannot
    be opened.
    """
    now = opening.bare_store(settings, training=True).clock()
    why = ends.explained(ended, catalogues.catalogue(settings[SIGNALS]))
    end = ends.job_end(ended, why, stop_wanted=stop_wanted)
    found = None
    if terms.checkpoints and end.asked_by is None:
        # What this start died on counts, too.
        kept_from = quarantined((*order.history, entry(end, now)))
        try:
            place = opening.place(settings, terms.checkpoints)
            found = survey(place, crashed_at=place.clock(), quarantined=kept_from, stop_at_first=True)
        except StoreError as fault:
            # Without them it would begin anew, beside what it has saved.
            decision = RestartDecision(restart=False, reason=f"its checkpoints cannot be looked at: {fault}")
            return EndRuling(decision, end)
        end = replace(end, checkpoint_step=found.newest_step)
    decision = ends.ruled(terms.policy, ended, end, order.history, now)
    return EndRuling(ends.within(decision, order.number, terms.most), end, found)


def next_starts(terms: InPlaceTerms, order: StartOrder, ended: HowItEnded, ruling: EndRuling) -> StartsInPlace:
    """The start after ``order``, which ``ended`` and is followed by another one."""
    resume_from, resume_step = ends.resumes(ruling.found, order.resume_from, order.resume_step)
    history = (*order.history, entry(ruling.end, datetime.now(timezone.utc)))[-KEPT:]
    why = ended.hang or ruling.decision.reason
    return StartsInPlace(terms.launch, order.number + 1, history, why, terms.node, resume_from, resume_step)


def common_pause_s(starts: StartsInPlace) -> float:
    """How long all commands of a job wait before ``starts``: whoever failed at once has said so."""
    last = starts.restarts[-1] if starts.restarts else None
    if last is None or last.first_step is not False:
        return 0.0
    end = JobEnd(last.mode, last.error_type, first_step=False)
    return ends.pause_s(starts.restarts[:-1], end, 0.0)
