"""A small Google Cloud Storage in this process, which speaks the part of the XML API that obstore uses.

The emulators that can be installed here (gcp-storage-emulator, fake-gcs-server) speak the JSON API; of the XML API they
lack writes or whole methods. So this is written after Google's documents (cloud.google.com/storage/docs/xml-api):
generations, ``x-goog-if-generation-match``, ETags in quotes that repeat when a body repeats, ranges, listings in the
order of the keys' bytes with milliseconds, and error codes. It asks for a token, and takes any.
"""

import hashlib
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from support.serving import serving

_PAGE = 1000
_KEPT = ("Content-Type", "Cache-Control")


@dataclass(frozen=True)
class _Object:
    body: bytes
    generation: int
    modified: datetime
    headers: dict[str, str]

    @property
    def tag(self) -> str:
        return f'"{hashlib.md5(self.body).hexdigest()}"'


class GoogleServer:
    """Its buckets, and where it listens. ``held[bucket][key]`` is an object."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, _Object]] = {}
        self.lock = threading.Lock()
        self._generation = 1_700_000_000_000_000
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def bucket(self) -> str:
        """A new, empty bucket."""
        name = f"runs-{uuid.uuid4().hex[:12]}"
        self.held[name] = {}
        return name

    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to find this server."""
        return {"STORAGE_EMULATOR_HOST": self.url}

    def put(self, bucket: str, key: str, body: bytes, headers: dict[str, str]) -> _Object:
        self._generation += 1
        made = _Object(body, self._generation, datetime.now(timezone.utc), headers)
        self.held[bucket][key] = made
        return made


def _handler(google: GoogleServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
            pass

        def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            length = {} if headers and "Content-Length" in headers else {"Content-Length": str(len(body))}
            for name, value in {**length, **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _refuse(self, status: int, code: str) -> None:
            body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>no</Message></Error>"
            self._answer(status, body.encode(), {"Content-Type": "application/xml; charset=UTF-8"})

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            bucket, _, key = unquote(parts.path.lstrip("/")).partition("/")
            with google.lock:
                if "Authorization" not in self.headers:
                    self._refuse(403, "AccessDenied")
                elif bucket not in google.held:
                    self._refuse(404, "NoSuchBucket")
                elif not key:
                    self._list(bucket, {name: found[-1] for name, found in parse_qs(parts.query).items()})
                elif self.command == "PUT":
                    self._put(bucket, key, body)
                elif key not in google.held[bucket]:
                    self._refuse(404, "NoSuchKey")
                elif self.command == "DELETE":
                    del google.held[bucket][key]
                    self._answer(204)
                else:
                    self._get(google.held[bucket][key])

        do_GET = do_PUT = do_HEAD = do_DELETE = _handle  # noqa: N815

        def _put(self, bucket: str, key: str, body: bytes) -> None:
            before = google.held[bucket].get(key)
            wanted = self.headers.get("x-goog-if-generation-match")
            if wanted is not None and int(wanted) != (before.generation if before else 0):
                self._refuse(412, "PreconditionFailed")
                return
            kept = {name: self.headers[name] for name in _KEPT if name in self.headers}
            made = google.put(bucket, key, body, kept)
            self._answer(200, b"", {"ETag": made.tag, "x-goog-generation": str(made.generation)})

        def _get(self, found: _Object) -> None:
            size, headers = len(found.body), {
                "ETag": found.tag,
                "x-goog-generation": str(found.generation),
                "Last-Modified": format_datetime(found.modified, usegmt=True),
                **found.headers,
            }  # fmt: skip
            asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
            if asked is None:
                self._answer(200, found.body, {**headers, "Content-Length": str(size)})
                return
            first, last = asked[1], asked[2]
            start = int(first) if first else max(0, size - int(last))
            end = min(size, int(last) + 1 if first and last else size)
            if start >= size:
                self._refuse(416, "InvalidRange")
                return
            self._answer(206, found.body[start:end], {**headers, "Content-Range": f"bytes {start}-{end - 1}/{size}"})

        def _list(self, bucket: str, asked: dict[str, str]) -> None:
            prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
            after = max(asked.get("start-after", ""), asked.get("continuation-token", ""), key=str.encode)
            most = min(_PAGE, int(asked.get("max-keys", _PAGE)))
            lines: dict[str, str] = {}
            more = ""
            for key in sorted(google.held[bucket], key=str.encode):
                if not key.startswith(prefix) or key.encode() <= after.encode():
                    continue
                rest, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
                name = f"{prefix}{rest}{found}" if found else key
                if name == after or (found and after.startswith(name)):
                    continue
                if name not in lines and len(lines) >= most:
                    more = next(reversed(lines))
                    break
                lines[name] = f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" if found else (
                    _contents(key, google.held[bucket][key])
                )  # fmt: skip
            token = f"<NextContinuationToken>{escape(more)}</NextContinuationToken>" if more else ""
            body = (
                "<?xml version='1.0' encoding='UTF-8'?>"
                "<ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'>"
                f"<Name>{bucket}</Name><KeyCount>{len(lines)}</KeyCount>"
                f"<IsTruncated>{str(bool(more)).lower()}</IsTruncated>{token}{''.join(lines.values())}"
                "</ListBucketResult>"
            )
            self._answer(200, body.encode(), {"Content-Type": "application/xml; charset=UTF-8"})

    return Handler


def _contents(key: str, found: _Object) -> str:
    modified = found.modified.strftime("%Y-%m-%dT%H:%M:%S.") + f"{found.modified.microsecond // 1000:03}Z"
    return (
        f"<Contents><Key>{escape(key)}</Key><Generation>{found.generation}</Generation>"
        f"<MetaGeneration>1</MetaGeneration><LastModified>{modified}</LastModified>"
        f"<ETag>{escape(found.tag)}</ETag><Size>{len(found.body)}</Size></Contents>"
    )


@contextmanager
def run_google() -> Iterator[GoogleServer]:
    """A server on a free port of this machine."""
    google = GoogleServer()
    with serving(google.server):
        yield google
