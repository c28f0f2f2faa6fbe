"""Admission to the dashboard. On loopback every user of this machine may view it; other clients need the token."""

import hmac
import ipaddress
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final
from urllib.parse import parse_qs

CHANGES: Final = "/api/changes"
"""The only path that accepts changes."""
HEADER: Final = "X-Lastbeat"
"""Header that the page sends with a change. Browsers do not let pages of other sites send custom headers."""
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")


class Admission(Enum):
    """The door's answer to a request."""

    WELCOME = "welcome"
    ENTERED = "entered"
    """The request brought the token, in its address or a form, and gets a cookie in exchange."""
    STRANGER = "stranger"
    """The request has no token, or a wrong one."""
    ELSEWHERE = "elsewhere"
    """The Host header does not name this machine. A page whose own name resolves to this machine would send that."""
    INTRUDER = "intruder"
    """A page of another origin requests data."""
    READ_ONLY = "read only"
    """The request is a change, but no token is set, so changes are off."""
    FORGED = "forged"
    """The request is a change that a page or form of another origin may have sent."""
    NO_JSON = "no JSON"
    """The request is a change whose content type a form of another site could send, too."""


METRICS: Final = "/metrics"


def is_data(path: str) -> bool:
    """Whether ``path`` serves data for programs, not a page."""
    return path in {METRICS, CHANGES} or path.startswith("/data/")


def is_loopback(host: str) -> bool:
    """Whether ``host`` is a loopback address or "localhost"."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Door:
    """Admits requests to the dashboard.

    With ``token`` None every client that can connect may view it. ``local``: the dashboard listens only on loopback.
    """

    local: bool
    token: str | None = None
    name: str = "lastbeat"
    """Name of the cookie. Cookies ignore ports, so two dashboards on one machine need two names."""
    encrypted: bool = False
    """Browsers reach it over TLS alone."""
    changes: bool = True
    """Browsers that were admitted by the token may change something."""
    _keys: set[str] = field(default_factory=set)

    def judge(self, environ: Mapping[str, object]) -> Admission:
        """Judge a request to view; ``environ`` is its WSGI environment."""
        if self.local and not _is_local(_text(environ, "HTTP_HOST")):
            return Admission.ELSEWHERE
        asks_data = is_data(_text(environ, "PATH_INFO"))
        # Browsers send Sec-Fetch-Site only to loopback and over TLS. Elsewhere the cookie's SameSite rule must suffice.
        if asks_data and _text(environ, "HTTP_SEC_FETCH_SITE") not in {"", "none", "same-origin"}:
            return Admission.INTRUDER
        if self.token is None:
            return Admission.WELCOME
        # Checked first: the token must leave the address, where others see it and the browser's history keeps it.
        if not asks_data and any(map(self._opens, tokens_in(_text(environ, "QUERY_STRING")))):
            return Admission.ENTERED
        scheme, _, given = _text(environ, "HTTP_AUTHORIZATION").partition(" ")
        if scheme.lower() == "bearer" and _same(given.strip(), self.token):
            return Admission.WELCOME
        return Admission.WELCOME if self._has_cookie(environ) else Admission.STRANGER

    def judge_change(self, environ: Mapping[str, object]) -> Admission:
        """Judge a request that is a change.

        Only the page's own script may send it, in a browser that was admitted by the token. Each check alone suffices
        for a browser that follows the standards; there are several because some do not.
        """
        if self.local and not _is_local(_text(environ, "HTTP_HOST")):
            return Admission.ELSEWHERE
        if self.token is None or not self.changes:
            return Admission.READ_ONLY
        if not self._has_cookie(environ):
            return Admission.STRANGER
        if not _is_from_here(environ) or not _text(environ, f"HTTP_{HEADER.upper().replace('-', '_')}"):
            return Admission.FORGED
        kind = _text(environ, "CONTENT_TYPE").partition(";")[0].strip().lower()
        return Admission.WELCOME if kind == "application/json" else Admission.NO_JSON

    def judge_login(self, environ: Mapping[str, object], form: str) -> Admission:
        """Judge a request that sends the token in ``form``."""
        if self.local and not _is_local(_text(environ, "HTTP_HOST")):
            return Admission.ELSEWHERE
        if not _is_from_here(environ):
            return Admission.FORGED
        return Admission.ENTERED if any(self._opens(each.strip()) for each in tokens_in(form)) else Admission.STRANGER

    def may_change(self, environ: Mapping[str, object]) -> bool:
        """Whether this browser was admitted by the token, so its page may offer changes."""
        return self.token is not None and self.changes and self._has_cookie(environ)

    def key(self) -> str:
        """A one-time substitute for the token: every user of this machine can read a browser's command line."""
        made = secrets.token_urlsafe(24)
        self._keys.add(made)
        return made

    @property
    def cookie(self) -> str:
        """The Set-Cookie header in exchange for the token.

        Scripts cannot read the cookie. A request from another site carries it only when the user follows a link, which
        shows the page and changes nothing.
        """
        return f"{self.name}={self._pass()}; Path=/; HttpOnly; SameSite=Lax{'; Secure' if self.encrypted else ''}"

    def _has_cookie(self, environ: Mapping[str, object]) -> bool:
        return any(_same(value, self._pass()) for value in _cookies(_text(environ, "HTTP_COOKIE"), self.name))

    def _opens(self, given: str) -> bool:
        found = [key for key in tuple(self._keys) if _same(given, key)]
        self._keys.difference_update(found)
        return bool(found) or _same(given, self.token or "")

    def _pass(self) -> str:
        # A digest, because users may set the same token for the dashboards of several machines.
        return hmac.new((self.token or "").encode(), self.name.encode(), "sha256").hexdigest()


def _is_local(host: str) -> bool:
    # The port is ignored, because it differs at the near end of an ssh tunnel.
    found = _HOST.fullmatch(host)
    return found is not None and (found["name"].lower() in _LOCAL_NAMES or is_loopback(found["name"]))


def _is_from_here(environ: Mapping[str, object]) -> bool:
    """Whether a page of this host and port sent the request, by the browser's headers. SameSite ignores ports."""
    site = _text(environ, "HTTP_SEC_FETCH_SITE")
    if site:
        # The browser has compared origin and host itself; a proxy may have replaced the Host header since.
        return site == "same-origin"
    scheme, _, origin = _text(environ, "HTTP_ORIGIN").lower().partition("://")
    # Behind a proxy with TLS the scheme is https.
    return scheme in {"http", "https"} and origin != "" and origin == _text(environ, "HTTP_HOST").lower()


def _cookies(header: str, name: str) -> list[str]:
    pairs = (part.strip().partition("=") for part in header.split(";")[:50])
    return [value for key, _, value in pairs if key == name]


def tokens_in(query: str) -> list[str]:
    """The values of ``token`` in a query or a form."""
    try:
        return parse_qs(query, max_num_fields=20).get("token", [])
    except ValueError:
        return []


def _same(given: str, own: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), own.encode())


def _text(environ: Mapping[str, object], name: str) -> str:
    value = environ.get(name, "")
    return value if isinstance(value, str) else ""
