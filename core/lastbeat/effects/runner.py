"""Record, carry out, settle: the last three steps of a tick, for whatever record they are about."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from lastbeat.deliver.port import Channel
from lastbeat.effects import actions, outbox
from lastbeat.effects.actions import Answer, Performed
from lastbeat.effects.dispatch import Results, dispatch
from lastbeat.effects.executor import Executor, ExecutorError
from lastbeat.effects.outbox import Claim
from lastbeat.model.action import Action
from lastbeat.model.record import Record
from lastbeat.record.repository import RecordRepository
from lastbeat.stores.port import ConflictError, StoreError

log = logging.getLogger(__name__)

ACTION_LEASE_S: Final = 300.0
"""How long an action belongs to whoever has claimed it."""
_FIRST_TRY_S: Final = 2.0
_LONGEST_TRY_S: Final = 8.0
"""What a request that settles may take: the first try's, and how far that doubles from try to try. A store answers in a
fraction of it, or one request hangs; and one that is really that slow is given the longer time."""
_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 4.0
"""Before the third try, and how far that doubles."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A record as it was written, and what its writer has to carry out now, nobody else."""

    record: Record
    alerts: tuple[Claim, ...] = ()
    actions: tuple[Action, ...] = ()
    at: float = 0.0
    """When the claims began, by the steady clock."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What came of it: ``(alert's number, channel)`` → how it failed, or None; action's name → answer."""

    alerts: Results = field(default_factory=dict)
    actions: Mapping[str, Answer] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.alerts or self.actions)


@dataclass
class EffectRunner:
    """Carries decisions out for one record, round after round: alerts over ``channels``, actions by ``executors``.

    What was done but could not be written down is remembered and written first thing in the next round, so a store that
    fails in between costs no second delivery by this process.
    """

    repository: RecordRepository
    channels: Sequence[Channel]
    lease_s: float
    """How long a delivery belongs to whoever has claimed it."""
    clock: Callable[[], datetime]
    """The store's time."""
    executors: Sequence[Executor] = ()
    sleep: Callable[[float], None] = time.sleep
    steady: Callable[[], float] = time.monotonic
    _unsettled: Carried = field(default_factory=Carried)

    @property
    def identities(self) -> tuple[str, ...]:
        return tuple(channel.identity for channel in self.channels)

    @property
    def unsettled(self) -> frozenset[tuple[int, str]]:
        """Deliveries that were made and could not be written down yet: this process alone knows of them."""
        return frozenset(key for key, error in self._unsettled.alerts.items() if error is None)

    def pending(self, record: Record | None, now: datetime) -> int:
        """Deliveries that still have to go out, or to be written down: until then there is something left to do."""
        if record is None:
            return len(self.unsettled)
        open_ = {
            (alert.number, identity)
            for alert in record.outbox
            for identity, delivery in alert.deliveries.items()
            if not delivery.settled
        }
        return outbox.pending(record, self.identities, now) + len(self.unsettled - open_)

    def round(self, record: Record, now: datetime, *, must_write: bool, until: float = float("inf")) -> Record:
        """All three steps; returns the record as it is then. Raises as :meth:`record`."""
        claimed = self.record(record, now, must_write=must_write)
        return self.settle(claimed, self.carry_out(claimed), until=until)

    def record(self, record: Record, now: datetime, *, must_write: bool) -> Claimed:
        """Write ``record`` where it has to be, with claims on whatever is due. Returns it as it is written.

        Raises :class:`StoreError` (:class:`ConflictError` when somebody else was faster) if it could not be written:
        then nothing may be carried out.
        """
        token, overdue = self.repository.token, self._unsettled
        if overdue:
            record = self._settled(record, overdue, now)
        # The claims begin now, not when the look began: that may have been slow.
        claimed_at, began = self.steady(), self.clock()
        kinds = frozenset(executor.kind for executor in self.executors)
        record, alerts = outbox.claim(record, self.identities, token, began, self.lease_s)
        record, to_do = actions.claim(record, kinds, token, began, ACTION_LEASE_S)
        if not (alerts or to_do or must_write or overdue):
            self.repository.keep(record)
            return Claimed(record)
        record = self.repository.save(record, now)
        self._unsettled = Carried()
        return Claimed(record, alerts, to_do, claimed_at)

    def carry_out(self, claimed: Claimed) -> Carried:
        """Do what was claimed, as far as the claims give time for it. Never raises."""
        if not claimed.alerts and not claimed.actions:
            return Carried()
        told: Results = {}
        telling = threading.Thread(target=lambda: told.update(self._tell(claimed)), name="lastbeat-tell", daemon=True)
        if claimed.actions and claimed.alerts:
            # People are told while the world is being changed: neither waits for the other.
            telling.start()
            done = self._do(claimed)
            telling.join()
            return Carried(told, done)
        return Carried(self._tell(claimed), self._do(claimed))

    def settle(self, claimed: Claimed, carried: Carried, *, until: float = float("inf")) -> Record:
        """Write down what came of the claims; returns the record as it is then.

        This process may end after the pass, and whoever comes next would send again what is not written down. So a
        store that throttles or does not answer is asked again and again until the claims run out, or until ``until``
        (by the steady clock); and as one request that hangs must not use up all that time, each gets a small part.
        """
        if not carried:
            return claimed.record
        until = min(until, claimed.at + self.lease_s)
        record, tried, lost_race = claimed.record, 0, False
        while True:
            limit_s = min(_FIRST_TRY_S * 2 ** min(tried, 8), _LONGEST_TRY_S)
            limit_s = min(limit_s, max(_FIRST_TRY_S, until - self.steady()))
            try:
                with self.repository.hurrying(limit_s):
                    if lost_race:
                        record = self.repository.reload() or record
                    now = self.clock()
                    return self.repository.save(self._settled(record, carried, now), now)
            except StoreError as error:
                lost_race = lost_race or isinstance(error, ConflictError)
                pause_s = min(_PAUSE_S * 2 ** min(tried - 1, 8), _LONGEST_PAUSE_S) if tried else 0.0
                late = self.steady() + pause_s >= until
                if late or not (error.retryable or isinstance(error, ConflictError)):
                    log.warning("what was carried out could not be written down yet: %s", error)
                    break
            tried += 1
            self.sleep(pause_s)
        self._unsettled = Carried(
            {**self._unsettled.alerts, **carried.alerts}, {**self._unsettled.actions, **carried.actions}
        )
        return self._settled(record, carried, self.clock())

    def _settled(self, record: Record, carried: Carried, now: datetime) -> Record:
        record = outbox.settle(record, carried.alerts, self.repository.token, now)
        return actions.settle(record, carried.actions, self.repository.token, now)

    def _tell(self, claimed: Claimed) -> Results:
        if not claimed.alerts:
            return {}
        # The claims run out after the lease; by then this pass must be done with them.
        time_left_s = 0.8 * self.lease_s - (self.steady() - claimed.at)
        if time_left_s <= 0:
            log.warning("writing the record took so long that sending is left to the next pass")
            return {}
        results = dispatch(claimed.alerts, self.channels, time_left_s)
        for (number, identity), error in results.items():
            if error is not None:
                log.warning("alert %d was not delivered on %s: %s", number, identity.split(":")[0], error)
        return results

    def _do(self, claimed: Claimed) -> dict[str, Answer]:
        answers: dict[str, Answer] = {}
        executors = {executor.kind: executor for executor in self.executors}
        for action in claimed.actions:
            answer = self._perform(executors[action.kind], action, claimed.at + ACTION_LEASE_S)
            if answer is None:
                log.warning("%s is left to whoever claims it next: too little of this claim is left", action.name)
                continue
            answers[action.name] = answer
            if isinstance(answer, Performed):
                log.info("%s (%s) is done: %s", action.name, action.kind, answer.result)
            else:
                log.warning("%s (%s) was not carried out, as far as is known: %s", action.name, action.kind, answer)
        return answers

    def _perform(self, executor: Executor, action: Action, until: float) -> Answer | None:
        """None: what is left of the claim is too short to begin, so nothing was done."""
        try:
            if self.steady() + executor.limit_s > until:
                return None
            known = executor.find(action)
            if known is not None:
                return Performed(known)
            if self.steady() + executor.limit_s > until:
                return None
            return Performed(executor.perform(action))
        except ExecutorError as error:
            return error
        except Exception as error:
            # Unforeseen, so nobody knows how far it came: whoever claims it next asks the world.
            log.exception("the executor of %s broke on %s", action.kind, action.name)
            return ExecutorError(f"the executor broke: {type(error).__name__}")
