"""Adds a restart decision to a tick's decision, and drops it when new evidence contradicts it."""

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.explain.signals.error_types import CANCELLED, HANG, TIMEOUT, UNKNOWN
from lastbeat.jobs.supervision.restarting import (
    EXCLUDED_NODES,
    NUMBER,
    OLD_JOB,
    job_name,
)
from lastbeat.model import runid
from lastbeat.model.action import Action, Notify
from lastbeat.model.checkpoint import CheckpointSurvey, Completeness, Quarantine
from lastbeat.model.job import JobMemory, JobReport, JobSight, JobState
from lastbeat.model.record import Record
from lastbeat.model.restart import (
    BEGUN,
    RESTART_KIND,
    RESUME_FROM,
    RESUME_STEP,
    FoundCheckpoint,
    JobEnd,
    Mode,
    RestartDecision,
    RestartEntry,
    RestartPolicy,
    RestartRuling,
)
from lastbeat.model.status import Event, Status
from lastbeat.model.stop_request import read_request
from lastbeat.model.text import one_line
from lastbeat.model.times import parse_time
from lastbeat.stores.port import Store
from lastbeat.watch.decide.conditions.nodes import broken_hosts
from lastbeat.watch.decide.quarantine import first_step, quarantined
from lastbeat.watch.decide.restart import cause_key, decide_restart, entry
from lastbeat.watch.decide.transition import Decision

log = logging.getLogger(__name__)

KEPT_RESTARTS: Final = 100
NUMBER_IN_NAME: Final = re.compile(r"-r(\d{1,9})$")
_SLOW_NODES: Final = 8
"""Nodes with slow ranks that are kept, at most."""
_BY_HAND: Final = "Ctrl-C at its own terminal"


@dataclass(frozen=True, slots=True)
class JobBeginning:
    """How a job began."""

    resumed_from: str | None = None
    """The checkpoint that it was given."""
    first_step: bool | None = None
    """Whether it got to a step of its own. None: not known, or it was ended by others."""


@dataclass(frozen=True, slots=True)
class RestartTerms:
    """What a decision about a restart rests on."""

    policy: RestartPolicy | None
    delay_s: float
    """Limit of the first delay."""
    chance: float
    found: CheckpointSurvey | None
    """The checkpoints, if there are any and they could be read."""
    wanted_by: str = ""
    """The person who wants the restart, whatever the policy says; empty: the policy decides."""

    @property
    def policy_name(self) -> str:
        return self.policy.name if self.policy is not None else "no policy"


def present_job(record: Record, kind: str) -> JobMemory | None:
    """The run's newest job: of what the record knows, or as the last restart that was carried out made it."""
    memory = record.job
    for action in record.actions:
        found = NUMBER_IN_NAME.search(action.name)
        if action.kind != RESTART_KIND or action.done_at is None or action.result is None or found is None:
            continue
        number = int(found[1])
        if memory is None or number > memory.number:
            job, _, at = action.result.partition(" ")
            memory = JobMemory(kind, job, action.name, number, parse_time(at) or action.done_at)
    return memory


def just_started(record: Record) -> bool:
    """Whether a job has been started, and no look has shown it yet."""
    starts = [action for action in record.actions if action.kind == RESTART_KIND]
    if not starts or starts[-1].done_at is None:
        return False
    return record.job is None or record.job.name != starts[-1].name


def asked_by(record: Record, store: Store) -> str | None:
    """The person who asked for the run's end, or None if no person did. Raises :class:`StoreError`."""
    if record.stopped_by is not None:
        return record.stopped_by
    if record.status is Status.CANCELLED:
        return _BY_HAND
    blob = store.read(f"{record.run_id}/{runid.STOP}", runid.STOP_LIMIT_BYTES)
    request = read_request(blob.body) if blob is not None else None
    attempt = record.attempt
    if blob is None or request is None:
        return None
    if attempt.begun_at is not None and blob.modified < attempt.begun_at.replace(microsecond=0):
        return None
    return request.by


def add_restart_decision(
    decision: Decision, job: JobMemory, end: JobEnd, terms: RestartTerms, now: datetime
) -> Decision:
    """``decision`` with the restart of ``job``, which ended as ``end`` says, or why there is none."""
    restart = decide_restart(
        terms.policy, end, decision.record.restarts, now, delay_s=terms.delay_s, chance=terms.chance
    )
    if terms.wanted_by:
        restart = replace(restart, restart=True, reason=f"asked for by {terms.wanted_by}", delay_s=0.0)
    chosen = terms.found.chosen if terms.found is not None and restart.restart else None
    ruling = RestartRuling(
        job.number,
        restart.restart,
        restart.reason,
        now,
        restart.attempt,
        chosen.url if chosen is not None else None,
        chosen.step if chosen is not None else None,
        passed_over=_passed_over(terms.found) if restart.restart else "",
    )
    record = replace(decision.record, ruling=ruling, checkpoint=_checkpoint(terms.found, decision.record, now))
    budgets = ", ".join(map(str, restart.budgets))
    what = "restart" if restart.restart else "stop"
    log.info("%s: %s: %s (%s; budgets: %s)", record.run_id, what, restart.reason, terms.policy_name, budgets or "none")
    if not restart.restart:
        silent = end.mode is Mode.SUCCESS or terms.policy is None
        note = None if silent else f"not restarted: {restart.reason}"
        return replace(decision, record=record, restart_note=note, must_write=True)
    record = replace(record, restarts=(*record.restarts, entry(end, now))[-KEPT_RESTARTS:])
    action = _action(record, job, restart, terms, now, unknown=not _short(end.suspect_nodes) <= _short(job.nodes))
    attempt = f"attempt {restart.attempt}, " if restart.attempt else ""
    note = f"restarting, {attempt}{_describe_resume(terms.found)}"
    effects = (*decision.effects, action)
    return replace(decision, record=record, effects=effects, restart_note=note, must_write=True)


def _checkpoint(found: CheckpointSurvey | None, record: Record, now: datetime) -> FoundCheckpoint | None:
    """The last complete checkpoint: the one that a survey found, or that was known where it saw only a part."""
    if found is None or (found.chosen is None and found.newest_step is None):
        return record.checkpoint
    chosen = found.chosen
    return None if chosen is None else FoundCheckpoint(chosen.url, chosen.step, chosen.saved_at, now)


def _short(hosts: Iterable[str]) -> set[str]:
    return {each.partition(".")[0] for each in hosts}


def _action(
    record: Record, old: JobMemory, restart: RestartDecision, terms: RestartTerms, now: datetime, *, unknown: bool
) -> Action:
    """``unknown``: training calls the nodes in doubt otherwise than the launcher does, as in a pod."""
    nodes = {*restart.excluded_nodes, *(old.nodes if restart.other_hardware or unknown else ())}
    chosen = terms.found.chosen if terms.found is not None else None
    details = {
        NUMBER: str(old.number + 1),
        OLD_JOB: old.id,
        RESUME_FROM: chosen.url if chosen is not None else "",
        RESUME_STEP: str(chosen.step) if chosen is not None and chosen.step is not None else "",
        EXCLUDED_NODES: ",".join(sorted(nodes)),
    }
    return Action(
        job_name(record.run_id, old.number + 1),
        RESTART_KIND,
        now,
        terms.policy_name,
        restart.reason,
        record.attempt.number,
        {name: text for name, text in details.items() if text},
        now + timedelta(seconds=restart.delay_s) if restart.delay_s > 0 else None,
    )


def add_refusal_alert(decision: Decision, number: int) -> Decision:
    """``decision`` with an alert that the restart of that job was refused, once, if an alert had announced it."""
    record, ruling = decision.record, decision.record.ruling
    if ruling is None or not ruling.restart or ruling.number != number:
        return decision
    following = (each for each in record.actions if each.kind == RESTART_KIND and _follows(each, number))
    never = next((each for each in following if each.failed is not None), None)
    if never is None:
        return decision
    why = f"it could not be restarted: {never.failed}"
    after = replace(record, ruling=replace(ruling, restart=False, reason=why))
    return add_alert(replace(decision, record=after, restart_note=f"not restarted: {why}", must_write=True))


def note_earlier_decision(decision: Decision) -> Decision:
    """``decision``, whose alert says what a reaction of the policy had decided about the job before it ended."""
    ruling = decision.record.ruling
    ended_well = decision.verdict.status is Status.SUCCEEDED
    if ruling is None or not ruling.on or not decision.events or ended_well or decision.restart_note is not None:
        return decision
    what = f"restarting, attempt {ruling.attempt}" if ruling.restart else "not restarted"
    return replace(decision, restart_note=f"{what}: {ruling.reason}")


def add_alert(decision: Decision) -> Decision:
    """``decision`` with an alert of its status, which tells its note on the restart."""
    event = Event(decision.verdict.status.value)
    return decision if event in decision.events else replace(decision, effects=(*decision.effects, Notify(event)))


def add_late_alert(decision: Decision) -> Decision:
    """``decision`` with an alert of its own, if the alert of the end lacked it: a watcher that could not ask the
    launcher recorded the end, or the checkpoints could not be read then."""
    heard = decision.transition is None and decision.verdict.status in {Status.FAILED, Status.TIMED_OUT}
    return add_alert(decision) if heard and decision.restart_note is not None else decision


def drop_obsolete_restart(decision: Decision, number: int) -> Decision:
    """``decision`` without the ruling on a job if the run recovered, succeeded or was stopped by a person since. A
    restart that has begun stays."""
    record, status = decision.record, decision.verdict.status
    ruling = record.ruling
    if ruling is None or ruling.number != number or (ruling.on and status is Status.RUNNING):
        return decision
    if not ruling.restart:
        if status is not Status.RUNNING:
            return decision
        return replace(decision, record=replace(record, ruling=None), must_write=True)
    ended_well = status is Status.SUCCEEDED and record.restarts and record.restarts[-1].mode is not Mode.SUCCESS
    if status not in {Status.RUNNING, Status.CANCELLED} and not ended_well:
        return decision
    waiting = pending_restart(record, number)
    if waiting is None and ended_well and decision.verdict.by_sentinel:
        # Its old job was asked to end, and training was just done.
        begun = next_restart(record, number)
        waiting = (
            begun if begun is not None and begun.begun and begun.claimed_by is None and not begun.settled else None
        )
    if waiting is None:
        return decision
    log.info("%s: %s is withdrawn: the run is %s now", record.run_id, waiting.name, status)
    return replace(decision, record=drop_restart(record, waiting), must_write=True)


def is_superseded(record: Record, number: int) -> bool:
    """Whether the run was begun again after the job of that number, or its next job is wanted: then nothing about that
    job is left to decide."""
    for each in record.actions:
        found = NUMBER_IN_NAME.search(each.name) if each.kind == RESTART_KIND else None
        if found is not None and int(found[1]) > number and (each.failed is None or BEGUN in each.details):
            return True
    return False


def pending_restart(record: Record, number: int) -> Action | None:
    """The restart that follows the job of that number, if it has not begun."""
    found = next_restart(record, number)
    return found if found is not None and found.untouched else None


def next_restart(record: Record, number: int) -> Action | None:
    """The newest restart that follows the job of that number."""
    following = (each for each in reversed(record.actions) if each.kind == RESTART_KIND and _follows(each, number))
    return next(following, None)


def drop_restart(record: Record, waiting: Action) -> Record:
    """``record`` without a restart that has not begun, and without the ruling that led to it."""
    # Its name is free again: the next restart of this job has the same one.
    actions = tuple(each for each in record.actions if each is not waiting)
    return replace(record, actions=actions, ruling=None, restarts=record.restarts[:-1])


def _follows(action: Action, number: int) -> bool:
    return action.details.get(NUMBER) == str(number + 1)


def job_beginning(decision: Decision, sight: JobSight, now: datetime) -> JobBeginning:
    """From which checkpoint the job that has ended was to go on, and whether it did."""
    record = decision.record
    given = next((each.details for each in record.actions if each.name == sight.memory.name), {})
    text = given.get(RESUME_STEP, "")
    step = int(text) if re.fullmatch(r"\d{1,18}", text, re.ASCII) else None
    stepped = first_step(decision.seen, sight, step, record.restarts, now)
    if decision.verdict.status is Status.PREEMPTED and not stepped:
        # It was ended by others before it could make one.
        stepped = None
    return JobBeginning(given.get(RESUME_FROM), stepped)


def excluded_checkpoints(record: Record, begun: JobBeginning, now: datetime) -> dict[str, Quarantine]:
    """The checkpoints in quarantine if the job that began as ``begun`` says counts as crashed."""
    ended = RestartEntry(now, Mode.CRASH, UNKNOWN, resumed_from=begun.resumed_from, first_step=begun.first_step)
    return quarantined((*record.restarts, ended))


def job_end(
    decision: Decision,
    job: JobMemory,
    report: JobReport,
    found: CheckpointSurvey | None,
    by: str | None,
    begun: JobBeginning = JobBeginning(),
) -> JobEnd:
    """How the job ended, as a policy has it. ``by``: the person who asked for that."""
    verdict = decision.verdict
    cause = verdict.explained.cause if verdict.explained is not None else None
    second = verdict.explained.second if verdict.explained is not None else None
    mode = _mode(verdict.status, report)
    error_type = cause.error_type if cause is not None else verdict.cause
    if error_type is None or (error_type == UNKNOWN and mode is not Mode.CRASH):
        error_type = {Mode.STALL: HANG, Mode.TIMEOUT: TIMEOUT, Mode.PREEMPTED: CANCELLED}.get(mode, UNKNOWN)
    step = decision.seen.knows_step
    metadata = decision.seen.metadata
    rerun = metadata.rerun if metadata is not None and mode is Mode.CRASH else None
    node = report.failed_node or (cause.evidence.host if cause is not None else None)
    return JobEnd(
        mode,
        error_type,
        cause.subsystem if cause is not None else launcher_traits(job.launcher).subsystem,
        cause.signal if cause is not None else None,
        cause.confidence if cause is not None else 1.0,
        second.error_type if second is not None else None,
        by_scheduler=cause is None and report.state.ended,
        cause_key=cause_key(error_type, cause.evidence.text) if cause is not None else error_type,
        step=step.step if step is not None else None,
        checkpoint_step=found.newest_step if found is not None else None,
        # No node is to blame for a preemption.
        node=None if mode is Mode.PREEMPTED else node or (job.nodes[0] if len(job.nodes) == 1 else None),
        node_lost=report.state is JobState.NODE_LOST,
        exit_code=rerun.exit_code if rerun is not None and rerun.exit_code is not None else report.exit_code,
        suspect_nodes=rerun.suspect_hosts if rerun is not None else (),
        asked_by=by if mode is not Mode.SUCCESS else None,
        resumed_from=begun.resumed_from,
        first_step=begun.first_step,
        slow_nodes=_slow_nodes(decision),
        broken_nodes=broken_hosts(decision.seen, decision.record.attempt),
    )


def _slow_nodes(decision: Decision) -> tuple[str, ...]:
    beat = decision.seen.metadata
    told = beat.stragglers if beat is not None else None
    return tuple(each.name for each in told.nodes[:_SLOW_NODES]) if told is not None else ()


def _mode(status: Status, report: JobReport) -> Mode:
    if status is Status.SUCCEEDED:
        return Mode.SUCCESS
    if status is Status.PREEMPTED:
        return Mode.PREEMPTED
    if report.state in {JobState.TIMEOUT, JobState.GONE}:
        return Mode.TIMEOUT
    if status is Status.TIMED_OUT and not report.state.ended:
        return Mode.STALL
    return Mode.CRASH


def _describe_resume(found: CheckpointSurvey | None) -> str:
    """From where a restart goes on, in words. ``found`` None: training has no checkpoints that lastbeat knows of."""
    if found is None:
        return "from where training itself resumes"
    passed_over = _passed_over(found)
    why_not = f" (not from {passed_over})" if passed_over else ""
    if found.chosen is None:
        other = "other " if passed_over else ""
        return f"from the beginning: there is no {other}complete checkpoint{why_not}"
    where = f"step {found.chosen.step}" if found.chosen.step is not None else found.chosen.name
    return f"from {where}{why_not}"


def _passed_over(found: CheckpointSurvey | None) -> str:
    """The checkpoints in quarantine that are newer than the one that is taken, and why."""
    checkpoints = found.checkpoints if found is not None else ()
    kept = [each for each in checkpoints if each.completeness is Completeness.QUARANTINED]
    more = f"; nor from {len(kept) - 1} before it" if len(kept) > 1 else ""
    return f"{one_line(kept[0].name)}: {kept[0].why}{more}" if kept else ""
