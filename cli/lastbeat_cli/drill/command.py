"""``drill``: test restarts by injecting faults into harmless jobs."""

import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from lastbeat import settings as configuration
from lastbeat.jobs.launchers import registry
from lastbeat.jobs.restarts import loading
from lastbeat.model.restart import RestartPolicy
from lastbeat.settings import SettingsError, every_setting, table
from lastbeat.settings.table import is_named
from lastbeat_cli import exits, logs, options, reach, values
from lastbeat_cli.document import tell
from lastbeat_cli.drill.faults import NotInjectedError, saboteur
from lastbeat_cli.drill.rehearsal import FAULT, RUNS, Ground, InterruptedDrillError, Rehearsal, Stage, UnexpectedError
from lastbeat_cli.drill.scenarios import SCENARIOS, Scenario
from lastbeat_cli.loop import Stop
from lastbeat_cli.policy.command import known_names
from lastbeat_cli.policy.command import load as load_policy

log = logging.getLogger(__name__)
ALL: Final = "all"
WHAT: Final = "What to drill"
WHERE: Final = "Where"
_SIGNALS: Final = "megatron_production"
_LONGEST_S: Final = 7 * 86400.0
"""Longest time, in seconds, without a step or to wait for a drill."""
_SCRIPT: Final = Path(__file__).with_name("job.sh")


def _table() -> str:
    rows = []
    for each in SCENARIOS.values():
        here = "-" if each.local_s is None else f"{each.local_s} s"
        rows.append(f"  {each.name:<18} {here:>6} {f'{each.slurm_s} s':>7}  {each.what}")
    return "\n".join(rows)


_EPILOG = f"""\
Scenarios, with the approximate time of each on this machine and on an idle cluster:
{_table()}

\b
Up to --at-once scenarios run at the same time. Time in the queue comes on top; by Slurm's defaults a requeued job
waits two minutes. The drill touches only its own jobs and ends them by their ids, also on Ctrl-C. It sends no alerts.
If a scenario fails, the jobs' output and the supervisors' logs are kept.

Exit status:
  0  every scenario passed
  1  a scenario failed
  3  wrong settings or arguments; or nothing could be drilled

Examples:
  lastbeat restart drill --launcher local
  lastbeat restart drill --launcher slurm --scenario scancel --option=--partition=gpu --option=--account=lab
  lastbeat restart drill --launcher ray --at address=http://head:8265
  lastbeat restart drill --launcher slurm --policy ours.yaml --interval 30 --root /scratch/$USER/drill
"""


@dataclass(frozen=True)
class DrillResult:
    """The result of one rehearsal."""

    scenario: str
    result: str
    """``PASS``, ``FAIL``, ``SKIPPED`` or ``STOPPED``."""
    why: str
    seconds: float
    stages: tuple[Stage, ...] = ()
    run_id: str = ""
    left: tuple[str, ...] = field(default=())
    """Jobs that could not be ended."""


@click.command("drill", cls=options.Grouped, epilog=_EPILOG)
@reach.launcher(WHAT, required=True)
@options.option(
    "--scenario",
    "The scenario to play; may be repeated [all].",
    WHAT,
    name="named",
    type=click.Choice([*SCENARIOS, ALL]),
    multiple=True,
    default=(ALL,),
)
@options.option("--iterations N", "Rehearsals of each scenario [1].", WHAT, default="1")
@options.option("--policy NAME-OR-PATH", f"Restart policy [{loading.RECOMMENDED}].", WHAT, default=loading.RECOMMENDED)
@options.hidden("--signals")
@options.option(
    "--node-loss-command COMMAND", "Command that takes the node {node} down, without a shell; node_lost needs it.", WHAT
)
@reach.at(WHERE)
@options.option(
    "--option ARG",
    "An option for the launcher, as --option=--partition=gpu; may be repeated.",
    WHERE,
    name="launcher_options",
    multiple=True,
)
@options.option(
    "--root DIR",
    "Folder for runs, output and evidence; Slurm: on a shared file system [drill in LASTBEAT_STATE_DIR].",
    WHERE,
)
@options.option("--keep", "Keep the evidence of passed scenarios, too.", WHERE)
@options.option("--interval SECONDS", "Time between two passes of a supervisor [local: 0.5, elsewhere: 5].")
@options.option("--stall SECONDS", "Stall limit; a hang takes twice that [local: 4, elsewhere: 20].")
@options.option("--patience MINUTES", "Longest time that a job may queue [15].", default="15")
@options.option("--at-once N", "Number of scenarios that run at the same time [4].", default="4")
@options.form
def command(  # noqa: PLR0913 - each is an option
    *,
    launcher: str,
    at: tuple[str, ...],
    named: tuple[str, ...],
    iterations: str,
    policy: str,
    signals: str | None,
    node_loss_command: str | None,
    launcher_options: tuple[str, ...],
    root: str | None,
    keep: bool,
    interval: str | None,
    stall: str | None,
    patience: str,
    at_once: str,
    as_json: bool,
) -> int:
    """Test restarts where your jobs run.

    The drill starts harmless jobs, each under a supervisor of its own. It kills, hangs and cancels them, and checks
    that each is restarted, or not, as it should be.
    """
    faults: list[str] = []
    launcher_options = (*reach.launcher_options(at, launcher, faults), *launcher_options)
    times = values.whole("--iterations", iterations, faults, least=1) or 1
    together = values.whole("--at-once", at_once, faults, least=1) or 1
    maker = saboteur(launcher)
    interval_s = maker.interval_s if interval is None else values.interval(interval, faults, least=0.1)
    stall_s = maker.stall_s if stall is None else _span("--stall", stall, faults)
    patience_s = _span("--patience", patience, faults, unit_s=60.0)
    own = values.settings({"signals": signals}, faults, watching=True)
    if own.state_dir is None and root is None:
        raise SettingsError(["LASTBEAT_STATE_DIR is not set, and there is no home: say where by --root"])
    looked_for = own[table.SIGNALS]
    looked_for = _SIGNALS if signals is None and looked_for == table.DEFAULT_CATALOGUE else looked_for
    restart_policy = load_policy(policy, known_names(looked_for))
    folder = _folder(Path(root).expanduser().absolute() if root is not None else Path(str(own.state_dir)) / "drill")
    chosen = list(SCENARIOS.values()) if ALL in named else [SCENARIOS[name] for name in dict.fromkeys(named)]
    asked = {
        table.MONITORING_ROOT.name: str(folder / "runs"),
        table.STATE_DIR.name: str(folder / "state"),
        table.SIGNALS.name: _absolute(looked_for),
        table.RESTART_DELAY_SECONDS.name: "0",
    }
    environment = {name: text for name, text in os.environ.items() if not _is_ours(name)} | asked
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if Path(entry).is_absolute())
    with Stop() as stop:
        with suppress(OSError, ValueError):
            signal.signal(signal.SIGHUP, lambda *_: stop.ask())
        wish = threading.Event()
        ground = Ground(
            kind=launcher,
            launcher=registry.module(launcher).launcher(folder / "state", launcher_options),
            saboteur=maker,
            settings=configuration.load(environ=environment, directory=folder),
            folder=folder,
            policy=policy if policy in loading.names() else str(Path(policy).absolute()),
            interval_s=interval_s,
            patience_s=patience_s,
            options=launcher_options,
            environment=environment,
            stalls={table.STALL_MINUTES.name: f"{stall_s / 60:.6f}"},
            tell=_tell,
            stop=wish,
            node_loss=node_loss_command,
        )
        began = time.monotonic()
        results = _rehearsed(ground, restart_policy, [each for each in chosen for _ in range(times)], together, stop)
        seconds = time.monotonic() - began
    return _report(ground, looked_for, results, seconds, keep=keep, as_json=as_json)


def _span(name: str, text: str, faults: list[str], *, unit_s: float = 1.0) -> float:
    return values.span(name, text, faults, least_s=0.001, most_s=_LONGEST_S, like="20m", unit_s=unit_s)


def _folder(root: Path) -> Path:
    """A new folder for this drill, with its subfolders and the job's script."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=root))
        for name in ("runs", "state", "output"):
            (folder / name).mkdir()
        shutil.copyfile(_SCRIPT, folder / "job.sh")
        (folder / "job.sh").chmod(0o755)
    except OSError as error:
        raise SettingsError([f"{root}: {error.strerror or error}; say by --root where the drill may write"]) from None
    return folder


def _absolute(looked_for: str) -> str:
    """``looked_for`` with absolute paths of catalogue files."""
    return ",".join(str(Path(part).absolute()) if Path(part).is_file() else part for part in looked_for.split(","))


def _is_ours(name: str) -> bool:
    """Whether ``name`` is a setting of lastbeat. The user's channels and limits must not affect a drill."""
    return is_named(name) or name.startswith("LASTBEAT_") or name in {each.name for each in every_setting()}


def _rehearsed(
    ground: Ground, policy: RestartPolicy, scenarios: list[Scenario], together: int, stop: Stop
) -> list[DrillResult]:
    prefix = f"drill-{os.urandom(3).hex()}"
    with ThreadPoolExecutor(together) as pool:
        tasks = [
            pool.submit(_one, ground, policy, scenario, f"{prefix}-{scenario.name}-{number}")
            for number, scenario in enumerate(scenarios, 1)
        ]
        while wait(tasks, timeout=0)[1]:
            if stop.asked and not ground.stop.is_set():
                print("stopping: the drill's jobs are being ended", file=sys.stderr, flush=True)
                ground.stop.set()
            if not stop.wait(0.2):
                continue
            if ground.stop.is_set():
                time.sleep(0.1)
    return [task.result() for task in tasks]


def _one(ground: Ground, policy: RestartPolicy, scenario: Scenario, run_id: str) -> DrillResult:
    if ground.stop.is_set():
        return DrillResult(scenario.name, "STOPPED", "not begun", 0.0)
    rehearsal = Rehearsal(ground, scenario.name, run_id, scenario.fault, 1, scenario.stands_still, scenario.causes)
    began = time.monotonic()
    result, why = "PASS", ""
    try:
        scenario.play(rehearsal, policy)
        why = "; ".join(rehearsal.notes)
    except UnexpectedError as error:
        result, why = "FAIL", str(error)
    except NotInjectedError as error:
        result, why = "SKIPPED", str(error)
    except InterruptedDrillError:
        result, why = "STOPPED", "by a person"
    except Exception as error:
        # A defect of the drill must not leave jobs behind, nor lose the results of other scenarios.
        log.exception("the drill itself broke")
        result, why = "FAIL", f"the drill itself broke: {type(error).__name__}: {error}"
    seconds = time.monotonic() - began
    left = tuple(rehearsal.clean_up())
    ground.tell(run_id, f"{result}{f': {why}' if why else ''}")
    return DrillResult(scenario.name, result, why, round(seconds, 1), tuple(rehearsal.stages), run_id, left)


_printing = threading.Lock()


def _tell(run_id: str, line: str) -> None:
    scenario = run_id.split("-", 2)[-1]
    with _printing:
        print(f"{time.strftime('%H:%M:%S')}  {scenario:<20} {logs.redact(line)}", file=sys.stderr, flush=True)


def _report(
    ground: Ground, looked_for: str, results: list[DrillResult], seconds: float, *, keep: bool, as_json: bool
) -> int:
    counts = {word: sum(each.result == word for each in results) for word in ("PASS", "FAIL", "SKIPPED", "STOPPED")}
    left = [job for each in results for job in each.left]
    kept = keep or bool(counts["FAIL"]) or bool(left)
    if not kept:
        shutil.rmtree(ground.folder, ignore_errors=True)
    evidence = str(ground.folder) if kept else None
    if as_json:
        told: dict[str, Any] = {
            "launcher": ground.kind,
            "policy": ground.policy,
            "signals": looked_for,
            "interval_s": ground.interval_s,
            "seconds": round(seconds, 1),
            "results": [asdict(each) for each in results],
            "evidence": evidence,
            "left_running": left,
        }
        tell(told, (), as_json=True)
    else:
        for each in results:
            print(logs.redact(f"{each.result:<8} {each.scenario:<18} {each.seconds:6.1f} s  {_way(each)}".rstrip()))
            if each.why:
                print(logs.redact(f"{'':<9}{each.why}"))
        words = [f"{counts['PASS']} passed", f"{counts['FAIL']} failed"]
        words += [
            f"{count} {word}"
            for word, count in (("skipped", counts["SKIPPED"]), ("stopped", counts["STOPPED"]))
            if count
        ]
        print(
            f"{', '.join(words)} in {seconds:.0f} s on {ground.kind}, "
            f"with the signals of {looked_for} and the policy {Path(ground.policy).name}"
        )
        if evidence is not None:
            print(f"Evidence: {evidence}")
        if left:
            print(f"Could not be ended: {', '.join(left)}")
    if counts["FAIL"] or left:
        return exits.WARNING
    if counts["STOPPED"]:
        return exits.INTERRUPTED
    return exits.OK if counts["PASS"] else exits.UNKNOWN


def _way(result: DrillResult) -> str:
    """The stages after the last fault that led to a new job, or else after the last fault."""
    ways: list[list[Stage]] = []
    for stage in result.stages:
        if stage.what == FAULT:
            ways.append([])
        elif ways:
            ways[-1].append(stage)
    shown = next((way for way in reversed(ways) if any(stage.what == RUNS for stage in way)), ways[-1] if ways else [])
    return " → ".join([FAULT, *(f"{stage.what} {stage.after_s:.1f} s" for stage in shown)]) if shown else ""
