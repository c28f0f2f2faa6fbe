"""Slack, through an Incoming Webhook."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from lastbeat.deliver.slack_blocks import payload
from lastbeat.deliver.weburl import LIMITS, HttpTimeouts, check_address, fingerprint, host
from lastbeat.model.alert import Message
from lastbeat.model.redact import Redactor, redact_message
from lastbeat.model.setting import Setting

_NAME = "SLACK_WEBHOOK_URL"
_EXAMPLE = "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"
_RENEW = f"make a new webhook and set {_NAME} to it"
# Slack's words, and what a person can do about them.
_ADVICE = {
    "no_service": f"the webhook was removed or disabled; {_RENEW}",
    "no_service_id": f"the webhook's address is incomplete; copy it again into {_NAME}",
    "no_team": f"the Slack workspace does not exist; check {_NAME}",
    "team_disabled": "the Slack workspace is disabled; ask its administrator",
    "invalid_token": f"the webhook's address is wrong; copy it again into {_NAME}",
    "channel_not_found": f"the webhook's channel was deleted; {_RENEW}",
    "channel_is_archived": "unarchive the webhook's channel, or make a webhook for another one",
    "action_prohibited": "an administrator restricts who may post there; ask for it to be allowed",
    "posting_to_general_channel_denied": "an administrator restricts who may post there; use another channel",
}
# What a webhook that works says to a message without text, which it does not show to anybody.
_HARMLESS = frozenset({"no_text", "invalid_payload", "missing_text_or_fallback_or_attachments"})
_HEADERS = {"Content-Type": "application/json; charset=utf-8"}


def _parse(text: str) -> str:
    url = check_address(_NAME, text.strip(), example=_EXAMPLE, plain_http=False)
    # Workflows have addresses there too, which take no messages.
    if host(url) in {"hooks.slack.com", "hooks.slack-gov.com"} and not urlsplit(url).path.startswith("/services/"):
        raise ValueError(
            f"{_NAME} is not the address of an Incoming Webhook; it looks like {_EXAMPLE} "
            "(its value is a secret and not shown)"
        )
    return url


SETTINGS: tuple[Setting, ...] = (
    Setting(_NAME, _parse, "", "Slack Incoming Webhook that alerts go to; a secret.", secret=True),
)


def channel(values: Mapping[str, object]) -> "Slack | None":
    """The Slack channel, or None when no webhook is set."""
    url = values.get(_NAME)
    return Slack(str(url)) if url else None


@dataclass(frozen=True, slots=True)
class Slack:
    """One webhook, which is one channel of one workspace."""

    url: str = field(repr=False)
    limits: HttpTimeouts = LIMITS

    @property
    def identity(self) -> str:
        return f"slack:{fingerprint(self.url)}"

    @property
    def describe(self) -> str:
        return f"Slack ({host(self.url)})"

    def send(self, message: Message) -> None:
        from lastbeat.deliver.http import deliver  # noqa: PLC0415 - requests: 0.15 s that few passes need

        body = json.dumps(self._payload(message), ensure_ascii=False, allow_nan=False).encode()
        deliver(self.url, body, _HEADERS, to=self.describe, limits=self.limits, advice=_ADVICE)

    def preview(self, message: Message) -> str:
        return json.dumps(self._payload(message), ensure_ascii=False, allow_nan=False, indent=2)

    def check(self) -> str:
        """Posts a message without text: a webhook that works refuses it, and nobody sees anything."""
        from lastbeat.deliver.http import post, refusal  # noqa: PLC0415 - as in send

        answer = post(self.url, b"{}", _HEADERS, to=self.describe, limits=self.limits)
        if answer.status == 400 and answer.text in _HARMLESS:
            return f"{self.describe}: the webhook exists; nothing was posted"
        if 200 <= answer.status < 300:
            # Not Slack itself, which never takes an empty message, but something that speaks like it.
            return f"{self.describe}: the address answers {answer.status}"
        raise refusal(answer, to=self.describe, advice=_ADVICE)

    def _payload(self, message: Message) -> dict[str, object]:
        # Training that prints its environment must not print this address into a chat.
        return payload(redact_message(message, Redactor([self.url])))
