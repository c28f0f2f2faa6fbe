"""Record, deliver, settle: the last three steps of a tick, for whatever record they are about."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lastbeat.deliver.dispatch import Results, dispatch
from lastbeat.deliver.outbox import claim, settle
from lastbeat.deliver.port import Channel
from lastbeat.model.record import Record
from lastbeat.record.keeper import Keeper
from lastbeat.stores.port import ConflictError, StoreError

log = logging.getLogger(__name__)

_SETTLE_TRIES = 12
_SETTLE_PAUSE_S = 0.02
"""Before the second repetition; each pause is twice the one before, up to :data:`_SETTLE_LONGEST_S`."""
_SETTLE_LONGEST_S = 1.0
_SETTLE_S = 10.0
"""No repetition begins later than this after the sending."""


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
    _unsettled: Results = field(default_factory=dict)

    @property
    def identities(self) -> tuple[str, ...]:
        return tuple(channel.identity for channel in self.channels)

    def carry_out(self, record: Record, now: datetime, *, must_write: bool) -> Record:
        """Write ``record`` where it has to be, send what is due, settle. Returns the record as it is then.

        Raises :class:`StoreError` (:class:`ConflictError` when somebody else was faster) if the decision could not
        be written down: then nothing was sent.
        """
        token, overdue = self.keeper.token, dict(self._unsettled)
        if overdue:
            record = settle(record, overdue, token, now)
        # The claims begin now, not when the look began: that may have been slow.
        claimed_at = time.monotonic()
        record, claims = claim(record, self.identities, token, self.clock(), self.lease_s)
        if not (claims or must_write or overdue):
            self.keeper.keep(record)
            return record
        record = self.keeper.save(record, now)
        self._unsettled.clear()
        if not claims:
            return record
        # The claims run out after the lease; by then this pass must be done with them.
        time_left_s = 0.8 * self.lease_s - (time.monotonic() - claimed_at)
        if time_left_s <= 0:
            log.warning("writing the record took so long that sending is left to the next pass")
            return record
        results = dispatch(claims, self.channels, time_left_s)
        for (number, identity), error in results.items():
            if error is not None:
                log.warning("alert %d was not delivered on %s: %s", number, identity.split(":")[0], error)
        return self._settle(record, results)

    def _settle(self, record: Record, results: Results) -> Record:
        """Write down what became of the claims.

        This process may end after the pass, and whoever comes next would send again what is not written down. So a
        store that throttles is asked again and again, for a while.
        """
        until, lost_race = time.monotonic() + _SETTLE_S, False
        for tried in range(_SETTLE_TRIES):
            try:
                if lost_race:
                    record = self.keeper.reload() or record
                now = self.clock()
                return self.keeper.save(settle(record, results, self.keeper.token, now), now)
            except StoreError as error:  # noqa: PERF203 - there is nothing to be saved where a request is made
                lost_race = lost_race or isinstance(error, ConflictError)
                pause_s = min(_SETTLE_PAUSE_S * 2 ** (tried - 1), _SETTLE_LONGEST_S) if tried else 0.0
                late = time.monotonic() + pause_s > until
                if late or not (error.retryable or isinstance(error, ConflictError)):
                    log.warning("alerts went out, but that could not be written down yet: %s", error)
                    break
                time.sleep(pause_s)
        self._unsettled.update(results)
        return settle(record, results, self.keeper.token, self.clock())
