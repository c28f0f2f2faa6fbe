"""A real HTTP server on a free port that answers by a script and remembers what it was sent."""

import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.serving import serving


@dataclass(frozen=True)
class Answer:
    """One answer. ``delay_s`` passes before it; the faults replace it."""

    status: int = 200
    body: bytes = b"ok"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    reset: bool = False
    """Read the request, then break the connection off."""
    endless: bool = False
    """A body that never ends."""
    trickle: bool = False
    """A status line of which a byte comes now and then, for ever."""


@dataclass(frozen=True)
class Request:
    """What came in. Header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class HttpSink:
    """``requests`` in the order they came; ``script`` is answered first, then ``otherwise`` for ever. ``heard`` is
    called when one has come in, before it is answered."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Request] = []
        self.script: deque[Answer] = deque()
        self.otherwise = Answer()
        self.closing = threading.Event()
        self.endless = 0
        """How many answers without an end are under way: their clients still read."""
        self.heard: Callable[[], None] = lambda: None

    def answer(self) -> Answer:
        try:
            return self.script.popleft()
        except IndexError:
            return self.otherwise


@contextmanager
def http_sink(tls: ssl.SSLContext | None = None) -> Iterator[HttpSink]:
    """Serve on 127.0.0.1 while the block lasts, over TLS where a context is given."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Clients here leave in the middle on purpose."""

    class Sink(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            sink.requests.append(Request(self.command, self.path, headers, body))
            sink.heard()
            self._reply(sink.answer())

        do_GET = do_POST  # noqa: N815 - the name is the base class's

        def _reply(self, answer: Answer) -> None:
            sink.closing.wait(answer.delay_s)
            self.close_connection = True
            if answer.reset:
                # Lingering for no time makes the close a reset.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                return
            if answer.trickle:
                self.wfile.write(b"HTTP/1.1 ")
                self._for_ever(b"a")
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if not answer.endless:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            if answer.endless:
                self._for_ever(answer.body)

        def _for_ever(self, piece: bytes) -> None:
            sink.endless += 1
            try:
                while not sink.closing.wait(0.02):
                    self.wfile.write(piece)
            finally:
                sink.endless -= 1

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
            pass

    server = Server(("127.0.0.1", 0), Sink)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    sink = HttpSink(f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}")
    with serving(server, sink.closing):
        yield sink


def closed_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
