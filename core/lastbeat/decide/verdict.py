"""What the evidence of one attempt says: status, reason, conditions."""

import math
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Final

from lastbeat.decide import jobs, logs, step_waits
from lastbeat.decide.freshness import SKEW_TOLERANCE_S, looks_local
from lastbeat.decide.headline import failure_line, headline
from lastbeat.decide.health import health_conditions
from lastbeat.decide.in_place import in_charge, may_get_over, still_late
from lastbeat.decide.job_conditions import IDLE_S, job_conditions, remedy
from lastbeat.decide.late_sections import late_sections, told_of
from lastbeat.decide.recovery import NEVER_BEGAN, STOOD_STILL
from lastbeat.decide.silent_ranks import silent_ranks
from lastbeat.model import status as names
from lastbeat.model import straggler_lines
from lastbeat.model.cause import Warned
from lastbeat.model.data import dataclass
from lastbeat.model.job import JobMemory
from lastbeat.model.observation import Heartbeat, PreemptedSentinel, Seen, StopAsked
from lastbeat.model.pattern import Pattern
from lastbeat.model.policy import ITS_OWN, Policy
from lastbeat.model.record import (
    Attempt,
    ExceededLimit,
    Finding,
    HeartbeatMemory,
    LimitName,
    RecordedCause,
    ToldWarning,
)
from lastbeat.model.status import Status
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import format_duration, format_minutes
from lastbeat.signals import hints
from lastbeat.signals.error_types import HANG

REASON_LIMIT = 300
_THREAD_LIMIT: Final = 160
_BY_A_PERSON: Final = Pattern(r"(?:Cancelled: .{0,40}\b)?KeyboardInterrupt\b")
"""An ``_error`` that a Ctrl-C wrote: the SDK's, ``lastbeat exec``'s, or Python's own. ``scancel`` sends SIGTERM."""
_INTERRUPTED: Final = "Cancelled: the log ends with KeyboardInterrupt (Ctrl-C)"
_RAY: Final = "ray"
_MISSED_BEATS: Final = 4
"""So many beats are not missed by chance."""
_OUTLIER: Final = 2.0
"""Nor is a gap so many times as long as the longest so far."""
_LIVELY_S: Final = 120.0
"""A run that does not say how often it beats is taken to live for so long after a beat."""
_LEARNED: Final = 2.0
"""Twice as long as that is no lateness any more, where the fleet lets its runs tell,"""
_LEARNED_LEAST_S: Final = 120.0
"""if it is as long as this: a store may be slow for a moment."""
_YOUNG_BEATS: Final = 10
"""A run that has beaten for less has no history yet."""
_UPLOAD_S: Final = 5.0
"""What a beat may take to the store."""
METADATA, PROGRESS = "metadata.json", "progress.json"
LOG, LOG_STEP = "log", "step in the log"
_STALE: Final = {METADATA: names.METADATA_STALE, PROGRESS: names.PROGRESS_STALE, LOG_STEP: names.PROGRESS_STALE}
DONE: Final = (
    "If training is done, let it say so: _complete in the run's folder, or lastbeat complete at the end of the job; "
    "nothing else makes a run SUCCEEDED."
)
_SLOWNESS: Final = (names.STRAGGLER, names.SLOW)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Status and why."""

    status: Status
    reason: str
    cause: str | None = None
    action: str | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)
    explained: RecordedCause | None = None
    """The cause with its evidence."""
    by_sentinel: bool = False
    """Training itself said so."""
    by_log: bool = False
    """A log alone said so."""
    exceeded: ExceededLimit | None = None
    """Of a TIMED_OUT: by which limit."""
    stopped_by: str | None = None
    """Who asked for its end through lastbeat."""
    by_job: bool = False
    """The launcher's word on its job, and nothing else, says so."""


@dataclass(frozen=True, slots=True)
class AttemptEvidence:
    """The evidence of the current attempt: the observation, and what is known of each heartbeat."""

    seen: Seen
    metadata: HeartbeatMemory | None
    progress: HeartbeatMemory | None
    first_looked_at: datetime
    earlier_step_limit_s: float | None = None
    """How long the run may be without a new step, as attempts before this one have taught."""
    log: HeartbeatMemory | None = None
    finding: Finding | None = None
    log_lines: Mapping[str, datetime] = field(default_factory=dict)
    """For absence rules: signal name → when such a line was last new."""
    warned: Mapping[str, ToldWarning] = field(default_factory=dict)
    """Lines that warned, see :func:`lastbeat.decide.logs.noted`."""
    started: datetime | None = None
    """When waiting for those lines began. None: the logs could not be read this time."""
    known_nan: str | None = None
    """What the last look said of a loss that is not finite."""
    known_efa_fallback: str | None = None
    """What the last look said of an EFA that is not used."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Conditions from logs that stand though this look did not see why: the logs could not be read, or a warning that
    is news lies before what was read."""
    known_job: JobMemory | None = None
    """The run's job as it was last seen."""
    job_conditions: Mapping[str, str] = field(default_factory=dict)
    """What the record says of that job that is worth a warning."""
    starting: str | None = None
    """The job that is about to start, or that nobody has looked at since it was started."""
    never_started: str | None = None
    """Why the run has no job, where its launcher refused it."""
    attempt: Attempt = field(default_factory=Attempt)
    known_silent: str | None = None
    """What the last look said of ranks that are silent."""
    known_slow: Mapping[str, str] = field(default_factory=dict)
    """What it said of ranks that are slow, and of a slow job."""
    known_health: Mapping[str, str] = field(default_factory=dict)
    """What it said of the health of nodes."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """Logs that could not be looked at."""
        return self.seen.logs.hidden if self.seen.logs is not None else ()

    @property
    def liveness_log(self) -> HeartbeatMemory | None:
        """The logs, where they replace a metadata.json that was never written."""
        return self.log if self.metadata is None else None

    @property
    def step_source(self) -> HeartbeatMemory | None:
        """Where steps come from: progress.json, or the logs if that was never written."""
        return self.progress or (self.log if self.log is not None and self.log.step_at is not None else None)


def judge(evidence: AttemptEvidence, policy: Policy, now: datetime) -> Verdict:
    """Status, reason and conditions, by the first of these that applies.

    1. ``_error``: FAILED, or CANCELLED by Ctrl-C or on request. ``_complete``: SUCCEEDED. ``_preempted``: PREEMPTED.
    2. A log that ends in a fatal failure: FAILED; in a Ctrl-C alone: CANCELLED. Then the launcher's word on its job,
       where that has ended or waits; CANCELLED where its end was asked for before.
    3. No heartbeat and no log yet: RUNNING while the grace period lasts, then TIMED_OUT.
    4. Every heartbeat older than the stale limit, or, where that is learned, than its own beats allow: TIMED_OUT.
    5. A rank in a section for longer than it may, no step for longer than was learned, or no progress for twice the
       stall limit: TIMED_OUT.
    6. RUNNING, with a condition for everything that is worth a warning.

    A dead thread of training decides nothing, but it may be the cause, so every reason mentions it.
    """
    verdict = _first_verdict(evidence, policy, now)
    if verdict.status is Status.RUNNING:
        verdict = _with_job_conditions(verdict, evidence, policy, now)
    told = _thread_error(evidence.seen)
    reason = fit(verdict.reason, REASON_LIMIT - len(told)) + told
    raised = verdict.conditions
    if told and names.STALLED in raised:
        raised = {**raised, names.STALLED: raised[names.STALLED] + told}
    return replace(verdict, reason=reason, conditions=raised) if told else verdict


def _with_job_conditions(verdict: Verdict, evidence: AttemptEvidence, policy: Policy, now: datetime) -> Verdict:
    sight = evidence.seen.job
    raised = job_conditions(sight, evidence.known_job, evidence.job_conditions, policy, now)
    job = sight.memory if sight is not None else evidence.known_job
    if job is not None and job.launcher == _RAY and _steps_on(evidence, verdict, policy, now):
        # Ray counts what it has given out. A driver that asked for none may use the GPUs of its node all the same.
        raised.pop(names.GPU_IDLE, None)
    if not raised:
        return verdict
    action = verdict.action or remedy(raised, evidence.known_job if sight is None else sight.memory)
    return replace(verdict, conditions={**verdict.conditions, **raised}, action=action)


def _steps_on(evidence: AttemptEvidence, verdict: Verdict, policy: Policy, now: datetime) -> bool:
    """Whether training gets on: its last new step is no older than steps may be."""
    source = evidence.step_source
    if source is None or source.step_at is None or names.STALLED in verdict.conditions:
        return False
    return (now - source.step_at).total_seconds() <= max(IDLE_S, policy.stall_s or 0.0)


def with_headline(verdict: Verdict, seen: Seen) -> Verdict:
    """``verdict`` with the cause's own line as its reason, where ``_error`` only repeats an exit status."""
    if verdict.status is not Status.FAILED or not verdict.by_sentinel or verdict.explained is None:
        return verdict
    told = _thread_error(seen)
    text = seen.error.text if seen.error is not None else ""
    said = headline(text, verdict.explained.cause, REASON_LIMIT - len(told))
    return verdict if said is None else replace(verdict, reason=said + told)


def _thread_error(seen: Seen) -> str:
    metadata = seen.metadata
    said = one_line(metadata.thread_error or "") if metadata is not None else ""
    return fit(f"; a thread of it had ended with an exception: {said}", _THREAD_LIMIT) if said else ""


def _first_verdict(evidence: AttemptEvidence, policy: Policy, now: datetime) -> Verdict:
    seen = evidence.seen
    if seen.error is not None:
        # The cause is read from the logs when the alert is written.
        reason = _failure_reason(seen.error.text, seen.error.fault)
        asked = _for_its_end(seen.stop)
        if asked is not None and asked.modified <= seen.error.modified:
            return replace(_stopped(asked), by_sentinel=True)
        if _BY_A_PERSON.match(reason):
            from lastbeat.signals.error_types import CANCELLED  # noqa: PLC0415 - as in logs

            return Verdict(Status.CANCELLED, reason, CANCELLED, by_sentinel=True)
        return Verdict(Status.FAILED, reason, action=hints.UNEXPLAINED_FAILURE, by_sentinel=True)
    if seen.complete is not None:
        return _succeeded(evidence)
    if seen.preempted is not None:
        return _preempted(seen.preempted, seen.stop)
    waits = jobs.may_get_over(seen.job, evidence.finding, now)
    stop = _for_its_end(seen.stop) if seen.job is not None and seen.job.report.state.ended else None
    # Who starts training again in its place says itself when it does not.
    waits = waits or in_charge(seen, policy.stale_s, now) is not None
    counts = evidence.finding is not None and evidence.finding.alone and not waits
    # What it says while it is being ended on request are its last words.
    if evidence.finding is not None and counts and (stop is None or evidence.finding.seen_at < stop.modified):
        return _failed_by_log(evidence)
    by_job = _by_job(evidence, policy, now)
    if by_job is not None:
        ill = by_job.status in {Status.FAILED, Status.TIMED_OUT}
        return replace(_stopped(stop), by_job=True) if stop is not None and ill else by_job
    if evidence.metadata is None and evidence.progress is None and evidence.log is None:
        return _never_beaten(evidence, policy, now)
    return _judge_heartbeats(evidence, policy, now)


def _for_its_end(asked: StopAsked | None) -> StopAsked | None:
    """A request that is met however the run ends. One for a checkpoint first is not met by a crash."""
    return None if asked is None or asked.request.after_checkpoint else asked


def _stopped(asked: StopAsked) -> Verdict:
    """The end that a person asked for through lastbeat."""
    from lastbeat.signals.error_types import CANCELLED  # noqa: PLC0415 - as in logs

    why = fit(f"S{asked.request.summary[1:]}", REASON_LIMIT)
    return Verdict(Status.CANCELLED, why, CANCELLED, stopped_by=asked.request.by)


def _preempted(sentinel: PreemptedSentinel, asked: StopAsked | None) -> Verdict:
    """An end on request, after a checkpoint. A person who asked for it is named: nobody starts that run again."""
    by = None
    reason = "PREEMPTED" if sentinel.said is None else sentinel.said.summary
    if sentinel.fault is not None:
        reason += f"; its _preempted could not be read: {sentinel.fault}"
    if asked is not None and asked.modified <= sentinel.modified:
        by, reason = asked.request.by, f"{reason}; {asked.request.summary}"
    return Verdict(Status.PREEMPTED, fit(one_line(reason), REASON_LIMIT), by_sentinel=True, stopped_by=by)


def _by_job(evidence: AttemptEvidence, policy: Policy, now: datetime) -> Verdict | None:
    """What the launcher says of the run's job, where that decides."""
    sight, ages = evidence.seen.job, [(now - at).total_seconds() for at in _beats(evidence).values()]
    if sight is None and evidence.never_started is not None and not ages:
        return Verdict(Status.FAILED, fit(evidence.never_started, REASON_LIMIT), action=hints.NOT_STARTED)
    if sight is None:
        waits = None if ages else evidence.starting or jobs.queued(evidence.known_job, sight, now)
        return None if waits is None else Verdict(Status.RUNNING, waits)
    report = evidence.seen.logs
    success = report.explanation.success if report is not None else None
    found = jobs.judge(
        sight,
        beats=bool(ages),
        says_done=one_line(success.text) if success is not None else None,
        # Where its end was asked for, nobody takes its last words for life.
        lives=evidence.seen.stop is None and any(age <= policy.stale_s for age in ages),
    )
    if found is None:
        return None
    reason = fit(found.reason, REASON_LIMIT)
    return Verdict(found.status, reason, found.cause, found.action, by_job=sight.report.state.ended)


def happened_at(evidence: AttemptEvidence, verdict: Verdict, now: datetime) -> datetime:
    """When the run came to be what ``verdict`` says, as far as the evidence tells; never after ``now``."""
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


def _succeeded(evidence: AttemptEvidence) -> Verdict:
    """A success with a loss that is no number is worth a word: nobody wants its checkpoint."""
    reason, nan = "Training completed (_complete found)", _document_conditions(evidence).get(names.LOSS_NAN)
    if nan is None:
        return Verdict(Status.SUCCEEDED, reason, by_sentinel=True)
    hint = hints.ENDED_NOT_FINITE
    raised = {names.LOSS_NAN: nan}
    return Verdict(Status.SUCCEEDED, f"{reason}, but {nan}", action=hint, conditions=raised, by_sentinel=True)


def _failed_by_log(evidence: AttemptEvidence) -> Verdict:
    if evidence.finding is not None and evidence.finding.interrupted:
        from lastbeat.signals.error_types import CANCELLED  # noqa: PLC0415 - as in logs

        return Verdict(Status.CANCELLED, _INTERRUPTED, CANCELLED, by_log=True)
    report = evidence.seen.logs
    cause = report.explanation.cause if report is not None else None
    if report is None or cause is None:
        return Verdict(
            Status.FAILED, "The log shows that the run failed", action=hints.UNEXPLAINED_FAILURE, by_log=True
        )
    reason = fit(f"The log shows that the run failed: {one_line(cause.evidence.text)}", REASON_LIMIT)
    hint = logs.advice(report.explanation) or hints.UNEXPLAINED_FAILURE
    why = RecordedCause(logs.bounded(cause), second=logs.second(report.explanation))
    return Verdict(Status.FAILED, reason, cause.error_type, hint, explained=why, by_log=True)


def _failure_reason(text: str, fault: str | None) -> str:
    if fault is not None:
        return fit(f"Training reported a failure; its _error could not be read: {fault}", REASON_LIMIT)
    return fit(failure_line(text), REASON_LIMIT) or "Training reported a failure (empty _error)"


def _never_beaten(evidence: AttemptEvidence, policy: Policy, now: datetime) -> Verdict:
    if evidence.seen.raised is not None:
        # Scripts may raise alerts about something that beats nowhere.
        return Verdict(Status.NO_HEARTBEAT, "Scripts have only raised alerts; no heartbeat was written")
    waited_s = (now - evidence.first_looked_at).total_seconds()
    report = evidence.seen.logs
    empty_at = report.empty_at if report is not None else None
    if empty_at is not None:
        empty_s = (now - empty_at).total_seconds()
        if empty_s <= policy.stale_s or waited_s < policy.start_grace_s:
            return Verdict(Status.RUNNING, f"A log is there, and empty so far ({format_duration(max(0.0, empty_s))})")
    if waited_s < policy.start_grace_s:
        detail = f"no heartbeat yet, {format_duration(waited_s)} of {format_minutes(policy.start_grace_s)} waited"
        return Verdict(
            Status.RUNNING,
            "Waiting for the first heartbeat",
            conditions={names.NO_HEARTBEAT: detail},
        )
    exceeded = ExceededLimit(LimitName.START, policy.start_grace_s, policy.start_from)
    return Verdict(Status.TIMED_OUT, NEVER_BEGAN, action=hints.NEVER_STARTED, exceeded=exceeded)


def _judge_heartbeats(evidence: AttemptEvidence, policy: Policy, now: datetime) -> Verdict:
    ages = {name: (now - at).total_seconds() for name, at in _beats(evidence).items()}
    stale = [name for name, age in ages.items() if age > policy.stale_s]
    if len(stale) == len(ages):
        return _timed_out(evidence, stale, policy)
    learned_s = learned_limit_s(evidence.seen.metadata) if policy.learned else None
    if learned_s is not None and min(ages.values()) > learned_s:
        return _timed_out(evidence, list(ages), policy, learned_s)
    late = _late_section(evidence, policy, now) or _too_long_without_step(evidence, policy, now)
    if late is not None:
        return late
    raised = {
        _STALE[
            name
        ]: f"{name} is {format_duration(ages[name])} old (>{format_minutes(limit_s)}) while the other is fresh"
        for name in stale
        if name in _STALE and ages[name] > (limit_s := _limit_s(name, evidence, policy))
    }
    silence = _silence(evidence, min(ages.values()))
    if silence is not None:
        raised = {names.BEATS_MISSED: silence, **raised}
    silent = _silent_ranks(evidence, now)
    if silent is not None:
        raised = {names.RANK_SILENT: silent, **raised}
    raised = {**raised, **_slow_conditions(evidence.seen.metadata, evidence.known_slow)}
    standstill = _standstill(evidence, policy, now)
    if standstill is not None:
        detail, stalled_s, limit_s = standstill
        if stalled_s >= 2 * limit_s:
            reason = f"{detail} (limit {format_minutes(limit_s)}, {STOOD_STILL}"
            name = LimitName.INACTIVITY if policy.stall_s is None else LimitName.STALL
            # Silence outranks standing still: who has not beaten for a while is not said to live.
            reason = reason if silence is None else f"{silence.capitalize()}. {reason}"
            action = _standstill_hint(evidence, now)
            exceeded = ExceededLimit(name, limit_s, policy.stall_from)
            # Of one that may be dead nobody knows.
            cause = HANG if action == hints.STALLED else None
            return Verdict(Status.TIMED_OUT, reason, cause, action, exceeded=exceeded)
        raised[names.STALLED] = f"{detail} (limit {format_minutes(limit_s)})"
    raised.update(_document_conditions(evidence))
    warning = logs.warned_of(evidence.seen.logs, evidence.warned, now)
    if warning is not None and _told_already(warning, evidence.seen.metadata):
        warning = None
    warned = {names.WARNING_IN_LOG: logs.shown(warning.evidence)} if warning is not None else {}
    told = _log_conditions(evidence, policy, now)
    raised = {**evidence.kept, **warned, **told, **raised}
    if evidence.started is not None:
        raised.update(logs.overdue(evidence.log_lines, policy.absences, evidence.started, now))
    raised.update(logs.efa_fallback(evidence.seen.logs, evidence.known_efa_fallback))
    health = health_conditions(evidence)
    # What is wrong with a GPU explains the rest.
    broken: dict[str, str] = {name: health[name] for name in (names.GPU_LOST, names.GPU_ECC) if name in health}
    raised = {**broken, **raised, **health}
    beats = ", ".join(f"{name} {format_duration(age)} ago" for name, age in ages.items())
    verdict = Verdict(Status.RUNNING, f"Heartbeats: {beats}", conditions=raised)
    known = {names.STALLED: _standstill_hint(evidence, now)}
    if warning is not None and warning.hint:
        known[names.WARNING_IN_LOG] = warning.hint
    return _with_cause(verdict, evidence, policy, known, from_log=bool(told))


def silence_limit_s(beat: Heartbeat | None) -> float | None:
    """The age of its last beat, in seconds, at which a run misses beats. None: it does not say how often it beats."""
    if beat is None or beat.beat_s is None:
        return None
    return max(_MISSED_BEATS * beat.beat_s, _OUTLIER * (beat.longest_gap_s or 0.0)) + _UPLOAD_S


def learned_limit_s(beat: Heartbeat | None) -> float | None:
    """The age of its last beat, in seconds, at which its own beats show that a run is no more. None: it does not say
    how often it beats and how long that took, or began a moment ago."""
    limit_s = silence_limit_s(beat)
    if beat is None or limit_s is None or beat.beat_s is None or beat.longest_gap_s is None:
        return None
    if beat.start_time is not None and beat.own_time is not None:
        beaten_s = (beat.own_time - beat.start_time).total_seconds()
        if beaten_s < _YOUNG_BEATS * beat.beat_s:
            return None
    return max(_LEARNED_LEAST_S, _LEARNED * limit_s)


def _standstill_hint(evidence: AttemptEvidence, now: datetime) -> str:
    """What to do about a run that makes no progress. Only a run that has just beaten is said to live."""
    silent_s = min((now - at).total_seconds() for at in _beats(evidence).values())
    limit_s = silence_limit_s(evidence.seen.metadata)
    if limit_s is None:
        return hints.STALLED if silent_s <= _LIVELY_S else hints.STALLED_OR_DEAD
    return hints.STALLED if silent_s <= limit_s else hints.SILENT


def _silence(evidence: AttemptEvidence, silent_s: float) -> str | None:
    beat = evidence.seen.metadata
    limit_s = silence_limit_s(beat)
    if beat is None or beat.beat_s is None or limit_s is None or silent_s <= limit_s:
        return None
    return f"silent for {format_duration(silent_s)} (beats each {format_duration(beat.beat_s)})"


def _late_section(evidence: AttemptEvidence, policy: Policy, now: datetime) -> Verdict | None:
    seen, memory = evidence.seen, evidence.metadata
    if seen.metadata is not None and memory is not None and memory.suspect:
        # An old document that was stored again tells of nothing that goes on.
        seen = replace(seen, metadata=replace(seen.metadata, sections=()))
    late = late_sections(seen, evidence.attempt, silence_limit_s(seen.metadata), policy.stale_s, now)
    late = still_late(late, in_charge(seen, policy.stale_s, now))
    if not late:
        return None
    first = late[0]
    exceeded = ExceededLimit(LimitName.STALL, first.limit_s, ITS_OWN, one_line(first.section.name or ""))
    if first.silent:
        return Verdict(Status.TIMED_OUT, told_of(late), action=hints.SILENT, exceeded=exceeded)
    return Verdict(Status.TIMED_OUT, told_of(late), HANG, hints.STALLED, exceeded=exceeded)


def _too_long_without_step(evidence: AttemptEvidence, policy: Policy, now: datetime) -> Verdict | None:
    """Of a run that says what it is in, that counts; of one whose files cannot be read now, nothing follows."""
    progress, seen, beat = evidence.progress, evidence.seen.progress, evidence.seen.metadata
    known = progress.waits if progress is not None else None
    limit_s = step_waits.limit_s(known, evidence.earlier_step_limit_s) if policy.learns_steps else None
    if progress is None or progress.step_at is None or seen is None or seen.step is None:
        return None
    if beat is not None and (beat.sections or beat.fault is not None):
        return None
    if seen.total_steps is not None and seen.step >= seen.total_steps - 1:
        # No step is to come. Steps are counted from 0 or from 1.
        return None
    waited_s = (now - progress.step_at).total_seconds()
    if known is None or limit_s is None or waited_s <= limit_s:
        return None
    usual = f"usual {format_duration(step_waits.usual_s(known))}, limit {format_duration(limit_s)}"
    reason = f"No step for {format_duration(waited_s)} ({usual}): still at step {progress.step}"
    action = _standstill_hint(evidence, now)
    exceeded = ExceededLimit(LimitName.STALL, limit_s, "learned from its steps")
    return Verdict(Status.TIMED_OUT, reason, HANG if action == hints.STALLED else None, action, exceeded=exceeded)


def _silent_ranks(evidence: AttemptEvidence, now: datetime) -> str | None:
    looked = evidence.seen.ranks
    if looked is not None:
        found = silent_ranks(evidence.seen, evidence.attempt, now)
        if found is not None or not (looked.unread or looked.denied):
            return found
    # It could not be looked at this time: what is known of it stands.
    return evidence.known_silent


def _slow_conditions(metadata: Heartbeat | None, known: Mapping[str, str]) -> dict[str, str]:
    """That ranks are slow, or the job: by what the run's own heartbeat says of its last windows. While it cannot be
    read, what is ``known`` stands."""
    if metadata is None or metadata.fault is not None:
        return {name: known[name] for name in _SLOWNESS if name in known}
    told = metadata.stragglers
    found = {} if told is None else {names.STRAGGLER: told.text, names.SLOW: told.slow_text}
    return {name: text for name, text in found.items() if text is not None}


def _told_already(warning: Warned, metadata: Heartbeat | None) -> bool:
    """Whether the line of a log that warns is our own about stragglers, of which the heartbeat tells more."""
    return metadata is not None and metadata.stragglers is not None and straggler_lines.WARNING in warning.evidence.text


def _beats(evidence: AttemptEvidence) -> dict[str, datetime]:
    """Heartbeat, as people know it → its last proof of life."""
    found = {}
    if evidence.metadata is not None:
        found[METADATA] = last_alive(evidence.metadata)
    elif evidence.liveness_log is not None:
        found[LOG] = last_alive(evidence.liveness_log)
    if evidence.progress is not None:
        found[PROGRESS] = last_alive(evidence.progress)
    elif evidence.log is not None and evidence.log.step_at is not None:
        unread = evidence.seen.logs is None or evidence.seen.logs.unread
        # Text that could not be read may hold a later step.
        beaten = max(evidence.log.step_at, last_alive(evidence.log)) if unread else evidence.log.step_at
        if not evidence.hidden or not found:
            found[LOG_STEP] = beaten
    return found


def unobservable(evidence: AttemptEvidence) -> str | None:
    """Why nobody can tell whether a run that seems silent is. None: all evidence that counts was looked at."""
    if not evidence.hidden or (evidence.metadata is not None and evidence.progress is not None):
        return None
    return fit(" ".join(evidence.hidden), REASON_LIMIT)


def _limit_s(name: str, evidence: AttemptEvidence, policy: Policy) -> float:
    if name == LOG_STEP and evidence.log is not None:
        return logs.patience_s(evidence.log, policy.stale_s)
    return policy.stale_s


def _timed_out(evidence: AttemptEvidence, stale: list[str], policy: Policy, learned_s: float | None = None) -> Verdict:
    """``learned_s``: the limit that the run's own beats set, where it is that which is exceeded."""
    limit = format_minutes(policy.stale_s) if learned_s is None else _learned(evidence, learned_s)
    memories = (evidence.metadata, evidence.progress, evidence.liveness_log)
    gone = all(memory is None or memory.missing_since for memory in memories)
    reason = f"Both heartbeats disappeared (>{limit} ago)" if gone else f"Both heartbeats stale (>{limit})"
    if evidence.liveness_log is not None and evidence.progress is None:
        reason += "; only a log was ever written"
    elif len(stale) == 1:
        never = PROGRESS if stale == [METADATA] else METADATA
        reason += f"; no {never} was ever written"
    report = evidence.seen.logs
    success = report.explanation.success if report is not None else None
    exceeded = ExceededLimit(LimitName.STALE, policy.stale_s, policy.stale_from)
    if learned_s is not None:
        exceeded = ExceededLimit(LimitName.STALE, learned_s, f"learned from its beats, {policy.learned_from}")
    if success is None:
        stored_again = any(memory is not None and memory.suspect for memory in (evidence.metadata, evidence.progress))
        action = hints.STORED_AGAIN if stored_again else hints.STALE
        return Verdict(Status.TIMED_OUT, reason, action=action, exceeded=exceeded)
    reason = fit(f"{reason}; the log says that training is done: {one_line(success.text)}", REASON_LIMIT)
    return Verdict(Status.TIMED_OUT, reason, action=DONE, exceeded=exceeded)


def _learned(evidence: AttemptEvidence, limit_s: float) -> str:
    beat = evidence.seen.metadata
    each, longest = (beat.beat_s, beat.longest_gap_s) if beat is not None else (None, None)
    told = f"beats each {format_duration(each or 0.0)}, {format_duration(longest or 0.0)} apart at most"
    return f"{format_duration(limit_s)}, learned from its beats: {told}"


def _standstill(evidence: AttemptEvidence, policy: Policy, now: datetime) -> tuple[str, float, float] | None:
    """What has stood still, for how long, and the limit, in s. None: nothing has, or progress is not watched."""
    steps, log = evidence.step_source, evidence.log
    if evidence.hidden and (evidence.progress is None or logs.waits_for_lines(policy)):
        return None
    step_at = steps.step_at if steps is not None and steps.step is not None else None
    if policy.stall_s is not None:
        limit_s, since = policy.stall_s, step_at
    elif policy.inactivity_s is not None:
        lines = [log.modified] if log is not None else []
        limit_s, since = policy.inactivity_s, max([*lines, *([step_at] if step_at else [])], default=None)
    else:
        return None
    if since is None or (now - since).total_seconds() < limit_s:
        return None
    stalled_s = (now - since).total_seconds()
    where = f"still at step {steps.step}" if steps is not None and steps.step is not None else "no new line in the log"
    return f"No progress: {where} after {format_duration(stalled_s)}", stalled_s, limit_s


def _log_conditions(evidence: AttemptEvidence, policy: Policy, now: datetime) -> dict[str, str]:
    """What the logs raise beside RUNNING."""
    if jobs.may_get_over(evidence.seen.job, evidence.finding, now):
        return {}
    raised = logs.conditions(evidence.seen.logs, evidence.finding)
    if may_get_over(in_charge(evidence.seen, policy.stale_s, now), evidence.finding, now):
        raised.pop(names.FAILURE_IN_LOG, None)
    return raised


def _with_cause(
    verdict: Verdict, evidence: AttemptEvidence, policy: Policy, hinted: Mapping[str, str], *, from_log: bool
) -> Verdict:
    """``verdict`` with what to do about its conditions, and the cause that a log shows (``from_log``: one does).
    ``hinted`` are the hints for conditions that are of this run alone."""
    raised = verdict.conditions
    rules = {rule.name: rule.hint for rule in policy.absences if rule.hint}
    report = evidence.seen.logs
    known = {**hints.CONDITION_HINTS, **hinted, **rules}
    cause = report.explanation.cause if report is not None and from_log else None
    if report is not None and cause is not None:
        action = logs.advice(report.explanation) or next((known[name] for name in raised if name in known), None)
        why = RecordedCause(logs.bounded(cause), second=logs.second(report.explanation))
        return replace(verdict, cause=cause.error_type, action=action, explained=why)
    return replace(verdict, action=next((known[name] for name in raised if name in known), None))


def last_alive(memory: HeartbeatMemory) -> datetime:
    """The last proof of life. A file that is gone counts from when it was missed, not from its last beat."""
    alive_at = memory.alive_at or memory.modified
    return max(alive_at, memory.missing_since) if memory.missing_since else alive_at


def _document_conditions(evidence: AttemptEvidence) -> dict[str, str]:
    seen, raised = evidence.seen, dict[str, str]()
    documents = (("metadata.json", seen.metadata, evidence.metadata),
                 ("progress.json", seen.progress, evidence.progress))  # fmt: skip
    faults = [f"{name}: {seen.fault}" for name, seen, _ in documents if seen is not None and seen.fault]
    if faults:
        raised[names.HEARTBEAT_UNREADABLE] = "; ".join(faults)
    for name, beat, memory in documents:
        detail = _skew(name, beat, memory)
        if detail:
            raised[names.CLOCK_SKEW] = detail
            break
    told = seen.knows_step
    loss = told.loss if told else None
    if told is not None and loss is not None and not math.isfinite(loss):
        step = told.step if told.not_finite_since is None else told.not_finite_since
        since = f" since step {step}" if step is not None else ""
        text = f"the loss is {'NaN' if math.isnan(loss) else 'infinite'}{since}"
        raised[names.LOSS_NAN] = evidence.known_nan or text
    elif loss is None and evidence.known_nan is not None:
        # It could not be read this time, or was tidied up.
        raised[names.LOSS_NAN] = evidence.known_nan
    return raised


def _skew(name: str, seen: Heartbeat | None, memory: HeartbeatMemory | None) -> str | None:
    if memory is None or memory.own_time is None or memory.missing_since is not None:
        return None
    if memory.suspect:
        lag_s = memory.lag_s - memory.skew_s
        what = f"the timestamp in {name} is {format_duration(lag_s)} older than the file"
        if seen is not None and looks_local(seen, lag_s):
            return f"{what}: it looks like local time without a zone; write UTC, with a Z"
        return f"{what}: an old document stored again, or a slow clock"
    if abs(memory.skew_s) > SKEW_TOLERANCE_S:
        direction = "behind" if memory.skew_s > 0 else "ahead of"
        return f"the clock of the instance is {format_duration(abs(memory.skew_s))} {direction} the store's"
    return None
