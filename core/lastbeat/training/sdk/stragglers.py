"""Finds stragglers within training: each rank sums up its steps in windows and reports them, and rank 0 compares.

    every rank   steps ──► window ──┬─► ranks/{rank}.json, with its heartbeat
                                    └─► the store of torch.distributed, where that is in use
    rank 0       all windows ──► scores, flags ──► its log, metadata.json, and perhaps run.should_stop

Windows are matched by their numbers, so no clock is compared with another. All of it happens in beat threads.

The exchange through torch.distributed uses no collective. One in a thread beside training could meet training's own in
another order on another rank, and both would wait for ever. The store answers each rank by itself. It gets a connection
of its own, because training may be waiting in the other one, and a thread of its own, which may hang without harm. This
module never imports torch.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from lastbeat.model.runid import rank_key
from lastbeat.model.straggler_lines import report_fields, report_json, report_lines
from lastbeat.model.stragglers import Detector, RankWindow, StragglerReport, Thresholds, read_window, window_fields
from lastbeat.stores.port import DeniedError
from lastbeat.stores.timed_calls import CallThread
from lastbeat.training.sdk.agreement import in_use
from lastbeat.training.sdk.beat_tasks import Beat, BeatTask, RunStart, go_on
from lastbeat.training.sdk.documents import parsed
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import fault_text, safe_log
from lastbeat.training.sdk.step_times import StepTimes, StepWindows

if TYPE_CHECKING:
    from lastbeat.settings.table import Stragglers

LIMIT_S: Final = 2.0
"""Most time in s that a rank waits for the store."""
_BYTES: Final = 4096
"""Most bytes of a document that a rank leaves for rank 0."""


class TorchExchange:
    """One rank's side of the exchange. Every method returns within :data:`LIMIT_S` and raises nothing."""

    def __init__(self, run_id: str) -> None:
        self._prefix = f"lastbeat/{run_id}/stragglers/"
        self._thread = CallThread[Any]("lastbeat-stragglers")
        self._default: Any = None
        self._own: Any = None
        """A second connection to the default store."""

    def tell(self, rank: int, document: Mapping[str, Any]) -> None:
        """Leave ``document`` of ``rank`` for rank 0."""
        body = json.dumps(document)
        self._call_store(lambda store: store.set(f"{self._prefix}{rank}", body))

    def ask(self, world: int) -> dict[int, dict[str, Any]] | None:
        """Rank → its latest document, without rank 0. None if torch.distributed is not in use, or its store has
        none."""
        found: dict[int, dict[str, Any]] | None = self._call_store(lambda store: self._read_documents(store, world))
        return found

    def _read_documents(self, store: Any, world: int) -> dict[int, dict[str, Any]] | None:
        keys = {rank: f"{self._prefix}{rank}" for rank in range(1, world)}
        # Reading a key that is not set yet would wait for it.
        if not store.check([*keys.values()]):
            keys = {rank: key for rank, key in keys.items() if store.check([key])}
        bodies = store.multi_get([*keys.values()]) if keys else []
        found = {rank: parsed(body) for rank, body in zip(keys, bodies, strict=True) if len(body) <= _BYTES}
        return {rank: document for rank, document in found.items() if document} or None

    def _call_store(self, what: Any) -> Any:
        if in_use() is None:
            return None
        try:
            return self._thread.call(lambda: self._with_store(what), LIMIT_S)
        except Exception as fault:  # noqa: BLE001 - the store's server may be gone, and torch's errors are of many kinds
            self._own = None
            safe_log(logging.DEBUG, "the store of torch.distributed does not pass stragglers on: %s", fault_text(fault))
            return None

    def _with_store(self, what: Any) -> Any:
        dist = in_use()
        default = dist.distributed_c10d._get_default_store() if dist is not None else None  # noqa: SLF001 - no other way
        if default is None or not hasattr(default, "clone"):
            return None
        if self._own is None or default is not self._default:
            self._default, self._own = default, default.clone()
            self._own.set_timeout(timedelta(seconds=LIMIT_S))
        return what(self._own)

    def close(self) -> None:
        self._thread.close()


LOGGER: Final = "lastbeat.stragglers"
_RANK_BYTES: Final = 1 << 16
"""Most bytes that are read of a rank's heartbeat."""
_PATIENCE_S: Final = 10.0
"""Time in s that rank 0 waits for windows that end a little later than its own, if ranks write no heartbeats."""
_STOP_SAID: Final = "Detected stragglers: initiating graceful stop (%s)"


class StragglerWatch(BeatTask):
    """Finds stragglers on rank 0; another rank reports its windows. ``tell`` logs a requested line at any log level."""

    purpose = "look for stragglers"

    def __init__(
        self,
        options: "Stragglers",
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options, self._tell, self._clock = options, tell, clock
        self._rank = Rank()
        self._windows: StepWindows | None = None
        self._exchange: TorchExchange | None = None
        self._closes = 0.0
        """End of the current window."""
        self._patience_s = 0.0
        """Time in s that rank 0 waits for the other ranks' windows."""
        self._reports_at: float | None = None
        """When rank 0 compares the last windows; None until the current window ends."""
        self._window: RankWindow | None = None
        self._sent: RankWindow | None = None
        """The last window that was sent to rank 0."""
        self._detector = Detector(Thresholds(options.relative, options.individual))
        self._report: StragglerReport | None = None
        self._reading: Iterator[None] | None = None
        self._read: list[RankWindow] = []
        self._spent_s = 0.0

    def begin(self, start: RunStart) -> None:
        """Start measuring training's steps."""
        self._rank, sections = start.rank, start.run.sections
        if sections.steps is None:
            sections.steps = StepTimes(self._options.every)
        self._windows = StepWindows(sections.steps, self._rank.number, self._rank.host, self._options.every)
        if self._rank.world > 1:
            self._exchange = TorchExchange(start.run.run_id)
            self._patience_s = min(start.environment.rank_beat_s or _PATIENCE_S, self._options.seconds / 2)
        self._closes = self._clock() + self._options.seconds

    @property
    def wait_s(self) -> float:
        return max(0.0, self._closes - self._clock())

    def fields(self, run: Run, *, quick: bool) -> dict[str, Any]:  # noqa: ARG002 - a task's
        """The last comparison of the ranks."""
        return {} if self._report is None else {"stragglers": report_fields(self._report)}

    def rank_fields(self, run: Run) -> dict[str, Any]:
        """Sum up this rank's steps, and return its last window."""
        if not run.ended:
            self._sum_up()
        return self._window_fields()

    def _window_fields(self) -> dict[str, Any]:
        return {} if self._window is None else {"step_window": window_fields(self._window)}

    def follow(self, beat: Beat) -> None:
        """Sum up this rank's steps, and send an ended window to rank 0."""
        if beat.ending is not None:
            return
        self._sum_up()
        if self._exchange is not None and self._window is not self._sent and beat.attempt is not None:
            document = {"host": self._rank.host or None, **self._window_fields(), "attempt": beat.attempt}
            self._exchange.tell(self._rank.number, document)
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
            self._reading = self._read_on(beat)
        began = time.monotonic()
        # A fault ends the reading.
        reading, self._reading = self._reading, None
        finished = go_on(reading)
        self._spent_s += time.monotonic() - began
        if finished:
            self._compare(beat.run)
        else:
            self._reading = reading

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
        self._closes += self._options.seconds * (1 + behind_s // self._options.seconds)
        if window is not None:
            self._window = window
        self._reports_at = self._clock() + self._patience_s

    def _read_on(self, beat: Beat) -> Iterator[None]:
        for window in self._rank_windows(beat):
            self._read += [window] if window is not None else []
            yield

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
                blob = beat.store.read(f"{beat.folder}{rank_key(rank)}", _RANK_BYTES)
                yield _window_of(parsed(blob.body) if blob is not None else {}, rank, beat.attempt)
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
        if self._options.mode == "stop" and report.stragglers:
            worst = report.stragglers[0]
            where = f" on {worst.node}" if worst.node else ""
            more = f" and {len(report.stragglers) - 1} more" if len(report.stragglers) > 1 else ""
            why = f"straggler: rank {worst.rank}{where}{more}"
            run.ask_to_stop(why, _STOP_SAID % why, ends_soon=False)

    def _lines(self, report: StragglerReport, took_s: float) -> list[Any]:
        if self._options.json:
            line = report_json(report, self._options.ranks, took_s)
            return [] if line is None else [line]
        return list(report_lines(report, self._options.ranks, took_s))

    def close(self) -> None:
        if self._exchange is not None:
            self._exchange.close()


def _window_of(document: Mapping[str, Any], rank: int, attempt: int | None) -> RankWindow | None:
    """The window in a rank's document; None if it is from another attempt."""
    if attempt is None or document.get("attempt") != attempt:
        return None
    return read_window(document.get("step_window"), rank, document.get("host"))
