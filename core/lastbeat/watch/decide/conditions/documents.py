"""Conditions of the heartbeat documents: one is unreadable, its clock is off, or its loss is no number."""

import math
from typing import Final

from lastbeat.model import status as names
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.record import HeartbeatMemory
from lastbeat.model.times import format_duration
from lastbeat.watch.decide.conditions.condition import Check, Condition
from lastbeat.watch.decide.evidence import METADATA, PROGRESS
from lastbeat.watch.decide.freshness import SKEW_TOLERANCE_S, looks_local

NOT_FINITE_HINT: Final = (
    "Stop and go back to the last good checkpoint; lower the learning rate, clip gradients, check the data around this "
    "step and the loss scale."
)


def _unreadable(check: Check) -> str | None:
    seen = check.evidence.seen
    documents = ((METADATA, seen.metadata), (PROGRESS, seen.progress))
    faults = [f"{name}: {beat.fault}" for name, beat in documents if beat is not None and beat.fault]
    return "; ".join(faults) or None


def _skewed(check: Check) -> str | None:
    seen, evidence = check.evidence.seen, check.evidence
    return _skew(METADATA, seen.metadata, evidence.metadata) or _skew(PROGRESS, seen.progress, evidence.progress)


def _skew(name: str, seen: Heartbeat | None, memory: HeartbeatMemory | None) -> str | None:
    if memory is None or memory.own_time is None or memory.missing_since is not None:
        return None
    if memory.suspect:
        lag_s = memory.lag_s - memory.skew_s
        what = f"the timestamp in {name} is {format_duration(lag_s)} older than the file"
        if seen is not None and looks_local(seen, lag_s):
            return f"{what}: it looks like local time without a zone; write UTC, with a Z"
        return f"{what}: an old document stored again, or a slow clock"
    if abs(memory.skew_s) > SKEW_TOLERANCE_S:
        direction = "behind" if memory.skew_s > 0 else "ahead of"
        return f"the clock of the instance is {format_duration(abs(memory.skew_s))} {direction} the store's"
    return None


def _not_finite(check: Check) -> str | None:
    """The text of the first check that found such a loss, until a finite one is read. Documents keep only their latest
    points, so that check knows best when the loss began."""
    shown, first = check.evidence.seen.knows_step, check.evidence.stood.get(names.LOSS_NAN)
    if shown is None or shown.loss is None:
        return first
    if math.isfinite(shown.loss):
        return None
    step = shown.step if shown.not_finite_since is None else shown.not_finite_since
    since = f" since step {step}" if step is not None else ""
    return first or f"the loss is {'NaN' if math.isnan(shown.loss) else 'infinite'}{since}"


NOT_FINITE: Final = Condition(
    names.LOSS_NAN,
    "the loss is NaN or infinite (a SUCCEEDED run keeps this, and exits with 1)",
    _not_finite,
    hint=NOT_FINITE_HINT,
)

CONDITIONS: Final = (
    Condition(
        "heartbeat_unreadable",
        "a document is empty, cut off, too large (over 256 KB) or no JSON object",
        _unreadable,
        hint="Fix the script that writes this document; write to a temporary file and rename it.",
    ),
    Condition(
        "clock_skew",
        "the instance's clock is over a minute off, or an old document was stored again",
        _skewed,
        hint="Check time synchronisation on the instance (chronyc tracking or timedatectl); lastbeat uses the store's "
        "clock meanwhile.",
    ),
    NOT_FINITE,
)
