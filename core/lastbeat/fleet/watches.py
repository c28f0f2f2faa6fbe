"""The watches of a fleet's runs, kept while there is room: one that is kept need not read its record again."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from lastbeat.deliver.port import Channel
from lastbeat.model.policy import Policy
from lastbeat.observe.reading import LogSettings
from lastbeat.record.silences import Silences
from lastbeat.stores.port import Store
from lastbeat.watchdog import Watch

KEPT = 10_000
"""Some 3 KB each."""
KEPT_WITH_LOGS = 500
"""Of those that read logs, some 100 KB each: what is not kept is read again, from the state directory or the log."""
_LIGHT = 3
"""Alerts hold log lines and stacks: a record with more of them is rather read again."""


class Watches:
    """Gives each run's watch to one look at a time. The arguments are those of :class:`Watch`."""

    def __init__(  # noqa: PLR0913 - what a watch stands on, each by its name
        self,
        store: Store,
        channels: Sequence[Channel],
        policy: Policy,
        *,
        clock: Callable[[], datetime],
        state: Store | None,
        link: Callable[[str], str | None],
        mask: Callable[[str], str],
        silences: Silences,
        hold_s: float,
        signals: LogSettings,
    ) -> None:
        self._store = store
        self._channels = channels
        # Nobody asked for these runs by name: one whose log came first gets as long as a heartbeat may take.
        self._policy = replace(policy, start_grace_s=max(policy.start_grace_s, policy.stale_s))
        self._clock = clock
        self._state = state
        self._link = link
        self._mask = mask
        self._silences = silences
        self._hold_s = hold_s
        self._signals = signals
        self._kept: OrderedDict[str, Watch] = OrderedDict()
        self._with_logs: OrderedDict[str, None] = OrderedDict()
        """Those of them that read logs."""
        self._lock = threading.Lock()
        self.proven = False
        """Whether a record's creation has shown that the store honours conditional writes."""

    def take(self, run_id: str) -> Watch:
        """The run's watch, which nobody else has until :meth:`put_back`."""
        with self._lock:
            watch = self._kept.pop(run_id, None)
            self._with_logs.pop(run_id, None)
        return watch or Watch(
            run_id,
            self._store,
            self._channels,
            self._policy,
            clock=self._clock,
            state=self._state,
            link=self._link(run_id),
            mask=self._mask,
            silences=self._silences,
            alone=False,
            proven=self.proven,
            hold_s=self._hold_s,
            signals=self._signals,
        )

    def put_back(self, watch: Watch) -> None:
        """Keep it for the next look, unless it is large; the one that was not used for longest goes."""
        if watch.alerts > _LIGHT:
            return
        with self._lock:
            self._kept[watch.run_id] = watch
            if watch.reads_logs:
                self._with_logs[watch.run_id] = None
            if len(self._with_logs) > KEPT_WITH_LOGS:
                oldest, _ = self._with_logs.popitem(last=False)
                del self._kept[oldest]
            if len(self._kept) > KEPT:
                oldest, _ = self._kept.popitem(last=False)
                self._with_logs.pop(oldest, None)
