"""Runs that fail together are told together: at the end of a pass, deferred alerts are grouped or released.

    looks ──► gather: one conditional write of the ledger ──► send the notices ──► apply
              (which alert is told by which notice,                                (settle or release the
              which by itself)                                                     deferred alerts of each run)

- A pass that dies before the ledger is written has changed nothing: the alerts stay deferred a while longer.
- One that dies after it leaves a ledger that says which notice tells what, and the next pass applies it.
- Of two sweeps at once, the loser of the write reads what the winner decided.
- A ledger that cannot be used: alerts are told one by one, at once if the store refuses it, and when the deferral runs
  out if the store does not answer.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from lastbeat.decide.groups import GroupDecision, Numbers, decide_groups, idle
from lastbeat.deliver.notice import compose_notice
from lastbeat.deliver.port import Channel
from lastbeat.effects.deferral import (
    DeliveryCounts,
    deferred_numbers,
    failed_deliveries,
    prolong,
    release,
    settle_as_told,
)
from lastbeat.effects.outbox import enqueue, pending
from lastbeat.effects.runner import EffectRunner
from lastbeat.model.alert import Message
from lastbeat.model.group import LEDGER, LEDGER_ID, DeferredAlert, Ledger, Notice
from lastbeat.model.observation import Heartbeat, Seen
from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import FleetPolicy, Policy
from lastbeat.model.record import Record
from lastbeat.model.status import Status
from lastbeat.model.text import fit, one_line
from lastbeat.record.codec import LEDGER_LIMIT_BYTES
from lastbeat.record.repository import RecordRepository
from lastbeat.stores.port import ConflictError, Entry, Store, StoreError, UnreachableError
from lastbeat.watchdog import Watch

log = logging.getLogger(__name__)

_RACES = 8
_FACT_LIMIT = 100


@dataclass(frozen=True, slots=True)
class GroupedAlerts:
    """What becomes of deferred alerts; :func:`apply_to` writes it into the record of each run."""

    release: Numbers = field(default_factory=dict)
    """Run id → alerts that are sent by themselves."""
    told: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    """Run id → key of a group's notice → alerts that it tells."""
    wait: Mapping[str, tuple[tuple[int, ...], datetime]] = field(default_factory=dict)
    """Run id → alerts that the group's next notice tells, and until when they stay deferred for it."""
    counts: DeliveryCounts = field(default_factory=DeliveryCounts)
    """Deliveries of the notices in this pass."""
    notices: int = 0
    """How many notices this pass decided."""
    note: str | None = None
    """Why groups could not be told."""

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs whose records have to be written, including some that this pass did not look at."""
        return tuple({**self.release, **self.told, **self.wait})


class Groups:
    """The groups of one fleet. Holds what spares requests between passes, and nothing that a restart would miss."""

    def __init__(  # noqa: PLR0913 - what it needs, each by its name
        self,
        store: Store,
        channels: Sequence[Channel],
        policy: Policy,
        fleet: FleetPolicy,
        *,
        token: str,
        mask: Callable[[str], str] = str,
        proven: bool = False,
    ) -> None:
        self._url = store.url
        self._fleet = fleet
        self._mask = mask
        self._repository = RecordRepository(
            store, LEDGER, token, proven=proven, kind=Ledger, limit_bytes=LEDGER_LIMIT_BYTES
        )
        self._runner = EffectRunner(self._repository, channels, policy.lease_s, store.clock)
        self._asked = False

    def deferred_by(self, outcome: Outcome) -> tuple[DeferredAlert, ...]:
        """The alerts that one look deferred, with what a notice says of their run."""
        record = outcome.record
        if record is None or not outcome.recorded:
            return ()
        numbers = deferred_numbers(record, self._runner.identities)
        return tuple(
            DeferredAlert(outcome.run_id, alert.number, alert.event, alert.message, _facts(outcome, alert.message))
            for alert in record.outbox
            if alert.number in numbers
        )

    def gather(  # noqa: PLR0913 - what a pass knows, each by its name
        self,
        deferred: Sequence[DeferredAlert],
        watched: int,
        now: datetime,
        entry: Entry | None = None,
        status_of: Callable[[str], Status | None] = lambda _run_id: None,
        *,
        listed: bool = False,
        until: float = float("inf"),
    ) -> GroupedAlerts:
        """Decide which alerts are told together, record that, and send the notices.

        1. Read the ledger, unless nothing is deferred and it is known to be idle.
        2. Plan, purely: each deferred alert joins a notice, waits for the next one, or is told by itself.
        3. Write the ledger with the notices in its outbox, conditionally. The loser of a race begins again with the
           winner's ledger.
        4. Send the notices.

        ``watched`` counts the runs being watched. ``entry`` is the ledger's entry in the pass's listing; an unchanged
        ledger is not read again. ``listed`` means that the listing covered the ledger, so that no entry means no
        ledger. ``status_of`` gives a run's known status, or None. ``until`` is as in :meth:`EffectRunner.settle`.

        Never raises for anything that the store or a channel does.
        """
        try:
            record = self._load(entry, listed=listed or entry is not None, needed=bool(deferred))
            return self._gather(record, deferred, watched, now, status_of, until)
        except StoreError as error:
            log.warning("%s cannot be used: %s", LEDGER, error)
            if error.retryable:
                # The next pass sees what became of the write. Until then, or until it runs out, the deferral stands.
                waits = f"{len(deferred)} alerts wait, since {LEDGER} cannot be reached: {error}"
                return GroupedAlerts(note=waits if deferred else None)
            what = f"Runs that timed out together are told of one by one: {LEDGER} cannot be used: {error}"
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
        watched: int,
        now: datetime,
        status_of: Callable[[str], Status | None],
        until: float,
    ) -> GroupedAlerts:
        for _ in range(_RACES):
            ledger = record if isinstance(record, Ledger) else Ledger(LEDGER_ID)
            if not deferred and idle(ledger) and not pending(ledger, self._runner.identities, now):
                return GroupedAlerts()
            decided = decide_groups(ledger, deferred, status_of, now, self._fleet)
            after: Record = decided.ledger
            for notice in decided.notices:
                after = enqueue(after, self._message(notice, watched, now), self._runner.identities)
            try:
                after = self._runner.round(after, now, must_write=decided.changed, until=until)
            except ConflictError:
                record = self._repository.reload()
                continue
            return self._decision(decided, ledger, after, now)
        raise UnreachableError("it changed at every look: too many sweeps at once")

    def _message(self, notice: Notice, watched: int, now: datetime) -> Message:
        return compose_notice(notice, watched, self._url, now).masked(self._mask)

    def _decision(self, decided: GroupDecision, before: Ledger, after: Record, now: datetime) -> GroupedAlerts:
        identities = self._runner.identities
        numbers = {alert.number for alert in after.outbox}
        counts = DeliveryCounts(
            sent=max(0, after.delivered - before.delivered),
            failed=failed_deliveries(after, numbers, identities),
            pending=pending(after, identities, now),
        )
        told = {
            run_id: {f"{after.run_id}/{notice}": numbers for notice, numbers in by.items()}
            for run_id, by in decided.told.items()
        }
        return GroupedAlerts(decided.release, told, decided.wait, counts, len(decided.notices), self._repository.note)


def apply_to(watch: Watch, decision: GroupedAlerts, now: datetime) -> DeliveryCounts:
    """Write ``decision`` into the record of one run, and send the alerts that it released.

    ``watch`` need not have looked in this pass. Never raises for anything that the store or a channel does; an alert
    whose record could not be written stays deferred, and a later pass applies the ledger's decision.
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
