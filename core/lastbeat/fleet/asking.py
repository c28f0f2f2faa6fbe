"""Asks a live run how it is with few reads, for when listing everything would cost more."""

from lastbeat.fleet.index import FileSnapshot, IndexedRun, snapshot_of
from lastbeat.model import runid
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, Heartbeat, read_heartbeat
from lastbeat.model.policy import Policy
from lastbeat.model.status import Status
from lastbeat.stores.port import Blob, Store
from lastbeat.watch.observe.listing import run_files


def is_asked(run: IndexedRun, now: float) -> bool:
    """Whether a pass that asks runs asks this one; ``now`` is in unix seconds."""
    return run.lives or _is_due(run, now)


def ask(store: Store, run: IndexedRun, policy: Policy, still_before: float) -> FileSnapshot | None:
    """The files that matter now, or None if the run needs a look. ``policy`` has the fleet's limits for the run; a
    heartbeat that was stored before ``still_before`` (unix seconds) stands still. Raises :class:`StoreError` if a file
    could not be had.

    1. A run that its logs alone keep alive, or would: list its folder, which shows their names.
    2. metadata.json, always.
    3. Sentinels, if metadata.json stands still.
    4. progress.json of a run that has not timed out, once the last one seen would be stale. Until then, a newer one
       changes nothing.

    A look is needed if something falls due, metadata.json is gone, or it says that the run ended, raised an alert since
    the last look or has been in a section for too long.
    """
    now = store.clock()
    at, stale_s, running = now.timestamp(), _stale_s(run, policy), run.line.status is Status.RUNNING
    if _is_due(run, at):
        return None
    known = run.files.get(runid.METADATA)
    if known is None or (running and run.by_log and at - max(known[0], run.moved) > stale_s):
        return snapshot_of(run_files(store, run.line.run_id), now)
    blob = _read(store, run, runid.METADATA, DOCUMENT_LIMIT_BYTES)
    beat = None if blob is None else read_heartbeat(blob)
    if beat is None or _raised_at(beat) >= run.looked_at - 1 or (running and (beat.is_last or _is_late(beat))):
        return None
    files = {runid.METADATA: _file(blob)}
    names = list(runid.SENTINELS) if beat.modified.timestamp() <= max(run.moved, still_before) else []
    progress = run.files.get(runid.PROGRESS) or files[runid.METADATA]
    if running and (progress is None or at - max(progress[0], run.progressed) > stale_s):
        names.append(runid.PROGRESS)
    files.update((name, _file(_read(store, run, name, 1))) for name in names)
    return FileSnapshot(at, files)


def _is_due(run: IndexedRun, now: float) -> bool:
    return run.wake is not None and now >= run.wake


def _stale_s(run: IndexedRun, policy: Policy) -> float:
    policy = policy.of_run(run.stale_s, run.stall_s)
    learned_s = run.outlier_s if policy.learned else None
    return policy.stale_s if learned_s is None else min(policy.stale_s, learned_s)


def _read(store: Store, run: IndexedRun, name: str, limit_bytes: int) -> Blob | None:
    return store.read(f"{run.line.run_id}/{name}", limit_bytes)


def _file(blob: Blob | None) -> tuple[float, str] | None:
    return None if blob is None else (blob.modified.timestamp(), blob.version)


def _raised_at(beat: Heartbeat) -> float:
    """When training last raised an alert, by the store's clock as far as training knows that; 0 if never."""
    return 0.0 if beat.raised_at is None else beat.raised_at.timestamp() + (beat.clock_offset_s or 0.0)


def _is_late(beat: Heartbeat) -> bool:
    """Whether the run has been in a section for longer than it may."""
    return any(each.limit_s is not None and each.open_s > each.limit_s for each in beat.sections)
