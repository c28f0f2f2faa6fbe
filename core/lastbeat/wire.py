"""Settings → the parts of a watchdog: channels, watches, sweeps, views."""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lastbeat.alerts import registry
from lastbeat.alerts.port import Channel
from lastbeat.settings import Settings, SettingsError, catalogues, opening, table
from lastbeat.stores.port import Store
from lastbeat.stores.reading import ReadingStore
from lastbeat.watch.effects.blindness import state_key
from lastbeat.watch.effects.routing import Routing
from lastbeat.watch.observe.log_observer import LogSettings
from lastbeat.watch.record.channels import KnownChannels
from lastbeat.watch.record.known_failures import KnownFailures
from lastbeat.watch.record.limits import LISTED_FOR_S, FleetLimits
from lastbeat.watch.record.routes import Routes
from lastbeat.watch.record.silences import Silences
from lastbeat.watch.watchdog import Watch, WatchContext

if TYPE_CHECKING:
    from lastbeat.fleet.sweep import Sweep
    from lastbeat.jobs.launchers.port import Launcher
    from lastbeat.jobs.supervision.lease import SupervisorLease
    from lastbeat.jobs.supervision.pass_reports import PassReports
    from lastbeat.jobs.supervision.reactions import Reactions
    from lastbeat.jobs.supervision.supervisor import SupervisedRun, Supervisor
    from lastbeat.model.fleet import Shard
    from lastbeat.model.restart import RestartPolicy, Supervision
    from lastbeat.stores.counting import Tally
    from lastbeat.views.one_run import RunWatch
    from lastbeat.views.page.writing import PageOfFleet
    from lastbeat.views.watching import FleetWatch


def channels(settings: Settings) -> tuple[Channel, ...]:
    """All configured channels, those with names of their own last."""
    _lend_to_boto3(settings)
    return (*registry.channels(settings.values), *registry.named_channels(settings.named))


def _lend_to_boto3(settings: Settings) -> None:
    """Pass ``.env`` on to boto3, which reads nothing but the process's environment."""
    for name, text in settings.environ.items():
        if name.startswith("AWS_") and not os.environ.get(name, "").strip():
            os.environ[name] = text


def signals(settings: Settings, *, places: bool = False, noticed: frozenset[str] = frozenset()) -> LogSettings:
    """What to look for in logs; with ``places``, also in those on this machine. Of the signals ``noticed`` each line is
    told, whatever it means for the run."""
    text = settings[table.SIGNALS]
    named = settings[table.LOGS] or ()
    stamp = " ".join((catalogues.stamp(text), *sorted(noticed)))
    return LogSettings(lambda: catalogues.noticing(text, noticed), stamp, named if places else ())


def watch(
    settings: Settings,
    run_id: str,
    to: Sequence[Channel],
    *,
    clock: Callable[[], datetime],
    dry_run: bool = False,
    at: Store | None = None,
) -> Watch:
    """The watch of ``run_id``. ``at`` is the store of an earlier call, which saves requests."""
    root = at or opening.store(settings)
    context = _context(settings, to, root, clock=clock, signals=signals(settings, places=True), dry_run=dry_run)
    return Watch(run_id, replace(context, dry_run=dry_run))


def supervised_watch(
    settings: Settings, supervised: "SupervisedRun", to: Sequence[Channel], *, clock: Callable[[], datetime]
) -> Watch:
    """The watch of a run that is supervised: it also starts its jobs, and starts them again."""
    root = supervised.store
    policy = supervised.supervisor.policy
    meant = policy.reaction_signals.values() if policy is not None else ()
    named = frozenset(each for names in meant for each in names)
    looked_for = signals(settings, places=True, noticed=named)
    context = _context(settings, to, root, clock=clock, signals=looked_for)
    return Watch(
        supervised.run_id,
        replace(
            context,
            supervisor=supervised.supervisor,
            executors=supervised.executors,
            token=lease.token if (lease := supervised.supervisor.lease) is not None else None,
        ),
    )


def supervise(  # noqa: PLR0913 - what is supervised, how, and by whom
    settings: Settings,
    run_id: str,
    supervision: "Supervision",
    policy: "RestartPolicy | None",
    lease: "SupervisorLease | None" = None,
    *,
    at: Store | None = None,
    launcher: "Launcher | None" = None,
    reports: "PassReports | None" = None,
) -> "SupervisedRun":
    """What looks after the jobs of ``run_id``, as ``supervision`` says. ``lease`` is renewed meanwhile. ``at`` as for
    :func:`watch`; ``launcher`` is one that is there already; ``reports`` are those of an agent's passes."""
    from lastbeat.explain.launchers.traits import launcher_traits  # noqa: PLC0415 - only who supervises needs these
    from lastbeat.jobs.launchers import registry as launchers  # noqa: PLC0415 - as above
    from lastbeat.jobs.launchers.port import JobRefusedError  # noqa: PLC0415 - as above
    from lastbeat.jobs.supervision import surroundings  # noqa: PLC0415 - as above
    from lastbeat.jobs.supervision.restarting import RestartExecutor, last_written, spec_of  # noqa: PLC0415 - as above
    from lastbeat.jobs.supervision.supervisor import SupervisedRun, Supervisor  # noqa: PLC0415 - as above

    needs_state = launcher is None and launcher_traits(supervision.launcher).needs_state
    writes = needs_state or (policy is not None and bool(policy.reactions))
    state_dir = opening.state_dir(settings, writes=writes)
    root = at or opening.store(settings)
    try:
        by = launcher or launchers.module(supervision.launcher).launcher(
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
    executor = RestartExecutor(
        by,
        lambda action: replace(spec_of(supervision, action, run_id, url), inherited=inherited),
        root.clock,
        lambda: last_written(root, run_id),
    )
    return SupervisedRun(run_id, root, supervisor, executor)


def _reactions(settings: Settings, supervisor: "Supervisor", supervision: "Supervision") -> "Reactions | None":
    """What carries out the policy's ``on:``; None: it has none."""
    from lastbeat.explain.launchers.traits import launcher_traits  # noqa: PLC0415 - as above
    from lastbeat.jobs.launchers.local.launcher import LocalLauncher  # noqa: PLC0415 - as above
    from lastbeat.jobs.supervision import commands  # noqa: PLC0415 - as above
    from lastbeat.jobs.supervision.reactions import Reactions  # noqa: PLC0415 - as above
    from lastbeat.jobs.supervision.stopping import StopExecutor  # noqa: PLC0415 - as above

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


def _context(
    settings: Settings,
    to: Sequence[Channel],
    root: Store,
    *,
    clock: Callable[[], datetime],
    signals: LogSettings,
    dry_run: bool = False,
) -> WatchContext:
    return WatchContext(
        root,
        to,
        settings.policy,
        clock,
        state=opening.state(settings),
        link=lambda run_id: opening.run_link(settings, run_id),
        mask=settings.redactor,
        silences=Silences(root),
        failures=KnownFailures(root),
        limits=FleetLimits(root, LISTED_FOR_S),
        routing=Routing(Routes(root), _known_channels(settings, root, dry_run=dry_run)),
        signals=signals,
    )


def _known_channels(settings: Settings, root: Store, *, dry_run: bool) -> KnownChannels:
    if dry_run:
        return KnownChannels(ReadingStore(root))
    return KnownChannels(root, opening.state(settings), state_key("channels", root.url, "known"))


def sweep(
    settings: Settings, to: Sequence[Channel], *, clock: Callable[[], datetime], shard: "Shard | None" = None
) -> "Sweep":
    """What watches a whole fleet, or a shard of it. Each pass leaves a mark; it also pings and writes the page if the
    settings say so."""
    from lastbeat.fleet.mark import MarkWriter  # noqa: PLC0415 - the watcher of one run has no use for these
    from lastbeat.fleet.ping import Ping  # noqa: PLC0415 - as above
    from lastbeat.fleet.sweep import Sweep  # noqa: PLC0415 - as above
    from lastbeat.model.fleet import Shard  # noqa: PLC0415 - as above
    from lastbeat.stores.counting import Tally  # noqa: PLC0415 - as above

    tally = Tally()
    root = opening.store(settings, tally=tally)
    url = settings[table.PING_URL]
    return Sweep(
        _context(settings, to, root, clock=clock, signals=signals(settings)),
        settings.fleet,
        shard=shard or Shard(),
        tally=tally,
        mark=MarkWriter(root, settings.fleet, shard),
        ping=Ping(url) if url else None,
        page=_page(settings, root, shard, tally),
    )


def dry_sweep(settings: Settings, to: Sequence[Channel], *, clock: Callable[[], datetime]) -> "Sweep":
    """What finds out what a pass over the fleet would decide and send. It can neither write nor send."""
    from lastbeat.fleet.sweep import Sweep  # noqa: PLC0415 - as above
    from lastbeat.stores.counting import Tally  # noqa: PLC0415 - as above

    tally = Tally()
    root = ReadingStore(opening.store(settings, tally=tally))
    context = _context(settings, to, root, clock=clock, signals=signals(settings), dry_run=True)
    state = None if context.state is None else ReadingStore(context.state)
    return Sweep(replace(context, state=state, dry_run=True), settings.fleet, tally=tally)


def _page(settings: Settings, root: Store, shard: "Shard | None", tally: "Tally") -> "PageOfFleet | None":
    every_s = 60 * settings[table.PAGE_MINUTES]
    # Of a fleet that is split one part writes the page of all of it.
    if every_s <= 0 or (shard is not None and shard.after):
        return None
    from lastbeat.views.fleet_losses import LossReader  # noqa: PLC0415 - as above
    from lastbeat.views.page.writing import PageOfFleet  # noqa: PLC0415 - only where it is turned on

    limits = FleetLimits(root, LISTED_FOR_S)
    return PageOfFleet(
        root,
        fleet_watch(settings, at=root, limits=limits),
        lambda run_id: run_watch(settings, run_id, at=root, limits=limits),
        every_s,
        stale_s=settings.policy.stale_s,
        tally=tally,
        losses=LossReader(root, opening.root_url(settings), settings.redactor),
    )


def fleet_watch(
    settings: Settings,
    *,
    since_s: float = 86400.0,
    at: Store | None = None,
    limits: FleetLimits | None = None,
    explains: bool = False,
) -> "FleetWatch":
    """The view of a whole fleet. ``at`` is the store of an earlier call, or one that counts requests. It keeps
    ``limits`` up to date, by what its listings show. ``explains``: it also reads the logs of runs that no pass has
    recorded."""
    from lastbeat.views.log_judge import LogJudge  # noqa: PLC0415 - only who looks needs it
    from lastbeat.views.watching import FleetWatch  # noqa: PLC0415 - as above

    store = at or opening.store(settings)
    log_judge = LogJudge(store, settings.redactor, signals(settings), opening.state(settings)) if explains else None
    return FleetWatch(
        store, settings.policy, mask=settings.redactor, since_s=since_s, limits=limits, log_judge=log_judge
    )


def run_watch(
    settings: Settings,
    run_id: str,
    *,
    at: Store | None = None,
    places: bool = False,
    limits: FleetLimits | None = None,
) -> "RunWatch":
    """The view of one run. ``at`` as for :func:`fleet_watch`, ``places`` as for :func:`signals`; ``limits`` are those
    of a fleet that is looked at, too. Raises :class:`InvalidRunIdError`."""
    from lastbeat.views.one_run import RunWatch  # noqa: PLC0415 - as above

    return RunWatch(
        at or opening.store(settings),
        settings.policy,
        run_id,
        mask=settings.redactor,
        link=opening.console_link(settings, run_id),
        catalogue=signals(settings, places=places),
        limits=limits,
    )
