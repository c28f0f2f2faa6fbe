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

_SETTLE_TRIES = 6


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
        token = self.keeper.token
        for _ in range(_SETTLE_TRIES):
            now = self.clock()
            try:
                return self.keeper.save(settle(record, results, token, now), now)
            except ConflictError:
                pass
            except StoreError as error:
                log.warning("alerts went out, but that could not be written down yet: %s", error)
                break
            try:
                record = self.keeper.reload() or record
            except StoreError as error:
                log.warning("alerts went out, but that could not be written down yet: %s", error)
                break
        self._unsettled.update(results)
        return settle(record, results, token, self.clock())
