"""One round over one run: observe, decide, record, deliver, settle."""

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lastbeat.decide.transition import Decision, decide, explained, silenced
from lastbeat.deliver.hold import Tally, hold, keep_holding, release, settle_as_told, trouble
from lastbeat.deliver.message import Excerpts, Place, compose, hangs
from lastbeat.deliver.outbox import enqueue, failures, pending
from lastbeat.deliver.port import Channel
from lastbeat.deliver.rounds import Rounds
from lastbeat.deliver.sight import Sight, state_key
from lastbeat.model import runid
from lastbeat.model.alert import Message
from lastbeat.model.observation import NeverSeen, Seen, Unreadable
from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import Policy
from lastbeat.model.record import Record
from lastbeat.model.redact import redact_message
from lastbeat.model.status import Status
from lastbeat.model.times import format_time
from lastbeat.observe.reading import LogSettings, Reading
from lastbeat.observe.run import Observer
from lastbeat.record.keeper import Keeper
from lastbeat.record.silences import Silences
from lastbeat.stores.port import ConflictError, Entry, Store, StoreError, UnreachableError
from lastbeat.stores.volatile import VolatileStore

log = logging.getLogger(__name__)

_RACES = 5
_PAUSE_S = 0.02
"""Before a record that could not be written is tried again; each pause is twice the one before."""

_LOOK_AT_LOGS = "Nothing else tells of this run: check that whoever watches may read its log (LASTBEAT_LOGS, --log)."


class Watch:
    """Watches one run. Holds what spares requests between ticks, and nothing that a restart would miss.

    ``state`` keeps what cannot lie beside the run: a record that the store refuses, the watchdog's own blindness.
    ``clock`` is this host's, used only while the store's cannot be asked. ``link`` is a web address of the run.
    ``mask`` hides the secrets of the settings in whatever training wrote. What ``silences`` cover is not told. One that
    is not ``alone`` belongs to a sweep, which itself tells people when it is blind. ``proven`` says that the store is
    known to honour conditional writes. With ``hold_s`` the alerts that a group of runs may tell are held that long, for
    :meth:`release`, :meth:`told_by` or :meth:`wait_until`. ``signals`` are looked for in
    the run's logs.
    """

    def __init__(  # noqa: PLR0913 - what a watch stands on, each by its name
        self,
        run_id: str,
        store: Store,
        channels: Sequence[Channel],
        policy: Policy,
        *,
        clock: Callable[[], datetime],
        state: Store | None = None,
        link: str | None = None,
        mask: Callable[[str], str] = str,
        silences: Silences | None = None,
        dry_run: bool = False,
        alone: bool = True,
        proven: bool = False,
        hold_s: float = 0.0,
        signals: LogSettings = LogSettings(),  # noqa: B008 - it is frozen
    ) -> None:
        self.run_id = runid.check_run_id(run_id)
        self._store = store
        self._policy = policy
        self._clock = clock
        self._dry_run = dry_run
        self._alone = alone
        self._hold_s = hold_s
        self._place = Place(f"{store.url.rstrip('/')}/{run_id}/", link)
        token = os.urandom(6).hex()
        fallback_key = state_key("records", store.url, run_id)
        self._mask = mask
        self._silences = silences
        self._observer = Observer(store, run_id, mask)
        # What is read less often than that could seem dead in between.
        poll_s = None if policy.poll_s is None else min(policy.poll_s, policy.stale_s / 3)
        self._reading = Reading(store, run_id, mask, signals, None if dry_run else state, poll_s)
        self._keeper = Keeper(store, f"{run_id}/{runid.RECORD}", token, state, fallback_key, proven=proven)
        self._rounds = Rounds(self._keeper, channels, policy.lease_s, store.clock)
        memory = Keeper(state or VolatileStore(clock), state_key("blind", store.url, run_id), token)
        self._sight = Sight(memory, channels, policy, self._place, clock)

    @property
    def record_version(self) -> str | None:
        """The version of the record beside the run, as this watch last saw or wrote it."""
        return self._keeper.version

    @property
    def alerts(self) -> int:
        """How many alerts the record holds, settled ones included."""
        return len(self._keeper.record.outbox) if self._keeper.record is not None else 0

    @property
    def reads_logs(self) -> bool:
        """Whether it holds what logs have said so far."""
        return self._reading.began

    def remember(self, record: Record) -> None:
        """What is known of the run from before, should its record be gone."""
        if self._keeper.record is None:
            self._keeper.keep(record)

    def tick(self, listed: Mapping[str, Entry] | None = None, at: datetime | None = None) -> Outcome:
        """Once round. Never raises for anything that the store or a channel does.

        ``listed`` are the run's files by their name below its folder, as a sweep has just listed them, and ``at`` the
        store's time right before: what was fresh then may be old now, but nobody has looked again.
        """
        lost: Outcome | None = None
        again = False
        for _ in range(_RACES):
            try:
                now = at if listed is not None and at is not None else self._store.clock()
                seen, entry = self._observer.look(dict(listed) if listed is not None else None)
                # Whatever sends this look back to its beginning wants a listing of its own.
                listed = None
                record = self._keeper.load(entry)
                seen = self._reading.add_to(seen, self._observer.files, record, now, again=again)
                again = True
            except ConflictError:
                continue
            except StoreError as error:
                return self._blind(error)
            decision, record, alerts = self._decide(record, seen, now)
            if decision.unseen is not None:
                return self._blind(UnreachableError(decision.unseen, _LOOK_AT_LOGS))
            if self._dry_run:
                return self._outcome(decision, record, seen, alerts, now)
            try:
                record = self._rounds.carry_out(self._held(record, decision), now, must_write=decision.must_write)
            except ConflictError:
                # Somebody else was faster, perhaps with the same decision: look again, decide again.
                lost = self._unrecorded(decision, record, seen, now, "other watchers were faster every time")
            except StoreError as error:
                # It sees, but can tell nobody: for people that is as good as blind.
                self._lost_sight(f"what it decides cannot be recorded: {error}")
                return self._unrecorded(decision, record, seen, now, str(error))
            else:
                if self._alone:
                    self._sight.regained(self.run_id)
                return self._outcome(decision, record, seen, alerts, now)
        return lost or self._blind(StoreError("the record changed at every look: too many watchers at once"))

    def release(self, numbers: Collection[int], now: datetime) -> Tally:
        """Send these alerts of the run, which were held. Never raises, as :meth:`tick`; what fails is tried again."""
        return self._hand_over(numbers, lambda record: release(record, numbers, self._rounds.identities), now)

    def told_by(self, key: str, numbers: Collection[int], now: datetime) -> Tally:
        """A group's alert has told these alerts of the run, which were held. Never raises."""
        return self._hand_over(
            numbers, lambda record: settle_as_told(record, numbers, self._rounds.identities, key, now), now
        )

    def wait_until(self, until: datetime, numbers: Collection[int], now: datetime) -> Tally:
        """Hold these alerts of the run until ``until``, because a group is going to tell them. Never raises."""
        return self._hand_over(
            numbers, lambda record: keep_holding(record, numbers, self._rounds.identities, until), now
        )

    def _held(self, record: Record, decision: Decision) -> Record:
        if self._hold_s <= 0:
            return record
        now = self._store.clock()
        until = now + timedelta(seconds=self._hold_s)
        return hold(record, decision.record.alerts, self._rounds.identities, now, until)

    def _hand_over(self, numbers: Collection[int], change: Callable[[Record], Record], now: datetime) -> Tally:
        identities = self._rounds.identities
        try:
            record = self._keeper.record or self._keeper.reload()
            for tried in range(_RACES):
                changed = change(record) if record is not None else None
                if record is None or changed is None or changed is record:
                    return Tally(pending=pending(record, identities, now) if record is not None else 0)
                try:
                    after = self._rounds.carry_out(changed, now, must_write=True)
                except ConflictError:
                    known, record = record, self._keeper.reload()
                    if record is None:
                        # Whoever deleted it did not make this process forget.
                        self._keeper.keep(known)
                        record = known
                except StoreError as error:
                    # Nothing was sent, so trying again does no harm; a group may have told it, and must not twice.
                    if not error.retryable or tried + 1 == _RACES:
                        raise
                    time.sleep(_PAUSE_S * 2**tried)
                else:
                    failed = trouble(after, numbers, identities)
                    return Tally(max(0, after.delivered - record.delivered), failed, pending(after, identities, now))
        except StoreError as error:
            log.warning("%s: held alerts stay held for now: %s", self.run_id, error)
        return Tally(pending=len(numbers))

    def _decide(
        self, record: Record | None, seen: Seen | NeverSeen, now: datetime
    ) -> tuple[Decision, Record, tuple[Message, ...]]:
        decision = decide(record, self.run_id, seen, self._policy, now)
        self._reading.begin(decision.record.attempt)
        if decision.unexplained and decision.unseen is None:
            error = decision.seen.error
            decision = explained(decision, self._reading.explain(self._observer.files, error.text if error else None))
        self._reading.save(over=decision.verdict.by_sentinel)
        if decision.events and self._silences is not None:
            why = self._silences.why(self.run_id, now)
            decision = decision if why is None else silenced(decision, self._mask(why))
        after = decision.record
        if not decision.events or decision.unseen is not None:
            return decision, after, ()
        lines, fault = self._observer.log_tail() if decision.seen.log is not None else ((), None)
        stack, torn = self._observer.stack() if hangs(decision) else ((), None)
        notes = (*(note for note in (fault, torn, self._keeper.note) if note), *decision.seen.log_notes)
        read = Excerpts(lines, stack, notes)
        for event in decision.events:
            message = redact_message(compose(decision, event, self._place, read, now), self._mask)
            after = enqueue(after, message, self._rounds.identities)
        alerts = tuple(alert.message for alert in after.outbox if alert.number > decision.record.alerts)
        return decision, after, alerts

    def _outcome(
        self, decision: Decision, record: Record, seen: Seen | NeverSeen, alerts: tuple[Message, ...], now: datetime
    ) -> Outcome:
        verdict = decision.verdict
        return Outcome(
            run_id=self.run_id,
            status=verdict.status,
            reason=verdict.reason,
            observation=seen,
            at=now,
            cause=verdict.cause,
            explained=verdict.explained,
            action=verdict.action,
            conditions=verdict.conditions,
            record=record,
            last_metadata_at=decision.record.last_metadata_at,
            last_progress_at=decision.record.last_progress_at,
            transition=decision.transition,
            alerts=alerts,
            pending=pending(record, self._rounds.identities, now),
            delivered=record.delivered,
            failures=failures(record, now),
            notes=(*self._notes(record), *decision.seen.log_notes),
        )

    def _unrecorded(
        self, decision: Decision, record: Record, seen: Seen | NeverSeen, now: datetime, why: str
    ) -> Outcome:
        """Seen and decided, but not written down: so nothing was sent either, and the next pass decides again."""
        outcome = self._outcome(decision, record, seen, (), now)
        note = f"The decision could not be recorded, so no alert was sent yet: {why}"
        # Without channels there is nothing to come for which anybody would have to wait.
        recorded = self._alone and not self._rounds.identities
        return replace(outcome, recorded=recorded, transition=None, notes=(*outcome.notes, note))

    def _lost_sight(self, why: str) -> None:
        if self._alone:
            self._sight.lost(self.run_id, why)

    def _blind(self, error: StoreError) -> Outcome:
        known = self._keeper.record
        if not self._dry_run:
            self._lost_sight(str(error))
        now = self._clock()
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
            pending=pending(known, self._rounds.identities, now) if known else 0,
            delivered=known.delivered if known else 0,
            failures=failures(known, now) if known else (),
            notes=notes,
        )

    def _notes(self, record: Record | None) -> tuple[str, ...]:
        notes = [self._keeper.note] if self._keeper.note else []
        if record is not None and record.conditional_writes is False:
            notes.append(
                f"{self._store.url} ignores conditional writes: with more than one watcher an alert may go out twice."
            )
        return tuple(notes)
