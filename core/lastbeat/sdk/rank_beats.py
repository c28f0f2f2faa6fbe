"""What the ranks of a distributed training write: ranks/{rank}.json, and the errors of those that do not lead."""

import time
from datetime import datetime

from lastbeat.model import runid
from lastbeat.sdk.documents import encode
from lastbeat.sdk.extra import Beat
from lastbeat.sdk.first_error import Lead, lead_of, patience, started_at, tell
from lastbeat.sdk.ranks import Rank, cancelled, first_beat_s, rank_document, rank_error_key, rank_key, told_by
from lastbeat.sdk.reading import Reader
from lastbeat.sdk.run import Run
from lastbeat.stores.port import Store

_IDLE_S = 3600.0


class RankBeats:
    """ranks/{rank}.json of one rank, every ``every_s`` seconds (0: never), at a moment of its own.

    ``began`` is the start by ``time.monotonic()``.
    """

    def __init__(self, store: Store, run_id: str, rank: Rank, every_s: float, began: float) -> None:
        self._store = store
        self._key = f"{run_id}/{rank_key(rank.number)}"
        self._reader = Reader()
        self._rank = rank
        self._every_s = every_s if rank.world > 1 else 0.0
        self._next = began + first_beat_s(rank.number, every_s)

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
        """Nothing is held."""


class Follower:
    """What a rank writes that does not lead: never metadata.json, progress.json or ``_complete``."""

    def __init__(self, store: Store, run_id: str, rank: Rank, every_s: float, began: float) -> None:
        self._store = store
        self._run_id = run_id
        self._rank = rank
        self._began = began
        self._beats = RankBeats(store, run_id, rank, every_s, began)
        self._key = f"{run_id}/{rank_error_key(rank.number)}"
        self._attempt: int | None = None
        self._body: bytes | None = None
        self._fresh = True

    @property
    def wait_s(self) -> float:
        """Seconds until it has something to write."""
        return self._beats.wait_s

    def beat(self, run: Run, ending: tuple[str, str] | None) -> None:
        """What is due now, or all that is left if the run has ended. Raises :class:`StoreError`."""
        if ending is None and self.wait_s > 0:
            return
        if self._fresh and ending is None:
            # The one of an attempt before this.
            self._store.delete(self._key)
            self._fresh = False
        if self._attempt is None and (ending is None or ending[0] == runid.ERROR):
            self._attempt = self._lead().attempt
        # Who stops a whole training stops rank 0, too, and that one tells. torchelastic also stops the ranks that
        # outlive one that failed: then it is no cause at all.
        if ending is not None and ending[0] == runid.ERROR and not cancelled(ending):
            self._tell(ending[1])
        self._beats.beat(run, self._attempt, last=ending is not None)

    def _lead(self) -> Lead:
        return lead_of(self._store, self._run_id, self._started())

    def _started(self) -> datetime:
        return started_at(self._store, time.monotonic() - self._began)

    def _tell(self, text: str) -> None:
        if self._body is None:
            # Once: another try after a fault must find its own text again.
            self._body = told_by(text, self._rank, self._attempt).encode("utf-8", "replace")
        told = tell(self._store, self._run_id, self._body, self._started(), patience())
        if not (told.is_first and told.is_sure):
            self._store.write(self._key, self._body)
        elif self._fresh:
            self._store.delete(self._key)
