"""The dashboard's answers: status, headers and body. A body is compressed once and shared by all browsers."""

import gzip
import html
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from lastbeat.model.text import one_line
from lastbeat.settings import own_log
from lastbeat.views.page.assembling import plain_style

Environ = Mapping[str, object]
StartResponse = Callable[[str, list[tuple[str, str]]], object]

JSON = "application/json; charset=utf-8"
HTML = "text/html; charset=utf-8"

_SECURITY: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
_NOTHING: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_FORM: Final = _NOTHING.replace("form-action 'none'", "form-action 'self'")
_SMALL_BYTES = 512
"""Bodies shorter than this are not compressed."""


@dataclass(frozen=True, slots=True)
class Body:
    """One body, plain and (if long enough) compressed by gzip."""

    plain: bytes
    kind: str
    packed: bytes | None = None


def body(plain: bytes, kind: str) -> Body:
    """``plain`` as a body, compressed if it is long enough."""
    return Body(plain, kind, gzip.compress(plain, compresslevel=6, mtime=0) if len(plain) >= _SMALL_BYTES else None)


def json_body(document: Mapping[str, object]) -> Body:
    """``document`` as JSON; a lone surrogate, which UTF-8 has no bytes for, becomes a question mark."""
    text = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return body(text.encode("utf-8", "replace"), JSON)


@dataclass(frozen=True)
class Response:
    """One answer."""

    status: str
    body: Body
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of this answer. They override the headers that every answer has."""


def refusal(
    status: str, error: str, advice: str = "", *, data: bool, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer that says what is wrong and what to do: as JSON if ``data`` was requested, else as a page."""
    if data:
        return Response(status, json_body({"error": error, "advice": advice}), headers or {})
    return _plain_page(status, error, advice, headers=headers or {})


def token_form(error: str, headers: Mapping[str, str]) -> Response:
    """A page with a field for the token, without scripts.

    The form has no action, so browsers post it to the open address and keep that address's fragment through the
    redirect.
    """
    status = "401 Unauthorized"
    field = (
        '<form method="post"><p><label>Token <input type="password" name="token" autocomplete="current-password" '
        'required autofocus></label> <button class="quiet">Open</button></p></form>'
    )
    advice = "The terminal where 'lastbeat dashboard' was started shows it, or LASTBEAT_DASHBOARD_TOKEN holds it."
    # Under no-referrer browsers send "Origin: null", and so could the form of another site.
    return _plain_page(status, error, advice, field, headers={"Referrer-Policy": "strict-origin", **headers})


def redirect(headers: Mapping[str, str]) -> Response:
    """A redirect to the page. Relative, since a proxy may serve the page below a path of its own."""
    return Response("303 See Other", Body(b"", HTML), {"Location": "./", **headers})


def _plain_page(title: str, error: str, advice: str, form: str = "", *, headers: Mapping[str, str]) -> Response:
    style, allowed = plain_style()
    told = "".join(f"<p>{html.escape(text)}</p>" for text in (error, advice) if text)
    whole = f'{_PLAIN_PAGE}{style}<main class="empty"><h1>{html.escape(title)}</h1>{told}{form}</main>'
    policy = f"{_FORM if form else _NOTHING}; {allowed}"
    return Response(title, Body(whole.encode(), HTML), {"Content-Security-Policy": policy, **headers})


_PLAIN_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark"><title>lastbeat</title>'
)


def masked(text: str) -> str:
    """``text`` on one line, without terminal escapes and secrets."""
    # Escape sequences go first: a pattern cannot match a secret that has a colour code in its middle.
    return own_log.masked(one_line(text))


def takes_packed(accept_encoding: str) -> bool:
    """Whether the client that sent this Accept-Encoding header accepts gzip."""
    for part in accept_encoding.lower().split(",")[:20]:
        coding, _, weight = part.partition(";")
        if coding.strip() in {"gzip", "*"}:
            return not re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight)
    return False


def send(answer: Response, environ: Environ, start_response: StartResponse, policy: str = _NOTHING) -> Iterable[bytes]:
    """Send ``answer`` by WSGI and return its body. ``policy`` is the content security policy of the page; only the page
    has an ETag."""
    whole = answer.body
    packs = whole.packed is not None and takes_packed(str(environ.get("HTTP_ACCEPT_ENCODING", "")))
    content = whole.packed if packs and whole.packed is not None else whole.plain
    is_page = "ETag" in answer.headers
    headers = {
        **_SECURITY,
        "Content-Security-Policy": policy if is_page else _NOTHING,
        "Cache-Control": "no-cache" if is_page else "no-store",
        "Vary": "Accept-Encoding, Cookie, Authorization",
        **answer.headers,
    }
    if answer.status.startswith("304"):
        start_response(answer.status, list(headers.items()))
        return []
    headers |= {"Content-Type": whole.kind, "Content-Length": str(len(content))}
    if packs:
        headers["Content-Encoding"] = "gzip"
    start_response(answer.status, list(headers.items()))
    return [] if environ.get("REQUEST_METHOD") == "HEAD" else [content]
