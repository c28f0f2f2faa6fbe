"""``dashboard``: the fleet and its runs as a page in a browser."""

import logging
import os
import secrets
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NoReturn

import click

from lastbeat import opening, wire
from lastbeat.model.redact import Redactor
from lastbeat.settings import Settings, table
from lastbeat_cli import document, exits, logs, options, values
from lastbeat_cli.loop import Stop

if TYPE_CHECKING:
    from lastbeat_cli.dashboard.app import App
    from lastbeat_cli.dashboard.door import Door
    from lastbeat_cli.dashboard.fleet import DocumentQuery, FleetLook
    from lastbeat_cli.metrics.samples import Sample

log = logging.getLogger(__name__)

SERVING = "Where the page is"
_LOSSES_S = 120.0
_MOST_RECORDS = 2000
"""So many records are read for what failures cost each time that somebody asks; the next time, those that are left."""
EPILOG = """\
\b
Exit status:
  0  it served until Ctrl-C or SIGTERM
  3  it could not listen, or could not go on; also wrong settings or arguments

\b
Examples:
  lastbeat dashboard --bucket my-bucket --open
  ssh -L 8321:localhost:8321 cluster lastbeat dashboard --root /shared/runs --port 8321

It writes nothing but the silences that people make on the page, which takes a token, and while nobody looks it asks
the store nothing. Whoever is logged in on this machine can open it, unless a token is set. With --host others can, too,
who have the token; what they send and see is not encrypted, so that over a network that is not yours alone an ssh
tunnel or a proxy with TLS is the better way.
"""


@click.command("dashboard", cls=options.Grouped, epilog=EPILOG, context_settings=options.HELP)
@options.option("--port", metavar="N", default="0", group=SERVING, help="Port to listen on; 0 is any that is free [0].")
@options.option("--host", metavar="H", default="127.0.0.1", group=SERVING, help="Address to listen on [127.0.0.1].")
@options.option(
    "--token",
    metavar="T",
    group=SERVING,
    help="Whoever has it may look and silence; better set as LASTBEAT_DASHBOARD_TOKEN.",
)
@options.option("--open", "opens", is_flag=True, group=SERVING, help="Open it in this machine's browser.")
@options.option("--interval", "pace", metavar="SECONDS", default="5", help="Time between two looks at the store [5].")
@options.option("--stale-minutes", metavar="N", help="A heartbeat older than this is stale [10].")
@options.place
@options.signals
@options.form
def command(
    *, port: str, host: str, opens: bool, pace: str, as_json: bool, verbose: bool, **given: str | None
) -> NoReturn:
    """Serve a page that shows every run: who needs people now, why, and what to do.

    Prints its address, and serves until Ctrl-C.
    """
    logs.verbose(on=verbose)
    faults: list[str] = []
    number = values.whole("--port", port, faults)
    if number is not None and number > 65535:
        faults.append(f"--port={number} is no port: 65535 is the most; use 0 for any that is free")
    interval_s = values.interval(pace, faults)
    settings = values.settings(given, faults, watching=True)
    logs.follow(settings)
    for warning in settings.warnings:
        log.warning("%s", warning)
    if given["token"]:
        log.warning(
            "everybody on this machine can read --token in the list of processes; LASTBEAT_DASHBOARD_TOKEN hides it"
        )
    _serve(settings, host, number or 0, interval_s, opens=opens, as_json=as_json)


def _serve(settings: Settings, host: str, port: int, interval_s: float, *, opens: bool, as_json: bool) -> NoReturn:
    from lastbeat_cli.dashboard.door import Door, is_loopback  # noqa: PLC0415 - together with what else it takes
    from lastbeat_cli.dashboard.server import Server, address_of, listen  # noqa: PLC0415 - as above

    local = is_loopback(host)
    own = settings[table.DASHBOARD_TOKEN]
    made = None if local or own else secrets.token_urlsafe(24)
    token = made or (str(own) if own else None)
    logs.hide(Redactor([*settings.secrets, *([token] if token else [])]))
    with Stop() as stop, listen(host, port) as bound:
        address = address_of(bound, host)
        door = Door(local, token, f"lastbeat-{bound.getsockname()[1]}")
        app, fleet = _app(settings, door, interval_s)
        server = Server(app, bound, stop.ask)
        fleet.start()
        server.start()
        if not local:
            log.warning("what goes over the network is not encrypted; use it where only people you trust can listen")
        # A pipe may lead to a log, so a token that the user has set is shown on a terminal alone.
        shown = token if made or sys.stdout.isatty() else None
        _tell(f"{address}?token={shown}" if shown else address, as_json=as_json)
        if token and not shown:
            log.info("it opens with ?token= and the token at the end of its address, or asks for the token")
        if opens:
            to = f"{address}?token={door.key()}" if token else address
            # One that shows itself in this very terminal comes back only when it is left.
            threading.Thread(target=_open, args=(to,), name="lastbeat-browser", daemon=True).start()
        while not stop.wait(3600):
            pass
        _leave(exits.UNKNOWN if server.failed else exits.OK)


def _app(settings: Settings, door: "Door", interval_s: float) -> "tuple[App, FleetLook]":
    from lastbeat.page.assembling import page  # noqa: PLC0415 - as above
    from lastbeat.record.limits import LISTED_FOR_S, FleetLimits  # noqa: PLC0415 - as above
    from lastbeat.stores.counting import Tally  # noqa: PLC0415 - as above
    from lastbeat.views.fleet_losses import LOSSES_SINCE_S, LossReader, losses_document  # noqa: PLC0415 - as above
    from lastbeat.views.run_document import run_document  # noqa: PLC0415 - as above
    from lastbeat_cli.dashboard.app import App  # noqa: PLC0415 - as above
    from lastbeat_cli.dashboard.fleet import FleetLook  # noqa: PLC0415 - as above
    from lastbeat_cli.dashboard.losses import LossLooks  # noqa: PLC0415 - as above
    from lastbeat_cli.dashboard.runs import Allowance, RunLooks  # noqa: PLC0415 - as above
    from lastbeat_cli.dashboard.silences import StoredSilences  # noqa: PLC0415 - as above
    from lastbeat_cli.document import masked_throughout  # noqa: PLC0415 - as above
    from lastbeat_cli.metrics.samples import of_view  # noqa: PLC0415 - as above
    from lastbeat_cli.metrics.scrapes import Scrapes  # noqa: PLC0415 - as above

    asked_for_fleet, asked_for_runs, asked_for_silences, asked_for_losses = Tally(), Tally(), Tally(), Tally()
    at, at_runs = opening.store(settings, tally=asked_for_fleet), opening.store(settings, tally=asked_for_runs)
    limits = FleetLimits(at, LISTED_FOR_S)
    runs = RunLooks(
        lambda run_id: wire.run_watch(settings, run_id, at=at_runs, limits=limits),
        lambda view: run_document(view, _now()),
        Allowance(asked_for_fleet, asked_for_runs, free=at.traits.prices.free),
        interval_s=interval_s,
    )
    epoch = secrets.token_hex(6)

    def told(what: "DocumentQuery") -> Mapping[str, object]:
        from lastbeat.views.documents import Delta, fleet_document  # noqa: PLC0415 - as above

        snapshot = what.snapshot
        changed = [snapshot.rows[run_id] for run_id in what.changed]
        return fleet_document(
            snapshot.view,
            made_at=_now(),
            live=True,
            interval_s=interval_s,
            stale_s=settings.policy.stale_s,
            seq=snapshot.seq,
            epoch=what.epoch,
            delta=None if what.since is None else Delta(what.since, changed, what.gone),
        )

    fleet = FleetLook(
        wire.fleet_watch(settings, at=at, limits=limits, explains=True),
        told,
        interval_s=interval_s,
        epoch=epoch,
        turn=runs.turn,
    )
    where = logs.redact(at.url)

    def known() -> "Sequence[Sample]":
        further = (asked_for_runs, asked_for_silences, asked_for_losses)
        asked = {
            kind: count + sum(each.counts[kind] for each in further) for kind, count in asked_for_fleet.counts.items()
        }
        return of_view(fleet.known(), asked, logs.redact)

    silences = StoredSilences(opening.store(settings, tally=asked_for_silences))
    reader = LossReader(opening.store(settings, tally=asked_for_losses), where, settings.redactor)

    def lost() -> Mapping[str, object]:
        told = reader.read(LOSSES_SINCE_S, until=time.monotonic() + _LOSSES_S, most=_MOST_RECORDS)
        return {name: masked_throughout(each, logs.redact) for name, each in losses_document(told).items()}

    return App(page(), fleet, runs, Scrapes(known, where), silences, door, losses=LossLooks(lost)), fleet


def _tell(address: str, *, as_json: bool) -> None:
    # Not through the logs, which mask the token: this is the one place that shows it.
    print(document.dump({"url": address, "pid": os.getpid()}) if as_json else address, flush=True)


def _open(address: str) -> None:
    import webbrowser  # noqa: PLC0415 - only where asked for

    if not webbrowser.open(address):
        log.warning("there is no browser here that could be opened; open the address above in one")


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _leave(status: int) -> NoReturn:
    """End the process at once: nothing is written that could be half done, and Python would wait for looks that hang in
    a store, and for the busy ones of a large fleet."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(status)
