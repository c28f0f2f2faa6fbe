"""What a restart policy's ``on:`` does at a look: about signals, conditions, transitions and saved checkpoints. Pure.

Transitions come from the record's history, whichever watcher recorded them, so a faster sweep takes no reaction away.
Each occasion has a name that never recurs, and the actions for it are named after it.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple

from lastbeat.model.action import Action
from lastbeat.model.checkpoint import Checkpoint
from lastbeat.model.job import JobSight, JobState
from lastbeat.model.reaction import CHECKPOINT_SAVED, COMMAND_KIND, PolicyNote, ReactionMemory
from lastbeat.model.record import Record, Transition
from lastbeat.model.restart import Reaction, RestartPolicy
from lastbeat.model.status import Status
from lastbeat.model.text import fit, one_line
from lastbeat.watch.decide.transition import Decision

ON: Final = "on"
AT: Final = "at"
"""In a command's action: its index among the reactions to ``on``, from 0."""
CONDITION: Final = "condition"
"""In an occasion's values: the condition that it is."""
PLACE: Final = "place"
"""In a command's action: the machine that runs it."""
VALUE: Final = "value:"
"""Prefix of the name of a value in a command's action."""
MOST_COMMANDS: Final = 8
"""At most this many commands wait or run at once; later ones are left out, and the alert says so."""
MOST_SAVED: Final = 64
KEPT_NOTES: Final = 20
_VALUE_LIMIT: Final = 500
_NOTE_LIMIT: Final = 300
_MOST_SIGNALS: Final = 100
_OF_STATUS: Final = {
    Status.SUCCEEDED: "succeeded",
    Status.FAILED: "failed",
    Status.TIMED_OUT: "timed_out",
    Status.CANCELLED: "cancelled",
    Status.PREEMPTED: "preempted",
}
_RAN: Final = frozenset(
    {JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED, JobState.TIMEOUT, JobState.NODE_LOST, JobState.PREEMPTED}
)


@dataclass(frozen=True, slots=True)
class Occasion:
    """Something that ``on:`` may name."""

    on: str
    name: str
    """Identifies the occasion permanently: ``checkpoint-1500``, ``failed-7``."""
    values: Mapping[str, str] = field(default_factory=dict)
    """What is known of the occasion, in addition to what is known of the run."""


class _Look(NamedTuple):
    policy: RestartPolicy
    decision: Decision
    sight: JobSight
    place: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Reacted:
    """What is to be done."""

    memory: ReactionMemory
    notes: tuple[str, ...] = ()
    """For the alert of this look."""
    commands: tuple[Action, ...] = ()
    stop: Occasion | None = None
    """The occasion that the job is to be ended for, or None."""
    restart: Occasion | None = None
    """The occasion for which the policy decides whether to start the job again, or None."""
    warns: bool = False
    """An alert is due even if this look raises no other."""


def react(
    policy: RestartPolicy, decision: Decision, sight: JobSight, saved: Sequence[Checkpoint], place: str, now: datetime
) -> Reacted:
    """What ``policy`` does about this look. ``saved`` are the complete checkpoints that were found, the oldest first;
    ``place`` names this machine.

    1. Find the occasions that were not answered yet, and remember them.
    2. Carry out each reaction: notes here; commands, a stop and a restart are for the caller.
    """
    began, memory = _began(decision.record, sight, answered_occasions(decision))
    changes, memory = _changes(decision, sight, memory)
    signals, memory = _signals(policy, decision, sight, memory)
    checkpoints, memory = _saved(saved, memory)
    look, reacted = _Look(policy, decision, sight, place, now), Reacted(memory)
    for occasion in (*began, *changes, *signals, *checkpoints):
        for at, reaction in enumerate(policy.reactions.get(occasion.on, ())):
            reacted = _carried(look, reacted, occasion, at, reaction)
    return reacted


def answered_occasions(decision: Decision) -> ReactionMemory:
    """The occasions answered before this look. Before the first answer, whatever was there already is no news."""
    record = decision.record
    if record.reactions is not None:
        return record.reactions
    before = record.transitions - 1 if decision.transition is not None else record.transitions
    return ReactionMemory(transitions=before)


def noted(memory: ReactionMemory, on: str, text: str, now: datetime) -> ReactionMemory:
    """``memory`` with one note more."""
    note = PolicyNote(now, on, fit(one_line(text), _NOTE_LIMIT))
    return replace(memory, notes=(*memory.notes, note)[-KEPT_NOTES:])


def filled(template: str, values: Mapping[str, str]) -> str:
    """``template`` with its values filled in, in one pass: a value is never read as a template. Unknown values become
    empty."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], ""), template)


def arguments(command: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """A program and its arguments, with each value inside one of them. A value that would begin an argument with a dash
    gets a space before it, so that no program takes it for an option."""
    told = []
    for template in command:
        text = filled(template, values)
        told.append(f" {text}" if text.startswith("-") and not template.startswith("-") else text)
    return tuple(told)


def values_of(action: Action) -> dict[str, str]:
    """The values that a command's action carries, by name."""
    return {name.removeprefix(VALUE): text for name, text in action.details.items() if name.startswith(VALUE)}


def _began(record: Record, sight: JobSight, memory: ReactionMemory) -> tuple[list[Occasion], ReactionMemory]:
    job = sight.memory
    if sight.report.state not in _RAN or memory.job == job.key:
        return [], memory
    again = bool(record.restarts) or job.restarts > 0
    life = f"{job.name}.{job.restarts}" if job.restarts else job.name
    found = [Occasion("restarted" if again else "started", f"{'restarted' if again else 'started'}-{life}")]
    if job.restarts > 0 and not _was_preempted(record):
        # Its scheduler preempted it, and started it again.
        found.insert(0, Occasion("preempted", f"preempted-{life}"))
    return found, replace(memory, job=job.key)


def _was_preempted(record: Record) -> bool:
    """Whether its last attempt reported the preemption itself, which was an occasion already."""
    ends = [each for each in record.history if each.attempt < record.attempt.number and each.after.finished]
    return bool(ends) and ends[-1].after is Status.PREEMPTED


def _changes(decision: Decision, sight: JobSight, memory: ReactionMemory) -> tuple[list[Occasion], ReactionMemory]:
    record, found = decision.record, list[Occasion]()
    before: Transition | None = None
    for each in record.history:
        if each.number > memory.transitions:
            newest = each.number == record.transitions
            found += [Occasion(on, f"{on}-{each.number}", _change_values(each)) for on in _names(each, before)]
            if newest and each.after is Status.FAILED:
                also = {JobState.CANCELLED: "cancelled", JobState.PREEMPTED: "preempted"}.get(sight.report.state)
                found += [Occasion(also, f"{also}-{each.number}", _change_values(each))] if also is not None else []
        before = each
    return found, replace(memory, transitions=max(memory.transitions, record.transitions))


def _names(each: Transition, before: Transition | None) -> list[str]:
    if each.after in _OF_STATUS:
        return [_OF_STATUS[each.after]] if each.before is not each.after or _is_new(each, before) else []
    unwell = each.before in {Status.TIMED_OUT, Status.FAILED, Status.CANCELLED, Status.PREEMPTED}
    return ["recovered"] if each.after is Status.RUNNING and unwell and not _is_new(each, before) else []


def _is_new(each: Transition, before: Transition | None) -> bool:
    return before is not None and each.attempt != before.attempt


def _change_values(each: Transition) -> dict[str, str]:
    return {
        "status": each.after.value,
        "reason": each.reason,
        "error_type": each.cause or "",
        "attempt": str(each.attempt),
    }


def _signals(
    policy: RestartPolicy, decision: Decision, sight: JobSight, memory: ReactionMemory
) -> tuple[list[Occasion], ReactionMemory]:
    """Occasions of signals and conditions, each once an attempt."""
    number = decision.record.attempt.number
    answered = memory.signals if memory.attempt == number else ()
    logs, since = decision.seen.logs, sight.memory.submitted_at.replace(microsecond=0)
    shown = {name for name, at in logs.last_seen.items() if at >= since} if logs is not None else set()
    explained = decision.verdict.explained
    if explained is not None and decision.verdict.status is not Status.RUNNING:
        shown.add(explained.cause.signal)
    # A condition of another status is not known to stand.
    stands = decision.verdict.conditions if decision.verdict.status is Status.RUNNING else {}
    found = []
    for on in sorted(stands.keys() & policy.reactions.keys() - {*answered}):
        answered = (*answered, on)[-_MOST_SIGNALS:]
        found.append(Occasion(on, f"{on}-attempt-{number}", {CONDITION: on, "reason": stands[on]}))
    for on, meant in policy.reaction_signals.items():
        signal = min(meant & shown, default=None)
        if signal is None or on in answered:
            continue
        answered = (*answered, on)[-_MOST_SIGNALS:]
        found.append(Occasion(on, f"{on}-attempt-{number}", {"signal": signal}))
    if not found and memory.attempt == number:
        return [], memory
    return found, replace(memory, attempt=number, signals=answered)


def _saved(saved: Sequence[Checkpoint], memory: ReactionMemory) -> tuple[list[Occasion], ReactionMemory]:
    fresh = [each for each in saved if is_new(each, memory)]
    if not fresh:
        return [], memory
    names = {**memory.saved, **{each.name: each.saved_at for each in fresh}}
    kept = sorted(names, key=lambda name: names[name])
    over, kept = kept[:-MOST_SAVED], kept[-MOST_SAVED:]
    after = max((names[name] for name in over), default=memory.saved_after)
    found = []
    for each in fresh:
        step = "" if each.step is None else str(each.step)
        values = {"checkpoint": each.url, "step": step}
        found.append(Occasion(CHECKPOINT_SAVED, f"checkpoint-{step or _word(each)}", values))
    return found, replace(memory, saved={name: names[name] for name in kept}, saved_after=after)


def is_new(checkpoint: Checkpoint, memory: ReactionMemory) -> bool:
    """Whether the checkpoint was saved since, and was not complete before. One whose name has its step is saved once;
    any other may be overwritten."""
    if memory.saved_after is not None and checkpoint.saved_at <= memory.saved_after:
        return False
    before = memory.saved.get(checkpoint.name)
    return before is None or (checkpoint.step is None and checkpoint.saved_at > before)


def _word(checkpoint: Checkpoint) -> str:
    """Names one save of a checkpoint whose name has no step. The name is untrusted."""
    shown = re.sub(r"[^A-Za-z0-9._-]", "_", checkpoint.name)[:60]
    at = checkpoint.saved_at.strftime("%Y%m%dT%H%M%S")
    digest = hashlib.sha256(checkpoint.name.encode("utf-8", "replace")).hexdigest()[:6]
    return f"{shown}-{digest}-{at}"


def _carried(look: _Look, reacted: Reacted, occasion: Occasion, at: int, reaction: Reaction) -> Reacted:
    policy, decision, sight, place, now = look
    values = _values(decision, sight, occasion)
    in_logs = occasion.on in policy.reaction_signals
    if reaction.note:
        text = fit(one_line(filled(reaction.note, values)), _NOTE_LIMIT)
        memory = noted(reacted.memory, occasion.on, text, now)
        warns = reacted.warns or in_logs
        return replace(reacted, memory=memory, notes=(*reacted.notes, f"on {occasion.on}: {text}"), warns=warns)
    if reaction.action == "stop":
        return replace(reacted, stop=reacted.stop or occasion)
    if reaction.action == "restart":
        return replace(reacted, restart=reacted.restart or occasion)
    open_ = [each for each in decision.record.actions if each.kind == COMMAND_KIND and not each.settled]
    if len(open_) + len(reacted.memory.running) + len(reacted.commands) >= MOST_COMMANDS:
        text = f"a command was not run for {occasion.name}: {MOST_COMMANDS} others wait or run"
        told = any(each.on == occasion.on and "was not run for" in each.text for each in reacted.memory.notes)
        memory = noted(reacted.memory, occasion.on, text, now)
        return replace(reacted, memory=memory, notes=(*reacted.notes, text), warns=reacted.warns or not told)
    before = sum(1 for each in policy.reactions[occasion.on][:at] if each.command)
    action = Action(
        f"command-{occasion.name}" + (f"-{before + 1}" if before else ""),
        COMMAND_KIND,
        now,
        policy.name,
        f"on {occasion.on}",
        decision.record.attempt.number,
        {
            ON: occasion.on,
            AT: str(at),
            PLACE: place,
            **{f"{VALUE}{name}": text for name, text in values.items() if text},
        },
    )
    return replace(reacted, commands=(*reacted.commands, action))


def _values(decision: Decision, sight: JobSight, occasion: Occasion) -> dict[str, str]:
    """Name → what ``{name}`` stands for. Text from training is untrusted, so it is cut to one bounded line."""
    verdict, step = decision.verdict, decision.seen.knows_step
    explained = verdict.explained
    found = {
        "run_id": decision.record.run_id,
        "attempt": str(decision.record.attempt.number),
        "status": verdict.status.value,
        "reason": verdict.reason,
        "error_type": verdict.cause or "",
        "signal": explained.cause.signal if explained is not None else "",
        "step": str(step.step) if step is not None and step.step is not None else "",
        "job_id": sight.memory.id,
        **occasion.values,
    }
    return {name: fit(one_line(text), _VALUE_LIMIT) for name, text in found.items()}
