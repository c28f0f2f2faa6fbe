"""Record, carry out, settle: the last three steps of a tick, for any kind of record.

Each channel sends on a thread of its own, so that one that hangs delays no other.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Final

from lastbeat.alerts.port import Channel, DeliveryError, Receipt
from lastbeat.model.action import Action
from lastbeat.model.alert import Message
from lastbeat.model.data import dataclass
from lastbeat.model.record import Record
from lastbeat.model.restart import called
from lastbeat.model.times import backoff_s
from lastbeat.stores.port import ConflictError, StoreError
from lastbeat.watch.effects import actions, outbox
from lastbeat.watch.effects.actions import ActionResult, Executor, ExecutorError, NotDoneError, Performed
from lastbeat.watch.effects.outbox import DeliveryClaim, DeliveryResult, receipt_of
from lastbeat.watch.effects.routing import Routing
from lastbeat.watch.record.repository import RecordRepository

log = logging.getLogger(__name__)

DeliveryResults = dict[tuple[int, str], DeliveryResult]

SEND_LIMIT_S = 15.0
"""Longest duration of one send in s, by the channels' own limits. No send begins with less time left."""


def dispatch(claims: Iterable[DeliveryClaim], channels: Sequence[Channel], time_limit_s: float) -> DeliveryResults:
    """Send the claimed alerts, oldest first on each channel. Returns the result of each send that began.

    Returns within ``time_limit_s``; a send without an answer by then counts as failed for now. A channel that failed
    for now gets nothing newer in this pass. An alert that was not begun has no result, and a later pass sends it.
    """
    results: DeliveryResults = {}
    until = time.monotonic() + time_limit_s
    waiting = []
    for channel in channels:
        mine = [claim for claim in claims if claim.identity == channel.identity]
        if mine:
            begun: list[DeliveryClaim] = []
            send = threading.Thread(target=_send_all, args=(channel, mine, begun, results, until), daemon=True)
            send.start()
            waiting.append((send, begun))
    for thread, begun in waiting:
        thread.join(max(0.0, until - time.monotonic()))
        for claim in tuple(begun):
            late = DeliveryError(f"no answer within {time_limit_s:g} s", retryable=True)
            results.setdefault((claim.number, claim.identity), late)
    # A thread that still runs may add to ``results`` later, but the returned copy no longer changes.
    return dict(results)


def _send_all(
    channel: Channel,
    claims: Sequence[DeliveryClaim],
    begun: list[DeliveryClaim],
    results: DeliveryResults,
    until: float,
) -> None:
    receipts = {claim.message.topic: claim.receipt for claim in claims}
    for claim in claims:
        if time.monotonic() + (SEND_LIMIT_S if begun else 0.0) > until:
            return
        begun.append(claim)
        topic = claim.message.topic
        result = _send(channel, claim, receipts[topic])
        receipts[topic] = receipt_of(result) or receipts[topic]
        results[claim.number, claim.identity] = result
        if claim.keeps_order and isinstance(result, DeliveryError) and result.retryable:
            return


def _send(channel: Channel, claim: DeliveryClaim, receipt: Receipt | None) -> DeliveryResult:
    try:
        return channel.send(claim.message, receipt)
    except DeliveryError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a fault of one channel must not silence the others
        # Text and traceback of an unforeseen error may hold the webhook's address; its type does not.
        log.warning("channel %s broke on alert %s: %s", channel.describe, claim.number, type(error).__name__)
        return DeliveryError(f"the channel broke: {type(error).__name__}", retryable=True)


ACTION_LEASE_S: Final = 300.0
"""Duration of an action's claim in s."""
_FIRST_TRY_S: Final = 2.0
_LONGEST_TRY_S: Final = 8.0
"""Longest time limit in s of a request that settles; the limit of the first try doubles with each one. A store answers
in a fraction of it unless the request hangs, and a really slow one gets the longer time."""
_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 4.0
"""Longest pause in s between tries; the pause before the third try doubles with each one."""


@dataclass(frozen=True, slots=True)
class ClaimedEffects:
    """A written record, and the effects that only its writer has to carry out now."""

    record: Record
    alerts: tuple[DeliveryClaim, ...] = ()
    actions: tuple[Action, ...] = ()
    at: float = 0.0
    """Begin of the claims, by the monotonic clock."""


@dataclass(frozen=True, slots=True)
class EffectResults:
    """The results of effects: ``(alert's number, channel)`` → error or receipt; action's name → result."""

    alerts: DeliveryResults = field(default_factory=dict)
    actions: Mapping[str, ActionResult] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.alerts or self.actions)


@dataclass
class EffectRunner:
    """Carries out the effects in one record: alerts over ``channels``, actions through ``executors``.

    Results that could not be recorded are kept and recorded first in the next round, so a store that fails in between
    causes no second delivery by this process.
    """

    repository: RecordRepository
    channels: Sequence[Channel]
    lease_s: float
    """Duration of a delivery's claim in s."""
    clock: Callable[[], datetime]
    """The store's time."""
    executors: Sequence[Executor] = ()
    routing: Routing = field(default_factory=Routing)
    sleep: Callable[[float], None] = time.sleep
    steady: Callable[[], float] = time.monotonic
    _unsettled: EffectResults = field(default_factory=EffectResults)

    @property
    def identities(self) -> tuple[str, ...]:
        return tuple(channel.identity for channel in self.channels)

    @property
    def unsettled(self) -> frozenset[tuple[int, str]]:
        """Deliveries that were made but could not be recorded yet. Only this process knows of them."""
        return frozenset(key for key, result in self._unsettled.alerts.items() if not isinstance(result, DeliveryError))

    def enqueue(self, record: Record, message: Message, members: Iterable[Message] = ()) -> Record:
        """``record`` with an alert for the channels that routes name, else for all; see :class:`Routing`."""
        return self.routing.add(record, message, self.identities, members)

    def pending(self, record: Record | None, now: datetime) -> int:
        """Deliveries that still have to be made or recorded."""
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
        """All three steps. Returns the record as it is afterwards. Raises as :meth:`record`."""
        claimed = self.record(record, now, must_write=must_write)
        return self.settle(claimed, self.carry_out(claimed), until=until)

    def record(self, record: Record, now: datetime, *, must_write: bool) -> ClaimedEffects:
        """Write ``record`` if anything in it has to be kept, with claims on all effects that are due.

        1. Add results of an earlier round that could not be recorded.
        2. Claim due alerts and actions. The claims begin now, because the look may have been slow.
        3. Write the record under its condition; without news or claims keep it in memory only.

        Raises :class:`StoreError` if it could not be written (:class:`ConflictError` if another watcher was faster):
        nothing may be carried out then.
        """
        token, overdue = self.repository.token, self._unsettled
        if overdue:
            record = self._settled(record, overdue, now)
        claimed_at, began = self.steady(), self.clock()
        kinds = frozenset(executor.kind for executor in self.executors)
        record = self.routing.late(record, self.identities, began)
        record, alerts = outbox.claim(record, self.identities, token, began, self.lease_s)
        record, to_do = actions.claim(record, kinds, token, began, ACTION_LEASE_S)
        if not (alerts or to_do or must_write or overdue):
            self.repository.keep(record)
            return ClaimedEffects(record)
        record = self.repository.save(record, now)
        self._unsettled = EffectResults()
        return ClaimedEffects(record, alerts, to_do, claimed_at)

    def carry_out(self, claimed: ClaimedEffects) -> EffectResults:
        """Carry out the claimed effects, as far as the claims leave time for it. Never raises."""
        if not claimed.alerts and not claimed.actions:
            return EffectResults()
        delivered: DeliveryResults = {}
        sending = threading.Thread(
            target=lambda: delivered.update(self._send_alerts(claimed)), name="lastbeat-tell", daemon=True
        )
        if claimed.actions and claimed.alerts:
            # Alerts and actions do not wait for each other.
            sending.start()
            done = self._perform_actions(claimed)
            sending.join()
            return EffectResults(delivered, done)
        return EffectResults(self._send_alerts(claimed), self._perform_actions(claimed))

    def settle(self, claimed: ClaimedEffects, results: EffectResults, *, until: float = float("inf")) -> Record:
        """Record the results of the claims. Returns the record as it is afterwards.

        This process may end after the pass, and the next one would repeat every delivery that is not recorded. So:

        1. Retry while the store throttles or does not answer, until the claims run out or until ``until`` (monotonic
           clock).
        2. Give each request a small part of that time: one that hangs must not use up all of it.
        3. After a lost race, settle the record as the winner left it.
        4. Keep unrecorded results for the next round.
        """
        if not results:
            return claimed.record
        until = min(until, claimed.at + self.lease_s)
        record, tried, lost_race = claimed.record, 0, False
        # Not RecordRepository.update: the time of the claims is the limit here, and a store that does not answer is
        # tried again as well.
        while True:
            limit_s = backoff_s(tried + 1, _FIRST_TRY_S, _LONGEST_TRY_S)
            limit_s = min(limit_s, max(_FIRST_TRY_S, until - self.steady()))
            try:
                with self.repository.hurrying(limit_s):
                    if lost_race:
                        record = self.repository.reload() or record
                    now = self.clock()
                    return self.repository.save(self._settled(record, results, now), now)
            except StoreError as error:
                lost_race = lost_race or isinstance(error, ConflictError)
                pause_s = backoff_s(tried, _PAUSE_S, _LONGEST_PAUSE_S)
                late = self.steady() + pause_s >= until
                if late or not (error.retryable or isinstance(error, ConflictError)):
                    log.warning("results could not be recorded yet: %s", error)
                    break
            tried += 1
            self.sleep(pause_s)
        self._unsettled = EffectResults(
            {**self._unsettled.alerts, **results.alerts}, {**self._unsettled.actions, **results.actions}
        )
        return self._settled(record, results, self.clock())

    def _settled(self, record: Record, results: EffectResults, now: datetime) -> Record:
        record = outbox.settle(record, results.alerts, self.repository.token, now)
        return actions.settle(record, results.actions, self.repository.token, now)

    def _send_alerts(self, claimed: ClaimedEffects) -> DeliveryResults:
        if not claimed.alerts:
            return {}
        # Sending must end before the claims do.
        time_left_s = 0.8 * self.lease_s - (self.steady() - claimed.at)
        if time_left_s <= 0:
            log.warning("writing the record took too long: sending is left to the next pass")
            return {}
        results = dispatch(claimed.alerts, self.channels, time_left_s)
        for (number, identity), result in results.items():
            if isinstance(result, DeliveryError):
                log.warning("alert %d was not delivered on %s: %s", number, identity.split(":")[0], result)
        return results

    def _perform_actions(self, claimed: ClaimedEffects) -> dict[str, ActionResult]:
        answers: dict[str, ActionResult] = {}
        executors = {executor.kind: executor for executor in self.executors}
        for action in claimed.actions:
            answer = self._perform(executors[action.kind], action, claimed.at + ACTION_LEASE_S)
            if answer is None:
                log.warning("%s is left to the next claim: too little time of this one is left", action.name)
                continue
            answers[action.name] = answer
            if isinstance(answer, Performed):
                log.info("%s (%s) is done: %s", action.name, called(action), answer.result)
            elif isinstance(answer, NotDoneError):
                log.info("%s (%s) waits: %s", action.name, called(action), answer)
            else:
                log.warning("%s (%s) is not known to be done: %s", action.name, called(action), answer)
        return answers

    def _perform(self, executor: Executor, action: Action, until: float) -> ActionResult | None:
        """Perform one action. Returns its result, or None if the claim left too little time to begin."""
        try:
            if self.steady() + executor.limit_s > until:
                return None
            try:
                known = executor.find(action)
            except ExecutorError as error:
                # An action that was never begun has not happened, even without an answer.
                return error if action.in_doubt else NotDoneError(str(error))
            if known is not None:
                return Performed(known)
            if self.steady() + executor.limit_s > until:
                return None
            return Performed(executor.perform(action))
        except ExecutorError as error:
            return error
        except Exception as error:
            # An unforeseen error leaves the action's progress unknown. The next claim begins by asking the world.
            log.exception("the executor of %s broke on %s", action.kind, action.name)
            return ExecutorError(f"the executor broke: {type(error).__name__}")
