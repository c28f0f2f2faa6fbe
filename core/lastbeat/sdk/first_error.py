"""Of several ranks that fail, the first one's error is the run's ``_error``.

A new attempt finds the ``_error`` of the one before it, which rank 0 deletes when it begins. The other ranks do not
wait for that, so one of them may fail before rank 0 has begun, on either side of the deletion::

    rank 0    ········ start ── metadata.json ── look at _error, delete it ── metadata.json "begun" ────
    rank 3    start ── fails: _error ─ ? ─────── ? ─────────────────────────── ? ──────────── exit

Three rules keep the cause, whatever the order:

- *Rank 0 deletes only what is older than its own start*, by the store's clock. What is younger, a rank of this attempt
  wrote. (A stamp of whole seconds from the second of the start counts as older: a leftover would be a false alarm,
  and an error that is deleted by mistake comes back by the third rule.)
- *Until rank 0 has begun, an ``_error`` older than the failing rank's own start is a leftover*, and is overwritten at
  the very version that was judged. Once rank 0 has begun there are no leftovers, so whatever is there was first.
- *A rank that failed before rank 0 has begun stays for a few seconds and looks again*: should rank 0 delete its error
  after all (it started later, or had looked before), it is written again. What rank 0 writes after its deletions
  says ``begun``, so a look that comes after that is the last one needed. The launcher sees a failure when the
  process ends, so it does not stop rank 0 while this one waits.

What remains: a rank 0 that starts more than those seconds after another rank has failed takes that error for a
leftover. ``ranks/{rank}.error`` still has it. And two ranks that both fail before rank 0 has begun, the second of which
started after the first had failed: then the second one's error stays, and the first one's is kept as its own.
"""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from lastbeat.model import runid
from lastbeat.sdk.attempts import attempt_of
from lastbeat.sdk.ranks import rank_error_key
from lastbeat.sdk.saying import say, why
from lastbeat.stores.port import ConflictError, DeniedError, Expect, Store, StoreError

PATIENCE_S = 10.0
"""How long a failing rank waits for rank 0 to begin; less than the end of a run waits for its sentinel."""
_LOOK_AGAIN_S = 0.5
_METADATA_LIMIT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Lead:
    """What is known of rank 0."""

    begun: bool = False
    """It has begun this attempt, and what the attempt before left behind is gone."""
    attempt: int | None = None


def started_at(store: Store, seconds_ago: float) -> datetime:
    """When something began ``seconds_ago`` (by the machine's monotonic clock), by the store's clock."""
    return store.clock() - timedelta(seconds=seconds_ago)


def outdated(modified: datetime, started: datetime) -> bool:
    """Whether what was written at ``modified`` is surely older than ``started``, seen from a rank that follows."""
    return modified < (started if modified.microsecond else started.replace(microsecond=0))


def lead_of(store: Store, run_id: str, started: datetime) -> Lead:
    """What metadata.json tells of rank 0 to another rank that began at ``started`` (by the store's clock).

    Raises :class:`StoreError`.
    """
    try:
        blob = store.read(f"{run_id}/{runid.METADATA}", _METADATA_LIMIT_BYTES)
    except DeniedError:
        # Training may write and not read: that must not keep an error from being told.
        return Lead()
    if blob is None or outdated(blob.modified, started):
        # Of the attempt before, or of a rank 0 whose next beat will tell.
        return Lead()
    try:
        begun = json.loads(blob.body).get("begun") is True
    except (ValueError, AttributeError, RecursionError):
        return Lead()
    return Lead(begun, attempt_of(blob.body) or None)


def leftovers(store: Store, run_id: str, started: datetime) -> list[str]:
    """The keys that rank 0 deletes at the start: what ends an attempt, and was there before it began at ``started``
    (by the store's clock). Raises :class:`StoreError`."""
    found = []
    for name in (runid.ERROR, runid.COMPLETE, rank_error_key(0)):
        key = f"{run_id}/{name}"
        try:
            blob = store.read(key, 1)
        except DeniedError:
            # Training may write and not read: then nobody can judge, and a leftover would be a false alarm.
            found.append(key)
        else:
            found += [key] if blob is not None and blob.modified <= started else []
    return found


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a rank's error."""

    is_first: bool
    """It is the run's ``_error``."""
    is_sure: bool
    """Rank 0 has begun, so nobody will delete it as a leftover."""


def patience(seconds: float = PATIENCE_S) -> Callable[[], bool]:
    """Waits a little at each call; False once ``seconds`` are over."""
    deadline = time.monotonic() + seconds

    def wait() -> bool:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_AGAIN_S)
        return True

    return wait


def tell(store: Store, run_id: str, body: bytes, started: datetime, wait: Callable[[], bool]) -> Told:
    """Make ``body`` the run's ``_error`` unless another rank of this attempt was first.

    ``started`` is when this rank did, by the store's clock; ``wait`` is asked whether to look again while rank 0 has
    not begun. Can be called again after an error: it knows its own text. Raises :class:`StoreError`.
    """
    while True:
        # In this order: only what is found after rank 0 has begun stays.
        begun = _begun(store, run_id, started)
        is_first = put(store, f"{run_id}/{runid.ERROR}", body, None if begun else started)
        if begun or not wait():
            return Told(is_first, begun)


def _begun(store: Store, run_id: str, started: datetime) -> bool:
    """Whether rank 0 is known to have begun. That nobody can tell must not keep an error from being told."""
    try:
        return lead_of(store, run_id, started).begun
    except BaseException as fault:  # noqa: BLE001 - as above, and whatever it is
        say(logging.DEBUG, "whether rank 0 has begun cannot be read: %s", why(fault))
        return False


def put(store: Store, key: str, body: bytes, started: datetime | None) -> bool:
    """Whether ``body`` is there now; what is older than ``started`` gives way. Raises :class:`StoreError`."""
    try:
        store.write(key, body, Expect.NOTHING)
    except ConflictError:
        try:
            blob = store.read(key, len(body) + 1)
        except StoreError as fault:
            if fault.retryable:
                raise
            return False
        if blob is not None and blob.body == body:
            return True
        if blob is None or started is None or not outdated(blob.modified, started):
            return False
        try:
            store.write(key, body, blob.version)
        except ConflictError:
            # Another rank was faster, or rank 0 has just deleted it: the next look tells.
            return False
    return True
