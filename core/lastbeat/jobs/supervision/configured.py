"""Settings → the supervision of one run, and its watch."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from lastbeat.alerts.port import Channel
from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.jobs.launchers import registry
from lastbeat.jobs.launchers.local.launcher import LocalLauncher
from lastbeat.jobs.launchers.port import JobRefusedError, Launcher
from lastbeat.jobs.supervision import commands, surroundings
from lastbeat.jobs.supervision.lease import SupervisorLease
from lastbeat.jobs.supervision.pass_reports import PassReports
from lastbeat.jobs.supervision.reactions import Reactions
from lastbeat.jobs.supervision.restarting import RestartExecutor, StopExecutor, last_written, spec_of
from lastbeat.jobs.supervision.supervisor import Supervisor
from lastbeat.model.restart import RestartPolicy, Supervision
from lastbeat.settings import Settings, SettingsError, catalogues, opening, table
from lastbeat.stores.port import Store
from lastbeat.watch.configured import watch_context
from lastbeat.watch.observe.log_observer import log_settings
from lastbeat.watch.watchdog import Watch


def supervised_watch(
    settings: Settings, supervisor: Supervisor, channels: Sequence[Channel], *, clock: Callable[[], datetime]
) -> Watch:
    """The watch of a run that is supervised: it also starts its jobs, and starts them again."""
    meant = supervisor.policy.reaction_signals.values() if supervisor.policy is not None else ()
    noticed = frozenset(each for names in meant for each in names)
    logs = log_settings(settings, places=True, noticed=noticed)
    return Watch(
        supervisor.run_id,
        replace(
            watch_context(settings, channels, supervisor.store, clock=clock, logs=logs),
            supervisor=supervisor,
            executors=supervisor.executors,
            token=supervisor.lease.token if supervisor.lease is not None else None,
        ),
    )


def supervise(  # noqa: PLR0913 - what is supervised, how, and by whom
    settings: Settings,
    run_id: str,
    supervision: Supervision,
    policy: RestartPolicy | None,
    lease: SupervisorLease | None = None,
    *,
    at: Store | None = None,
    launcher: Launcher | None = None,
    reports: PassReports | None = None,
) -> Supervisor:
    """What looks after the jobs of ``run_id``, as ``supervision`` says. ``lease`` is renewed meanwhile. ``at`` is the
    store of an earlier call; ``launcher`` is one that is there already; ``reports`` are those of an agent's passes."""
    needs_state = launcher is None and launcher_traits(supervision.launcher).needs_state
    writes = needs_state or (policy is not None and bool(policy.reactions))
    state_dir = opening.state_dir(settings, writes=writes)
    root = at or opening.store(settings)
    try:
        by = launcher or registry.module(supervision.launcher).launcher(
            state_dir, supervision.spec.options, supervision.place
        )
    except JobRefusedError as error:
        raise SettingsError([error.told]) from None
    place = supervision.checkpoints
    opened = (lambda: by.files(place) or opening.place(settings, place)) if place else None
    url = opening.root_url(settings)
    supervisor = Supervisor(
        run_id,
        root,
        by,
        policy,
        opened,
        settings[table.RESTART_DELAY_SECONDS],
        lease=lease,
        reads_output=not supervision.logs and not supervision.spec.output,
        reports=reports,
    )
    supervisor.reactions = _reactions(settings, supervisor, supervision)
    inherited = surroundings.kept(state_dir, url, run_id, supervision.begun_at)
    supervisor.starts = RestartExecutor(
        by,
        lambda action: replace(spec_of(supervision, action, run_id, url), inherited=inherited),
        root.clock,
        lambda: last_written(root, run_id),
    )
    return supervisor


def _reactions(settings: Settings, supervisor: Supervisor, supervision: Supervision) -> Reactions | None:
    """What carries out the policy's ``on:``; None: it has none."""
    policy = supervisor.policy
    if policy is None or not policy.reactions or settings.state_dir is None:
        return None
    # Runs of other fleets may have the same id.
    folder = settings.state_dir / "commands" / hashlib.sha256(opening.root_url(settings).encode()).hexdigest()[:12]
    # A folder of jobs elsewhere is none here.
    remote = launcher_traits(supervision.launcher).remote
    run, cwd = supervisor.run_id, str(Path.cwd()) if remote else supervision.spec.cwd
    here = commands.place(folder)
    runs = commands.Commands(run, supervisor.store, LocalLauncher(folder), policy, cwd, here, commands.cut_to_end)
    text = settings[table.SIGNALS]
    return Reactions(
        policy,
        runs,
        StopExecutor(supervisor.launcher),
        supervisor.checkpoints,
        supervision.begun_at,
        settings.policy.alert_on,
        lambda name: next((each for each in catalogues.catalogue(text).signals if each.name == name), None),
    )
