"""HTTP to a webhook: one POST, limited in time and bytes. Failures are classified, and the address is never shown.

An answer means the same for every webhook:

    2xx                         delivered
    408 425 429 5xx             retried, not before Retry-After
    no answer, reset, DNS, TLS  retried
    any other                   not retried; following a redirect would hand the alert to a third party
"""

import math
import re
import socket
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

import requests
from requests.utils import DEFAULT_CA_BUNDLE_PATH, select_proxy

from lastbeat.alerts.port import DeliveryError
from lastbeat.alerts.web.calls import NO_ANSWER, in_words, one_call
from lastbeat.alerts.weburl import HttpTimeouts
from lastbeat.model.secrets import Redactor
from lastbeat.model.text import fit, one_line
from lastbeat.model.version import __version__

_LONGEST_WAIT_S = 3600.0
_ANSWER_BYTES = 512
_LATER = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The server's answer. ``text`` is the start of its body: one line, bounded, without secrets."""

    status: int
    text: str
    retry_after_s: float | None = None


def deliver(  # noqa: PLR0913 - as below
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    to: str,
    limits: HttpTimeouts,
    setting: str,
    advice: Mapping[str, str] | None = None,
) -> None:
    """POST ``body`` once. Raises :class:`DeliveryError` unless the answer is 2xx.

    ``to`` names the destination for display, without secrets, and ``setting`` names the setting with its address.
    ``advice`` maps the text of an answer to advice.
    """
    answer = post(url, body, headers, to=to, limits=limits, setting=setting)
    if not 200 <= answer.status < 300:
        raise refusal(answer, to=to, setting=setting, advice=advice or {})


def refusal(answer: HttpAnswer, *, to: str, setting: str, advice: Mapping[str, str]) -> DeliveryError:
    """The error for an answer other than 2xx."""
    later = answer.status in _LATER or answer.status >= 500
    return DeliveryError(
        f"{to} answered {answer.status} {answer.text}".rstrip(),
        retryable=later,
        retry_after_s=answer.retry_after_s if later else None,
        advice=advice.get(answer.text) or _remedy(answer.status, setting),
    )


def _remedy(status: int, setting: str) -> str:
    if status in _LATER or status >= 500:
        return "it should pass; alerts wait and are sent again"
    if 300 <= status < 400:
        return f"it has moved; set {setting} to where it is now"
    if status in {401, 403, 407}:
        return f"it does not let lastbeat in; check {setting} to its last character, or ask its operator"
    if status in {404, 405, 410}:
        return f"nothing takes messages at that address; check {setting}"
    return f"it does not take what lastbeat sends; check that {setting} is an address for alerts"


def _without_answer(words: str, setting: str) -> str:
    """The advice if there was no answer, by the reason from :func:`in_words`."""
    if words.startswith("the proxy"):
        return "check HTTPS_PROXY and HTTP_PROXY"
    if "TLS" in words or "certificate" in words:
        return f"check {setting}, and REQUESTS_CA_BUNDLE if its certificate is your own authority's"
    if "resolved" in words:
        return f"check the host in {setting}, and this machine's network"
    if "refused" in words:
        return f"check the host and port in {setting}, and that something listens there"
    return f"check the host in {setting}, and that a firewall lets this machine reach it"


def post(  # noqa: PLR0913 - all but the first three are given by name
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    to: str,
    limits: HttpTimeouts,
    setting: str,
    secrets: Iterable[str] = (),
) -> HttpAnswer:
    """POST ``body`` once and return any answer. Raises :class:`DeliveryError` if there is none. ``secrets`` and the
    address are masked in the server's text."""
    masked = Redactor([url, *secrets])
    outcome = _attempt(url, body, headers, limits, masked)
    # Raised outside the handler, so that no exception with the URL in it is chained.
    if isinstance(outcome, str):
        raise DeliveryError(f"{to}: {masked(outcome)}", retryable=True, advice=_without_answer(outcome, setting))
    return outcome


def _attempt(
    url: str, body: bytes, headers: Mapping[str, str], limits: HttpTimeouts, masked: Redactor
) -> HttpAnswer | str:
    """The answer, or why there is none, in words."""
    everything = {
        "User-Agent": f"lastbeat/{__version__}",
        # Answers are short. Decompressing one would let a hostile server fill the memory.
        "Accept-Encoding": "identity",
        **headers,
    }
    with one_call(limits.total_s, masked) as (session, deadline):
        try:
            with session.post(
                url,
                data=body,
                headers=everything,
                timeout=(limits.connect_s, limits.read_s),
                allow_redirects=False,
                stream=True,
            ) as response:
                return _read(response, masked)
        except NO_ANSWER as error:
            return in_words(error, limits, overdue=deadline.over)


def _read(response: requests.Response, masked: Redactor) -> HttpAnswer:
    status = response.status_code
    wait = retry_after_s(response.headers.get("Retry-After"), response.headers.get("Date"))
    body = b""
    if not 200 <= status < 300:
        # The status decides. The body only explains it, so any part is enough.
        with suppress(*NO_ANSWER):
            while len(body) < _ANSWER_BYTES and (byte := response.raw.read(1, decode_content=False)):
                body += byte
    said = one_line(body.decode("utf-8", errors="replace"))
    # The start of an HTML page explains nothing.
    text = "" if said.startswith("<") else fit(masked(said), 100)
    return HttpAnswer(status, text or fit(masked(one_line(response.reason or "")), 60), wait)


def retry_after_s(value: str | None, date: str | None = None) -> float | None:
    """Seconds that a ``Retry-After`` header asks for, 0 to 3600; None if it is missing or invalid.

    An HTTP date is measured from the answer's own ``Date``, so that this machine's clock does not matter, and from this
    machine's clock only without one.
    """
    if value is None:
        return None
    value = value.strip()
    if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", value, re.ASCII):
        return min(float(value), _LONGEST_WAIT_S)
    until = _http_date(value)
    if until is None:
        return None
    since = _http_date(date or "") or datetime.now(timezone.utc)
    wait = (until - since).total_seconds()
    return min(max(wait, 0.0), _LONGEST_WAIT_S) if math.isfinite(wait) else None


def _http_date(text: str) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(text[:64])
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)


def reach(url: str, *, to: str, limits: HttpTimeouts, setting: str) -> str:
    """Check that the host of ``url`` answers: resolve, connect, TLS handshake. Sends nothing; returns one line for
    display.

    Raises :class:`DeliveryError`.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    with requests.Session() as session:
        seen = session.merge_environment_settings(url, {}, None, None, None)
    if select_proxy(url, seen["proxies"]):
        return f"{to}: not checked, because it is reached through a proxy"
    outcome = _handshake(parts.hostname or "", parts.port or (443 if secure else 80), secure, seen["verify"], limits)
    if outcome is not None:
        raise DeliveryError(f"{to}: {outcome}", retryable=True, advice=_without_answer(outcome, setting))
    return f"{to}: the host answers; nothing was sent"


def _handshake(host: str, port: int, secure: bool, verify: object, limits: HttpTimeouts) -> str | None:
    """Connect and handshake. Returns why that failed, in words, or None if it worked."""
    try:
        with socket.create_connection((host, port), timeout=limits.connect_s) as plain:
            if secure:
                with _tls(verify).wrap_socket(plain, server_hostname=host):
                    pass
    except (OSError, UnicodeError) as error:
        return in_words(error, limits)
    return None


def _tls(verify: object) -> ssl.SSLContext:
    """A context with the authorities that requests trusts: certifi's, or REQUESTS_CA_BUNDLE."""
    bundle = Path(verify) if isinstance(verify, str) else Path(DEFAULT_CA_BUNDLE_PATH)
    if bundle.is_dir():
        return ssl.create_default_context(capath=bundle)
    return ssl.create_default_context(cafile=bundle)
