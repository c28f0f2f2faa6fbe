"""Settings → the parts of a watchdog: channels, watches, sweeps, views."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from lastbeat import opening
from lastbeat.deliver import registry
from lastbeat.deliver.port import Channel
from lastbeat.model.fleet import Shard
from lastbeat.observe.log_observer import LogSettings
from lastbeat.record.silences import Silences
from lastbeat.settings import Settings, catalogues, table
from lastbeat.stores.port import Store
from lastbeat.watchdog import Watch, WatchContext

if TYPE_CHECKING:
    from lastbeat.fleet.sweep import Sweep
    from lastbeat.page.writing import PageOfFleet
    from lastbeat.stores.counting import Tally
    from lastbeat.views.one_run import RunWatch
    from lastbeat.views.watching import FleetWatch


def channels(settings: Settings) -> tuple[Channel, ...]:
    """All configured channels."""
    _lend_to_boto3(settings)
    return registry.channels(settings.values)


def _lend_to_boto3(settings: Settings) -> None:
    """Pass ``.env`` on to boto3, which reads nothing but the process's environment."""
    for name, text in settings.environ.items():
        if name.startswith("AWS_") and not os.environ.get(name, "").strip():
            os.environ[name] = text


def signals(settings: Settings, *, places: bool = False) -> LogSettings:
    """What to look for in logs; with ``places``, also in those on this machine."""
    text = settings[table.SIGNALS]
    named = settings[table.LOGS] or ()
    return LogSettings(lambda: catalogues.catalogue(text), catalogues.stamp(text), named if places else ())


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
    context = _context(settings, to, root, clock=clock, signals=signals(settings, places=True))
    return Watch(run_id, replace(context, dry_run=dry_run))


def _context(
    settings: Settings, to: Sequence[Channel], root: Store, *, clock: Callable[[], datetime], signals: LogSettings
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
        signals=signals,
    )


def sweep(
    settings: Settings, to: Sequence[Channel], *, clock: Callable[[], datetime], shard: Shard | None = None
) -> "Sweep":
    """What watches a whole fleet, or a shard of it. Each pass leaves a mark; it also pings and writes the page if the
    settings say so."""
    from lastbeat.fleet.mark import MarkWriter  # noqa: PLC0415 - the watcher of one run has no use for these
    from lastbeat.fleet.ping import Ping  # noqa: PLC0415 - as above
    from lastbeat.fleet.sweep import Sweep  # noqa: PLC0415 - as above
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


def _page(settings: Settings, root: Store, shard: Shard | None, tally: "Tally") -> "PageOfFleet | None":
    every_s = 60 * settings[table.PAGE_MINUTES]
    # Of a fleet that is split one part writes the page of all of it.
    if every_s <= 0 or (shard is not None and shard.after):
        return None
    from lastbeat.page.writing import PageOfFleet  # noqa: PLC0415 - only where it is turned on

    return PageOfFleet(
        root,
        fleet_watch(settings, at=root),
        lambda run_id: run_watch(settings, run_id, at=root),
        every_s,
        stale_s=settings.policy.stale_s,
        tally=tally,
    )


def fleet_watch(settings: Settings, *, since_s: float = 86400.0, at: Store | None = None) -> "FleetWatch":
    """The view of a whole fleet. ``at`` is the store of an earlier call, or one that counts requests."""
    from lastbeat.views.watching import FleetWatch  # noqa: PLC0415 - only who looks needs it

    return FleetWatch(at or opening.store(settings), settings.policy, mask=settings.redactor, since_s=since_s)


def run_watch(settings: Settings, run_id: str, *, at: Store | None = None, places: bool = False) -> "RunWatch":
    """The view of one run. ``at`` as for :func:`fleet_watch`, ``places`` as for :func:`signals`. Raises
    :class:`InvalidRunIdError`."""
    from lastbeat.views.one_run import RunWatch  # noqa: PLC0415 - as above

    return RunWatch(
        at or opening.store(settings),
        settings.policy,
        run_id,
        mask=settings.redactor,
        link=opening.console_link(settings, run_id),
        catalogue=signals(settings, places=places),
    )
