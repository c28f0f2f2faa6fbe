"""An S3 server on this machine that counts what it is asked: moto behind a small WSGI wrapper.

Run as ``python -m bench.server``; it prints its port and serves until its standard input ends, so it cannot
outlive who started it. ``GET /_bench`` answers the counts so far; a request with ``X-Bench`` is not counted.
``POST /_fill`` takes a JSON object, key → body in base64, and writes these objects without a request for each.
"""

import base64
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
BUCKET, PREFIX = "bench", "training-runs"
# The server checks no signature, but overwrites no object for who has none.
_AUTHORIZATION = "AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
# A watch is told of a channel, as yours would be. Nobody listens there, and a healthy run has nothing to say.
_CHANNEL = "http://127.0.0.1:9/bench"


@dataclass(frozen=True)
class Counts:
    """Requests by kind, and bytes of headers and bodies in both directions, as the server saw them."""

    requests: dict[str, int]
    bytes: int

    @property
    def total(self) -> int:
        return sum(self.requests.values())

    def since(self, earlier: "Counts") -> "Counts":
        kinds = {kind: count - earlier.requests.get(kind, 0) for kind, count in self.requests.items()}
        return Counts({kind: count for kind, count in kinds.items() if count}, self.bytes - earlier.bytes)


class Counting:
    """A WSGI application round another one, one request at a time; ``put`` writes an object behind its back."""

    def __init__(self, app: Any, put: Callable[[str, bytes], object]) -> None:
        self.app = app
        self.put = put
        self.lock = threading.Lock()
        self.requests: dict[str, int] = {}
        self.bytes = 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/_bench":
            return _answer(start_response, {"requests": self.requests, "bytes": self.bytes})
        if environ["PATH_INFO"] == "/_fill":
            objects = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            with self.lock:
                for key, encoded in objects.items():
                    self.put(key, base64.b64decode(encoded))
            return _answer(start_response, {"written": len(objects)})
        answered: list[int] = []

        def started(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            answered.append(len(status) + sum(len(name) + len(value) + 4 for name, value in headers))
            return start_response(status, headers, *rest)

        with self.lock:
            chunks = list(self.app(environ, started))
            if "HTTP_X_BENCH" not in environ:
                kind = _kind(environ)
                self.requests[kind] = self.requests.get(kind, 0) + 1
                self.bytes += _asked(environ) + sum(answered) + sum(map(len, chunks))
        return chunks


def _answer(start_response: Any, document: Mapping[str, object]) -> Iterable[bytes]:
    body = json.dumps(document).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


def _kind(environ: dict[str, Any]) -> str:
    listing = "list-type" in environ.get("QUERY_STRING", "")
    return "LIST" if listing else str(environ["REQUEST_METHOD"])


def _asked(environ: dict[str, Any]) -> int:
    headers = sum(len(name) - 1 + len(str(value)) for name, value in environ.items() if name.startswith("HTTP_"))
    line = len(environ["REQUEST_METHOD"]) + len(environ["PATH_INFO"]) + len(environ.get("QUERY_STRING", "")) + 12
    return headers + line + int(environ.get("CONTENT_LENGTH") or 0)


def environment_for(url: str, access_key: str, secret_key: str) -> dict[str, str]:
    """For programs that are measured: a server and its keys, a made-up channel, no setting of the caller's."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "LASTBEAT_", "MONITORING_"))}
    for setting in ("SNS_TOPIC_ARN", "STALE_MINUTES", "ALERT_ON"):
        kept.pop(setting, None)
    keys = {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key, "AWS_REGION": "us-east-1"}
    here = {"AWS_ENDPOINT_URL": url, "AWS_EC2_METADATA_DISABLED": "true", "SLACK_WEBHOOK_URL": _CHANNEL}
    return kept | keys | here


class S3:
    """The running server as the benchmarks use it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    @property
    def environment(self) -> dict[str, str]:
        """For the programs that are measured."""
        return environment_for(self.url, "bench", "bench")

    def counts(self) -> Counts:
        with urllib.request.urlopen(f"{self.url}/_bench", timeout=10) as answer:
            said = json.load(answer)
        return Counts(said["requests"], said["bytes"])

    def put(self, key: str, body: bytes) -> None:
        self._put(f"/{BUCKET}/{PREFIX}/{key}", body)

    def fill(self, files: Mapping[str, str]) -> None:
        """Write many objects at once: key below the prefix → body in base64."""
        body = json.dumps({f"{PREFIX}/{key}": encoded for key, encoded in files.items()}).encode()
        request = urllib.request.Request(f"{self.url}/_fill", data=body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60):
            return

    def _put(self, path: str, body: bytes) -> None:
        # Without a type urllib says that it is a form, and the server takes it apart.
        headers = {"X-Bench": "1", "Content-Type": "application/octet-stream", "Authorization": _AUTHORIZATION}
        request = urllib.request.Request(self.url + path, data=body, method="PUT", headers=headers)
        with urllib.request.urlopen(request, timeout=10):
            return

    def create_bucket(self) -> None:
        self._put(f"/{BUCKET}", b"")


@contextmanager
def s3() -> Iterator[S3]:
    command = [sys.executable, "-m", "bench.server"]
    with subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        if child.stdin is None or child.stdout is None:
            raise RuntimeError("the server has no pipes")
        server = S3(int(child.stdout.readline()))
        server.create_bucket()
        try:
            yield server
        finally:
            child.stdin.close()


def main() -> None:
    from moto.core import DEFAULT_ACCOUNT_ID  # type: ignore[attr-defined]  # noqa: PLC0415 - only this process
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app  # noqa: PLC0415
    from moto.s3.models import s3_backends  # noqa: PLC0415
    from werkzeug.serving import WSGIRequestHandler, make_server  # noqa: PLC0415

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"
        # Else every second answer waits 40 ms for the client's acknowledgement.
        disable_nagle_algorithm = True

        def log(self, *_words: object) -> None:
            """Nobody reads it."""

    def put(key: str, body: bytes) -> object:
        return s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(BUCKET, key, body)

    app = Counting(DomainDispatcherApplication(create_backend_app), put)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
