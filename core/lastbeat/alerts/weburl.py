"""The address of a web hook: checks it, names it without showing it, and limits the time of a call to it.

A web hook's address is its password, so no message here ever contains one.
"""

import hashlib
import ipaddress
from urllib.parse import SplitResult, urlsplit

from lastbeat.model.data import dataclass


@dataclass(frozen=True, slots=True)
class HttpTimeouts:
    """Seconds: to connect, between two pieces of the answer, and for the whole call (but name resolution)."""

    connect_s: float = 3.0
    read_s: float = 5.0
    total_s: float = 15.0


LIMITS = HttpTimeouts()
"""Time limits for every webhook. Their total stays below the lease of a claimed delivery, or another pass would send
the alert again."""


def check_address(text: str, *, plain_http: bool) -> str:
    """Return ``text`` if it is a usable http(s) address. Raises ``ValueError``, whose text completes a sentence that
    begins with the address. Without ``plain_http``, http is allowed only for this machine's own addresses."""
    fault = _fault(text, plain_http=plain_http)
    if fault is not None:
        raise ValueError(fault)
    return text


def _fault(text: str, *, plain_http: bool) -> str | None:
    if text[:1] in {"'", '"'}:
        return "begins with a quote"
    if len(text) > 2048:
        return f"has {len(text)} characters, more than an address can have"
    if not text.isascii() or not text.isprintable() or " " in text:
        return "contains a space, a control character or one that is not ASCII"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "is not a web address"
    if parts.scheme not in {"https", "http"}:
        return "is not an https address"
    if not host or port == 0 or not _possible(host):
        return "names no host that could be reached"
    if parts.scheme == "http" and not plain_http and not _loopback(host):
        return "is an http address, which would show the alert and the secret to the network: use https"
    return None


def _possible(host: str) -> bool:
    """Whether ``host`` is a possible name: DNS allows labels of 1 to 63 characters, and 253 in all."""
    labels = host.rstrip(".").split(".")
    return ":" in host or (len(host) <= 253 and all(1 <= len(label) <= 63 for label in labels))


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def fingerprint(secret: str) -> str:
    """Eight hex digits that distinguish destinations without revealing them."""
    return hashlib.sha256(secret.encode()).hexdigest()[:8]


def host(url: str) -> str:
    """The host of ``url``, with a port if it names one. Never a path, a user or a password."""
    parts: SplitResult = urlsplit(url)
    return parts.netloc.rpartition("@")[2]
