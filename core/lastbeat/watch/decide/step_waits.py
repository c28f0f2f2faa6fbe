"""How long a run's steps usually take, as looks see it, and the limit that follows. Pure.

A look sees how old the newest step is. That is never more than the true wait for the next step, and less by at most the
time between two looks. So a time without looks teaches nothing, and no wait is overestimated. A wait teaches when it is
over: one that lasts could be a hang.

Few looks write. So a wait is recorded when it has grown by half, and the last recorded value counts in the end: at
least two thirds of the wait that was seen. The limit is five times that, and at least half an hour. A wait like an
earlier one is never late, as long as looks are less than a quarter of an hour apart.

An attempt begins with the limit of earlier attempts, once it has made some steps of its own: before that, it loads and
compiles. After enough steps of its own, its limit is the mean of both.
"""

from dataclasses import replace
from datetime import datetime
from typing import Final

from lastbeat.model.learned_limits import CEILING_S, FACTOR, IDLE_FLOOR_S, LEAST_SAMPLES, ROOM
from lastbeat.model.record import HeartbeatMemory, StepWaits

NOTED_S: Final = 60.0
"""A wait shorter than this many seconds is not worth a write."""
_GROWTH: Final = 1.5
_SETTLED: Final = 3
"""An attempt is past its start after this many looks that found a new step."""


def noted(known: StepWaits | None, progress: HeartbeatMemory, now: datetime) -> StepWaits | None:
    """``known``, updated with ``progress``'s steps as this look sees them."""
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
    """The same for a supervised run, without learning a limit. Its step times decide when a failed job without output
    may be ended."""
    waits = noted(known, progress, now)
    return waits if waits is None else replace(waits, seen=known.seen if known is not None else 0)


def news(before: StepWaits | None, after: StepWaits | None) -> bool:
    """Whether ``after`` has to be recorded. A step alone does not: the next look sees by itself that it is new."""
    if before is None or after is None:
        return before is not after
    same = before.seen == after.seen and before.longest_s == after.longest_s
    return not same or after.waited_s > (before.waited_s if before.step == after.step else 0.0)


def limit_s(known: StepWaits | None, earlier_s: float | None) -> float | None:
    """Seconds that the run may take for its next step; ``earlier_s`` is the limit of earlier attempts. None if too
    little is known, or if steps take too long to tell a hang from a step."""
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
    """Whether a limit may rest on ``known``, after attempts whose limit was ``earlier_s``."""
    return known.seen >= (LEAST_SAMPLES if earlier_s is None else _SETTLED)


def handed_on_s(known: StepWaits | None, earlier_s: float | None) -> float | None:
    """The limit that the next attempt begins with, in s; None if unknown, or if a hang looks like a slow step."""
    return limit_s(known, earlier_s) if known is not None and is_enough(known, earlier_s) else earlier_s


def _bounded(seconds: float) -> float:
    return min(max(seconds, IDLE_FLOOR_S), CEILING_S)


def usual_s(known: StepWaits) -> float:
    """The longest step that was seen, in seconds."""
    return max(known.longest_s, NOTED_S)
