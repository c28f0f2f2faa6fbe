"""The dashboard as a WSGI application: a request in, an answer out, and nothing of a socket."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, cast
from urllib.parse import parse_qs

from lastbeat.model.document_field import NAME_CHARS
from lastbeat.model.json_values import number
from lastbeat.model.runid import InvalidRunIdError, check_run_id, is_run_id
from lastbeat.model.text import fit, one_line
from lastbeat.stores.port import StoreError
from lastbeat.views.comparison import RUNS_MOST
from lastbeat.views.curves import CurvesAsked
from lastbeat.views.page.assembling import HtmlPage
from lastbeat.views.row_keys import ASKED_LIMIT
from lastbeat.views.served.answer import (
    HTML,
    Body,
    Environ,
    Response,
    StartResponse,
    body,
    masked,
    redirect,
    refusal,
    send,
    token_form,
)
from lastbeat.views.served.door import CHANGES, HEADER, METRICS, SLACK, Admission, Door, is_data, tokens_in

log = logging.getLogger(__name__)

_RUNS: Final = "/data/runs/"
_CURVES: Final = "/curves"
_COMPARE: Final = "/data/compare"
_CAUSES: Final = "/data/causes"
_FAR: Final = 1e15
"""No axis of a curve goes further."""
_LOOK_MOST: Final = 200
"""Most run ids that one request may name in ``look``."""


BODY_BYTES: Final = 4096
"""Longest request body, in bytes. A silence takes less, since each of its texts is bounded."""
SLACK_BYTES: Final = 64 * 1024
"""Longest request body of Slack's, in bytes: a press of a button brings the message with it."""
MAY: Final = "X-Lastbeat-May"
"""Response header: the page may offer what changes something, because its browser has the right to operate."""


class TooManyOpenError(Exception):
    """Too many runs are being read at the same time."""


@dataclass(frozen=True)
class DataSources:
    """What the application answers from. Several threads may call each of these at once."""

    fleet: Callable[[int | None, str | None, Sequence[str], Sequence[str]], Body]
    """The fleet's document since a snapshot of an epoch, for a browser that shows these runs and asks for the values of
    these keys."""
    run: Callable[[str], Body | None]
    """A run's document, or None if there is no such run. Raises :class:`StoreError` and :class:`TooManyOpenError`."""
    curves: Callable[[str, CurvesAsked], Body | None]
    """A run's curves. None and errors are as of ``run``."""
    comparison: Callable[[Sequence[str], CurvesAsked], Body]
    """Several runs beside each other, with one curve each. Errors are as of ``run``."""
    losses: Callable[[], Body]
    """What failures cost. Raises :class:`StoreError`."""
    metrics: Callable[[str], Response]
    """The answer to a scrape with this Accept header."""
    change: Callable[[bytes, str, str], Response]
    """Applies the change in this request body, from the client at this address, by the user if a proxy named one."""
    slack: Callable[[bytes, str, str], Response] | None = None
    """Answers a request with this body, time and signature; None: Slack is not answered here."""


class App:
    """Answers GET and HEAD for the page and its data, and POST for changes and the token. Refuses all other
    requests."""

    def __init__(self, page: HtmlPage, sources: DataSources, door: Door) -> None:
        self._page = body(page.html, HTML)
        self._tag = f'W/"{hashlib.sha256(page.html).hexdigest()[:32]}"'
        self._policy = page.policy
        self._sources = sources
        self._door = door

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path = str(environ.get("PATH_INFO", ""))
        method = str(environ.get("REQUEST_METHOD", ""))
        try:
            answer = self._answer(method, path, environ)
        except Exception:
            # The server must survive for the next request, and the client gets no details of a defect.
            log.exception("a request for %s failed", _shown(path))
            answer = refusal("500 Internal Server Error", "This is a defect of lastbeat.", data=is_data(path))
        # Never the query, which may hold the token.
        log.debug("%s %s: %s", _shown(method), _shown(path), answer.status)
        return send(answer, environ, start_response, self._policy)

    def _answer(self, method: str, path: str, environ: Environ) -> Response:
        data = is_data(path)
        if path == CHANGES:
            return self._change_answer(method, environ)
        if path == SLACK:
            return self._slack_answer(method, environ)
        if method == "POST" and not data and self._door.closed:
            return self._login_answer(environ)
        if method not in {"GET", "HEAD"}:
            headers = {"Allow": "GET, HEAD"}
            return refusal("405 Method Not Allowed", "Only GET and HEAD are answered.", data=data, headers=headers)
        said = self._door.judge(environ)
        if said is not Admission.WELCOME:
            return self._turned_away(said, str(environ.get("QUERY_STRING", "")), data=data)
        if path == "/":
            known = str(environ.get("HTTP_IF_NONE_MATCH", ""))
            fresh = self._tag in [tag.strip() for tag in known.split(",")[:20]]
            return Response("304 Not Modified" if fresh else "200 OK", self._page, {"ETag": self._tag})
        if path == "/data/fleet":
            return self._fleet_answer(environ)
        if path.startswith(_RUNS):
            return self._run_answer(path.removeprefix(_RUNS), environ)
        if path == _COMPARE:
            return self._comparison_answer(environ)
        if path == _CAUSES:
            return _read(self._sources.losses)
        if path == METRICS:
            return self._sources.metrics(str(environ.get("HTTP_ACCEPT", "")))
        return refusal("404 Not Found", "There is nothing here.", "The page is at /.", data=data)

    def _fleet_answer(self, environ: Environ) -> Response:
        asked = _query(environ)
        if isinstance(asked, Response):
            return asked
        since = asked.get("since", [""])[-1]
        look = [run_id for run_id in ",".join(asked.get("look", ())).split(",")[:_LOOK_MOST] if is_run_id(run_id)]
        keys = [key for key in ",".join(asked.get("keys", ())).split(",")[:ASKED_LIMIT] if 0 < len(key) <= NAME_CHARS]
        number = int(since) if since.isascii() and since.isdigit() and len(since) <= 15 else None
        may = {MAY: "operate"} if self._door.may_change(environ) else {}
        return Response("200 OK", self._sources.fleet(number, asked.get("epoch", [None])[-1], look, keys), may)

    def _change_answer(self, method: str, environ: Environ) -> Response:
        if method != "POST":
            headers = {"Allow": "POST"}
            return refusal("405 Method Not Allowed", "Only POST is answered here.", data=True, headers=headers)
        said = self._door.judge_change(environ)
        if said is not Admission.WELCOME:
            return _refused(said, data=True)
        asked = _content(environ, data=True)
        if isinstance(asked, Response):
            return asked
        return self._sources.change(asked, str(environ.get("REMOTE_ADDR") or ""), self._door.user(environ))

    def _slack_answer(self, method: str, environ: Environ) -> Response:
        """The answer to a request that only its signature admits."""
        if method != "POST" or self._sources.slack is None:
            return refusal("404 Not Found", "There is nothing here.", data=True)
        asked = _content(environ, data=True, most=SLACK_BYTES)
        if isinstance(asked, Response):
            return asked
        headers = (str(environ.get(f"HTTP_X_SLACK_{name}", "")) for name in ("REQUEST_TIMESTAMP", "SIGNATURE"))
        return self._sources.slack(asked, *headers)

    def _login_answer(self, environ: Environ) -> Response:
        given = _content(environ, data=False)
        if isinstance(given, Response):
            return given
        form = given.decode("utf-8", "replace")
        return self._turned_away(self._door.judge_login(environ, form), form, data=False)

    def _turned_away(self, said: Admission, given: str, *, data: bool) -> Response:
        """The answer to a request that is not admitted. ``given`` is the query or form that may hold a token."""
        if said is Admission.ENTERED:
            cookie = self._door.cookie_for(given)
            # A key that another request has used up in the meantime.
            return redirect({"Set-Cookie": cookie} if cookie is not None else {})
        if said is Admission.STRANGER and not data:
            return token_form(_WRONG if any(tokens_in(given)) else _CLOSED, _CHALLENGE)
        return _refused(said, data=data)

    def _comparison_answer(self, environ: Environ) -> Response:
        asked = _query(environ)
        if isinstance(asked, Response):
            return asked
        runs = [run_id for run_id in ",".join(asked.get("runs", ())).split(",") if is_run_id(run_id)]
        # A page shows what it can of an address that a person has written.
        return _read(lambda: self._sources.comparison(list(dict.fromkeys(runs))[:RUNS_MOST], _curves_asked(asked)))

    def _run_answer(self, run_id: str, environ: Environ) -> Response:
        run_id, with_curves = run_id.removesuffix(_CURVES), run_id.endswith(_CURVES)
        asked = _query(environ)
        if isinstance(asked, Response):
            return asked
        try:
            check_run_id(run_id)
        except InvalidRunIdError as fault:
            return refusal("400 Bad Request", str(fault), data=True)
        missing = (
            f"There is no run {run_id}.",
            "Its folder may have been deleted; the fleet's page shows what there is.",
        )
        if with_curves:
            return _read(lambda: self._sources.curves(run_id, _curves_asked(asked)), missing)
        return _read(lambda: self._sources.run(run_id), missing)


def _query(environ: Environ) -> dict[str, list[str]] | Response:
    try:
        return parse_qs(str(environ.get("QUERY_STRING", "")), max_num_fields=20)
    except ValueError:
        return refusal("400 Bad Request", "The question has too many parts.", data=True)


def _curves_asked(asked: Mapping[str, Sequence[str]]) -> CurvesAsked:
    """Whatever else stands in the query counts as not asked for."""
    from_, to = (number(asked.get(name, [""])[-1]) for name in ("from", "to"))
    usual = from_ is not None and to is not None and -_FAR < from_ < to < _FAR
    window = (from_, to) if usual else None
    return CurvesAsked("at" if asked.get("by") == ["at"] else "step", window, asked.get("only", [None])[-1])  # type: ignore[arg-type]


def _read(source: Callable[[], Body | None], missing: tuple[str, str] = ("", "")) -> Response:
    """The document of ``source``, or why it cannot be read, or ``missing``: what is not there, and advice."""
    try:
        found = source()
    except StoreError as fault:
        return refusal("503 Service Unavailable", masked(str(fault)), masked(fault.advice), data=True)
    except TooManyOpenError:
        advice = "The page asks again by itself."
        return refusal("503 Service Unavailable", "Other runs are being read first.", advice, data=True)
    return refusal("404 Not Found", *missing, data=True) if found is None else Response("200 OK", found)


def _content(environ: Environ, *, data: bool, most: int = BODY_BYTES) -> bytes | Response:
    """The body of a request, or why it is not read."""
    length = str(environ.get("CONTENT_LENGTH") or "")
    if not (length.isascii() and length.isdigit() and len(length) <= 15):
        return refusal("411 Length Required", "The request does not say how long its body is.", data=data)
    if int(length) > most:
        what = f"The request has {int(length)} bytes; {most} are the most."
        return refusal("413 Content Too Large", what, data=data)
    return cast("BinaryIO", environ["wsgi.input"]).read(int(length))


_CLOSED: Final = "This dashboard opens with its token only."
_WRONG: Final = "That token does not open this dashboard."
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="lastbeat"'}


_REFUSED: Final = {
    Admission.STRANGER: (
        "401 Unauthorized",
        _CLOSED,
        "Reload the page and enter the token; programs send the header 'Authorization: Bearer' and the token.",
    ),
    Admission.ELSEWHERE: (
        "403 Forbidden",
        "This dashboard answers to the names of its own machine only.",
        "Open it as http://localhost with its port; for other machines start it with --host.",
    ),
    Admission.INTRUDER: ("403 Forbidden", "Pages of other origins get no data.", ""),
    Admission.READ_ONLY: (
        "403 Forbidden",
        "This dashboard only shows: it has no token that tells who may change something, or no right to write.",
        "Use 'lastbeat silence' and 'lastbeat ack' in a terminal, or start a dashboard with LASTBEAT_DASHBOARD_TOKEN.",
    ),
    Admission.VIEWER: (
        "403 Forbidden",
        "Your token is for viewing.",
        "Enter the token to operate on the page, or ask those who run this dashboard.",
    ),
    Admission.FORGED: (
        "403 Forbidden",
        "Only this dashboard's own page may send that.",
        (
            f"Its browser says so by Sec-Fetch-Site or Origin, and a change has the header {HEADER}. A proxy in front "
            "has to leave them as they are; programs use 'lastbeat silence'."
        ),
    ),
    Admission.NO_JSON: ("415 Unsupported Media Type", "A change is sent as application/json.", ""),
}
"""Admission → the status of the refusal, what is wrong, and what to do."""


def _refused(said: Admission, *, data: bool) -> Response:
    headers = _CHALLENGE if said is Admission.STRANGER else {}
    return refusal(*_REFUSED[said], data=data, headers=headers)


def _shown(text: str) -> str:
    return fit(one_line(text), 200)
