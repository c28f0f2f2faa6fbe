"""One pass over a fleet: list, screen, look where it is needed, tell what belongs together, remember."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from lastbeat.effects.dispatch import SEND_LIMIT_S
from lastbeat.fleet.archive import Archive
from lastbeat.fleet.blindness import Blindness
from lastbeat.fleet.findings import Findings
from lastbeat.fleet.groups import Groups
from lastbeat.fleet.looks import Looks
from lastbeat.fleet.one_pass import Pass
from lastbeat.fleet.pacing import PacedChannel
from lastbeat.fleet.plans import LIST, choose, split
from lastbeat.fleet.stand import Stand
from lastbeat.fleet.watches import Watches
from lastbeat.model.fleet import WHOLE, FleetPolicy, PassReport, Shard
from lastbeat.stores.counting import Tally
from lastbeat.stores.port import StoreError
from lastbeat.watchdog import WatchContext

log = logging.getLogger(__name__)

_CLOSING_S = 5.0
"""What is kept of a pass's time for writing down where it was."""


class Sweep:
    """Takes a fleet, or a shard of it, round once a call of :meth:`run`.

    Holds what spares requests between passes, and nothing that a restart would miss. ``tally`` counts what is asked of
    the store.
    """

    def __init__(
        self, context: WatchContext, fleet: FleetPolicy, *, shard: Shard = WHOLE, tally: Tally | None = None
    ) -> None:
        store, policy, clock, mask = context.store, context.policy, context.clock, context.mask
        self._store = store
        self._clock = clock
        self._fleet = fleet
        self._shard = shard
        self._tally = tally or Tally()
        self._archive = Archive(store, shard)
        # Half of what a delivery's claim leaves beside the sending itself.
        wait_s = max(0.5, (0.8 * policy.lease_s - SEND_LIMIT_S) / 2)
        paced = tuple(PacedChannel(channel, wait_s) for channel in context.channels)
        # Longer than a pass takes that ends at all, so that no other one lets go what this one is about to group.
        defer_s = max(policy.lease_s, 3 * fleet.interval_s)
        watches = Watches(replace(context, channels=paced, defer_s=defer_s))
        self._blindness = Blindness(store.url, paced, policy, clock=clock, state=context.state)
        self._stand = Stand(
            store=store,
            channels=paced,
            policy=policy,
            fleet=fleet,
            shard=shard,
            watches=watches,
            looks=Looks(),
            archive=self._archive,
            late=Findings(),
            groups=Groups(
                store, paced, policy, fleet, place_url=store.url, token=os.urandom(6).hex(), mask=mask, proven=True
            ),
        )

    def run(
        self,
        *,
        deadline: float | None = None,
        progress: Callable[[int, int], None] | None = None,
        on_sight: Callable[[], None] | None = None,
    ) -> PassReport:
        """One pass. Never raises for anything that the store, a channel or a run does.

        ``deadline`` is a time of ``time.monotonic()``: the pass ends before it, and the next goes on from there.
        ``progress`` is told how many runs were looked at and how many are known to need it, again and again.
        ``on_sight`` is called once, when the store has first answered.
        """
        began, asked = time.monotonic(), self._tally.counts
        until = float("inf") if deadline is None else max(began, deadline - min(_CLOSING_S, (deadline - began) / 4))
        try:
            memory = self._archive.load()
            now = self._store.clock()
            plan = choose(memory, now.timestamp(), self._fleet, free=not self._store.url.startswith("s3://"))
            passing = Pass(self._stand, memory, until, progress, on_sight)
            if plan == LIST:
                passing.by_listing()
            else:
                passing.by_probing(discover=now.timestamp() - memory.discovered_at >= self._fleet.discover_s)
        except StoreError as error:
            return self._blind(error, began, asked)
        report = passing.close(now, plan)
        for run_id in passing.found.seen_again:
            self._blindness.regained(run_id)
        # The memory first: whoever cannot be seen is looked at again before people are told that nobody can.
        notes = [*report.notes, *self._archive.save(memory, now)]
        notes += self._blindness.after(report, memory.unseen_since)
        return _timed(report, began, self._tally.since(asked), notes)

    def shards(self) -> tuple[Shard, ...]:
        """The parts that the fleet is to be split into, of about ``fanout_runs`` active runs each: one for a small
        fleet, and whenever the fleet as a whole has not been seen for long. Raises :class:`StoreError`."""
        return split(self._archive.load(), self._store.clock().timestamp(), self._fleet, self._shard)

    def _blind(self, error: StoreError, began: float, asked: dict[str, int]) -> PassReport:
        self._blindness.lost(str(error))
        report = PassReport(self._clock(), blind=str(error), advice=error.advice, complete=False)
        return _timed(report, began, self._tally.since(asked), ())


def _timed(report: PassReport, began: float, requests: dict[str, int], notes: Sequence[str]) -> PassReport:
    return replace(report, seconds=time.monotonic() - began, requests=requests, notes=tuple(notes))
