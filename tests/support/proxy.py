"""A proxy that stands before a server, counts what passes, and spoils what it is told to spoil."""

import http.client
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from support.serving import serving
from support.waiting import LIMIT_S


@dataclass(frozen=True)
class Answer:
    """Answer this, and do not ask the server."""

    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reset:
    """Break the connection before the server is asked."""


@dataclass(frozen=True)
class Stall:
    """Take the request, and never answer."""


@dataclass(frozen=True)
class StallAnswer:
    """Let the request through, and never answer."""


@dataclass(frozen=True)
class HoldBack:
    """Take the request, never answer, and let it through when ``until`` is set: it arrives when nobody waits for it.
    ``arrived`` is set then."""

    until: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class DropAnswer:
    """Let the request through and break the connection: the client cannot know what happened."""


@dataclass(frozen=True)
class StallBody:
    """Send the first ``after`` bytes of the answer's body, then nothing more."""

    after: int = 1


@dataclass(frozen=True)
class Strip:
    """Take these headers out of the request: a server that ignores them."""

    headers: tuple[str, ...]


@dataclass(frozen=True)
class Stamp:
    """Let the request through and set these headers of the answer."""

    headers: Mapping[str, str]


Fault = Answer | Reset | Stall | StallAnswer | HoldBack | DropAnswer | StallBody | Strip | Stamp


def s3_error(status: int, code: str, extra: str = "") -> Answer:
    """An answer as S3 words its errors."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected</Message>{extra}</Error>"
    return Answer(status, body, {"Content-Type": "application/xml"})


@dataclass
class Rule:
    """``times`` None: until :meth:`FaultProxy.clear`."""

    fault: Fault
    method: str = ""
    contains: str = ""
    body: bytes = b""
    times: int | None = None

    def matches(self, method: str, target: str, body: bytes) -> bool:
        return self.times != 0 and self.method in {"", method} and self.contains in target and self.body in body


@dataclass(frozen=True)
class Passed:
    """One request that came in, and how many bytes of body went back for it."""

    method: str
    target: str
    status: int
    """0 when the client got no answer."""
    body_bytes: int


class FaultProxy:
    """``passed`` holds every request in the order in which they were finished. ``witness`` is called right before each
    is let through and right after, when the client does not have its answer yet."""

    def __init__(self, upstream: str, tls: ssl.SSLContext | None = None) -> None:
        self.passed: list[Passed] = []
        self.witness: Callable[[], None] = lambda: None
        self.closing = threading.Event()
        self.hanging = 0
        """How many requests have no answer yet, although their clients still wait for one."""
        self._upstream = urlsplit(upstream).netloc
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server.server_port}"

    def inject(
        self, fault: Fault, *, method: str = "", contains: str = "", body: bytes = b"", times: int | None = None
    ) -> None:
        """Spoil the next ``times`` requests (all, by default) with this method, this text in their target and this in
        their body. Of several rules that fit the earliest applies."""
        with self._lock:
            self._rules.append(Rule(fault, method, contains, body, times))

    def clear(self) -> None:
        """Forget the rules and what has passed."""
        with self._lock:
            self._rules.clear()
            self.passed.clear()

    def count(self, method: str = "") -> int:
        with self._lock:
            return sum(1 for p in self.passed if method in {"", p.method})

    def take(self, method: str, target: str, body: bytes) -> Fault | None:
        with self._lock:
            for rule in self._rules:
                if rule.matches(method, target, body):
                    rule.times = None if rule.times is None else rule.times - 1
                    return rule.fault
        return None

    def note(self, passed: Passed) -> None:
        with self._lock:
            self.passed.append(passed)

    def hang(self, connection: socket.socket) -> None:
        """Give no answer until the client leaves, or for a minute."""
        with self._lock:
            self.hanging += 1
        until = time.monotonic() + 60
        while not select.select([connection], [], [], 0)[0] and time.monotonic() < until:
            if self.closing.wait(0.05):
                break
        with self._lock:
            self.hanging -= 1

    def ask(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> "_Reply":
        self.witness()
        connection = http.client.HTTPConnection(self._upstream, timeout=LIMIT_S)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                if name.lower() not in {"connection", "expect"}:
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            reply = connection.getresponse()
            return _Reply(reply.status, dict(reply.getheaders()), reply.read())
        finally:
            connection.close()
            self.witness()


@dataclass(frozen=True)
class _Reply:
    status: int
    headers: dict[str, str]
    body: bytes


def _handler(proxy: FaultProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        timeout = 60

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
            pass

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = proxy.take(self.command, self.path, body)
            if isinstance(fault, Stall | StallAnswer | HoldBack):
                if isinstance(fault, HoldBack):
                    proxy.note(Passed(self.command, self.path, 0, 0))
                    fault.until.wait(60)
                if not isinstance(fault, Stall):
                    proxy.ask(self.command, self.path, body, dict(self.headers.items()))
                if isinstance(fault, HoldBack):
                    fault.arrived.set()
                else:
                    proxy.note(Passed(self.command, self.path, 0, 0))
                    proxy.hang(self.connection)
                self._break()
            elif isinstance(fault, Reset):
                proxy.note(Passed(self.command, self.path, 0, 0))
                self._break()
            elif isinstance(fault, Answer):
                self._send(_Reply(fault.status, dict(fault.headers), fault.body.encode()), fault)
            else:
                dropped = {h.lower() for h in fault.headers} if isinstance(fault, Strip) else set()
                headers = {k: v for k, v in self.headers.items() if k.lower() not in dropped}
                self._send(proxy.ask(self.command, self.path, body, headers), fault)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _handle  # noqa: N815

        def _send(self, reply: _Reply, fault: Fault | None) -> None:
            if isinstance(fault, DropAnswer):
                proxy.note(Passed(self.command, self.path, 0, 0))
                self._break()
                return
            headers = {
                name.title(): value
                for name, value in reply.headers.items()
                if name.lower() not in {"connection", "transfer-encoding"}
            }
            body = b"" if self.command == "HEAD" else reply.body
            if self.command != "HEAD":
                headers["Content-Length"] = str(len(body))
            headers |= fault.headers if isinstance(fault, Stamp) else {}
            # Noted before it is sent: who has the answer may look at once.
            proxy.note(Passed(self.command, self.path, reply.status, len(body)))
            self.send_response_only(reply.status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if isinstance(fault, StallBody):
                self.wfile.write(body[: fault.after])
                proxy.closing.wait(60)
                self._break()
            else:
                self.wfile.write(body)

        def _break(self) -> None:
            # With no time to linger, closing sends a reset instead of a polite end.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                self.close_connection = True  # the client went away first, which is its right

        def finish(self) -> None:
            try:
                super().finish()
            finally:
                # Not shutdown(), which would send the polite end before the reset.
                self.connection.close()

    return Handler


@contextmanager
def run_proxy(upstream: str, tls: ssl.SSLContext | None = None) -> Iterator[FaultProxy]:
    """A proxy on a free port of this machine, before ``upstream`` (``http://host:port``); itself https with ``tls``."""
    proxy = FaultProxy(upstream, tls)
    with serving(proxy.server, proxy.closing):
        yield proxy
