"""Since when a run has been at its step, and whether that is longer than normal for it. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Final

from lastbeat.model.policy import Policy
from lastbeat.views.known_run import Gist

STILL_S: Final = 600.0
"""Seconds without a new step that are normal for any run."""
UNKNOWN_STILL_S: Final = 1800.0
"""The same where nothing tells how often steps come, and in a section other than a step, such as an evaluation."""
USUAL: Final = 3.0
"""Times the usual wait for a reported step."""
_STEP: Final = "step"


@dataclass(frozen=True, slots=True)
class Standstill:
    """How a run gets on with its steps."""

    step_at: datetime | None = None
    """When it reached its step, by the store's clock; it may have been earlier."""
    normal_s: float = UNKNOWN_STILL_S
    """Seconds without a new step that are normal for it. Infinite: no step is to come."""
    limited: bool | None = None
    """Whether a limit for standing still holds for it. None: unknown."""

    def lasts(self, at: datetime) -> bool:
        """Whether it has stood still for longer than normal."""
        return self.step_at is not None and (at - self.step_at).total_seconds() > self.normal_s


def standstill(
    source: Gist | None,
    metadata: Gist | None,
    recorded: tuple[int, datetime] | None,
    policy: Policy,
    *,
    unread: bool,
) -> Standstill:
    """Since when a run is at its step. ``source`` is the document with that step, ``recorded`` a step and when a
    watcher saw the run reach it. ``policy`` has the run's limits; ``unread``: metadata.json may state more."""
    sections = metadata.heartbeat.sections if metadata is not None else ()
    limited: bool | None = policy.stall_s is not None or policy.inactivity_s is not None or policy.learns_steps
    limited = limited or any(each.limit_s is not None for each in sections) or (None if unread else False)
    beat = source.heartbeat if source is not None else None
    if source is None or beat is None or beat.step is None:
        return Standstill(None if recorded is None else recorded[1], limited=limited)
    reached_at = beat.modified - timedelta(seconds=beat.stood_s)
    if recorded is not None and recorded[0] == beat.step:
        reached_at = min(reached_at, recorded[1])
    if beat.total_steps is not None and beat.step >= beat.total_steps - 1:
        # No step is to come. Steps are counted from 0 or from 1.
        return Standstill(reached_at, inf, limited)
    elsewhere = any(each.name not in {None, _STEP} for each in sections)
    least_s = UNKNOWN_STILL_S if source.report_s is None or elsewhere else STILL_S
    usual_s = source.report_s or (1 / source.steps_per_s if source.steps_per_s else 0.0)
    return Standstill(reached_at, max(least_s, USUAL * usual_s), limited)
