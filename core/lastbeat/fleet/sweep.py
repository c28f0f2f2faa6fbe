"""One pass over a fleet: list, screen, look where it is needed, tell what belongs together, remember."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from lastbeat.effects.dispatch import SEND_LIMIT_S
from lastbeat.fleet.archive import Archive
from lastbeat.fleet.blindness import Blindness
from lastbeat.fleet.findings import Findings
from lastbeat.fleet.groups import Groups
from lastbeat.fleet.looks import Looks
from lastbeat.fleet.memory import FleetMemory
from lastbeat.fleet.one_pass import Pass
from lastbeat.fleet.pacing import PacedChannel
from lastbeat.fleet.plans import Plan, choose, split
from lastbeat.fleet.stand import Stand
from lastbeat.fleet.steps import Steps, half_until
from lastbeat.fleet.watches import Watches
from lastbeat.model.fleet import WHOLE, PassReport, Shard
from lastbeat.model.policy import FleetPolicy
from lastbeat.stores.counting import Tally
from lastbeat.stores.limited import TimelyStore
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
        self._timely = TimelyStore(store)
        self._steps = Steps()
        self._archive = Archive(self._timely, shard)
        self._first = True
        # Half of what a delivery's claim leaves beside the sending itself.
        wait_s = max(0.5, (0.8 * policy.lease_s - SEND_LIMIT_S) / 2)
        paced = tuple(PacedChannel(channel, wait_s) for channel in context.channels)
        # Longer than a pass takes that ends at all, so that no other one lets go what this one is about to group.
        defer_s = max(policy.lease_s, 3 * fleet.interval_s)
        watches = Watches(replace(context, channels=paced, defer_s=defer_s))
        self._blindness = Blindness(store.url, paced, policy, clock=clock, state=context.state)
        self._stand = Stand(
            store=store,
            timely=self._timely,
            channels=paced,
            policy=policy,
            fleet=fleet,
            shard=shard,
            watches=watches,
            looks=Looks(),
            steps=self._steps,
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
        ends = float("inf") if deadline is None else deadline
        until = ends if deadline is None else max(began, ends - min(_CLOSING_S, (ends - began) / 4))
        self._timely.until = until
        passing: Pass | None = None
        try:
            memory, now = self._known()
            plan = choose(memory, now.timestamp(), self._fleet, self._store.traits.prices)
            passing = Pass(self._stand, memory, until, progress, on_sight)
            if plan is Plan.LIST:
                passing.by_listing(now.timestamp())
            else:
                passing.by_probing(now.timestamp(), between=plan is Plan.BETWEEN)
        except StoreError as error:
            if passing is not None:
                passing.give_up()
            return self._blind(error, began, asked, ends)
        report = passing.close(now, plan.told, ends)
        # The memory first: whoever cannot be seen is looked at again before people are told that nobody can.
        self._timely.until = half_until(ends)
        notes = [*report.notes, *self._archive.save(memory, now)]
        told = self._steps.take("telling who cannot be seen", lambda: self._tell(passing, report), ends)
        if told is None:
            # Saying once more that a run can be seen does no harm.
            with memory.lock:
                self._stand.late.seen_again.extend(passing.found.seen_again)
        return _timed(report, began, self._tally.since(asked), [*notes, *(told or ())])

    def _known(self) -> tuple[FleetMemory, datetime]:
        """What is known of the fleet, and the store's time."""
        memory, now = self._archive.load(), self._timely.clock()
        if self._first:
            # A process that makes one pass has its turn all the same: what is done in every third pass, say.
            memory.passes = int(now.timestamp() / self._fleet.interval_s)
            self._first = False
        return memory, now

    def _tell(self, passing: Pass, report: PassReport) -> tuple[str, ...]:
        for run_id in passing.found.seen_again:
            self._blindness.regained(run_id)
        return self._blindness.after(report, self._archive.load().unseen_since)

    def shards(self, *, deadline: float | None = None) -> tuple[Shard, ...]:
        """The parts that the fleet is to be split into, of about ``fanout_runs`` active runs each: one for a small
        fleet, and whenever the fleet as a whole has not been seen for long. Raises :class:`StoreError`, also where that
        was not known by ``deadline``, a time of ``time.monotonic()``."""
        self._timely.until = float("inf") if deadline is None else deadline
        return split(self._archive.load(), self._timely.clock().timestamp(), self._fleet, self._shard)

    def _blind(self, error: StoreError, began: float, asked: dict[str, int], ends: float) -> PassReport:
        self._steps.take("telling who cannot be seen", lambda: self._blindness.lost(str(error)), ends)
        report = PassReport(self._clock(), blind=str(error), advice=error.advice, complete=False)
        return _timed(report, began, self._tally.since(asked), ())


def _timed(report: PassReport, began: float, requests: dict[str, int], notes: Sequence[str]) -> PassReport:
    return replace(report, seconds=time.monotonic() - began, requests=requests, notes=tuple(notes))
