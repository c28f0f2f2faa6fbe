"""The verdict on the evidence of one attempt: status, reason, conditions."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from lastbeat.explain.signals import hints
from lastbeat.explain.signals.error_types import CANCELLED, HANG
from lastbeat.model.data import dataclass
from lastbeat.model.observation import PreemptedSentinel, Seen, StopAsked
from lastbeat.model.pattern import Pattern
from lastbeat.model.policy import ITS_OWN, Policy
from lastbeat.model.record import ExceededLimit, LimitName
from lastbeat.model.state import HasState, State
from lastbeat.model.status import Status
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import format_duration, format_minutes
from lastbeat.watch.decide import jobs, logs, step_waits
from lastbeat.watch.decide.conditions import documents, log_text, table
from lastbeat.watch.decide.conditions.beats import silence
from lastbeat.watch.decide.conditions.condition import Check, Condition
from lastbeat.watch.decide.conditions.stall import stall, stall_hint
from lastbeat.watch.decide.evidence import METADATA, PROGRESS, AttemptEvidence
from lastbeat.watch.decide.freshness import learned_limit_s, silence_limit_s
from lastbeat.watch.decide.headline import failure_line, headline, thread_note
from lastbeat.watch.decide.in_place import in_charge, still_late
from lastbeat.watch.decide.late_sections import late_sections, told_of
from lastbeat.watch.decide.recovery import NEVER_BEGAN, STOOD_STILL

REASON_LIMIT = 300
_BY_A_PERSON: Final = Pattern(r"(?:Cancelled: .{0,40}\b)?KeyboardInterrupt\b")
"""An ``_error`` written on Ctrl-C by the SDK, ``lastbeat exec`` or Python itself. ``scancel`` sends SIGTERM."""
_INTERRUPTED: Final = "Cancelled: the log ends with KeyboardInterrupt (Ctrl-C)"
DONE: Final = (
    "If training is done, let it say so: _complete in the run's folder, or lastbeat complete at the end of the job; "
    "nothing else makes a run SUCCEEDED."
)


@dataclass(frozen=True, slots=True)
class Verdict(HasState):
    """What a run is, and what that rests on."""

    state: State
    by_sentinel: bool = False
    """The source of the status is training itself."""
    by_log: bool = False
    """The source of the status is a log alone."""
    exceeded: ExceededLimit | None = None
    """The limit that a TIMED_OUT run exceeded."""
    stopped_by: str | None = None
    """The person who requested the end through lastbeat."""
    by_job: bool = False
    """The source of the status is the launcher's report on its job alone."""


def judge(evidence: AttemptEvidence, policy: Policy, now: datetime) -> Verdict:
    """Status, reason and conditions, by the first of these rules that applies.

    1. ``_error``: FAILED, or CANCELLED by Ctrl-C or on request. ``_complete``: SUCCEEDED. ``_preempted``: PREEMPTED.
    2. A log that ends in a fatal failure: FAILED; in a Ctrl-C alone: CANCELLED. Then the launcher's report on its job,
       if that has ended or waits; CANCELLED if its end was requested before.
    3. No heartbeat and no log yet: RUNNING during the grace period, then TIMED_OUT.
    4. Every heartbeat older than the stale limit, or than the limit learned from its own beats: TIMED_OUT.
    5. A rank in a section for longer than its limit, no step for longer than was learned, or no progress for twice the
       stall limit: TIMED_OUT.
    6. RUNNING, with a condition for each problem that deserves a warning.

    A dead thread of training decides nothing, but it may be the cause, so every reason mentions it.
    """
    check = Check(evidence, policy, now)
    verdict = _first_verdict(check)
    state = verdict.state
    if state.status is Status.RUNNING:
        state = _with_conditions(state, table.OF_JOB, check)
    note = thread_note(evidence.seen)
    if note:
        state = replace(state, reason=fit(state.reason, REASON_LIMIT - len(note)) + note)
    return verdict if state is verdict.state else replace(verdict, state=state)


def _with_conditions(state: State, rows: Iterable[Condition], check: Check) -> State:
    """``state`` with the conditions of ``rows``, and the first hint among them."""
    found = table.raised(rows, check)
    if not found:
        return state
    conditions = {**state.conditions, **{name: each.text for name, each in found.items()}}
    action = state.action or next((each.hint for each in found.values() if each.hint), None)
    return replace(state, conditions=conditions, action=action)


def with_headline(verdict: Verdict, seen: Seen) -> Verdict:
    """``verdict`` with the cause's own line as its reason, if ``_error`` only repeats an exit status."""
    if verdict.status is not Status.FAILED or not verdict.by_sentinel or verdict.explained is None:
        return verdict
    note = thread_note(seen)
    text = seen.error.text if seen.error is not None else ""
    said = headline(text, verdict.explained.cause, REASON_LIMIT - len(note))
    return verdict if said is None else replace(verdict, state=replace(verdict.state, reason=said + note))


def _first_verdict(check: Check) -> Verdict:
    evidence, seen, now = check.evidence, check.evidence.seen, check.now
    if seen.error is not None:
        # The cause is read from the logs when the alert is written.
        reason = _failure_reason(seen.error.text, seen.error.fault)
        asked = _for_its_end(seen.stop)
        if asked is not None and asked.modified <= seen.error.modified:
            return replace(_stopped(asked), by_sentinel=True)
        if _BY_A_PERSON.match(reason):
            return Verdict(State(Status.CANCELLED, reason, CANCELLED), by_sentinel=True)
        return Verdict(State(Status.FAILED, reason, action=hints.UNEXPLAINED_FAILURE), by_sentinel=True)
    if seen.complete is not None:
        return _succeeded(check)
    if seen.preempted is not None:
        return _preempted(seen.preempted, seen.stop)
    waits = jobs.may_get_over(seen.job, evidence.finding, now)
    stop = _for_its_end(seen.stop) if seen.job is not None and seen.job.report.state.ended else None
    # A process that restarts training in its place reports itself when it gives up.
    waits = waits or in_charge(seen, check.policy.stale_s, now) is not None
    counts = evidence.finding is not None and evidence.finding.alone and not waits
    # What it prints while it is ended on request is no failure.
    if evidence.finding is not None and counts and (stop is None or evidence.finding.seen_at < stop.modified):
        return _failed_by_log(evidence)
    by_job = _by_job(check)
    if by_job is not None:
        ill = by_job.status in {Status.FAILED, Status.TIMED_OUT}
        return replace(_stopped(stop), by_job=True) if stop is not None and ill else by_job
    if evidence.metadata is None and evidence.progress is None and evidence.log is None:
        return _never_beaten(check)
    return _judge_heartbeats(check)


def _for_its_end(asked: StopAsked | None) -> StopAsked | None:
    """A request that any end of the run fulfils. A crash does not fulfil a request for a checkpoint first."""
    return None if asked is None or asked.request.after_checkpoint else asked


def _stopped(asked: StopAsked) -> Verdict:
    """The verdict for an end that a person requested through lastbeat."""

    why = fit(f"S{asked.request.summary[1:]}", REASON_LIMIT)
    return Verdict(State(Status.CANCELLED, why, CANCELLED), stopped_by=asked.request.by)


def _preempted(sentinel: PreemptedSentinel, asked: StopAsked | None) -> Verdict:
    """The verdict for an end on request, after a checkpoint. It names the person who asked: that run stays stopped."""
    by = None
    reason = "PREEMPTED" if sentinel.said is None else sentinel.said.summary
    if sentinel.fault is not None:
        reason += f"; its _preempted could not be read: {sentinel.fault}"
    if asked is not None and asked.modified <= sentinel.modified:
        by, reason = asked.request.by, f"{reason}; {asked.request.summary}"
    state = State(Status.PREEMPTED, fit(one_line(reason), REASON_LIMIT))
    return Verdict(state, by_sentinel=True, stopped_by=by)


def _by_job(check: Check) -> Verdict | None:
    """The verdict by the launcher's report on the run's job, or None if that does not decide."""
    evidence, sight, ages = check.evidence, check.evidence.seen.job, check.ages_s.values()
    if sight is None and evidence.never_started is not None and not ages:
        return Verdict(State(Status.FAILED, fit(evidence.never_started, REASON_LIMIT), action=hints.NOT_STARTED))
    if sight is None:
        waits = None if ages else evidence.starting or jobs.queued(evidence.job, sight, check.now)
        return None if waits is None else Verdict(State(Status.RUNNING, waits))
    success = evidence.seen.explanation.success
    found = jobs.judge(
        sight,
        beats=bool(ages),
        says_done=one_line(success.text) if success is not None else None,
        # If its end was requested, its last output is no sign of life.
        lives=evidence.seen.stop is None and any(age <= check.policy.stale_s for age in ages),
    )
    if found is None:
        return None
    state = replace(found, reason=fit(found.reason, REASON_LIMIT))
    return Verdict(state, by_job=sight.report.state.ended)


def happened_at(evidence: AttemptEvidence, verdict: Verdict, now: datetime) -> datetime:
    """When the run reached the status of ``verdict``, as far as the evidence shows; never after ``now``."""
    seen, limit = evidence.seen, verdict.exceeded.name if verdict.exceeded is not None else None
    told: datetime | None = None
    if verdict.by_sentinel:
        told = seen.end.modified if seen.end is not None else None
    elif verdict.by_log:
        told = evidence.finding.seen_at if evidence.finding is not None else None
    elif limit in {LimitName.STALL, LimitName.INACTIVITY}:
        told = evidence.step_source.step_at if evidence.step_source is not None else None
    elif limit is LimitName.START:
        told = evidence.first_looked_at
    elif limit is LimitName.STALE:
        memories = (evidence.metadata, evidence.progress, evidence.liveness_log)
        told = max((memory.alive_at or memory.modified for memory in memories if memory is not None), default=None)
    return now if told is None else min(told, now)


def _succeeded(check: Check) -> Verdict:
    """The verdict for a success. A loss that is no number is worth a warning: its checkpoint is useless."""
    reason, nan = "Training completed (_complete found)", documents.NOT_FINITE.raised(check)
    if nan is None:
        return Verdict(State(Status.SUCCEEDED, reason), by_sentinel=True)
    conditions, hint = {documents.NOT_FINITE.name: nan.text}, hints.ENDED_NOT_FINITE
    state = State(Status.SUCCEEDED, f"{reason}, but {nan.text}", action=hint, conditions=conditions)
    return Verdict(state, by_sentinel=True)


def _failed_by_log(evidence: AttemptEvidence) -> Verdict:
    if evidence.finding is not None and evidence.finding.interrupted:
        return Verdict(State(Status.CANCELLED, _INTERRUPTED, CANCELLED), by_log=True)
    explanation = evidence.seen.explanation
    cause = explanation.cause
    if cause is None:
        state = State(Status.FAILED, "The log shows that the run failed", action=hints.UNEXPLAINED_FAILURE)
        return Verdict(state, by_log=True)
    reason = fit(f"The log shows that the run failed: {one_line(cause.evidence.text)}", REASON_LIMIT)
    hint = logs.advice(explanation) or hints.UNEXPLAINED_FAILURE
    why = logs.recorded(cause, explanation.second)
    return Verdict(State(Status.FAILED, reason, cause.error_type, hint, explained=why), by_log=True)


def _failure_reason(text: str, fault: str | None) -> str:
    if fault is not None:
        return fit(f"Training reported a failure; its _error could not be read: {fault}", REASON_LIMIT)
    return fit(failure_line(text), REASON_LIMIT) or "Training reported a failure (empty _error)"


def _never_beaten(check: Check) -> Verdict:
    evidence, policy = check.evidence, check.policy
    if evidence.seen.raised is not None:
        # Scripts may raise alerts without any heartbeat.
        return Verdict(State(Status.NO_HEARTBEAT, "Scripts have only raised alerts; no heartbeat was written"))
    waited_s = check.age_s(evidence.first_looked_at)
    report = evidence.seen.logs
    empty_at = report.empty_at if report is not None else None
    if empty_at is not None:
        empty_s = check.age_s(empty_at)
        if empty_s <= policy.stale_s or waited_s < policy.start_grace_s:
            waits = f"A log is there, and empty so far ({format_duration(max(0.0, empty_s))})"
            return Verdict(State(Status.RUNNING, waits))
    if waited_s < policy.start_grace_s:
        state = State(Status.RUNNING, "Waiting for the first heartbeat")
        return Verdict(_with_conditions(state, table.BEFORE_THE_FIRST_BEAT, check))
    exceeded = ExceededLimit(LimitName.START, policy.start_grace_s, policy.start_from)
    return Verdict(State(Status.TIMED_OUT, NEVER_BEGAN, action=hints.NEVER_STARTED), exceeded=exceeded)


def _judge_heartbeats(check: Check) -> Verdict:
    evidence, policy, ages = check.evidence, check.policy, check.ages_s
    stale = [name for name, age in ages.items() if age > policy.stale_s]
    if len(stale) == len(ages):
        return _timed_out(evidence, stale, policy)
    learned_s = learned_limit_s(evidence.seen.metadata) if policy.learned else None
    if learned_s is not None and min(ages.values()) > learned_s:
        return _timed_out(evidence, list(ages), policy, learned_s)
    outlasted = _late_section(check) or _too_long_without_step(check) or _stood_still(check)
    if outlasted is not None:
        return outlasted
    beats = ", ".join(f"{name} {format_duration(age)} ago" for name, age in ages.items())
    state = _with_conditions(State(Status.RUNNING, f"Heartbeats: {beats}"), table.while_beating(policy), check)
    return Verdict(_with_cause(state, check))


def _with_cause(state: State, check: Check) -> State:
    """``state`` with the cause that a log shows, if that raises a condition."""
    explanation = check.evidence.seen.explanation
    cause = explanation.cause
    if cause is None or log_text.shown_failure(check) is None:
        return state
    why = logs.recorded(cause, explanation.second)
    action = logs.advice(explanation) or state.action
    return replace(state, cause=cause.error_type, action=action, explained=why)


def _stood_still(check: Check) -> Verdict | None:
    """TIMED_OUT for a run without progress for twice its limit, else None."""
    found, policy, silent = stall(check), check.policy, silence(check)
    if found is None or found.lasts_s < 2 * found.limit_s:
        return None
    reason = f"{found.detail} (limit {format_minutes(found.limit_s)}, {STOOD_STILL}"
    name = LimitName.INACTIVITY if policy.stall_s is None else LimitName.STALL
    # Silence outranks a stall: a run that has not beaten for some time is not said to be alive.
    reason = reason if silent is None else f"{silent.capitalize()}. {reason}"
    action = stall_hint(check)
    exceeded = ExceededLimit(name, found.limit_s, policy.stall_from)
    # The cause is unknown if the process may be dead.
    cause = HANG if action == hints.STALLED else None
    return Verdict(State(Status.TIMED_OUT, reason, cause, action), exceeded=exceeded)


def _late_section(check: Check) -> Verdict | None:
    seen, memory, stale_s, now = check.evidence.seen, check.evidence.metadata, check.policy.stale_s, check.now
    if seen.metadata is not None and memory is not None and memory.suspect:
        # An old document that was stored again shows no open section.
        seen = replace(seen, metadata=replace(seen.metadata, sections=()))
    late = late_sections(seen, check.evidence.attempt, silence_limit_s(seen.metadata), stale_s, now)
    late = still_late(late, in_charge(seen, stale_s, now))
    if not late:
        return None
    first = late[0]
    exceeded = ExceededLimit(LimitName.STALL, first.limit_s, ITS_OWN, one_line(first.section.name or ""))
    if first.silent:
        return Verdict(State(Status.TIMED_OUT, told_of(late), action=hints.SILENT), exceeded=exceeded)
    return Verdict(State(Status.TIMED_OUT, told_of(late), HANG, hints.STALLED), exceeded=exceeded)


def _too_long_without_step(check: Check) -> Verdict | None:
    """TIMED_OUT for a run without a step for longer than was learned, else None. A report of its own sections outranks
    this, and nothing follows while its files cannot be read."""
    evidence, progress = check.evidence, check.evidence.progress
    seen, beat = evidence.seen.progress, evidence.seen.metadata
    known = progress.waits if progress is not None else None
    limit_s = step_waits.limit_s(known, evidence.earlier_step_limit_s) if check.policy.learns_steps else None
    if progress is None or progress.step_at is None or seen is None or seen.step is None:
        return None
    if beat is not None and (beat.sections or beat.fault is not None):
        return None
    if seen.total_steps is not None and seen.step >= seen.total_steps - 1:
        # No further step is due. Steps are counted from 0 or from 1.
        return None
    waited_s = check.age_s(progress.step_at)
    if known is None or limit_s is None or waited_s <= limit_s:
        return None
    usual = f"usual {format_duration(step_waits.usual_s(known))}, limit {format_duration(limit_s)}"
    reason = f"No step for {format_duration(waited_s)} ({usual}): still at step {progress.step}"
    action = stall_hint(check)
    exceeded = ExceededLimit(LimitName.STALL, limit_s, "learned from its steps")
    cause = HANG if action == hints.STALLED else None
    return Verdict(State(Status.TIMED_OUT, reason, cause, action), exceeded=exceeded)


def unobservable(evidence: AttemptEvidence) -> str | None:
    """Why it cannot be determined whether a run that seems silent is; None if all evidence that counts was read."""
    if not evidence.hidden or (evidence.metadata is not None and evidence.progress is not None):
        return None
    return fit(" ".join(evidence.hidden), REASON_LIMIT)


def _timed_out(evidence: AttemptEvidence, stale: list[str], policy: Policy, learned_s: float | None = None) -> Verdict:
    """The verdict for a silent run. ``learned_s``: the limit learned from the run's own beats, if that is exceeded."""
    limit = format_minutes(policy.stale_s) if learned_s is None else _learned(evidence, learned_s)
    memories = (evidence.metadata, evidence.progress, evidence.liveness_log)
    gone = all(memory is None or memory.missing_since for memory in memories)
    reason = f"Both heartbeats disappeared (>{limit} ago)" if gone else f"Both heartbeats stale (>{limit})"
    if evidence.liveness_log is not None and evidence.progress is None:
        reason += "; only a log was ever written"
    elif len(stale) == 1:
        never = PROGRESS if stale == [METADATA] else METADATA
        reason += f"; no {never} was ever written"
    success = evidence.seen.explanation.success
    exceeded = ExceededLimit(LimitName.STALE, policy.stale_s, policy.stale_from)
    if learned_s is not None:
        exceeded = ExceededLimit(LimitName.STALE, learned_s, f"learned from its beats, {policy.learned_from}")
    if success is None:
        stored_again = any(memory is not None and memory.suspect for memory in (evidence.metadata, evidence.progress))
        action = hints.STORED_AGAIN if stored_again else hints.STALE
        return Verdict(State(Status.TIMED_OUT, reason, action=action), exceeded=exceeded)
    reason = fit(f"{reason}; the log reports the end of training: {one_line(success.text)}", REASON_LIMIT)
    return Verdict(State(Status.TIMED_OUT, reason, action=DONE), exceeded=exceeded)


def _learned(evidence: AttemptEvidence, limit_s: float) -> str:
    beat = evidence.seen.metadata
    each, longest = (beat.beat_s, beat.longest_gap_s) if beat is not None else (None, None)
    told = f"beats each {format_duration(each or 0.0)}, {format_duration(longest or 0.0)} apart at most"
    return f"{format_duration(limit_s)}, learned from its beats: {told}"
