"""Record, deliver, settle: the last three steps of a tick, for whatever record they are about."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lastbeat.deliver.dispatch import Results, dispatch
from lastbeat.deliver.outbox import claim, pending, settle
from lastbeat.deliver.port import Channel
from lastbeat.model.record import Record
from lastbeat.record.keeper import Keeper
from lastbeat.stores.port import ConflictError, StoreError

log = logging.getLogger(__name__)

_FIRST_TRY_S = 2.0
_LONGEST_TRY_S = 8.0
"""What a request that writes down what was sent may take: the first try's, and how far that doubles from try to try. A
store answers in a fraction of it, or one request hangs; and one that is really that slow is given the longer time."""
_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 4.0
"""Before the third try, and how far that doubles."""


@dataclass
class Rounds:
    """Carries decisions out for one record, round after round.

    What was sent but could not be written down is remembered and written first thing in the next round, so a
    store that fails in between costs no second delivery by this process.
    """

    keeper: Keeper
    channels: Sequence[Channel]
    lease_s: float
    clock: Callable[[], datetime]
    sleep: Callable[[float], None] = time.sleep
    steady: Callable[[], float] = time.monotonic
    _unsettled: Results = field(default_factory=dict)

    @property
    def identities(self) -> tuple[str, ...]:
        return tuple(channel.identity for channel in self.channels)

    @property
    def unsettled(self) -> frozenset[tuple[int, str]]:
        """Deliveries that were made and could not be written down yet: this process alone knows of them."""
        return frozenset(key for key, error in self._unsettled.items() if error is None)

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
        return pending(record, self.identities, now) + len(self.unsettled - open_)

    def carry_out(self, record: Record, now: datetime, *, must_write: bool, until: float = float("inf")) -> Record:
        """Write ``record`` where it has to be, send what is due, settle. Returns the record as it is then.

        Settling is not tried again after ``until`` (``time.monotonic()``), however long the claims still hold.

        Raises :class:`StoreError` (:class:`ConflictError` when somebody else was faster) if the decision could not
        be written down: then nothing was sent.
        """
        token, overdue = self.keeper.token, dict(self._unsettled)
        if overdue:
            record = settle(record, overdue, token, now)
        # The claims begin now, not when the look began: that may have been slow.
        claimed_at = self.steady()
        record, claims = claim(record, self.identities, token, self.clock(), self.lease_s)
        if not (claims or must_write or overdue):
            self.keeper.keep(record)
            return record
        record = self.keeper.save(record, now)
        self._unsettled.clear()
        if not claims:
            return record
        # The claims run out after the lease; by then this pass must be done with them.
        time_left_s = 0.8 * self.lease_s - (self.steady() - claimed_at)
        if time_left_s <= 0:
            log.warning("writing the record took so long that sending is left to the next pass")
            return record
        results = dispatch(claims, self.channels, time_left_s)
        for (number, identity), error in results.items():
            if error is not None:
                log.warning("alert %d was not delivered on %s: %s", number, identity.split(":")[0], error)
        return self._settle(record, results, min(until, claimed_at + self.lease_s))

    def _settle(self, record: Record, results: Results, until: float) -> Record:
        """Write down what became of the claims.

        This process may end after the pass, and whoever comes next would send again what is not written down. So a
        store that throttles or does not answer is asked again and again until the claims run out; and as one request
        that hangs must not use up all that time, each gets a small part of it.
        """
        tried, lost_race = 0, False
        while True:
            limit_s = min(_FIRST_TRY_S * 2 ** min(tried, 8), _LONGEST_TRY_S)
            limit_s = min(limit_s, max(_FIRST_TRY_S, until - self.steady()))
            try:
                with self.keeper.hurrying(limit_s):
                    if lost_race:
                        record = self.keeper.reload() or record
                    now = self.clock()
                    return self.keeper.save(settle(record, results, self.keeper.token, now), now)
            except StoreError as error:
                lost_race = lost_race or isinstance(error, ConflictError)
                pause_s = min(_PAUSE_S * 2 ** min(tried - 1, 8), _LONGEST_PAUSE_S) if tried else 0.0
                late = self.steady() + pause_s >= until
                if late or not (error.retryable or isinstance(error, ConflictError)):
                    log.warning("alerts went out, but that could not be written down yet: %s", error)
                    break
            tried += 1
            self.sleep(pause_s)
        self._unsettled.update(results)
        return settle(record, results, self.keeper.token, self.clock())
