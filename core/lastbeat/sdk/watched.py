"""The watchdog watched: passes leave marks, and an old mark is worth a warning."""

import json
import logging
import math
from datetime import timedelta

from lastbeat.model import runid
from lastbeat.model.times import format_duration
from lastbeat.sdk.extra import Beat
from lastbeat.sdk.saying import say
from lastbeat.stores.port import Blob

_EVERY = 10
_LIMIT_BYTES = 16 * 1024
_INTERVALS = 3


class WatchdogWatched:
    """Extra: looks every ten beats, and warns once in the log while no mark has been left for three of its intervals.

    Where no mark lies nobody sweeps, and there is nothing to warn of: a single run may be watched by a command.
    """

    def __init__(self) -> None:
        self._beats = 0
        self._warned = False

    def write(self, beat: Beat) -> None:
        self._beats += 1
        # Not in the first beat, which has enough to do, nor in the last.
        if self._beats % _EVERY != 2 or beat.ending is not None:
            return
        blob = beat.store.read(runid.SWEEP_MARK, _LIMIT_BYTES)
        interval_s = _interval_s(blob) if blob is not None else None
        if blob is None or interval_s is None:
            return
        age = beat.store.clock() - blob.modified
        late = age > timedelta(seconds=_INTERVALS * interval_s)
        if late and not self._warned:
            say(
                logging.WARNING,
                "nobody may be watching this run: the watchdog of %s left its last mark %s ago, and leaves one every"
                " %s; check that it still runs",
                beat.store.url,
                format_duration(age),
                format_duration(interval_s),
            )
        self._warned = late

    def close(self) -> None:
        """Nothing is held."""


def _interval_s(blob: Blob) -> float | None:
    """What the mark says of the time between two marks; None where it says nothing that makes sense."""
    try:
        interval_s = json.loads(blob.body)["interval_s"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if isinstance(interval_s, bool) or not isinstance(interval_s, (int, float)):
        return None
    return float(interval_s) if math.isfinite(interval_s) and 0 < interval_s < 1e7 else None
