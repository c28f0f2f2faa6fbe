"""The first look at a fleet: one notice covers all runs that had ended before, instead of an alert for each. Pure.

A fleet without a watcher so far may hold hundreds of runs that ended recently. An alert for each would be noise, above
all for those that succeeded. A run that ends later gets an alert of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from lastbeat.model.group import DeferredAlert, FirstLook, Ledger
from lastbeat.model.policy import FleetPolicy
from lastbeat.watch.decide.groups import MEMBER_LIMIT, Numbers

_OPEN_S: Final = 3600.0
"""A first look that was never finished counts as over after this many seconds."""
_KEPT_S: Final = 3600.0
"""How long the ledger keeps which notice covered which alerts, in s: a pass may die before it records that."""


@dataclass(frozen=True, slots=True)
class FirstPass:
    """What a pass knows of the first look that it begins or continues."""

    began_at: datetime
    watched: int
    """How many runs had a record before: a watcher has seen them."""
    complete: bool
    """The pass finished."""


@dataclass(frozen=True, slots=True)
class FirstLookDecision:
    """How the alerts of runs that had ended are sent."""

    first_look: FirstLook | None
    notice: tuple[DeferredAlert, ...] = ()
    """The alerts that a notice covers; empty if there is no notice."""
    again: bool = False
    """An earlier notice was sent."""
    release: Numbers = field(default_factory=dict)
    told: Mapping[str, Mapping[int, tuple[int, ...]]] = field(default_factory=dict)
    """Run id → number of the notice → alerts that it covers."""


def decide_first_look(
    ledger: Ledger,
    found: Sequence[DeferredAlert],
    looking: FirstPass | None,
    number: int,
    now: datetime,
    policy: FleetPolicy,
) -> FirstLookDecision:
    """Decide on the alerts ``found`` of runs that had ended; ``number`` is that of the next notice.

    1. An alert that an earlier pass assigned to a notice stays with it.
    2. A notice covers ``group_runs`` alerts or more. If at least as many runs were watched before, the fleet has lost
       its memory and this is no first look. After one notice, two alerts are enough for another.
    3. Every other alert is sent on its own.
    """
    known = _pruned(ledger.first_look, now)
    told: dict[str, dict[int, tuple[int, ...]]] = {}
    rest: list[DeferredAlert] = []
    for each in {(each.run_id, each.number): each for each in found}.values():
        notice = known.told.get(each.run_id, {}).get(each.number) if known is not None else None
        if notice is None:
            rest.append(each)
        else:
            told.setdefault(each.run_id, {})[notice] = (each.number,)
    again = known is not None and bool(known.told)
    many = len(rest) >= (2 if again else policy.group_runs)
    # Alerts that an earlier pass left undecided still belong to the first look.
    tells = many and (again or looking is None or len(rest) > looking.watched)
    if known is None and (tells or (looking is not None and not looking.complete)):
        known = FirstLook(looking.began_at if looking is not None else min(each.message.at for each in rest))
    if known is not None and known.closed_at is None and (looking is None or looking.complete):
        known = replace(known, closed_at=now)
    if not tells or known is None:
        return FirstLookDecision(known, release=_numbers(rest), told=told)
    rest = sorted(rest, key=lambda each: (each.run_id, each.number))[:MEMBER_LIMIT]
    by_run = {run_id: dict(numbers) for run_id, numbers in known.told.items()}
    for each in rest:
        by_run.setdefault(each.run_id, {})[each.number] = number
        told.setdefault(each.run_id, {})[number] = (each.number,)
    return FirstLookDecision(replace(known, told=by_run), tuple(rest), again, told=told)


def goes_on(known: FirstLook | None, now: datetime) -> bool:
    """Whether the first look is still open."""
    return known is not None and known.closed_at is None and (now - known.began_at).total_seconds() <= _OPEN_S


def _pruned(known: FirstLook | None, now: datetime) -> FirstLook | None:
    if known is None or (now - known.began_at).total_seconds() <= _OPEN_S + _KEPT_S:
        return known
    return replace(known, closed_at=known.closed_at or now, told={})


def _numbers(alerts: Sequence[DeferredAlert]) -> Numbers:
    numbers: dict[str, tuple[int, ...]] = {}
    for each in alerts:
        numbers[each.run_id] = (*numbers.get(each.run_id, ()), each.number)
    return numbers
