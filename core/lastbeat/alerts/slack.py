"""Slack, through an Incoming Webhook."""

import json
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from lastbeat.alerts import web
from lastbeat.alerts.port import Receipt
from lastbeat.alerts.weburl import LIMITS, HttpTimeouts, check_address, fingerprint, host
from lastbeat.model.alert import Message
from lastbeat.model.data import dataclass
from lastbeat.model.secrets import Redactor
from lastbeat.model.setting import Setting, SettingValues


def _parse(text: str) -> str:
    url = check_address(text, plain_http=False)
    # Workflows have addresses on that host too, which accept no messages.
    if host(url) in {"hooks.slack.com", "hooks.slack-gov.com"} and not urlsplit(url).path.startswith("/services/"):
        raise ValueError("is not the address of an Incoming Webhook")
    return url


SLACK_WEBHOOK_URL = Setting[str | None](
    "SLACK_WEBHOOK_URL",
    _parse,
    "Slack Incoming Webhook that alerts go to.",
    example="https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    secret=True,
    option="--slack-webhook",
)
SETTINGS: tuple[Setting[Any], ...] = (SLACK_WEBHOOK_URL,)

_RENEW = f"make a new webhook and set {SLACK_WEBHOOK_URL.name} to it"
# Slack's error words, and what to do about each.
_ADVICE = {
    "no_service": f"the webhook was removed or disabled; {_RENEW}",
    "no_service_id": f"the webhook's address is incomplete; copy it again into {SLACK_WEBHOOK_URL.name}",
    "no_team": f"the Slack workspace does not exist; check {SLACK_WEBHOOK_URL.name}",
    "team_disabled": "the Slack workspace is disabled; ask its administrator",
    "invalid_token": f"the webhook's address is wrong; copy it again into {SLACK_WEBHOOK_URL.name}",
    "channel_not_found": f"the webhook's channel was deleted; {_RENEW}",
    "channel_is_archived": "unarchive the webhook's channel, or make a webhook for another one",
    "action_prohibited": "an administrator restricts who may post there; ask for it to be allowed",
    "posting_to_general_channel_denied": "an administrator restricts who may post there; use another channel",
}
# Answers of a working webhook to a message without text, which Slack does not post.
_HARMLESS = frozenset({"no_text", "invalid_payload", "missing_text_or_fallback_or_attachments"})
_HEADERS = {"Content-Type": "application/json; charset=utf-8"}


def channels(values: SettingValues) -> "tuple[Slack, ...]":
    """The Slack channel; none if no webhook is set."""
    url = values[SLACK_WEBHOOK_URL]
    return (Slack(url),) if url else ()


@dataclass(frozen=True, slots=True)
class Slack:
    """One webhook: one channel of one workspace."""

    url: str = field(repr=False)
    limits: HttpTimeouts = LIMITS

    @property
    def identity(self) -> str:
        return f"slack:{fingerprint(self.url)}"

    @property
    def describe(self) -> str:
        return f"Slack ({host(self.url)})"

    def send(self, message: Message, receipt: Receipt | None = None) -> None:  # noqa: ARG002 - alerts are independent
        body = json.dumps(self._payload(message), ensure_ascii=False, allow_nan=False).encode()
        web.posting.deliver(
            self.url,
            body,
            _HEADERS,
            to=self.describe,
            limits=self.limits,
            setting=SLACK_WEBHOOK_URL.name,
            advice=_ADVICE,
        )

    def preview(self, message: Message) -> str:
        return json.dumps(self._payload(message), ensure_ascii=False, allow_nan=False, indent=2)

    def check(self) -> str:
        """Check the webhook by a message without text, which a working webhook refuses without posting it."""
        setting = SLACK_WEBHOOK_URL.name
        answer = web.posting.post(self.url, b"{}", _HEADERS, to=self.describe, limits=self.limits, setting=setting)
        if answer.status == 400 and answer.text in _HARMLESS:
            return f"{self.describe}: the webhook exists; nothing was posted"
        if 200 <= answer.status < 300:
            # Not Slack, which never accepts an empty message, but a compatible server.
            return f"{self.describe}: the address answers {answer.status}"
        raise web.posting.refusal(answer, to=self.describe, setting=setting, advice=_ADVICE)

    def _payload(self, message: Message) -> dict[str, object]:
        # Training may print its environment; this address must not get into a chat.
        from lastbeat.alerts.slack_blocks import payload  # noqa: PLC0415 - most looks send nothing

        return payload(message.masked(Redactor([self.url])))
