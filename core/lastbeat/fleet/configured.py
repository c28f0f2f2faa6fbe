"""Settings → the sweep of a fleet."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from lastbeat.alerts.port import Channel
from lastbeat.fleet.mark import MarkWriter
from lastbeat.fleet.ping import Ping
from lastbeat.fleet.sweep import PageWriter, Sweep
from lastbeat.model.fleet import Shard
from lastbeat.settings import Settings, opening, table
from lastbeat.stores.counting import Tally
from lastbeat.stores.port import Store
from lastbeat.stores.reading import ReadingStore
from lastbeat.watch.configured import watch_context
from lastbeat.watch.observe.log_observer import log_settings

PageMaker = Callable[[Settings, Store, Tally], PageWriter]
"""Makes the writer of a fleet's page: :func:`lastbeat.views.page.configured.configured_page`. The tally counts the
writer's requests to the store."""


def configured_sweep(
    settings: Settings,
    channels: Sequence[Channel],
    *,
    clock: Callable[[], datetime],
    shard: Shard | None = None,
    make_page: PageMaker | None = None,
) -> Sweep:
    """What watches a whole fleet, or a shard of it. Each pass leaves a mark, pings if the settings say so, and writes
    the page if ``make_page`` is given."""
    tally = Tally()
    root = opening.store(settings, tally=tally)
    url = settings[table.PING_URL]
    # The first part of a split fleet writes the page of all of it.
    first = shard is None or not shard.after
    return Sweep(
        watch_context(settings, channels, root, clock=clock, logs=log_settings(settings)),
        settings.fleet,
        shard=shard or Shard(),
        tally=tally,
        mark=MarkWriter(root, settings.fleet, shard),
        ping=Ping(url) if url else None,
        page=make_page(settings, root, tally) if make_page is not None and first else None,
    )


def dry_sweep(settings: Settings, channels: Sequence[Channel], *, clock: Callable[[], datetime]) -> Sweep:
    """What finds out what a pass over the fleet would decide and send. It can neither write nor send."""
    tally = Tally()
    root = ReadingStore(opening.store(settings, tally=tally))
    context = watch_context(settings, channels, root, clock=clock, logs=log_settings(settings), dry_run=True)
    state = None if context.state is None else ReadingStore(context.state)
    return Sweep(replace(context, state=state), settings.fleet, tally=tally)
