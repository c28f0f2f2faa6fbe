"""What the passes of one sweep share, from one pass to the next."""

import os
from dataclasses import replace

from lastbeat.effects.dispatch import SEND_LIMIT_S
from lastbeat.fleet.deadlines import BoundedCalls
from lastbeat.fleet.groups import Groups
from lastbeat.fleet.index_store import FleetIndexStore
from lastbeat.fleet.pass_results import PassResults
from lastbeat.fleet.shared_channel import SharedChannel
from lastbeat.fleet.watch_cache import WatchCache
from lastbeat.fleet.worker_pool import WorkerPool
from lastbeat.model.fleet import Shard
from lastbeat.model.policy import FleetPolicy
from lastbeat.stores.limited import TimelyStore
from lastbeat.watchdog import WatchContext


class SweepContext:
    """Made once a sweep from what a watch of any of its runs stands on."""

    def __init__(self, context: WatchContext, fleet: FleetPolicy, shard: Shard) -> None:
        self.store = context.store
        self.timely = TimelyStore(context.store)
        """The same store, for calls that must not outlast the pass."""
        self.policy = context.policy
        self.fleet = fleet
        self.shard = shard
        self.mask = context.mask
        # An alert may wait for half of the time that its claim leaves beside the sending itself.
        wait_s = max(0.5, (0.8 * context.policy.lease_s - SEND_LIMIT_S) / 2)
        self.channels = tuple(SharedChannel(channel, wait_s) for channel in context.channels)
        # Longer than any pass that ends at all takes, so that no other pass releases what this one is about to group.
        defer_s = max(context.policy.lease_s, 3 * fleet.interval_s)
        self.watches = WatchCache(replace(context, channels=self.channels, defer_s=defer_s))
        self.pool = WorkerPool()
        self.calls = BoundedCalls()
        self.index_store = FleetIndexStore(self.timely, shard)
        self.late = PassResults()
        """What looks found that outlasted their pass; the next pass reports it."""
        self.groups = Groups(
            context.store,
            self.channels,
            context.policy,
            fleet,
            token=os.urandom(6).hex(),
            mask=context.mask,
            proven=True,
        )
