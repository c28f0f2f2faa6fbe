"""The heartbeats of a distributed run's ranks, side by side."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from heapq import nsmallest
from typing import Final

from lastbeat.model import status as names
from lastbeat.model.heartbeat import Heartbeat, read_heartbeat
from lastbeat.model.observation import RanksSeen
from lastbeat.model.status import Status
from lastbeat.model.view import RankLine
from lastbeat.stores.port import Blob, Entry, Store
from lastbeat.views.file_cache import CachedFile, FileCache, FilePiece
from lastbeat.views.judging import Judged
from lastbeat.views.safe import Safe
from lastbeat.watch.decide.ranks import failed_rank, suspects
from lastbeat.watch.observe.ranks import rank_in_error

MOST: Final = 512
"""Most ranks that are read."""
LIMIT_BYTES: Final = 16 * 1024
_THREADS: Final = 16
_NAME_LIMIT: Final = 100


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of one attempt."""

    lines: tuple[RankLine, ...] = ()
    """By number."""
    left_out: int = 0
    """Number of further ranks that have written a heartbeat and were not read."""


@dataclass(frozen=True, slots=True)
class _Read:
    """One rank's document, understood."""

    line: RankLine
    attempt: int | None = None


@dataclass
class RankReader:
    """Reads the ranks of one run again and again, and only those that wrote since."""

    store: Store
    safe: Safe
    _cache: FileCache = field(init=False)

    def __post_init__(self) -> None:
        self._cache = FileCache(self.store, _THREADS)

    def look(self, listed: Mapping[int, Entry], began: datetime | None, attempt: int | None) -> Ranks:
        """The ranks as they are now. A document from before ``began`` (the store's time), or of another attempt than
        ``attempt``, does not count. Never raises for the store: one that cannot be read says so."""
        ours = {rank: entry for rank, entry in listed.items() if began is None or entry.modified >= began}
        chosen = choose(ours)
        got = self._cache.fetch({str(rank): FilePiece(ours[rank], LIMIT_BYTES) for rank in chosen})
        read = [self._read(rank, got[str(rank)]) for rank in chosen]
        lines = [each.line for each in read if attempt is None or each.attempt in {None, attempt}]
        return Ranks(compared(lines), len(ours) - len(chosen))

    def _read(self, rank: int, got: CachedFile) -> _Read:
        fault = None if got.fault is None else self.safe.name(str(got.fault))
        read = self._cache.understood(str(rank), lambda blob: understood(rank, blob, self.safe))
        if read is None:
            return _Read(RankLine(rank, got.entry.modified, fault=fault or "it went away while it was read"))
        return read if fault is None else replace(read, line=replace(read.line, fault=fault))


def choose(listed: Mapping[int, Entry], most: int = MOST) -> list[int]:
    """Which of very many ranks are read, by number: half of them those that were silent for longest, then the first."""
    if len(listed) <= most:
        return sorted(listed)
    silent = nsmallest(most // 2, listed, key=lambda rank: (listed[rank].modified, rank))
    others = nsmallest(most - len(silent), listed.keys() - set(silent))
    return sorted([*silent, *others])


def understood(rank: int, blob: Blob, safe: Safe) -> _Read:
    """One rank's document, as far as it can be understood."""
    beat = read_heartbeat(blob, safe.text)
    died = f"a thread of it had ended with an exception: {beat.thread_error}" if beat.thread_error else None
    line = RankLine(
        rank,
        blob.modified,
        beat.step,
        beat.loss,
        safe.maybe(beat.phase, _NAME_LIMIT),
        safe.maybe(beat.status, _NAME_LIMIT),
        safe.maybe(beat.host, _NAME_LIMIT),
        None,
        safe.maybe(beat.fault or died),
        beat.beat_s,
    )
    return _Read(line, beat.attempt)


def standing_out(ranks: Ranks, judged: Judged, world_size: int | None, at: datetime) -> str | None:
    """The text of an alert about the ranks, as of now."""
    troubled = {names.STALLED, names.BEATS_MISSED} & {*judged.conditions}
    if not ranks.lines or not (judged.status in {Status.FAILED, Status.TIMED_OUT} or troubled):
        return None
    beats = {
        line.rank: Heartbeat(line.modified, "", beat_s=line.beat_s, status=line.status, host=line.host, step=line.step)
        for line in ranks.lines
    }
    record, error = judged.record, judged.seen.error if judged.seen is not None else None
    steps = record.progress or record.log if record is not None else None
    named = rank_in_error(error.text) if error is not None else None
    if named is None and judged.status is Status.FAILED and judged.explained is not None:
        named = failed_rank(judged.explained.cause)
    return suspects(
        RanksSeen(beats, ranks.left_out, world_size, judged.attempt.began_at),
        at,
        named=named,
        over=judged.status is Status.FAILED,
        since=steps.step_at if steps is not None else None,
    )


def compared(lines: list[RankLine]) -> tuple[RankLine, ...]:
    """``lines`` with how far each is behind the foremost."""
    foremost = max((line.step for line in lines if line.step is not None), default=None)
    if foremost is None:
        return tuple(lines)
    return tuple(line if line.step is None else replace(line, behind=foremost - line.step) for line in lines)
