"""The host of an object store's requests: asks it for its time, unsigned, and keeps requests from other hosts."""

import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta, timezone
from typing import Any, Final
from urllib.parse import quote, urlsplit

from lastbeat.model.data import dataclass

_log = logging.getLogger(__name__)

_NOWHERE: Final = "127.0.0.1:0"
"""Address to which no connection is possible. No program can listen on port 0, so nothing is sent."""
CONNECT_S: Final = 3.0
"""Time limit in s for a connection."""
REQUEST_S: Final = 10.0
"""Time limit in s for a whole request."""
_MOST_OF_A_HEAD: Final = 64 * 1024
"""Most bytes of an answer's head that are read."""
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class EndpointAnswer:
    """The answer to a small unsigned request. ``time_s`` is the server's time when the answer came, in seconds since
    the epoch, or None if the server did not give it. Names of ``headers`` are in lower case."""

    time_s: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def ask_endpoint(
    endpoint: str, place: str, *, timeout_s: float = 3.0, ca_bundle: str | None = None
) -> EndpointAnswer | None:
    """Ask ``endpoint`` about its bucket or container ``place``. Returns any answer, also a refusal, or None without
    one.

    Returns after about ``timeout_s`` at the latest, also when the answer comes in small pieces.
    """
    answers: list[EndpointAnswer | None] = []
    # The library's limit is on the time between two bytes. A limit on the total needs a thread of its own.
    asking = threading.Thread(
        target=lambda: answers.append(_ask(endpoint, place, timeout_s, ca_bundle)),
        name="lastbeat-endpoint",
        daemon=True,
    )
    asking.start()
    asking.join(timeout_s)
    return answers[0] if answers else None


def _ask(endpoint: str, place: str, timeout_s: float, ca_bundle: str | None) -> EndpointAnswer | None:
    try:
        parts = urlsplit(endpoint)
        host, is_https = parts.hostname or "", parts.scheme == "https"
        path = f"{parts.path.rstrip('/')}/{quote(place)}"
        request = f"HEAD {path} HTTP/1.1\r\nHost: {_ascii(parts.netloc).decode()}\r\nConnection: close\r\n\r\n"
        address: Any = (_ascii(host), parts.port or (443 if is_https else 80))
        connection = socket.create_connection(address, timeout_s)
        try:
            if is_https:
                import ssl  # noqa: PLC0415 - 10 ms to import, and a store on this machine's network may do without

                connection = ssl.create_default_context(cafile=ca_bundle).wrap_socket(connection, server_hostname=host)
            asked = time.monotonic()
            connection.sendall(request.encode())
            head = _head(connection)
            travel_s = time.monotonic() - asked
        finally:
            connection.close()
    except (OSError, ValueError) as error:
        _log.debug("the endpoint %s gave no answer: %s", endpoint, type(error).__name__)
        return None
    if not head.startswith("HTTP/1."):
        _log.debug("the endpoint %s does not speak HTTP", endpoint)
        return None
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:])
    }
    date_s = _http_time_s(headers.get("date", ""))
    # The date is cut to whole seconds, by half a second on average, and the answer took half of the round trip.
    return EndpointAnswer(None if date_s is None else date_s + 0.5 + travel_s / 2, headers)


def _ascii(host: str) -> bytes:
    # Loading the codec for other names takes 2 ms, and Python would load it for any text.
    return host.encode("ascii" if host.isascii() else "idna")


def _head(connection: socket.socket) -> str:
    """The received head of an answer. Python's own HTTP client takes 15 ms to import."""
    received = b""
    while b"\r\n\r\n" not in received and len(received) < _MOST_OF_A_HEAD:
        more = connection.recv(_MOST_OF_A_HEAD)
        if not more:
            break
        received += more
    return received.partition(b"\r\n\r\n")[0].decode("latin-1")


def _http_time_s(text: str) -> float | None:
    """Seconds since the epoch for ``Sun, 06 Nov 1994 08:49:37 GMT``, the one form that servers may send; None for other
    text."""
    try:
        _, day, month, year, clock, _ = text.split()
        hours, minutes, seconds = map(int, clock.split(":"))
        at = datetime(int(year), _MONTHS.index(month) + 1, int(day), hours, minutes, seconds, tzinfo=timezone.utc)
    except ValueError:
        return None
    return at.timestamp()


def server_time_s(endpoint: str, place: str, env: Mapping[str, str]) -> float | None:
    """The server's time in seconds since the epoch, or None if it is unknown, as behind a proxy, which only obstore
    supports."""
    if goes_through_proxy(endpoint, env):
        return None
    found = ask_endpoint(endpoint, place, timeout_s=CONNECT_S)
    return found.time_s if found else None


def goes_through_proxy(endpoint: str, env: Mapping[str, str]) -> bool:
    """Whether ``env`` sends requests to ``endpoint`` through a proxy, which :func:`ask_endpoint` cannot use."""
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    excluded = (env.get("no_proxy") or env.get("NO_PROXY") or "").replace(" ", "").split(",")
    if any(e == "*" or (e and f".{host}".endswith(f".{e.lstrip('.')}")) for e in excluded):
        return False
    names = (f"{parts.scheme}_proxy", "all_proxy")
    return any(env.get(name) or env.get(name.upper()) for name in names)


def client_options(
    endpoint: str, env: Mapping[str, str], *others: str, connect_s: float = CONNECT_S, request_s: float = REQUEST_S
) -> dict[str, Any]:
    """Options of obstore's client of ``endpoint``: time limits in seconds, and the hosts that it may reach. These are
    ``endpoint``'s, names below that, and ``others``, which issue credentials.

    A redirect would carry credentials to any host that the answer names (S3's session token in a kept header, the
    signature of an Azure address in ``Referer``), and obstore cannot be kept from following one. So every other host is
    reached through a proxy that cannot exist, and the endpoint's own without any.
    """
    options: dict[str, Any] = {
        "allow_http": endpoint.startswith("http://"),
        "connect_timeout": timedelta(seconds=connect_s),
        "timeout": timedelta(seconds=request_s),
    }
    if not goes_through_proxy(endpoint, env):
        # A proxy of the user has to reach the endpoint, and applies to all hosts.
        options |= {
            "proxy_url": f"http://{_NOWHERE}",
            "proxy_excludes": ",".join([*_spellings(urlsplit(endpoint).hostname or ""), *others]),
        }
    return options


def was_kept(text: str) -> bool:
    """Whether a client error with this text is about a request that was kept from leaving the host."""
    return _NOWHERE in text


def _spellings(host: str) -> list[str]:
    """The spellings of ``host`` that obstore may compare: it shortens addresses, and writes names in ASCII."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    try:
        # 127.1 and 0x7f000001 are addresses too.
        return [host, socket.inet_ntoa(socket.inet_aton(host))]
    except (OSError, UnicodeError):
        pass
    try:
        return list(dict.fromkeys([host, _ascii(host).decode()]))
    except UnicodeError:
        return [host]
