"""Keeps obstore at the host of its endpoint.

A redirect would take the session token (``x-amz-security-token``) to whatever host the answer names, and obstore has no
switch against following one. So every other host is reached through a proxy that cannot exist, and the endpoint's own
without any.
"""

import ipaddress
import socket
from typing import Final, TypedDict
from urllib.parse import urlsplit

_NOWHERE: Final = "127.0.0.1:0"
"""Nobody can listen on port 0, so a connection there is refused at once, and nothing is sent."""


class OneHost(TypedDict):
    """Client options of obstore."""

    proxy_url: str
    proxy_excludes: str


def one_host(endpoint: str) -> OneHost:
    """What lets a client of ``endpoint`` reach its host, and names below that, and no other."""
    return {
        "proxy_url": f"http://{_NOWHERE}",
        "proxy_excludes": ",".join(_spellings(urlsplit(endpoint).hostname or "")),
    }


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
