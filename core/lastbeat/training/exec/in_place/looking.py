"""Polls the store in a thread for the reports of the training that this process has started."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from lastbeat.model import runid
from lastbeat.model.heartbeat import Heartbeat, read_heartbeat
from lastbeat.model.in_place import InPlace
from lastbeat.model.observation import Seen
from lastbeat.model.record import Attempt
from lastbeat.model.rerun import RerunReport
from lastbeat.model.stop_request import StopRequest, read_request
from lastbeat.stores.port import Blob, Store, StoreError
from lastbeat.training.exec.in_place.attention import begin_thread
from lastbeat.training.exec.in_place.hangs import SILENT_S, Hang, SaidOfItself
from lastbeat.training.sdk.documents import read_if_allowed
from lastbeat.training.sdk.exec_in_place import reported_by_training
from lastbeat.training.sdk.first_error import is_leftover, started_at
from lastbeat.training.sdk.safe_log import WarnOnce, fault_text
from lastbeat.watch.decide.freshness import silent_after_s
from lastbeat.watch.decide.late_sections import LateSection, behind, late_sections, leader_step, told_of
from lastbeat.watch.observe.ranks import SilentRankReader, look_at_ranks
from lastbeat.watch.observe.run import Observer

FREE_EACH_S: Final = 2.0
PAID_EACH_S: Final = 10.0
"""Time in s between two checks if requests cost money. Each is a listing and the new files; some four cents a day in
S3."""
_METADATA_BYTES: Final = 64 * 1024
_ERROR_BYTES: Final = 64 * 1024
MOST_ERRORS: Final = 16
_STEP: Final = "step"
_TWO: Final = 2


@dataclass(frozen=True, slots=True)
class RankError:
    """The error that one rank wrote when it failed."""

    name: str
    """Name of its file below the run's folder."""
    modified: datetime
    text: str


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """The files that an ended start left in the store; not ``known`` if they could not be read in time."""

    known: bool = False
    done: str | None = None
    """``_complete`` or ``_preempted`` if it has written that."""
    asked: StopRequest | None = None
    """A user's request to end it, if any."""
    errors: tuple[RankError, ...] = ()
    """Errors of its ranks, the oldest first."""
    step: int | None = None
    rerun: RerunReport | None = None
    """Result of re-runs of its steps, from its last heartbeat."""


class StoreLook:
    """Reads the reports of one start of one run."""

    def __init__(
        self, store: Store, run_id: str, ours: InPlace, began: float, mask: Callable[[str], str] = str
    ) -> None:
        """``began`` is when it was started, by the monotonic clock."""
        self._store, self._run_id, self._ours, self._mask = store, run_id, ours, mask
        self._observer = Observer(store, run_id, mask)
        self._ranks = SilentRankReader(store, run_id, mask)
        self._began = began
        self._reports = False
        self._metadata_version = ""
        self._attempt: tuple[datetime | None, int | None] | None = None
        """Start and number of the attempt, from its last metadata.json."""

    def look(self) -> SaidOfItself | None:
        """Training's current reports. None if metadata.json belongs to another start: the previous one, or a concurrent
        launch. Raises :class:`StoreError`."""
        at, now = time.monotonic(), self._store.clock()
        seen, _ = self._observer.look()
        metadata = seen.metadata if isinstance(seen, Seen) else None
        if metadata is None or not isinstance(seen, Seen) or metadata.in_place is None:
            return None
        if metadata.in_place.token != self._ours.token:
            return None
        self._attempt = (metadata.start_time, metadata.attempt)
        if metadata.version != self._metadata_version:
            self.sees_report()
            self._metadata_version = metadata.version
        attempt = _attempt(metadata)
        looked = self._ranks.add_to(seen, self._observer.ranks, attempt, SILENT_S, now)
        limit_s = silent_after_s(metadata.beat_s) if metadata.beat_s else None
        found = looked if isinstance(looked, Seen) else seen
        late = late_sections(found, attempt, limit_s, SILENT_S, now)
        progress = seen.progress
        step = metadata.step
        if progress is not None and not is_leftover(progress.modified, self._started()):
            step = progress.step
        # The training process may be over while its command goes on.
        silent = tuple(each for each in late if each.silent and seen.end is None)
        late = tuple(each for each in late if not each.silent)
        return SaidOfItself(
            at,
            self._reports,
            Hang(self._late_text(late, attempt, seen, now), late[0].open_s) if late else None,
            late[0].limit_s if late else 0.0,
            Hang(f"{told_of(silent)}; it is silent", silent[0].open_s) if silent else None,
            _is_busy(metadata),
            step,
        )

    def _late_text(self, late: tuple[LateSection, ...], attempt: Attempt, seen: Seen, now: datetime) -> str:
        """The late ranks in words, with a rank that they wait for, if one is behind but not late itself. Its report of
        its step has to be younger than the wait."""
        text = told_of(late)
        world_size = seen.metadata.world_size if seen.metadata is not None else None
        if world_size is None or world_size < _TWO:
            return text
        looked = look_at_ranks(self._store, self._run_id, self._mask, attempt, None, world_size)
        since = now - timedelta(seconds=late[0].open_s)
        steps: dict[int | None, int | None] = {0: leader_step(seen, since)}
        steps |= {rank: beat.step for rank, beat in looked.ranks.items() if beat.modified >= since}
        steps |= {each.rank: each.step for each in late}
        last = behind(steps)
        if last is None or any(each.rank == last for each in late):
            return text
        return f"{text}; rank {last} is behind the others, at step {steps[last]:,}"

    def sees_report(self) -> bool:
        """Whether training has ever reported itself, even if this process wrote metadata.json last. Called before each
        beat of this process, so that no report of training is missed. Raises :class:`StoreError`."""
        if not self._reports:
            blob = self._store.read(f"{self._run_id}/{runid.METADATA}", _METADATA_BYTES)
            self._reports = blob is not None and reported_by_training(blob.body, self._ours)
        return self._reports

    def left_behind(self) -> LeftBehind:
        """The files that the ended start left. Raises :class:`StoreError`."""
        started, folder = self._started(), f"{self._run_id}/"
        done = next(
            (name for name in (runid.COMPLETE, runid.PREEMPTED) if self._is_there(folder + name, started)), None
        )
        metadata, progress = (self._read(folder + name, _METADATA_BYTES) for name in (runid.METADATA, runid.PROGRESS))
        beat = read_heartbeat(metadata) if metadata is not None else None
        rerun = None
        if beat is not None and beat.in_place is not None and beat.in_place.token == self._ours.token:
            self._attempt = (beat.start_time, beat.attempt)
            rerun = beat.rerun
        step = None
        if progress is not None and not is_leftover(progress.modified, started):
            step = read_heartbeat(progress).step
        return LeftBehind(True, done, self.asked(), self._errors(started), step, rerun)

    def asked(self) -> StopRequest | None:
        """A user's request to end this attempt, even if the next one has begun, or None. Raises :class:`StoreError`."""
        request = self._read(f"{self._run_id}/{runid.STOP}", runid.STOP_LIMIT_BYTES)
        found = read_request(request.body) if request is not None else None
        return found if found is not None and self._attempt is not None and found.is_of(*self._attempt) else None

    def _errors(self, started: datetime) -> tuple[RankError, ...]:
        page = self._store.list(f"{self._run_id}/ranks/")
        entries = [
            each
            for each in page.entries
            if each.key.endswith(".error") and each.fault is None and not is_leftover(each.modified, started)
        ]
        found = list[RankError]()
        for entry in sorted(entries, key=lambda each: each.modified)[:MOST_ERRORS]:
            blob = self._read(entry.key, _ERROR_BYTES)
            if blob is not None:
                text = self._mask(blob.body.decode("utf-8", "replace"))
                found.append(RankError(entry.key.partition("/")[2], entry.modified, text))
        return tuple(found)

    def _read(self, key: str, limit_bytes: int) -> Blob | None:
        return read_if_allowed(self._store, key, limit_bytes)

    def _is_there(self, key: str, started: datetime) -> bool:
        blob = self._read(key, 0)
        return blob is not None and not is_leftover(blob.modified, started)

    def _started(self) -> datetime:
        return started_at(self._store, time.monotonic() - self._began)


class StoreWatch:
    """The thread that polls the store from the beginning of a start to its end."""

    def __init__(
        self, make: Callable[[], tuple[Store, StoreLook]], also: Callable[[Store], None] = lambda _: None
    ) -> None:
        """``make`` connects to the store, in the thread. ``also`` is called with each look; it may raise
        :class:`StoreError`."""
        self._make, self._also = make, also
        self.said: SaidOfItself | None = None
        """Result of the last successful check."""
        self.look: StoreLook | None = None
        self._stop = threading.Event()
        self._warnings = WarnOnce()

    def start(self) -> None:
        begin_thread(self._run, "lastbeat-in-place")

    def stop(self) -> None:
        """Stop polling, without waiting for the thread."""
        self._stop.set()

    def _run(self) -> None:
        store: Store | None = None
        each_s = FREE_EACH_S
        while not self._stop.is_set():
            try:
                if store is None or self.look is None:
                    store, self.look = self._make()
                    each_s = FREE_EACH_S if store.traits.prices.free else PAID_EACH_S
                self.said = self.look.look() or self.said
                self._also(store)
            except StoreError as fault:
                self._warnings.warn("store", "lastbeat cannot see how its command is: %s", str(fault))
            except Exception as fault:  # noqa: BLE001 - whatever it is, the command goes on and is polled again
                self._warnings.warn("fault", "lastbeat cannot see how its command is: %s", fault_text(fault))
            self._stop.wait(each_s)


def _attempt(metadata: Heartbeat) -> Attempt:
    offset_s = metadata.clock_offset_s or 0.0
    number = metadata.attempt or 1
    return Attempt(number, metadata.start_time, (offset_s, offset_s), declared=metadata.attempt)


def _is_busy(metadata: Heartbeat) -> bool:
    return any(
        each.name not in {None, "", _STEP} and each.limit_s is not None and each.open_s <= each.limit_s
        for each in metadata.sections
    )
