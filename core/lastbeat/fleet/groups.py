"""Correlated failures: at the end of a pass, what was held is told together, or let go.

    looks ──► gather: one conditional write of the ledger ──► send the notices ──► hand over
              (who is told by which notice, who by itself)                        (settle or release each
                                                                                   run's own held alerts)

A pass that dies before the ledger is written has changed nothing: the alerts are held a while longer. One that dies
after it leaves a ledger that says who is told by what, and the next pass hands over. Two sweeps at once: the loser of
the write reads what the winner gave away. Where there is no ledger to be had, everything is told one by one: at once
where the store refuses it, when the hold has run out where the store does not answer.
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
class Gathered:
    """What is to be written into the runs' own records now, see :func:`hand_over`."""

    release: Numbers = field(default_factory=dict)
    """Run id → alerts that are sent by themselves."""
    told: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    """Run id → key of a group's alert → alerts that it tells."""
    wait: Mapping[str, tuple[tuple[int, ...], datetime]] = field(default_factory=dict)
    """Run id → alerts that the group's next notice tells, and until when they are held for it."""
    tally: DeliveryCounts = field(default_factory=DeliveryCounts)
    """Deliveries of the groups' own alerts in this pass."""
    notices: int = 0
    """How many alerts of groups this pass decided."""
    note: str | None = None
    """What people must know: groups could not be told."""

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Those whose records have to be written, also runs that were not looked at in this pass."""
        return tuple({**self.release, **self.told, **self.wait})


class Groups:
    """The groups of one fleet. Holds what spares requests between passes, and nothing that a restart would miss."""

    def __init__(  # noqa: PLR0913 - what it stands on, each by its name
        self,
        store: Store,
        channels: Sequence[Channel],
        policy: Policy,
        fleet: FleetPolicy,
        *,
        place_url: str,
        token: str,
        mask: Callable[[str], str] = str,
        proven: bool = False,
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._place_url = place_url
        self._mask = mask
        self._repository = RecordRepository(
            store, LEDGER, token, proven=proven, kind=Ledger, limit_bytes=LEDGER_LIMIT_BYTES
        )
        self._runner = EffectRunner(self._repository, channels, policy.lease_s, store.clock)
        self._asked = False

    def held_of(self, outcome: Outcome) -> tuple[DeferredAlert, ...]:
        """The alerts of one look that are held, with what a group says of their run."""
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
        held: Sequence[DeferredAlert],
        watched: int,
        now: datetime,
        entry: Entry | None = None,
        status_of: Callable[[str], Status | None] = lambda _run_id: None,
        *,
        listed: bool = False,
        until: float = float("inf"),
    ) -> Gathered:
        """Decide, record, tell. Never raises for anything that the store or a channel does.

        ``watched`` counts the runs being watched. ``entry`` is the ledger's line in the pass's listing; an unchanged
        one is not read again. ``listed`` says that the listing would have shown it, so that None means that there is
        none; otherwise it is asked for by the first call, and whenever there is something to decide.
        ``status_of`` gives the status that a run is known to have now; None where that is not known. ``until`` is as in
        :meth:`EffectRunner.settle`.
        """
        try:
            record = self._load(entry, listed=listed or entry is not None, needed=bool(held))
            return self._gather(record, held, watched, now, status_of, until)
        except StoreError as error:
            log.warning("%s cannot be used: %s", LEDGER, error)
            if error.retryable:
                # The next pass will see what became of it. Meanwhile they stay held, and that runs out.
                held_back = f"{len(held)} alerts wait, since {LEDGER} cannot be reached: {error}"
                return Gathered(note=held_back if held else None)
            what = f"Runs that timed out together are told of one by one: {LEDGER} cannot be used: {error}"
            return Gathered(release=_all(held), note=what if held else None)

    def _load(self, entry: Entry | None, *, listed: bool, needed: bool) -> Record | None:
        known = self._repository.record
        if listed:
            try:
                return self._repository.load(entry)
            except ConflictError:
                # Another sweep has written it since the listing: what was held is given away there, perhaps.
                return self._repository.record
        if self._asked and not needed and (not isinstance(known, Ledger) or idle(known)):
            return known
        record = self._repository.reload()
        self._asked = True
        return record

    def _gather(
        self,
        record: Record | None,
        held: Sequence[DeferredAlert],
        watched: int,
        now: datetime,
        status_of: Callable[[str], Status | None],
        until: float,
    ) -> Gathered:
        for _ in range(_RACES):
            ledger = record if isinstance(record, Ledger) else Ledger(LEDGER_ID)
            if not held and idle(ledger) and not pending(ledger, self._runner.identities, now):
                return Gathered()
            decided = decide_groups(ledger, held, status_of, now, self._fleet)
            after: Record = decided.ledger
            for notice in decided.notices:
                after = enqueue(after, self._message(notice, watched, now), self._runner.identities)
            try:
                after = self._runner.round(after, now, must_write=decided.changed, until=until)
            except ConflictError:
                record = self._repository.reload()
                continue
            return self._gathered(decided, ledger, after, now)
        raise UnreachableError("it changed at every look: too many sweeps at once")

    def _message(self, notice: Notice, watched: int, now: datetime) -> Message:
        return compose_notice(notice, watched, self._place_url, now).masked(self._mask)

    def _gathered(self, decided: GroupDecision, before: Ledger, after: Record, now: datetime) -> Gathered:
        identities = self._runner.identities
        numbers = {alert.number for alert in after.outbox}
        tally = DeliveryCounts(
            sent=max(0, after.delivered - before.delivered),
            failed=failed_deliveries(after, numbers, identities),
            pending=pending(after, identities, now),
        )
        told = {
            run_id: {f"{after.run_id}/{notice}": numbers for notice, numbers in by.items()}
            for run_id, by in decided.told.items()
        }
        return Gathered(decided.release, told, decided.wait, tally, len(decided.notices), self._repository.note)


def hand_over(gathered: Gathered, watch: Watch, now: datetime) -> DeliveryCounts:
    """Write down in the record of one run what :meth:`Groups.gather` decided, and send what it released.

    ``watch`` may be one that has looked in this pass or a new one. Never raises for anything that the store or a
    channel does; what could not be written down stays held, and a later pass hands it over.
    """
    run_id, tally = watch.run_id, DeliveryCounts()
    for key, numbers in gathered.told.get(run_id, {}).items():
        tally += watch.amend(numbers, partial(settle_as_told, numbers=numbers, key=key, now=now), now)
    if run_id in gathered.wait:
        numbers, until = gathered.wait[run_id]
        tally += watch.amend(numbers, partial(prolong, numbers=numbers, until=until), now)
    if run_id in gathered.release:
        numbers = gathered.release[run_id]
        tally += watch.amend(numbers, partial(release, numbers=numbers), now)
    return tally


def _all(held: Sequence[DeferredAlert]) -> Numbers:
    released: dict[str, tuple[int, ...]] = {}
    for each in held:
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


__all__ = ["DeferredAlert", "Gathered", "Groups", "hand_over"]
