"""Finds stragglers within training: each rank sums up its steps in windows and reports them, and rank 0 compares.

    every rank   steps ──► window ──┬─► ranks/{rank}.json, with its heartbeat
                                    └─► the store of torch.distributed, where that is in use
    rank 0       all windows ──► scores, flags ──► its log, metadata.json, and perhaps run.should_stop

Windows are matched by their numbers, so no clock is compared with another. All of it happens in beat threads.
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
from lastbeat.stores.port import DeniedError, Store
from lastbeat.training.sdk.beat_tasks import Beat
from lastbeat.training.sdk.ranks import Rank, rank_key
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import safe_log
from lastbeat.training.sdk.step_times import StepTimes, StepWindows
from lastbeat.training.sdk.straggler_exchange import TorchExchange

LOGGER: Final = "lastbeat.stragglers"
_BUDGET_S: Final = 2.0
"""Time in s after which a beat stops reading heartbeats; the next beat continues."""
_RANK_BYTES: Final = 1 << 16
_PATIENCE_S: Final = 10.0
"""Time in s that rank 0 waits for windows that end a little later than its own, if ranks write no heartbeats."""
_STOP_SAID: Final = "Detected stragglers: initiating graceful stop (%s)"


@dataclass(frozen=True, slots=True)
class StragglerOptions:
    """Options of the straggler detection."""

    every_s: float = 300.0
    """Length of a window, and time between two reports."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    shown: int = 5
    """Number of worst ranks and of best ranks in the log; 0 logs only warnings."""
    as_json: bool = False
    every_steps: int = 1
    """One step in this many is measured."""
    stops: bool = False
    """Whether a straggler ends training, after a checkpoint."""


class StragglerWatch:
    """Finds stragglers as a beat task of rank 0; another rank only calls :meth:`follow`. For the beat thread.

    ``tell`` logs a requested line at any log level.
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
        """End of the current window."""
        alone = rank.world < 2
        self._patience_s = 0.0 if alone else min(rank_beat_s or _PATIENCE_S, options.every_s / 2)
        self._reports_at: float | None = None
        """When rank 0 compares the last windows; None until the current window ends."""
        self._window: RankWindow | None = None
        self._sent: RankWindow | None = None
        """The last window that was sent to rank 0."""
        self._detector = Detector(options.thresholds)
        self._report: StragglerReport | None = None
        self._reading: Iterator[RankWindow | None] | None = None
        self._read: list[RankWindow] = []
        self._spent_s = 0.0

    def begin(self, run: Run) -> None:
        """Start measuring training's steps."""
        if run.sections.steps is None:
            run.sections.steps = StepTimes(self._options.every_steps)
        self._windows = StepWindows(run.sections.steps, self._rank.number, self._rank.host, self._options.every_steps)
        if self._rank.world > 1:
            self._exchange = TorchExchange(run.run_id)
        self._closes = self._clock() + self._options.every_s

    @property
    def wait_s(self) -> float:
        """Seconds until a rank other than 0 has to act."""
        return max(0.0, self._closes - self._clock())

    def rank_fields(self) -> dict[str, Any]:
        """The extra fields of this rank's heartbeat."""
        return {} if self._window is None else {"step_window": window_fields(self._window)}

    def run_fields(self) -> dict[str, Any]:
        """The extra fields of rank 0's metadata.json."""
        return {} if self._report is None else {"stragglers": report_fields(self._report)}

    def follow(self, attempt: int | None) -> None:
        """Sum up this rank's steps, and send an ended window to rank 0."""
        self._sum_up()
        if self._exchange is not None and self._window is not self._sent and attempt is not None:
            self._exchange.tell(self._rank.number, {**self._own_document(), "attempt": attempt})
            self._sent = self._window

    def write(self, beat: Beat) -> None:
        """Sum up this rank's steps, and compare the ranks once they have had time to report their windows."""
        if beat.ending is not None:
            self._reading = None
            return
        self._sum_up()
        if self._reading is None:
            if self._reports_at is None or self._clock() < self._reports_at:
                return
            self._reports_at, self._read, self._spent_s = None, [], 0.0
            self._reading = self._rank_windows(beat)
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
        """Take the new durations, and end the window once its time is over."""
        if self._windows is None:
            return
        if self._clock() < self._closes:
            self._windows.gather()
            return
        window = self._windows.close()
        # Keep the schedule, so that a late beat does not shift the next windows.
        behind_s = self._clock() - self._closes
        self._closes += self._options.every_s * (1 + behind_s // self._options.every_s)
        if window is not None:
            self._window = window
        self._reports_at = self._clock() + self._patience_s

    def _own_document(self) -> dict[str, Any]:
        return {"host": self._rank.host or None, **self.rank_fields()}

    def _read_on(self) -> bool:
        """Read more ranks for up to ``_BUDGET_S``. Returns whether all have been read."""
        until = time.monotonic() + _BUDGET_S
        for window in self._reading or ():
            if window is not None:
                self._read.append(window)
            if time.monotonic() > until:
                return False
        return True

    def _rank_windows(self, beat: Beat) -> Iterator[RankWindow | None]:
        """The last window of each rank, or None for a rank whose window is unknown."""
        yield self._window
        documents = self._exchange.ask(self._rank.world) if self._exchange is not None else None
        if documents is not None:
            for rank, document in documents.items():
                yield _window_of(document, rank, beat.attempt)
            return
        try:
            for rank in range(1, self._rank.world):
                yield _window_of(_document(beat.store, f"{beat.folder}{rank_key(rank)}"), rank, beat.attempt)
        except DeniedError:
            # Some policies let training only write.
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
        """Release the thread of the exchange."""
        if self._exchange is not None:
            self._exchange.close()


def _window_of(document: Mapping[str, Any], rank: int, attempt: int | None) -> RankWindow | None:
    """The window in a rank's document; None if it is from another attempt."""
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
