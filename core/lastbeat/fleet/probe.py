"""Asks one run how it is with as few requests as possible, for when listing everything would cost more."""

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from lastbeat.fleet.index import LOG, FileSnapshot, IndexedRun, snapshot_of
from lastbeat.fleet.scan_plan import OVER_EVERY, SENTINELS_EVERY
from lastbeat.model import runid
from lastbeat.model.numbers import finite
from lastbeat.model.policy import Policy
from lastbeat.model.status import Status
from lastbeat.model.times import parse_time
from lastbeat.observe.documents import DOCUMENT_LIMIT_BYTES, read_heartbeat
from lastbeat.observe.listing import run_files
from lastbeat.stores.port import Blob, DeniedError, Store

_ENDED = {"completed", "cancelled", "failed", "preempted"}
"""Statuses that the SDK writes into its last metadata.json, before the sentinel."""


@dataclass(frozen=True)
class Probe:
    """The question to one run in the ``nth`` pass."""

    store: Store
    run: IndexedRun
    nth: int
    policy: Policy
    """With the fleet's limits for the run."""
    between: bool = False
    """The last pass listed everything, and the next one will."""

    def due(self, now: float) -> bool:
        """Whether the run is asked in this pass: always if it runs, is due or hangs; every fifth pass if it ended."""
        run = self.run
        if run.line.status is Status.RUNNING or (run.wake is not None and now >= run.wake):
            return True
        if self.between:
            return False
        if not run.line.status.ended:
            return True
        return (self.nth + sum(run.line.run_id.encode())) % OVER_EVERY == 0

    def ask(self) -> FileSnapshot:
        """The files that matter now. Raises :class:`StoreError` if one of them could not be had.

        1. A run whose life only its logs show: list its folder, which alone shows their names.
        2. metadata.json, always.
        3. Sentinels, if the heartbeat stands still, says that it ended, or it is their turn.
        4. progress.json, once the last one seen would be stale.
        5. The log, if it stands in for a heartbeat.
        6. What training raised, if metadata.json says that there is something since the last look.
        """
        run, now = self.run, self.store.clock()
        if not run.files.get(runid.METADATA) or (self._by_log(now) and run.files.get(LOG)):
            return snapshot_of(run_files(self.store, run.line.run_id), now)
        at = now.timestamp()
        beat = self.store.read(self._key(runid.METADATA), DOCUMENT_LIMIT_BYTES)
        files = {runid.METADATA: _file(beat)}
        if self._sentinels_due(beat):
            for name in (runid.ERROR, runid.COMPLETE):
                files[name] = _file(self.store.read(self._key(name), 1))
            if self._stands_still(beat):
                files[runid.PREEMPTED] = _file(self.store.read(self._key(runid.PREEMPTED), 1))
        # Until the last one seen would be stale, a newer progress.json changes nothing.
        progress = run.files.get(runid.PROGRESS) or files[runid.METADATA]
        if progress is None or at - max(progress[0], run.progressed) > self._stale_s:
            files[runid.PROGRESS] = _file(self.store.read(self._key(runid.PROGRESS), 1))
        if self._by_log(now):
            files[LOG] = _file(self.store.read(self._key(LOG), 1))
        if _raised_at(beat) >= run.looked_at - 1:
            # A run is judged without the alerts of training where they cannot be read.
            with suppress(DeniedError):
                files[runid.ALERTS] = _file(self.store.read(self._key(runid.ALERTS), 1))
        return FileSnapshot(at, files, late=_late(beat))

    @property
    def _stale_s(self) -> float:
        policy = self.policy.of_run(self.run.stale_s, self.run.stall_s)
        learned_s = self.run.outlier_s if policy.learned else None
        return policy.stale_s if learned_s is None else min(policy.stale_s, learned_s)

    def _by_log(self, now: datetime) -> bool:
        """Whether a change of status may come from the logs."""
        run, beat = self.run, self.run.files.get(runid.METADATA)
        old = beat is None or now.timestamp() - max(beat[0], run.moved) > self._stale_s
        return run.by_log and run.line.status in {Status.RUNNING, Status.TIMED_OUT} and old

    def _sentinels_due(self, beat: Blob | None) -> bool:
        """A run whose heartbeat moves lives, so its sentinels can wait; one whose heartbeat stopped may have ended."""
        if self.run.line.status.ended:
            # An error outranks a success, also if it is written later.
            return self.run.line.status in {Status.SUCCEEDED, Status.PREEMPTED}
        if self._stands_still(beat):
            return True
        return not self.between and (self.nth + sum(self.run.line.run_id.encode())) % SENTINELS_EVERY == 0

    def _stands_still(self, beat: Blob | None) -> bool:
        """Whether it may have ended. Who was preempted beats no more: so that is asked of no other run."""
        return beat is None or beat.modified.timestamp() == self.run.moved or _ended(beat)

    def _key(self, name: str) -> str:
        return f"{self.run.line.run_id}/{name}"


def _file(blob: Blob | None) -> tuple[float, str] | None:
    return None if blob is None else (blob.modified.timestamp(), blob.version)


def _ended(beat: Blob | None) -> bool:
    status = _document(beat).get("status")
    return isinstance(status, str) and status in _ENDED


def _raised_at(beat: Blob | None) -> float:
    """When training last raised an alert, by the store's clock as far as training knows that; 0: never."""
    if beat is None or b'"raised_at"' not in beat.body:
        return 0.0
    document = _document(beat)
    at, offset_s = parse_time(document.get("raised_at")), finite(document.get("clock_offset_s"))
    return 0.0 if at is None else at.timestamp() + (offset_s or 0.0)


def _late(beat: Blob | None) -> bool:
    """Whether it says that training has been in a section for longer than it may."""
    if beat is None or b'"limit_s"' not in beat.body:
        return False
    told = read_heartbeat(beat).sections
    return any(each.limit_s is not None and each.open_s > each.limit_s for each in told)


def _document(beat: Blob | None) -> dict[str, object]:
    """An empty one where it cannot be read."""
    try:
        document = json.loads(beat.body) if beat is not None else None
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
