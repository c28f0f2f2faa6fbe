"""The watches of a fleet's runs, kept while there is room: one that is kept need not read its record again."""

import threading
from collections import OrderedDict
from dataclasses import replace

from lastbeat.watchdog import Watch, WatchContext

KEPT = 10_000
"""Some 3 KB each."""
KEPT_WITH_LOGS = 500
"""What so many logs said is kept with them, some 100 KB each; of the others it is read again, from the state directory
or the log."""
_LIGHT = 3
"""Alerts hold log lines and stacks: a record with more of them is rather read again."""


class Watches:
    """Gives each run's watch to one look at a time."""

    def __init__(self, context: WatchContext) -> None:
        policy = context.policy
        # Nobody asked for these runs by name: one whose log came first gets as long as a heartbeat may take.
        patient = replace(policy, start_grace_s=max(policy.start_grace_s, policy.stale_s))
        self._context = replace(context, policy=patient, in_fleet=True)
        self._kept: OrderedDict[str, Watch] = OrderedDict()
        self._with_logs: OrderedDict[str, None] = OrderedDict()
        """Those of them that read logs."""
        self._lock = threading.Lock()

    def prove(self) -> None:
        """A record's creation has shown that the store honours conditional writes."""
        self._context = replace(self._context, proven=True)

    def take(self, run_id: str) -> Watch:
        """The run's watch, which nobody else has until :meth:`put_back`."""
        with self._lock:
            watch = self._kept.pop(run_id, None)
            self._with_logs.pop(run_id, None)
        return watch or Watch(run_id, self._context)

    def put_back(self, watch: Watch) -> None:
        """Keep it for the next look, unless it is large; the one that was not used for longest goes. One that sent what
        it could not write down yet is kept, however large."""
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
