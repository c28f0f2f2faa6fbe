"""Warns in training's log if the watchdog seems to have stopped: its passes leave marks, and the last one is old."""

import json
import logging
import math
from datetime import timedelta

from lastbeat.model import runid
from lastbeat.model.times import format_duration
from lastbeat.sdk.beat_tasks import Beat
from lastbeat.sdk.safe_log import safe_log
from lastbeat.stores.port import Blob

_EVERY_BEATS = 10
_LIMIT_BYTES = 16 * 1024
_LATE_INTERVALS = 3


class WatchdogCheck:
    """Beat task: every ten beats, reads the mark. Warns once if it is older than three of its intervals, and again only
    after it has been fresh.

    No mark means that no sweep runs, which needs no warning: a command may watch this run alone.
    """

    purpose = "check for a watchdog"

    def __init__(self) -> None:
        self._beats = 0
        self._warned = False

    def write(self, beat: Beat) -> None:
        self._beats += 1
        # Neither in the first beat, which has enough to do, nor in the last.
        if self._beats % _EVERY_BEATS != 2 or beat.ending is not None:
            return
        blob = beat.store.read(runid.SWEEP_MARK, _LIMIT_BYTES)
        interval_s = _interval_s(blob) if blob is not None else None
        if blob is None or interval_s is None:
            return
        age = beat.store.clock() - blob.modified
        late = age > timedelta(seconds=_LATE_INTERVALS * interval_s)
        if late and not self._warned:
            safe_log(
                logging.WARNING,
                "nobody may be watching this run: the watchdog of %s left its last mark %s ago, and should leave one"
                " every %s; check that it still runs",
                beat.store.url,
                format_duration(age),
                format_duration(interval_s),
            )
        self._warned = late

    def close(self) -> None:
        """Nothing is held."""


def _interval_s(blob: Blob) -> float | None:
    """The time between two marks, as the mark says; None if it says nothing plausible."""
    try:
        interval_s = json.loads(blob.body)["interval_s"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if isinstance(interval_s, bool) or not isinstance(interval_s, (int, float)):
        return None
    return float(interval_s) if math.isfinite(interval_s) and 0 < interval_s < 1e7 else None
