"""Carries out a policy's ``on:`` for one supervised run.

Only a supervisor or an agent does this. What a record keeps of a policy has no reactions, and
sweeps and Lambdas have no executor that runs a command.

Notes go into the record with the decision that they answer. Commands and stops are actions: claimed in the record, then
done, at most once. A restart is asked of the policy, as the end of a job would be.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.explain.signals.error_types import NOT_FINITE, UNKNOWN
from lastbeat.jobs.checkpoints.layouts import step_in
from lastbeat.jobs.checkpoints.survey import newly_saved
from lastbeat.jobs.supervision.commands import Commands
from lastbeat.jobs.supervision.restart_decisions import add_late_alert
from lastbeat.jobs.supervision.restarting import OLD_JOB, StopExecutor
from lastbeat.model import status as names
from lastbeat.model.action import Action, Notify
from lastbeat.model.checkpoint import Checkpoint
from lastbeat.model.job import JobSight, JobState
from lastbeat.model.reaction import CHECKPOINT_SAVED, STOP_KIND, ReactionMemory
from lastbeat.model.restart import FoundCheckpoint, JobEnd, Mode, RestartPolicy, RestartRuling
from lastbeat.model.signal import Signal
from lastbeat.model.status import Event, Status
from lastbeat.stores.port import Store, StoreError
from lastbeat.watch.decide.reactions import CONDITION, Occasion, Reacted, answered_occasions, is_new, react
from lastbeat.watch.decide.transition import Decision
from lastbeat.watch.effects.actions import Executor

log = logging.getLogger(__name__)

LEAST_S: Final = 1.0
"""The shortest time between two looks for new checkpoints; a look takes a hundredth of that time at most."""
PAID_S: Final = 60.0
"""The same for each listing request, where requests cost money."""
LONGEST_S: Final = 3600.0
_SHARE: Final = 100.0
_MODES: Final = {"stalled": Mode.STALL, "timeout": Mode.TIMEOUT}
"""Verdict of a signal that a job shows → the mode in which the policy is asked."""
_UNSTABLE: Final = frozenset({names.LOSS_SPIKE, names.LOSS_DIVERGING, names.GRAD_NORM_SPIKE, names.GRAD_NORM_DIVERGING})
"""Conditions for which the policy is asked as for numbers that are not finite."""


def no_signal(_name: str) -> Signal | None:
    """Nothing is known of signals."""
    return None


@dataclass
class Reactions:
    """What one policy does about one run."""

    policy: RestartPolicy
    commands: Commands
    stop: StopExecutor
    checkpoints: Callable[[], Store] | None
    """Opens the place of the checkpoints; None: there is none."""
    since: datetime | None
    """When the supervision began: what was saved before is not newly saved."""
    alert_on: frozenset[Event]
    signal: Callable[[str], Signal | None] = no_signal
    """A signal's entry in the catalogue."""
    _saved: tuple[Checkpoint, ...] = ()
    _place: Store | None = None
    _next_look: datetime | None = None
    _last_look_of: str = field(default="")
    """The life of a job after whose end nothing is saved any more."""

    @property
    def executors(self) -> tuple[Executor, ...]:
        return self.commands, self.stop

    def look(self, decision: Decision, now: datetime) -> tuple[Decision, Occasion | None]:
        """``decision`` with what follows from the policy's ``on:``, and what it asks the policy for. Never raises for
        what a store or a launcher does.

        1. See what became of the commands.
        2. Where the launcher could not be asked, nothing else is answered.
        3. Look for new checkpoints, if that is due, and react.
        4. A stop comes before any ruling on a restart.
        5. People hear of it with the alert of this look, or by one of its own.
        """
        before = answered_occasions(decision)
        memory, failed = self.commands.look(decision.record, before, now)
        ends = tuple(
            f"{each.name}: {each.how}{f'; its output: {each.output}' if each.output else ''}" for each in failed
        )
        decision = _with_memory(decision, memory)
        sight = decision.seen.job
        if sight is None or sight.report.state is JobState.UNKNOWN:
            return self._noted(decision, ends, warns=bool(failed)), None
        saved = self._newly_saved(sight, memory, now)
        reacted = react(self.policy, decision, sight, saved, self.commands.place, now)
        for action in reacted.commands:
            log.info("%s: %s is to be run (%s)", decision.record.run_id, action.name, action.why)
        decision = _with_memory(decision, reacted.memory)
        newest = next((each for each in reversed(saved) if is_new(each, memory)), None)
        if newest is not None:
            found = FoundCheckpoint(newest.url, newest.step, newest.saved_at, now)
            decision = replace(decision, record=replace(decision.record, checkpoint=found))
        decision = replace(decision, effects=(*decision.effects, *reacted.commands))
        if reacted.commands:
            decision = replace(decision, must_write=True)
        if reacted.stop is not None:
            decision = self._stopped(decision, sight, reacted.stop, now)
        decision = self._noted(decision, (*ends, *reacted.notes), warns=bool(failed) or reacted.warns)
        return decision, _asks(reacted, decision, sight)

    def end(self, asked: Occasion, known_end: JobEnd) -> JobEnd:
        """How the job would end, if it were started again because of ``asked``: what the policy decides about."""
        shown = self.signal(asked.values.get("signal", ""))
        if CONDITION in asked.values:
            error_type = NOT_FINITE if asked.on in _UNSTABLE else known_end.error_type
            return replace(known_end, mode=Mode.CRASH, error_type=error_type, cause_key=f"{error_type} {asked.on}")
        if shown is None:
            return known_end
        return replace(
            known_end,
            mode=_MODES.get(shown.verdict or "", Mode.CRASH),
            error_type=shown.error_type or UNKNOWN,
            subsystem=shown.subsystem,
            signal=shown.name,
            confidence=1.0,
            cause_key=f"{shown.error_type or UNKNOWN} {shown.name}",
        )

    def warned(self, decision: Decision) -> Decision:
        """``decision`` with an alert, if it has none and people want such."""
        if decision.events or Event.WARNING not in self.alert_on:
            return decision
        return replace(decision, effects=(*decision.effects, Notify(Event.WARNING)))

    def _noted(self, decision: Decision, notes: tuple[str, ...], *, warns: bool) -> Decision:
        decision = replace(decision, notes=(*decision.notes, *notes)) if notes else decision
        return self.warned(decision) if warns else decision

    def _stopped(self, decision: Decision, sight: JobSight, why: Occasion, now: datetime) -> Decision:
        job = sight.memory
        ruling = decision.record.ruling
        decided = ruling is not None and ruling.number >= job.number
        if ruling is not None and decided and (ruling.restart or ruling.on):
            # It is being stopped, or the next one is on its way.
            return decision
        if decision.verdict.status is Status.SUCCEEDED:
            return decision
        reason = f"stopped by the policy {self.policy.name} on {why.on}"
        log.info("%s: stop: %s", decision.record.run_id, reason)
        ruling = RestartRuling(job.number, restart=False, reason=reason, at=now, on=why.on)
        decision = replace(decision, record=replace(decision.record, ruling=ruling), must_write=True)
        if decision.verdict.status.finished:
            decision = replace(decision, restart_note=f"not restarted: {reason}")
            decision = decision if decided else add_late_alert(decision)
        if sight.report.state.ended:
            return decision
        details = {OLD_JOB: job.id}
        number = decision.record.attempt.number
        action = Action(f"stop-{job.name}", STOP_KIND, now, self.policy.name, f"on {why.on}", number, details)
        return replace(decision, effects=(*decision.effects, action))

    def _newly_saved(self, sight: JobSight, memory: ReactionMemory, now: datetime) -> tuple[Checkpoint, ...]:
        """Complete checkpoints, as of the last look for them, the oldest first. Found ones are remembered, because
        another watcher may have been faster to update the record."""
        if self.checkpoints is None or CHECKPOINT_SAVED not in self.policy.reactions:
            return ()
        report, key = sight.report, sight.memory.key
        last = report.state.ended and self._last_look_of != key
        if not last and self._next_look is not None and now < self._next_look:
            return self._saved
        self.since = self.since or now
        began, requests, free = time.monotonic(), 1, False
        # Who was cut off may have left half a checkpoint.
        cut_off = report.state.ended and report.state is not JobState.SUCCEEDED
        try:
            # Kept open: a new one would ask for the time again.
            store = self._place = self._place or self.checkpoints()
            free = store.traits.local
            found, requests = newly_saved(
                store,
                lambda each: self._is_later(each) and is_new(each, memory),
                skipped={name for name in memory.saved if step_in(name) is not None},
                crashed_at=(report.ended_at or now) if cut_off else None,
                over=report.state.ended,
            )
            self._saved, self._last_look_of = found, key if last else self._last_look_of
        except (StoreError, ValueError) as error:
            # Also where the place cannot be understood.
            log.warning("whether a checkpoint was saved is unknown now: %s", error)
        every_s = max(LEAST_S, _SHARE * (time.monotonic() - began), 0.0 if free else PAID_S * requests)
        self._next_look = now + timedelta(seconds=min(every_s, LONGEST_S))
        return self._saved

    def _is_later(self, checkpoint: Checkpoint) -> bool:
        return self.since is None or checkpoint.saved_at > self.since


def _with_memory(decision: Decision, memory: ReactionMemory) -> Decision:
    if memory == decision.record.reactions:
        return decision
    return replace(decision, record=replace(decision.record, reactions=memory), must_write=True)


def _asks(reacted: Reacted, decision: Decision, sight: JobSight) -> Occasion | None:
    """What the policy is asked for: of a job that has ended it is asked anyway."""
    ruling = decision.record.ruling
    decided = ruling is not None and ruling.number >= sight.memory.number
    lives = decision.verdict.status is Status.RUNNING and not sight.report.state.ended
    return reacted.restart if lives and not decided else None
