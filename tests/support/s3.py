"""An S3 server of our own: moto in a process beside the tests, one request at a time, so that its conditional
writes are atomic as those of S3 are. It also speaks SNS and SQS at the same address.

Run as a script it is that process: it prints its port and ends when its standard input does.
"""

import io
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from urllib.request import Request, urlopen

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sns import SNSClient

REGION = "us-east-1"
ACCESS_KEY = "test"
SECRET_KEY = "testtest"
_WRITTEN_AT = "HTTP_WRITTENAT"
"""A header of our own, as WSGI names it."""


@dataclass(frozen=True)
class S3Server:
    """An endpoint that answers as S3 does."""

    url: str

    def client(self) -> "S3Client":
        """What users have: boto3."""
        client: S3Client = _client("s3", self.url)
        return client

    def sns(self) -> "SNSClient":
        client: SNSClient = _client("sns", self.url)
        return client

    def sqs(self) -> Any:
        return _client("sqs", self.url)

    def bucket(self) -> str:
        """A new, empty bucket."""
        name = f"runs-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return name

    def put(self, bucket: str, key: str, body: bytes, modified: datetime) -> None:
        """Store ``key`` as if it had been written at ``modified``, which S3 itself lets nobody choose."""
        target = f"{self.url}/{bucket}/{quote(key)}"
        headers = {
            "Authorization": f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/{REGION}/s3/aws4_request",
            "Content-Type": "binary/octet-stream",
            _WRITTEN_AT.removeprefix("HTTP_"): str(modified.timestamp()),
        }
        with urlopen(Request(target, body, headers, method="PUT"), timeout=300):
            pass

    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to find this server, as it would find S3."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_CONFIG_FILE": "/nonexistent/config",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent/credentials",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@cache
def _client(service: str, url: str) -> Any:
    """One for all tests: making it takes ten times as long as a request, and threads may share it."""
    import boto3  # noqa: PLC0415 - a third of a second, which the server's own process need not wait for

    # A session of its own, because boto3's default one is shared by threads, which may not be.
    session: Any = boto3.Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, region_name=REGION)
    return session.client(service, endpoint_url=url)


@contextmanager
def run_s3_server() -> Iterator[S3Server]:
    """Start a server on a free port; it ends with the block, and with this process however that ends."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(Path(__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = process.stdout.readline().strip()
        if not port:
            raise RuntimeError(f"the S3 server did not start (exit {process.wait()}): is moto[server] installed?")
        yield S3Server(f"http://127.0.0.1:{port}")
    finally:
        process.stdin.close()
        process.stdout.close()
        process.terminate()
        process.wait(timeout=300)


def _hasten() -> None:
    """Remember what moto would find out for each request: its folders, and the text of each time in a listing."""
    from moto import backends  # noqa: PLC0415
    from moto.core import serialize  # noqa: PLC0415

    modules = tuple(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: modules
    serialize.parse_to_aware_datetime = cache(serialize.parse_to_aware_datetime)  # type: ignore[attr-defined]


def _serve() -> None:
    from moto.core.models import DEFAULT_ACCOUNT_ID  # noqa: PLC0415
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app  # noqa: PLC0415
    from moto.s3.models import s3_backends  # noqa: PLC0415
    from werkzeug.serving import WSGIRequestHandler, make_server  # noqa: PLC0415

    _hasten()
    app = DomainDispatcherApplication(create_backend_app)
    one_at_a_time = threading.Lock()

    def atomic(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        # The body is read before the lock is taken, so that a client that stalls holds up nobody else.
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        with one_at_a_time:
            answer = list(app(environ, start_response))
            if environ.get(_WRITTEN_AT):
                _date(environ["PATH_INFO"], float(environ[_WRITTEN_AT]))
            return answer

    def _date(path: str, second: float) -> None:
        _, bucket, key = path.encode("latin-1").decode().split("/", 2)
        at = datetime.fromtimestamp(second, tz=timezone.utc).replace(tzinfo=None)
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[bucket].keys[key].last_modified = at

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_request(self, code: object = "-", size: object = "-") -> None:
            pass

    server = make_server("127.0.0.1", 0, atomic, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _serve()
