"""``/metrics`` of a sweep: a server in threads of its own, for Prometheus to scrape."""

import logging
import threading
from collections.abc import Iterable
from typing import Final

from lastbeat_cli.dashboard.answer import Environ, Response, StartResponse, refusal, send
from lastbeat_cli.dashboard.door import METRICS, Admission, Door, is_loopback
from lastbeat_cli.dashboard.server import CannotListenError, Server, address_of, listen
from lastbeat_cli.metrics.scrapes import Scrapes

log = logging.getLogger(__name__)

_THREADS: Final = 4
"""Enough threads for two Prometheus servers. An idle connection holds no thread."""


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
