"""Looks after a run's job: asks the launcher about it, and decides whether it is started again.

A restart goes through these steps, in one tick of the run's supervisor and in those after it:

1. Observe: :meth:`Supervisor.look` asks the launcher about the job.
2. Judge: ``decide.transition`` finds that the run has failed, or that its job has ended. ``decide.supervised_ends``
   waits up to a minute for the exit status of a job that is still ending.
3. Decide, once: :meth:`Supervisor.decide_restart`, when the cause is known.
4. Record: one conditional write keeps the decision, its alert, and the request for the restart.
5. Carry out: when its delay is over, one tick claims the restart. ``restarting.RestartExecutor`` asks whether it has
   already happened, makes sure that the old job is dead, and starts the new one under its own name.
6. Settle: a second write keeps the new job's id. The next look finds the new job, which is the next attempt.

A supervisor may die anywhere in between: the next one finds in the record how far the restart has got, and goes on.
"""

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from lastbeat.jobs.checkpoints.survey import survey
from lastbeat.jobs.launchers.port import Launcher, LauncherError
from lastbeat.jobs.restart_requests import NOT_RESTARTED, REQUEST_S
from lastbeat.jobs.supervision.job_log import BroughtLog, log_fault
from lastbeat.jobs.supervision.lease import SupervisorLease
from lastbeat.jobs.supervision.lingering import end_lingering
from lastbeat.jobs.supervision.pass_reports import PassReports
from lastbeat.jobs.supervision.reactions import Reactions
from lastbeat.jobs.supervision.restart_decisions import (
    NUMBER_IN_NAME,
    RestartTerms,
    add_late_alert,
    add_refusal_alert,
    add_restart_decision,
    asked_by,
    drop_obsolete_restart,
    drop_restart,
    excluded_checkpoints,
    is_superseded,
    job_beginning,
    job_end,
    next_restart,
    note_earlier_decision,
    pending_restart,
    present_job,
)
from lastbeat.jobs.supervision.restarting import CLOCKS, OLD_JOB, RestartExecutor, StopExecutor
from lastbeat.model.action import Action
from lastbeat.model.checkpoint import CheckpointSurvey, Quarantine
from lastbeat.model.job import JobMemory, JobReport, JobSight, JobState
from lastbeat.model.reaction import STOP_KIND
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND, RestartPolicy
from lastbeat.model.status import Status
from lastbeat.model.times import format_time
from lastbeat.stores.port import Store, StoreError
from lastbeat.watch.decide.jobs import idle_since
from lastbeat.watch.decide.quarantine import quarantined
from lastbeat.watch.decide.reactions import Occasion
from lastbeat.watch.decide.supervised_ends import job_ends_by
from lastbeat.watch.decide.transition import Decision
from lastbeat.watch.effects import actions
from lastbeat.watch.effects.actions import Executor

log = logging.getLogger(__name__)

OBEYS_S: Final = 900.0
"""Seconds that a run which beats may take to end after a request: it saves a checkpoint first."""
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
    lease: SupervisorLease | None = None
    """Shows other supervisors that this one looks after the run."""
    reactions: Reactions | None = None
    """What the policy's ``on:`` does; None: it has none."""
    reads_output: bool = False
    """No log was named, so the job's output is read, wherever the launcher says that it goes."""
    reports: PassReports | None = None
    """What the launcher said of all jobs of this pass, or None if nothing asks it for more than one."""
    starts: RestartExecutor | None = None
    """Starts the run's jobs; None: this supervisor only decides."""
    _said: tuple[str, JobState] | None = None

    def __post_init__(self) -> None:
        self._log = BroughtLog(self.run_id, self.store, self.launcher)

    @property
    def executors(self) -> tuple[Executor, ...]:
        """All that act for it: they start its jobs, end those that a person wants to end, and carry out what its
        policy's ``on:`` says."""
        starts = () if self.starts is None else (self.starts,)
        return (*starts, *(self.reactions.executors if self.reactions is not None else (StopExecutor(self.launcher),)))

    def look(self, record: Record | None, now: datetime) -> JobSight | None:
        """The present job with the launcher's report of it. Never raises."""
        memory = (
            None if record is None else self._find_started_job(record, now) or present_job(record, self.launcher.kind)
        )
        if memory is None:
            return None
        known = None if self.reports is None or record is None else self.reports.take(memory.id, record.written_at)
        report = known or self.launcher.state(memory.id)
        self._log_state(memory, report, record.job if record is not None else None)
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

    def _find_started_job(self, record: Record, now: datetime) -> JobMemory | None:
        """The newest job, if its supervisor died before it recorded the start: the claim would hide the job until it
        ends. What was written before this look may be the last job's."""
        starts = [each for each in record.actions if each.kind == RESTART_KIND]
        newest = starts[-1] if starts and not starts[-1].settled and starts[-1].claims > 0 else None
        named = NUMBER_IN_NAME.search(newest.name) if newest is not None else None
        if newest is None or named is None or (record.job is not None and record.job.name == newest.name):
            return None
        try:
            job = self.launcher.find(newest.name, newest.asked_at - CLOCKS)
        except LauncherError:
            # It is being started right now, or the launcher does not answer.
            return None
        return None if job is None else JobMemory(self.launcher.kind, job, newest.name, int(named[1]), now)

    def _log_state(self, memory: JobMemory, report: JobReport, known: JobMemory | None) -> None:
        before = self._said if self._said is not None and self._said[0] == memory.id else (memory.id, memory.state)
        if known is not None and known.id != memory.id and before is not self._said:
            log.info("%s: job %s → %s", self.run_id, known.id, memory.id)
        if before[1] is not report.state:
            begun = " (run_started)" if report.state is JobState.RUNNING else ""
            why = f": {report.reason}" if report.reason else ""
            log.info("%s: job %s: %s → %s%s%s", self.run_id, memory.id, before[1], report.state, begun, why)
        self._said = (memory.id, report.state)

    def decide_restart(self, decision: Decision, now: datetime) -> Decision:
        """``decision`` with the restart of a job that has ended, or why there is none; once for each job.

        1. The policy's ``on:`` comes first: it may stop the job, or ask for its restart.
        2. If the launcher does not answer, nothing is decided about the job: it may have ended well.
        3. A start that happened is settled, though its supervisor died over it. A claim on one that did not is freed.
        4. A restart that has not begun is dropped if the run lives again, ended well, or a person stopped it.
        5. A job that has ended gets its decision, and people hear of it.
        6. A restart that a person asks for is decided.
        7. A job that failed for good and still runs is ended, where the policy lets it.
        8. A job that a person wants to end is ended.
        9. A restart that ``on:`` asked for is decided about.
        10. The supervisor's lease is renewed, where that is due.
        """
        asked = None
        if self.reactions is not None:
            decision, asked = self.reactions.look(decision, now)
        sight = decision.seen.job
        if sight is not None and sight.report.state is not JobState.UNKNOWN:
            decision = _settle_start(decision, sight.memory, now)
            decision = self._free_abandoned_claim(decision, sight.memory.number, now)
            decision = drop_obsolete_restart(decision, sight.memory.number)
            decision = self._drop_if_stopped(decision, sight)
            decision = self._decide_about_end(decision, sight, now)
        decision = self._decide_on_request(decision, now)
        decision = end_lingering(decision, self.policy, now)
        decision = _end_on_request(decision, now)
        if asked is not None and self.reactions is not None:
            decision = self._decide_on_signal(decision, asked, self.reactions, now)
        record = decision.record if self.lease is None else self.lease.renew(decision.record, now)
        return decision if record is decision.record else replace(decision, record=record, must_write=True)

    def _decide_about_end(self, decision: Decision, sight: JobSight, now: datetime) -> Decision:
        """``decision`` with what follows from the end of a job.

        1. A run that lives has not ended.
        2. A job that was decided about before is not decided about again. People hear if its restart was refused, or
           if the policy's ``on:`` had decided before the end.
        3. Nothing is decided while the run goes on, if its next job is known, or while the exit status may still come.
        4. Gather how the job began and ended, who asked for that, and which checkpoints there are.
        5. Ask the policy. People hear what it says with the alert of the end, or by an alert of its own if another
           watcher has recorded the end.
        """
        number, status = sight.memory.number, decision.verdict.status
        if status is Status.RUNNING:
            return decision
        decision = add_refusal_alert(decision, number)
        if decision.record.ruling is not None and decision.record.ruling.number >= number:
            return note_earlier_decision(decision)
        ends_by = job_ends_by(decision)
        if not status.finished or is_superseded(decision.record, number) or (ends_by is not None and now < ends_by):
            return decision
        begun = job_beginning(decision, sight, now)
        try:
            by = asked_by(decision.record, self.store)
            found = self._survey(sight, excluded_checkpoints(decision.record, begun, now))
        except StoreError as error:
            # A later look knows more: nothing is decided on what could not be read.
            log.warning(
                "%s: whether job %s is restarted cannot be decided yet: %s", self.run_id, sight.memory.id, error
            )
            return decision
        end = job_end(decision, sight.memory, sight.report, found, by, begun)
        return add_late_alert(add_restart_decision(decision, sight.memory, end, self._terms(found), now))

    def _decide_on_request(self, decision: Decision, now: datetime) -> Decision:
        """``decision`` with the restart that a person asked for, once. The request lapses after an hour, or when the
        run has succeeded, was stopped or got another job."""
        record, sight = decision.record, decision.seen.job
        request = record.restart_request
        if request is None:
            return decision
        answered = replace(decision, record=replace(record, restart_request=None), must_write=True)
        lapsed = (now - request.at).total_seconds() > REQUEST_S or decision.verdict.status in NOT_RESTARTED
        if lapsed or (sight is not None and sight.memory.number != request.number):
            log.warning("%s: the restart that %s asked for is not made any more", self.run_id, request.by)
            return answered
        if sight is None or sight.report.state is JobState.UNKNOWN:
            return decision
        if is_superseded(record, request.number):
            return answered
        begun = job_beginning(decision, sight, now)
        ended = decision.verdict.status.finished
        try:
            kept_from = excluded_checkpoints(record, begun, now) if ended else quarantined(record.restarts)
            found = self._survey(sight, kept_from, policy=False)
        except StoreError as error:
            log.warning("%s: the restart that %s asked for waits: %s", self.run_id, request.by, error)
            return decision
        end = job_end(decision, sight.memory, sight.report, found, None, begun)
        after = add_restart_decision(answered, sight.memory, end, self._terms(found, request.by), now)
        ruling = after.record.ruling
        if ruling is None or ended:
            return after
        return replace(after, record=replace(after.record, ruling=replace(ruling, on=f"request of {request.by}")))

    def _drop_if_stopped(self, decision: Decision, sight: JobSight) -> Decision:
        """``decision`` without a restart that a signal asked for and that has not begun, if a person has ended the job
        since. A later look decides about that end."""
        ruling, waiting = decision.record.ruling, pending_restart(decision.record, sight.memory.number)
        cancelled = sight.report.state is JobState.CANCELLED and decision.verdict.status is Status.RUNNING
        if ruling is None or not ruling.on or waiting is None or not cancelled:
            return decision
        try:
            by = asked_by(decision.record, self.store)
        except StoreError as error:
            log.warning("%s: who ended job %s is not known yet: %s", self.run_id, sight.memory.id, error)
            by = None
        if by is None:
            return decision
        return replace(decision, record=drop_restart(decision.record, waiting), must_write=True)

    def _terms(self, found: CheckpointSurvey | None, wanted_by: str = "") -> RestartTerms:
        return RestartTerms(self.policy, self.delay_s, self.chance(), found, wanted_by)

    def _decide_on_signal(self, decision: Decision, asked: Occasion, reactions: Reactions, now: datetime) -> Decision:
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
        after = add_restart_decision(decision, sight.memory, end, self._terms(found), now)
        ruling = after.record.ruling
        if ruling is None or not ruling.restart:
            # The job goes on, and its end is decided about when it comes.
            after = replace(after, record=replace(after.record, ruling=decision.record.ruling))
        else:
            after = replace(after, record=replace(after.record, ruling=replace(ruling, on=asked.on)))
        return reactions.warned(
            replace(after, notes=(*after.notes, f"on {asked.on}: the policy was asked for a restart"))
        )

    def _free_abandoned_claim(self, decision: Decision, number: int, now: datetime) -> Decision:
        """``decision`` without the claim of a supervisor that died over the restart, if the run lives again and the
        launcher certainly knows no such job. Otherwise it would be carried out as soon as the claim is over."""
        status, action = decision.verdict.status, next_restart(decision.record, number)
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

    def _survey(
        self, sight: JobSight, kept_from: Mapping[str, Quarantine], *, policy: bool = True
    ) -> CheckpointSurvey | None:
        """The checkpoints; None if there are none, or ``policy`` is to use them and there is no policy."""
        if self.checkpoints is None or (policy and self.policy is None):
            return None
        ended_at = sight.report.ended_at if sight.report.state.ended else None
        return survey(self.checkpoints(), crashed_at=ended_at, quarantined=kept_from, stop_at_first=True)


def _end_on_request(decision: Decision, now: datetime) -> Decision:
    """``decision`` with the end of a job that a person wants to end, and who may not reach its launcher. A training
    that looks for such requests itself has time to do so."""
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


def _settle_start(decision: Decision, job: JobMemory, now: datetime) -> Decision:
    """``decision`` in which the start of ``job`` has happened, though its supervisor died before it recorded that."""
    started = actions.Performed(f"{job.id} {format_time(job.submitted_at)}")
    record = actions.settle(decision.record, {job.name: started}, "", now)
    return decision if record is decision.record else replace(decision, record=record, must_write=True)
