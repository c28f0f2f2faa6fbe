"""One POST to a web hook: bounded in time and bytes, its failure classified, its address never told.

What an answer means is the same for every hook:

    2xx                         delivered
    408 425 429 5xx             may work later, not before Retry-After
    no answer, reset, DNS, TLS  may work later
    any other                   will never work: a redirect would hand the alert to somebody else

This module imports requests and is itself imported by :meth:`send` alone.
"""

import math
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

import requests
import urllib3

from lastbeat.deliver.port import DeliveryError
from lastbeat.deliver.session import one_call
from lastbeat.deliver.weburl import HttpTimeouts
from lastbeat.model.redact import Redactor
from lastbeat.model.text import fit, one_line
from lastbeat.model.version import __version__

_LONGEST_WAIT_S = 3600.0
_ANSWER_BYTES = 512
_LATER = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What the server said. ``text`` is the start of its body: one line, bounded, without secrets."""

    status: int
    text: str
    retry_after_s: float | None = None


def deliver(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    to: str,
    limits: HttpTimeouts,
    advice: Mapping[str, str] | None = None,
) -> None:
    """POST ``body`` once. Raises :class:`DeliveryError` unless the answer is 2xx.

    ``to`` names the destination for people, without secrets; ``advice`` says what to do about an answer.
    """
    answer = post(url, body, headers, to=to, limits=limits)
    if not 200 <= answer.status < 300:
        raise refusal(answer, to=to, advice=advice or {})


def refusal(answer: HttpAnswer, *, to: str, advice: Mapping[str, str]) -> DeliveryError:
    """What an answer other than 2xx means."""
    what = f"{to} answered {answer.status} {answer.text}".rstrip()
    remedy = advice.get(answer.text)
    later = answer.status in _LATER or answer.status >= 500
    return DeliveryError(
        f"{what}: {remedy}" if remedy else what,
        retryable=later,
        retry_after_s=answer.retry_after_s if later else None,
    )


def post(url: str, body: bytes, headers: Mapping[str, str], *, to: str, limits: HttpTimeouts) -> HttpAnswer:
    """POST ``body`` once and return the answer, whatever it is. Raises :class:`DeliveryError` without one."""
    masked = Redactor([url])
    outcome = _attempt(url, body, headers, limits, masked)
    # Raised here, where no exception that holds the URL is being handled, so that none is chained to it.
    if isinstance(outcome, str):
        raise DeliveryError(f"{to}: {masked(outcome)}", retryable=True)
    return outcome


def _attempt(
    url: str, body: bytes, headers: Mapping[str, str], limits: HttpTimeouts, masked: Redactor
) -> HttpAnswer | str:
    """The answer, or in words why there is none."""
    everything = {
        "User-Agent": f"lastbeat/{__version__}",
        # An answer is a few words; decompressing one would let a hostile server fill the memory.
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
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            return in_words(error, limits, overdue=deadline.over)


def _read(response: requests.Response, masked: Redactor) -> HttpAnswer:
    status = response.status_code
    wait = retry_after_s(response.headers.get("Retry-After"), response.headers.get("Date"))
    body = b""
    if not 200 <= status < 300:
        # The status has decided already; the body only explains, so whatever of it arrives is enough.
        with suppress(requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError):
            while len(body) < _ANSWER_BYTES and (byte := response.raw.read(1, decode_content=False)):
                body += byte
    said = one_line(body.decode("utf-8", errors="replace"))
    # A page for browsers explains nothing in its first words.
    text = "" if said.startswith("<") else fit(masked(said), 100)
    return HttpAnswer(status, text or fit(masked(one_line(response.reason or "")), 60), wait)


def in_words(error: BaseException, limits: HttpTimeouts, *, overdue: bool = False) -> str:
    """Why there was no answer. Never the error's own text: it holds the URL, and a URL may be a secret."""
    if overdue:
        return f"no complete answer within {limits.total_s:g} s"
    chain = list(_chain(error))
    for inner in chain:
        if isinstance(inner, ssl.SSLCertVerificationError):
            return f"the server's certificate was refused: {fit(one_line(inner.verify_message), 100)}"
    names: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
        (requests.exceptions.ProxyError, "the proxy could not be used"),
        ((ssl.SSLError, requests.exceptions.SSLError), "no secure connection could be made (TLS)"),
        ((socket.gaierror, UnicodeError), "the host's name could not be resolved"),
        (ConnectionRefusedError, "the connection was refused"),
        (requests.exceptions.ConnectTimeout, f"no connection within {limits.connect_s:g} s"),
        (requests.exceptions.ReadTimeout, f"no answer within {limits.read_s:g} s"),
        (requests.exceptions.ConnectionError, "the connection broke before an answer came"),
        (TimeoutError, f"no connection within {limits.connect_s:g} s"),
    )
    for kinds, words in names:
        if any(isinstance(inner, kinds) for inner in chain):
            return words
    return f"the request failed ({type(error).__name__})"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """``error`` and what caused it; requests and urllib3 put causes into ``args`` and ``reason`` as well."""
    queue: list[object] = [error]
    seen: set[int] = set()
    while queue:
        inner = queue.pop(0)
        if isinstance(inner, BaseException) and id(inner) not in seen:
            seen.add(id(inner))
            queue += [inner.__cause__, inner.__context__, getattr(inner, "reason", None), *inner.args]
            yield inner


def retry_after_s(value: str | None, date: str | None = None) -> float | None:
    """Seconds that a ``Retry-After`` header asks for, 0 to 3600; None when it is missing or nonsense.

    An HTTP date is measured from the answer's own ``Date``, so that our clock does not matter, and from
    our clock only where there is none.
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
