"""``dashboard``: the fleet and its runs as a page in a browser."""

import logging
import os
import re
import secrets
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import click

from lastbeat.model.secrets import Redactor
from lastbeat.settings import Settings, table
from lastbeat.stores.counting import Tally
from lastbeat.views.served.app import App
from lastbeat.views.served.configured import served
from lastbeat.views.served.door import Door, is_loopback
from lastbeat.views.served.fleet import FleetLook
from lastbeat_cli import document, exits, logs, options, values
from lastbeat_cli.dashboard.server import Server, address_of, listen
from lastbeat_cli.loop import Stop
from lastbeat_cli.metrics.endpoint import Scrapes
from lastbeat_cli.metrics.samples import Sample, of_view
from lastbeat_cli.stop import lives_here

log = logging.getLogger(__name__)

SERVING = "Where the page is"
EPILOG = """\
Exit status:
  0  it served until Ctrl-C or SIGTERM
  3  it could not listen, or could not go on; also wrong settings or arguments

Examples:
  lastbeat dashboard --root s3://my-bucket/training-runs --open
  ssh -L 8321:localhost:8321 cluster lastbeat dashboard --root /shared/runs --port 8321

The dashboard writes only what people do on the page, which takes a token: silences, acknowledgements, requests to stop
and to restart. It sends no requests to the store while no page is open. Unless a token is set, every user of this
machine can open it. With --host, other machines can open it with the token. The connection is not encrypted: over a
network that you share, use an ssh tunnel or a proxy with TLS.
"""


@click.command("dashboard", cls=options.Grouped, epilog=EPILOG)
@options.option("--port N", "Port to listen on; 0 is any that is free [0].", SERVING, default="0")
@options.option("--host H", "Address to listen on [127.0.0.1].", SERVING, default="127.0.0.1")
@options.option("--token T", "Opens the page, and acts on runs. Prefer LASTBEAT_DASHBOARD_TOKEN.", SERVING)
@options.option("--user-header NAME", "Header in which a proxy in front names the user.", SERVING)
@options.option("--open", "Open it in this machine's browser.", SERVING, name="opens")
@options.option("--interval SECONDS", "Time between two reads of the store [5].", name="pace", default="5")
@options.stale_minutes()
@options.place
@options.signals
@options.form
def command(
    *,
    port: str,
    host: str,
    user_header: str | None,
    opens: bool,
    pace: str,
    as_json: bool,
    **given: str | None,
) -> NoReturn:
    """Serve a page that shows every run: which ones need attention, why, and what to do.

    Prints its address, and serves until Ctrl-C.
    """
    faults: list[str] = []
    number = values.whole("--port", port, faults)
    if number is not None and number > 65535:
        faults.append(f"--port={number} is no port: 65535 is the most; use 0 for any that is free")
    interval_s = values.interval(pace, faults)
    if user_header is not None and not re.fullmatch(r"[A-Za-z0-9-]{1,60}", user_header):
        faults.append(f"--user-header={user_header[:80]!r} is no header's name; use for example X-Forwarded-User")
    settings = values.settings(given, faults, watching=True, warns=True)
    if given["token"]:
        log.warning(
            "everybody on this machine can read --token in the list of processes; LASTBEAT_DASHBOARD_TOKEN hides it"
        )
    own = settings[table.DASHBOARD_TOKEN] or table.DashboardTokens()
    local = is_loopback(host)
    made = secrets.token_urlsafe(24) if not (local or any(own)) else ""
    door = Door(local, own.operate or made or None, view_token=own.view or None, user_header=user_header or "")
    _serve(settings, door, (host, number or 0), interval_s, made=bool(made), opens=opens, as_json=as_json)


def _serve(  # noqa: PLR0913 - what is served, how it opens, and where
    settings: Settings,
    door: Door,
    at: tuple[str, int],
    interval_s: float,
    *,
    made: bool,
    opens: bool,
    as_json: bool,
) -> NoReturn:
    host, port = at
    token = door.token or door.view_token
    logs.hide(Redactor([*settings.secrets, *([token] if token else [])]))
    with Stop() as stop, listen(host, port) as bound:
        address = address_of(bound, host)
        door = replace(door, name=f"lastbeat-{bound.getsockname()[1]}")
        app, fleet = _app(settings, door, interval_s)
        server = Server(app, bound, stop.ask)
        fleet.start()
        server.start()
        if not door.local:
            log.warning("the connection is not encrypted; use --host only on a network that you trust")
        # Stdout may be piped to a log, so a token that the user has set is shown only on a terminal.
        shown = token if made or sys.stdout.isatty() else None
        _tell(f"{address}?token={shown}" if shown else address, as_json=as_json)
        if token and not shown:
            log.info("to open the page, append ?token= and the token to its address, or enter the token there")
        if opens:
            to = f"{address}?token={door.key()}" if token else address
            # In a thread, because a browser that runs in this terminal returns only when the user closes it.
            threading.Thread(target=_open, args=(to,), name="lastbeat-browser", daemon=True).start()
        while not stop.wait(3600):
            pass
        _leave(exits.UNKNOWN if server.failed else exits.OK)


def _app(settings: Settings, door: Door, interval_s: float) -> tuple[App, FleetLook]:
    asked = Tally()

    def samples() -> Sequence[Sample]:
        return of_view(fleet.last_view(), asked.counts, logs.redact)

    scrapes = Scrapes(samples, logs.redact(settings.root.url))
    app, fleet = served(settings, door, interval_s, asked, metrics=scrapes.answer, lives=lives_here)
    return app, fleet


def _tell(address: str, *, as_json: bool) -> None:
    # Printed, not logged: logs mask the token, and this is the one place that shows it.
    print(document.dump(document.enveloped({"url": address, "pid": os.getpid()})) if as_json else address, flush=True)


def _open(address: str) -> None:
    import webbrowser  # noqa: PLC0415 - only where asked for

    if not webbrowser.open(address):
        log.warning("no browser can be opened here; open the address above in one")


def _leave(status: int) -> NoReturn:
    """End the process at once.

    No write can be half done. A normal exit would wait for reads that hang in a store, and for those of a large fleet.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(status)
