"""``supervise``: run a job, watch it, and restart it by a restart policy."""

import logging
import os
import sys
from dataclasses import replace
from datetime import datetime
from typing import Final

import click

from lastbeat.explain.launchers.traits import LAUNCHERS, launcher_traits
from lastbeat.jobs.checkpoints.survey import survey
from lastbeat.jobs.supervision import surroundings
from lastbeat.jobs.supervision.beginning import NotBegunError, begin
from lastbeat.jobs.supervision.configured import supervise, supervised_watch
from lastbeat.jobs.supervision.lease import SupervisorLease
from lastbeat.jobs.supervision.loop import leave_lease
from lastbeat.jobs.supervision.supervisor import SupervisedRun
from lastbeat.model.job import AdoptedJob
from lastbeat.model.restart import Supervision
from lastbeat.settings import Settings, SettingsError, opening
from lastbeat.settings.channels import configured_channels
from lastbeat.stores.clock import steady_clock
from lastbeat.stores.kind import DIRECTORY
from lastbeat_cli import exits, logs, options, places, values
from lastbeat_cli.author import author
from lastbeat_cli.loop import Stop
from lastbeat_cli.supervise import adopting, agency, asked, config, following, plan
from lastbeat_cli.supervise.config import WantedSupervision
from lastbeat_cli.supervise.following import Manner

WHAT: Final = "What to run"
RESTARTS: Final = "Restarts"
AGENT: Final = "An agent"
DEFAULT_INTERVAL_S: Final = 30.0
_log = logging.getLogger(__name__)
_EPILOG = """\
\b
Exit status:
  0  the run SUCCEEDED
  1  it SUCCEEDED with a loss that is no number, or was PREEMPTED and is not restarted
  2  FAILED, TIMED_OUT or CANCELLED, and not restarted
  3  wrong settings or arguments; or it was left while it ran (Ctrl-C)

\b
In the command's arguments {resume_from}, {resume_step}, {attempt} and {run_id} are filled in. Without a checkpoint,
arguments that name one are left out. The job's environment has LASTBEAT_RESUME_FROM, LASTBEAT_RESUME_STEP,
LASTBEAT_ATTEMPT and LASTBEAT_RUN_ID.

\b
A file (--config) sets the same as the options, in YAML: run_id, root, launcher, options, command, cwd, environment,
manifest, output, logs, signals, policy (a name, a path, or its own lines), checkpoints, limits (stale_minutes,
stall_minutes, inactivity_minutes, start_minutes), interval_seconds, restart_delay_seconds, on_permanent. Options
override the file, and the file overrides the environment. --dry-run --json prints such a file.

\b
Examples:
  lastbeat restart supervise --run-id demo --launcher local --policy megatron_transient \\
      --checkpoint-dir ckpt -- python train.py --resume={resume_from}
  lastbeat restart supervise --run-id llama --launcher slurm --policy megatron_transient \\
      --checkpoint-dir /scratch/llama --log 'logs/%j.out' -- train.sbatch
  lastbeat restart llama
  lastbeat restart supervise --config llama.yaml --dry-run
  lastbeat restart supervise --agent --launcher slurm --interval 60
"""


@click.command("supervise", cls=options.Grouped, epilog=_EPILOG, context_settings=options.HELP)
@options.option("--run-id", metavar="ID", group=WHAT, help="The run: its folder's name below the fleet root.")
@options.option(
    "--resume",
    "resumed",
    metavar="RUN",
    # Without a value, the run is the only word: `lastbeat restart --root DIR RUN` puts options between.
    is_flag=False,
    flag_value="",
    group=WHAT,
    help="Continue the supervision of this run.",
)
@options.option(
    "--adopt",
    metavar="JOB",
    group=WHAT,
    help="Supervise a job that is already running: Slurm's or Ray's id, KIND/NAME of Kubernetes, or a pid.",
)
@options.option("--config", "file", metavar="PATH", group=WHAT, help="YAML file with a whole supervision.")
@options.option("--launcher", type=click.Choice(sorted(LAUNCHERS)), group=WHAT, help="Where the run's jobs run.")
@options.option(
    "--option",
    "launcher_options",
    multiple=True,
    metavar="ARG",
    group=WHAT,
    help="An option for the launcher, as --option=--partition=gpu; may be repeated.",
)
@options.option("--output", metavar="PATH", group=WHAT, help="File for the job's output [local: below the run].")
@options.option("--policy", metavar="NAME-OR-PATH", group=RESTARTS, help="Restart policy [none: nothing is restarted].")
@options.checkpoint_dir(RESTARTS)
@options.option(
    "--on-permanent",
    metavar="end|leave",
    group=RESTARTS,
    help="A failed job that is not restarted and still runs: end it, or leave it for a debugger [as the policy says].",
)
@options.option("--interval", metavar="SECONDS", help="Time between two passes [30].")
@options.option("--submit-only", is_flag=True, help="Start the job and exit; --resume continues its supervision.")
@options.option("--cancel-on-exit", is_flag=True, help="On Ctrl-C, end the job.")
@options.option("--dry-run", is_flag=True, help="Print the command, policy and checkpoint, and start nothing.")
@options.option(
    "--agent",
    is_flag=True,
    group=AGENT,
    help="Supervise every run of the fleet that --launcher runs, and carry out restarts that other watchers decided.",
)
@options.option("--once", is_flag=True, group=AGENT, help="Make one pass, for cron.")
@options.reach
@options.place
@options.option(
    "--log", multiple=True, metavar="PATH", group=options.LOGS, help="The job's log; may be repeated [its output]."
)
@options.signals
@options.people
@options.form
@click.argument("job", nargs=-1, type=click.UNPROCESSED)
def command(  # noqa: PLR0913 - each is an option
    *,
    run_id: str | None,
    resumed: str | None,
    adopt: str | None,
    file: str | None,
    launcher: str | None,
    launcher_options: tuple[str, ...],
    output: str | None,
    policy: str | None,
    checkpoint_dir: str | None,
    interval: str | None,
    submit_only: bool,
    cancel_on_exit: bool,
    dry_run: bool,
    agent: bool,
    once: bool,
    log: tuple[str, ...],
    job: tuple[str, ...],
    as_json: bool,
    verbose: bool,
    **given: str | None,
) -> int:
    """Run JOB, a command or a batch script, watch it, and restart it when a restart helps.

    The supervision is kept in the run's record. After a crash or a reboot, another supervisor can continue it on any
    machine. Ctrl-C leaves the job running.
    """
    logs.verbose(on=verbose)
    if not verbose:
        # Job states and restart decisions are logged at INFO, and a supervisor's user wants to see them.
        logging.getLogger("lastbeat").setLevel(logging.INFO)
    faults: list[str] = []
    reached = options.reached(given)
    launcher_options = (*reached, *launcher_options)
    if agent or once:
        single = (
            run_id,
            resumed,
            adopt,
            file,
            launcher_options[len(reached) :],
            output,
            policy,
            checkpoint_dir,
            log,
            job,
        )
        asked.agent_faults(faults, launcher, agent=agent, more=any(single) or submit_only or cancel_on_exit or dry_run)
        pause_s = values.interval(interval or f"{DEFAULT_INTERVAL_S:g}", faults, least=0.1)
        settings = values.settings(given, faults, watching=True)
        logs.follow(settings)
        return agency.run(settings, str(launcher), given, pause_s, once=once, as_json=as_json)
    if resumed == "" and len(job) == 1:
        (resumed,), job = job, ()
    if resumed == "":
        raise click.UsageError("RUN is missing; use for example lastbeat restart my-run")
    interval_s = None if interval is None else values.interval(interval, faults, least=0.1)
    said = WantedSupervision(
        run_id or "",
        launcher or "",
        job,
        launcher_options,
        output=output or "",
        logs=log,
        checkpoints=checkpoint_dir or "",
        interval_s=interval_s,
    )
    said = asked.by_options(given, said, policy, faults)
    manner = Manner(interval_s or 0.0, as_json=as_json, submit_only=submit_only, cancel_on_exit=cancel_on_exit)
    if resumed is not None:
        if (
            file is not None
            or adopt is not None
            or said != WantedSupervision(interval_s=interval_s, settings=said.settings)
        ):
            what = (
                "--run-id, --launcher, --policy, --checkpoint-dir, --log, --output, --option, --config and the command"
            )
            faults.append(f"--resume goes on as it was begun: leave out {what}, or begin again once the job has ended")
        return _resume(asked.checked(resumed, faults), given, manner, faults, dry_run=dry_run)
    if file is not None:
        said = _with_file(said, file)
    name = asked.run_id_of(said, faults, adopts=adopt is not None)
    said = replace(said, run_id=name)
    settings = asked.settings_for(given, said, faults)
    logs.follow(settings)
    adopted = None if adopt is None else adopting.look(said.launcher, adopt, said.options)
    if adopted is not None:
        said = adopting.completed(settings, said, adopted)
    supervision = asked.supervision(settings, said)
    supervised = supervise(settings, name, supervision, asked.restart_policy(settings, supervision))
    if dry_run:
        return plan.show(settings, supervised, supervision, as_json=as_json)
    lease = SupervisorLease(author(), os.urandom(6).hex())
    _begin(settings, supervised, supervision, lease, adopted)
    return _supervise(settings, name, given, lease, manner)


def _with_file(said: WantedSupervision, file: str) -> WantedSupervision:
    found, wins = config.over(said, config.load(file), file)
    for each in wins:
        print(each, file=sys.stderr)
    return found


def _resume(name: str, given: dict[str, str | None], manner: Manner, faults: list[str], *, dry_run: bool) -> int:
    """Continue the recorded supervision. Returns the exit status."""
    settings = values.settings(given, faults, watching=True)
    logs.follow(settings)
    record, supervision = asked.recorded(settings, name)
    if dry_run:
        settings = asked.as_recorded(given, supervision)
        supervised = supervise(settings, name, supervision, asked.restart_policy(settings, supervision))
        return plan.show(settings, supervised, supervision, record, as_json=manner.as_json)
    return _supervise(settings, name, given, SupervisorLease(author(), os.urandom(6).hex()), manner)


def _supervise(
    settings: Settings, name: str, given: dict[str, str | None], lease: SupervisorLease, manner: Manner
) -> int:
    """Supervise the run by its record whenever this supervisor holds the lease. Returns the exit status."""
    channels = configured_channels(settings)
    if not channels:
        _log.warning("no channel is set up, so no alert will be sent; set for example SLACK_WEBHOOK_URL")
    repository = asked.repository(settings, name)
    with Stop() as stop:
        while True:
            wait_s = manner.interval_s or DEFAULT_INTERVAL_S
            record = following.take_lease(lease, repository, stop, wait_s)
            if record is None or record.supervision is None:
                return exits.UNKNOWN
            # Read after the lease is taken: its former holder may have begun the run again.
            supervision = record.supervision
            _say_environment(settings, name, supervision)
            run_settings = asked.as_recorded(given, supervision)
            policy = asked.restart_policy(run_settings, supervision)
            supervised = supervise(run_settings, name, supervision, policy, lease)
            watch = supervised_watch(run_settings, supervised, channels, clock=steady_clock())
            interval_s = manner.interval_s or supervision.interval_s or DEFAULT_INTERVAL_S
            try:
                status = following.follow(watch, supervised, replace(manner, interval_s=interval_s), stop)
            finally:
                leave_lease(lease, repository)
            if status is not None:
                if not (stop.asked or manner.submit_only) and settings.state_dir is not None:
                    surroundings.forget(settings.state_dir, opening.root_url(settings), name)
                return status


def _keep_environment(settings: Settings, run_id: str, begun_at: datetime) -> None:
    if settings.state_dir is None:
        return
    try:
        surroundings.keep(settings.state_dir, opening.root_url(settings), run_id, begun_at, os.environ)
    except OSError as error:
        _log.warning(
            "this environment cannot be kept for later jobs: %s; after --resume they get the environment of that call",
            error,
        )


def _say_environment(settings: Settings, run_id: str, supervision: Supervision) -> None:
    state = settings.state_dir
    if state is None or supervision.begun_at is None or not supervision.spec.command:
        return
    if launcher_traits(supervision.launcher).remote:
        return
    if surroundings.kept(state, opening.root_url(settings), run_id, supervision.begun_at) is None:
        print(
            f"the environment in which {run_id} was begun is not known here: its next job gets this one",
            file=sys.stderr,
            flush=True,
        )


def _make_root(settings: Settings) -> None:
    """Create the fleet root if it is a directory, as training's first write does. Raises :class:`SettingsError`."""
    if settings.root.scheme != DIRECTORY:
        return
    try:
        settings.root.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"{settings.root.url} cannot be made: {error.strerror or error}; correct MONITORING_ROOT, or --root"
        raise SettingsError([why]) from None


def _begin(
    settings: Settings,
    supervised: SupervisedRun,
    supervision: Supervision,
    lease: SupervisorLease,
    adopted: AdoptedJob | None,
) -> None:
    store = supervised.store
    opened = supervised.supervisor.checkpoints
    found = None
    if opened is not None:
        with places.named_by("correct --checkpoint-dir"):
            found = survey(opened(), stop_at_first=True).chosen
    _make_root(settings)
    now = store.clock()
    resume = None if found is None else (found.url, found.step)
    try:
        begin(
            asked.repository(settings, supervised.run_id),
            supervised.run_id,
            replace(supervision, begun_at=now),
            supervised.supervisor.launcher,
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
    _keep_environment(settings, supervised.run_id, now)
