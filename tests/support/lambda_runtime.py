"""An execution environment as Lambda has it: the Runtime API on this machine, and AWS's own client driving a handler.

What is not Lambda about it: no freezing between two events, no limit of memory, no end at the deadline.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from support.waiting import LIMIT_S

FUNCTION_ARN = "arn:aws:lambda:us-east-1:123456789012:function:lastbeat"


class GoneError(Exception):
    """The environment ended without an answer."""


@dataclass
class Invocation:
    """One event on its way; :meth:`answer` waits for what comes back."""

    body: bytes
    deadline_ms: int
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    taken: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    failed: bool = False
    reply: Any = None

    def settle(self, reply: Any, *, failed: bool) -> None:
        self.reply, self.failed = reply, failed
        self.done.set()


class Environment:
    """One execution environment: a process that takes one event after the other."""

    def __init__(self, process: "subprocess.Popen[bytes]", api: "_Api", log: Path) -> None:
        self._process, self._api, self._log = process, api, log

    def begin(self, event: object, *, left_s: float = 60.0) -> Invocation:
        """Hand ``event`` over without waiting; the function is told that ``left_s`` seconds are left."""
        invocation = Invocation(json.dumps(event).encode(), int((time.time() + left_s) * 1000))
        self._api.waiting.put(invocation)
        return invocation

    def answer(self, invocation: Invocation) -> Any:
        """What the function answered; for an error the document with ``errorType``."""
        until = time.monotonic() + LIMIT_S
        while not invocation.done.wait(0.05):
            if self._process.poll() is not None and not invocation.done.wait(0.2):
                raise GoneError(f"exit {self._process.returncode}: {self.log()[-2000:]}")
            if time.monotonic() > until:
                raise TimeoutError(f"no answer within {LIMIT_S:.0f} s: {self.log()[-2000:]}")
        return invocation.reply

    def invoke(self, event: object, *, left_s: float = 60.0) -> Any:
        return self.answer(self.begin(event, left_s=left_s))

    def kill(self) -> None:
        """End it as a host that dies does."""
        self._process.kill()
        self._process.wait(timeout=LIMIT_S)

    def log(self) -> str:
        """All that the function has written so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def documents(self) -> list[dict[str, Any]]:
        """The lines of the log that are JSON objects: log lines and metrics."""
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]


@contextmanager
def environment(folder: Path, log: Path, variables: Mapping[str, str]) -> Iterator[Environment]:
    """Start ``handler.handler`` of an unpacked zip in ``folder``, with ``variables`` as the function's own.

    It finds the libraries of the zip before any other, and boto3, as in Lambda, beside the runtime's client.
    """
    api = _Api()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(api))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    inherited = {name: text for name, text in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}
    given = {
        "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{server.server_port}",
        "AWS_LAMBDA_FUNCTION_NAME": "lastbeat",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
        "AWS_REGION": "us-east-1",
        "LAMBDA_TASK_ROOT": str(folder),
        "PYTHONPATH": str(folder),
        "TZ": ":UTC",
        "_HANDLER": "handler.handler",
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "awslambdaric", "handler.handler"],
            cwd=folder,
            env=inherited | given | dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            yield Environment(process, api, log)
        finally:
            api.closing.set()
            process.kill()
            process.wait(timeout=LIMIT_S)
            server.shutdown()
            server.server_close()


class _Api:
    def __init__(self) -> None:
        self.waiting: queue.Queue[Invocation] = queue.Queue()
        self.running: dict[str, Invocation] = {}
        self.closing = threading.Event()

    def next(self) -> Invocation | None:
        while not self.closing.is_set():
            try:
                taken = self.waiting.get(timeout=0.05)
            except queue.Empty:
                continue
            self.running[taken.id] = taken
            taken.taken.set()
            return taken
        return None


def _handler(api: _Api) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
            pass

        def do_GET(self) -> None:
            invocation = api.next() if self.path.endswith("/invocation/next") else None
            if invocation is None:
                self._reply(404, b"")
                return
            headers = {
                "Lambda-Runtime-Aws-Request-Id": invocation.id,
                "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
                "Lambda-Runtime-Invoked-Function-Arn": FUNCTION_ARN,
                "Lambda-Runtime-Trace-Id": "Root=1-00000000-000000000000000000000000",
                "Content-Type": "application/json",
            }
            self._reply(200, invocation.body, headers)

        def do_POST(self) -> None:
            body = self._body()
            *_, request_id, kind = self.path.split("/")
            invocation = api.running.pop(request_id, None)
            if invocation is not None:
                invocation.settle(json.loads(body or b"null"), failed=kind == "error")
            self._reply(202, b"")

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def _reply(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
            self.send_response_only(status)
            for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                self.close_connection = True  # the process was killed, which some tests are about

    return Handler
