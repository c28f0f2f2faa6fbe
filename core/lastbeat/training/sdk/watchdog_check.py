"""Warns in training's log if the watchdog seems to have stopped, because the mark of its last pass is old."""

import json
import logging
import math
from datetime import timedelta

from lastbeat.model import runid
from lastbeat.model.times import format_duration
from lastbeat.stores.port import Blob, DeniedError
from lastbeat.training.sdk.beat_tasks import Beat
from lastbeat.training.sdk.safe_log import safe_log

_EVERY_BEATS = 10
_LIMIT_BYTES = 16 * 1024
_LATE_INTERVALS = 3
_FIRST_LOOK_S = 300.0
"""Time in s that a new run waits for its first watchdog before it warns. A cron job or sweep may still begin."""
_LOOKED_S = 3600.0
"""A record may be at most this many s older than the attempt to count as a sign that a watcher is active."""


class WatchdogCheck:
    """Beat task: every ten beats, reads the mark. Warns once if it is older than three of its intervals, and again only
    after it has been fresh.

    Without a mark no sweep runs. A command that watches only this run leaves a record. If neither appears within some
    minutes, that is logged once.
    """

    purpose = "check for a watchdog"

    def __init__(self) -> None:
        self._beats = 0
        self._warned = False
        self._asked_for_record = False
        self._since = 0.0
        """Unix time of the first beat."""

    def write(self, beat: Beat) -> None:
        self._beats += 1
        self._since = self._since or beat.now
        # Neither in the first beat, which has enough to do, nor in the last.
        if self._beats % _EVERY_BEATS != 2 or beat.ending is not None:
            return
        blob = beat.store.read(runid.SWEEP_MARK, _LIMIT_BYTES)
        interval_s = _interval_s(blob) if blob is not None else None
        if blob is None and beat.now - self._since >= _FIRST_LOOK_S and not self._asked_for_record:
            self._asked_for_record = True
            self._look_for_record(beat)
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

    def _look_for_record(self, beat: Beat) -> None:
        try:
            record = beat.store.read(f"{beat.folder}{runid.RECORD}", 0)
        except DeniedError:
            # The record belongs to the watchdog, and this policy denies it to training.
            return
        lived = timedelta(seconds=max(0.0, beat.now - self._since) + _LOOKED_S)
        if record is None or beat.store.clock() - record.modified > lived:
            what = "nobody watches this run yet; let lastbeat sweep run, or: lastbeat watch --run-id %s (to see it:"
            safe_log(logging.WARNING, f"{what} lastbeat show %s)", beat.run.run_id, beat.run.run_id)

    def close(self) -> None:
        """Do nothing: this task holds no resources."""


def _interval_s(blob: Blob) -> float | None:
    """The time in s between two marks, from the mark; None if it is not plausible."""
    try:
        interval_s = json.loads(blob.body)["interval_s"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if isinstance(interval_s, bool) or not isinstance(interval_s, (int, float)):
        return None
    return float(interval_s) if math.isfinite(interval_s) and 0 < interval_s < 1e7 else None
