"""How long a run's steps usually take, as looks see it, and the limit that follows. Pure.

A look sees for how long the newest step has been the newest. That is never more than the true wait for the next one,
and less by at most the time between two looks: so a time without looks teaches nothing, and no wait is taken for a
longer one. A wait teaches when it is over: one that lasts could be a hang.

Few looks write. So a wait is written down when it has grown by half, and what was written last counts in the end: two
thirds of what was seen, at least. The limit is five times that, and half an hour at the least: a wait like one before
is never late, as long as looks are less than a quarter of an hour apart.

An attempt begins with the limit of those before it, once it has made some steps of its own: before, it loads and
compiles. When it has seen enough itself, its limit is the mean of both.
"""

from dataclasses import replace
from datetime import datetime
from typing import Final

from lastbeat.model.learned_limits import CEILING_S, FACTOR, IDLE_FLOOR_S, LEAST_SAMPLES, ROOM
from lastbeat.model.record import HeartbeatMemory, StepWaits

NOTED_S: Final = 60.0
"""A shorter wait is not worth a write."""
_GROWTH: Final = 1.5
_SETTLED: Final = 3
"""After so many looks that found a new step, an attempt is past its start."""


def noted(known: StepWaits | None, progress: HeartbeatMemory, now: datetime) -> StepWaits | None:
    """What is known of ``progress``'s steps at this look, after what was ``known``."""
    step, step_at = progress.step, progress.step_at
    if step is None or step_at is None or progress.suspect or progress.missing_since is not None:
        return known
    waited_s = (now - step_at).total_seconds()
    if known is None:
        return StepWaits(step)
    if known.step != step:
        known = StepWaits(step, min(known.seen + 1, LEAST_SAMPLES), max(known.longest_s, known.waited_s))
    if waited_s >= max(NOTED_S, _GROWTH * known.waited_s) and waited_s <= CEILING_S:
        return replace(known, waited_s=round(waited_s, 1))
    return known


def noted_for_end(known: StepWaits | None, progress: HeartbeatMemory, now: datetime) -> StepWaits | None:
    """The same of a supervised run, where nobody learns a limit of that: when its job has failed, how long its steps
    took decides when that has shown nothing for long enough to be ended."""
    waits = noted(known, progress, now)
    return waits if waits is None else replace(waits, seen=known.seen if known is not None else 0)


def news(before: StepWaits | None, after: StepWaits | None) -> bool:
    """Whether ``after`` has to be written down. A step alone has not: the next look sees for itself that it is new."""
    if before is None or after is None:
        return before is not after
    same = before.seen == after.seen and before.longest_s == after.longest_s
    return not same or after.waited_s > (before.waited_s if before.step == after.step else 0.0)


def limit_s(known: StepWaits | None, earlier_s: float | None) -> float | None:
    """How long the run may be without a new step, in s; ``earlier_s`` is what the attempts before made of that. None:
    too little is known, or its steps take too long to tell a hang from one."""
    if known is None or not is_enough(known, earlier_s):
        return None
    own_s, room_s = _bounded(FACTOR * known.longest_s), ROOM * known.longest_s
    if own_s < room_s:
        return None
    if earlier_s is None:
        return own_s
    earlier_s = _bounded(earlier_s)
    return max((own_s + earlier_s) / 2, room_s) if known.seen >= LEAST_SAMPLES else max(own_s, earlier_s)


def is_enough(known: StepWaits, earlier_s: float | None) -> bool:
    """Whether a limit may rest on it, after attempts that made it ``earlier_s``."""
    return known.seen >= (LEAST_SAMPLES if earlier_s is None else _SETTLED)


def handed_on_s(known: StepWaits | None, earlier_s: float | None) -> float | None:
    """What the next attempt begins with. None: nothing is known, or steps take too long to tell a hang from one."""
    return limit_s(known, earlier_s) if known is not None and is_enough(known, earlier_s) else earlier_s


def _bounded(seconds: float) -> float:
    return min(max(seconds, IDLE_FLOOR_S), CEILING_S)


def usual_s(known: StepWaits) -> float:
    """How long a step took at most, as far as was seen."""
    return max(known.longest_s, NOTED_S)
