"""One size, in a process of its own: ``python -m bench.scale_child fleet RUNS|ranks RANKS`` prints a line of JSON.

``fleet``: minutes of the Lambda function over runs that all beat each minute. It is split as the template's defaults
say. Of many parts one is passed over, at its real size; which environment takes a part is drawn from a seed.
``ranks``: a pass over one run with so many ranks, and what its page reads.
"""

import json
import logging
import math
import random
import resource
import sys
import time
import tracemalloc
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from bench import fleet_runs
from bench.fleet_store import CountedStore
from lastbeat.fleet.index import FleetIndex
from lastbeat.fleet.index_store import decode, encode, key_of
from lastbeat.fleet.mark import MarkWriter
from lastbeat.fleet.sweep import Sweep
from lastbeat.model.fleet import WHOLE, Shard
from lastbeat.model.policy import FleetPolicy, Policy
from lastbeat.stores.port import Blob
from lastbeat.stores.volatile import VolatileStore
from lastbeat.views.left_gists import KeptGists, LeftForViews
from lastbeat.views.one_run import RunWatch
from lastbeat.views.run_document import run_document
from lastbeat.watch.watchdog import WatchContext
from lastbeat_lambda.environment import SHARDS_KEPT

MINUTES, WARM_MINUTES = 20, 40
"""Counted, and before them: each heartbeat is read once in twenty minutes."""
WORKERS: Final = 10
"""Environments that take parts, as the template's ``Workers``."""
_KEYS_A_RUN: Final = 4


@dataclass(frozen=True)
class Took:
    """One pass, or one other thing that the function does."""

    cpu_s: float
    requests: dict[str, int]
    read_bytes: int = 0


class Bucket(CountedStore):
    """Counts the bytes of answers to reads, too."""

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes = 0

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        blob = super().read(key, limit_bytes, from_end=from_end, start=start)
        self.read_bytes += len(blob.body) if blob is not None else 0
        return blob

    def took(self, work: Callable[[], object]) -> Took:
        asked, read, began = Counter(self.requests), self.read_bytes, time.process_time()
        work()
        return Took(time.process_time() - began, dict(self.requests - asked), self.read_bytes - read)


class Environment:
    """What one execution environment keeps warm: as many sweeps as the function keeps."""

    def __init__(self, store: Bucket) -> None:
        self._store, self._state = store, VolatileStore(store.clock)
        self._sweeps: OrderedDict[Shard, Sweep | None] = OrderedDict()

    def sweep(self, shard: Shard) -> Sweep:
        kept = self._sweeps.get(shard) or self._made(shard)
        self.keep(shard, kept)
        return kept

    def keep(self, shard: Shard, sweep: Sweep | None = None) -> None:
        """The shard was taken here. None: only its place counts, since it is none of those that are measured."""
        self._sweeps[shard] = sweep
        self._sweeps.move_to_end(shard)
        while len(self._sweeps) > SHARDS_KEPT:
            self._sweeps.popitem(last=False)

    def _made(self, shard: Shard) -> Sweep:
        gists, policy = KeptGists(self._store, str, shard), FleetPolicy()
        context = WatchContext(gists, (), Policy(), self._store.clock, state=self._state)
        mark = MarkWriter(self._store, policy, shard)
        return Sweep(context, policy, shard=shard, mark=mark, views=LeftForViews(gists))

    def make_pass(self, shard: Shard) -> Took:
        return self._store.took(lambda: _checked(self.sweep(shard)))


def _checked(sweep: Sweep) -> None:
    report = sweep.run()
    if report.blind or not report.complete or set(report.statuses) != {"RUNNING"}:
        raise RuntimeError(f"a pass did not see what is there: {report}")


def fleet(runs: int) -> dict[str, Any]:
    store, names = Bucket(), [fleet_runs.run_id(number) for number in range(runs)]
    count = math.ceil(runs / FleetPolicy().fanout_runs)
    size = math.ceil(runs / count)
    present = names[count // 2 * size : (count // 2 + 1) * size]
    store.fill(file for run in present for file in fleet_runs.active(run, 0, store.now))
    base_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    first = Environment(store).make_pass(WHOLE)
    _spread(store, names)
    split = store.took(lambda: Environment(store).sweep(WHOLE).shards())
    shards = Environment(store).sweep(WHOLE).shards()
    passes = _minutes(store, present, shards, shards[count // 2])
    return {
        "parts": len(shards), "runs_present": len(present), "first": asdict(first), "split": asdict(split),
        "passes": [asdict(took) for took in passes], "minutes": MINUTES, "base_mb": base_mb,
        "kept_mb": _memory_mb(store, shards[count // 2]), "index_bytes": store.size(key_of(WHOLE)),
    }  # fmt: skip


def _spread(store: Bucket, names: list[str]) -> None:
    """Give the index of the fleet a row for each run, those of runs that are not there included."""
    blob = store.read(key_of(WHOLE), sys.maxsize)
    rows = list(decode(blob.body).runs.values()) if blob is not None else []
    alike = (rows[number % len(rows)] for number in range(len(names)))
    runs = {name: replace(row, line=replace(row.line, run_id=name)) for name, row in zip(names, alike, strict=True)}
    pages = _KEYS_A_RUN * len(names) // 1000 + 1
    store.put(key_of(WHOLE), encode(FleetIndex(runs=runs, pages=pages, listed_at=store.now.timestamp())))


def _minutes(store: Bucket, present: list[str], shards: tuple[Shard, ...], measured: Shard) -> list[Took]:
    chance, environments = random.Random(0), [Environment(store) for _ in range(WORKERS if len(shards) > 1 else 1)]
    passes = []
    for minute in range(1, WARM_MINUTES + MINUTES + 1):
        store.pass_time(60.0)
        store.fill(file for run in present for file in fleet_runs.beat(run, minute, store.now))
        if len(shards) > 1:
            # The one that splits the fleet keeps the sweep of the whole.
            chance.choice(environments).keep(WHOLE)
        for shard in shards:
            environment = chance.choice(environments)
            if shard != measured:
                environment.keep(shard)
                continue
            took = environment.make_pass(shard)
            if minute > WARM_MINUTES:
                passes.append(took)
    return passes


def _memory_mb(store: Bucket, part: Shard) -> float:
    """Most memory of Python's objects in an environment that splits the fleet, and keeps as many sweeps as it can."""
    tracemalloc.start()
    whole, one = Environment(store), Environment(store)
    whole.sweep(WHOLE).shards()
    split, most = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    if part != WHOLE:
        one.make_pass(part)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return max(most, peak + (SHARDS_KEPT - 2) * (kept - split)) / 1e6


def ranks(count: int) -> dict[str, Any]:
    store, run = Bucket(), fleet_runs.run_id(0)
    one = Environment(store)
    base_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    passes = []
    for minute in range(WARM_MINUTES + MINUTES):
        store.pass_time(60.0)
        store.fill(fleet_runs.active(run, minute, store.now))
        store.fill((f"{run}/ranks/{rank}.json", _rank(rank, minute, store)) for rank in range(count))
        passes.append(one.make_pass(WHOLE))
    look = RunWatch(store, Policy(), run)
    page, again = store.took(look.look), store.took(look.look)
    view = look.look()
    if view is None or view.ranks_left_out + len(view.ranks) != count:
        raise RuntimeError(f"the page did not see all of {count} ranks")
    tracemalloc.start()
    Environment(store).make_pass(WHOLE)
    peak_mb = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return {
        "first": asdict(passes[0]), "passes": [asdict(took) for took in passes[WARM_MINUTES:]], "minutes": MINUTES,
        "page": asdict(page), "again": asdict(again), "page_bytes": len(json.dumps(run_document(view))),
        "base_mb": base_mb, "kept_mb": peak_mb,
    }  # fmt: skip


def _rank(rank: int, minute: int, store: Bucket) -> bytes:
    return json.dumps(
        {"rank": rank, "step": minute, "last_update": store.now.isoformat(), "phase": "training"}
    ).encode()


if __name__ == "__main__":
    # The function logs each run that it sees for the first time.
    logging.disable(logging.INFO)
    print(json.dumps({"fleet": fleet, "ranks": ranks}[sys.argv[1]](int(sys.argv[2]))))
