"""What a process reports a run to, and with what: as :mod:`lastbeat.training.features` makes it, without settings."""

import json
from collections.abc import Iterable
from typing import Any

from lastbeat.stores.port import Store
from lastbeat.training.sdk.beat_tasks import BeatTask, RunEnvironment, RunStart
from lastbeat.training.sdk.documents import RunIdentity
from lastbeat.training.sdk.instance import Instance
from lastbeat.training.sdk.ranks import Rank, RankZeroHeartbeat, SectionWatch
from lastbeat.training.sdk.reporter import Reporter
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.sections import SectionLimits
from support.memory import MemoryStore


def environment(
    store: Store,
    instance: str = "i-1",
    *,
    beat_s: float = 30.0,
    sections: SectionLimits | None = None,
    rank: Rank | None = None,
    tasks: Iterable[BeatTask] = (),
    **more: Any,
) -> RunEnvironment:
    """The environment of a run that reports to ``store``."""
    own = (RankZeroHeartbeat(), SectionWatch(sections or SectionLimits()))
    identity = RunIdentity(Instance(instance), beat_s=beat_s)
    return RunEnvironment(store, identity, rank or Rank(), tasks=(*tasks, *own), **more)


def ranked(store: MemoryStore, number: int, world: int = 2, *, every_s: float = 0.1, **more: Any) -> Run:
    """Rank ``number`` of the run ``r`` begins to report, with two ranks a node; ``every_s`` is between its beats."""
    rank = Rank(number, world, number % 2, f"node-{number // 2}")
    return Run("r", Reporter(lambda: environment(store, beat_s=0.05, rank=rank, rank_beat_s=every_s, **more)), 100)


def document(store: MemoryStore, name: str) -> dict[str, Any]:
    """What the run ``r`` has written there; empty if there is none."""
    held = store.held.get(f"r/{name}")
    return json.loads(held.body) if held is not None else {}


def start(run: Run, rank: Rank | None = None, **more: Any) -> RunStart:
    """``run`` as its reporter begins it, of an environment with ``more``."""
    return RunStart(run, environment(MemoryStore(), rank=rank, **more), 0.0, 0.0)
