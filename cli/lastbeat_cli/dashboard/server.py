"""The dashboard's sockets: bounded in how many, how long and how large."""

import errno
import logging
import resource
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from lastbeat.stores.port import StoreError
from lastbeat_cli.dashboard.app import BODY_BYTES

log = logging.getLogger(__name__)

_THREADS: Final = 16
_CONNECTIONS: Final = 512
_ROOM: Final = 0.75
"""Of more connections than this part of them the oldest that are not being answered are closed: browsers open theirs
again, and who holds many open, or sends a request without end, keeps nobody out."""
_IDLE_S: Final = 30
_HEADER_BYTES: Final = 24 * 1024
"""An address may name the sixty runs that a browser shows, of 200 characters each."""


class CannotListenError(StoreError):
    """The address cannot be listened on: as for a store, the text says why, and the advice what to do."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on ``host`` alone. Raises :class:`CannotListenError`."""
    bare = host.strip("[]")
    try:
        found = socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise CannotListenError(
            f"--host={host[:200]!r} is no name or address of this machine",
            "use 127.0.0.1 for this machine alone; 0.0.0.0 lets others in, who have the token",
        ) from None
    # "localhost" has two addresses, and people type the older one.
    family, kind, protocol, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        # Whoever reads the address may connect at once.
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
    # What stands for every address of this machine is none that anybody could open.
    everywhere = host.strip("[]") in {"0.0.0.0", "::"}  # noqa: S104 - compared with, not listened on
    name = socket.gethostname() if everywhere else host.strip("[]")
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


class Server:
    """Serves a WSGI application on ``bound`` from threads of its own, as long as the process lives.

    ``ended`` is told, in one of those, should it not be able to go on.
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
        """Whether it serves no more because of a defect."""
        # It tells of every queue and every client that leaves; what matters is told by us.
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
            max_request_body_size=BODY_BYTES,
            ident=None,
            clear_untrusted_proxy_headers=True,
            asyncore_use_poll=True,
        )
        self._server = cast("Any", made)
        self._close_idle = self._server.maintenance
        self._server.maintenance = self._tidy
        self._thread = threading.Thread(target=self._run, name="lastbeat-server", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def _run(self) -> None:
        try:
            self._server.run()
        except Exception:
            log.exception("the server could not go on")
        self.failed = True
        self._ended()

    def _tidy(self, now: float) -> None:
        """Once a second, in the server's own thread."""
        self._close_idle(now)
        waiting = [channel for channel in self._server.active_channels.values() if not channel.requests]
        waiting.sort(key=lambda channel: channel.creation_time)
        for channel in waiting[: max(0, len(self._server.active_channels) - self._keep)]:
            channel.will_close = True


def _open_files() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 2 * _CONNECTIONS
