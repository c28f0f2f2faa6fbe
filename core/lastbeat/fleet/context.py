"""State that the passes of one sweep share, above all the watches of its runs."""

import threading
from collections import OrderedDict
from dataclasses import replace
from datetime import datetime

from lastbeat.fleet.deadlines import BoundedCalls
from lastbeat.fleet.groups import Groups
from lastbeat.fleet.index_store import FleetIndexStore
from lastbeat.fleet.pass_results import PassResults
from lastbeat.fleet.shared_channel import SharedChannel
from lastbeat.fleet.worker_pool import WorkerPool
from lastbeat.model.fleet import Shard
from lastbeat.model.policy import FleetPolicy, Policy
from lastbeat.stores.limited import TimelyStore
from lastbeat.watch.effects.runner import SEND_LIMIT_S
from lastbeat.watch.record.limits import LISTED_FOR_S, FleetLimits
from lastbeat.watch.watchdog import Watch, WatchContext

KEPT = 10_000
"""Most watches that are kept, of some 3 KB each."""
KEPT_WITH_LOGS = 500
"""Most watches that keep the findings from their logs, some 100 KB each. Others read them again, from the state
directory or the logs."""
_LIGHT = 3
"""A record with more alerts than this is not kept, because alerts hold log lines and stacks."""


class SweepContext:
    """The shared state of one sweep, built from the context of its watches."""

    def __init__(self, context: WatchContext, fleet: FleetPolicy, shard: Shard) -> None:
        self.store = context.store
        self.timely = TimelyStore(context.store)
        """``store`` for calls that must not outlast the pass."""
        self.policy = context.policy
        """The policy without the limits of the fleet, see :meth:`policy_of`."""
        self.limits = FleetLimits(self.timely, LISTED_FOR_S)
        self.failures = context.failures
        self.fleet = fleet
        self.shard = shard
        self.mask = context.mask
        self.dry_run = context.dry_run
        # An alert may wait for half of the time that its claim leaves besides the sending.
        wait_s = max(0.5, (0.8 * context.policy.lease_s - SEND_LIMIT_S) / 2)
        self.channels = tuple(SharedChannel(channel, wait_s) for channel in context.channels)
        # Longer than any pass takes, so that no other pass releases alerts that this one is about to group.
        defer_s = max(context.policy.lease_s, 3 * fleet.interval_s)
        self.watches = WatchCache(replace(context, channels=self.channels, defer_s=defer_s, limits=self.limits))
        self.pool = WorkerPool()
        self.calls = BoundedCalls()
        self.index_store = FleetIndexStore(self.timely, shard)
        self.late = PassResults()
        """Results of looks that outlasted their pass; the next pass reports them."""
        self.groups = Groups(replace(context, channels=self.channels, proven=True), fleet)

    def policy_of(self, run_id: str, now: datetime) -> Policy:
        """The limits for a run, without those that it states itself. ``now`` is the store's time."""
        return self.limits.policy(run_id, self.policy, now)


class WatchCache:
    """Keeps the watches of a fleet's runs between passes, and lends each to one look at a time. A kept watch need not
    read its record again."""

    def __init__(self, context: WatchContext) -> None:
        self._context = replace(context, in_fleet=True)
        self._kept: OrderedDict[str, Watch] = OrderedDict()
        self._with_logs: OrderedDict[str, None] = OrderedDict()
        """Kept watches that hold findings from logs, the least recently used first."""
        self._lock = threading.Lock()

    def prove(self) -> None:
        """Creating a record has shown that the store honours conditional writes: new watches need not test it."""
        self._context = replace(self._context, proven=True)

    def take(self, run_id: str) -> Watch:
        """The run's watch, for the caller alone until :meth:`put_back`."""
        with self._lock:
            watch = self._kept.pop(run_id, None)
            self._with_logs.pop(run_id, None)
        return watch or Watch(run_id, self._context)

    def put_back(self, watch: Watch) -> None:
        """Keep the watch for the next look, unless it is large; the least recently used one is dropped.

        A watch that has sent an alert but could not record it is kept at any size, or the alert would be sent twice.
        """
        if watch.alerts > _LIGHT and not watch.owes:
            return
        with self._lock:
            self._kept[watch.run_id] = watch
            if watch.reads_logs and not watch.owes:
                self._with_logs[watch.run_id] = None
            if len(self._with_logs) > KEPT_WITH_LOGS:
                oldest, _ = self._with_logs.popitem(last=False)
                self._kept[oldest].forget_logs()
            if len(self._kept) > KEPT:
                oldest, _ = self._kept.popitem(last=False)
                self._with_logs.pop(oldest, None)
