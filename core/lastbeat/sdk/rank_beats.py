"""What the ranks of a distributed training write: ranks/{rank}.json, and the errors of those that do not lead."""

import logging
import time
from collections.abc import Iterator
from datetime import datetime

from lastbeat.model import runid
from lastbeat.sdk.documents import encode
from lastbeat.sdk.extra import Beat, Part
from lastbeat.sdk.first_error import Lead, lead_of, patience, started_at, tell
from lastbeat.sdk.ranks import Rank, cancelled, first_beat_s, rank_document, rank_error_key, rank_key, told_by
from lastbeat.sdk.reading import Reader
from lastbeat.sdk.run import Run
from lastbeat.sdk.saying import say
from lastbeat.stores.port import Store, StoreError

_IDLE_S = 3600.0


class RankBeats:
    """ranks/{rank}.json of one rank, every ``every_s`` seconds (0: never), at a moment of its own.

    ``began`` is the start by ``time.monotonic()``.
    """

    def __init__(
        self, store: Store, run_id: str, rank: Rank, every_s: float, began: float, reader: Reader | None = None
    ) -> None:
        self._store = store
        self._key = f"{run_id}/{rank_key(rank.number)}"
        self._reader = reader or Reader()
        self._rank = rank
        self._every_s = every_s if rank.world > 1 else 0.0
        self._next = began + first_beat_s(rank.number, every_s)

    def close(self) -> None:
        """There is no further beat."""
        self._reader.close()

    @property
    def wait_s(self) -> float:
        """Seconds until the next beat is due."""
        return max(0.0, self._next - time.monotonic()) if self._every_s else _IDLE_S

    def beat(self, run: Run, attempt: int | None, *, last: bool = False) -> None:
        """Write it if it is due, or if it is the last time. Raises :class:`StoreError`."""
        if not self._every_s or not (last or self.wait_s == 0.0):
            return
        self._store.write(self._key, encode(rank_document(run, self._rank, attempt, time.time(), self._reader)))
        # Not from now on: after an outage all ranks would beat at the same moment.
        behind = time.monotonic() - self._next
        self._next += self._every_s * (1 + max(0.0, behind) // self._every_s)


class LeadBeats:
    """ranks/0.json, which rank 0 writes beside the run's documents, so that all ranks can be compared."""

    def __init__(self, rank: Rank, every_s: float, began: float, attempt: int) -> None:
        self._rank, self._every_s, self._began, self._attempt = rank, every_s, began, attempt
        self._beats: RankBeats | None = None

    def write(self, beat: Beat) -> None:
        """See :class:`lastbeat.sdk.extra.Extra`."""
        if self._beats is None:
            self._beats = RankBeats(beat.store, beat.run.run_id, self._rank, self._every_s, self._began)
        self._beats.beat(beat.run, self._attempt, last=beat.ending is not None)

    def close(self) -> None:
        if self._beats is not None:
            self._beats.close()


class Follower:
    """What a rank writes that does not lead: never metadata.json, progress.json or ``_complete``."""

    def __init__(
        self, store: Store, run_id: str, rank: Rank, every_s: float, began: float, reader: Reader | None = None
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._rank = rank
        self._began = began
        self._beats = RankBeats(store, run_id, rank, every_s, began, reader)
        self._key = f"{run_id}/{rank_error_key(rank.number)}"
        self._attempt: int | None = None
        self._body: bytes | None = None
        self._fresh = True
        """Whether the error of an attempt before may still lie there."""
        self._needless = False
        """Whether the run's own error says what this rank's would."""

    @property
    def wait_s(self) -> float:
        """Seconds until it has something to write."""
        return self._beats.wait_s

    def opening(self, ending: tuple[str, str] | None) -> Iterator[Part]:
        """What comes before it beats or tells how it ended."""
        if ending is None and self.wait_s > 0:
            return
        if self._fresh and ending is None:
            yield Part(self._clear)
        if self._attempt is None and (ending is None or ending[0] == runid.ERROR):
            yield Part(self._learn)

    def tell(self, ending: tuple[str, str] | None) -> None:
        """Tell the error that it ended with, if it did. Raises :class:`StoreError`."""
        # Who stops a whole training stops rank 0, too, and that one tells. torchelastic also stops the ranks that
        # outlive one that failed: then it is no cause at all.
        if ending is not None and ending[0] == runid.ERROR and not cancelled(ending):
            self._tell(ending[1])

    def beat(self, run: Run, ending: tuple[str, str] | None) -> Iterator[Part]:
        """The heartbeat, where it is due."""
        if self._needless and self._fresh:
            yield Part(self._clear)
        if ending is not None or self.wait_s == 0.0:
            yield Part(lambda: self._beats.beat(run, self._attempt, last=ending is not None))

    def _clear(self) -> None:
        """The error of an attempt before this goes."""
        try:
            self._store.delete(self._key)
        except StoreError as error:
            if error.retryable:
                raise
            # Some policies let training write and not delete.
            say(logging.DEBUG, "the last attempt's %s stays: %s", self._key, error)
        self._fresh = False

    def _learn(self) -> None:
        self._attempt = self._lead().attempt

    def _lead(self) -> Lead:
        return lead_of(self._store, self._run_id, self._started())

    def _started(self) -> datetime:
        return started_at(self._store, time.monotonic() - self._began)

    def _tell(self, text: str) -> None:
        if self._body is None:
            # Once: another try after a fault must find its own text again.
            self._body = told_by(text, self._rank, self._attempt).encode("utf-8", "replace")
        told = tell(self._store, self._run_id, self._body, self._started(), patience())
        self._needless = told.is_first and told.is_sure
        if not self._needless:
            self._store.write(self._key, self._body)
