"""Ends training on a request that ``lastbeat stop`` has left beside the run."""

import logging
import os
import signal
import threading
from collections.abc import Callable

from lastbeat.model import runid
from lastbeat.model.stop_request import LIMIT_BYTES, StopRequest, read_request
from lastbeat.model.times import parse_time
from lastbeat.stores.port import DeniedError
from lastbeat.training.sdk.beat_tasks import Beat
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import safe_log

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


class StopCheck:
    """Beat task: every ``every_beats``, checks for a request. One for this attempt ends training as Ctrl-C would, and
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
        try:
            blob = beat.store.read(f"{beat.folder}{runid.STOP}", LIMIT_BYTES)
        except DeniedError:
            # Some policies let training write but not read.
            return
        if blob is None or blob.version == self._known:
            return
        age_s = (beat.store.clock() - blob.modified).total_seconds()
        self._known = blob.version
        request = read_request(blob.body)
        if request is None or not request.is_of(parse_time(beat.start_time), beat.attempt):
            return
        self._end(beat.run, request, age_s)

    def _end(self, run: Run, request: StopRequest, age_s: float) -> None:
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
        elif _hears(signal.SIGINT):
            self._send(signal.SIGINT)
        else:
            wait_s = 0.0
        timer = threading.Timer(wait_s, self._insist, (run, os.getpid()))
        timer.name, timer.daemon = "lastbeat-stop", True
        timer.start()

    def _insist(self, run: Run, pid: int) -> None:
        if not run.ended and os.getpid() == pid:
            self._send(signal.SIGTERM)

    def close(self) -> None:
        """Do nothing: this task holds no resources."""


def _hears(number: int) -> bool:
    """Whether this process handles the signal. A command that a shell starts in the background ignores SIGINT."""
    return signal.getsignal(number) is not signal.SIG_IGN
