"""Settings → a run that reports itself: the SDK's entry, beside ``wire`` for the watchdog's."""

import logging
import os
from typing import TYPE_CHECKING

from lastbeat import settings
from lastbeat.model.runid import check_run_id
from lastbeat.sdk.crashes import faults_into_stderr
from lastbeat.sdk.reporter import Reporter, Surroundings
from lastbeat.sdk.run import Run
from lastbeat.sdk.values import text

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
        found = settings.load({"MONITORING_ROOT": os.fspath(root)} if root else {})
    except (ValueError, TypeError, OSError) as fault:
        log.error(  # noqa: TRY400 - a trace would say no more
            "lastbeat is off, nothing watches this training: %s", fault
        )
        return Run(text(run_id) or "", None, total_steps)

    def prepare() -> Surroundings:
        # In the beat thread: connecting must not hold up the start of training.
        from lastbeat import wire  # noqa: PLC0415 - as above

        return wire.surroundings(found, rank=rank, world_size=world_size)

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
