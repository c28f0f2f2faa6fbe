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
    from collections.abc import Mapping
    from datetime import datetime
    from os import PathLike
    from typing import SupportsFloat, SupportsInt

    from lastbeat.model.checkpoint import CheckpointSurvey
    from lastbeat.sdk.run import Run

__all__ = ["__version__", "alert", "find_checkpoints", "ignore_stop_signals", "run", "start"]


def alert(
    run_id: str,
    status: str,
    text: object = "",
    context: "Mapping[str, object] | None" = None,
    *,
    root: "str | PathLike[str] | None" = None,
) -> bool:
    """Have people told of something about a run, from a script that does not report that run itself.

    ``status`` is a word for it that heads the alert: info, warning or error, or a status such as ``FAILED``. It changes
    nothing of the run. ``context`` are further values by their names. Watchers of the fleet root send it on their
    channels. Waits for the store, at most some seconds, and never raises: False says that it was not written, and the
    log says why.
    """
    from lastbeat.training import raise_alert  # noqa: PLC0415 - importing lastbeat must cost nothing

    return raise_alert(run_id, status, text, context, root)


def run(  # noqa: PLR0913 - all of them by name
    run_id: "str | None" = None,
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
    owner: str | None = None,
    team: str | None = None,
    exit_signal: "int | str | None" = None,
    sections: "Mapping[str, float] | None" = None,
    out_of_section: "SupportsFloat | None" = None,
    learn: bool | None = None,
    stragglers: "bool | str | None" = None,
    simulate_fault: str | None = None,
) -> "Run":
    """Report a training run from a ``with`` block: leaving it writes ``_complete``, an exception writes ``_error``.

    Without ``run_id`` it has one of its own: a scheduler's job its name and number (``llama-12345``), anything else its
    script's name and the time. The log says which.

    A name that is no run id becomes one (``my exp!`` is ``my-exp``), and a setting that is wrong keeps its default. The
    log says so. Only if what says where runs lie is wrong, the run is not watched.

    Never raises: what is wrong with the settings or the store is logged, and training goes on. Values that are reported
    may be of any type (Python's numbers, numpy's, tensors, text). What cannot be read is left out, with one line in the
    log.

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

    ``owner`` says whose run it is (a name, an address, a chat handle), and ``team`` of which team. Alerts name them,
    and routes send by them. Else LASTBEAT_OWNER, SLURM_JOB_USER and LASTBEAT_TEAM say so.

    ``exit_signal`` (``"SIGUSR1"``, ``signal.SIGTERM``; else LASTBEAT_EXIT_SIGNAL) sets ``run.should_stop`` and does
    nothing else. Nor does the first SIGTERM, if it is given or training has looked at ``run.should_stop``.

    ``sections`` are seconds that each section (``with run.section("checkpointing"):``) may last before the run is
    TIMED_OUT, as ``{"setup": 600, "step": 180, "checkpointing": 420}``; ``run.step`` alone tells of ``step``.
    ``out_of_section`` are seconds without a step, a section or the end of one: 300 where sections have limits, and 1800
    at least before the first step. 0 means no limit. Else LASTBEAT_SECTION_TIMEOUTS and LASTBEAT_OUT_OF_SECTION_TIMEOUT
    say so. No watcher needs to know of them. ``learn`` has the run set itself limits where it has none, by how long its
    sections and steps have taken so far; else LASTBEAT_LEARN says so.

    ``stragglers`` has it find out which of its ranks are slow, by the time of their sections ``compute``; with
    ``"stop"``, ``run.should_stop`` is true once one is. Else LASTBEAT_STRAGGLERS says so.

    ``simulate_fault`` (``"rank_killed:2:30"``: type, rank, seconds; else LASTBEAT_SIMULATE_FAULT) has a rank fail on
    purpose, once, to try out what becomes of the training then.
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
        owner=owner,
        team=team,
        exit_signal=exit_signal,
        sections=sections,
        out_of_section=out_of_section,
        learn=learn,
        stragglers=stragglers,
        simulate_fault=simulate_fault,
    )


def start(  # noqa: PLR0913 - as above
    run_id: "str | None" = None,
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
    owner: str | None = None,
    team: str | None = None,
    exit_signal: "int | str | None" = None,
    sections: "Mapping[str, float] | None" = None,
    out_of_section: "SupportsFloat | None" = None,
    learn: bool | None = None,
    stragglers: "bool | str | None" = None,
    simulate_fault: str | None = None,
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
        owner=owner,
        team=team,
        exit_signal=exit_signal,
        sections=sections,
        out_of_section=out_of_section,
        learn=learn,
        stragglers=stragglers,
        simulate_fault=simulate_fault,
        at_exit=True,
    )


def ignore_stop_signals(worker: object = None) -> None:
    """Ignore the signals by which a training is told to stop (SIGTERM, SIGUSR1, SIGUSR2), in a worker of it.

    ``DataLoader(worker_init_fn=lastbeat.ignore_stop_signals)``: workers that a scheduler's signal reaches, too, go on
    until training has saved its checkpoint.
    """
    from lastbeat.sdk.exit_signals import ignore_stop_signals as ignore  # noqa: PLC0415 - as above

    ignore(worker)


def find_checkpoints(
    place: "str | PathLike[str]", *, crashed_at: "datetime | None" = None, settle_s: float = 2.0
) -> "CheckpointSurvey":
    """The checkpoints in ``place`` (a directory, ``s3://…``, ``gs://…``, ``az://…``), the newest first.

    ``.chosen`` is the one to resume from (``.chosen.url``, ``.chosen.step``), or None. ``.checkpoints`` has all of
    them, each with why it is complete or not. Nothing is unpickled. With ``crashed_at``, by the store's clock, what was
    being written when the last attempt died does not count. Files that were written a moment ago are looked at again
    after ``settle_s``.

    Raises ``lastbeat.stores.port.StoreError`` if the place cannot be read, and ``lastbeat.settings.SettingsError``, a
    ``ValueError``, for a place or settings that are wrong.
    """
    from os import fspath  # noqa: PLC0415 - as above

    from lastbeat import opening, settings  # noqa: PLC0415 - as above
    from lastbeat.checkpoints.survey import survey  # noqa: PLC0415 - as above

    store = opening.place(settings.load({}, channels=False, training=True), fspath(place))
    return survey(store, crashed_at=crashed_at, settle_s=settle_s)
