"""The metadata services of three clouds, on loopback: what they answer, and what they do instead."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.serving import serving

TOKEN = "AQAEA-token=="
MACHINE = "gpu-17"


class FakeCloud(ThreadingHTTPServer):
    """All three at one address, and the agent of ECS. ``answers`` may be changed while it runs: path (without query) →
    text; None: there is no such thing. ``odd``: path → what it does there instead."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), CloudService)
        self.odd: dict[str, Callable[[CloudService], None]] = {}
        self.answers: dict[str, str | bytes | None] = {
            "/latest/meta-data/instance-id": "i-0abc123def4567890",
            "/computeMetadata/v1/instance/preempted": "FALSE\n",
            "/metadata/instance/compute/name": MACHINE,
            "/metadata/scheduledevents": json.dumps({"DocumentIncarnation": 1, "Events": []}),
        }
        self.token = TOKEN
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class CloudService(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: FakeCloud

    def answer(self, body: str | bytes, status: int = 200) -> None:
        data = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _is_odd(self, path: str) -> bool:
        act = self.server.odd.get(path)
        if act is not None:
            self.close_connection = True
            with suppress(OSError):
                act(self)
        return act is not None

    def do_PUT(self) -> None:
        if self._is_odd(self.path):
            return
        fits = self.path == "/latest/api/token" and self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
        self.server.asked.append("token")
        self.answer(self.server.token if fits else "no", 200 if fits else 404)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        if self._is_odd(path):
            return
        named = {
            "/latest": self.headers["X-aws-ec2-metadata-token"] == self.server.token,
            "/computeMetadata": self.headers["Metadata-Flavor"] == "Google",
            "/metadata": self.headers["Metadata"] == "true" and "api-version=" in self.path,
        }
        if not named.get("/" + path.split("/")[1], True):
            self.answer("who are you", 401)
            return
        found = self.server.answers.get(path)
        self.answer(found if found is not None else "not here", 200 if found is not None else 404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Silent."""


@contextmanager
def fake_cloud() -> Iterator[FakeCloud]:
    server = FakeCloud()
    with serving(server):
        yield server
