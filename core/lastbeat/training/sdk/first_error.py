"""Of several ranks that fail, the first one's error is the run's ``_error``.

A new attempt finds the ``_error`` of the last one, which rank 0 deletes when it begins. The other ranks do not wait for
that. So one of them may fail before rank 0 has begun, on either side of the deletion::

    rank 0    ········ start ── metadata.json ── look at _error, delete it ── metadata.json "begun" ────
    rank 3    start ── fails: _error ─ ? ─────── ? ─────────────────────────── ? ──────────── exit

Three rules preserve the cause in any order of events:

1. *Rank 0 deletes only what is older than its own start*, by the store's clock. Anything younger was written by a rank
   of this attempt. (A stamp of whole seconds from the second of the start counts as older: a leftover would be a false
   alarm, and an error that is deleted by mistake comes back by rule 3.)
2. *Until rank 0 has begun, an ``_error`` older than the failing rank's own start is a leftover.* It is overwritten, on
   condition that it is still the version that was judged. Once rank 0 has begun there are no leftovers, so an
   ``_error`` that is there came first.
3. *A rank that failed before rank 0 has begun stays for a few seconds and looks again.* If rank 0 deletes its error
   after all (because it started later, or had looked before), it writes the error again. After its deletions rank 0
   writes ``begun``, so a look after that is the last one needed. The launcher notices a failure when the process ends,
   so it does not stop rank 0 while this rank waits.

Two cases remain. A rank 0 that starts more than those seconds after another rank has failed takes that error for a
leftover; ``ranks/{rank}.error`` still has it. And if two ranks fail before rank 0 has begun, and the second started
after the first had failed, the second one's error becomes the run's, and the first one's stays as its own.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lastbeat.model import runid
from lastbeat.model.json_values import number, whole
from lastbeat.model.runid import rank_error_key
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import parse_time
from lastbeat.stores.port import Blob, ConflictError, DeniedError, Expect, Store, StoreError
from lastbeat.training.sdk.documents import attempt_of, parsed, read_if_allowed
from lastbeat.training.sdk.safe_log import fault_text, safe_log

PATIENCE_S = 10.0
"""How long a failing rank waits for rank 0 to begin; less than the end of a run waits for its sentinel."""
_LOOK_AGAIN_S = 0.5
_METADATA_LIMIT_BYTES = 64 * 1024
_REASON_CHARS = 300
SPREAD_S = 600.0
"""Longest time in s by which rank 0 starts before another rank of the same attempt."""


@dataclass(frozen=True, slots=True)
class RankZeroState:
    """Rank 0's state as another rank sees it."""

    begun: bool = False
    """Rank 0 has begun this attempt, and has deleted what the last attempt left behind."""
    attempt: int | None = None
    stop_call: int | None = None
    """The call of ``all_should_stop`` at which all ranks of this attempt stop, once rank 0 has announced one. It may
    have stopped there already."""
    stop_reason: str = ""


def started_at(store: Store, seconds_ago: float) -> datetime:
    """The store's time ``seconds_ago`` by this machine's monotonic clock."""
    return store.clock() - timedelta(seconds=seconds_ago)


def is_leftover(modified: datetime, started: datetime) -> bool:
    """Whether a file modified at ``modified`` is certainly older than a rank other than 0 that began at ``started``."""
    return modified < (started if modified.microsecond else started.replace(microsecond=0))


def rank_zero_state(store: Store, run_id: str, started: datetime) -> RankZeroState:
    """Rank 0's state in metadata.json, for another rank that ``started`` then by the store's clock.

    Raises :class:`StoreError`.
    """
    # A refused read must not keep an error from being written.
    blob = read_if_allowed(store, f"{run_id}/{runid.METADATA}", _METADATA_LIMIT_BYTES)
    if blob is None or is_leftover(blob.modified, started):
        # It belongs to the last attempt, or rank 0 of this one will update it with its next beat.
        return RankZeroState()
    document = parsed(blob.body)
    begun, call, reason = document.get("begun") is True, whole(document.get("stop_call")), document.get("stop_reason")
    stops = document.get("status") in {"running", "preempted"} and _is_of_this_start(document, blob, started)
    return RankZeroState(
        begun,
        attempt_of(blob.body) or None,
        call if begun and stops and call is not None and call > 0 else None,
        fit(one_line(reason), _REASON_CHARS) if isinstance(reason, str) else "",
    )


def _is_of_this_start(document: Mapping[str, object], blob: Blob, started: datetime) -> bool:
    """Whether the document is of the attempt in which another rank ``started``, and not of the last one.

    The last attempt's rank 0 may still write while it saves its checkpoint, when this attempt's ranks have started.
    """
    began, offset_s = parse_time(document.get("start_time")), number(document.get("clock_offset_s"))
    # A stamp of whole seconds from the second of the start may belong to the last attempt.
    if began is None or blob.modified < started:
        return False
    return (started - began).total_seconds() <= SPREAD_S + (offset_s or 0.0)


def leftovers(store: Store, run_id: str, started: datetime) -> list[str]:
    """Rule 1: the keys that rank 0, ``started`` then by the store's clock, deletes when it begins.

    Raises :class:`StoreError`.
    """
    found = []
    for name in (*runid.SENTINELS, rank_error_key(0)):
        key = f"{run_id}/{name}"
        try:
            blob = store.read(key, 1)
        except DeniedError:
            # Without reading its age is unknown. Delete it, because a leftover would be a false alarm.
            found.append(key)
        else:
            found += [key] if blob is not None and blob.modified <= started else []
    return found


@dataclass(frozen=True, slots=True)
class FirstErrorResult:
    """Where a rank's error has ended up."""

    is_run_error: bool
    """The rank's error is the run's ``_error``."""
    is_final: bool
    """Rank 0 has begun, so it will delete nothing more."""


def retry_for(limit_s: float = PATIENCE_S) -> Callable[[], bool]:
    """A function that waits a little at each call, and returns False once ``limit_s`` are over."""
    deadline = time.monotonic() + limit_s

    def wait() -> bool:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_AGAIN_S)
        return True

    return wait


def write_first_error(
    store: Store, run_id: str, body: bytes, started: datetime, wait: Callable[[], bool]
) -> FirstErrorResult:
    """Make ``body`` the run's ``_error``, unless another rank of this attempt was first.

    ``started`` is the start of this rank by the store's clock. ``wait`` returns whether to look again.

    1. Look whether rank 0 has begun. This comes first: only an ``_error`` found after that is certain to stay.
    2. Write ``_error`` if none is there, or, until rank 0 has begun, over a leftover (rule 2).
    3. Repeat until rank 0 has begun, or ``wait`` gives up (rule 3).

    Can be called again after an error, because it recognises its own text. Raises :class:`StoreError`.
    """
    while True:
        begun = _has_begun(store, run_id, started)
        is_run_error = write_if_first(store, f"{run_id}/{runid.ERROR}", body, None if begun else started)
        if begun or not wait():
            return FirstErrorResult(is_run_error, begun)


def _has_begun(store: Store, run_id: str, started: datetime) -> bool:
    """Whether rank 0 is known to have begun."""
    try:
        return rank_zero_state(store, run_id, started).begun
    except BaseException as fault:  # noqa: BLE001 - whatever it is, it must not keep an error from being written
        safe_log(logging.DEBUG, "cannot tell whether rank 0 has begun: %s", fault_text(fault))
        return False


def write_if_first(store: Store, key: str, body: bytes, started: datetime | None) -> bool:
    """Write ``body`` unless an error is there. Returns whether ``body`` is there now.

    1. Create the key. If that works, this error is the first.
    2. Otherwise read what is there: it may be this very text, from a write whose answer was lost.
    3. If it is a leftover, older than ``started`` (None: there are no leftovers), replace that version of it.
    4. If another rank was faster, or rank 0 has just deleted it, the next look will tell.

    Raises :class:`StoreError`.
    """
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
        if blob is None or started is None or not is_leftover(blob.modified, started):
            return False
        try:
            store.write(key, body, blob.version)
        except ConflictError:
            return False
    return True
