"""lastbeat: a watchdog for long training runs.

    with lastbeat.run("my-run", total_steps=5000) as run:
        for step, batch in enumerate(loader):
            run.step(step, loss=train(batch))

Importing this module loads next to nothing; a run loads its modules when it begins.
"""

from lastbeat import training
from lastbeat.model.version import __version__

# Not imported from typing, which takes longer than all the rest; type checkers know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from os import PathLike

    from typing_extensions import Unpack

    from lastbeat.model.checkpoint import CheckpointSurvey
    from lastbeat.training.entry import RunOptions
    from lastbeat.training.sdk.run import Run

__all__ = ["__version__", "alert", "find_checkpoints", "ignore_stop_signals", "run", "start"]


def alert(
    run_id: str,
    status: str,
    text: object = "",
    context: "Mapping[str, object] | None" = None,
    *,
    root: "str | PathLike[str] | None" = None,
) -> bool:
    """Raise an alert about a run, from a script that does not report that run itself.

    ``status`` is a word that heads the alert: info, warning or error, or a status such as ``FAILED``. It does not
    change the run. ``context`` are further values by their names. Watchers of the fleet root send the alert on their
    channels. Waits at most some seconds for the store, and never raises. Returns False if the alert was not written;
    the log has the reason.
    """
    return training.entry.raise_alert(run_id, status, text, context, root)


def run(run_id: "str | None" = None, **options: "Unpack[RunOptions]") -> "Run":
    """Report a training run from a ``with`` block: leaving it writes ``_complete``, an exception writes ``_error``.

    Without ``run_id`` the run gets an id of its own, and logs it. A scheduler's job gets its name and number
    (``llama-12345``), any other run its script's name and the time.

    A name that is no run id becomes one (``my exp!`` becomes ``my-exp``), and a wrong setting keeps its default, each
    with a line in the log. Only a wrong place of runs leaves the run without a watchdog.

    Never raises: faults of the settings or the store are logged, and training goes on. Reported values may be of any
    type (Python's numbers, numpy's, tensors, text). An unreadable value is left out, with one line in the log.

    ``root`` is the fleet root (``s3://bucket/prefix`` or a directory), else that of the settings. Every start is a new
    attempt, numbered after the last attempt whose files are still there. ``resume`` means that there was an earlier
    attempt, even if its files are gone.

    In distributed training, call this on every rank. The launcher's environment (torchrun, Slurm, MPI, Flux) determines
    the rank, unless ``rank`` and ``world_size`` do. Rank 0 writes the run's documents; every rank writes a heartbeat of
    its own.

    ``log_file`` is training's log file. Its last 256 KB are shipped with every beat, secrets masked. ``capture`` ships
    the output of this process through ``sys.stdout`` and ``sys.stderr`` instead, without that of C libraries and child
    processes.

    ``stale_minutes`` and ``stall_minutes`` are this run's own limits for silence and for stalls. They outrank the
    watcher's.

    ``owner`` (a name, an address, a chat handle; else LASTBEAT_OWNER or SLURM_JOB_USER) and ``team`` (else
    LASTBEAT_TEAM) own the run. Alerts name them, and routes use them.

    ``config`` is what training was configured with: a mapping, argparse's namespace, a dataclass, OmegaConf's or
    pydantic's. ``tags`` are short texts, and ``notes`` is a sentence. People see them, and find runs by their tags. At
    most 64 keys and 20 tags are kept; secrets are masked.

    ``exit_signal`` (``"SIGUSR1"``, ``signal.SIGTERM``; else LASTBEAT_EXIT_SIGNAL) only sets ``run.should_stop``. So
    does the first SIGTERM, if ``exit_signal`` is given or training has read ``run.should_stop``.

    ``sections`` has the longest duration in s of each section (``with run.section("checkpointing"):``) before the run
    is TIMED_OUT, as ``{"setup": 600, "step": 180, "checkpointing": 420}``; else LASTBEAT_SECTION_TIMEOUTS. Only
    ``run.step`` reports the section ``step``. ``out_of_section`` is the longest time in s without a step, a section or
    the end of one; else out_of_section there. Its default is 300 if sections have limits, and at least 1800
    before the first step. 0 means no limit. No watcher needs to know the limits. ``learn`` (else LASTBEAT_LEARN) has
    the run set missing limits itself, by the durations of its sections and steps so far.

    ``stragglers`` (else LASTBEAT_STRAGGLERS) has the run find its slow ranks, by the time of their sections
    ``compute``. With ``"stop"``, ``run.should_stop`` is true once a rank is slow.

    ``simulate_fault`` (``"rank_killed:2:30"``: type, rank, seconds; else LASTBEAT_SIMULATE_FAULT) makes a rank fail on
    purpose, once, to test the reaction of training.
    """
    return training.entry.begin(run_id, **options)


def start(run_id: "str | None" = None, **options: "Unpack[RunOptions]") -> "Run":
    """Like :func:`run`, for scripts without a block: the end of the process ends the run.

    An uncaught exception and ``sys.exit(n)`` write ``_error``; Ctrl-C and SIGTERM write one that says cancelled; any
    other end writes ``_complete``. The sentinel also reports an exception that ended only a thread.

    ``raise SystemExit(n)`` cannot be seen and counts as success: use ``sys.exit(n)``. After ``os._exit(n)``, a crash or
    SIGKILL the guardian writes ``_error``; without a guardian the run is TIMED_OUT.
    """
    return training.entry.begin(run_id, at_exit=True, **options)


def ignore_stop_signals(worker: object = None) -> None:
    """Ignore the signals that request training's stop (SIGTERM, SIGUSR1, SIGUSR2), in one of its workers.

    With ``DataLoader(worker_init_fn=lastbeat.ignore_stop_signals)``, workers survive a scheduler's signal until
    training has saved its checkpoint.
    """
    training.sdk.exit_signals.ignore_stop_signals(worker)


def find_checkpoints(
    place: "str | PathLike[str]", *, crashed_at: "datetime | None" = None, settle_s: float = 2.0
) -> "CheckpointSurvey":
    """The checkpoints in ``place`` (a directory, ``s3://…``, ``gs://…``, ``az://…``), the newest first.

    ``.chosen`` is the one to resume from (``.chosen.url``, ``.chosen.step``), or None. ``.checkpoints`` has all of
    them, each with the reason why it is complete or not. Nothing is unpickled. With ``crashed_at``, by the store's
    clock, files in writing at the last attempt's death do not count. Files that have just been written are checked
    again after ``settle_s``.

    Raises ``lastbeat.stores.port.StoreError`` if the place cannot be read, and ``lastbeat.settings.SettingsError``, a
    ``ValueError``, for a wrong place or wrong settings.
    """
    from lastbeat.jobs.checkpoints.survey import survey_place  # noqa: PLC0415 - importing lastbeat must cost nothing

    return survey_place(place, crashed_at=crashed_at, settle_s=settle_s)
