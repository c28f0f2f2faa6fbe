"""Which attempt a start begins."""

import json
from collections.abc import Mapping

# Each counts the restarts of a job from 0 on; torchelastic counts those of its workers.
_COUNTERS = ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT", "FLUX_JOB_RESTART_COUNT", "LASTBEAT_RESTART_COUNT")

_MOST = 10**15
"""Readers take no larger number; and one of thousands of digits could not be written again."""


def restarts(environ: Mapping[str, str]) -> int:
    """How often a scheduler says that it has restarted this job."""
    counts = (environ.get(name, "").strip() for name in _COUNTERS)
    return max((int(count) for count in counts if count.isascii() and count.isdigit() and len(count) < 6), default=0)


def next_attempt(before: int | None, restarted: int, *, resume: bool = False) -> int:
    """The number of the attempt that begins now; ``before`` is that of the attempt whose metadata still lies there,
    0 if it has none, None if there is no metadata. With ``resume`` there was one before, whatever still lies there."""
    known = 0 if before is None else max(before, 1)
    return max(known + 1, restarted + 1, 2 if resume else 1)


def start_of(body: bytes) -> object:
    """The start time that a metadata.json names, as it is written there; None where it names none."""
    try:
        return json.loads(body)["start_time"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def attempt_of(body: bytes) -> int:
    """The attempt that a metadata.json names; 0 where it names none that can be counted on from, whatever the document
    is."""
    try:
        document = json.loads(body)
        found = int(document["attempt"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return 0
    return found if abs(found) < _MOST else 0
