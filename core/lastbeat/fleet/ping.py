"""Pings a service that raises an alarm when pings stop, such as healthchecks.io.

    {url}/start   a pass has begun, and can read the store
    {url}         it went well
    {url}/fail    it could read, but not record or deliver; the body says what

A pass that cannot read the store sends no ping: the silence raises the alarm.
"""

import logging
import threading
from collections.abc import Callable

from lastbeat.alerts import web
from lastbeat.alerts.port import DeliveryError
from lastbeat.alerts.weburl import HttpTimeouts, host
from lastbeat.model.fleet import PassReport
from lastbeat.model.secrets import Redactor
from lastbeat.model.text import counted, fit, one_line

log = logging.getLogger(__name__)

LIMITS = HttpTimeouts(connect_s=3.0, read_s=4.0, total_s=5.0)
_BODY_CHARS = 1000
UNSEEN_MOST = 10
"""Most unobservable runs that still count as trouble of these runs; more are a failure of the pass."""


class Ping:
    """One address for pings. It is a secret: anyone who has it can report that all is well.

    Never raises. Pings are sent from threads. The pass does not wait for its first ping, and at most ``limits.total_s``
    for its last.
    """

    def __init__(self, url: str, *, limits: HttpTimeouts = LIMITS) -> None:
        self._url = url
        self._to = f"ping ({host(url)})"
        self._mask = Redactor([url])
        self._limits = limits
        self._begun: threading.Thread | None = None
        self._failing = False

    def start(self) -> None:
        """Ping that a pass has begun and can read the store. Does not wait."""
        self._begun = self._aside(lambda: self._post("/start", ""))

    def success(self, *, within_s: float = float("inf")) -> None:
        """Ping that the pass went well. Waits at most ``within_s`` for the ping."""
        self._end("", "", within_s)

    def fail(self, text: str, *, within_s: float = float("inf")) -> None:
        """Ping that the pass did not go well; ``text`` says why, without secrets."""
        self._end("/fail", text, within_s)

    def _end(self, path: str, text: str, within_s: float) -> None:
        begun, self._begun = self._begun, None

        def tell() -> None:
            if begun is not None:
                begun.join(self._limits.total_s)  # The ping of the end must not overtake that of the beginning.
            self._post(path, text)

        self._aside(tell).join(max(0.0, min(self._limits.total_s, within_s)))

    def _aside(self, tell: Callable[[], None]) -> threading.Thread:
        # A thread, because resolving a name has no timeout.
        thread = threading.Thread(target=tell, name="lastbeat-ping", daemon=True)
        thread.start()
        return thread

    def _post(self, path: str, text: str) -> None:
        body = fit(one_line(self._mask(text)), _BODY_CHARS).encode("utf-8", errors="replace")
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        try:
            address = "LASTBEAT_PING_URL"
            web.posting.deliver(self._url + path, body, headers, to=self._to, limits=self._limits, setting=address)
        except DeliveryError as error:
            # The error's advice is about alerts, which are sent again, so only its cause is logged.
            self._tell_once(self._mask(error.what))
        except Exception as error:  # noqa: BLE001 - its text may hold the address, and the thread's end would print it
            self._tell_once(f"{self._to} failed: {type(error).__name__}")
        else:
            self._failing = False

    def _tell_once(self, what: str) -> None:
        """Log the first failure as a warning, and further ones as debug lines until a ping works again."""
        log.log(logging.DEBUG if self._failing else logging.WARNING, "%s", what)
        self._failing = True


def ping_pass(ping: Ping, report: PassReport, *, within_s: float = float("inf")) -> None:
    """Ping the outcome of the pass, unless it could not read the store."""
    if report.blind is not None:
        return
    wrong = trouble(report)
    if wrong is None:
        ping.success(within_s=within_s)
    else:
        ping.fail(wrong, within_s=within_s)


def trouble(report: PassReport) -> str | None:
    """The failures of a pass in figures, without runs' names or errors' texts; None if there are none."""
    failures = []
    if report.unrecorded:
        failures.append(f"{counted(report.unrecorded, 'decision')} could not be recorded")
    if report.failed:
        failures.append(f"{counted(report.failed, 'alert')} could not be delivered")
    if report.unreadable_count > UNSEEN_MOST:
        failures.append(f"{counted(report.unreadable_count, 'run')} could not be observed")
    return "; ".join(failures) or None
