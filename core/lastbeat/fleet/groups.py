"""Reports runs that fail together in one notice: at the end of a pass, deferred alerts are grouped or released.

    looks ──► gather: one conditional write of the ledger ──► send the notices ──► apply
              (which notice covers which alert,                                    (settle or release the
              which alert is sent alone)                                           deferred alerts of each run)

- A pass that dies before the ledger is written has changed nothing: the alerts stay deferred a while longer.
- One that dies after it leaves a ledger that assigns alerts to notices, and the next pass applies it.
- Of two sweeps at once, the loser of the write reads the winner's decision.
- Without a usable ledger, alerts are sent one by one: at once if the store refuses the ledger, or when the deferral
  runs out if the store does not answer.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from lastbeat.alerts.notice import compose_first_look, compose_notice
from lastbeat.model.alert import Message
from lastbeat.model.group import LEDGER, LEDGER_ID, DeferredAlert, Ledger, Notice
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.observation import Seen
from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.record import Record
from lastbeat.model.status import Status
from lastbeat.model.text import counted, fit, one_line
from lastbeat.stores.port import ConflictError, Entry, StoreError, UnreachableError
from lastbeat.watch.decide.first_look import FirstLookDecision, FirstPass, decide_first_look
from lastbeat.watch.decide.groups import GroupDecision, Numbers, decide_groups, idle
from lastbeat.watch.effects.deferral import (
    DeliveryCounts,
    deferred_numbers,
    failed_deliveries,
    holds_up,
    prolong,
    release,
    settle_as_told,
)
from lastbeat.watch.effects.outbox import DeliveryClaim, claim, pending
from lastbeat.watch.effects.runner import EffectRunner
from lastbeat.watch.record.codec import LEDGER_LIMIT_BYTES
from lastbeat.watch.record.fleet_document import RACES
from lastbeat.watch.record.repository import RecordRepository
from lastbeat.watch.watchdog import Watch, WatchContext

log = logging.getLogger(__name__)

_FACT_LIMIT = 100
Told = Mapping[str, Mapping[int, tuple[int, ...]]]
"""Run id → number of a notice → alerts that it covers."""


@dataclass(frozen=True, slots=True)
class GroupedAlerts:
    """The decision about deferred alerts; :func:`apply_to` writes it into the record of each run."""

    release: Numbers = field(default_factory=dict)
    """Run id → alerts that are sent alone."""
    told: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    """Run id → key of a group's notice → alerts that it covers."""
    wait: Mapping[str, tuple[tuple[int, ...], datetime]] = field(default_factory=dict)
    """Run id → alerts that the group's next notice will cover, and the end of their deferral."""
    counts: DeliveryCounts = field(default_factory=DeliveryCounts)
    """Deliveries of the notices in this pass."""
    notices: int = 0
    """Number of notices that this pass decided."""
    note: str | None = None
    """Why alerts could not be grouped; None if they could."""
    planned: tuple[DeliveryClaim, ...] = ()
    """The notices that a dry run would send."""

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs whose records have to be written, including some that this pass did not look at."""
        return tuple({**self.release, **self.told, **self.wait})


@dataclass(frozen=True, slots=True)
class WatchedRuns:
    """The runs that a pass knows to be watched."""

    count: int
    status_of: Callable[[str], Status | None] = lambda _run_id: None
    """A run's known status, or None."""
    owner_of: Callable[[str], str | None] = lambda _run_id: None
    """A run's owner, or None."""


class Groups:
    """The groups of one fleet. Its state only saves requests between passes; a restart loses nothing."""

    def __init__(self, context: WatchContext, fleet: FleetPolicy) -> None:
        """``context`` is that of the fleet's watches."""
        store, token = context.store, context.token or os.urandom(6).hex()
        self._context = context
        self._fleet = fleet
        self._repository = RecordRepository(
            store, LEDGER, token, proven=context.proven, kind=Ledger, limit_bytes=LEDGER_LIMIT_BYTES
        )
        self._runner = EffectRunner(
            self._repository, context.channels, context.policy.lease_s, store.clock, routing=context.routing
        )
        self._asked = False

    def deferred_by(self, outcome: Outcome) -> tuple[DeferredAlert, ...]:
        """The alerts that one look deferred, with the facts that a notice shows about their run."""
        record = outcome.record
        if record is None or not outcome.recorded:
            return ()
        identities = self._runner.identities
        numbers = deferred_numbers(record, identities)
        return tuple(
            DeferredAlert(
                outcome.run_id,
                alert.number,
                alert.event,
                alert.message,
                _facts(outcome, alert.message),
                alert.found_ended,
                holds_up(record, alert.number, identities),
            )
            for alert in record.outbox
            if alert.number in numbers
        )

    def gather(  # noqa: PLR0913 - every fact of a pass by its name
        self,
        deferred: Sequence[DeferredAlert],
        watched: WatchedRuns,
        now: datetime,
        entry: Entry | None = None,
        *,
        listed: bool = False,
        until: float = float("inf"),
        looking: FirstPass | None = None,
    ) -> GroupedAlerts:
        """Decide which alerts share a notice, record that, and send the notices.

        1. Read the ledger, unless nothing is deferred and it is known to be idle.
        2. Plan, purely: each deferred alert joins a notice, waits for the next one, or is sent alone.
        3. Write the ledger with the notices in its outbox, conditionally. The loser of a race begins again with the
           winner's ledger.
        4. Send the notices.

        ``entry`` is the ledger's entry in the pass's listing; an unchanged ledger is not read again. ``listed`` means
        that the listing covered the ledger, so that no entry means no ledger. ``until`` is as in
        :meth:`EffectRunner.settle`. ``looking`` is set if the fleet was never watched before; see
        :mod:`lastbeat.watch.decide.first_look`.

        Never raises for a fault of the store or a channel.
        """
        try:
            record = self._load(entry, listed=listed or entry is not None, needed=bool(deferred))
            return self._gather(record, deferred, watched, now, until, looking=looking)
        except StoreError as error:
            log.warning("%s cannot be used: %s", LEDGER, error)
            if error.retryable:
                # The next pass sees whether the write succeeded. Until then, or until it runs out, the deferral stands.
                waits = (
                    f"{counted(len(deferred), 'alert waits', 'alerts wait')}, since {LEDGER} cannot be reached: {error}"
                )
                return GroupedAlerts(note=waits if deferred else None)
            what = f"Runs that timed out together are reported one by one: {LEDGER} cannot be used: {error}"
            return GroupedAlerts(release=_all(deferred), note=what if deferred else None)

    def _load(self, entry: Entry | None, *, listed: bool, needed: bool) -> Record | None:
        known = self._repository.record
        if listed:
            try:
                return self._repository.load(entry)
            except ConflictError:
                # Another sweep has written it since the listing, and may have decided for these alerts.
                return self._repository.record
        if self._asked and not needed and (not isinstance(known, Ledger) or idle(known)):
            return known
        record = self._repository.reload()
        self._asked = True
        return record

    def _gather(
        self,
        record: Record | None,
        deferred: Sequence[DeferredAlert],
        watched: WatchedRuns,
        now: datetime,
        until: float,
        *,
        looking: FirstPass | None,
    ) -> GroupedAlerts:
        found = [each for each in deferred if each.found_ended]
        others = [each for each in deferred if not each.found_ended]
        # Not RecordRepository.update: it begins with a read, which the listing saves. And the runner has to write,
        # because it claims the notices in the record and then sends them.
        for _ in range(RACES):
            ledger = record if isinstance(record, Ledger) else Ledger(LEDGER_ID)
            unfinished = looking is not None and not looking.complete
            if not deferred and not unfinished and idle(ledger) and not pending(ledger, self._runner.identities, now):
                return GroupedAlerts()
            decided = decide_groups(ledger, others, watched.status_of, now, self._fleet)
            number = ledger.alerts + len(decided.notices) + 1
            first = decide_first_look(ledger, found, looking, number, now, self._fleet)
            after: Record = replace(decided.ledger, first_look=first.first_look)
            for notice in decided.notices:
                message = self._message(notice, watched.count, now)
                members = _members(notice, deferred, watched.owner_of, message)
                after = self._runner.enqueue(after, message, members)
            if first.notice:
                summary = compose_first_look(first.notice, self._context.store.url, now, again=first.again)
                after = self._runner.enqueue(
                    after, summary.masked(self._context.mask), [each.message for each in first.notice]
                )
            if self._context.dry_run:
                _, claims = claim(after, self._runner.identities, "dry-run", now, lease_s=1.0)
                return replace(self._decision(decided, first, ledger, after, now), planned=claims)
            changed = decided.changed or first.first_look != ledger.first_look
            try:
                after = self._runner.round(after, now, must_write=changed, until=until)
            except ConflictError:
                record = self._repository.reload()
                continue
            return self._decision(decided, first, ledger, after, now)
        raise UnreachableError("it changed at every look: too many sweeps at once")

    def _message(self, notice: Notice, watched: int, now: datetime) -> Message:
        return compose_notice(notice, watched, self._context.store.url, now).masked(self._context.mask)

    def _decision(
        self, decided: GroupDecision, first: FirstLookDecision, before: Ledger, after: Record, now: datetime
    ) -> GroupedAlerts:
        identities = self._runner.identities
        numbers = {alert.number for alert in after.outbox}
        counts = DeliveryCounts(
            sent=max(0, after.delivered - before.delivered),
            failed=failed_deliveries(after, numbers, identities),
            pending=pending(after, identities, now),
        )
        told = {
            run_id: {f"{after.run_id}/{notice}": numbers for notice, numbers in by.items()}
            for run_id, by in _merged(decided.told, first.told).items()
        }
        release = {
            run_id: (*decided.release.get(run_id, ()), *first.release.get(run_id, ()))
            for run_id in {**decided.release, **first.release}
        }
        notices = len(decided.notices) + bool(first.notice)
        return GroupedAlerts(release, told, decided.wait, counts, notices, self._repository.note)


def apply_to(watch: Watch, decision: GroupedAlerts, now: datetime) -> DeliveryCounts:
    """Write ``decision`` into the record of one run, and send the alerts that it released.

    ``watch`` need not have looked in this pass. Never raises for a fault of the store or a channel. An alert whose
    record could not be written stays deferred, and a later pass applies the ledger's decision.
    """
    run_id, counts = watch.run_id, DeliveryCounts()
    for key, numbers in decision.told.get(run_id, {}).items():
        counts += watch.amend(numbers, partial(settle_as_told, numbers=numbers, key=key, now=now), now)
    if run_id in decision.wait:
        numbers, until = decision.wait[run_id]
        counts += watch.amend(numbers, partial(prolong, numbers=numbers, until=until), now)
    if run_id in decision.release:
        numbers = decision.release[run_id]
        counts += watch.amend(numbers, partial(release, numbers=numbers), now)
    return counts


def _merged(one: Told, other: Told) -> Told:
    return {run_id: {**one.get(run_id, {}), **other.get(run_id, {})} for run_id in {**one, **other}}


def _members(
    notice: Notice, deferred: Sequence[DeferredAlert], owner_of: Callable[[str], str | None], message: Message
) -> list[Message]:
    """One alert for each run in the notice: its own, or a copy of the notice with the run and its owner."""
    deferred_of = {alert.run_id: alert.message for alert in deferred}
    return [
        deferred_of.get(run_id) or replace(message, run_id=run_id, owner=owner_of(run_id)) for run_id in notice.runs
    ]


def _all(deferred: Sequence[DeferredAlert]) -> Numbers:
    released: dict[str, tuple[int, ...]] = {}
    for each in deferred:
        released[each.run_id] = (*released.get(each.run_id, ()), each.number)
    return released


def _facts(outcome: Outcome, message: Message) -> dict[str, str]:
    seen = outcome.observation.metadata if isinstance(outcome.observation, Seen) else None
    metadata = seen or Heartbeat(outcome.at, "")
    known = {
        "Instance type": metadata.instance_type,
        "Zone": metadata.zone,
        "Host": metadata.host or message.instance_id,
        "Phase": message.phase,
        "Reason": message.cause or message.reason,
    }
    shown = ((name, fit(one_line(value), _FACT_LIMIT)) for name, value in known.items() if value)
    return {name: value for name, value in shown if value}
