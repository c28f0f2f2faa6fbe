"""``exec``: runs any command and reports it as a run."""

import logging
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import click

from lastbeat import settings as configuration
from lastbeat.jobs import restarts
from lastbeat.model import runid
from lastbeat.settings import Settings, SettingsError, opening
from lastbeat.settings.table import MONITORING_BUCKET, MONITORING_PREFIX, MONITORING_ROOT
from lastbeat.training import entry as training
from lastbeat.training.exec import in_place
from lastbeat.training.exec.child.descriptors import open_streams
from lastbeat.training.exec.command import CommandRunner
from lastbeat.training.exec.start import WrappedCommand
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.run_ids import own_run_id
from lastbeat_cli import logs, options, report, values

if TYPE_CHECKING:
    from lastbeat.training.exec.in_place.following import InPlaceTerms
    from lastbeat.training.exec.in_place.together import Participant

log = logging.getLogger(__name__)

IN_PLACE = "Restarting the command within its job"
_PLACE: Final = frozenset({MONITORING_ROOT.name, MONITORING_BUCKET.name, MONITORING_PREFIX.name})
_MOST_RESTARTS: Final = 1000
_GRACE_S: Final = 15.0
_MOST_GRACE_S: Final = 3600.0
_LAUNCHERS: Final = frozenset({"srun", "mpirun", "mpiexec", "prun", "jsrun", "aprun", "pdsh", "ssh"})
"""Programs that start processes on other nodes, which cannot be ended from here."""
_CONTAINERS: Final = frozenset({"docker", "nerdctl", "podman", "kubectl"})
"""Programs that let a service start processes in containers, which cannot be ended from here either."""

EPILOG = """\
Exit status: that of the command, and
  126  the command could not be started
  127  the command was not found
  3    wrong arguments; nothing was started
If a signal kills the command, lastbeat exits by the same signal, which shells show as 128 + its number.

Examples:
  lastbeat exec --run-id mistral-20250804-171621 -- torchrun --nproc-per-node 8 train.py
  lastbeat exec --max-restarts 3 --section-timeouts setup:900,step:180 -- torchrun --nproc-per-node 8 train.py
  nohup lastbeat exec --run-id nightly --root s3://my-bucket/runs -- ./train.sh > train.log 2>&1 &

Step, loss and learning rate are read from the output of Megatron, the Hugging Face Trainer, Lightning, nanoGPT and
lines like 'step 100/1000 loss 2.5'. A store that is down neither delays the command nor changes its exit status.
"""


@click.command(
    "exec",
    cls=options.Grouped,
    epilog=EPILOG,
    context_settings={"allow_interspersed_args": False},
    no_args_is_help=False,
)
@options.option("--run-id ID", "The run: its folder's name [made from job or time].", report.WHAT)
@options.option("--phase P", "What it does [training].", report.WHAT, default="training")
@options.option("--total-steps N", "How many steps it will take.", report.WHAT)
@options.option("--tensorboard DIR", "Read steps and metrics from TensorBoard's logs below DIR.", report.WHAT)
@options.hidden("--owner", "--team")
@options.option(
    "--time-margin SECONDS",
    "Send SIGTERM, or LASTBEAT_EXIT_SIGNAL, this long before the command's Slurm job ends [never].",
    report.WHAT,
)
@options.option(
    "--max-restarts N",
    "Restart the command up to N times within this job when it hangs or fails and the policy allows it [0].",
    IN_PLACE,
)
@options.option(
    "--section-timeouts NAME:SECONDS,…",
    "The command hangs if a section takes longer: setup:600,step:180 [LASTBEAT_SECTION_TIMEOUTS].",
    IN_PLACE,
)
@options.option(
    "--policy NAME-OR-PATH", "Restart policy; 'lastbeat restart policy list' shows them [megatron_transient].", IN_PLACE
)
@options.checkpoint_dir(IN_PLACE)
@options.option("--grace SECONDS", "Time between SIGTERM and SIGKILL of a hung command [15].", IN_PLACE)
@options.option("--nodes N", "Number of nodes that restart together [from the launcher, else 1].", IN_PLACE)
@options.option("--node-rank K", "Number of this node, from 0 [from the launcher].", IN_PLACE)
@options.option(
    "--launch-id WORD", "A word that all nodes share and that differs for each launch [the scheduler's job].", IN_PLACE
)
@options.place
@options.verbose
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARG]...")
def command(  # noqa: PLR0913 - its options
    *,
    run_id: str | None,
    phase: str,
    total_steps: str | None,
    tensorboard: str | None,
    max_restarts: str | None,
    policy: str | None,
    checkpoint_dir: str | None,
    grace: str | None,
    nodes: str | None,
    node_rank: str | None,
    launch_id: str | None,
    command: tuple[str, ...],
    **given: str | None,
) -> int:
    """Run a command unchanged, and report it: heartbeats, progress, and how it ended.

    Its input, output, terminal, signals and exit status pass through unchanged.
    """
    streams = open_streams()
    arguments = options.arguments(given)
    faults: list[str] = []
    name, renamed = _named(run_id, command)
    steps = values.whole("--total-steps", total_steps, faults, least=1)
    if not command:
        faults.append("the command is missing; use for example -- ./train.sh")
    if tensorboard is not None and ("://" in tensorboard or not tensorboard.strip()):
        faults.append(f"--tensorboard={tensorboard!r} is no folder of this machine; use for example --tensorboard runs")
    said = {
        "--policy": policy, "--checkpoint-dir": checkpoint_dir, "--grace": grace, "--nodes": nodes,
        "--node-rank": node_rank, "--launch-id": launch_id,
    }  # fmt: skip
    settings = _settings(arguments, faults)
    terms = _in_place(max_restarts, said, command, settings, faults)
    if faults:
        raise SettingsError(faults)
    if max_restarts is None and given.get("section_timeouts") is not None:
        log.warning(
            "--section-timeouts restarts nothing without --max-restarts; only a command that reports its sections by "
            "lastbeat.run goes by it"
        )
    if renamed:
        log.warning("%s", renamed)
    if not (run_id or "").strip() and settings is not None:
        report.tell(opening.root_url(settings), name, given)
    if settings is not None:
        # The command may report itself, so the options hold for it and all its children, too.
        os.environ.update(arguments)
        if not _PLACE.isdisjoint(arguments):
            os.environ[MONITORING_ROOT.name] = opening.root_url(settings)
    dumps = training.record_collectives(settings, name, command[0]) if settings is not None else None
    wrapped = WrappedCommand(command, streams, name, phase, steps, dumps, tensorboard)
    if terms is None or settings is None:
        return CommandRunner(wrapped, settings, _tell).run()
    return in_place.command.CommandInPlace(wrapped, settings, terms, _tell).run()


def _in_place(
    most: str | None,
    said: Mapping[str, str | None],
    command: Sequence[str],
    settings: Settings | None,
    faults: list[str],
) -> "InPlaceTerms | None":
    """The terms of restarts in place, or None if the command is not restarted. Adds what is wrong to ``faults``."""
    count = values.count("--max-restarts", most or "0", faults, _MOST_RESTARTS)
    if not count:
        named = [name for name, text in said.items() if text is not None]
        if named and not faults:
            faults.append(f"{named[0]} needs --max-restarts; use for example --max-restarts 3")
        return None
    program = os.path.basename(command[0]) if command else ""  # noqa: PTH119 - a name as typed, which need be no path
    if program in _LAUNCHERS:
        faults.append(
            f"--max-restarts sees what runs on this node alone, and {program} starts elsewhere: let {program} start "
            f"lastbeat, as in {program} lastbeat exec --max-restarts {count} -- torchrun train.py"
        )
    if program in _CONTAINERS:
        faults.append(
            f"--max-restarts cannot end what {program} starts: let lastbeat run within the container, as in "
            f"lastbeat exec --max-restarts {count} -- torchrun train.py"
        )
    grace = said["--grace"]
    grace_s = _GRACE_S
    if grace is not None:
        grace_s = values.span("--grace", grace, faults, least_s=0.0, most_s=_MOST_GRACE_S, like="30s or 5m")
    own, launch = _participant(said, faults)
    try:
        found = restarts.loading.load(said["--policy"] or restarts.loading.RECOMMENDED)
    except restarts.loading.RestartPolicyError as wrong:
        faults.extend(str(wrong).splitlines())
        return None
    if settings is None:
        return None
    return in_place.following.InPlaceTerms(
        count,
        found,
        said["--checkpoint-dir"] or "",
        grace_s,
        training.section_limits(settings),
        settings.policy.stall_s,
        launch if launch is not None and own.count > 1 else uuid4().hex[:12],
        own,
    )


def _participant(said: Mapping[str, str | None], faults: list[str]) -> tuple["Participant", str | None]:
    """This node's number among all nodes, and the launch id or None."""
    together = in_place.together
    own = together.participant_of(os.environ)
    if said["--nodes"] is not None or said["--node-rank"] is not None:
        nodes = values.count("--nodes", said["--nodes"] or f"{own.count}", faults, together.MOST_PARTICIPANTS)
        number = values.count("--node-rank", said["--node-rank"] or f"{own.number}", faults, together.MOST_PARTICIPANTS)
        if nodes < 1 or number >= nodes:
            faults.append(f"--node-rank {number} is none of --nodes {nodes}; they are counted from 0")
            return own, None
        if nodes > 1 and said["--node-rank"] is None and own.count != nodes:
            faults.append("--nodes needs --node-rank; use for example --nodes 2 --node-rank 0 on the first of them")
        own = together.Participant(number, nodes)
    word = said["--launch-id"]
    launch = together.launch_word(word) if word else together.launch_of(os.environ)
    if own.count > 1 and launch is None:
        faults.append(
            f"{own.count} of these are to start together, and nothing names this launch: give --launch-id, the same "
            "word to each, and another one next time"
        )
    return own, launch


def _tell(line: str) -> None:
    """Write a line to stderr. A full disk or a closed pipe is ignored."""
    with suppress(OSError):
        os.write(2, f"{logs.redact(line)}\n".encode("utf-8", "backslashreplace"))


def _named(text: str | None, command: Sequence[str]) -> tuple[str, str]:
    """The run id made from ``text``, or from job and script if it is blank, and a note if it was changed."""
    if text is not None and text.strip():
        return runid.safe_run_id(text)
    program = _script(command) if command else ""
    return runid.safe_run_id(own_run_id(os.environ, program, platform.node(), Rank()))


def _script(command: Sequence[str]) -> str:
    """The name of the command's script, for example behind python or torchrun, else its program."""
    return next((word for word in command if word.endswith((".py", ".sh"))), command[0])


def _settings(arguments: dict[str, str], faults: list[str]) -> Settings | None:
    """The settings, or None if they are wrong. Adds only what is wrong with the arguments to ``faults``."""
    try:
        settings = configuration.load(arguments, training=True)
    except SettingsError as wrong:
        try:
            configuration.load(arguments, environ={}, directory=Path(os.devnull))
        except SettingsError as typed:
            faults.extend(typed.faults)
            return None
        # The arguments are right, and the user may not know about the environment. Training comes first, so it runs.
        log.error("nothing watches this command, which runs all the same: %s", wrong)  # noqa: TRY400 - no trace
        return None
    logs.follow(settings)
    for line in settings.ignored_told():
        log.warning("%s", line)
    return settings
