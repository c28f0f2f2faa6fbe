"""Any webhook: the alert as JSON (see :mod:`lastbeat.alerts.document`) in a POST, signed if there is a secret.

Headers of a request:

    Content-Type            application/json; charset=utf-8
    User-Agent              lastbeat/<version>
    Idempotency-Key         the alert's key: the same on every delivery of one alert, so that a receiver
                            can drop what it has already seen
    X-Lastbeat-Timestamp    when it was sent, in whole seconds since 1970 (only with a secret)
    X-Lastbeat-Signature-256
                            sha256=<hex> (only with a secret): HMAC-SHA256 with LASTBEAT_WEBHOOK_SECRET as UTF-8
                            over the timestamp header's value, one full stop, and the body's bytes as they came

A receiver computes the same, compares in constant time, and refuses a timestamp that is minutes old. Then a recorded
request cannot be replayed later.
"""

import hashlib
import hmac
import time
from dataclasses import field
from functools import partial
from typing import Any

from lastbeat.alerts import web
from lastbeat.alerts.document import encode
from lastbeat.alerts.port import Receipt
from lastbeat.alerts.weburl import LIMITS, HttpTimeouts, check_address, fingerprint, host
from lastbeat.model.alert import Message
from lastbeat.model.data import dataclass
from lastbeat.model.secrets import Redactor
from lastbeat.model.setting import Setting, SettingValues
from lastbeat.model.text import one_line

WEBHOOK_URL = Setting[str | None](
    "LASTBEAT_WEBHOOK_URL",
    partial(check_address, plain_http=True),
    "Address that alerts are POSTed to as JSON.",
    example="https://alerts.example.com/hooks/lastbeat",
    secret=True,
)
WEBHOOK_SECRET = Setting[str | None](
    "LASTBEAT_WEBHOOK_SECRET",
    str,
    "Key that the webhook's requests are signed with (HMAC-SHA256).",
    secret=True,
)
SETTINGS: tuple[Setting[Any], ...] = (WEBHOOK_URL, WEBHOOK_SECRET)


def channels(values: SettingValues) -> "tuple[Webhook, ...]":
    """The webhook; none if no address is set."""
    url = values[WEBHOOK_URL]
    return (Webhook(url, values[WEBHOOK_SECRET]),) if url else ()


@dataclass(frozen=True, slots=True)
class Webhook:
    """One address."""

    url: str = field(repr=False)
    secret: str | None = field(default=None, repr=False)
    limits: HttpTimeouts = LIMITS

    @property
    def identity(self) -> str:
        return f"webhook:{fingerprint(self.url)}"

    @property
    def describe(self) -> str:
        return f"webhook ({host(self.url)})"

    def send(self, message: Message, receipt: Receipt | None = None) -> None:  # noqa: ARG002 - alerts are independent
        body = self._document(message).encode()
        headers = {"Content-Type": "application/json; charset=utf-8"}
        if message.key:
            headers["Idempotency-Key"] = _header(message.key)
        if self.secret is not None:
            headers |= signature(body, self.secret, int(time.time()))
        web.posting.deliver(self.url, body, headers, to=self.describe, limits=self.limits, setting=WEBHOOK_URL.name)

    def preview(self, message: Message) -> str:
        return self._document(message)

    def check(self) -> str:
        """Check the connection, with TLS for https, without sending."""
        return web.posting.reach(self.url, to=self.describe, limits=self.limits, setting=WEBHOOK_URL.name)

    def _document(self, message: Message) -> str:
        # Training may print its environment, and these secrets must not get into an alert.
        secrets = [self.url] if self.secret is None else [self.url, self.secret]
        return encode(message.masked(Redactor(secrets)))


def signature(body: bytes, secret: str, sent_at: int) -> dict[str, str]:
    """The two headers that sign ``body``; ``sent_at`` is in seconds since 1970. See the module's docstring."""
    signed = str(sent_at).encode() + b"." + body
    digest = hmac.new(secret.encode("utf-8", "surrogateescape"), signed, hashlib.sha256).hexdigest()
    return {"X-Lastbeat-Timestamp": str(sent_at), "X-Lastbeat-Signature-256": f"sha256={digest}"}


def _header(text: str) -> str:
    """``text`` for a header: printable ASCII of bounded length."""
    return one_line(text).encode("ascii", errors="replace").decode()[:300]
