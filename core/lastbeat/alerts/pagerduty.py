"""PagerDuty, by its Events API v2: trouble opens an incident, and its end resolves it.

Event                incident   sent to PagerDuty
FAILED TIMED_OUT     trouble    trigger, critical
FLAPPING             trouble    trigger, warning
WARNING              warning    trigger, warning; so does a SUCCEEDED with a warning
ALERT                warning    trigger with training's severity; nothing for info
BLIND                blindness  trigger, warning; resolved by SIGHTED
TEST                 test       trigger, info
anything else        trouble    resolve, if it is open. A group's is open until none of its runs is timed out

The next alert without a warning resolves it, and so does the end of the attempt. A run has at most one open incident of
a kind, even if events are sent twice, because PagerDuty joins events by their ``dedup_key``.

The receipt lists the open incidents with their keys, and only those are resolved. Alerts come in the order of their
decisions, see ``effects.outbox``.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final
from urllib.parse import urlsplit

from lastbeat.alerts import web
from lastbeat.alerts.document import document
from lastbeat.alerts.facts import cause
from lastbeat.alerts.port import DeliveryError, Receipt
from lastbeat.alerts.weburl import LIMITS, HttpTimeouts, check_address, fingerprint, host
from lastbeat.model.alert import Message
from lastbeat.model.data import dataclass
from lastbeat.model.secrets import MASK, Redactor
from lastbeat.model.setting import Setting, SettingValues
from lastbeat.model.status import Event
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import format_time


def _parse_key(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]{32}", text, re.ASCII):
        raise ValueError("is not an integration key of 32 letters and digits")
    return text


def _parse_url(text: str) -> str:
    return check_address(text, plain_http=False)


PAGERDUTY_ROUTING_KEY = Setting[str | None](
    "LASTBEAT_PAGERDUTY_ROUTING_KEY",
    _parse_key,
    "Integration key of a PagerDuty service (Events API v2) in which trouble opens an incident that its end resolves.",
    secret=True,
)
PAGERDUTY_URL = Setting[str](
    "LASTBEAT_PAGERDUTY_URL",
    _parse_url,
    "Where PagerDuty takes events. Accounts in the EU: https://events.eu.pagerduty.com/v2/enqueue.",
    default="https://events.pagerduty.com/v2/enqueue",
    example="https://events.eu.pagerduty.com/v2/enqueue",
)
SETTINGS: tuple[Setting[Any], ...] = (PAGERDUTY_ROUTING_KEY, PAGERDUTY_URL)

_HEADERS = {"Content-Type": "application/json; charset=utf-8"}
_TROUBLE, _WARNING, _BLINDNESS, _TEST = "trouble", "warning", "blindness", "test"
_TRIGGERS: Final[Mapping[Event, tuple[str, str]]] = {
    Event.FAILED: (_TROUBLE, "critical"),
    Event.TIMED_OUT: (_TROUBLE, "critical"),
    Event.FLAPPING: (_TROUBLE, "warning"),
    Event.WARNING: (_WARNING, "warning"),
    Event.BLIND: (_BLINDNESS, "warning"),
    Event.TEST: (_TEST, "info"),
}
"""Event → the incident that it opens, and its severity."""
_ATTEMPT_ENDS: Final = frozenset({Event.FAILED, Event.SUCCEEDED, Event.CANCELLED, Event.PREEMPTED, Event.RESTARTED})
_SUMMARY_LIMIT: Final = 1024
"""Most characters of a summary, by PagerDuty's documentation. An event may have 512 KB; the document has less than
half."""


def channels(values: SettingValues) -> "tuple[PagerDuty, ...]":
    """The PagerDuty service; none if no key is set."""
    key = values[PAGERDUTY_ROUTING_KEY]
    return (PagerDuty(key, values[PAGERDUTY_URL] or PAGERDUTY_URL.default),) if key else ()


@dataclass(frozen=True, slots=True)
class PagerDuty:
    """One integration of one service."""

    key: str = field(repr=False)
    url: str = PAGERDUTY_URL.default
    limits: HttpTimeouts = LIMITS

    @property
    def identity(self) -> str:
        return f"pagerduty:{fingerprint(self.key)}"

    @property
    def describe(self) -> str:
        return f"PagerDuty ({host(self.url)})"

    def send(self, message: Message, receipt: Receipt | None = None) -> Receipt | None:
        known = _read(receipt)
        incidents = dict(known)
        steps = tuple(plan(message, known))
        for step in steps:
            try:
                self._post(event(self._masked(message), step, self.key), len(steps))
            except DeliveryError as error:
                # The next try continues from here.
                error.receipt = _written(incidents) if incidents != known else None
                raise
            incidents[step.kind] = step.key if step.severity else ""
        return _written(incidents) if incidents != known else None

    def preview(self, message: Message) -> str:
        steps = tuple(plan(message, {}))
        if not steps:
            return f"Resolves what is open in PagerDuty for {one_line(message.subject)}; nothing is sent if nothing is."
        shown = [event(self._masked(message), step, MASK) for step in steps]
        return json.dumps(shown[0], ensure_ascii=False, allow_nan=False, indent=2)

    def check(self) -> str:
        """Check the connection without sending. Only an event would show whether the key is valid."""
        return web.posting.reach(self.url, to=self.describe, limits=self.limits, setting=PAGERDUTY_URL.name)

    def _masked(self, message: Message) -> Message:
        # Training may print its environment; the key must not get into an incident.
        return message.masked(Redactor([self.key]))

    def _post(self, wanted: Mapping[str, object], calls: int) -> None:
        body = json.dumps(wanted, ensure_ascii=False, allow_nan=False).encode()
        # All calls of one alert together stay within the time of one.
        limits = HttpTimeouts(self.limits.connect_s, self.limits.read_s, self.limits.total_s / calls)
        setting = PAGERDUTY_URL.name
        answer = web.posting.post(
            self.url, body, _HEADERS, to=self.describe, limits=limits, setting=setting, secrets=[self.key]
        )
        if 200 <= answer.status < 300:
            return
        error = web.posting.refusal(answer, to=self.describe, setting=setting, advice={})
        if answer.status in {400, 401, 403, 404}:
            advice = f"check {PAGERDUTY_ROUTING_KEY.name}, and {setting} for accounts in the EU"
            error = DeliveryError(error.what, retryable=False, advice=advice)
        raise error


@dataclass(frozen=True, slots=True)
class Step:
    """One event to send."""

    kind: str
    severity: str
    """Severity of a trigger; empty to resolve."""
    key: str


def plan(message: Message, known: Mapping[str, str]) -> Iterator[Step]:
    """The events to send for ``message``. ``known`` maps kinds of incidents to keys, empty for closed ones. Pure."""
    opens = _opens(message)
    if opens is not None:
        kind, severity = opens
        yield Step(kind, severity, known.get(kind) or dedup_key(message, kind))
    for kind in _ends(message):
        if known.get(kind) and (opens is None or opens[0] != kind):
            yield Step(kind, "", known[kind])


def dedup_key(message: Message, kind: str) -> str:
    """The key of one kind of incident of one run (or group) in one fleet, at most 255 characters."""
    digest = hashlib.sha256(f"{message.where}\n{message.run_id}".encode("utf-8", "replace")).hexdigest()[:16]
    parts = ("lastbeat", digest, fit(one_line(message.run_id), 200), message.topic, kind)
    return fit("/".join(part for part in parts if part), 255)


def event(message: Message, step: Step, routing_key: str) -> dict[str, Any]:
    """The JSON document of one event, for a message without secrets. Pure."""
    wanted: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "trigger" if step.severity else "resolve",
        "dedup_key": step.key,
    }
    if not step.severity:
        return wanted
    source = one_line(message.where) or one_line(message.run_id)
    wanted["payload"] = {
        "summary": fit(_summary(message), _SUMMARY_LIMIT),
        "source": fit(source, 500) or "lastbeat",
        "severity": step.severity,
        "timestamp": format_time(message.at),
        "component": fit(one_line(message.run_id), 300),
        "class": fit(one_line(message.cause or message.event.value), 300),
        "custom_details": document(message),
    }
    wanted["client"] = "lastbeat"
    link = _link(message.link)
    if link is not None:
        wanted["links"] = [{"href": link, "text": "Open in the browser"}]
    return wanted


def _summary(message: Message) -> str:
    found = one_line(cause(message.cause, message.confidence, message.second_cause) or "")
    parts = (str(message.event), one_line(message.subject), found, one_line(message.reason))
    return ": ".join(each for each in parts if each)


def _link(link: str | None) -> str | None:
    if link is None or len(link) > 2000 or not link.isprintable():
        return None
    try:
        parts = urlsplit(link)
    except ValueError:
        return None
    return link if parts.scheme in {"http", "https"} and parts.hostname else None


def _opens(message: Message) -> tuple[str, str] | None:
    if message.event is Event.SUCCEEDED and message.conditions:
        return _WARNING, "warning"
    if message.event is Event.ALERT:
        return None if message.severity == "info" else (_WARNING, message.severity)
    return _TRIGGERS.get(message.event)


def _ends(message: Message) -> Iterator[str]:
    """The kinds that ``message`` ends, or replaces."""
    if message.event in {Event.BLIND, Event.SIGHTED, Event.TEST, Event.FIRST_LOOK, Event.DIGEST, Event.ALERT}:
        if message.event is Event.SIGHTED:
            yield _BLINDNESS
        return
    if message.event not in {Event.FAILED, Event.TIMED_OUT, Event.FLAPPING, Event.WARNING} and not message.still_out:
        yield _TROUBLE
    if not message.group and (message.event in _ATTEMPT_ENDS or not message.conditions):
        yield _WARNING


def _written(incidents: Mapping[str, str]) -> Receipt:
    rows = {kind: [key] for kind, key in incidents.items()}
    return Receipt(json.dumps(rows, ensure_ascii=False, separators=(",", ":")))


def _read(receipt: Receipt | None) -> dict[str, str]:
    """Kind → key of the incidents in a receipt. Damaged entries are left out."""
    try:
        rows = json.loads(receipt or "{}")
    except ValueError:
        return {}
    known = rows.items() if isinstance(rows, dict) else ()
    return {kind: row[0] for kind, row in known if isinstance(row, list) and row and isinstance(row[0], str)}
