"""``/metrics``: the answers to scrapes, and the server of a sweep, in threads of its own."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Final

from lastbeat.views.served.answer import Body, Environ, Response, StartResponse, body, refusal, send
from lastbeat.views.served.door import METRICS, Admission, Door, is_loopback
from lastbeat_cli import metrics
from lastbeat_cli.dashboard.server import CannotListenError, Server, address_of, listen
from lastbeat_cli.metrics.samples import Sample

log = logging.getLogger(__name__)

_THREADS: Final = 4
"""Enough threads for two Prometheus servers. An idle connection holds no thread."""


MISSING: Final = "prometheus-client is not installed; install it with: pip install 'lastbeat[metrics]'"
_STAYS_S: Final = 1.0
"""How long, in seconds, a rendered answer is given to further clients."""
_STRANGER: Final = refusal(
    "401 Unauthorized",
    "These metrics can only be read with the token.",
    "Send the header 'Authorization: Bearer' with what LASTBEAT_DASHBOARD_TOKEN is where this sweep runs; "
    "in Prometheus that is 'authorization: {credentials_file: …}' of the scrape.",
    data=True,
    headers={"WWW-Authenticate": 'Bearer realm="lastbeat"'},
)
_REFUSED: Final = {
    Admission.ELSEWHERE: refusal(
        "403 Forbidden",
        "These metrics answer to the names of their own machine only.",
        "Scrape localhost, or say the address to listen on: --metrics 0.0.0.0:9108",
        data=True,
    ),
    Admission.INTRUDER: refusal("403 Forbidden", "Pages of other origins get no metrics.", data=True),
}


def is_installed() -> bool:
    """Whether prometheus-client is installed; does not import it."""
    return find_spec("prometheus_client") is not None


def wants_strict(accept: str) -> bool:
    """Whether the Accept header asks for OpenMetrics. The library's own function fails on malformed headers."""
    return "application/openmetrics-text" in accept.lower()


class Scrapes:
    """Renders what ``samples`` returns; ``samples`` must not do I/O. Thread-safe."""

    def __init__(
        self, samples: Callable[[], Sequence[Sample]], fleet: str, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._samples = samples
        self._fleet = fleet
        self._steady = steady
        self._lock = threading.Lock()
        self._made: dict[bool, tuple[float, Body]] = {}
        """Whether it is OpenMetrics → when it was rendered, and the body."""

    def answer(self, accept: str) -> Response:
        """The metrics in the format that the Accept header ``accept`` asks for."""
        if not is_installed():
            return refusal("501 Not Implemented", "There are no metrics here.", f"{MISSING}.", data=True)
        strict = wants_strict(accept)
        # One at a time: a hundred scrapes at once must not take the processor from a pass.
        with self._lock:
            made = self._made.get(strict)
            if made is None or self._steady() - made[0] >= _STAYS_S:
                text, kind = metrics.exposition.render(self._samples(), self._fleet, strict=strict)
                made = self._made[strict] = self._steady(), body(text, kind)
        return Response("200 OK", made[1])


class Endpoint:
    """Serves ``scrapes`` at ``host`` and ``port`` until the process ends.

    If it cannot listen on the address, it warns once and retries after each pass. It never blocks a pass.
    """

    def __init__(self, host: str, port: int, token: str | None, scrapes: Scrapes) -> None:
        self._host = host
        self._port = port
        self._door = Door(is_loopback(host), token, "lastbeat-metrics")
        self._scrapes = scrapes
        self._retry = threading.Event()
        self._fault: str | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="lastbeat-metrics", daemon=True)

    def start(self) -> None:
        """Start to listen, without waiting."""
        self._thread.start()

    def retry(self) -> None:
        """Try to listen again if that failed before."""
        self._retry.set()

    def _work(self) -> None:
        while True:
            self._retry.clear()
            try:
                with listen(self._host, self._port) as bound:
                    server = Server(self, bound, self._ended.set, threads=_THREADS)
                    server.start()
                    log.info("metrics are at %smetrics", address_of(bound, self._host))
                    self._fault = None
                    self._ended.wait()
                    self._ended.clear()
                fault = "the server of the metrics could not go on"
            except CannotListenError as error:
                fault = f"metrics cannot be served: {error}"
            if fault != self._fault:
                log.warning("%s; the sweep goes on, and each pass tries again", fault)
            self._fault = fault
            self._retry.wait()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        try:
            answer = self._answer(environ)
        except Exception:
            log.exception("a scrape failed")
            answer = refusal("500 Internal Server Error", "This is a defect of lastbeat.", data=True)
        return send(answer, environ, start_response)

    def _answer(self, environ: Environ) -> Response:
        if environ.get("REQUEST_METHOD") not in {"GET", "HEAD"}:
            headers = {"Allow": "GET, HEAD"}
            return refusal("405 Method Not Allowed", "Only GET and HEAD are answered.", data=True, headers=headers)
        if environ.get("PATH_INFO") != METRICS:
            return refusal("404 Not Found", "There is nothing here.", f"The metrics are at {METRICS}.", data=True)
        said = self._door.judge(environ)
        if said is Admission.WELCOME:
            return self._scrapes.answer(str(environ.get("HTTP_ACCEPT", "")))
        return _REFUSED.get(said, _STRANGER)
