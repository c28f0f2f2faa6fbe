"""The number of the attempt that a start begins."""

import json
from collections.abc import Mapping
from typing import Any

# Each counts the restarts of a job from 0; torchelastic's counts those of its workers.
_COUNTERS = ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT", "FLUX_JOB_RESTART_COUNT", "LASTBEAT_RESTART_COUNT")

_MOST = 10**15
"""Readers accept no larger number, and Python would refuse to write one of thousands of digits again."""


def restarts(environ: Mapping[str, str]) -> int:
    """How often the scheduler has restarted this job, by its own count."""
    counts = (environ.get(name, "").strip() for name in _COUNTERS)
    return max((int(count) for count in counts if count.isascii() and count.isdigit() and len(count) < 6), default=0)


def next_attempt(before: int | None, restarted: int, *, resume: bool = False) -> int:
    """The number of the attempt that begins now.

    ``before`` is the number in the existing metadata.json: 0 if it has none, None if there is no such file.
    ``resume`` means that there was an earlier attempt, even if nothing of it is left.
    """
    known = 0 if before is None else max(before, 1)
    return max(known + 1, restarted + 1, 2 if resume else 1)


def start_time_of(body: bytes) -> object:
    """The start time in a metadata.json, unparsed; None if it has none."""
    return parsed(body).get("start_time")


def attempt_of(body: bytes) -> int:
    """The attempt number in a metadata.json; 0 if the document has no usable one or cannot be parsed."""
    try:
        found = int(parsed(body)["attempt"])
    except (ValueError, TypeError, KeyError, OverflowError):
        return 0
    return found if abs(found) < _MOST else 0


def parsed(body: bytes) -> dict[str, Any]:
    """A document that training wrote; empty where it is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
