"""How a pass finds out what changed: by listing everything, or by asking the runs that live and listing a part."""

import math
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from typing import Final

from lastbeat.fleet.index import FleetIndex, IndexedRun, ListingRound
from lastbeat.model import runid
from lastbeat.model.fleet import Shard
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.status import Status
from lastbeat.stores.kind import Prices


class ScanPlan(Enum):
    """How a pass finds out what changed. The value is the name in reports, and what it means."""

    LIST = "list", "list everything"
    BETWEEN = "probe", "ask the runs that run; the last pass listed everything, and so will the next"
    ROLL = "probe", "ask the runs that live, and list a few pages of everything"

    @property
    def told(self) -> str:
        """The name in reports, which know two plans only."""
        return self.value[0]


RELIST_S: Final = 6 * 3600.0
"""However cheap the other plans are, everything is listed at once this often: only that shows which runs are gone."""
SMALL_PAGES: Final = 2
"""A fleet with no more pages than this is listed in every second pass at least."""
SENTINELS_EVERY = 3
"""The sentinels of a run whose heartbeat moves are asked for in every third pass; once it stops, in every pass."""
OVER_EVERY = 5
"""Runs that ended within a day are asked in every fifth pass, in case they live again."""
_STILL_GETS = 4
"""Reads for a run whose heartbeat did not move: the heartbeat and the sentinels."""


def choose(index: FleetIndex, now: float, fleet: FleetPolicy, prices: Prices) -> ScanPlan:
    """The cheapest plan, by the store's ``prices``, that finds new runs soon enough.

    1. List everything if that is free, if the last pass did not come to its end, or if it was not done for six hours.
    2. A fleet of one or two pages: if the last pass of this process listed it, and asking the runs that run is cheaper
       than listing, ask them. Otherwise list. With nobody to ask, a store that is down would not be noticed.
    3. A larger fleet: ask the runs that live and list a part, if that is cheaper than listing everything.
    """
    whole = not index.cursor and index.listed_at and 0 <= now - index.listed_at < RELIST_S
    if prices.free or not whole:
        return ScanPlan.LIST
    if index.pages <= SMALL_PAGES:
        fresh = index.just_listed and now - index.listed_at < fleet.discover_s / 2
        asking = fresh and 0 < between_dollars(index, fleet, prices) < listing_dollars(index, prices)
        return ScanPlan.BETWEEN if asking else ScanPlan.LIST
    return ScanPlan.LIST if listing_dollars(index, prices) <= rolling_dollars(index, fleet, prices) else ScanPlan.ROLL


def listing_dollars(index: FleetIndex, prices: Prices) -> float:
    """Price of a pass that lists everything."""
    return index.pages * prices.per_request["LIST"]


def between_dollars(index: FleetIndex, fleet: FleetPolicy, prices: Prices) -> float:
    """Price of a pass that asks each run that runs, between two that list everything."""
    return sum(_asking_dollars(run, fleet, prices) for run in index.known() if run.line.status is Status.RUNNING)


def _asking_dollars(run: IndexedRun, fleet: FleetPolicy, prices: Prices) -> float:
    if not run.files.get(runid.METADATA):
        # Its logs show its life, and only a listing of its folder shows their names.
        return prices.per_request["LIST"]
    # A run that did not beat during the last pass is not expected to have done so since.
    if run.seen_at - run.moved <= fleet.interval_s:
        return prices.per_request["GET"]
    return prices.per_request["LIST"] if run.by_log else prices.per_request["GET"] * _STILL_GETS


def rolling_dollars(index: FleetIndex, fleet: FleetPolicy, prices: Prices) -> float:
    """Price of a pass that asks each run that lives and lists its part of everything."""
    runs = index.known()
    live = [run for run in runs if run.line.status in {Status.RUNNING, Status.TIMED_OUT}]
    asked = sum(_asking_dollars(run, fleet, prices) for run in live)
    rarely = len(live) * 2 / SENTINELS_EVERY + (len(runs) - len(live)) / OVER_EVERY
    part = min(1.0, fleet.interval_s / fleet.discover_s) + fleet.interval_s / RELIST_S
    return asked + rarely * prices.per_request["GET"] + listing_dollars(index, prices) * part


def rolled(index: FleetIndex, now: float, fleet: FleetPolicy) -> tuple[ListingRound, float]:
    """The round of listing that a pass at ``now`` goes on with, and how many pages it lists.

    1. After a round is done, nothing is listed until ``discover_s`` after it began; then the next one begins.
    2. Within a round, each pass lists as many pages as it takes to be through ``discover_s`` after the beginning.
    3. The last part has no limit, in case there are more pages than the last time.
    """
    round_, pace = index.round, fleet.interval_s / fleet.discover_s
    if round_.done:
        # Passes are not punctual, so half an interval early counts as on time.
        if 0 <= now - round_.began_at < fleet.discover_s - fleet.interval_s / 2:
            return round_, 0
        round_ = ListingRound(began_at=now, done=False)
    gone = max(0.0, now - round_.began_at) / fleet.discover_s
    if gone + pace > 1.0 - pace / 2:
        return round_, math.inf
    return round_, max(0, math.ceil(index.pages * (gone + pace)) - round_.pages)


def moved_on(round_: ListingRound, pages: int, reached: str, *, done: bool) -> ListingRound:
    """``round_`` after ``pages`` more."""
    return replace(round_, pages=round_.pages + pages, reached="" if done else reached, done=done)


def split(index: FleetIndex, now: float, fleet: FleetPolicy, whole: Shard) -> tuple[Shard, ...]:
    """Shards of about ``fanout_runs`` known runs each; ``whole`` alone if there are fewer, or if everything was not
    listed for long.

    Cuts stay while they fit, since a shard that is cut elsewhere has to find out anew what the former ones knew.
    """
    ordered = sorted((run.line.run_id for run in index.known()), key=lambda run_id: f"{run_id}/")
    if len(ordered) <= fleet.fanout_runs or not 0 <= now - index.listed_at < RELIST_S:
        return (whole,)
    count = math.ceil(len(ordered) / fleet.fanout_runs)
    if not (len(index.cuts) + 1) / 2 < count <= (len(index.cuts) + 1) * 1.5 or not index.cuts:
        size = math.ceil(len(ordered) / count)
        index.cuts = tuple(ordered[size - 1 : -1 : size])
    cuts = [whole.after, *index.cuts, whole.until]
    return tuple(Shard(after, until) for after, until in pairwise(cuts))
