"""One tick of one run: observe, decide, explain, record, carry out, settle."""

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.decide.transition import Decision, decide, with_explanation, with_silence
from lastbeat.deliver.message import Excerpts, RunLocation, compose, hangs
from lastbeat.deliver.port import Channel
from lastbeat.effects import actions
from lastbeat.effects.blindness import BlindnessAlert, state_key
from lastbeat.effects.deferral import DeliveryCounts, defer, failed_deliveries
from lastbeat.effects.executor import Executor
from lastbeat.effects.outbox import enqueue, failures
from lastbeat.effects.runner import ClaimedEffects, EffectResults, EffectRunner
from lastbeat.model import runid
from lastbeat.model.action import Action
from lastbeat.model.alert import Message
from lastbeat.model.observation import NeverSeen, Seen, Unreadable
from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import Policy
from lastbeat.model.record import Record
from lastbeat.model.status import Status
from lastbeat.model.times import format_time
from lastbeat.observe.log_observer import LogObserver, LogSettings
from lastbeat.observe.run import Observer
from lastbeat.record.repository import RecordRepository
from lastbeat.record.silences import Silences
from lastbeat.stores.port import ConflictError, Entry, Store, StoreError, UnreachableError
from lastbeat.stores.volatile import VolatileStore

log = logging.getLogger(__name__)

_RACES: Final = 5
_PAUSE_S: Final = 0.02
"""Pause before a failed write of the record is retried; it doubles each time."""
_LOOK_AT_LOGS: Final = (
    "Nothing else shows whether this run lives: make sure that the watcher may read its log (LASTBEAT_LOGS, --log)."
)


def no_link(_run_id: str) -> None:
    """Runs have no web address."""


@dataclass(frozen=True)
class WatchContext:
    """What all watches of a fleet root share."""

    store: Store
    """The fleet root."""
    channels: Sequence[Channel]
    policy: Policy
    clock: Callable[[], datetime]
    """This host's clock, used only while the store's cannot be read."""
    state: Store | None = None
    """Keeps what cannot lie beside the run: a record that the store refuses, and since when the watchdog is blind."""
    link: Callable[[str], str | None] = no_link
    """Run id → a web address of the run."""
    mask: Callable[[str], str] = str
    """Masks the settings' secrets in text that training wrote."""
    silences: Silences | None = None
    """Runs that they cover raise no alerts."""
    signals: LogSettings = field(default_factory=LogSettings)
    """What to look for in the run's logs."""
    executors: Sequence[Executor] = ()
    """Carry out actions; one executor per kind."""
    dry_run: bool = False
    """Decide, and neither write nor send."""
    in_fleet: bool = False
    """The watch belongs to a sweep, which raises its own blindness alert."""
    proven: bool = False
    """The store is known to honour conditional writes."""
    defer_s: float = 0.0
    """Alerts that a group of runs may tell are deferred for this long, for :meth:`Watch.amend`. 0: nobody groups
    them."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found, and the record before it."""

    seen: Seen | NeverSeen
    record: Record | None
    now: datetime
    """The store's time."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A decision with its cause, and the record it leads to, effects included."""

    decision: Decision
    record: Record
    alerts: tuple[Message, ...] = ()
    """Those that this decision added to the record."""


class _OvertakenError(Exception):
    """Another watcher wrote the record during a look, so nothing follows from it. ``outcome``: what it had decided."""

    def __init__(self, outcome: Outcome | None = None) -> None:
        super().__init__()
        self.outcome = outcome


class Watch:
    """Watches one run. Between ticks it keeps only what saves requests, nothing that a restart would miss."""

    def __init__(self, run_id: str, context: WatchContext) -> None:
        self.run_id = runid.check_run_id(run_id)
        self._context = context
        store, policy, state = context.store, context.policy, context.state
        self._location = RunLocation(f"{store.url.rstrip('/')}/{run_id}/", context.link(run_id))
        token = os.urandom(6).hex()
        self._observer = Observer(store, run_id, context.mask)
        # A log that is read less often could seem dead in between.
        poll_s = None if policy.poll_s is None else min(policy.poll_s, policy.stale_s / 3)
        kept = None if context.dry_run else state
        self._new_log_observer: Callable[[], LogObserver] = lambda: LogObserver(
            store, run_id, context.mask, context.signals, kept, poll_s
        )
        self._logs = self._new_log_observer()
        fallback_key = state_key("records", store.url, run_id)
        self._repository = RecordRepository(
            store,
            f"{run_id}/{runid.RECORD}",
            token,
            state,
            fallback_key,
            proven=context.proven,
            waiting_key=runid.waiting_record(run_id),
        )
        self._runner = EffectRunner(self._repository, context.channels, policy.lease_s, store.clock, context.executors)
        memory = RecordRepository(state or VolatileStore(context.clock), state_key("blind", store.url, run_id), token)
        self._blindness = BlindnessAlert(memory, context.channels, policy, self._location, context.clock)

    def tick(self, listed: Mapping[str, Entry] | None = None, at: datetime | None = None) -> Outcome:
        """Look at the run once, and act on it. Never raises for anything that the store, a channel or an executor does.

        ``listed`` are the run's files by their name below its folder, as a sweep has just listed them, and ``at`` the
        store's time right before. They serve the first look only: a look that another watcher overtook starts afresh.
        """
        overtaken: Outcome | None = None
        for _ in range(_RACES):
            try:
                return self._steps(listed, at, again=overtaken is not None)
            except _OvertakenError as race:
                overtaken = race.outcome or overtaken
            listed = at = None
        return overtaken or self._blind(StoreError("the record changed at every look: too many watchers at once"))

    def _steps(self, listed: Mapping[str, Entry] | None, at: datetime | None, *, again: bool) -> Outcome:
        """The six steps. ``again``: this tick has looked before.

        1. *Observe*: list the run's files, read what changed, the record, and the logs as far as they grew.
        2. *Decide*: pure; touches nothing.
        3. *Explain*: if there is something to tell, read logs in depth and compose the alerts.
        4. *Record*: one conditional write of the new state with its effects, and claims on them.
        5. *Carry out* what was claimed: send alerts, perform actions.
        6. *Settle*: record what came of it.

        Raises :class:`_OvertakenError` if another watcher wrote the record in between.
        """
        try:
            look = self._observe(listed, at, again=again)
        except ConflictError as error:
            raise _OvertakenError from error
        except StoreError as error:
            return self._blind(error)
        decision = decide(look.record, self.run_id, look.seen, self._context.policy, look.now)
        if decision.unobservable is not None:
            return self._blind(UnreachableError(decision.unobservable, _LOOK_AT_LOGS))
        conclusion = self._explain(decision, look)
        if self._context.dry_run:
            return self._outcome(conclusion, look, conclusion.record)
        try:
            claimed = self._record(conclusion, look)
        except ConflictError as error:
            # The other watcher may have made the very same decision: look again, decide again.
            why = "other watchers were faster every time"
            raise _OvertakenError(self._unrecorded(conclusion, look, why)) from error
        except StoreError as error:
            # It can observe but tell nobody: to people that is as good as blind.
            self._lost_sight(f"what it decides cannot be recorded: {error}")
            return self._unrecorded(conclusion, look, str(error))
        results = self._runner.carry_out(claimed)
        record = self._settle(claimed, results, conclusion)
        return self._outcome(conclusion, look, record)

    def _observe(self, listed: Mapping[str, Entry] | None, at: datetime | None, *, again: bool) -> Look:
        """What the store shows of the run now. Raises :class:`StoreError`, :class:`ConflictError` where the record is
        younger than the listing."""
        now = at if listed is not None and at is not None else self._context.store.clock()
        seen, entry = self._observer.look(dict(listed) if listed is not None else None)
        self._repository.homeless = isinstance(seen, NeverSeen) and not self._observer.files
        record = self._repository.load(entry)
        observed = self._logs.add_to(seen, self._observer.files, record, now, again=again)
        # A log elsewhere on this machine proves that it is no typing error.
        self._repository.homeless &= isinstance(observed, NeverSeen)
        return Look(observed, record, now)

    def _explain(self, decision: Decision, look: Look) -> Conclusion:
        """The decision with its cause, and the record with its effects in it.

        1. Find the cause by a deep read of the logs, where the decision asks for that.
        2. Drop the alerts if the run is silenced.
        3. Compose the others, with the end of the log and the stack, and put them into the outbox.
        4. Put the actions beside them.
        """
        self._logs.begin(decision.record.attempt)
        if decision.needs_explanation:
            error = decision.seen.error
            found = self._logs.explain(self._observer.files, error.text if error else None)
            decision = with_explanation(decision, found)
        if decision.events and self._context.silences is not None:
            why = self._context.silences.why(self.run_id, look.now)
            decision = decision if why is None else with_silence(decision, self._context.mask(why))
        record = decision.record
        if decision.events:
            excerpts = self._excerpts(decision)
            for event in decision.events:
                message = compose(decision, event, self._location, excerpts, look.now).masked(self._context.mask)
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

    def _record(self, conclusion: Conclusion, look: Look) -> ClaimedEffects:
        record = conclusion.record
        if self._context.defer_s > 0:
            now = self._context.store.clock()
            until = now + timedelta(seconds=self._context.defer_s)
            record = defer(record, conclusion.decision.record.alerts, self._runner.identities, now, until)
        return self._runner.record(record, look.now, must_write=conclusion.decision.must_write)

    def _settle(self, claimed: ClaimedEffects, results: EffectResults, conclusion: Conclusion) -> Record:
        transition, verdict = conclusion.decision.transition, conclusion.decision.verdict
        if transition is not None:
            before = transition.before or "not seen before"
            log.info("%s: %s → %s: %s", self.run_id, before, transition.after, transition.reason)
        else:
            log.debug("%s: still %s: %s", self.run_id, verdict.status, verdict.reason)
        record = self._runner.settle(claimed, results)
        self._logs.save(over=conclusion.decision.verdict.by_sentinel)
        if not self._context.in_fleet:
            self._blindness.regained(self.run_id)
        return record

    def amend(
        self, numbers: Collection[int], change: Callable[[Record, Sequence[str]], Record], now: datetime
    ) -> DeliveryCounts:
        """Apply ``change`` (record, channel identities → record) to the deferred alerts with these ``numbers``, and
        send those that are due then. Never raises; a later pass tries again what fails."""
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
                    # Somebody deleted it, but this process still knows it.
                    self._repository.keep(known)
                    record = known
            except StoreError as error:
                # Nothing was sent, so a retry does no harm. Without it an alert that a group told would go out, too.
                if not error.retryable or tried + 1 == _RACES:
                    raise
                time.sleep(_PAUSE_S * 2**tried)
            else:
                sent, failed = max(0, after.delivered - record.delivered), failed_deliveries(after, numbers, identities)
                return DeliveryCounts(sent, failed, self._runner.pending(after, now))
        return DeliveryCounts(pending=len(numbers))

    # What callers may ask of a watch.

    @property
    def record_version(self) -> str | None:
        """The version of the record beside the run, as this watch last saw or wrote it."""
        return self._repository.version

    @property
    def alerts(self) -> int:
        """How many alerts the record holds, including settled ones."""
        return len(self._repository.record.outbox) if self._repository.record is not None else 0

    @property
    def owes(self) -> bool:
        """Whether it has sent alerts that it could not record yet. Forgetting the watch would send them again."""
        return bool(self._runner.unsettled)

    @property
    def reads_logs(self) -> bool:
        """Whether it keeps what logs have said so far."""
        return self._logs.began

    def forget_logs(self) -> None:
        """Drop that. The next tick finds it in the state directory, or reads the logs anew."""
        self._logs = self._new_log_observer()

    def remember(self, record: Record) -> None:
        """Use ``record``, known from before, should the run have none."""
        if self._repository.record is None:
            self._repository.keep(record)

    # What a tick returns.

    def _outcome(self, conclusion: Conclusion, look: Look, record: Record) -> Outcome:
        decision, verdict = conclusion.decision, conclusion.decision.verdict
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
            alerts=conclusion.alerts,
            pending=self._runner.pending(record, look.now),
            delivered=record.delivered,
            failures=failures(record, look.now),
            notes=(*self._notes(record), *decision.seen.log_notes),
        )

    def _unrecorded(self, conclusion: Conclusion, look: Look, why: str) -> Outcome:
        """Observed and decided, but not recorded, so nothing was sent, and the next pass decides again."""
        outcome = self._outcome(replace(conclusion, alerts=()), look, conclusion.record)
        note = f"The decision could not be recorded, so no alert was sent yet: {why}"
        # Without channels no alert is outstanding.
        recorded = not self._context.in_fleet and not self._runner.identities
        return replace(outcome, recorded=recorded, transition=None, notes=(*outcome.notes, note))

    def _lost_sight(self, why: str) -> None:
        if not self._context.in_fleet:
            self._blindness.lost(self.run_id, why)

    def _blind(self, error: StoreError) -> Outcome:
        known = self._repository.record
        if not self._context.dry_run:
            self._lost_sight(str(error))
        now = self._context.clock()
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
                f"{self._context.store.url} ignores conditional writes: with more than one watcher an alert may go out "
                "twice."
            )
        if record is not None and record.status is not None and record.status.is_foreign:
            notes.append(
                f"The status {record.status} was given by a newer lastbeat: this one leaves it as it is. Upgrade "
                "lastbeat on this machine."
            )
        return tuple(notes)
