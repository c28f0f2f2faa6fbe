"""How a pass sees a fleet: by listing all of it, or by asking the runs that live one by one and listing a part."""

import math
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from typing import Final

from lastbeat.fleet.memory import FleetMemory, Round, RunMemory
from lastbeat.model import runid
from lastbeat.model.fleet import Shard
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.status import Status
from lastbeat.stores.kind import Prices


class Plan(Enum):
    """The value is what a report says of it."""

    LIST = "list", "everything is listed"
    BETWEEN = "probe", "the runs that run are asked, since the last pass listed everything and the next one does"
    ROLL = "probe", "the runs that live are asked, and a few pages of everything are listed"

    @property
    def told(self) -> str:
        """As reports name it, which know two ways alone."""
        return self.value[0]


RELIST_S: Final = 6 * 3600.0
"""However cheap the other ways are, everything is listed at once this often: it alone shows which runs are gone."""
SMALL_PAGES: Final = 2
"""A fleet whose listing has no more pages is listed in every second pass at least."""
SENTINELS_EVERY = 3
"""Of a run whose heartbeat moves, sentinels are asked for in every third pass; of one that stopped, in each."""
OVER_EVERY = 5
"""Runs that ended within a day are asked in every fifth pass whether they live again."""
_STILL_GETS = 3
"""Of a run whose heartbeat did not move, the sentinels are asked for as well."""


def choose(memory: FleetMemory, now: float, fleet: FleetPolicy, prices: Prices) -> Plan:
    """What costs least by the store's ``prices`` and yet finds soon enough what is new. Pure."""
    whole = not memory.cursor and memory.listed_at and 0 <= now - memory.listed_at < RELIST_S
    if prices.free or not whole:
        return Plan.LIST
    if memory.pages <= SMALL_PAGES:
        # A process that knows nothing of the last pass cannot know whether that listed.
        fresh = memory.just_listed and now - memory.listed_at < fleet.discover_s / 2
        # Who asks nobody would not notice a store that does not answer.
        asking = fresh and 0 < between_dollars(memory, fleet, prices) < listing_dollars(memory, prices)
        return Plan.BETWEEN if asking else Plan.LIST
    return Plan.LIST if listing_dollars(memory, prices) <= rolling_dollars(memory, fleet, prices) else Plan.ROLL


def listing_dollars(memory: FleetMemory, prices: Prices) -> float:
    """What a pass costs that lists everything."""
    return memory.pages * prices.per_request["LIST"]


def between_dollars(memory: FleetMemory, fleet: FleetPolicy, prices: Prices) -> float:
    """What a pass costs that asks each run that runs, between two that list everything."""
    return sum(_asking_dollars(run, fleet, prices) for run in memory.known() if run.line.status is Status.RUNNING)


def _asking_dollars(run: RunMemory, fleet: FleetPolicy, prices: Prices) -> float:
    each = prices.per_request
    if not run.files.get(runid.METADATA):
        # Only a listing of its folder knows the names of its logs.
        return each["LIST"]
    # One that did not beat within the pass before this is not expected to have done so when it is asked.
    if run.seen_at - run.moved <= fleet.interval_s:
        return each["GET"]
    return each["LIST"] if run.by_log else each["GET"] * _STILL_GETS


def rolling_dollars(memory: FleetMemory, fleet: FleetPolicy, prices: Prices) -> float:
    """What a pass costs that asks each run, with its part of a listing of everything."""
    runs = memory.known()
    live = [run for run in runs if run.line.status in {Status.RUNNING, Status.TIMED_OUT}]
    asked = sum(_asking_dollars(run, fleet, prices) for run in live)
    rarely = len(live) * 2 / SENTINELS_EVERY + (len(runs) - len(live)) / OVER_EVERY
    part = min(1.0, fleet.interval_s / fleet.discover_s) + fleet.interval_s / RELIST_S
    return asked + rarely * prices.per_request["GET"] + listing_dollars(memory, prices) * part


def rolled(memory: FleetMemory, now: float, fleet: FleetPolicy) -> tuple[Round, float]:
    """The round that a pass at ``now`` goes on with, and how many pages are its part: as many as it takes to be through
    with all of them ``discover_s`` after the round began, the last part without a limit. Pure."""
    round_, pace = memory.round, fleet.interval_s / fleet.discover_s
    if round_.done:
        # Passes are not that punctual: half an interval sooner is soon enough, too.
        if 0 <= now - round_.began_at < fleet.discover_s - fleet.interval_s / 2:
            return round_, 0
        round_ = Round(began_at=now, done=False)
    gone = max(0.0, now - round_.began_at) / fleet.discover_s
    if gone + pace > 1.0 - pace / 2:
        return round_, math.inf
    return round_, max(0, math.ceil(memory.pages * (gone + pace)) - round_.pages)


def moved_on(round_: Round, pages: int, reached: str, *, done: bool) -> Round:
    """``round_`` after so many pages more."""
    return replace(round_, pages=round_.pages + pages, reached="" if done else reached, done=done)


def split(memory: FleetMemory, now: float, fleet: FleetPolicy, whole: Shard) -> tuple[Shard, ...]:
    """Parts of about ``fanout_runs`` known runs each; ``whole`` while there are fewer, or it was last seen long ago.

    The cuts stay while they fit: a part that is cut elsewhere has to find out anew what the former ones knew.
    """
    ordered = sorted((run.line.run_id for run in memory.known()), key=lambda run_id: f"{run_id}/")
    if len(ordered) <= fleet.fanout_runs or not 0 <= now - memory.listed_at < RELIST_S:
        return (whole,)
    count = math.ceil(len(ordered) / fleet.fanout_runs)
    if not (len(memory.cuts) + 1) / 2 < count <= (len(memory.cuts) + 1) * 1.5 or not memory.cuts:
        size = math.ceil(len(ordered) / count)
        memory.cuts = tuple(ordered[size - 1 : -1 : size])
    cuts = [whole.after, *memory.cuts, whole.until]
    return tuple(Shard(after, until) for after, until in pairwise(cuts))
