"""Which way of seeing a fleet is cheaper: listing it all, or asking the runs that live one by one."""

import math
from itertools import pairwise
from typing import Final

from lastbeat.fleet.memory import FleetMemory
from lastbeat.fleet.prices import PER_REQUEST
from lastbeat.model.fleet import Shard
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.status import Status

LIST: Final = "list"
PROBE: Final = "probe"
RELIST_S: Final = 6 * 3600.0
"""However cheap the other way is, everything is listed this often: it alone shows that an old run was begun again."""
_NAMES_A_REQUEST = 1000
SENTINELS_EVERY = 3
"""Of a run whose heartbeat moves, sentinels are asked for in every third pass; of one that stopped, in each."""
OVER_EVERY = 5
"""Runs that ended within a day are asked in every fifth pass whether they live again."""


def choose(memory: FleetMemory, now: float, fleet: FleetPolicy, *, free: bool) -> str:
    """``list`` or ``probe``, whichever costs less by S3's prices. Pure. ``free``: the store takes no money."""
    whole = not memory.cursor and memory.listed_at and 0 <= now - memory.listed_at < RELIST_S
    if free or not whole:
        return LIST
    return LIST if listing_dollars(memory) <= probing_dollars(memory, fleet) else PROBE


def listing_dollars(memory: FleetMemory) -> float:
    """What a pass costs that lists everything."""
    return memory.pages * PER_REQUEST["LIST"]


def probing_dollars(memory: FleetMemory, fleet: FleetPolicy) -> float:
    """What a pass costs that asks each run, with its share of the search for new ones."""
    runs = memory.known()
    live = sum(run.line.status in {Status.RUNNING, Status.TIMED_OUT} for run in runs)
    gets = live * (1 + 2 / SENTINELS_EVERY) + (len(runs) - live) / OVER_EVERY
    names = math.ceil((len(runs) + len(memory.finished) + 1) / _NAMES_A_REQUEST)
    search = names * PER_REQUEST["LIST"] * min(1.0, fleet.interval_s / fleet.discover_s)
    relist = memory.pages * PER_REQUEST["LIST"] * fleet.interval_s / RELIST_S
    return gets * PER_REQUEST["GET"] + search + relist


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
