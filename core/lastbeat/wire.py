"""Settings → store, channels, watch: the only importer of adapters, each when it is chosen."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from lastbeat import settings_signals
from lastbeat.deliver import registry
from lastbeat.deliver.port import Channel
from lastbeat.model.fleet import Shard
from lastbeat.model.redact import Redactor
from lastbeat.model.version import __version__
from lastbeat.observe.reading import LogSettings
from lastbeat.record.silences import Silences
from lastbeat.settings import Settings, SettingsError
from lastbeat.settings_table import DirectoryRoot
from lastbeat.stores.port import Store
from lastbeat.watchdog import Watch, WatchContext

if TYPE_CHECKING:
    from lastbeat.fleet.passes import Passes
    from lastbeat.fleet.sweep import Sweep
    from lastbeat.page.writing import PageOfFleet
    from lastbeat.sdk.extra import Extra
    from lastbeat.sdk.reporter import Surroundings
    from lastbeat.stores.counting import Tally
    from lastbeat.views.one_run import RunWatch
    from lastbeat.views.watching import FleetWatch

_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")


def redactor(settings: Settings) -> Redactor:
    """What masks every secret of ``settings``."""
    return Redactor(settings.secrets)


def root_url(settings: Settings) -> str:
    """The fleet root as people write it."""
    root = settings.root
    return str(root.path) if isinstance(root, DirectoryRoot) else f"s3://{root.bucket}/{root.prefix}".rstrip("/")


def store(settings: Settings, *, tally: "Tally | None" = None) -> Store:
    """The fleet root, with retries that are bounded in count and time. Asks nobody yet.

    ``tally`` counts what is asked of it, each attempt on its own.

    Raises :class:`SettingsError` or :class:`StoreError` for what cannot be understood of boto3's own settings.
    """
    from lastbeat.stores.retrying import RetryingStore  # noqa: PLC0415 - together with what it wraps

    bare = _bare_store(settings)
    if tally is not None:
        from lastbeat.stores.counting import CountingStore  # noqa: PLC0415 - only a sweep counts

        bare = CountingStore(bare, tally)
    return RetryingStore(bare)


def _bare_store(settings: Settings, *, training: bool = False) -> Store:
    """``training`` makes a directory that is not there on the first write, while for a watchdog that is a fault; and it
    writes where its user's links lead, for it can do no more there than its user may."""
    root = settings.root
    if isinstance(root, DirectoryRoot):
        from lastbeat.stores.directory import DirectoryStore  # noqa: PLC0415 - only the chosen adapter is loaded

        trusting = training or cast("bool", settings.values["LASTBEAT_FOLLOW_LINKS"])
        return DirectoryStore(root.path, create=training, trusting=trusting)
    from lastbeat.stores.s3 import s3_store  # noqa: PLC0415 - as above

    try:
        return s3_store(root_url(settings), settings.environ, region=settings.region)
    except ValueError as fault:
        # What only the adapter can judge: boto3's own variables, and its files.
        raise SettingsError([str(fault)]) from None


def surroundings(settings: Settings, *, rank: int | None = None, world_size: int | None = None) -> "Surroundings":
    """What a training process reports to: the fleet root, made if it is a directory that is not there yet."""
    import platform  # noqa: PLC0415 - the watchdog's own start-up has no use for these

    from lastbeat.sdk import instance  # noqa: PLC0415 - as above
    from lastbeat.sdk.attempts import restarts  # noqa: PLC0415 - as above
    from lastbeat.sdk.ranks import rank_of  # noqa: PLC0415 - as above
    from lastbeat.sdk.reporter import Surroundings  # noqa: PLC0415 - as above

    known = instance.at_once(settings.environ, platform.node())
    return Surroundings(
        # Without retries of its own: a beat that failed is tried again by the beat thread, with what is new by then.
        store=_bare_store(settings, training=True),
        instance_id=known.id,
        restarts=restarts(settings.environ),
        beat_s=cast("float", settings.values["LASTBEAT_BEAT_SECONDS"]),
        version=__version__,
        ask=lambda: instance.ask(settings.environ, known),
        extras=_extras(settings),
        rank=rank_of(settings.environ, platform.node(), rank, world_size),
        rank_beat_s=cast("float", settings.values["LASTBEAT_RANK_BEAT_SECONDS"]),
    )


def _extras(settings: Settings) -> "tuple[Extra, ...]":
    from lastbeat.sdk.watched import WatchdogWatched  # noqa: PLC0415 - as above

    stall_s = settings.policy.stall_s
    if stall_s is None:
        return (WatchdogWatched(),)
    from lastbeat.sdk.stacks import Stacks  # noqa: PLC0415 - only where stalls are watched

    beat_s = cast("float", settings.values["LASTBEAT_BEAT_SECONDS"])
    return (Stacks(stall_s, beat_s), WatchdogWatched())


def state(settings: Settings) -> Store | None:
    """Where the record goes when the fleet root cannot be written to, and how far logs were read; the folder is made on
    the first write, and is nobody else's: lines of logs in it are as they were printed."""
    if settings.state_dir is None:
        return None
    from lastbeat.stores.directory import DirectoryStore  # noqa: PLC0415 - as above

    return DirectoryStore(settings.state_dir, create=True, private=True, trusting=True)


def channels(settings: Settings) -> tuple[Channel, ...]:
    """Every channel that is set up."""
    lend(settings)
    return registry.channels(settings.values)


def lend(settings: Settings) -> None:
    """Give boto3 what ``.env`` says to it. It reads the process's environment and can be told in no other way."""
    for name, text in settings.environ.items():
        if name.startswith("AWS_") and not os.environ.get(name, "").strip():
            os.environ[name] = text


def signals(settings: Settings, *, places: bool = False) -> LogSettings:
    """What is looked for in logs; with ``places``, in those of this machine, too."""
    text = cast("str", settings.values["LASTBEAT_SIGNALS"])
    named = cast("tuple[str, ...] | None", settings.values["LASTBEAT_LOGS"]) or ()
    return LogSettings(lambda: settings_signals.catalogue(text), settings_signals.stamp(text), named if places else ())


def watch(
    settings: Settings,
    run_id: str,
    to: Sequence[Channel],
    *,
    clock: Callable[[], datetime],
    dry_run: bool = False,
    at: Store | None = None,
) -> Watch:
    """What takes ``run_id`` round once a tick; ``at`` is the store of an earlier call, which spares requests."""
    root = at or store(settings)
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
        state=state(settings),
        link=lambda run_id: console_link(settings, run_id),
        mask=redactor(settings),
        silences=Silences(root),
        signals=signals,
    )


def sweep(
    settings: Settings, to: Sequence[Channel], *, clock: Callable[[], datetime], shard: Shard | None = None
) -> "Sweep":
    """What takes the whole fleet, or a shard of it, round once a pass."""
    from lastbeat.stores.counting import Tally  # noqa: PLC0415 - as below

    tally = Tally()
    return _sweep(settings, to, clock, shard, store(settings, tally=tally), tally)


def passes(
    settings: Settings, to: Sequence[Channel], *, clock: Callable[[], datetime], shard: Shard | None = None
) -> "Passes":
    """What makes the passes of one process over the fleet, or a shard of it: each with its mark and its ping."""
    from lastbeat.fleet.mark import Mark  # noqa: PLC0415 - the watcher of one run has no use for these
    from lastbeat.fleet.passes import Passes  # noqa: PLC0415 - as above
    from lastbeat.fleet.ping import Ping  # noqa: PLC0415 - as above
    from lastbeat.stores.counting import Tally  # noqa: PLC0415 - as above

    tally = Tally()
    root = store(settings, tally=tally)
    url = cast("str | None", settings.values["LASTBEAT_PING_URL"])
    return Passes(
        _sweep(settings, to, clock, shard, root, tally),
        Mark(root, settings.fleet, shard),
        Ping(url) if url else None,
        _page(settings, root, shard, tally),
    )


def _page(settings: Settings, root: Store, shard: Shard | None, tally: "Tally") -> "PageOfFleet | None":
    every_s = 60 * cast("float", settings.values["LASTBEAT_PAGE_MINUTES"])
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


def _sweep(
    settings: Settings,
    to: Sequence[Channel],
    clock: Callable[[], datetime],
    shard: Shard | None,
    root: Store,
    tally: "Tally",
) -> "Sweep":
    from lastbeat.fleet.sweep import Sweep  # noqa: PLC0415 - as above

    context = _context(settings, to, root, clock=clock, signals=signals(settings))
    return Sweep(context, settings.fleet, shard=shard or Shard(), tally=tally)


def fleet_watch(settings: Settings, *, since_s: float = 86400.0, at: Store | None = None) -> "FleetWatch":
    """What people look at a whole fleet with; ``at`` is the store of an earlier call, or one that counts."""
    from lastbeat.views.watching import FleetWatch  # noqa: PLC0415 - only who looks needs it

    return FleetWatch(at or store(settings), settings.policy, mask=redactor(settings), since_s=since_s)


def run_watch(settings: Settings, run_id: str, *, at: Store | None = None, places: bool = False) -> "RunWatch":
    """What people look at one run with; ``at`` as for :func:`fleet_watch`, ``places`` as for :func:`signals`. Raises
    :class:`InvalidRunIdError`."""
    from lastbeat.views.one_run import RunWatch  # noqa: PLC0415 - as above

    return RunWatch(
        at or store(settings),
        settings.policy,
        run_id,
        mask=redactor(settings),
        link=console_link(settings, run_id),
        catalogue=signals(settings, places=places),
    )


def console_link(settings: Settings, run_id: str) -> str | None:
    """The run's folder in the S3 console; None where there is no such console to look at."""
    root = settings.root
    if isinstance(root, DirectoryRoot) or any(settings.environ.get(name, "").strip() for name in _ENDPOINTS):
        return None
    # AWS has three partitions, each with a console of its own.
    others = {"cn-": "console.amazonaws.cn", "us-gov-": "console.amazonaws-us-gov.com"}
    host = next((own for start, own in others.items() if settings.region.startswith(start)), "console.aws.amazon.com")
    folder = quote(f"{root.prefix}/{run_id}/".lstrip("/"), safe="")
    return f"https://{host}/s3/buckets/{root.bucket}?region={settings.region}&prefix={folder}"
