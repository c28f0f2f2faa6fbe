"""One round over one run: observe, decide, explain, record, carry out, settle."""

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.decide.transition import Decision, decide, explained, silenced
from lastbeat.deliver.message import Excerpts, RunLocation, compose, hangs
from lastbeat.deliver.port import Channel
from lastbeat.effects import actions
from lastbeat.effects.blindness import BlindnessAlert, state_key
from lastbeat.effects.deferral import DeliveryCounts, defer, trouble
from lastbeat.effects.executor import Executor
from lastbeat.effects.outbox import enqueue, failures
from lastbeat.effects.runner import Carried, Claimed, EffectRunner
from lastbeat.model import runid
from lastbeat.model.action import Action
from lastbeat.model.alert import Message
from lastbeat.model.observation import NeverSeen, Seen, Unreadable
from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import Policy
from lastbeat.model.record import Record
from lastbeat.model.status import Status
from lastbeat.model.times import format_time
from lastbeat.observe.reading import LogSettings, Reading
from lastbeat.observe.run import Observer
from lastbeat.record.repository import RecordRepository
from lastbeat.record.silences import Silences
from lastbeat.stores.port import ConflictError, Entry, Store, StoreError, UnreachableError
from lastbeat.stores.volatile import VolatileStore

log = logging.getLogger(__name__)

_RACES: Final = 5
_PAUSE_S: Final = 0.02
"""Before a record that could not be written is tried again; each pause is twice the one before."""
_LOOK_AT_LOGS: Final = (
    "Nothing else tells of this run: check that whoever watches may read its log (LASTBEAT_LOGS, --log)."
)


def no_link(_run_id: str) -> None:
    """There is no web address of a run."""


@dataclass(frozen=True)
class WatchContext:
    """What every watch of a fleet root stands on, whichever run it is of."""

    store: Store
    """The fleet root."""
    channels: Sequence[Channel]
    policy: Policy
    clock: Callable[[], datetime]
    """This host's, used only while the store's cannot be asked."""
    state: Store | None = None
    """Keeps what cannot lie beside the run: a record that the store refuses, the watchdog's own blindness."""
    link: Callable[[str], str | None] = no_link
    """Run id → a web address of the run."""
    mask: Callable[[str], str] = str
    """Hides the secrets of the settings in whatever training wrote."""
    silences: Silences | None = None
    """What they cover is not told."""
    signals: LogSettings = field(default_factory=LogSettings)
    """Looked for in the run's logs."""
    executors: Sequence[Executor] = ()
    """Carry out what is to be done to the world; one a kind of action."""
    dry_run: bool = False
    """Decide, and neither write nor send."""
    in_fleet: bool = False
    """The watch belongs to a sweep, which itself tells people when it is blind."""
    proven: bool = False
    """The store is known to honour conditional writes."""
    defer_s: float = 0.0
    """Alerts that a group of runs may tell are held so long, for :meth:`Watch.amend`. 0: nobody groups them."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found, and what was known before it."""

    seen: Seen | NeverSeen
    record: Record | None
    now: datetime
    """The store's time."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A decision with its cause, and the record that it leads to: its effects stand in it."""

    decision: Decision
    record: Record
    alerts: tuple[Message, ...] = ()
    """Those that this decision added to the record."""


class Watch:
    """Watches one run. Holds what spares requests between ticks, and nothing that a restart would miss."""

    def __init__(self, run_id: str, context: WatchContext) -> None:
        self.run_id = runid.check_run_id(run_id)
        self._on = context
        store, policy, state = context.store, context.policy, context.state
        self._place = RunLocation(f"{store.url.rstrip('/')}/{run_id}/", context.link(run_id))
        token = os.urandom(6).hex()
        self._observer = Observer(store, run_id, context.mask)
        # What is read less often than that could seem dead in between.
        poll_s = None if policy.poll_s is None else min(policy.poll_s, policy.stale_s / 3)
        kept = None if context.dry_run else state
        self._new_reading: Callable[[], Reading] = lambda: Reading(
            store, run_id, context.mask, context.signals, kept, poll_s
        )
        self._reading = self._new_reading()
        fallback_key = state_key("records", store.url, run_id)
        self._repository = RecordRepository(
            store, f"{run_id}/{runid.RECORD}", token, state, fallback_key, proven=context.proven
        )
        self._runner = EffectRunner(self._repository, context.channels, policy.lease_s, store.clock, context.executors)
        memory = RecordRepository(state or VolatileStore(context.clock), state_key("blind", store.url, run_id), token)
        self._blindness = BlindnessAlert(memory, context.channels, policy, self._place, context.clock)

    def tick(self, listed: Mapping[str, Entry] | None = None, at: datetime | None = None) -> Outcome:
        """Once round. Never raises for anything that the store, a channel or an executor does.

        ``listed`` are the run's files by their name below its folder, as a sweep has just listed them, and ``at`` the
        store's time right before: what was fresh then may be old now, but nobody has looked again.

        1. *Observe*: list, read what changed, the record and the logs as they grew.
        2. *Decide*: pure.
        3. *Explain*: where there is something to tell, read why, from logs in depth.
        4. *Record*: one conditional write of the new state, its effects, and claims on them. Whoever loses it to
           another watcher looks again.
        5. *Carry out* what was claimed: tell people, change the world.
        6. *Settle*: write down what came of it.
        """
        lost: Outcome | None = None
        looked = False
        for _ in range(_RACES):
            try:
                look = self._observe(listed, at, again=looked)
            except ConflictError:
                continue
            except StoreError as error:
                return self._blind(error)
            finally:
                # Whatever sends this look back to its beginning wants a listing of its own.
                listed = at = None
            looked = True
            decision = decide(look.record, self.run_id, look.seen, self._on.policy, look.now)
            if decision.unseen is not None:
                return self._blind(UnreachableError(decision.unseen, _LOOK_AT_LOGS))
            told = self._explain(decision, look)
            if self._on.dry_run:
                return self._outcome(told, look, told.record)
            try:
                claimed = self._record(told, look)
            except ConflictError:
                # Somebody else was faster, perhaps with the same decision: look again, decide again.
                lost = self._unrecorded(told, look, "other watchers were faster every time")
            except StoreError as error:
                # It sees, but can tell nobody: for people that is as good as blind.
                self._lost_sight(f"what it decides cannot be recorded: {error}")
                return self._unrecorded(told, look, str(error))
            else:
                carried = self._runner.carry_out(claimed)
                return self._outcome(told, look, self._settle(claimed, carried, told))
        return lost or self._blind(StoreError("the record changed at every look: too many watchers at once"))

    def _observe(self, listed: Mapping[str, Entry] | None, at: datetime | None, *, again: bool) -> Look:
        now = at if listed is not None and at is not None else self._on.store.clock()
        seen, entry = self._observer.look(dict(listed) if listed is not None else None)
        record = self._repository.load(entry)
        return Look(self._reading.add_to(seen, self._observer.files, record, now, again=again), record, now)

    def _explain(self, decision: Decision, look: Look) -> Conclusion:
        """Why it is as it is, what people are told of it, and what they wish not to be told."""
        self._reading.begin(decision.record.attempt)
        if decision.unexplained:
            error = decision.seen.error
            decision = explained(decision, self._reading.explain(self._observer.files, error.text if error else None))
        if decision.events and self._on.silences is not None:
            why = self._on.silences.why(self.run_id, look.now)
            decision = decision if why is None else silenced(decision, self._on.mask(why))
        record = decision.record
        if decision.events:
            read = self._excerpts(decision)
            for event in decision.events:
                message = compose(decision, event, self._place, read, look.now).masked(self._on.mask)
                record = enqueue(record, message, self._runner.identities)
        for effect in decision.effects:
            record = actions.request(record, effect) if isinstance(effect, Action) else record
        alerts = tuple(alert.message for alert in record.outbox if alert.number > decision.record.alerts)
        return Conclusion(decision, record, alerts)

    def _excerpts(self, decision: Decision) -> Excerpts:
        lines, fault = self._observer.log_tail() if decision.seen.log is not None else ((), None)
        stack, torn = self._observer.stack() if hangs(decision) else ((), None)
        notes = (*(note for note in (fault, torn, self._repository.note) if note), *decision.seen.log_notes)
        return Excerpts(lines, stack, notes)

    def _record(self, told: Conclusion, look: Look) -> Claimed:
        record = told.record
        if self._on.defer_s > 0:
            now = self._on.store.clock()
            until = now + timedelta(seconds=self._on.defer_s)
            record = defer(record, told.decision.record.alerts, self._runner.identities, now, until)
        return self._runner.record(record, look.now, must_write=told.decision.must_write)

    def _settle(self, claimed: Claimed, carried: Carried, told: Conclusion) -> Record:
        transition, verdict = told.decision.transition, told.decision.verdict
        if transition is not None:
            before = transition.before or "not seen before"
            log.info("%s: %s → %s: %s", self.run_id, before, transition.after, transition.reason)
        else:
            log.debug("%s: still %s: %s", self.run_id, verdict.status, verdict.reason)
        record = self._runner.settle(claimed, carried)
        self._reading.save(over=told.decision.verdict.by_sentinel)
        if not self._on.in_fleet:
            self._blindness.regained(self.run_id)
        return record

    def amend(
        self, numbers: Collection[int], change: Callable[[Record, Sequence[str]], Record], now: datetime
    ) -> DeliveryCounts:
        """Change deferred alerts, those with these ``numbers``, as ``change`` makes of (record, channels), and send
        what is due then. Never raises; what fails is tried again by a later pass."""
        try:
            return self._amend(numbers, change, now)
        except StoreError as error:
            log.warning("%s: deferred alerts stay deferred for now: %s", self.run_id, error)
            return DeliveryCounts(pending=len(numbers))

    def _amend(
        self, numbers: Collection[int], change: Callable[[Record, Sequence[str]], Record], now: datetime
    ) -> DeliveryCounts:
        identities = self._runner.identities
        record = self._repository.record or self._repository.reload()
        for tried in range(_RACES):
            changed = change(record, identities) if record is not None else None
            if record is None or changed is None or changed is record:
                return DeliveryCounts(pending=self._runner.pending(record, now))
            try:
                after = self._runner.round(changed, now, must_write=True)
            except ConflictError:
                known, record = record, self._repository.reload()
                if record is None:
                    # Whoever deleted it did not make this process forget.
                    self._repository.keep(known)
                    record = known
            except StoreError as error:
                # Nothing was sent, so trying again does no harm; a group may have told it, and must not twice.
                if not error.retryable or tried + 1 == _RACES:
                    raise
                time.sleep(_PAUSE_S * 2**tried)
            else:
                sent, failed = max(0, after.delivered - record.delivered), trouble(after, numbers, identities)
                return DeliveryCounts(sent, failed, self._runner.pending(after, now))
        return DeliveryCounts(pending=len(numbers))

    # What is known of the watching.

    @property
    def record_version(self) -> str | None:
        """The version of the record beside the run, as this watch last saw or wrote it."""
        return self._repository.version

    @property
    def alerts(self) -> int:
        """How many alerts the record holds, settled ones included."""
        return len(self._repository.record.outbox) if self._repository.record is not None else 0

    @property
    def owes(self) -> bool:
        """Whether it has sent what it could not write down yet: whoever forgets it sends that again."""
        return bool(self._runner.unsettled)

    @property
    def reads_logs(self) -> bool:
        """Whether it holds what logs have said so far."""
        return self._reading.began

    def forget_logs(self) -> None:
        """Let go of that; the next tick finds it in the state directory, or reads the logs anew."""
        self._reading = self._new_reading()

    def remember(self, record: Record) -> None:
        """What is known of the run from before, should its record be gone."""
        if self._repository.record is None:
            self._repository.keep(record)

    # What a tick answers.

    def _outcome(self, told: Conclusion, look: Look, record: Record) -> Outcome:
        decision, verdict = told.decision, told.decision.verdict
        return Outcome(
            run_id=self.run_id,
            status=verdict.status,
            reason=verdict.reason,
            observation=look.seen,
            at=look.now,
            cause=verdict.cause,
            explained=verdict.explained,
            action=verdict.action,
            conditions=verdict.conditions,
            record=record,
            last_metadata_at=decision.record.last_metadata_at,
            last_progress_at=decision.record.last_progress_at,
            step_source=decision.seen.knows_step,
            transition=decision.transition,
            alerts=told.alerts,
            pending=self._runner.pending(record, look.now),
            delivered=record.delivered,
            failures=failures(record, look.now),
            notes=(*self._notes(record), *decision.seen.log_notes),
        )

    def _unrecorded(self, told: Conclusion, look: Look, why: str) -> Outcome:
        """Seen and decided, but not written down: so nothing was sent either, and the next pass decides again."""
        outcome = self._outcome(replace(told, alerts=()), look, told.record)
        note = f"The decision could not be recorded, so no alert was sent yet: {why}"
        # Without channels there is nothing to come for which anybody would have to wait.
        recorded = not self._on.in_fleet and not self._runner.identities
        return replace(outcome, recorded=recorded, transition=None, notes=(*outcome.notes, note))

    def _lost_sight(self, why: str) -> None:
        if not self._on.in_fleet:
            self._blindness.lost(self.run_id, why)

    def _blind(self, error: StoreError) -> Outcome:
        known = self._repository.record
        if not self._on.dry_run:
            self._lost_sight(str(error))
        now = self._on.clock()
        notes = self._notes(known)
        if known is not None and known.status is not None:
            notes = (f"Last known status: {known.status} since {format_time(known.since)}", *notes)
        return Outcome(
            run_id=self.run_id,
            status=Status.UNKNOWN,
            reason=str(error),
            observation=Unreadable(str(error), error.advice),
            at=now,
            action=error.advice or None,
            record=known,
            last_metadata_at=known.last_metadata_at if known else None,
            last_progress_at=known.last_progress_at if known else None,
            pending=self._runner.pending(known, now),
            delivered=known.delivered if known else 0,
            failures=failures(known, now) if known else (),
            notes=notes,
        )

    def _notes(self, record: Record | None) -> tuple[str, ...]:
        notes = [self._repository.note] if self._repository.note else []
        if record is not None and record.conditional_writes is False:
            notes.append(
                f"{self._on.store.url} ignores conditional writes: with more than one watcher an alert may go out "
                "twice."
            )
        if record is not None and record.status is not None and record.status.is_foreign:
            notes.append(
                f"The status {record.status} was given by a newer lastbeat: this one leaves it as it is. Upgrade "
                "lastbeat on this machine."
            )
        return tuple(notes)
