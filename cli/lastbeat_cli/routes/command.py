"""``routes``: choose which channels an alert goes to, and whom it mentions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click

from lastbeat.alerts.port import Channel
from lastbeat.model import runid
from lastbeat.model.alert import Message
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, read_heartbeat
from lastbeat.model.route import ROUTES_FILE, RouteTable
from lastbeat.model.status import Event, Status
from lastbeat.model.text import clean, counted, owner_name
from lastbeat.model.times import format_time, parse_time
from lastbeat.settings import Settings, SettingsError, opening
from lastbeat.settings.channels import configured_channels
from lastbeat.stores.port import Store, StoreError
from lastbeat.watch.decide.routes import choose
from lastbeat.watch.effects.routing import applied
from lastbeat.watch.record import routes
from lastbeat.watch.record.routes_file import compiled, put_routes
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.document import dump, masked_throughout
from lastbeat_cli.lazy_group import CommandGroup
from lastbeat_cli.routes.lines import absent, described, table_document

WHICH = "Which alert"
EPILOG = """\
\b
Exit status:
  0  done
  1  the routes can be used, but name a channel that is not set up here
  3  the routes cannot be used: every fault is listed with its line; also wrong settings or arguments
"""
EPILOG_TEST = f"""\
{EPILOG}
\b
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
    found = _asked_for(settings, file)
    if found.table is None:
        note = f"{opening.root_url(settings)} has no routes: every alert goes to every channel"
        _print({"file": found.name, "routes": None, "notes": [note]}, [note], as_json=as_json)
        return exits.OK
    notes = absent(found.table, configured_channels(settings))
    count = len(found.table.routes) - 1
    told = f"{found.name} can be used: {counted(count, 'route')} and the default"
    document = {"file": found.name, "routes": [route.name for route in found.table.routes], "notes": notes}
    _print(document, [told, *(f"Note: {note}" for note in notes)], as_json=as_json)
    return exits.WARNING if notes else exits.OK


@command.command("show", cls=options.Grouped, epilog=EPILOG)
@options.place
@options.form
def show(*, as_json: bool, **given: str | None) -> int:
    """Show the routes of the fleet in order, and the channels that are set up here."""
    settings = values.settings(given, [])
    found, channels = _asked_for(settings, None), configured_channels(settings)
    if found.table is None:
        note = f"{opening.root_url(settings)} has no routes: every alert goes to every channel"
        _print({"routes": None, "people": {}, "channels": _named(channels), "notes": [note]}, [note], as_json=as_json)
        return exits.OK
    notes = absent(found.table, channels)
    document = {**table_document(found.table), "channels": _named(channels), "notes": notes}
    told = [*described(found.table), *_channel_lines(channels), *(f"Note: {note}" for note in notes)]
    _print(document, told, as_json=as_json)
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
    _print(document, [told, *(f"Note: {note}" for note in notes)], as_json=as_json)
    return exits.WARNING if notes else exits.OK


@command.command("remove", cls=options.Grouped, epilog=EPILOG)
@options.place
@options.form
def remove(*, as_json: bool, **given: str | None) -> int:
    """Remove the routes of the fleet: every alert goes to every channel again."""
    store = opening.store(values.settings(given, []))
    were = routes.remove(store)
    told = f"{store.url} has no routes any more" if were else f"{store.url} had no routes"
    _print({"removed": were}, [told], as_json=as_json)
    return exits.OK


@command.command("test", cls=options.Grouped, epilog=EPILOG_TEST)
@options.option("--run", metavar="RUN", group=WHICH, help="The run; owner and team are read from it, if it names them.")
@options.option("--status", metavar="S", group=WHICH, help=f"Event of the alert: {', '.join(_EVENTS)}.")
@options.option("--owner", "whose", metavar="NAME", group=WHICH, help="The run's owner [as the run says].")
@options.option("--team", "of_team", metavar="NAME", group=WHICH, help="The owner's team [as the run says].")
@options.option("--cause", metavar="TYPE", group=WHICH, help="Error type of the cause [unknown].")
@options.option("--at", metavar="TIME", group=WHICH, help="Time of the alert: 2026-01-31T03:00:00+01:00 [now].")
@options.option("--file", metavar="PATH", group=WHICH, help="Test the routes at PATH [those of the fleet].")
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
    found, channels = _asked_for(settings, file), configured_channels(settings)
    store = opening.store(settings)
    owner, team, notes = owner_name(whose), owner_name(of_team), list[str]()
    if owner is None and team is None:
        owner, team, notes = _read_owner(store, run_id)
    message = Message(
        run_id, event, _STATUSES.get(event, Status.RUNNING), "", when or store.clock(),
        cause=cause, owner=owner, team=team,
    )  # fmt: skip
    _tell(_answer(found.table, message, channels), message, notes, as_json=as_json)
    return exits.OK


@dataclass(frozen=True, slots=True)
class _Answer:
    routes: tuple[str, ...]
    dropped: bool
    goes: tuple[Channel, ...]
    left_out: tuple[Channel, ...]
    message: Message


def _answer(table: RouteTable | None, message: Message, channels: Sequence[Channel]) -> _Answer:
    if table is None:
        return _Answer((), dropped=False, goes=tuple(channels), left_out=(), message=message)
    choice = choose(table, message)
    routed, told = applied(choice, message, [channel.identity for channel in channels])
    spared = routed.left_out if routed is not None else ()
    return _Answer(
        choice.by,
        not choice.to,
        tuple(channel for channel in channels if channel.identity not in spared),
        tuple(channel for channel in channels if channel.identity in spared),
        told,
    )


def _tell(answer: _Answer, message: Message, notes: Sequence[str], *, as_json: bool) -> None:
    told = answer.message
    mentions = [{"name": each.name, "slack": each.slack, "email": each.email, "pagerduty": each.pagerduty}
                for each in told.mentions]  # fmt: skip
    remarks = [*told.notes, *notes]
    document: dict[str, object] = {
        "run_id": message.run_id,
        "status": message.event.value,
        "severity": message.severity,
        "owner": told.owner,
        "team": told.team,
        "at": format_time(message.at),
        "routes": list(answer.routes),
        "dropped": answer.dropped,
        "channels": _named(answer.goes),
        "left_out": _named(answer.left_out),
        "mentions": mentions,
        "notes": remarks,
    }
    whose = f"{told.owner or 'nobody known'}, team {told.team or 'not known'}"
    lines = [
        f"Alert: {message.event.value} ({message.severity}) of {message.run_id}, owner {whose}",
        f"Taken by: {', '.join(answer.routes) or 'no route, as there are none'}",
        f"Goes to: {_listed(answer.goes) if not answer.dropped else 'nobody: it is recorded, and not sent'}",
    ]
    if answer.left_out and not answer.dropped:
        lines.append(f"Left out: {_listed(answer.left_out)}")
    if mentions:
        lines.append(f"Mentions: {', '.join(' '.join(filter(None, each.values())) for each in mentions)}")
    _print(document, [*lines, *(f"Note: {note}" for note in remarks)], as_json=as_json)


# Arguments.


@dataclass(frozen=True, slots=True)
class _Found:
    name: str
    table: RouteTable | None
    """None if the fleet has no routes."""


def _asked_for(settings: Settings, file: str | None) -> _Found:
    """The routes in ``file``, else those of the fleet. Raises :class:`SettingsError` with all faults in them."""
    if file is not None:
        body, name = _read(file), file
    else:
        store = opening.store(settings)
        name, blob = f"{store.url}/{ROUTES_FILE}", routes.read_file(store)
        if blob is None:
            return _Found(name, None)
        if blob.size_bytes > len(blob.body):
            raise SettingsError([f"{name} has {blob.size_bytes:,} bytes; {routes.FILE_LIMIT_BYTES:,} is the most"])
        body = blob.body
    table, faults = compiled(body, name)
    if table is None:
        raise SettingsError(list(map(str, faults)))
    return _Found(name, table)


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


def _print(document: Mapping[str, object], lines: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print(dump(masked_throughout(dict(document), logs.redact)))
        return
    for line in lines:
        print(clean(logs.redact(line)).replace("\n", " "))
