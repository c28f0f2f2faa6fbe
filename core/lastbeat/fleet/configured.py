"""Settings → the sweep of a fleet."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from lastbeat.alerts.port import Channel
from lastbeat.fleet.mark import MarkWriter
from lastbeat.fleet.ping import Ping
from lastbeat.fleet.sweep import PassViews, Sweep
from lastbeat.model.fleet import Shard
from lastbeat.settings import Settings, opening, table
from lastbeat.stores.counting import Tally
from lastbeat.stores.port import Store
from lastbeat.stores.reading import ReadingStore
from lastbeat.watch.configured import watch_context
from lastbeat.watch.observe.log_observer import log_settings

ViewsMaker = Callable[[Settings, Store, Tally, Shard], PassViews]
"""Makes what a pass leaves for views: :func:`lastbeat.views.left_gists.left_for_views`. The tally counts the requests
of its own."""


def configured_sweep(
    settings: Settings,
    channels: Sequence[Channel],
    *,
    clock: Callable[[], datetime],
    shard: Shard | None = None,
    make_views: ViewsMaker | None = None,
) -> Sweep:
    """What watches a whole fleet, or a shard of it. Each pass leaves a mark, pings if the settings say so, and leaves
    what ``make_views`` says for views."""
    tally = Tally()
    root = opening.store(settings, tally=tally)
    url = settings[table.PING_URL]
    views = make_views(settings, root, tally, shard or Shard()) if make_views is not None else None
    seen = root if views is None else views.store
    return Sweep(
        watch_context(settings, channels, seen, clock=clock, logs=log_settings(settings)),
        settings.fleet,
        shard=shard or Shard(),
        tally=tally,
        mark=MarkWriter(root, settings.fleet, shard),
        ping=Ping(url) if url else None,
        views=views,
    )


def dry_sweep(settings: Settings, channels: Sequence[Channel], *, clock: Callable[[], datetime]) -> Sweep:
    """What finds out what a pass over the fleet would decide and send. It can neither write nor send."""
    tally = Tally()
    root = ReadingStore(opening.store(settings, tally=tally))
    context = watch_context(settings, channels, root, clock=clock, logs=log_settings(settings), dry_run=True)
    state = None if context.state is None else ReadingStore(context.state)
    return Sweep(replace(context, state=state), settings.fleet, tally=tally)
