"""The host that an object store's requests go to: what it is asked without a signature, and that none leaves it."""

import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypedDict
from urllib.parse import quote, urlsplit

_log = logging.getLogger(__name__)

_NOWHERE: Final = "127.0.0.1:0"
"""Nobody can listen on port 0, so a connection there is refused at once, and nothing is sent."""


CONNECT_S: Final = 3.0
"""So long a connection may take."""
REQUEST_S: Final = 10.0
"""So long a whole request may."""


@dataclass(frozen=True, slots=True)
class EndpointAnswer:
    """What one small unsigned request brought. ``time_s`` is the server's time when the answer came, in seconds since
    the epoch; None where the server did not say it. Names of ``headers`` are in lower case."""

    time_s: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def ask_endpoint(
    endpoint: str, place: str, *, timeout_s: float = 3.0, ca_bundle: str | None = None
) -> EndpointAnswer | None:
    """Ask ``endpoint`` about its bucket or container ``place``. Any answer serves, a refusal too; None: there is none.

    Returns after about ``timeout_s`` at the latest, also when the answer drips in.
    """
    answers: list[EndpointAnswer | None] = []
    # The library's own limit is one between two bytes; only somebody who does not wait for it can keep to a total.
    asking = threading.Thread(
        target=lambda: answers.append(_ask(endpoint, place, timeout_s, ca_bundle)),
        name="lastbeat-endpoint",
        daemon=True,
    )
    asking.start()
    asking.join(timeout_s)
    return answers[0] if answers else None


def _ask(endpoint: str, place: str, timeout_s: float, ca_bundle: str | None) -> EndpointAnswer | None:
    # 18 ms to import, and most processes that import this module never come here.
    import http.client  # noqa: PLC0415
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    try:
        parts = urlsplit(endpoint)
        if parts.scheme == "https":
            import ssl  # noqa: PLC0415

            context = ssl.create_default_context(cafile=ca_bundle)
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.netloc, timeout=timeout_s, context=context
            )
        else:
            connection = http.client.HTTPConnection(parts.netloc, timeout=timeout_s)
        try:
            asked = time.monotonic()
            connection.request("HEAD", f"{parts.path.rstrip('/')}/{quote(place)}")
            answer = connection.getresponse()
            travel_s = time.monotonic() - asked
            headers = {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        _log.debug("the endpoint %s gave no answer: %s", endpoint, type(error).__name__)
        return None
    try:
        # Cut to whole seconds, by half a second on average; and then it travelled back.
        told_s = parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, TypeError):  # the latter on Python 3.10
        return EndpointAnswer(None, headers)
    return EndpointAnswer(told_s + 0.5 + travel_s / 2, headers)


def told_time_s(endpoint: str, place: str, env: Mapping[str, str]) -> float | None:
    """The server's time in seconds since the epoch; None where it cannot be had. A proxy is obstore's to deal with."""
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


class OneHost(TypedDict):
    """Client options of obstore."""

    proxy_url: str
    proxy_excludes: str


def one_host(endpoint: str, *others: str) -> OneHost:
    """What lets a client of ``endpoint`` reach its host, and names below that, and no other but the hosts ``others``.

    A redirect would take what opens the store to whatever host the answer names (S3's session token in a header that is
    kept, the signature of an Azure address in ``Referer``), and obstore has no switch against following one. So every
    other host is reached through a proxy that cannot exist, and the endpoint's own without any. ``others`` are those
    that issue credentials.
    """
    return {
        "proxy_url": f"http://{_NOWHERE}",
        "proxy_excludes": ",".join([*_spellings(urlsplit(endpoint).hostname or ""), *others]),
    }


def client_options(
    endpoint: str, env: Mapping[str, str], *others: str, connect_s: float = CONNECT_S, request_s: float = REQUEST_S
) -> dict[str, Any]:
    """What obstore's client of ``endpoint`` gets: limits on its time, in seconds, and the hosts that it may ask, which
    are ``endpoint``'s and ``others``."""
    options: dict[str, Any] = {
        "allow_http": endpoint.startswith("http://"),
        "connect_timeout": timedelta(seconds=connect_s),
        "timeout": timedelta(seconds=request_s),
    }
    # A proxy is one for all hosts: where there is one, it has to reach the endpoint, and so reaches others, too.
    return options if goes_through_proxy(endpoint, env) else options | one_host(endpoint, *others)


def was_kept(text: str) -> bool:
    """Whether a client error with this text is about a request that was to leave the host."""
    return _NOWHERE in text


def _spellings(host: str) -> list[str]:
    """``host`` as it may be compared: obstore writes addresses their shortest way, and names in ASCII."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    try:
        # 127.1 and 0x7f000001 are addresses, too.
        return [host, socket.inet_ntoa(socket.inet_aton(host))]
    except (OSError, UnicodeError):
        pass
    try:
        return list(dict.fromkeys([host, host.encode("idna").decode()]))
    except UnicodeError:
        return [host]
