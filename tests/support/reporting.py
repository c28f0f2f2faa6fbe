"""What a process reports a run to, and with what: as :mod:`lastbeat.training.features` makes it, without settings."""

from collections.abc import Iterable
from typing import Any

from lastbeat.stores.port import Store
from lastbeat.training.sdk.beat_tasks import BeatTask, RunEnvironment, RunStart
from lastbeat.training.sdk.documents import RunIdentity
from lastbeat.training.sdk.instance import Instance
from lastbeat.training.sdk.ranks import Rank, RankZeroHeartbeat, SectionWatch
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


def start(run: Run, rank: Rank | None = None, **more: Any) -> RunStart:
    """``run`` as its reporter begins it, of an environment with ``more``."""
    return RunStart(run, environment(MemoryStore(), rank=rank, **more), 0.0, 0.0)
