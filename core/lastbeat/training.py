"""Settings → a run that reports itself: the SDK's entry, as ``wire`` is the watchdog's."""

import logging
import os
from typing import TYPE_CHECKING

from lastbeat import own_log
from lastbeat.model.runid import check_run_id
from lastbeat.model.version import __version__
from lastbeat.sdk.crashes import faults_into_stderr
from lastbeat.sdk.reporter import Reporter, Surroundings
from lastbeat.sdk.run import Run
from lastbeat.sdk.values import text
from lastbeat.settings import Settings, load
from lastbeat.settings.table import BEAT_SECONDS, RANK_BEAT_SECONDS

if TYPE_CHECKING:
    from lastbeat.sdk.extra import Extra

log = logging.getLogger("lastbeat")


def begin(  # noqa: PLR0913 - each is a word of lastbeat.run
    run_id: str,
    *,
    total_steps: int | None = None,
    root: str | None = None,
    resume: bool = False,
    at_exit: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    log_file: str | os.PathLike[str] | None = None,
    capture: bool = False,
) -> Run:
    """Begin an attempt of ``run_id``. Never raises; see :func:`lastbeat.run`."""
    try:
        check_run_id(run_id)
        # Here and not in the beat thread: by then training may have changed directory or environment.
        found = load({"MONITORING_ROOT": os.fspath(root)} if root else {}, channels=False)
    except (ValueError, TypeError, OSError) as fault:
        log.error(  # noqa: TRY400 - a trace would say no more
            "lastbeat is off, nothing watches this training: %s", fault
        )
        return Run(text(run_id) or "", None, total_steps)

    own_log.begin_in_training(found)

    def prepare() -> Surroundings:
        # In the beat thread: connecting must not hold up the start of training.
        return surroundings(found, rank=rank, world_size=world_size)

    faults_into_stderr()
    extras: tuple[Extra, ...] = ()
    if log_file is not None or capture:
        from lastbeat.sdk.logs import training_log  # noqa: PLC0415 - only where a log is shipped

        extras = training_log(log_file, capture=capture)
    run = Run(run_id, Reporter(prepare, extras, resume=resume), total_steps)
    if at_exit:
        from lastbeat.sdk.endings import watch_the_end  # noqa: PLC0415 - only scripts without a block need it

        watch_the_end(run)
    return run


def surroundings(settings: Settings, *, rank: int | None = None, world_size: int | None = None) -> Surroundings:
    """What a training process reports to: the fleet root, made if it is a directory that is not there yet. Raises as
    :func:`lastbeat.opening.store`."""
    import platform  # noqa: PLC0415 - asked in the beat thread, and not while training starts

    from lastbeat import opening  # noqa: PLC0415 - as above
    from lastbeat.sdk import instance  # noqa: PLC0415 - as above
    from lastbeat.sdk.attempts import restarts  # noqa: PLC0415 - as above
    from lastbeat.sdk.ranks import rank_of  # noqa: PLC0415 - as above

    known = instance.at_once(settings.environ, platform.node())
    return Surroundings(
        # Without retries of its own: a beat that failed is tried again by the beat thread, with what is new by then.
        store=opening.bare_store(settings, training=True),
        instance_id=known.id,
        restarts=restarts(settings.environ),
        beat_s=settings[BEAT_SECONDS],
        version=__version__,
        ask=lambda: instance.ask(settings.environ, known),
        extras=_extras(settings),
        rank=rank_of(settings.environ, platform.node(), rank, world_size),
        rank_beat_s=settings[RANK_BEAT_SECONDS],
    )


def _extras(settings: Settings) -> "tuple[Extra, ...]":
    from lastbeat.sdk.watched import WatchdogWatched  # noqa: PLC0415 - as above

    stall_s = settings.policy.stall_s
    if stall_s is None:
        return (WatchdogWatched(),)
    from lastbeat.sdk.stacks import Stacks  # noqa: PLC0415 - only where stalls are watched

    return (Stacks(stall_s, settings[BEAT_SECONDS]), WatchdogWatched())
