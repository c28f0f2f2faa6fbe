"""Measures how long a dead job idled, until its time was over or a user or scheduler ended it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from lastbeat.explain.causes.candidates import Candidate, Tier, has_year
from lastbeat.explain.causes.exit_codes import SCHEDULERS
from lastbeat.model.cause import WORTH_TELLING, Idle

_ZONE: Final = timedelta(minutes=30)
"""Differences of time zones are multiples of this."""
_ZONE_SLACK: Final = timedelta(seconds=90)
"""Most deviation from such a multiple that may still be a difference of zones."""
_FARTHEST_ZONE: Final = timedelta(hours=14)
"""Largest difference of a time zone from UTC."""
_PREEMPTION: Final = "preemption"
_SCHEDULERS: Final = frozenset({SCHEDULERS, _PREEMPTION})
"""Subsystems whose lines the scheduler prints, in the time zone of its host."""


def end_from_outside(cause: Candidate, candidates: Sequence[Candidate]) -> tuple[str, Idle | None]:
    """What ended the job from outside after its cause, in words, and how long the job had idled by then. ("", None) if
    no line shows such an end."""
    end = _end(cause, candidates)
    return ("", None) if end is None else (_in_words(end), _idle(cause, end))


def _idle(cause: Candidate, end: Candidate) -> Idle | None:
    """The idle time by the lines' own times; None if it is unknown or short.

    If the cause's line has no time, the newest time above it gives an upper bound.
    """
    died, ended = cause.mention.time or cause.mention.before, end.mention.time
    if died is None or ended is None or not has_year(died) or not has_year(ended):
        return None
    idled = ended - died
    if idled < WORTH_TELLING or (end.subsystem in _SCHEDULERS and _may_be_zones(idled)):
        return None
    return Idle(idled.total_seconds(), _in_words(end), at_most=cause.mention.time is None)


def _end(cause: Candidate, candidates: Sequence[Candidate]) -> Candidate | None:
    ends = [each for each in candidates if _is_imposed_end(each)]
    if not ends or not _is_a_crash(cause):
        return None
    end = ends[-1]
    if not end.traits.is_time_over and any(map(_confirms_an_end, candidates[: candidates.index(end)])):
        # Launchers cancel the rest of a job that has ended by itself.
        return None
    return end


def _is_a_crash(cause: Candidate) -> bool:
    if cause.traits.is_imposed or cause.traits.is_time_over or cause.tier == Tier.SYMPTOM:
        return False
    return cause.mention.raised or cause.signal.verdict == "crash"


def _is_imposed_end(candidate: Candidate) -> bool:
    imposed = candidate.traits.is_imposed or candidate.traits.is_time_over
    return imposed and not candidate.mention.weak and candidate.tier != Tier.CONFIRMATION


def _confirms_an_end(candidate: Candidate) -> bool:
    return candidate.tier in {Tier.CONFIRMATION, Tier.EXIT} and not candidate.mention.weak


def _may_be_zones(idled: timedelta) -> bool:
    """Whether ``idled`` may be a difference of time zones. A container often has another zone than the scheduler."""
    off = idled % _ZONE
    return idled <= _FARTHEST_ZONE and min(off, _ZONE - off) <= _ZONE_SLACK


def _in_words(end: Candidate) -> str:
    if end.traits.is_time_over:
        return "the time limit"
    return "it was preempted" if end.subsystem == _PREEMPTION else "it was cancelled"
