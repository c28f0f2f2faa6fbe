"""The run that this process reports, for parts of the SDK that training does not hand it to."""

import os
import weakref

from lastbeat.training.sdk.run import Run


class _Latest:
    run: "weakref.ref[Run] | None" = None
    pid = 0


def remember(run: Run) -> None:
    """Note that ``run`` has begun in this process."""
    _Latest.run, _Latest.pid = weakref.ref(run), os.getpid()


def open_run() -> Run | None:
    """The run that began last in this process, or None if it has ended or no run has begun."""
    run = _Latest.run() if _Latest.run is not None and _Latest.pid == os.getpid() else None
    return run if run is not None and not run.ended else None
