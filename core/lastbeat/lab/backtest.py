"""What a restart policy would have decided about the ends of past runs, and what that would have been worth. Pure.

The decisions are those of ``decide.restart.decide_restart``. Budgets and windows count the restarts that the policy
itself would have made. Where the policy stops a run that a person then started again, the budgets start afresh, as they
do when a person begins a supervision.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from typing import Final

from lastbeat.model.past_run import PastEnd, PastRun
from lastbeat.model.restart import JobEnd, Mode, RestartDecision, RestartEntry, RestartPolicy
from lastbeat.watch.decide.restart import decide_restart, entry

MEAN_CHANCE: Final = 0.5
"""Average of the random draw that sets the delay before a restart, as a share of the delay's limit."""


class Hindsight(str, Enum):
    """What came of an end, and so what a decision about it would have been worth."""

    SAVED = "saved"
    """Restarted; a person started it again later, and it got further."""
    WASTED = "wasted"
    """Restarted; it was started again, and died of the same cause without getting further."""
    MISSED = "missed"
    """Stopped; a person started it again, and it got further."""
    SPARED = "spared"
    """Stopped; it was started again, and died of the same cause without getting further."""
    BACK = "back"
    """The same attempt came back, or ended well: there was nothing to restart."""
    ASKED = "asked"
    """A person had asked for this end."""
    DONE = "done"
    """It ended well."""
    UNKNOWN = "unknown"
    """It was not started again, or how far it got is unknown."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class PastDecision:
    """What a policy would have decided about one end, and what that would have been worth."""

    run_id: str
    past: PastEnd
    decision: RestartDecision
    hindsight: Hindsight
    seconds: float | None = None
    """Saved or wasted, missed or spared. None: not known, or none of these."""
    steps: int | None = None
    """The same in steps."""


@dataclass
class Worth:
    """How often, and how much in all."""

    count: int = 0
    seconds: float = 0.0
    timed: int = 0
    """Of how many the time is known."""
    steps: int = 0
    stepped: int = 0
    """Of how many the steps are known."""


@dataclass
class Backtest:
    """What one policy would have done to a fleet."""

    policy: str
    restarts: dict[Hindsight, Worth] = field(default_factory=dict)
    stops: dict[Hindsight, Worth] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    """Reason of each decision that was not about a good end → how often."""

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
    """What ``policy`` would have decided about each end, and what each decision would have been worth. ``delay_s`` is
    the limit of the first delay."""
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
    """What the decision would have been worth, judged by what happened to the run later.

    1. A requested end, a success, and an end that the run came back from are worth nothing.
    2. The run was not started again: unknown.
    3. The next attempt died of the same cause without getting further: a restart is wasted, a stop saves that attempt.
    4. The same, but how far it got is not known: unknown.
    5. Otherwise the next attempt got further: a restart would have saved the downtime, less the delay.
    """
    told = PastDecision(run_id, each, decision, Hindsight.UNKNOWN)
    if each.end.asked_by is not None:
        return replace(told, hindsight=Hindsight.ASKED)
    if each.came_back:
        return replace(told, hindsight=Hindsight.BACK)
    if each.end.mode is Mode.SUCCESS and not decision.restart:
        return replace(told, hindsight=Hindsight.DONE)
    if each.resumed_at is None:
        return told
    behind = each.reached is not None and each.end.step is not None and each.reached <= each.end.step
    if following is None and behind:
        # The next attempt is alive, and has not come as far yet.
        return told
    again = following is not None and _same_cause(each.end, following.end)
    further = None if following is None else _further(each.end, following.end)
    if again and further is None:
        return told
    if following is not None and again and not further:
        hindsight = Hindsight.WASTED if decision.restart else Hindsight.SPARED
        took = None if following.began_at is None else (following.died_at - following.began_at).total_seconds()
        redone = _between(following.first_step, following.end.step)
        return replace(told, hindsight=hindsight, seconds=None if took is None else max(0.0, took), steps=redone)
    dead_s = max(0.0, (each.resumed_at - each.died_at).total_seconds())
    if not decision.restart:
        return replace(told, hindsight=Hindsight.MISSED, seconds=dead_s)
    # No decision is possible before the end was seen.
    until = each.at + timedelta(seconds=decision.delay_s)
    saved_s = max(0.0, (each.resumed_at - max(until, each.died_at)).total_seconds())
    steps = None if each.steps_per_s is None else round(saved_s * each.steps_per_s)
    return replace(told, hindsight=Hindsight.SAVED, seconds=saved_s, steps=steps)


def _same_cause(one: JobEnd, other: JobEnd) -> bool:
    return other.mode is not Mode.SUCCESS and other.asked_by is None and one.error_type == other.error_type


def _further(one: JobEnd, other: JobEnd) -> bool | None:
    """Whether the second attempt got further, or None if that is unknown."""
    return None if one.step is None or other.step is None else other.step > one.step


def _between(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None else max(0, last - first)
