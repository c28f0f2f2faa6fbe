"""Chooses how a pass finds changes: by listing everything, or by asking the live runs one by one."""

import math
from enum import Enum
from itertools import pairwise
from typing import Final

from lastbeat.fleet.index import FleetIndex, IndexedRun
from lastbeat.model import runid
from lastbeat.model.fleet import Shard
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.status import Status


class ScanPlan(Enum):
    """How a pass finds changes. The value is the name in reports."""

    LIST = "list"
    """List everything."""
    ASK = "probe"
    """Ask the live runs one by one."""


READS_PER_PAGE: Final = 12.5
"""Number of reads that cost as much as one page of a listing, by S3's prices. Other stores have nearly the same."""
SMALL_PAGES: Final = 2
"""A fleet with at most this many pages is listed at least in every second pass."""
SPLIT_S: Final = 6 * 3600.0
"""Longest time in s between whole listings while a fleet is split. Then one pass over the whole fleet finds all
runs."""


def choose(index: FleetIndex, now: float, fleet: FleetPolicy, *, free: bool) -> ScanPlan:
    """The plan of a pass at ``now``, in unix seconds.

    1. While a listing has one or two pages, at least every second pass lists everything.
    2. Beyond that, a pass lists everything if asking the live runs costs no less, or if ``discover_s`` have passed
       since the last whole listing. A listing that broke off continues in every second pass.
    3. Otherwise, a pass asks the live runs one by one.

    If requests are ``free``, or a small fleet has no live run, each pass lists everything.
    """
    if free or not _asking_is_cheaper(index, fleet):
        return ScanPlan.LIST
    # Passes are not punctual, so half an interval early counts as on time.
    fresh = 0 <= now - index.listed_at < fleet.discover_s - fleet.interval_s / 2
    if index.pages <= SMALL_PAGES:
        asks = index.just_listed and fresh and any(run.lives for run in index.recent_runs())
    else:
        asks = index.broke_off or (fresh and not index.cursor)
    return ScanPlan.ASK if asks else ScanPlan.LIST


def lists_rarely(index: FleetIndex, fleet: FleetPolicy) -> bool:
    """Whether most passes over the fleet ask the live runs, if requests are not free."""
    return index.pages > SMALL_PAGES and _asking_is_cheaper(index, fleet)


def _asking_is_cheaper(index: FleetIndex, fleet: FleetPolicy) -> bool:
    reads = sum(_reads_to_ask(run, fleet) for run in index.recent_runs() if run.lives)
    return reads < index.pages * READS_PER_PAGE


def _reads_to_ask(run: IndexedRun, fleet: FleetPolicy) -> float:
    """Cost of asking a run, in reads. A run with logs but no heartbeat needs a listing of its folder."""
    by_log = run.by_log and run.line.status is Status.RUNNING and run.seen_at - run.moved > fleet.interval_s
    return READS_PER_PAGE if by_log or not run.files.get(runid.METADATA) else 1


def split(index: FleetIndex, now: float, fleet: FleetPolicy, whole: Shard) -> tuple[Shard, ...]:
    """Shards of about ``fanout_runs`` known runs each; ``whole`` alone if there are fewer, or the last whole listing is
    too old.

    Cuts stay while they fit, because a shard with new cuts has to find out again what the former ones knew.
    """
    ordered = sorted((run.line.run_id for run in index.recent_runs()), key=lambda run_id: f"{run_id}/")
    if len(ordered) <= fleet.fanout_runs or not 0 <= now - index.listed_at < SPLIT_S:
        return (whole,)
    count = math.ceil(len(ordered) / fleet.fanout_runs)
    if not (len(index.cuts) + 1) / 2 < count <= (len(index.cuts) + 1) * 1.5 or not index.cuts:
        size = math.ceil(len(ordered) / count)
        index.cuts = tuple(ordered[size - 1 : -1 : size])
    cuts = [whole.after, *index.cuts, whole.until]
    return tuple(Shard(after, until) for after, until in pairwise(cuts))
