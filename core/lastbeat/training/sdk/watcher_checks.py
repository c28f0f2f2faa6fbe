"""Beat tasks that read what watchers leave in the store: a request to stop, and the mark of their last pass."""

import logging
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from lastbeat import model
from lastbeat.model import runid
from lastbeat.model.json_values import finite
from lastbeat.model.times import format_duration, parse_time
from lastbeat.stores.port import Blob, DeniedError
from lastbeat.training.sdk.beat_tasks import Beat, BeatTask
from lastbeat.training.sdk.documents import parsed, read_if_allowed
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import safe_log

if TYPE_CHECKING:
    from lastbeat.model.stop_request import StopRequest

EVERY_BEATS = 10
"""Beats between two checks if requests to the store cost money; otherwise each beat checks."""
SendSignal = Callable[[int], None]


def send_to_self(number: int) -> None:
    """Send the signal ``number`` to this process, as Ctrl-C and ``kill`` would. The main thread gets it, because only
    that acts on signals, and it may be asleep."""
    main = threading.main_thread().ident
    if main is None:
        os.kill(os.getpid(), number)
    else:
        signal.pthread_kill(main, number)


class StopCheck(BeatTask):
    """Every ``every_beats``, checks for a request. One for this attempt ends training as Ctrl-C would, and
    after the request's grace period as ``kill`` would. If it grants a checkpoint, training ends by itself.

    ``send`` sends a signal to whatever trains.
    """

    purpose = "look for a request to end"

    def __init__(self, every_beats: int = EVERY_BEATS, send: SendSignal = send_to_self) -> None:
        self._every = every_beats
        self._send = send
        self._beats = 0
        self._known: str | None = None
        """Version of the last request that was handled."""

    def write(self, beat: Beat) -> None:
        self._beats += 1
        # Not in the beats that check for a watchdog, nor in the first beat, which has enough to do.
        if beat.ending is not None or (self._beats - 1) % self._every != min(6, self._every - 1) or self._beats < 2:
            return
        blob = read_if_allowed(beat.store, f"{beat.folder}{runid.STOP}", runid.STOP_LIMIT_BYTES)
        if blob is None or blob.version == self._known:
            return
        age_s = (beat.store.clock() - blob.modified).total_seconds()
        self._known = blob.version
        request = model.stop_request.read_request(blob.body)
        if request is None or not request.is_of(parse_time(beat.start_time), beat.attempt):
            return
        self._end(beat.run, request, age_s)

    def _end(self, run: Run, request: "StopRequest", age_s: float) -> None:
        if request.after_checkpoint:
            said = f"lastbeat asks this training to save a checkpoint and end: {request.summary}"
            run.ask_to_stop(request.summary, said, ends_soon=False)
            return
        run.stopped = request.summary
        safe_log(logging.WARNING, "lastbeat ends this training: %s", request.summary)
        wait_s = request.grace_s
        if request.signalled:
            # The request's author has sent SIGINT. A second one would interrupt the ending that the first one began.
            wait_s = max(0.0, request.grace_s - age_s)
        elif signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            # A command that a shell starts in the background ignores it.
            self._send(signal.SIGINT)
        else:
            wait_s = 0.0
        timer = threading.Timer(wait_s, self._insist, (run, os.getpid()))
        timer.name, timer.daemon = "lastbeat-stop", True
        timer.start()

    def _insist(self, run: Run, pid: int) -> None:
        if not run.ended and os.getpid() == pid:
            self._send(signal.SIGTERM)


_MARK_EVERY_BEATS = 10
_MARK_LIMIT_BYTES = 16 * 1024
_LATE_INTERVALS = 3
_FIRST_LOOK_S = 300.0
"""Time in s that a new run waits for its first watchdog before it warns. A cron job or sweep may still begin."""
_LOOKED_S = 3600.0
"""A record may be at most this many s older than the attempt to count as a sign that a watcher is active."""


class WatchdogCheck(BeatTask):
    """Every ten beats, reads the mark. Warns once if it is older than three of its intervals, and again only
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
        if self._beats % _MARK_EVERY_BEATS != 2 or beat.ending is not None:
            return
        blob = beat.store.read(runid.SWEEP_MARK, _MARK_LIMIT_BYTES)
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
                "this run may not be watched: the watchdog of %s left its last mark %s ago, and should leave one"
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
            what = "no watchdog watches this run yet; run lastbeat sweep, or: lastbeat watch --run-id %s (to see it:"
            safe_log(logging.WARNING, f"{what} lastbeat show %s)", beat.run.run_id, beat.run.run_id)


def _interval_s(blob: Blob) -> float | None:
    """The time in s between two marks, from the mark; None if it is not plausible."""
    found = finite(parsed(blob.body).get("interval_s"))
    return found if found is not None and 0 < found < 1e7 else None
