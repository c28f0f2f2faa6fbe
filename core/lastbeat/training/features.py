"""The features of the SDK that a run uses: one line each in :func:`_tasks`, by settings and by training's arguments."""

import math
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lastbeat.model.version import __version__
from lastbeat.settings import Settings, opening, own_log
from lastbeat.settings.table import (
    BEAT_SECONDS,
    CHECKPOINT_DIR,
    CLOUD_NOTICES,
    EXIT_SIGNAL,
    OFF,
    OWNER,
    TEAM,
    TIME_MARGIN_SECONDS,
    Stragglers,
)
from lastbeat.stores.port import Store
from lastbeat.training import node, sdk
from lastbeat.training.node.resources import ResourceMeter
from lastbeat.training.sdk.beat_tasks import BeatTask, RunEnvironment
from lastbeat.training.sdk.documents import RunIdentity, restarts
from lastbeat.training.sdk.instance import (
    Instance,
    InstanceSearch,
    NoticeWatch,
    cloud_instance,
    local_instance,
    notice_source,
)
from lastbeat.training.sdk.kept_curves import KeptCurves
from lastbeat.training.sdk.ranks import Rank, RankZeroHeartbeat, SectionWatch, rank_of
from lastbeat.training.sdk.sections import LONGEST_LIMIT_MINUTES, SectionLimits
from lastbeat.training.sdk.watcher_checks import EVERY_BEATS, StopCheck, WatchdogCheck, send_to_self

if TYPE_CHECKING:
    from lastbeat.model.simulated_fault import FaultRequest
    from lastbeat.training.exec.start import CommandStart


@dataclass(frozen=True, slots=True)
class FeatureOptions:
    """What training gives for its features, in place of the settings or the launcher."""

    rank: int | None = None
    world_size: int | None = None
    stall_minutes: float | None = None
    """The run's own stall limit, which outranks that of the settings."""
    sections: SectionLimits = field(default_factory=SectionLimits)
    learns: bool = False
    stragglers: Stragglers = field(default_factory=Stragglers)
    fault: "FaultRequest | None" = None
    """The fault to simulate."""
    command: "CommandStart | None" = None
    """The command that trains; None if this process does."""


def run_environment(settings: Settings, options: FeatureOptions | None = None) -> RunEnvironment:
    """The environment to which a training process reports. A fleet root that is a directory is created if it is
    missing.

    Raises as :func:`lastbeat.settings.opening.store` does.
    """
    options, host = options or FeatureOptions(), platform.node()
    instance = local_instance(settings.environ, host)
    # Without retries, because the beat thread tries a failed beat again with newer values.
    store = opening.bare_store(settings, training=True)
    which = rank_of(settings.environ, host, options.rank, options.world_size)
    beats = settings[BEAT_SECONDS]
    return RunEnvironment(
        store=store,
        identity=RunIdentity(
            instance=instance,
            version=__version__,
            beat_s=beats.seconds,
            stop_s=beats.seconds * _stop_beats(store),
            owner=settings[OWNER],
            team=settings[TEAM],
            ignored=tuple(settings.ignored),
        ),
        restarts=restarts(settings.environ),
        rank=which,
        rank_beat_s=beats.ranks,
        tasks=tuple(_tasks(settings, store, which, instance, options)),
    )


def _tasks(
    settings: Settings, store: Store, rank: Rank, instance: Instance, options: FeatureOptions
) -> Iterator[BeatTask]:
    """The features that a run uses, in the order of a beat. Those that few runs use load for them alone."""
    command = options.command
    meter = command.meter if command is not None else ResourceMeter()
    yield meter
    yield from _node_sampler(settings, rank, meter)
    yield from _stack_dump(settings, options)
    yield WatchdogCheck()
    yield StopCheck(_stop_beats(store), command.send if command is not None else send_to_self)
    yield RankZeroHeartbeat()
    yield SectionWatch(options.sections)
    if options.learns:
        yield sdk.learning.Learning(options.sections)
    yield from _straggler_watch(options.stragglers)
    yield InstanceSearch(lambda: cloud_instance(settings.environ, instance))
    yield from _time_limit(settings, command)
    yield from _notice_watch(settings, command)
    yield KeptCurves()
    if options.fault is not None:
        yield sdk.simulated_faults.FaultSimulation(options.fault, settings.environ)


def _node_sampler(settings: Settings, rank: Rank, meter: ResourceMeter) -> Iterator[BeatTask]:
    """What samples the node's health, on one of its ranks."""
    every_s = settings[BEAT_SECONDS].health
    if every_s <= 0 or rank.local not in {None, 0} or (rank.local is None and not rank.leads):
        return
    resumed = settings.environ.get("LASTBEAT_RESUME_FROM", "")
    saves_to = settings[CHECKPOINT_DIR] or (os.path.dirname(resumed) if resumed.startswith("/") else None)  # noqa: PTH120
    if saves_to:
        yield node.sampler.NodeSampler(every_s, (saves_to,), gpus=meter.gpus)
        return
    try:
        # Training may change its directory later.
        here = [os.getcwd()]  # noqa: PTH109 - text, and no more imports
    except OSError:
        here = []
    yield node.sampler.NodeSampler(every_s, here, gpus=meter.gpus, saves_there=False)


def _stack_dump(settings: Settings, options: FeatureOptions) -> Iterator[BeatTask]:
    """What writes the stacks, if stalls are watched or a section may take too long."""
    own_minutes = options.stall_minutes
    # As watchers read it: see model.heartbeat.
    if own_minutes is not None and 0 < own_minutes <= LONGEST_LIMIT_MINUTES:
        stall_s: float | None = max(1.0, own_minutes) * 60
    else:
        stall_s = settings.policy.stall_s
    if stall_s is None and not (options.sections.any or options.learns):
        return
    dump, printed = (options.command.dump, options.command.printed) if options.command is not None else (None, None)
    yield sdk.stacks.StackDump(
        math.inf if stall_s is None else stall_s, settings[BEAT_SECONDS].seconds, dump=dump, printed=printed
    )


def _stop_beats(store: Store) -> int:
    """Number of beats from one check for a stop request to the next."""
    return 1 if store.traits.prices.free else EVERY_BEATS


def _straggler_watch(wanted: Stragglers) -> Iterator[BeatTask]:
    if wanted.mode == OFF:
        return
    yield sdk.stragglers.StragglerWatch(wanted, partial(own_log.announce, name=sdk.stragglers.LOGGER))


def _time_limit(settings: Settings, command: "CommandStart | None") -> Iterator[BeatTask]:
    margin_s = settings[TIME_MARGIN_SECONDS]
    # SIGTERM could end a command without a handler long before its time, so for a command only if that was set.
    if "SLURM_JOB_END_TIME" not in settings.environ or (command is not None and margin_s is None):
        return
    limit = sdk.time_limit.time_limit(settings.environ, sdk.time_limit.USUAL_MARGIN_S if margin_s is None else margin_s)
    if limit is not None:
        yield limit


def _notice_watch(settings: Settings, command: "CommandStart | None") -> Iterator[BeatTask]:
    if not settings[CLOUD_NOTICES] or settings.environ.get("LOCAL_RANK", "0").strip() not in {"", "0"}:
        return
    if command is not None and settings[EXIT_SIGNAL] is None:
        # As above.
        return
    source = notice_source(settings.environ)
    if source is not None:
        yield NoticeWatch(source)


class PlaceAnnouncement(BeatTask):
    """Logs ``line`` for people, once rank 0 has begun the attempt."""

    purpose = "say where it reports"

    def __init__(self, line: str) -> None:
        self._line: str | None = line

    def beaten(self, *, begun: bool) -> None:
        if begun and self._line is not None:
            own_log.announce(self._line)
            self._line = None
