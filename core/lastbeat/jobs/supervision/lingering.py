"""Ends a job that failed for good and still runs: it would keep its nodes for nothing.

a look                                     the next look of any supervisor
──────                                     ───────────────────────────────
ruling "not restarted": the alert says     sees the same record, and the same grace period
  when the job will be ended
grace period over: the action "end-JOB"    finds the action; training got on meanwhile: withdraws it
claim; cancel; look until it is dead       claims it once the claim is over; asking twice does no harm
dead: the ruling and an alert say so       finds the job dead, and the action in the record: says so
"""

import logging
from dataclasses import replace
from datetime import datetime

from lastbeat.jobs.supervision.restart_decisions import add_alert
from lastbeat.jobs.supervision.restarting import FAILED, OLD_JOB, TOLD
from lastbeat.model.action import Action
from lastbeat.model.job import JobSight
from lastbeat.model.reaction import STOP_KIND
from lastbeat.model.restart import RestartPolicy
from lastbeat.model.status import UNWELL, Status
from lastbeat.model.times import format_duration
from lastbeat.watch.decide.jobs import ending_name
from lastbeat.watch.decide.lingering import grace_s, lingers, may_end_at
from lastbeat.watch.decide.transition import Decision

log = logging.getLogger(__name__)


def end_lingering(decision: Decision, policy: RestartPolicy | None, now: datetime) -> Decision:
    """``decision`` with the end of a job that failed for good and still runs, and with what people hear of that.

    1. Without a policy, or where it says ``on_permanent: leave``, the job runs on.
    2. Once the job has shown nothing for its grace period, its end is wanted.
    3. Until the launcher is asked for that end, a new line withdraws it; a new step does so at any time.
    4. Once the job is dead, the record says so, and an alert does unless an earlier one has.
    """
    sight = decision.seen.job
    if sight is None or policy is None:
        return decision
    ending = next((each for each in decision.record.actions if each.name == ending_name(sight.memory)), None)
    if ending is not None and sight.report.state.ended:
        return _ended(decision, sight, ending)
    failed = lingers(decision, policy)
    at = may_end_at(decision) if failed and policy.on_permanent == "end" else None
    wanted = at is not None and at <= now
    if ending is not None:
        return decision if wanted else _withdrawn(decision, ending, now)
    if not failed:
        return decision
    job, quiet = (
        f"job {sight.memory.id} still runs",
        f"{format_duration(grace_s(decision))} without a step or a log line",
    )
    if policy.on_permanent == "leave":
        return _with_note(decision, f"{job}, and is left running (on_permanent: leave)")
    if not wanted:
        return _with_note(decision, f"{job}, and is ended after {quiet}")
    why = "it did not end by itself" if decision.verdict.by_sentinel else quiet
    log.info("%s: %s although it failed for good (%s): it is being ended", decision.record.run_id, job, why)
    # The alert of this look says that the job is being ended, so its end needs no alert.
    tells = {TOLD: "yes"} if decision.restart_note is not None and decision.events else {}
    details = {OLD_JOB: sight.memory.id, FAILED: "yes", **tells}
    number = decision.record.attempt.number
    action = Action(ending_name(sight.memory), STOP_KIND, now, policy.name, why, number, details)
    return _with_note(replace(decision, effects=(*decision.effects, action)), f"{job}, and is being ended: {why}")


def _ended(decision: Decision, sight: JobSight, ending: Action) -> Decision:
    """``decision``, in which the job is dead; with an alert, unless an earlier one told that it would be ended."""
    ruling = decision.record.ruling
    if ruling is None or ruling.restart or ruling.number != sight.memory.number:
        return decision
    asked = ending.begun or ending.in_doubt or ending.claimed_by is not None
    text = f"job {sight.memory.id} was ended: {ending.why}" if asked else ""
    if ruling.job == text:
        return decision
    log.info("%s: job %s has ended (%s)", decision.record.run_id, sight.memory.id, ending.why)
    decision = _with_note(decision, text)
    if TOLD in ending.details or not asked or decision.verdict.status not in UNWELL:
        return decision
    return add_alert(replace(decision, restart_note=f"not restarted: {ruling.reason}; {text}"))


def _withdrawn(decision: Decision, ending: Action, now: datetime) -> Decision:
    """``decision`` without the end of a job that may have got over its failure. Where the launcher was asked for that
    end, only training that gets on takes it back: a program prints lines while it ends."""
    claimed = ending.claimed_until is not None and ending.claimed_until > now
    gets_on = decision.verdict.status in {Status.RUNNING, Status.SUCCEEDED}
    if ending.settled or claimed or (ending.begun and not gets_on):
        return decision
    log.info("%s: %s is withdrawn: its job may have got over the failure", decision.record.run_id, ending.name)
    actions = tuple(each for each in decision.record.actions if each is not ending)
    return replace(decision, record=replace(decision.record, actions=actions), must_write=True)


def _with_note(decision: Decision, text: str) -> Decision:
    """``decision`` with ``text`` about the job in its ruling, and in its alert if that tells the ruling."""
    ruling, note = decision.record.ruling, decision.restart_note
    if ruling is None or ruling.job == text:
        return decision
    record = replace(decision.record, ruling=replace(ruling, job=text))
    note = note if note is None or not text else f"{note}; {text}"
    return replace(decision, record=record, restart_note=note, must_write=True)
