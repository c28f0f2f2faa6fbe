"""The first look at a fleet: what had ended before is told by one notice, not by an alert a run. Pure.

A fleet that nobody has watched may hold hundreds of runs that ended lately. Nobody wants to hear of each, and hardly of
those that succeeded. What ends from then on is told by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from lastbeat.model.group import DeferredAlert, FirstLook, Ledger
from lastbeat.model.policy import FleetPolicy
from lastbeat.watch.decide.groups import MEMBER_LIMIT, Numbers

_OPEN_S: Final = 3600.0
"""A first look that was never finished ends after this long."""
_KEPT_S: Final = 3600.0
"""How long it is kept which notice told what: a pass may have died before it recorded that in the runs' records."""


@dataclass(frozen=True, slots=True)
class FirstPass:
    """What a pass knows of the first look that it is, or goes on with."""

    began_at: datetime
    watched: int
    """Runs with a record from before: somebody has watched them."""
    complete: bool
    """The pass came to its end."""


@dataclass(frozen=True, slots=True)
class FirstLookDecision:
    """What becomes of the alerts of runs that had ended."""

    first_look: FirstLook | None
    notice: tuple[DeferredAlert, ...] = ()
    """What a notice tells; empty: there is none."""
    again: bool = False
    """A notice went out before."""
    release: Numbers = field(default_factory=dict)
    told: Mapping[str, Mapping[int, tuple[int, ...]]] = field(default_factory=dict)
    """Run id → number of the notice → alerts that it tells."""


def decide_first_look(
    ledger: Ledger,
    found: Sequence[DeferredAlert],
    looking: FirstPass | None,
    number: int,
    now: datetime,
    policy: FleetPolicy,
) -> FirstLookDecision:
    """Decide on the alerts ``found`` of runs that had ended; ``number`` is that of the next notice.

    1. What an earlier pass decided to tell by a notice is told by it.
    2. ``group_runs`` or more are told by a notice, unless more runs than that had been watched before: then it is no
       first look, but a fleet whose memory is lost. After a notice, two more are enough for another.
    3. All else goes out by itself.
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
    # Alerts that an earlier pass could not decide on are still what a first look found.
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
    """Whether the first look has not come to its end."""
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
