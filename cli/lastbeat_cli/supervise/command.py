"""``restart supervise`` and ``restart adopt``: begin the supervision of a run, with a new job or with one that runs."""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Final, TypeVar

import click

from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.jobs.checkpoints.survey import survey
from lastbeat.jobs.supervision import surroundings
from lastbeat.jobs.supervision.beginning import NotBegunError, begin
from lastbeat.jobs.supervision.configured import supervise
from lastbeat.jobs.supervision.lease import SupervisorLease
from lastbeat.jobs.supervision.supervisor import Supervisor
from lastbeat.model.job import AdoptedJob
from lastbeat.model.restart import Supervision
from lastbeat.settings import Settings, SettingsError, opening
from lastbeat.stores.kind import DIRECTORY
from lastbeat_cli import logs, options, places, reach, values
from lastbeat_cli.supervise import adopting, asked, config, following, plan
from lastbeat_cli.supervise.config import WantedSupervision
from lastbeat_cli.supervise.following import Manner

F = TypeVar("F", bound=Callable[..., Any])

WHAT: Final = "What to run"
RESTARTS: Final = "Restarts"
_log = logging.getLogger(__name__)
_FILLED_IN = """\
\b
In the command's arguments {resume_from}, {resume_step}, {attempt} and {run_id} are filled in. Without a checkpoint,
arguments that name one are left out. The job's environment has LASTBEAT_RESUME_FROM, LASTBEAT_RESUME_STEP,
LASTBEAT_ATTEMPT and LASTBEAT_RUN_ID.

\b
A file (--config) sets the same as the options, in YAML, and more: docs/supervisors.md. --dry-run --json prints one.
"""
_EPILOG = f"""\
{following.EXITS}
{_FILLED_IN}
Examples:
  lastbeat restart supervise --run-id demo --launcher local --policy megatron_transient \\
      --checkpoint-dir ckpt -- python train.py --resume={{resume_from}}
  lastbeat restart supervise --run-id llama --launcher slurm --policy megatron_transient \\
      --checkpoint-dir /scratch/llama --log 'logs/%j.out' -- train.sbatch
  lastbeat restart supervise --config llama.yaml --dry-run
"""
_EPILOG_ADOPT = f"""\
{following.EXITS}
{_FILLED_IN}
Examples:
  lastbeat restart adopt llama 4711 --launcher slurm --policy megatron_transient
  lastbeat restart adopt llama job/llama --launcher kubernetes --at namespace=ml --policy default
  lastbeat restart adopt llama 9632 --launcher local --policy default -- python train.py
"""


def _wish(command: F) -> F:
    """The options that say what is supervised, and how."""
    return options.together(
        options.option("--config PATH", "YAML file with a whole supervision.", WHAT, name="file"),
        reach.launcher(WHAT),
        reach.at(WHAT),
        options.option(
            "--option ARG",
            "An option for the launcher, as --option=--partition=gpu; may be repeated.",
            WHAT,
            name="launcher_options",
            multiple=True,
        ),
        options.option("--output PATH", "File for the job's output [local: below the run].", WHAT),
        options.option("--policy NAME-OR-PATH", "Restart policy [none: nothing is restarted].", RESTARTS),
        options.checkpoint_dir(RESTARTS),
        options.place,
        options.option("--log PATH", "The job's log; may be repeated [its output].", options.LOGS, multiple=True),
        options.option("--interval SECONDS", "Time between two passes [30]."),
        options.option("--submit-only", "Exit once the job runs; 'restart RUN', or an agent, goes on with it."),
        following.cancel_on_exit,
        options.option("--dry-run", "Print the command, policy and checkpoint, and start nothing."),
        asked.overrides,
        options.form,
    )(command)


@dataclass(frozen=True, slots=True)
class _Wish:
    """The values of :func:`_wish`."""

    file: str | None
    launcher: str | None
    at: tuple[str, ...]
    launcher_options: tuple[str, ...]
    output: str | None
    policy: str | None
    checkpoint_dir: str | None
    interval: str | None
    submit_only: bool
    cancel_on_exit: bool
    dry_run: bool
    log: tuple[str, ...]
    as_json: bool
    given: Mapping[str, str | None]
    """Those that override settings."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "_Wish":
        """The wish in ``values``, option → value."""
        own = {each.name for each in fields(cls)} - {"given"}
        given = {name: value for name, value in values.items() if name not in own}
        return cls(**{name: values[name] for name in own}, given=given)


@click.command("supervise", cls=options.Grouped, epilog=_EPILOG)
@options.option("--run-id ID", "The run: its folder's name below the fleet root.", WHAT)
@_wish
@click.argument("job", nargs=-1, type=click.UNPROCESSED, metavar="-- JOB [ARG]...")
def command(*, run_id: str | None, job: tuple[str, ...], **wish: Any) -> int:
    """Run JOB, a command or a batch script, watch it, and restart it when a restart helps.

    The supervision is kept in the run's record. After a crash or a reboot, 'lastbeat restart RUN' continues it on any
    machine. Ctrl-C leaves the job running.
    """
    return _begin(run_id, job, None, _Wish.of(wish))


@click.command("adopt", cls=options.Grouped, epilog=_EPILOG_ADOPT)
@click.option("--run-id", metavar="ID", hidden=True)
@click.option("--adopt", "adopted", metavar="JOB", hidden=True)
@_wish
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="RUN JOB [-- COMMAND [ARG]...]")
def adopt(*, run_id: str | None, adopted: str | None, words: tuple[str, ...], **wish: Any) -> int:
    """Supervise JOB, which runs already, as RUN: watch it, and restart it when a restart helps.

    JOB is Slurm's or Ray's id, KIND/NAME of Kubernetes, or a pid. A restart runs COMMAND, or by default what the
    launcher knows of the job.
    """
    if adopted is None:
        words = words if run_id is None else (run_id, *words)
        if len(words) < 2:
            lacks = "JOB" if words else "RUN"
            raise click.UsageError(f"{lacks} is missing; use for example lastbeat restart adopt my-run 4711")
        run_id, adopted, *rest = words
        words = tuple(rest)
    return _begin(run_id, words, adopted, _Wish.of(wish))


def _begin(run_id: str | None, job: tuple[str, ...], adopt: str | None, wish: _Wish) -> int:
    """Begin the supervision of ``job``, or of a job that is adopted, and supervise it. Returns the exit status."""
    following.log_progress()
    faults: list[str] = []
    filed = WantedSupervision() if wish.file is None else config.load(wish.file)
    interval_s = None if wish.interval is None else values.interval(wish.interval, faults, least=0.1)
    said = WantedSupervision(
        run_id or "",
        wish.launcher or "",
        job,
        (*reach.launcher_options(wish.at, wish.launcher or filed.launcher, faults), *wish.launcher_options),
        output=wish.output or "",
        logs=wish.log,
        checkpoints=wish.checkpoint_dir or "",
        interval_s=interval_s,
    )
    said = asked.by_options(wish.given, said, wish.policy, faults)
    if wish.file is not None:
        said, wins = config.over(said, filed, wish.file)
        for each in wins:
            print(each, file=sys.stderr)
    name = asked.run_id_of(said, faults, adopts=adopt is not None)
    said = replace(said, run_id=name)
    settings = asked.settings_for(wish.given, said, faults)
    logs.follow(settings)
    adopted = None if adopt is None else adopting.look(said.launcher, adopt, said.options)
    if adopted is not None:
        said = adopting.completed(settings, said, adopted)
    supervision = asked.supervision(settings, said)
    supervisor = supervise(settings, name, supervision, asked.restart_policy(settings, supervision))
    if wish.dry_run:
        return plan.show(settings, supervisor, supervision, as_json=wish.as_json)
    lease = following.new_lease()
    _record(settings, supervisor, supervision, lease, adopted)
    manner = Manner(
        interval_s or 0.0, as_json=wish.as_json, submit_only=wish.submit_only, cancel_on_exit=wish.cancel_on_exit
    )
    return following.supervise(settings, name, wish.given, manner, lease)


def _make_root(settings: Settings) -> None:
    """Create the fleet root if it is a directory, as training's first write does. Raises :class:`SettingsError`."""
    if settings.root.scheme != DIRECTORY:
        return
    try:
        settings.root.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"{settings.root.url} cannot be made: {error.strerror or error}; correct MONITORING_ROOT, or --root"
        raise SettingsError([why]) from None


def _record(
    settings: Settings,
    supervisor: Supervisor,
    supervision: Supervision,
    lease: SupervisorLease,
    adopted: AdoptedJob | None,
) -> None:
    store = supervisor.store
    opened = supervisor.checkpoints
    found = None
    if opened is not None:
        with places.named_by("correct --checkpoint-dir"):
            found = survey(opened(), stop_at_first=True).chosen
    _make_root(settings)
    now = store.clock()
    resume = None if found is None else (found.url, found.step)
    try:
        begin(
            asked.repository(settings, supervisor.run_id),
            supervisor.run_id,
            replace(supervision, begun_at=now),
            supervisor.launcher,
            now,
            resume,
            lease=lease,
            adopted=adopted,
        )
    except NotBegunError as error:
        raise SettingsError([str(error)]) from None
    if launcher_traits(supervision.launcher).remote:
        return
    # Kept only after the run has begun: if the run is still alive, its earlier environment is needed.
    _keep_environment(settings, supervisor.run_id, now)


def _keep_environment(settings: Settings, run_id: str, begun_at: datetime) -> None:
    if settings.state_dir is None:
        return
    try:
        surroundings.keep(settings.state_dir, opening.root_url(settings), run_id, begun_at, os.environ)
    except OSError as error:
        _log.warning(
            "this environment cannot be kept for later jobs: %s; they get that of the supervisor that starts them",
            error,
        )
