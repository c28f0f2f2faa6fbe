"""The decisions that a restart policy would have made about past runs, and their effect. Pure.

The decisions are those of ``decide.restart.decide_restart``. Budgets and windows count the restarts that the policy
itself would have made. If a person restarted a run that the policy stops, the budgets start over, as they do when a
person begins a supervision.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from typing import Final

from lastbeat.model.restart import JobEnd, Mode, RestartDecision, RestartEntry, RestartPolicy
from lastbeat.watch.decide.past_run import PastEnd, PastRun
from lastbeat.watch.decide.restart import decide_restart, entry

MEAN_CHANCE: Final = 0.5
"""Average of the random draw that sets the delay before a restart, as a share of the delay's limit."""


class Hindsight(str, Enum):
    """The effect of a decision about an end, given what happened later."""

    SAVED = "saved"
    """Restarted; a person started it again later, and it got further."""
    WASTED = "wasted"
    """Restarted; it was started again, and died of the same cause without getting further."""
    MISSED = "missed"
    """Stopped; a person started it again, and it got further."""
    SPARED = "spared"
    """Stopped; it was started again, and died of the same cause without getting further."""
    BACK = "back"
    """The same attempt came back, or succeeded, so there was nothing to restart."""
    ASKED = "asked"
    """A person had requested this end."""
    DONE = "done"
    """The run succeeded."""
    UNKNOWN = "unknown"
    """It was not started again, or its progress is unknown."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class PastDecision:
    """A policy's decision about one end, and its effect."""

    run_id: str
    past: PastEnd
    decision: RestartDecision
    hindsight: Hindsight
    seconds: float | None = None
    """Time saved, wasted, missed or spared; None if unknown or not applicable."""
    steps: int | None = None
    """The same in steps."""


@dataclass
class Worth:
    """Count of decisions with the same effect, and their total time and steps."""

    count: int = 0
    seconds: float = 0.0
    timed: int = 0
    """Number of decisions whose time is known."""
    steps: int = 0
    stepped: int = 0
    """Number of decisions whose steps are known."""


@dataclass
class Backtest:
    """One policy's decisions about a fleet, counted."""

    policy: str
    restarts: dict[Hindsight, Worth] = field(default_factory=dict)
    stops: dict[Hindsight, Worth] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    """Reason of a decision → count, without decisions about a success."""

    def add(self, each: PastDecision) -> None:
        """Count ``each``."""
        tallies = self.restarts if each.decision.restart else self.stops
        tally = tallies.setdefault(each.hindsight, Worth())
        tally.count += 1
        if each.seconds is not None:
            tally.seconds, tally.timed = tally.seconds + each.seconds, tally.timed + 1
        if each.steps is not None:
            tally.steps, tally.stepped = tally.steps + each.steps, tally.stepped + 1
        if each.hindsight is not Hindsight.DONE:
            self.reasons[each.decision.reason] = self.reasons.get(each.decision.reason, 0) + 1


def backtest(policy: RestartPolicy, past: PastRun, delay_s: float) -> Iterator[PastDecision]:
    """``policy``'s decision about each end of ``past``, with its effect. ``delay_s`` is the limit of the first delay in
    seconds."""
    history: list[RestartEntry] = []
    for index, each in enumerate(past.ends):
        decision = decide_restart(policy, each.end, history, each.at, delay_s=delay_s, chance=MEAN_CHANCE)
        following = next((then for then in past.ends[index + 1 :] if then.attempt > each.attempt), None)
        yield _judged(past.run_id, each, following, decision)
        if each.came_back:
            # The run came back by itself, so such a restart is withdrawn.
            continue
        history = [*history, entry(each.end, each.at)] if decision.restart else []


def _judged(run_id: str, each: PastEnd, following: PastEnd | None, decision: RestartDecision) -> PastDecision:
    """The decision with its effect, judged by what happened to the run later.

    1. A decision about a requested end, a success, or an end that the run came back from has no effect.
    2. The run was not started again: unknown.
    3. The next attempt died of the same cause without getting further: a restart is wasted, a stop saves that attempt.
    4. The same, but its progress is unknown: unknown.
    5. Otherwise the next attempt got further: a restart would have saved the downtime, less the delay.
    """
    judged = PastDecision(run_id, each, decision, Hindsight.UNKNOWN)
    if each.end.asked_by is not None:
        return replace(judged, hindsight=Hindsight.ASKED)
    if each.came_back:
        return replace(judged, hindsight=Hindsight.BACK)
    if each.end.mode is Mode.SUCCESS and not decision.restart:
        return replace(judged, hindsight=Hindsight.DONE)
    if each.resumed_at is None:
        return judged
    behind = each.reached is not None and each.end.step is not None and each.reached <= each.end.step
    if following is None and behind:
        # The next attempt is alive, and has not come as far yet.
        return judged
    again = following is not None and _same_cause(each.end, following.end)
    further = None if following is None else _further(each.end, following.end)
    if again and further is None:
        return judged
    if following is not None and again and not further:
        hindsight = Hindsight.WASTED if decision.restart else Hindsight.SPARED
        took = None if following.began_at is None else (following.died_at - following.began_at).total_seconds()
        redone = _between(following.first_step, following.end.step)
        return replace(judged, hindsight=hindsight, seconds=None if took is None else max(0.0, took), steps=redone)
    dead_s = max(0.0, (each.resumed_at - each.died_at).total_seconds())
    if not decision.restart:
        return replace(judged, hindsight=Hindsight.MISSED, seconds=dead_s)
    # No decision is possible before the end was seen.
    until = each.at + timedelta(seconds=decision.delay_s)
    saved_s = max(0.0, (each.resumed_at - max(until, each.died_at)).total_seconds())
    steps = None if each.steps_per_s is None else round(saved_s * each.steps_per_s)
    return replace(judged, hindsight=Hindsight.SAVED, seconds=saved_s, steps=steps)


def _same_cause(one: JobEnd, other: JobEnd) -> bool:
    return other.mode is not Mode.SUCCESS and other.asked_by is None and one.error_type == other.error_type


def _further(one: JobEnd, other: JobEnd) -> bool | None:
    """Whether the second attempt got further, or None if that is unknown."""
    return None if one.step is None or other.step is None else other.step > one.step


def _between(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None else max(0, last - first)
