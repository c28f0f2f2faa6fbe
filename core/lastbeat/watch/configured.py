"""Settings → the watch of one run, and what the watches of a fleet share."""

from collections.abc import Callable, Sequence
from datetime import datetime

from lastbeat.alerts.port import Channel
from lastbeat.settings import Settings, opening
from lastbeat.stores.port import Store
from lastbeat.stores.reading import ReadingStore
from lastbeat.watch.effects.blindness import state_key
from lastbeat.watch.effects.routing import Routing
from lastbeat.watch.observe.log_observer import LogSettings, log_settings
from lastbeat.watch.record.channels import KnownChannels
from lastbeat.watch.record.known_failures import KnownFailures
from lastbeat.watch.record.limits import LISTED_FOR_S, FleetLimits
from lastbeat.watch.record.routes import Routes
from lastbeat.watch.record.silences import Silences
from lastbeat.watch.watchdog import Watch, WatchContext


def configured_watch(
    settings: Settings,
    run_id: str,
    channels: Sequence[Channel],
    *,
    clock: Callable[[], datetime],
    dry_run: bool = False,
    at: Store | None = None,
) -> Watch:
    """The watch of ``run_id``. ``at`` is the store of an earlier call, which saves requests."""
    root = at or opening.store(settings)
    logs = log_settings(settings, places=True)
    return Watch(run_id, watch_context(settings, channels, root, clock=clock, logs=logs, dry_run=dry_run))


def watch_context(
    settings: Settings,
    channels: Sequence[Channel],
    root: Store,
    *,
    clock: Callable[[], datetime],
    logs: LogSettings,
    dry_run: bool = False,
) -> WatchContext:
    """What the watches of all runs below ``root`` share."""
    return WatchContext(
        root,
        channels,
        settings.policy,
        clock,
        state=opening.state(settings),
        link=lambda run_id: opening.run_link(settings, run_id),
        mask=settings.redactor,
        silences=Silences(root),
        failures=KnownFailures(root),
        limits=FleetLimits(root, LISTED_FOR_S),
        routing=Routing(Routes(root), _known_channels(settings, root, dry_run=dry_run)),
        signals=logs,
        dry_run=dry_run,
    )


def _known_channels(settings: Settings, root: Store, *, dry_run: bool) -> KnownChannels:
    if dry_run:
        return KnownChannels(ReadingStore(root))
    return KnownChannels(root, opening.state(settings), state_key("channels", root.url, "known"))
