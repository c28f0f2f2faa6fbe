"""The condition of a run that beats and makes no progress."""

from typing import Final, NamedTuple

from lastbeat.explain.signals import hints
from lastbeat.model import status as names
from lastbeat.model.record import LimitName
from lastbeat.model.times import format_duration, format_minutes
from lastbeat.watch.decide import logs
from lastbeat.watch.decide.conditions.condition import LOGGED_PROGRESS, NEW_STEP, Check, Condition
from lastbeat.watch.decide.freshness import silence_limit_s
from lastbeat.watch.decide.headline import thread_note

_LIVELY_S: Final = 120.0
"""A run that does not say how often it beats counts as alive for this long after a beat."""


class Stall(NamedTuple):
    """A run that makes no progress."""

    detail: str
    lasts_s: float
    limit_s: float

    @property
    def text(self) -> str:
        """What makes no progress, for how long, and the limit."""
        return f"{self.detail} (limit {format_minutes(self.limit_s)})"


def stall(check: Check) -> Stall | None:
    """The stall, or None if the run makes progress or progress is not watched."""
    evidence, policy = check.evidence, check.policy
    steps, log = evidence.step_source, evidence.log
    if evidence.hidden and (evidence.progress is None or logs.waits_for_lines(policy)):
        return None
    step_at = steps.step_at if steps is not None and steps.step is not None else None
    if policy.stall_s is not None:
        limit_s, since = policy.stall_s, step_at
    elif policy.inactivity_s is not None:
        lines = [log.modified] if log is not None else []
        limit_s, since = policy.inactivity_s, max([*lines, *([step_at] if step_at else [])], default=None)
    else:
        return None
    if since is None or check.age_s(since) < limit_s:
        return None
    lasts_s = check.age_s(since)
    where = f"still at step {steps.step}" if steps is not None and steps.step is not None else "no new line in the log"
    return Stall(f"No progress: {where} after {format_duration(lasts_s)}", lasts_s, limit_s)


def stall_hint(check: Check) -> str:
    """What to do about a run without progress. Only a run that has just beaten is said to be alive."""
    silent_s, limit_s = min(check.ages_s.values()), silence_limit_s(check.evidence.seen.metadata)
    if limit_s is None:
        return hints.STALLED if silent_s <= _LIVELY_S else hints.STALLED_OR_DEAD
    return hints.STALLED if silent_s <= limit_s else hints.SILENT


def _stalled(check: Check) -> str | None:
    found = stall(check)
    return None if found is None else found.text + thread_note(check.evidence.seen)


CONDITIONS: Final = (
    Condition(
        names.STALLED,
        "heartbeats go on, the step has stood still for `LASTBEAT_STALL_MINUTES` (off unless set; at the first look by "
        "the points in `progress.json`), or the log says nothing for a catalogue's inactivity",
        _stalled,
        needs=(LOGGED_PROGRESS, NEW_STEP),
        hint=stall_hint,
        limit=LimitName.STALL,
        muted_by_flapping=True,
    ),
)
