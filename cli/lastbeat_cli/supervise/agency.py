"""``restart agent``: supervises every run of the fleet whose jobs run on one launcher."""

import logging
import os
import time
from collections.abc import Callable
from typing import Final

import click

from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.jobs.launchers import registry as launchers
from lastbeat.jobs.launchers.port import JobRefusedError, Launcher
from lastbeat.jobs.supervision.agent import Agent, AgentPass, UnfitError
from lastbeat.jobs.supervision.configured import supervise, supervised_watch
from lastbeat.jobs.supervision.pass_reports import PassReports
from lastbeat.model.document import outcome_document
from lastbeat.model.outcome import Outcome
from lastbeat.model.restart import Supervision
from lastbeat.model.times import format_time
from lastbeat.settings import Settings, SettingsError, opening
from lastbeat.settings.channels import configured_channels
from lastbeat.stores.clock import next_due, steady_clock
from lastbeat.stores.kind import DIRECTORY
from lastbeat.stores.port import Store
from lastbeat.watch.watchdog import Watch
from lastbeat_cli import exits, logs, options, reach, values
from lastbeat_cli.author import author
from lastbeat_cli.document import dump
from lastbeat_cli.loop import Stop
from lastbeat_cli.supervise import asked, following

WHICH: Final = "Which runs"
_log = logging.getLogger(__name__)
_EPILOG = """\
Exit status:
  0  the last pass looked after its runs
  3  it could not; also wrong settings or arguments

Examples:
  lastbeat restart agent --launcher slurm --interval 60
  lastbeat restart agent --launcher kubernetes --at namespace=ml --once
"""
_LEAST_PAUSE_S = 0.2
"""Shortest pause between two checks, in seconds."""


@click.command("agent", cls=options.Grouped, epilog=_EPILOG)
@click.option("--agent", is_flag=True, hidden=True, expose_value=False)
@reach.launcher(WHICH)
@reach.at(WHICH)
@options.place
@options.option("--interval SECONDS", "Time between two passes [30].")
@options.option("--once", "Make one pass, for cron.")
@asked.overrides
@options.form
def command(
    *,
    launcher: str | None,
    at: tuple[str, ...],
    interval: str | None,
    once: bool,
    as_json: bool,
    **given: str | None,
) -> int:
    """Supervise every run of the fleet whose jobs the launcher runs, as it was begun.

    An agent also carries out restarts that other watchers decided.
    """
    following.log_progress()
    faults: list[str] = [] if launcher is not None else [reach.missing_launcher()]
    where = reach.launcher_options(at, launcher or "", faults)
    interval_s = following.DEFAULT_INTERVAL_S if interval is None else values.interval(interval, faults, least=0.1)
    settings = values.settings(given, faults, watching=True)
    state = opening.state_dir(settings, writes=launcher_traits(str(launcher)).needs_state)
    try:
        asks = launchers.module(str(launcher)).launcher(state, where)
    except JobRefusedError as error:
        raise SettingsError([error.told]) from None
    return _run(settings, asks, given, interval_s, once=once, as_json=as_json)


def _run(
    settings: Settings,
    launcher: Launcher,
    given: dict[str, str | None],
    interval_s: float,
    *,
    once: bool,
    as_json: bool,
) -> int:
    """Make passes until the user stops the agent, and return the exit status.

    With ``once``: make one pass, and do what falls due within its interval.
    """
    store = opening.store(settings)
    reports = PassReports(launcher, store.clock)
    agent = Agent(
        store,
        reports,
        _watches(settings, given, store, reports),
        trusts=_trusts(settings),
        by=author(),
        interval_s=interval_s,
    )
    shown: dict[str, tuple[object, ...]] = {}
    seen = AgentPass(blind="no pass was made")
    with Stop() as stop:
        due, listed = time.monotonic(), False
        ends = due + interval_s if once else float("inf")
        while not stop.asked:
            now = time.monotonic()
            if now >= due and not (once and listed):
                found = seen = agent.run()
                due, listed = next_due(due, time.monotonic(), interval_s), True
            else:
                found = agent.look_soon()
            _show(found, shown, as_json=as_json, listed=found is seen)
            wait_s = due - time.monotonic()
            if agent.due_at is not None:
                soon_s = max(_LEAST_PAUSE_S, (agent.due_at - store.clock()).total_seconds())
                wait_s = min(wait_s, soon_s)
            if once and (agent.due_at is None or time.monotonic() + wait_s >= ends):
                break
            if stop.wait(wait_s):
                break
    return exits.OK if seen.blind is None else exits.UNKNOWN


def _watches(
    settings: Settings, given: dict[str, str | None], store: Store, reports: PassReports
) -> Callable[[str, Supervision], Watch]:
    channels = configured_channels(settings)
    if not channels:
        _log.warning(
            "no channel is set up here, so this agent's alerts wait for a watcher that has one; set for example "
            "SLACK_WEBHOOK_URL"
        )
    clock = steady_clock()

    def watch(run_id: str, supervision: Supervision) -> Watch:
        try:
            run_settings = asked.as_recorded(given, supervision)
            policy = asked.restart_policy(run_settings, supervision)
            supervised = supervise(run_settings, run_id, supervision, policy, at=store, reports=reports)
        except SettingsError as error:
            raise UnfitError(str(error)) from None
        return supervised_watch(run_settings, supervised, channels, clock=clock)

    return watch


def _trusts(settings: Settings) -> Callable[[str], bool]:
    """Whether a run's record may decide what is run on this machine.

    In a directory, which several users may share, only the records of this user's runs may.
    """
    root = settings.root
    if root.scheme != DIRECTORY:
        return lambda _run_id: True

    def is_own_run(run_id: str) -> bool:
        try:
            return (root.path / run_id).stat().st_uid == os.getuid()
        except OSError:
            return False

    return is_own_run


def _show(found: AgentPass, shown: dict[str, tuple[object, ...]], *, as_json: bool, listed: bool) -> None:
    if as_json:
        document = {"listed": listed, "others": found.others, "blind": found.blind, "faults": found.faults}
        print(dump({**document, "runs": [outcome_document(outcome) for outcome in found.outcomes]}), flush=True)
        return
    if found.blind is not None:
        _log.warning("no run can be supervised: %s", found.blind)
    lines = [*_changed(found.outcomes, shown)]
    for run_id, why in found.faults.items():
        if shown.get(run_id) != (why,):
            shown[run_id] = (why,)
            lines.append(f"{run_id}: not looked after: {why}")
    for line in lines:
        print(logs.redact(line), flush=True)


def _changed(outcomes: list[Outcome], shown: dict[str, tuple[object, ...]]) -> list[str]:
    lines = []
    for outcome in outcomes:
        told = following.printed_part(outcome)
        if shown.get(outcome.run_id) == told:
            continue
        shown[outcome.run_id] = told
        notes = "".join(f"; {note}" for note in following.with_job(outcome).notes[:2])
        lines.append(f"{format_time(outcome.at)} {outcome.run_id}: {outcome.status}: {outcome.reason}{notes}")
    return lines
