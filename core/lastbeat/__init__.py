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
    from typing import SupportsInt

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
) -> "Run":
    """Report a training run, to be used as a block: leaving it writes ``_complete``, an exception writes ``_error``.

    ``root`` is the fleet root (``s3://bucket/prefix`` or a directory), from the settings unless given. Every start is
    an attempt of its own, numbered on from the last one whose files still lie there; ``resume`` says that there was
    one even if none do. Never raises: what is wrong with id, settings or store is logged, and training goes on
    unwatched or is watched later. What is said of the run may be of any type (Python's numbers, numpy's, tensors,
    texts): what cannot be read is left out, with one line in the log.

    In a distributed training every rank calls this; the launcher's environment tells which one it is (torchrun, Slurm,
    MPI, Flux) unless ``rank`` and ``world_size`` do. Rank 0 writes the run's documents, the others tell of themselves.

    ``log_file`` is the file that training logs to; its last 256 KB are shipped with every beat, secrets masked.
    ``capture`` ships what this process prints through ``sys.stdout`` and ``sys.stderr`` instead, which does not see
    what C libraries and child processes print.
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
) -> "Run":
    """Like :func:`run`, for scripts without a block: the end of the process ends the run.

    An uncaught exception and ``sys.exit(n)`` write ``_error``, Ctrl-C and SIGTERM a cancelled one, and anything else
    ``_complete``; an exception that ended only a thread is told with it. One end tells nobody how it ends: ``raise
    SystemExit(n)`` (use ``sys.exit(n)``) counts as well done. After ``os._exit(n)`` the guardian writes ``_error``.
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
        at_exit=True,
    )
