"""Polls a live run with few reads, for fleets in which a listing of everything costs more."""

from lastbeat.fleet.index import FileSnapshot, IndexedRun, snapshot_of
from lastbeat.model import runid
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, Heartbeat, read_heartbeat
from lastbeat.model.policy import Policy
from lastbeat.model.status import Status
from lastbeat.observe.listing import run_files
from lastbeat.stores.port import Blob, Store

_ENDED = {"completed", "cancelled", "failed", "preempted"}
"""Statuses that the SDK writes into its last metadata.json, before the sentinel."""


def is_asked(run: IndexedRun, now: float) -> bool:
    """Whether a pass that asks runs one by one asks this one; ``now`` is in unix seconds."""
    return run.lives or _is_due(run, now)


def ask(store: Store, run: IndexedRun, policy: Policy, still_before: float) -> FileSnapshot | None:
    """The files that matter now, or None if the run needs a look.

    ``policy`` has the fleet's limits for the run. A heartbeat stored before ``still_before`` (unix seconds) counts as
    not advancing. Raises :class:`StoreError` if a file could not be read.

    1. If only logs keep the run alive, or would, list its folder, which shows their names.
    2. Read metadata.json, always.
    3. Read the sentinels, if metadata.json does not advance.
    4. Read progress.json of a run that has not timed out, once the last one seen would be stale. Until then, a newer
       one changes nothing.

    A look is needed if something falls due or metadata.json is gone. It is also needed if metadata.json reports an end,
    an alert since the last look, or an overrun section.
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
    if beat is None or _raised_at(beat) >= run.looked_at - 1 or (running and (beat.status in _ENDED or _is_late(beat))):
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


def _says_ended(beat: Blob) -> bool:
    status = _document(beat).get("status")
    return isinstance(status, str) and status in _ENDED


def _raised_at(beat: Blob) -> float:
    """Unix time at which training last raised an alert, by the store's clock if its offset is known; 0 if never."""
    if b'"raised_at"' not in beat.body:
        return 0.0
    document = _document(beat)
    raised_at = parse_time(document.get("raised_at"))
    offset_s = finite(document.get("clock_offset_s"))
    return 0.0 if raised_at is None else raised_at.timestamp() + (offset_s or 0.0)


def _says_late(beat: Blob) -> bool:
    """Whether the heartbeat reports an overrun section."""
    if b'"limit_s"' not in beat.body:
        return False
    return any(each.limit_s is not None and each.open_s > each.limit_s for each in read_heartbeat(beat).sections)


def _document(beat: Blob) -> dict[str, object]:
    """The heartbeat's JSON object; empty if it cannot be parsed."""
    try:
        document = json.loads(beat.body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
