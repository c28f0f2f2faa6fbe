"""Settings → a run that reports itself: the SDK's entry, beside ``wire`` for the watchdog's."""

import logging

from lastbeat.model.runid import InvalidRunIdError, check_run_id
from lastbeat.sdk.reporter import Reporter, Surroundings
from lastbeat.sdk.run import Run

log = logging.getLogger("lastbeat")


def begin(run_id: str, *, total_steps: int | None = None, root: str | None = None, at_exit: bool = False) -> Run:
    """Begin an attempt of ``run_id``. Never raises; see :func:`lastbeat.run`."""
    try:
        check_run_id(run_id)
    except (InvalidRunIdError, TypeError) as fault:
        log.error(  # noqa: TRY400 - a trace would say no more
            "lastbeat is off, nothing watches this training: %s", fault
        )
        return Run(str(run_id), None, total_steps)

    def prepare() -> Surroundings:
        # In the beat thread: reading settings and connecting must not hold up the start of training.
        from lastbeat import settings, wire  # noqa: PLC0415 - as above

        return wire.surroundings(settings.load({"MONITORING_ROOT": root} if root else {}))

    run = Run(run_id, Reporter(prepare), total_steps)
    if at_exit:
        from lastbeat.sdk.endings import watch_the_end  # noqa: PLC0415 - only scripts without a block need it

        watch_the_end(run)
    return run
