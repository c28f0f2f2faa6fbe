"""Writes the documents of single ranks: ranks/{rank}.json, and the errors of ranks other than 0."""

import logging
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lastbeat.model import runid
from lastbeat.stores.port import Store, StoreError
from lastbeat.training.sdk.beat_tasks import Beat, BeatStep
from lastbeat.training.sdk.documents import encode
from lastbeat.training.sdk.first_error import RankZeroState, rank_zero_state, retry_for, started_at, write_first_error
from lastbeat.training.sdk.late_mark import LateMark, is_late
from lastbeat.training.sdk.ranks import Rank, first_beat_s, rank_document, rank_error_key, rank_key, with_rank
from lastbeat.training.sdk.run import Run, is_cancelled
from lastbeat.training.sdk.safe_log import safe_log
from lastbeat.training.sdk.value_reader import ValueReader

if TYPE_CHECKING:
    from lastbeat.training.sdk.learning import Learning
    from lastbeat.training.sdk.stragglers import StragglerWatch

_IDLE_S = 3600.0


class RankHeartbeat:
    """Writes ranks/{rank}.json every ``every_s`` seconds (0: never). Ranks are spread over the interval.

    ``started`` is by ``time.monotonic()``.
    """

    def __init__(
        self, store: Store, run_id: str, rank: Rank, every_s: float, started: float, reader: ValueReader | None = None
    ) -> None:
        self._store = store
        self._key = f"{run_id}/{rank_key(rank.number)}"
        self._reader = reader or ValueReader()
        self._rank = rank
        self._every_s = every_s if rank.world > 1 else 0.0
        self._next = started + first_beat_s(rank.number, every_s)

    def close(self) -> None:
        """Release the reader."""
        self._reader.close()

    @property
    def wait_s(self) -> float:
        """Seconds until the next beat is due."""
        return max(0.0, self._next - time.monotonic()) if self._every_s else _IDLE_S

    @property
    def beats(self) -> bool:
        """Whether this rank writes heartbeats at all."""
        return self._every_s > 0

    def beat(self, run: Run, attempt: int | None, *, now: bool = False, more: Mapping[str, Any] | None = None) -> None:
        """Write the heartbeat with the fields ``more`` if it is due, or at once if ``now``. Raises
        :class:`StoreError`."""
        due = self.wait_s == 0.0
        if not self._every_s or not (now or due):
            return
        document = rank_document(run, self._rank, attempt, time.time(), self._reader, self._every_s)
        self._store.write(self._key, encode({**document, **(more or {})}))
        if not due:
            return
        # Keep the schedule: counted from now, all ranks would beat at the same moment after an outage.
        behind = time.monotonic() - self._next
        self._next += self._every_s * (1 + max(0.0, behind) // self._every_s)


class RankZeroHeartbeat:
    """Beat task: ranks/0.json beside the run's documents, so that all ranks can be compared."""

    purpose = "write the heartbeat of rank 0"

    def __init__(self, rank: Rank, every_s: float, started: float, attempt: int) -> None:
        self._rank, self._every_s, self._started, self._attempt = rank, every_s, started, attempt
        self._heartbeat: RankHeartbeat | None = None

    def write(self, beat: Beat) -> None:
        if self._heartbeat is None:
            self._heartbeat = RankHeartbeat(beat.store, beat.run.run_id, self._rank, self._every_s, self._started)
        self._heartbeat.beat(beat.run, self._attempt, now=beat.ending is not None)

    def close(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.close()


class FollowingRank:
    """Writes the heartbeat and the error of a rank other than 0. Only rank 0 writes the run's own documents."""

    def __init__(
        self, store: Store, run_id: str, rank: Rank, every_s: float, started: float, reader: ValueReader | None = None
    ) -> None:
        self._store = store
        self._run_id = run_id
        self.learning: Learning | None = None
        """Follows the learned limits of sections; None if limits are not learned."""
        self.stragglers: StragglerWatch | None = None
        """Sums up this rank's steps; None if stragglers are not detected."""
        self._rank = rank
        self._started_monotonic = started
        self._heartbeat = RankHeartbeat(store, run_id, rank, every_s, started, reader)
        self._error_key = f"{run_id}/{rank_error_key(rank.number)}"
        self._mark = LateMark(rank.number)
        self._attempt: int | None = None
        self._body: bytes | None = None
        self._maybe_leftover = True
        """Whether this rank's error of an earlier attempt may still be there."""
        self._is_run_error = False
        """Whether the run's ``_error`` is this rank's error, so that it needs no ``ranks/{rank}.error``."""

    @property
    def wait_s(self) -> float:
        """Seconds until this rank has something to write."""
        wait_s = self._heartbeat.wait_s
        return wait_s if self.stragglers is None else min(wait_s, self.stragglers.wait_s)

    @property
    def attempt(self) -> int | None:
        """The number of the attempt, from rank 0; None until it is known."""
        return self._attempt

    def first_steps(self, ending: tuple[str, str] | None) -> Iterator[BeatStep]:
        """The steps before the heartbeat or the error: delete an old error, and learn the attempt from rank 0."""
        if ending is None and self.wait_s > 0:
            return
        if self._maybe_leftover and ending is None:
            yield BeatStep(self._delete_error)
        if self._attempt is None and (ending is None or ending[0] == runid.ERROR):
            yield BeatStep(self._learn_attempt)

    def write_error(self, ending: tuple[str, str] | None, *, defers: bool = False) -> None:
        """Write this rank's error if it ended with one. Raises :class:`StoreError`. ``defers`` says that ``lastbeat
        exec`` handles the failure, so the error goes beside the rank only.

        A cancelled rank writes none. A stop of the whole run reaches rank 0 too, which reports it. And torchelastic
        stops the ranks that outlive a failed one; those stops are not the cause.
        """
        if ending is not None and ending[0] == runid.ERROR and not is_cancelled(ending):
            self._write_error(ending[1], defers=defers)

    def heartbeat_steps(self, run: Run, ending: tuple[str, str] | None) -> Iterator[BeatStep]:
        """The steps that write the heartbeat and the late mark, if the heartbeat is due or the lateness has changed."""
        if self._is_run_error and self._maybe_leftover:
            yield BeatStep(self._delete_error)
        if run.announcement is not None and ending is None:
            announcement = run.announcement
            yield BeatStep(lambda: announcement.follow(self._rank_zero()))
        stragglers = self.stragglers
        if stragglers is not None and ending is None:
            yield BeatStep(lambda: stragglers.follow(self._attempt))
        late = ending is None and self._heartbeat.beats and is_late(run)
        now = ending is not None or late is not self._mark.there
        if now or self.wait_s == 0.0:
            more = stragglers.rank_fields() if stragglers is not None else None
            yield BeatStep(lambda: self._heartbeat.beat(run, self._attempt, now=now, more=more))
            yield BeatStep(lambda: self._mark.set(self._store, f"{run.run_id}/", late=late))
            learning = self.learning
            if learning is not None and ending is None:
                yield BeatStep(lambda: learning.follow(run, self._store))

    def _delete_error(self) -> None:
        """Delete this rank's error of an earlier attempt."""
        try:
            self._store.delete(self._error_key)
        except StoreError as error:
            if error.retryable:
                raise
            # Some policies let training write but not delete.
            safe_log(logging.DEBUG, "the last attempt's %s stays: %s", self._error_key, error)
        self._maybe_leftover = False

    def _learn_attempt(self) -> None:
        self._attempt = self._rank_zero().attempt

    def _rank_zero(self) -> RankZeroState:
        return rank_zero_state(self._store, self._run_id, self._started())

    def _started(self) -> datetime:
        return started_at(self._store, time.monotonic() - self._started_monotonic)

    def _write_error(self, text: str, *, defers: bool) -> None:
        if self._body is None:
            # Built once, so that a retry after a fault recognises its own text.
            self._body = with_rank(text, self._rank, self._attempt).encode("utf-8", "replace")
        if defers:
            self._store.write(self._error_key, self._body)
            return
        result = write_first_error(self._store, self._run_id, self._body, self._started(), retry_for())
        self._is_run_error = result.is_run_error and result.is_final
        if not self._is_run_error:
            self._store.write(self._error_key, self._body)
