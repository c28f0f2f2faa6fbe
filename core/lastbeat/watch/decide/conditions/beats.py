"""Conditions of a run that beats rarely, or that has only one fresh heartbeat."""

from typing import Final

from lastbeat.explain.signals import hints
from lastbeat.model import status as names
from lastbeat.model.record import LimitName
from lastbeat.model.times import format_duration, format_minutes
from lastbeat.watch.decide import logs
from lastbeat.watch.decide.conditions.condition import LOGGED_STEPS, NEW_BEAT, NEW_PROGRESS, Check, Condition
from lastbeat.watch.decide.evidence import LOG_STEP, METADATA, PROGRESS
from lastbeat.watch.decide.freshness import silence_limit_s


def silence(check: Check) -> str | None:
    """How long the run has been silent, in words, or None if it has missed no beats."""
    beat = check.evidence.seen.metadata
    limit_s, silent_s = silence_limit_s(beat), min(check.ages_s.values())
    if beat is None or beat.beat_s is None or limit_s is None or silent_s <= limit_s:
        return None
    return f"silent for {format_duration(silent_s)} (beats each {format_duration(beat.beat_s)})"


def _stale_metadata(check: Check) -> str | None:
    return _stale(check, METADATA, check.policy.stale_s)


def _stale_progress(check: Check) -> str | None:
    log, stale_s = check.evidence.log, check.policy.stale_s
    logged_s = stale_s if log is None else logs.patience_s(log, stale_s)
    return _stale(check, PROGRESS, stale_s) or _stale(check, LOG_STEP, logged_s)


def _stale(check: Check, name: str, limit_s: float) -> str | None:
    age_s = check.ages_s.get(name, 0.0)
    if age_s <= limit_s:
        return None
    return f"{name} is {format_duration(age_s)} old (>{format_minutes(limit_s)}) while the other is fresh"


def _first_awaited(check: Check) -> str:
    waited_s = check.age_s(check.evidence.first_looked_at)
    return f"no heartbeat yet, {format_duration(waited_s)} of {format_minutes(check.policy.start_grace_s)} waited"


BEFORE_THE_FIRST: Final = (
    Condition(
        "no_heartbeat",
        "within `LASTBEAT_START_MINUTES` of the first look, no heartbeat yet",
        _first_awaited,
    ),
)
"""The conditions of a run that has never beaten."""

CONDITIONS: Final = (
    Condition(
        names.BEATS_MISSED,
        "nothing has come for four of the run's own beats (`beat_seconds`), or twice its longest gap so far",
        silence,
        hint=hints.SILENT,
        muted_by_flapping=True,
    ),
    Condition(
        names.METADATA_STALE,
        "metadata.json is stale while the other heartbeat is fresh",
        _stale_metadata,
        needs=(NEW_BEAT,),
        hint="Progress is still written, so training lives: check the process that writes metadata.json.",
        limit=LimitName.STALE,
        muted_by_flapping=True,
    ),
    Condition(
        names.PROGRESS_STALE,
        "progress.json, or the last step in the log, is stale while the other heartbeat is fresh",
        _stale_progress,
        needs=(LOGGED_STEPS, NEW_PROGRESS),
        hint="The process beats but reports no step: a long evaluation or checkpoint, or a hang. Look at the training "
        "log and nvidia-smi.",
        limit=LimitName.STALE,
        muted_by_flapping=True,
    ),
)
