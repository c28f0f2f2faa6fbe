"""lastbeat: a watchdog for long training runs.

    with lastbeat.run("my-run", total_steps=5000) as run:
        for step, batch in enumerate(loader):
            run.step(step, loss=train(batch))

Importing this loads next to nothing; what a run needs is loaded when it begins.
"""

from lastbeat.model.version import __version__

# Not imported from typing, which takes longer than all the rest; type checkers know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import SupportsFloat, SupportsInt

    from lastbeat.sdk.run import Run

__all__ = ["__version__", "run", "start"]


def run(  # noqa: PLR0913 - all of them by name
    run_id: str,
    *,
    total_steps: "SupportsInt | str | None" = None,
    root: "str | PathLike[str] | None" = None,
    resume: bool = False,
    rank: "SupportsInt | str | None" = None,
    world_size: "SupportsInt | str | None" = None,
    log_file: "str | PathLike[str] | None" = None,
    capture: bool = False,
    stale_minutes: "SupportsFloat | str | None" = None,
    stall_minutes: "SupportsFloat | str | None" = None,
) -> "Run":
    """Report a training run from a ``with`` block: leaving it writes ``_complete``, an exception writes ``_error``.

    Never raises: what is wrong with the id, the settings or the store is logged, and training goes on, unwatched or
    watched later. Values that are reported may be of any type (Python's numbers, numpy's, tensors, text). What cannot
    be read is left out, with one line in the log.

    ``root`` is the fleet root (``s3://bucket/prefix`` or a directory); the settings name it otherwise. Every start is a
    new attempt, and its number follows that of the last attempt whose files are still there. ``resume`` says that there
    was an attempt before, even if its files are gone.

    In a distributed training, call this on every rank. The launcher's environment (torchrun, Slurm, MPI, Flux) says
    which rank this is, unless ``rank`` and ``world_size`` do. Rank 0 writes the run's documents; every rank writes a
    heartbeat of its own.

    ``log_file`` is the file that training logs to. Its last 256 KB are shipped with every beat, secrets masked.
    ``capture`` ships what this process prints through ``sys.stdout`` and ``sys.stderr`` instead. That leaves out the
    output of C libraries and child processes.

    ``stale_minutes`` and ``stall_minutes`` are limits of this run's own, for silence and for standing still. They
    outrank the watcher's.
    """
    from lastbeat.training import begin  # noqa: PLC0415 - importing lastbeat must cost nothing

    return begin(
        run_id,
        total_steps=total_steps,
        root=root,
        resume=resume,
        rank=rank,
        world_size=world_size,
        log_file=log_file,
        capture=capture,
        stale_minutes=stale_minutes,
        stall_minutes=stall_minutes,
    )


def start(  # noqa: PLR0913 - as above
    run_id: str,
    *,
    total_steps: "SupportsInt | str | None" = None,
    root: "str | PathLike[str] | None" = None,
    resume: bool = False,
    rank: "SupportsInt | str | None" = None,
    world_size: "SupportsInt | str | None" = None,
    log_file: "str | PathLike[str] | None" = None,
    capture: bool = False,
    stale_minutes: "SupportsFloat | str | None" = None,
    stall_minutes: "SupportsFloat | str | None" = None,
) -> "Run":
    """Like :func:`run`, for scripts without a block: the end of the process ends the run.

    An uncaught exception and ``sys.exit(n)`` write ``_error``; Ctrl-C and SIGTERM write one that says cancelled;
    anything else writes ``_complete``. An exception that ended only a thread is reported with it.

    ``raise SystemExit(n)`` cannot be seen and counts as success: use ``sys.exit(n)``. After ``os._exit(n)``, a crash or
    SIGKILL the guardian writes ``_error``; without a guardian the run is TIMED_OUT.
    """
    from lastbeat.training import begin  # noqa: PLC0415 - as above

    return begin(
        run_id,
        total_steps=total_steps,
        root=root,
        resume=resume,
        rank=rank,
        world_size=world_size,
        log_file=log_file,
        capture=capture,
        stale_minutes=stale_minutes,
        stall_minutes=stall_minutes,
        at_exit=True,
    )
