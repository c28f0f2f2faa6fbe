"""Client of Ray's Jobs REST API and of other pages of the dashboard, without Ray's own package.

Every call is bounded in time and bytes. A proxy's answer in the dashboard's place (a redirect to a login, a page) does
not count as Ray's: nothing follows from it. Headers and tokens come from the environment, as for Ray's own client, and
are never shown.
"""

import base64
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote, unquote, urlencode, urlsplit

from lastbeat.alerts import web
from lastbeat.alerts.weburl import HttpTimeouts
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError, NotLaunchedError, TooLongError
from lastbeat.jobs.launchers.ray.reports import STATES
from lastbeat.jobs.launchers.ray.resources import resources_of
from lastbeat.model.job import JobState
from lastbeat.model.json_values import json_object
from lastbeat.model.secrets import Redactor
from lastbeat.model.text import fit, one_line
from lastbeat.model.training_health import RayResources
from lastbeat.model.version import __version__

if TYPE_CHECKING:
    from requests import PreparedRequest

LIMITS: Final = HttpTimeouts(connect_s=4.0, read_s=12.0, total_s=13.0)
"""Time limits of one call. A head that is busy with a thousand actors answers late."""
DEFAULT_ADDRESS: Final = "http://127.0.0.1:8265"
ADDRESSES: Final = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
"""Variables that name the dashboard, in the order in which Ray's own commands read them."""
HEADERS: Final = "RAY_JOB_HEADERS"
_MOST_JSON: Final = 4 << 20
_MOST_LISTED: Final = 32 << 20
"""Most bytes of a list of all jobs. Ray remembers thousands, each with its whole submission."""
_MOST_SAID: Final = 1 << 16
"""Most bytes of an error's answer. Ray sends whole stack traces."""
_MOST_TOKEN: Final = 1 << 16
_CHUNK: Final = 1 << 16
_WRITE: Final = "write it as http://HOST:8265: the address of the dashboard"
_CHECK: Final = "check the address, and that the cluster is up: 'ray job list --address {address}' asks the same"
_LOGIN: Final = (
    f"it wants to know who asks: set {HEADERS} to the proxy's headers as JSON, "
    "or RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
)
_SPOILT: Final = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class RayAddress:
    """Address of a dashboard. ``url`` has no secrets: it may be shown and recorded."""

    url: str
    user: str = ""
    """``NAME:PASSWORD`` from the given address: a secret."""


def address(text: str, said_by: str) -> RayAddress:
    """The address in ``text``. Raises :class:`JobRefusedError` for an invalid one. The error names ``said_by``, and
    nothing that may be secret."""
    text = text.strip()
    if _SPOILT.search(text) or len(text) > 2048:
        raise JobRefusedError(f"{said_by} is no address", _WRITE)
    scheme, cut, rest = text.partition("://")
    if not cut:
        raise JobRefusedError(f"{said_by}={_shown(text)} has no http:// before it", _WRITE)
    if scheme.lower() not in {"http", "https"}:
        what = "is for Ray's client, not for jobs" if scheme == "ray" else f"begins with {scheme[:20]}://"
        raise JobRefusedError(f"{said_by}={scheme[:20]}://{_shown(rest)} {what}", _WRITE)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if not host or port == 0 or parts.query or parts.fragment:
        raise JobRefusedError(f"{said_by} is no address of a dashboard", _WRITE)
    name = f"[{host}]" if ":" in host else host
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username is not None else ""
    url = f"{scheme.lower()}://{name}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"
    return RayAddress(url, user)


def _shown(text: str) -> str:
    """The address for an error message, without its login."""
    return one_line(text.rpartition("@")[2])[:100]


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    body: bytes
    whole: bool
    """Whether ``body`` is the whole answer."""

    def said(self, masked: Redactor) -> str:
        """The last line of an error, bounded and masked; for a web page, a note that it is one."""
        text = self.body.decode("utf-8", "replace")
        if text.lstrip().startswith("<"):
            return "with a page, which is no answer of Ray's"
        lines = [line.strip() for line in text.splitlines() if line.strip(" .")]
        return fit(masked(one_line(lines[-1])), 300) if lines else ""


class JobsApi(Protocol):
    """Jobs of one cluster, by any transport. :class:`RayJobs` describes the methods."""

    @property
    def address(self) -> str: ...

    def session(self) -> str: ...

    def state(self, submission_id: str) -> JobState | None: ...

    def job(self, submission_id: str) -> dict[str, Any] | None: ...

    def jobs(self) -> list[dict[str, Any]]: ...

    def submit(self, request: Mapping[str, Any]) -> str: ...

    def stop(self, submission_id: str) -> bool | None: ...

    def log_tail(self, node_id: str, submission_id: str, lines: int, most: int) -> tuple[bytes, bool]: ...

    def nodes(self) -> list[dict[str, Any]]: ...

    def resources(self) -> RayResources | None: ...


class RayJobs:
    """One dashboard. Each call reads headers and tokens from ``environment`` again, because tokens expire."""

    def __init__(
        self,
        where: RayAddress,
        environment: Mapping[str, str] | None = None,
        limits: HttpTimeouts = LIMITS,
    ) -> None:
        self.where = where
        self._environment: Mapping[str, str] = os.environ if environment is None else environment
        self._limits = limits

    @property
    def address(self) -> str:
        """The dashboard's address, without secrets."""
        return self.where.url

    def session(self) -> str:
        """``session_2026-11-23_02-02-32_498636_21537``: changes when the head restarts and forgets. Empty if unknown.
        Raises :class:`LauncherError`, as all methods here do."""
        return _text(self._object("GET", "/api/version"), "session_name")

    def state(self, submission_id: str) -> JobState | None:
        """The job's state, or None if the cluster answered that it knows no such job."""
        found = self.job(submission_id)
        return None if found is None else STATES.get(_text(found, "status"), JobState.UNKNOWN)

    def job(self, submission_id: str) -> dict[str, Any] | None:
        """The cluster's data on the job, or None if it answered that it knows no such job."""
        found = self._document_of("GET", f"/api/jobs/{quote(submission_id, safe='')}")
        if found is not None and not _text(found, "status"):
            raise self._strange("did not answer as Ray does")
        return found

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs that the cluster remembers."""
        found = self._json(self._called("GET", "/api/jobs/", most=_MOST_LISTED))
        if not isinstance(found, list):
            raise self._strange("did not answer with a list of jobs")
        return [each for each in found if isinstance(each, dict)]

    def submit(self, request: Mapping[str, Any]) -> str:
        """Submit a job. Returns its submission id.

        Raises :class:`NotLaunchedError` or :class:`JobRefusedError` if it certainly was not submitted, and the plain
        :class:`LauncherError` if that is unknown.
        """
        reply = self._request("POST", "/api/jobs/", body=request)
        masked = self._masked()
        if reply.status == 200:
            job = _text(self._object_in(reply), "submission_id")
            if not job:
                raise self._strange("did not answer with a submission id")
            return job
        said = reply.said(masked)
        if reply.status == 400:
            raise JobRefusedError(f"Ray refused the job: {said}", "try the same by 'ray job submit'")
        if reply.status in {401, 403, 407} or 300 <= reply.status < 400 or reply.status in {404, 405, 429}:
            fault = self._fault(reply)
            raise NotLaunchedError(str(fault), fault.advice)
        raise self._fault(reply)

    def stop(self, submission_id: str) -> bool | None:
        """Request the job's end. Returns whether it was still running, or None if the cluster knows no such job."""
        found = self._document_of("POST", f"/api/jobs/{quote(submission_id, safe='')}/stop", {})
        return None if found is None else found.get("stopped") is True

    def log_tail(self, node_id: str, submission_id: str, lines: int, most: int) -> tuple[bytes, bool]:
        """The last ``lines`` lines of the job's log, and whether they arrived whole. Transfers at most ``most`` bytes.
        The node's agent reads its file from the end."""
        return self.file_tail(node_id, f"job-driver-{submission_id}.log", lines, most)

    def document(self, path: str) -> dict[str, Any]:
        """The dashboard's JSON answer to GET ``path``."""
        return self._object("GET", path)

    def file_tail(self, node_id: str, name: str, lines: int, most: int) -> tuple[bytes, bool]:
        """The last ``lines`` lines of a log file of the node, as :meth:`log_tail`."""
        # Older versions put a digit before each piece unless this format is set.
        query = {"node_id": node_id, "filename": name, "lines": str(lines), "format": "text"}
        reply = self._request("GET", f"/api/v0/logs/file?{urlencode(query)}", most=most)
        if reply.status != 200:
            raise self._fault(reply)
        return reply.body, reply.whole

    def nodes(self) -> list[dict[str, Any]]:
        """All nodes of the cluster, including dead ones."""
        found = self._object("GET", "/api/v0/nodes?limit=10000")
        try:
            rows = found["data"]["result"]["result"]
        except (KeyError, TypeError):
            raise self._strange("did not answer with a list of nodes") from None
        return [each for each in rows if isinstance(each, dict)] if isinstance(rows, list) else []

    def resources(self) -> RayResources | None:
        """What the cluster has and has given out. None: it does not tell."""
        return resources_of(self._object("GET", "/api/cluster_status"))

    # Asking

    def _document_of(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        reply = self._request(method, path, body=body)
        # A proxy answers 404 with its own pages.
        if reply.status == 404 and b"does not exist" in reply.body and not reply.body.lstrip().startswith(b"<"):
            return None
        if reply.status != 200:
            raise self._fault(reply)
        return self._object_in(reply)

    def _object(self, method: str, path: str) -> dict[str, Any]:
        return self._object_in(self._called(method, path))

    def _object_in(self, reply: _Reply) -> dict[str, Any]:
        found = self._json(reply)
        if not isinstance(found, dict):
            raise self._strange("did not answer as Ray does")
        return found

    def _called(self, method: str, path: str, most: int = _MOST_JSON) -> _Reply:
        reply = self._request(method, path, most=most)
        if reply.status != 200:
            raise self._fault(reply)
        return reply

    def _json(self, reply: _Reply) -> Any:
        if not reply.whole:
            raise TooLongError(f"{self.address} answered with more than {len(reply.body) >> 20} MiB")
        try:
            return json.loads(reply.body)
        except (ValueError, RecursionError):
            raise self._strange("answered with what is no JSON, so it is something else, or a proxy's login") from None

    def _strange(self, what: str) -> LauncherError:
        return LauncherError(f"{self.address} {what}", _CHECK.format(address=self.address))

    def _fault(self, reply: _Reply) -> LauncherError:
        """The error for a reply that does not answer the request."""
        said = reply.said(self._masked())
        told = f"{self.address} answered {reply.status}{f': {said}' if said else ''}"
        if reply.status in {401, 403, 407} or 300 <= reply.status < 400:
            return LauncherError(told, _LOGIN)
        return LauncherError(told, _CHECK.format(address=self.address))

    def _request(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None, most: int = _MOST_JSON
    ) -> _Reply:
        """Any answer. Raises :class:`LauncherError`: :class:`NotLaunchedError` where nothing was connected."""
        headers = self._headers()
        masked = self._masked(headers)
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            headers = {"Content-Type": "application/json", **headers}
        outcome = self._attempt(method, path, content, headers, most, masked)
        # Raise outside of the handler, so that no exception that holds the request is chained.
        if not isinstance(outcome, _Reply):
            why, sent = outcome
            told = f"{self.address}: {masked(why)}"
            advice = _CHECK.format(address=self.address)
            raise LauncherError(told, advice) if sent else NotLaunchedError(told, advice)
        return outcome

    def _attempt(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str], most: int, masked: Redactor
    ) -> _Reply | tuple[str, bool]:
        """The answer, or why there is none and whether the request may have arrived."""

        def unchanged(request: "PreparedRequest") -> "PreparedRequest":
            return request

        named = any(name.lower() == "authorization" for name in headers)
        everything = {"User-Agent": f"lastbeat/{__version__}", "Accept-Encoding": "identity", **headers}
        with web.calls.one_call(self._limits.total_s, masked) as (session, deadline):
            try:
                with session.request(
                    method,
                    self.address + path,
                    data=content,
                    headers=everything,
                    # Otherwise ~/.netrc would replace the header that is set.
                    auth=unchanged if named else None,
                    timeout=(self._limits.connect_s, self._limits.read_s),
                    allow_redirects=False,
                    stream=True,
                ) as response:
                    limit = most if response.status_code == 200 else _MOST_SAID
                    return _Reply(response.status_code, *_read(response.raw.read, limit))
            except web.calls.NO_ANSWER as error:
                words = web.calls.in_words(error, self._limits, overdue=deadline.over)
                unsent = ("refused", "resolved", "no connection within", "certificate", "(TLS)", "proxy could not")
                return words, deadline.over or not any(word in words for word in unsent)

    def _headers(self) -> dict[str, str]:
        """Headers and login from the environment and the address. Raises :class:`NotLaunchedError`."""
        found = dict(_given_headers(self._environment.get(HEADERS, "")))
        if any(name.lower() == "authorization" for name in found):
            return found
        token = _token(self._environment)
        if token:
            return {**found, "Authorization": f"Bearer {token}"}
        if self.where.user:
            coded = base64.b64encode(self.where.user.encode()).decode("ascii")
            return {**found, "Authorization": f"Basic {coded}"}
        return found

    def _masked(self, headers: Mapping[str, str] | None = None) -> Redactor:
        secrets = [self.where.user.partition(":")[2]]
        for value in (self._headers() if headers is None else headers).values():
            secrets += [value, value.rpartition(" ")[2]]
        return Redactor(secrets)


def _read(read: Callable[..., bytes], most: int) -> tuple[bytes, bool]:
    """At most ``most`` bytes of the answer, and whether they are all of it."""
    body = bytearray()
    while len(body) <= most:
        chunk = read(min(_CHUNK, most + 1 - len(body)), decode_content=False)
        if not chunk:
            return bytes(body), True
        body += chunk
    return bytes(body[:most]), False


def _given_headers(text: str) -> dict[str, str]:
    if not text.strip():
        return {}
    found = json_object(text)
    if found is None or not all(isinstance(each, str) for each in found.values()):
        raise NotLaunchedError(f"{HEADERS} is no JSON object of texts", """write it as {"Authorization": "Bearer …"}""")
    if any(_SPOILT.search(name) or set("\r\n\0") & set(value) for name, value in found.items()):
        raise NotLaunchedError(f"{HEADERS} has a header that HTTP does not take", "look for line ends in it")
    return found


def _token(environment: Mapping[str, str]) -> str:
    """Ray's own token, if Ray's client would send one; else empty."""
    if environment.get("RAY_AUTH_MODE", "").strip().lower() != "token":
        return ""
    token = environment.get("RAY_AUTH_TOKEN", "").strip()
    path = environment.get("RAY_AUTH_TOKEN_PATH", "")
    if not token:
        home = Path(environment.get("HOME") or "~").expanduser()
        file = Path(path).expanduser() if path else home / ".ray" / "auth_token"
        try:
            with file.open(encoding="utf-8") as opened:
                token = opened.read(_MOST_TOKEN).strip()
        except (OSError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "no text"
            raise NotLaunchedError(
                f"RAY_AUTH_MODE is token, and {file} cannot be read: {why}", "set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
            ) from None
    if not token or not token.isascii() or _SPOILT.search(token):
        raise NotLaunchedError("Ray's token is empty, or has characters that no header can have", "look at it again")
    return token


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""
