"""Looks after a run's job during a tick: what the launcher says of it, and what becomes of it when it has ended."""

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.checkpoints.survey import survey
from lastbeat.decide.job_conditions import idle_since
from lastbeat.decide.jobs import STANDSTILL_S
from lastbeat.decide.quarantine import quarantined
from lastbeat.decide.reactions import Occasion
from lastbeat.decide.transition import Decision
from lastbeat.effects import actions
from lastbeat.effects.executor import Executor
from lastbeat.launchers.port import Launcher, LauncherError
from lastbeat.model.action import Action
from lastbeat.model.checkpoint import CheckpointSurvey, Quarantine
from lastbeat.model.job import JobMemory, JobReport, JobSight, JobState
from lastbeat.model.reaction import STOP_KIND
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND, RestartPolicy
from lastbeat.model.status import Status
from lastbeat.model.times import format_time
from lastbeat.stores.port import Store, StoreError
from lastbeat.supervision.job_log import BroughtLog, log_fault
from lastbeat.supervision.lingering import end_lingering
from lastbeat.supervision.reactions import Reactions
from lastbeat.supervision.restarting import CLOCKS, OLD_JOB, RestartExecutor
from lastbeat.supervision.rulings import (
    NUMBER_IN_NAME,
    RulingTerms,
    asked_by,
    followed,
    follower,
    foretold,
    how_begun,
    job_end,
    not_these,
    present_job,
    refused,
    resumes,
    ruled,
    told_late,
    told_of,
    waits,
    withdrawn,
    without,
)
from lastbeat.supervision.seat import Seat
from lastbeat.supervision.stopping import StopExecutor

log = logging.getLogger(__name__)

OBEYS_S: Final = 900.0
"""So long a training that beats may take to end as it was asked to: it saves a checkpoint first."""
_OUTPUTS: Final = 4
"""Files of one job's output that are remembered."""


@dataclass
class Supervisor:
    """One supervised run."""

    run_id: str
    store: Store
    """The fleet root."""
    launcher: Launcher
    policy: RestartPolicy | None
    checkpoints: Callable[[], Store] | None
    """Opens the place of the checkpoints; None: there is none."""
    delay_s: float
    """Limit of the first delay."""
    chance: Callable[[], float] = random.random
    seat: Seat | None = None
    """What shows others that somebody looks after the run."""
    reactions: Reactions | None = None
    """What the policy's ``on:`` does; None: it has none."""
    reads_output: bool = False
    """Nobody said where the job's log is: its output is read, wherever the launcher says that it goes."""
    _said: tuple[str, JobState] | None = None

    def __post_init__(self) -> None:
        self._log = BroughtLog(self.run_id, self.store, self.launcher)

    def look(self, record: Record | None, now: datetime) -> JobSight | None:
        """The present job, as the launcher tells of it. Never raises."""
        memory = None if record is None else self._started(record, now) or present_job(record, self.launcher.kind)
        if memory is None:
            return None
        report = self.launcher.state(memory.id)
        self._tell(memory, report, record.job if record is not None else None)
        if report.state is JobState.UNKNOWN:
            return JobSight(memory, report)
        changed = (memory.state, memory.restarts) != (report.state, report.restarts) or memory.seen_at is None
        seen = replace(
            memory,
            state=report.state,
            said=report.said,
            reason=report.reason,
            nodes=report.nodes[:64] or memory.nodes,
            restarts=report.restarts,
            outputs=report.outputs[:_OUTPUTS] or memory.outputs,
            seen_at=now if changed else memory.seen_at,
            idle_since=idle_since(None if changed else memory.idle_since, report, now),
        )
        fault = self._log.bring(memory, report) or log_fault(report.outputs)
        fault = fault if report.state is JobState.RUNNING else ""
        return JobSight(seen, report, fault, report.outputs if self.reads_output else ())

    def _started(self, record: Record, now: datetime) -> JobMemory | None:
        """The newest job, where whoever started it died before that was recorded: its claim would hide the job until it
        ends. What was written before this look may be the last job's."""
        starts = [each for each in record.actions if each.kind == RESTART_KIND]
        newest = starts[-1] if starts and not starts[-1].settled and starts[-1].claims > 0 else None
        named = NUMBER_IN_NAME.search(newest.name) if newest is not None else None
        if newest is None or named is None or (record.job is not None and record.job.name == newest.name):
            return None
        try:
            job = self.launcher.find(newest.name, newest.asked_at - CLOCKS)
        except LauncherError:
            # It is being started right now, or nobody answers.
            return None
        return None if job is None else JobMemory(self.launcher.kind, job, newest.name, int(named[1]), now)

    def _tell(self, memory: JobMemory, report: JobReport, known: JobMemory | None) -> None:
        before = self._said if self._said is not None and self._said[0] == memory.id else (memory.id, memory.state)
        if known is not None and known.id != memory.id and before is not self._said:
            log.info("%s: job %s → %s", self.run_id, known.id, memory.id)
        if before[1] is not report.state:
            begun = " (run_started)" if report.state is JobState.RUNNING else ""
            why = f": {report.reason}" if report.reason else ""
            log.info("%s: job %s: %s → %s%s%s", self.run_id, memory.id, before[1], report.state, begun, why)
        self._said = (memory.id, report.state)

    def leaves(self, decision: Decision, now: datetime) -> datetime | None:
        """Until when a failure or a preemption that training told of is left to a later look, for the job still
        runs: its exit status may decide what becomes of it. None: it is not."""
        sight, said, transition = decision.seen.job, decision.seen.end, decision.transition
        if sight is None or said is None or transition is None or self.policy is None:
            return None
        ends_early = transition.after in {Status.FAILED, Status.PREEMPTED}
        if not ends_early or sight.report.state is not JobState.RUNNING:
            return None
        until = said.modified + timedelta(seconds=STANDSTILL_S)
        return until if now < until else None

    def rule(self, decision: Decision, now: datetime) -> Decision:
        """``decision`` with the restart of a job that has ended, or why there is none; once for each job. The seat is
        renewed with it where that is due.

        1. The policy's ``on:`` comes first: it may stop the job, or ask for its restart.
        2. While the launcher does not answer: nothing else. A start of which it tells is settled, whoever died over it.
        3. The ruling is withdrawn where the run lives again, or has ended well.
        4. A restart that was refused is told.
        5. A job without a ruling gets one.
        6. A job that failed for good and still runs is ended, where the policy lets it.
        """
        asked = None
        if self.reactions is not None:
            decision, asked = self.reactions.look(decision, now)
        decision = end_lingering(self._ruled_on(decision, now), self.policy, now)
        decision = _stopped_on_request(decision, now)
        if asked is not None and self.reactions is not None:
            decision = self._asked_for(decision, asked, self.reactions, now)
        record = decision.record if self.seat is None else self.seat.renewed(decision.record, now)
        return decision if record is decision.record else replace(decision, record=record, must_write=True)

    def _ruled_on(self, decision: Decision, now: datetime) -> Decision:
        sight, status = decision.seen.job, decision.verdict.status
        if sight is None or sight.report.state is JobState.UNKNOWN:
            # Silence while nobody can ask says nothing of the job: it may have ended well.
            return decision
        number = sight.memory.number
        decision = withdrawn(self._abandoned(_begun(decision, sight.memory, now), number, now), number)
        if status is Status.RUNNING:
            return self._stopped_meanwhile(decision, sight)
        never = refused(decision.record, number)
        if never is not None:
            return told_of(decision, never)
        if decision.record.ruling is not None and decision.record.ruling.number >= number:
            return foretold(decision)
        if not status.finished or followed(decision.record, number):
            return decision
        begun = how_begun(decision, sight, now)
        try:
            by = asked_by(decision.record, self.store)
            found = self._survey(sight, not_these(decision.record, begun, now))
        except StoreError as error:
            # A later look knows more: nothing is decided on what could not be read.
            log.warning(
                "%s: whether job %s is restarted cannot be decided yet: %s", self.run_id, sight.memory.id, error
            )
            return decision
        end = job_end(decision, sight.memory, sight.report, found, by, begun)
        return told_late(ruled(decision, sight.memory, end, self._terms(found), now))

    def _stopped_meanwhile(self, decision: Decision, sight: JobSight) -> Decision:
        """``decision`` without a restart that a signal asked for and that nobody has begun, if a person has ended the
        job since. A later look rules on that end."""
        ruling, waiting = decision.record.ruling, waits(decision.record, sight.memory.number)
        if ruling is None or not ruling.on or waiting is None or sight.report.state is not JobState.CANCELLED:
            return decision
        try:
            by = asked_by(decision.record, self.store)
        except StoreError as error:
            log.warning("%s: who ended job %s is not known yet: %s", self.run_id, sight.memory.id, error)
            by = None
        if by is None:
            return decision
        return replace(decision, record=without(decision.record, waiting), must_write=True)

    def _terms(self, found: CheckpointSurvey | None) -> RulingTerms:
        name = self.policy.name if self.policy is not None else "no policy"
        return RulingTerms(self.policy, name, self.delay_s, self.chance(), found, resumes(found))

    def _asked_for(self, decision: Decision, asked: Occasion, reactions: Reactions, now: datetime) -> Decision:
        """``decision`` with the restart of a job that lives, if the policy allows it; people hear of either."""
        sight = decision.seen.job
        if sight is None or (
            decision.record.ruling is not None and decision.record.ruling.number >= sight.memory.number
        ):
            return decision
        try:
            by = asked_by(decision.record, self.store)
            found = self._survey(sight, quarantined(decision.record.restarts))
        except StoreError as error:
            log.warning("%s: on %s: whether it is restarted cannot be decided: %s", self.run_id, asked.on, error)
            note = f"on {asked.on}: it was not decided whether it is restarted: {error}"
            return reactions.warned(replace(decision, notes=(*decision.notes, note)))
        end = reactions.end(asked, job_end(decision, sight.memory, sight.report, found, by))
        after = ruled(decision, sight.memory, end, self._terms(found), now)
        ruling = after.record.ruling
        if ruling is None or not ruling.restart:
            # The job goes on, and its end is decided about when it comes.
            after = replace(after, record=replace(after.record, ruling=decision.record.ruling))
        else:
            after = replace(after, record=replace(after.record, ruling=replace(ruling, on=asked.on)))
        return reactions.warned(
            replace(after, notes=(*after.notes, f"on {asked.on}: the policy was asked for a restart"))
        )

    def _abandoned(self, decision: Decision, number: int, now: datetime) -> Decision:
        """``decision`` without the claim of somebody who died over the restart, if the run lives again and the launcher
        certainly knows no such job. Otherwise it would be carried out as soon as the claim is over."""
        status, action = decision.verdict.status, follower(decision.record, number)
        if action is None or action.settled or action.begun or status not in {Status.RUNNING, Status.SUCCEEDED}:
            return decision
        doubtful = action.in_doubt or action.claimed_by is not None
        if not doubtful or (action.claimed_until is not None and action.claimed_until > now):
            return decision
        try:
            if self.launcher.find(action.name, action.asked_at - CLOCKS) is not None:
                return decision
        except LauncherError:
            return decision
        free = replace(action, claimed_by=None, claimed_until=None, in_doubt=False)
        actions = tuple(free if each is action else each for each in decision.record.actions)
        return replace(decision, record=replace(decision.record, actions=actions))

    def _survey(self, sight: JobSight, kept_from: Mapping[str, Quarantine]) -> CheckpointSurvey | None:
        if self.checkpoints is None or self.policy is None:
            return None
        ended_at = sight.report.ended_at if sight.report.state.ended else None
        return survey(self.checkpoints(), crashed_at=ended_at, quarantined=kept_from, stop_at_first=True)


def _stopped_on_request(decision: Decision, now: datetime) -> Decision:
    """``decision`` with the end of a job that a person wants to end, and who may not reach its launcher. A training
    that looks for such requests itself has time to do as it was told."""
    record, sight, asked = decision.record, decision.seen.job, decision.seen.stop
    if sight is None or asked is None or sight.report.state not in {JobState.PENDING, JobState.RUNNING}:
        return decision
    job = sight.memory
    if record.metadata is not None and (
        asked.request.after_checkpoint or (now - asked.modified).total_seconds() < OBEYS_S
    ):
        return decision
    name = f"stop-{job.name}" + (f"-{job.restarts}" if job.restarts else "")
    if any(each.name == name for each in record.actions):
        return decision
    log.info("%s: job %s is being ended: %s asked for that", record.run_id, job.id, asked.request.by)
    details = {OLD_JOB: job.id}
    stop = Action(name, STOP_KIND, now, asked.request.by, "lastbeat stop", record.attempt.number, details)
    return replace(decision, effects=(*decision.effects, stop), must_write=True)


def _begun(decision: Decision, job: JobMemory, now: datetime) -> Decision:
    """``decision`` in which the start of ``job`` has happened, though whoever carried it out did not live to tell."""
    started = actions.Performed(f"{job.id} {format_time(job.submitted_at)}")
    record = actions.settle(decision.record, {job.name: started}, "", now)
    return decision if record is decision.record else replace(decision, record=record, must_write=True)


@dataclass(frozen=True, slots=True)
class SupervisedRun:
    """A run, and what looks after its jobs."""

    run_id: str
    store: Store
    supervisor: Supervisor
    executor: RestartExecutor

    @property
    def executors(self) -> tuple[Executor, ...]:
        """All that act for it: they start its jobs, end those that a person wants to end, and carry out what its
        policy's ``on:`` says."""
        reactions = self.supervisor.reactions
        stop = StopExecutor(self.supervisor.launcher)
        return (self.executor, *(reactions.executors if reactions is not None else (stop,)))
