"""Decides restarts where nobody can ask the launcher: a sweep or a Lambda, which carry out none.

It rules only where the evidence says by itself that a job ended or hangs: a sentinel, a log that ends in a failure,
heartbeats or a log that were there and fell silent. Whoever can ask the launcher, a supervisor or an agent, rules again
before anything is done, with the launcher's word and the checkpoints.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lastbeat.checkpoints.survey import survey
from lastbeat.decide.quarantine import quarantined
from lastbeat.decide.transition import Decision
from lastbeat.model.checkpoint import CheckpointSurvey
from lastbeat.model.job import JobMemory, JobReport, JobState
from lastbeat.model.record import LimitName, Record
from lastbeat.model.restart import RESTART_KIND, Supervision
from lastbeat.model.status import Status
from lastbeat.restarts.compiling import policy_of
from lastbeat.stores.port import Store, StoreError
from lastbeat.supervision.agent_mark import agent_mark
from lastbeat.supervision.rulings import RulingTerms, asked_by, job_end, present_job, resumes, ruled

log = logging.getLogger(__name__)

_NOT_ASKED: Final = JobReport(JobState.UNKNOWN, reason="nobody here can ask the launcher")
_SILENCES: Final = frozenset({LimitName.STALE, LimitName.STALL, LimitName.INACTIVITY})


@dataclass(frozen=True)
class Onlooker:
    """Rules on the jobs of any supervised run of a fleet."""

    store: Store
    """The fleet root."""
    place: Callable[[str], Store | None]
    """Opens a place of checkpoints; None: it cannot be reached from here. Raises ``ValueError`` or
    :class:`StoreError`."""
    delay_s: float
    """Limit of the first delay."""
    chance: Callable[[], float]

    def rule(self, decision: Decision, supervision: Supervision, now: datetime) -> Decision:
        """``decision`` with what becomes of the job whose end it is about. Never raises for what the store does.

        1. Only with the transition that tells of the end, so that one alert tells both.
        2. Only where the evidence is of the present job, nobody has ruled on it, and nothing is being started.
        3. Only by a policy that this version understands wholly.
        4. Checkpoints are looked at where that is possible from here.
        """
        record, policy = decision.record, None
        job = _job_to_rule_on(decision, supervision)
        if supervision.compiled is not None:
            policy = policy_of(supervision.compiled)
        if job is None or policy is None:
            return decision
        try:
            by = asked_by(record, self.store)
            found, where = self._survey(supervision, record)
            mark = agent_mark(self.store, supervision.launcher)
        except StoreError as error:
            # Whoever can ask the launcher decides.
            log.warning("%s: whether job %s is restarted is not decided here: %s", record.run_id, job.id, error)
            return decision
        end = job_end(decision, job, _NOT_ASKED, found, by)
        if mark is None or not mark.stands(now):
            where += f", once an agent runs (none seen: lastbeat supervise --agent --launcher {supervision.launcher})"
        terms = RulingTerms(policy, supervision.policy_name, self.delay_s, self.chance(), found, where, afar=True)
        return ruled(decision, job, end, terms, now)

    def _survey(self, supervision: Supervision, record: Record) -> tuple[CheckpointSurvey | None, str]:
        """What can be seen of the checkpoints from here, and from where a restart goes on, in words."""
        if not supervision.checkpoints:
            return None, resumes(None)
        unseen = "from its last complete checkpoint"
        try:
            place = self.place(supervision.checkpoints)
            if place is None:
                return None, unseen
            found = survey(place, quarantined=quarantined(record.restarts), stop_at_first=True)
        except (StoreError, ValueError) as error:
            # It may well have no leave to read them.
            log.info("checkpoints in %s cannot be looked at from here: %s", supervision.checkpoints, error)
            return None, unseen
        return found, resumes(found)


def left_to_supervisor(decision: Decision, now: datetime) -> datetime | None:
    """Until when the end that ``decision`` found is left to the run's supervisor; None: nobody has the seat."""
    seat, transition = decision.record.seat, decision.transition
    if seat is None or seat.until is None or seat.until <= now or transition is None:
        return None
    return seat.until if transition.after.finished else None


def _job_to_rule_on(decision: Decision, supervision: Supervision) -> JobMemory | None:
    """The job whose end this decision is about; None: nothing is to be ruled here."""
    record, verdict = decision.record, decision.verdict
    if decision.transition is None or not decision.transition.after.finished or not _speaks(decision):
        return None
    job = present_job(record, supervision.launcher)
    if job is None or job.state.ended or record.attempt.job != job.key:
        # Who has asked the launcher of its end rules on it; nobody here knows whose evidence that of a newer job is.
        return None
    if any(each.kind == RESTART_KIND and not each.settled for each in record.actions):
        return None
    ruled_on = record.ruling is not None and record.ruling.number >= job.number
    return None if ruled_on or verdict.status is Status.SUCCEEDED else job


def _speaks(decision: Decision) -> bool:
    """Whether the evidence says by itself that the job ended or hangs."""
    verdict = decision.verdict
    if verdict.by_sentinel or verdict.by_log:
        return True
    limit = verdict.exceeded.name if verdict.exceeded is not None else None
    return verdict.status is Status.TIMED_OUT and limit in _SILENCES and _lived(decision.record)


def _lived(record: Record) -> bool:
    """Whether this attempt has shown any life: a job in the queue is silent, too."""
    begun_at = record.attempt.begun_at
    beats = [memory.alive_at or memory.modified for memory in (record.metadata, record.progress, record.log) if memory]
    return any(begun_at is None or at >= begun_at.replace(microsecond=0) for at in beats)
