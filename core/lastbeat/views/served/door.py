"""Admission to the dashboard, and the right to act. On loopback every user of this machine may view it; other clients
need a token, and acting needs the one for that."""

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
SLACK: Final = "/slack"
"""Slack sends its requests here."""
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
    VIEWER = "viewer"
    """The request is a change, and its token lets its owner view only."""
    FORGED = "forged"
    """The request is a change that a page or form of another origin may have sent."""
    NO_JSON = "no JSON"
    """The request is a change whose content type a form of another site could send, too."""


METRICS: Final = "/metrics"


def is_data(path: str) -> bool:
    """Whether ``path`` serves data for programs, not a page."""
    return path in {METRICS, CHANGES, SLACK} or path.startswith("/data/")


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

    Without tokens every client that can connect may view it. ``local``: the dashboard listens only on loopback.
    """

    local: bool
    token: str | None = None
    """Opens the page, and lets its owner act."""
    name: str = "lastbeat"
    """Name of the cookie. Cookies ignore ports, so two dashboards on one machine need two names."""
    encrypted: bool = False
    """Browsers reach it over TLS alone."""
    view_token: str | None = None
    """Only opens the page."""
    user_header: str = ""
    """Header in which a proxy names the user. Its requests may bring the token as a header, too."""
    _keys: set[str] = field(default_factory=set)

    def judge(self, environ: Mapping[str, object]) -> Admission:
        """Judge a request to view; ``environ`` is its WSGI environment."""
        if self.local and not _is_local(_text(environ, "HTTP_HOST")):
            return Admission.ELSEWHERE
        asks_data = is_data(_text(environ, "PATH_INFO"))
        # Browsers send Sec-Fetch-Site only to loopback and over TLS. Elsewhere the cookie's SameSite rule must suffice.
        if asks_data and _text(environ, "HTTP_SEC_FETCH_SITE") not in {"", "none", "same-origin"}:
            return Admission.INTRUDER
        if not self.closed:
            return Admission.WELCOME
        # Checked first: the token must leave the address, where others see it and the browser's history keeps it.
        if not asks_data and any(map(self._is_token, tokens_in(_text(environ, "QUERY_STRING")))):
            return Admission.ENTERED
        given = _bearer(environ)
        known = any(_same(given, each) for each in self._tokens) or self._cookie_of(environ) is not None
        return Admission.WELCOME if known else Admission.STRANGER

    def judge_change(self, environ: Mapping[str, object]) -> Admission:
        """Judge a request that is a change.

        Only the page's own script may send it, in a browser that was admitted by the token to operate. Each check alone
        suffices for a browser that follows the standards; there are several because some do not.
        """
        if self.local and not _is_local(_text(environ, "HTTP_HOST")):
            return Admission.ELSEWHERE
        if self.token is None:
            return Admission.READ_ONLY
        token = self._token_of(environ)
        if token is None or token != self.token:
            return Admission.STRANGER if token is None else Admission.VIEWER
        if not _is_from_here(environ) or not _text(environ, _variable(HEADER)):
            return Admission.FORGED
        kind = _text(environ, "CONTENT_TYPE").partition(";")[0].strip().lower()
        return Admission.WELCOME if kind == "application/json" else Admission.NO_JSON

    def judge_login(self, environ: Mapping[str, object], form: str) -> Admission:
        """Judge a request that sends the token in ``form``."""
        if self.local and not _is_local(_text(environ, "HTTP_HOST")):
            return Admission.ELSEWHERE
        if not _is_from_here(environ):
            return Admission.FORGED
        return Admission.ENTERED if any(map(self._is_token, tokens_in(form))) else Admission.STRANGER

    def may_change(self, environ: Mapping[str, object]) -> bool:
        """Whether this browser was admitted by the token to operate, so its page may offer changes."""
        return self.token is not None and self._token_of(environ) == self.token

    def user(self, environ: Mapping[str, object]) -> str:
        """The user as a proxy names them; empty where none does."""
        return _text(environ, _variable(self.user_header)) if self.user_header else ""

    def key(self) -> str:
        """A one-time substitute for the token: every user of this machine can read a browser's command line."""
        made = secrets.token_urlsafe(24)
        self._keys.add(made)
        return made

    @property
    def closed(self) -> bool:
        """Whether the page opens with a token only."""
        return bool(self._tokens)

    def cookie_for(self, given: str) -> str | None:
        """The Set-Cookie header in exchange for the token in a query or form, or None if no token there opens.

        Scripts cannot read the cookie. A request from another site carries it only when the user follows a link, which
        shows the page and changes nothing.
        """
        found = next(filter(None, (self._opened(each.strip()) for each in tokens_in(given))), None)
        secure = "; Secure" if self.encrypted else ""
        return None if found is None else f"{self.name}={self._pass(found)}; Path=/; HttpOnly; SameSite=Lax{secure}"

    @property
    def _tokens(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.token, self.view_token)))

    def _token_of(self, environ: Mapping[str, object]) -> str | None:
        """The token that the sender of a change has: by its cookie, or as the header that a proxy adds."""
        vouched = _bearer(environ) if self.user(environ) else ""
        return next((each for each in self._tokens if _same(vouched, each)), None) or self._cookie_of(environ)

    def _cookie_of(self, environ: Mapping[str, object]) -> str | None:
        held = _cookies(_text(environ, "HTTP_COOKIE"), self.name)
        return next((each for each in self._tokens if any(_same(one, self._pass(each)) for one in held)), None)

    def _is_token(self, given: str) -> bool:
        return any(_same(given.strip(), each) for each in (*self._tokens, *self._keys))

    def _opened(self, given: str) -> str | None:
        """The token that ``given`` is, or stands for: a key is good for once."""
        found = [key for key in tuple(self._keys) if _same(given, key)]
        self._keys.difference_update(found)
        return (
            (self.token or self.view_token)
            if found
            else next((each for each in self._tokens if _same(given, each)), None)
        )

    def _pass(self, token: str) -> str:
        # A digest, because users may set the same token for the dashboards of several machines.
        return hmac.new(token.encode(), self.name.encode(), "sha256").hexdigest()


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


def _bearer(environ: Mapping[str, object]) -> str:
    scheme, _, given = _text(environ, "HTTP_AUTHORIZATION").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _variable(header: str) -> str:
    """The name of a header in a WSGI environment."""
    return f"HTTP_{header.upper().replace('-', '_')}"


def _same(given: str, own: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), own.encode())


def _text(environ: Mapping[str, object], name: str) -> str:
    value = environ.get(name, "")
    return value if isinstance(value, str) else ""
