"""The dashboard's sockets: bounded in how many, how long and how large."""

import errno
import logging
import resource
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from lastbeat.stores.port import StoreError
from lastbeat.views.served.app import SLACK_BYTES

log = logging.getLogger(__name__)

_THREADS: Final = 16
_CONNECTIONS: Final = 512
"""Most connections open at the same time, idle ones included."""
_ROOM: Final = 0.75
"""When more than this part of all connections is in use, the oldest idle ones are closed. Browsers reconnect, and a
client that holds many connections, or sends a request without end, locks no other client out."""
_IDLE_S: Final = 30
"""An idle connection is closed after this many seconds."""
_HEADER_BYTES: Final = 24 * 1024
"""Longest request header, in bytes. An address may name the sixty runs that a browser shows, of 200 characters each."""


class CannotListenError(StoreError):
    """The server cannot listen on its address. As for a store, the text says why, and the advice what to do."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on ``host`` and no other address. Raises :class:`CannotListenError`."""
    bare = host.strip("[]")
    try:
        found = socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise CannotListenError(
            f"--host={host[:200]!r} is no name or address of this machine",
            "use 127.0.0.1 for this machine alone; 0.0.0.0 lets others in, who have the token",
        ) from None
    # "localhost" resolves to an IPv6 and an IPv4 address; users type the IPv4 one.
    family, kind, protocol, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        # Listen before the address is printed, so that a reader can connect at once.
        bound.listen(128)
    except OSError as fault:
        bound.close()
        if fault.errno == errno.EADDRINUSE:
            advice = "give another --port, or --port 0 for any that is free; perhaps a dashboard runs already"
            raise CannotListenError(f"port {port} of {host} is in use", advice) from None
        advice = "use a --port of at least 1024" if fault.errno == errno.EACCES else "check --host and --port"
        raise CannotListenError(f"port {port} of {host} cannot be listened on: {fault.strerror}", advice) from None
    return bound


def address_of(bound: socket.socket, host: str) -> str:
    """The address that people open."""
    port = bound.getsockname()[1]
    # A wildcard address cannot be opened in a browser, so the host name stands in.
    everywhere = host.strip("[]") in {"0.0.0.0", "::"}  # noqa: S104 - compared with, not listened on
    name = socket.gethostname() if everywhere else host.strip("[]")
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


class Server:
    """Serves a WSGI application on ``bound`` from its own threads until the process ends.

    Calls ``ended``, in one of those threads, if a defect stops the server.
    """

    def __init__(
        self,
        app: Callable[..., Iterable[bytes]],
        bound: socket.socket,
        ended: Callable[[], None],
        *,
        threads: int = _THREADS,
    ) -> None:
        from waitress.server import create_server  # noqa: PLC0415 - only the dashboard needs it

        self._ended = ended
        self.failed = False
        """Whether a defect has stopped the server."""
        # waitress logs every full queue and every client that disconnects; lastbeat logs what matters itself.
        logging.getLogger("waitress").setLevel(logging.CRITICAL)
        most = min(_CONNECTIONS, _open_files() // 2)
        self._keep = int(most * _ROOM)
        made = create_server(
            app,
            sockets=[bound],
            threads=threads,
            connection_limit=most,
            channel_timeout=_IDLE_S,
            cleanup_interval=1,
            max_request_header_size=_HEADER_BYTES,
            max_request_body_size=SLACK_BYTES,
            ident=None,
            clear_untrusted_proxy_headers=True,
            asyncore_use_poll=True,
        )
        self._server = cast("Any", made)
        self._close_idle = self._server.maintenance
        self._server.maintenance = self._tidy
        self._thread = threading.Thread(target=self._run, name="lastbeat-server", daemon=True)

    def start(self) -> None:
        """Start to answer requests."""
        self._thread.start()

    def _run(self) -> None:
        try:
            self._server.run()
        except Exception:
            log.exception("the server could not go on")
        self.failed = True
        self._ended()

    def _tidy(self, now: float) -> None:
        """Close idle connections. Called once a second in the server's own thread."""
        self._close_idle(now)
        waiting = [channel for channel in self._server.active_channels.values() if not channel.requests]
        waiting.sort(key=lambda channel: channel.creation_time)
        for channel in waiting[: max(0, len(self._server.active_channels) - self._keep)]:
            channel.will_close = True


def _open_files() -> int:
    """The number of files that this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 2 * _CONNECTIONS
