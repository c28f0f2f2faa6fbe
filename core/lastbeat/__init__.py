"""lastbeat: a watchdog for long training runs.

    with lastbeat.run("my-run", total_steps=5000) as run:
        for step, batch in enumerate(loader):
            run.step(step, loss=train(batch))

Importing this loads next to nothing; what a run needs is loaded when it begins.
"""

from typing import TYPE_CHECKING

from lastbeat.model.version import __version__

if TYPE_CHECKING:
    from lastbeat.sdk.run import Run

__all__ = ["__version__", "run", "start"]


def run(run_id: str, *, total_steps: int | None = None, root: str | None = None) -> "Run":
    """Report a training run, to be used as a block: leaving it writes ``_complete``, an exception writes ``_error``.

    ``root`` is the fleet root (``s3://bucket/prefix`` or a directory), from the settings unless given. Never raises:
    what is wrong with id, settings or store is logged, and training goes on unwatched or is watched later.
    """
    from lastbeat.training import begin  # noqa: PLC0415 - importing lastbeat must cost nothing

    return begin(run_id, total_steps=total_steps, root=root)


def start(run_id: str, *, total_steps: int | None = None, root: str | None = None) -> "Run":
    """Like :func:`run`, for scripts without a block: the end of the process ends the run.

    An uncaught exception and ``sys.exit(n)`` write ``_error``, Ctrl-C and SIGTERM a cancelled one, and anything else
    ``_complete``.
    """
    from lastbeat.training import begin  # noqa: PLC0415 - as above

    return begin(run_id, total_steps=total_steps, root=root, at_exit=True)
