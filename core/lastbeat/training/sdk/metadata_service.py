"""Queries a cloud's metadata service within a deadline, even if the service hangs."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from http.client import HTTPConnection

EC2_ADDRESS: Final = "http://169.254.169.254"
_ANSWER_LIMIT_BYTES = 64 * 1024


def is_ec2(sys: Path) -> bool:
    """Whether the kernel reports an EC2 machine. Elsewhere the service would not answer."""
    marks = (
        ("devices/virtual/dmi/id/sys_vendor", "amazon ec2"),
        ("devices/virtual/dmi/id/bios_version", "amazon"),
        ("hypervisor/uuid", "ec2"),
    )
    for name, mark in marks:
        with suppress(OSError, ValueError):
            if mark in (sys / name).read_text("utf-8").lower():
                return True
    return False


class MetadataService:
    """One metadata service. Every request ends by the deadline, even if the service hangs."""

    def __init__(self, connection: "HTTPConnection", path: str, until: float) -> None:
        self._connection = connection
        self._path = path
        self._until = until

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> bytes | None:
        """The body of the answer; None unless its status is 200. Raises OSError."""
        return self.request("GET", path, headers or {})

    def request(self, method: str, path: str, headers: Mapping[str, str]) -> bytes | None:
        """:meth:`get` for any method."""
        from http.client import HTTPException  # noqa: PLC0415 - as in connected

        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.timeout = left_s  # Of the next connection, if the service closes after each answer.
        try:
            self._connection.request(method, self._path + path, headers=dict(headers))
            answer = self._connection.getresponse()
            body = answer.read(_ANSWER_LIMIT_BYTES + 1)
        except HTTPException as broken:
            raise OSError(f"the metadata service broke off ({type(broken).__name__})") from None
        return body if answer.status == 200 and len(body) <= _ANSWER_LIMIT_BYTES else None

    def hang_up(self) -> None:
        """Interrupt the pending request."""
        held = self._connection.sock
        if held is not None:
            with suppress(OSError):
                held.shutdown(2)  # socket.SHUT_RDWR


@contextmanager
def connected(address: str, until: float) -> Iterator[MetadataService]:
    """The service at ``address`` with the deadline ``until``, by the monotonic clock. Raises ``OSError`` and
    ``ValueError``."""
    from http.client import HTTPConnection  # noqa: PLC0415 - only where a service may answer

    url = urlsplit(address)
    left_s = until - time.monotonic()
    if url.scheme != "http" or not url.hostname:
        raise ValueError("a metadata service has to be at an http address")
    if left_s <= 0:
        raise TimeoutError
    connection = HTTPConnection(url.hostname, url.port, timeout=left_s)
    service = MetadataService(connection, url.path.rstrip("/"), until)
    # A socket's timeout does not bound a request: one byte now and then would satisfy it.
    timer = threading.Timer(left_s, service.hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield service
    finally:
        timer.cancel()
        connection.close()
