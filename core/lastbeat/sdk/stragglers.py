"""Stragglers, on training's side: each rank sums up its steps in windows and tells them, and rank 0 compares.

    every rank   steps ──► window ──┬─► ranks/{rank}.json, with its heartbeat
                                    └─► the store of torch.distributed, where that is in use
    rank 0       all windows ──► scores, flags ──► its log, metadata.json, and perhaps run.should_stop

Windows are told apart by their numbers, so no clock is compared with another. All of it happens in beat threads.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from json import loads
from typing import Any, Final

from lastbeat.model.straggler_lines import report_fields, report_json, report_lines
from lastbeat.model.stragglers import (
    Detector,
    RankWindow,
    StragglerReport,
    Thresholds,
    read_window,
    window_fields,
)
from lastbeat.sdk.beat_tasks import Beat
from lastbeat.sdk.ranks import Rank, rank_key
from lastbeat.sdk.run import Run
from lastbeat.sdk.safe_log import safe_log
from lastbeat.sdk.step_times import StepTimes, StepWindows
from lastbeat.sdk.straggler_exchange import TorchExchange
from lastbeat.stores.port import DeniedError, Store

LOGGER: Final = "lastbeat.stragglers"
_BUDGET_S: Final = 2.0
"""So long a beat may take for reading ranks' heartbeats; the next one goes on with it."""
_RANK_BYTES: Final = 1 << 16
_PATIENCE_S: Final = 10.0
"""Where ranks write no heartbeats, rank 0 waits so long for windows that end a little later than its own."""
_STOP_SAID: Final = "Detected stragglers: initiating graceful stop (%s)"


@dataclass(frozen=True, slots=True)
class StragglerOptions:
    """How stragglers are looked for."""

    every_s: float = 300.0
    """Length of a window, and time between two reports."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    shown: int = 5
    """So many of the worst and of the best ranks stand in the log. 0: only warnings do."""
    as_json: bool = False
    every_steps: int = 1
    """Each so many-th step is measured."""
    stops: bool = False
    """A straggler ends training, after a checkpoint."""


class StragglerWatch:
    """Beat task of rank 0, and with :meth:`follow` of any other rank. Its own thread is the beat thread.

    ``tell`` logs a line that people asked for, whatever level the log has.
    """

    purpose = "look for stragglers"

    def __init__(
        self,
        options: StragglerOptions,
        rank: Rank,
        rank_beat_s: float,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options, self._rank, self._tell, self._clock = options, rank, tell, clock
        self._windows: StepWindows | None = None
        self._exchange: TorchExchange | None = None
        self._closes = 0.0
        """When the present window ends."""
        alone = rank.world < 2
        self._patience_s = 0.0 if alone else min(rank_beat_s or _PATIENCE_S, options.every_s / 2)
        self._reports_at: float | None = None
        """When rank 0 compares the last windows. None: the present one comes first."""
        self._window: RankWindow | None = None
        self._told: RankWindow | None = None
        """The last one that was passed on."""
        self._detector = Detector(options.thresholds)
        self._report: StragglerReport | None = None
        self._reading: Iterator[RankWindow | None] | None = None
        self._read: list[RankWindow] = []
        self._spent_s = 0.0

    def begin(self, run: Run) -> None:
        """From now on training's steps count."""
        if run.sections.steps is None:
            run.sections.steps = StepTimes(self._options.every_steps)
        self._windows = StepWindows(run.sections.steps, self._rank.number, self._rank.host, self._options.every_steps)
        if self._rank.world > 1:
            self._exchange = TorchExchange(run.run_id)
        self._closes = self._clock() + self._options.every_s

    @property
    def wait_s(self) -> float:
        """Seconds until there is something to do for a rank other than 0."""
        return max(0.0, self._closes - self._clock())

    def rank_fields(self) -> dict[str, Any]:
        """What this rank's heartbeat says."""
        return {} if self._window is None else {"step_window": window_fields(self._window)}

    def run_fields(self) -> dict[str, Any]:
        """What rank 0's metadata.json says."""
        return {} if self._report is None else {"stragglers": report_fields(self._report)}

    def follow(self, attempt: int | None) -> None:
        """Sum up, and tell rank 0."""
        self._sum_up()
        if self._exchange is not None and self._window is not self._told and attempt is not None:
            self._exchange.tell(self._rank.number, {**self._own_document(), "attempt": attempt})
            self._told = self._window

    def write(self, beat: Beat) -> None:
        """Sum up, and compare the ranks once they may have told their windows."""
        if beat.ending is not None:
            self._reading = None
            return
        self._sum_up()
        if self._reading is None:
            if self._reports_at is None or self._clock() < self._reports_at:
                return
            self._reports_at, self._read, self._spent_s = None, [], 0.0
            self._reading = self._told_windows(beat)
        began = time.monotonic()
        try:
            finished = self._read_on()
        except BaseException:
            self._reading = None
            raise
        self._spent_s += time.monotonic() - began
        if finished:
            self._reading = None
            self._compare(beat.run)

    def _sum_up(self) -> None:
        """Take what training has told, and end the window once its time is over."""
        if self._windows is None:
            return
        if self._clock() < self._closes:
            self._windows.gather()
            return
        window = self._windows.close()
        # Keep the schedule, so that a beat that came late moves no further window.
        behind_s = self._clock() - self._closes
        self._closes += self._options.every_s * (1 + behind_s // self._options.every_s)
        if window is not None:
            self._window = window
        self._reports_at = self._clock() + self._patience_s

    def _own_document(self) -> dict[str, Any]:
        return {"host": self._rank.host or None, **self.rank_fields()}

    def _read_on(self) -> bool:
        """Read more of the ranks; whether all have been read."""
        until = time.monotonic() + _BUDGET_S
        for window in self._reading or ():
            if window is not None:
                self._read.append(window)
            if time.monotonic() > until:
                return False
        return True

    def _told_windows(self, beat: Beat) -> Iterator[RankWindow | None]:
        """The last window of each rank, as far as it is known; None after each that is not."""
        yield self._window
        told = self._exchange.ask(self._rank.world) if self._exchange is not None else None
        if told is not None:
            for rank, document in told.items():
                yield _window_of(document, rank, beat.attempt)
            return
        try:
            for rank in range(1, self._rank.world):
                yield _window_of(_document(beat.store, f"{beat.folder}{rank_key(rank)}"), rank, beat.attempt)
        except DeniedError:
            # Some policies let training write alone.
            return

    def _compare(self, run: Run) -> None:
        began = time.monotonic()
        self._detector, report = self._detector.judge(self._read, self._rank.world)
        self._report = report
        took_s = self._spent_s + time.monotonic() - began
        for line in self._lines(report, took_s):
            if line.warns:
                safe_log(logging.WARNING, "%s", line.text, to=logging.getLogger(LOGGER))
            else:
                self._tell(line.text)
        if self._options.stops and report.stragglers:
            worst = report.stragglers[0]
            where = f" on {worst.node}" if worst.node else ""
            more = f" and {len(report.stragglers) - 1} more" if len(report.stragglers) > 1 else ""
            why = f"straggler: rank {worst.rank}{where}{more}"
            run.ask_to_stop(why, _STOP_SAID % why, ends_soon=False)

    def _lines(self, report: StragglerReport, took_s: float) -> list[Any]:
        if self._options.as_json:
            line = report_json(report, self._options.shown, took_s)
            return [] if line is None else [line]
        return list(report_lines(report, self._options.shown, took_s))

    def close(self) -> None:
        """Release its thread."""
        if self._exchange is not None:
            self._exchange.close()


def _window_of(document: Mapping[str, Any], rank: int, attempt: int | None) -> RankWindow | None:
    """What a rank of this attempt tells."""
    if attempt is None or document.get("attempt") != attempt:
        return None
    return read_window(document.get("step_window"), rank, document.get("host"))


def _document(store: Store, key: str) -> dict[str, Any]:
    blob = store.read(key, _RANK_BYTES)
    try:
        found = loads(blob.body) if blob is not None else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
