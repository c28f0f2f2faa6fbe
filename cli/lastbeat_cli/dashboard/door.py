"""Who may look at the dashboard: on loopback whoever is on this machine, from elsewhere who has the token."""

import hmac
import ipaddress
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final
from urllib.parse import parse_qs

CHANGES: Final = "/api/silences"
"""The one place where something can be changed."""
HEADER: Final = "X-Lastbeat"
"""What the page sends along with a change: other sites' pages may send no header of their own unless they are let."""
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")


class Admission(Enum):
    """What the door says of a request."""

    WELCOME = "welcome"
    ENTERED = "entered"
    """It brought the token, in its address or a form, and now gets a cookie instead."""
    STRANGER = "stranger"
    """It has no token, or a wrong one."""
    ELSEWHERE = "elsewhere"
    """It was sent to another name than this machine's, as a page would that had its own name point here."""
    INTRUDER = "intruder"
    """A page of another origin wants data."""
    READ_ONLY = "read only"
    """It wants to change something, where no token is set that tells who may."""
    FORGED = "forged"
    """It wants to change something, and a page of another origin, or a form of one, may have sent it."""
    NO_JSON = "no JSON"
    """It wants to change something, by a kind of body that forms may send as well."""


METRICS: Final = "/metrics"


def is_data(path: str) -> bool:
    """Whether what lies there is for programs, and no page for people."""
    return path in {METRICS, CHANGES} or path.startswith("/data/")


def is_loopback(host: str) -> bool:
    """Whether ``host`` reaches this machine alone, by its address or as "localhost"."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Door:
    """``token`` None: whoever reaches it may look. ``local``: it listens on loopback alone."""

    local: bool
    token: str | None = None
    name: str = "lastbeat"
    """Of the cookie. Cookies know no ports, so that two dashboards of one machine need two names."""
    _keys: set[str] = field(default_factory=set)

    def judge(self, environ: Mapping[str, object]) -> Admission:
        """Of one request, by WSGI's names for what it brings."""
        if self.local and not _is_local(_text(environ, "HTTP_HOST")):
            return Admission.ELSEWHERE
        asks_data = is_data(_text(environ, "PATH_INFO"))
        # Browsers say so to this machine and over TLS alone; elsewhere the cookie's own rules have to do.
        if asks_data and _text(environ, "HTTP_SEC_FETCH_SITE") not in {"", "none", "same-origin"}:
            return Admission.INTRUDER
        if self.token is None:
            return Admission.WELCOME
        # Before anything else that opens: it must not stay in the address, where people see it and browsers keep it.
        if not asks_data and any(map(self._opens, tokens_in(_text(environ, "QUERY_STRING")))):
            return Admission.ENTERED
        scheme, _, given = _text(environ, "HTTP_AUTHORIZATION").partition(" ")
        if scheme.lower() == "bearer" and _same(given.strip(), self.token):
            return Admission.WELCOME
        return Admission.WELCOME if self._has_cookie(environ) else Admission.STRANGER

    def judge_change(self, environ: Mapping[str, object]) -> Admission:
        """Of one request that wants to change something, which only the page's own script may, in a browser that was
        let in by the token. Each rule would do where browsers keep to theirs; there are several, for not all do."""
        if self.local and not _is_local(_text(environ, "HTTP_HOST")):
            return Admission.ELSEWHERE
        if self.token is None:
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
        """Whether the browser that asks was let in by the token, so that its page may offer changes."""
        return self.token is not None and self._has_cookie(environ)

    def key(self) -> str:
        """What opens it once in the token's place: for a browser's command line, which everybody here may read."""
        made = secrets.token_urlsafe(24)
        self._keys.add(made)
        return made

    @property
    def cookie(self) -> str:
        """The Set-Cookie header in exchange for the token. Scripts cannot read it, and a request that another site
        starts carries it only where a user follows a link, which shows the page and changes nothing."""
        return f"{self.name}={self._pass()}; Path=/; HttpOnly; SameSite=Lax"

    def _has_cookie(self, environ: Mapping[str, object]) -> bool:
        return any(_same(value, self._pass()) for value in _cookies(_text(environ, "HTTP_COOKIE"), self.name))

    def _opens(self, given: str) -> bool:
        found = [key for key in tuple(self._keys) if _same(given, key)]
        self._keys.difference_update(found)
        return bool(found) or _same(given, self.token or "")

    def _pass(self) -> str:
        # Not the token itself, which opens other machines' dashboards too where people set one for all.
        return hmac.new((self.token or "").encode(), self.name.encode(), "sha256").hexdigest()


def _is_local(host: str) -> bool:
    # Whatever the port: it may be another one at the near end of an ssh tunnel.
    found = _HOST.fullmatch(host)
    return found is not None and (found["name"].lower() in _LOCAL_NAMES or is_loopback(found["name"]))


def _is_from_here(environ: Mapping[str, object]) -> bool:
    """Whether a browser says that a page of this very host and port sent it. SameSite does not: it knows no ports."""
    site = _text(environ, "HTTP_SEC_FETCH_SITE")
    if site:
        # The browser has compared them itself; a proxy may have put another Host in the place of what it saw.
        return site == "same-origin"
    scheme, _, origin = _text(environ, "HTTP_ORIGIN").lower().partition("://")
    # A proxy with TLS makes "https" of it.
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
