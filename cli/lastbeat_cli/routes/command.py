"""``routes``: choose which channels an alert goes to, and whom it mentions."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from lastbeat.alerts.port import Channel
from lastbeat.model import runid
from lastbeat.model.alert import Message
from lastbeat.model.as_json import picked
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, read_heartbeat
from lastbeat.model.route import ROUTES_FILE, RouteTable
from lastbeat.model.status import Event, Status
from lastbeat.model.text import counted, owner_name
from lastbeat.model.times import parse_time
from lastbeat.settings import Settings, SettingsError, opening
from lastbeat.settings.channels import configured_channels
from lastbeat.stores.port import Store, StoreError
from lastbeat.watch.decide.routes import choose
from lastbeat.watch.effects.routing import applied
from lastbeat.watch.record import routes
from lastbeat.watch.record.routes_file import compiled, put_routes
from lastbeat_cli import exits, options, values
from lastbeat_cli.document import tell
from lastbeat_cli.lazy_group import CommandGroup
from lastbeat_cli.routes.lines import absent, described, table_document

WHICH = "Which alert"
EPILOG = """\
Exit status:
  0  done
  1  the routes can be used, but name a channel that is not set up here
  3  the routes cannot be used: every fault is listed with its line; also wrong settings or arguments
"""
EPILOG_TEST = f"""\
{EPILOG}
Examples:
  lastbeat routes test --run mistral-7b --status failed
  lastbeat routes test --run mistral-7b --status timed_out --owner alice --at 2026-01-31T03:00:00+01:00
"""
_EVENTS = {event.value.lower(): event for event in Event if event is not Event.TEST}
_STATUSES = {
    Event.FAILED: Status.FAILED, Event.TIMED_OUT: Status.TIMED_OUT, Event.SUCCEEDED: Status.SUCCEEDED,
    Event.CANCELLED: Status.CANCELLED, Event.PREEMPTED: Status.PREEMPTED,
    Event.BLIND: Status.UNKNOWN, Event.SIGHTED: Status.UNKNOWN,
}  # fmt: skip


@click.group("routes", cls=CommandGroup)
def command() -> None:
    """Choose which channels an alert goes to, and whom it mentions: by run, owner, team, status, severity, cause and
    hour.

    The routes of a fleet are a YAML file beside its runs, _watchdog/routes.yaml. Without this file every alert goes to
    every channel.
    """


@command.command("check", cls=options.Grouped, epilog=EPILOG)
@click.argument("file", metavar="[PATH]", required=False)
@options.place
@options.form
def check(*, file: str | None, as_json: bool, **given: str | None) -> int:
    """Check the routes at PATH, or those of the fleet; every fault is listed."""
    settings = values.settings(given, [])
    name, table = _asked_for(settings, file)
    if table is None:
        note = f"{opening.root_url(settings)} has no routes: every alert goes to every channel"
        tell({"file": name, "routes": None, "notes": [note]}, [note], as_json=as_json)
        return exits.OK
    notes = absent(table, configured_channels(settings))
    told = f"{name} can be used: {counted(len(table.routes) - 1, 'route')} and the default"
    document = {"file": name, "routes": [route.name for route in table.routes], "notes": notes}
    tell(document, [told, *(f"Note: {note}" for note in notes)], as_json=as_json)
    return exits.WARNING if notes else exits.OK


@command.command("show", cls=options.Grouped, epilog=EPILOG)
@options.place
@options.form
def show(*, as_json: bool, **given: str | None) -> int:
    """Show the routes of the fleet in order, and the channels that are set up here."""
    settings = values.settings(given, [])
    (_, table), channels = _asked_for(settings, None), configured_channels(settings)
    if table is None:
        note = f"{opening.root_url(settings)} has no routes: every alert goes to every channel"
        tell({"routes": None, "people": {}, "channels": _named(channels), "notes": [note]}, [note], as_json=as_json)
        return exits.OK
    notes = absent(table, channels)
    document = {**table_document(table), "channels": _named(channels), "notes": notes}
    told = [*described(table), *_channel_lines(channels), *(f"Note: {note}" for note in notes)]
    tell(document, told, as_json=as_json)
    return exits.WARNING if notes else exits.OK


@command.command("set", cls=options.Grouped, epilog=EPILOG)
@click.argument("file", metavar="PATH")
@options.place
@options.form
def put(*, file: str, as_json: bool, **given: str | None) -> int:
    """Make the file PATH the routes of the fleet, if it can be used. Takes effect within a minute for every watcher."""
    settings = values.settings(given, [])
    body, store = _read(file), opening.store(settings)
    table, faults = put_routes(store, body, file)
    if table is None:
        raise SettingsError(list(map(str, faults)))
    notes = absent(table, configured_channels(settings))
    told = f"{file} holds for {store.url} now: {ROUTES_FILE}"
    document = {"file": f"{store.url}/{ROUTES_FILE}", "routes": [route.name for route in table.routes], "notes": notes}
    tell(document, [told, *(f"Note: {note}" for note in notes)], as_json=as_json)
    return exits.WARNING if notes else exits.OK


@command.command("remove", cls=options.Grouped, epilog=EPILOG)
@options.place
@options.form
def remove(*, as_json: bool, **given: str | None) -> int:
    """Remove the routes of the fleet: every alert goes to every channel again."""
    store = opening.store(values.settings(given, []))
    were = routes.remove(store)
    told = f"{store.url} has no routes any more" if were else f"{store.url} had no routes"
    tell({"removed": were}, [told], as_json=as_json)
    return exits.OK


@command.command("test", cls=options.Grouped, epilog=EPILOG_TEST)
@options.option("--run RUN", "The run; owner and team are read from it, if it names them.", WHICH)
@options.option("--status S", f"Event of the alert: {', '.join(_EVENTS)}.", WHICH)
@options.option("--owner NAME", "The run's owner [as the run says].", WHICH, name="whose")
@options.option("--team NAME", "The owner's team [as the run says].", WHICH, name="of_team")
@options.option("--cause TYPE", "Error type of the cause [unknown].", WHICH)
@options.option("--at TIME", "Time of the alert: 2026-01-31T03:00:00+01:00 [now].", WHICH)
@options.option("--file PATH", "Test the routes at PATH [those of the fleet].", WHICH)
@options.place
@options.form
def test(  # noqa: PLR0913 - one for each option
    *,
    run: str | None,
    status: str | None,
    whose: str | None,
    of_team: str | None,
    cause: str | None,
    at: str | None,
    file: str | None,
    as_json: bool,
    **given: str | None,
) -> int:
    """Show which routes would take an alert, where it would go, and whom it would mention. Sends nothing."""
    faults: list[str] = []
    run_id, event, when = _run(run, faults), _event(status, faults), _time(at, faults)
    settings = values.settings(given, faults)
    (_, table), channels = _asked_for(settings, file), configured_channels(settings)
    store = opening.store(settings)
    owner, team, notes = owner_name(whose), owner_name(of_team), list[str]()
    if owner is None and team is None:
        owner, team, notes = _read_owner(store, run_id)
    message = Message(
        run_id, event, _STATUSES.get(event, Status.RUNNING), "", when or store.clock(),
        cause=cause, owner=owner, team=team,
    )  # fmt: skip
    _tell(table, message, channels, notes, as_json=as_json)
    return exits.OK


def _tell(
    table: RouteTable | None, message: Message, channels: Sequence[Channel], notes: Sequence[str], *, as_json: bool
) -> None:
    taken, dropped, told, spared = list[str](), False, message, tuple[str, ...]()
    if table is not None:
        choice = choose(table, message)
        routed, told = applied(choice, message, [channel.identity for channel in channels])
        taken, dropped, spared = list(choice.by), not choice.to, routed.left_out if routed is not None else ()
    goes = [channel for channel in channels if channel.identity not in spared]
    left_out = [channel for channel in channels if channel.identity in spared]
    mentions = [picked(each, "name slack email pagerduty") for each in told.mentions]
    remarks = [*told.notes, *notes]
    document: dict[str, object] = {
        "status": message.event.value,
        **picked(message, "run_id severity at"),
        **picked(told, "owner team"),
        "routes": taken,
        "dropped": dropped,
        "channels": _named(goes),
        "left_out": _named(left_out),
        "mentions": mentions,
        "notes": remarks,
    }
    whose = f"{told.owner or 'nobody known'}, team {told.team or 'not known'}"
    lines = [
        f"Alert: {message.event.value} ({message.severity}) of {message.run_id}, owner {whose}",
        f"Taken by: {', '.join(taken) or 'no route, as there are none'}",
        f"Goes to: {_listed(goes) if not dropped else 'nobody: it is recorded, and not sent'}",
    ]
    if left_out and not dropped:
        lines.append(f"Left out: {_listed(left_out)}")
    if mentions:
        lines.append(f"Mentions: {', '.join(' '.join(filter(None, each.values())) for each in mentions)}")
    tell(document, [*lines, *(f"Note: {note}" for note in remarks)], as_json=as_json)


# Arguments.


def _asked_for(settings: Settings, file: str | None) -> tuple[str, RouteTable | None]:
    """The name and the routes of ``file``, else of the fleet's file, which may have none.

    Raises :class:`SettingsError` with all faults in them.
    """
    if file is not None:
        body, name = _read(file), file
    else:
        store = opening.store(settings)
        name, blob = f"{store.url}/{ROUTES_FILE}", routes.read_file(store)
        if blob is None:
            return name, None
        if blob.size_bytes > len(blob.body):
            raise SettingsError([f"{name} has {blob.size_bytes:,} bytes; {routes.FILE_LIMIT_BYTES:,} is the most"])
        body = blob.body
    table, faults = compiled(body, name)
    if table is None:
        raise SettingsError(list(map(str, faults)))
    return name, table


def _read(file: str) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(routes.FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise SettingsError([f"{file} cannot be read: {error.strerror}; check the path"]) from None


def _run(text: str | None, faults: list[str]) -> str:
    if text is None:
        faults.append("--run is missing; use for example --run mistral-7b")
        return ""
    return values.run_id(text, faults)


def _event(text: str | None, faults: list[str]) -> Event:
    event = _EVENTS.get((text or "").strip().lower())
    if event is None:
        given = "--status is missing" if text is None else f"--status={text[:40]!r} is none of them"
        faults.append(f"{given}; there are {', '.join(_EVENTS)}")
    return event or Event.FAILED


def _time(text: str | None, faults: list[str]) -> datetime | None:
    when = parse_time(text) if text is not None else None
    if text is not None and when is None:
        faults.append(f"--at={text[:40]!r} is not a time; use for example 2026-01-31T03:00:00+01:00")
    return when


def _read_owner(store: Store, run_id: str) -> tuple[str | None, str | None, list[str]]:
    """Owner and team as the run states them, and notes if they cannot be read."""
    try:
        blob = store.read(f"{run_id}/{runid.METADATA}", DOCUMENT_LIMIT_BYTES)
    except StoreError as error:
        return None, None, [f"whose run it is could not be read: {error}"]
    if blob is None:
        return None, None, []
    said = read_heartbeat(blob)
    return said.owner, said.team, []


# Output.


def _listed(channels: Sequence[Channel]) -> str:
    return ", ".join(channel.describe for channel in channels) or "nobody: no channel is set up here"


def _named(channels: Sequence[Channel]) -> list[str]:
    return [channel.identity.rpartition(":")[0] for channel in channels]


def _channel_lines(channels: Sequence[Channel]) -> list[str]:
    told = [f"  {name:<20} {channel.describe}" for name, channel in zip(_named(channels), channels, strict=True)]
    return ["", "Channels that are set up here", *(told or ["  none"])]
