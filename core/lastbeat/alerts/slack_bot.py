"""Slack, by a bot's token: all alerts of a run (or of a group) form one thread, whose head shows the current state.

The head is posted with the first alert and edited with each later one. Every alert is a full reply. Editing sends no
notification, so a critical reply is shown in the channel too, unless the head was posted with it.

The receipt has the place of the head. Without it, or if the head was deleted, a new one is posted. So a pass that dies
right after posting a head leaves one that no longer changes. A late alert is a reply, and does not change the head.
"""

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lastbeat.alerts import web
from lastbeat.alerts.extra import demand, install, is_missing, within
from lastbeat.alerts.port import DeliveryError, Receipt
from lastbeat.alerts.slack_blocks import head, payload
from lastbeat.alerts.weburl import LIMITS, HttpTimeouts, check_address
from lastbeat.model.alert import Message
from lastbeat.model.data import dataclass
from lastbeat.model.secrets import Redactor
from lastbeat.model.setting import Setting, SettingValues
from lastbeat.model.status import Event
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import format_time, parse_time

if TYPE_CHECKING:
    from slack_sdk import WebClient
    from slack_sdk.web import SlackResponse

_TOKEN: Final = re.compile(r"(?:xoxe\.)?xox[a-z]-[A-Za-z0-9-]{10,400}", re.ASCII)
_CHANNEL: Final = re.compile(r"#?[^\s#@,<>&`]{1,80}")


class SlackApp(NamedTuple):
    """What identifies the Slack app, and what its requests are signed with."""

    token: str
    signing_secret: str = ""
    """Empty: lastbeat answers no requests of Slack's."""


def _parse_app(text: str) -> SlackApp:
    token, _, secret = (each.strip() for each in text.partition(" "))
    if not _TOKEN.fullmatch(token):
        raise ValueError("is not a token of Slack's, which begins with xoxb-")
    if secret and not re.fullmatch(r"[0-9a-f]{16,128}", secret):
        raise ValueError("has something behind the token that is no signing secret")
    return SlackApp(token, secret)


def _parse_channel(text: str) -> str:
    if not _CHANNEL.fullmatch(text) or not text.isprintable():
        raise ValueError("is neither the id nor the name of a Slack channel")
    return text.removeprefix("#")


def _parse_url(text: str) -> str:
    return check_address(text, plain_http=False)


SLACK_BOT_TOKEN = Setting[SlackApp | None](
    "SLACK_BOT_TOKEN",
    _parse_app,
    "Token of a Slack app's bot with the scope chat:write, which keeps a thread a run in SLACK_CHANNEL; for /lastbeat "
    "in Slack, a blank and the app's signing secret follow. Needs pip install 'lastbeat[slack]'.",
    example="xoxb-… as Slack shows it under OAuth & Permissions",
    secret=True,
)
SLACK_CHANNEL = Setting[str | None](
    "SLACK_CHANNEL",
    _parse_channel,
    "Channel that the bot of SLACK_BOT_TOKEN posts to and is a member of: its id, or its name.",
    example="C0123456789",
)
SLACK_BOT_URL = Setting[str](
    "LASTBEAT_SLACK_BOT_URL",
    _parse_url,
    "Where the bot reaches Slack. GovSlack: https://slack-gov.com/api/.",
    default="https://slack.com/api/",
    example="https://slack-gov.com/api/",
)
SETTINGS: tuple[Setting[Any], ...] = (SLACK_BOT_TOKEN, SLACK_CHANNEL, SLACK_BOT_URL)

_NEW_TOKEN: Final = f"copy the Bot User OAuth Token again into {SLACK_BOT_TOKEN.name}"
_SCOPE: Final = "give the app the scope chat:write and install it to the workspace again"
_ELSEWHERE: Final = "ask an administrator of the workspace, or use another channel"
# Slack's error words, and what to do about each.
_ADVICE: Final[Mapping[str, str]] = {
    "invalid_auth": _NEW_TOKEN,
    "not_authed": _NEW_TOKEN,
    "token_revoked": _NEW_TOKEN,
    "token_expired": _NEW_TOKEN,
    "account_inactive": f"the bot was removed; {_NEW_TOKEN}",
    "missing_scope": _SCOPE,
    "no_permission": _SCOPE,
    "channel_not_found": f"check {SLACK_CHANNEL.name}; a private channel needs the bot as a member",
    "not_in_channel": "invite the bot: type /invite @ and its name in the channel",
    "is_archived": f"unarchive the channel, or set {SLACK_CHANNEL.name} to another one",
    "restricted_action": _ELSEWHERE,
    "restricted_action_read_only_channel": _ELSEWHERE,
    "restricted_action_thread_only_channel": _ELSEWHERE,
}
_PASSING: Final = frozenset(
    {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout",
     "team_added_to_org", "accesslimited", "message_limit_exceeded"}
)  # fmt: skip
"""Errors that may pass, besides every 5xx."""
_GONE: Final = frozenset(
    {"message_not_found", "thread_not_found", "cant_update_message", "edit_window_closed", "cannot_reply_to_message",
     "is_inactive"}
)  # fmt: skip
"""Errors for a head that was deleted, or can no longer be edited, so that a new one is posted."""


def channels(values: SettingValues) -> "tuple[SlackBot, ...]":
    """The bot's channel; none unless both token and channel are set."""
    app, name = values[SLACK_BOT_TOKEN], values[SLACK_CHANNEL]
    if app is None or not name:
        return ()
    url = values[SLACK_BOT_URL] or SLACK_BOT_URL.default
    return (SlackBot(app.token, name, url, buttons=bool(app.signing_secret)),)


def doubts(values: SettingValues) -> Iterator[str]:
    """Likely mistakes in the settings, in a sentence each."""
    token, name = values[SLACK_BOT_TOKEN], values[SLACK_CHANNEL]
    if bool(token) != bool(name):
        there, missing = (SLACK_BOT_TOKEN, SLACK_CHANNEL) if token else (SLACK_CHANNEL, SLACK_BOT_TOKEN)
        yield f"{there.name} is set without {missing.name}, so the Slack bot is off; set both"
    elif token and is_missing("slack_sdk"):
        yield f"{SLACK_BOT_TOKEN.name} is set, but slack_sdk is not installed, so its alerts wait; {install('slack')}"


@dataclass(frozen=True, slots=True)
class Thread:
    """The place of a thread, and the alert that its head shows."""

    channel: str
    """Slack's id of the channel. Only the posting of a message accepts a name."""
    ts: str
    order: tuple[datetime, int]
    """Order of the alert that the head shows."""


@dataclass(frozen=True, slots=True)
class SlackBot:
    """One channel of one workspace."""

    token: str = field(repr=False)
    channel: str
    url: str = SLACK_BOT_URL.default
    limits: HttpTimeouts = LIMITS
    buttons: bool = False
    """A dashboard answers clicks, since the app's signing secret is known."""

    @property
    def identity(self) -> str:
        # A new token of the same workspace reaches the same people.
        workspace = re.match(r"(?:xoxe\.)?xox[a-z]-(?:\d-)?(\d{6,})-", self.token)
        named = f"{workspace[1] if workspace else self.token}/{self.channel}"
        return f"slack_bot:{hashlib.sha256(named.encode()).hexdigest()[:8]}"

    @property
    def describe(self) -> str:
        return f"Slack bot ({self.channel})"

    def send(self, message: Message, receipt: Receipt | None = None) -> Receipt | None:
        demand("slack_sdk", "slack", to=self.describe)
        return within(self.limits.total_s, lambda: self._send(message, _read(receipt)), to=self.describe)

    def preview(self, message: Message) -> str:
        """The payload of the reply; the head is its beginning."""
        shown = {"channel": self.channel, **payload(self._masked(message))}
        return json.dumps(shown, ensure_ascii=False, allow_nan=False, indent=2)

    def check(self) -> str:
        """Check the token. Only a message would show whether the bot may post to the channel."""
        demand("slack_sdk", "slack", to=self.describe)
        return within(self.limits.total_s, self._check, to=self.describe)

    def _check(self) -> str:
        answer = self._ask(lambda client: client.auth_test())
        scopes = _header(answer, "x-oauth-scopes")
        if scopes and "chat:write" not in re.split(r"[\s,]+", scopes):
            raise DeliveryError(f"{self.describe}: the token may not post messages", retryable=False, advice=_SCOPE)
        team = fit(one_line(Redactor([self.token])(str(answer.get("team") or "its workspace"))), 80)
        return f"{self.describe}: the token is valid for {team}; nothing was posted"

    def _send(self, message: Message, thread: Thread | None) -> Receipt | None:
        shown = self._masked(message)
        whole = payload(shown)
        if message.event is Event.TEST:
            self._post(self.channel, whole)
            return None
        try:
            if thread is not None and message.order >= thread.order:
                thread = self._updated(thread, shown)
            posted = thread is None
            thread = thread or self._begun(shown)
            loud = message.severity == "critical" and not posted
            try:
                self._reply(thread, whole, loud=loud)
            except _GoneError:
                if posted:
                    raise
                thread = self._begun(shown)
                self._reply(thread, whole, loud=False)
        except DeliveryError as error:
            # The next try continues in the same thread.
            error.receipt = _written(thread) if thread is not None else None
            raise
        return _written(thread)

    def _updated(self, thread: Thread, message: Message) -> Thread | None:
        """Edit the head. Returns the updated thread, or None if the head is gone."""
        shown = head(message, buttons=self.buttons)
        try:
            self._ask(
                lambda client: client.chat_update(
                    channel=thread.channel, ts=thread.ts, text=shown["text"], blocks=shown["blocks"]
                )
            )
        except _GoneError:
            return None
        return Thread(thread.channel, thread.ts, message.order)

    def _begun(self, message: Message) -> Thread:
        answer = self._post(self.channel, head(message, buttons=self.buttons))
        place, ts = answer.get("channel"), answer.get("ts")
        if not (isinstance(place, str) and isinstance(ts, str) and 0 < len(place) <= 100 and 0 < len(ts) <= 100):
            raise DeliveryError(f"{self.describe}: it did not say where it posted", retryable=True)
        return Thread(place, ts, message.order)

    def _reply(self, thread: Thread, shown: Mapping[str, Any], *, loud: bool) -> None:
        more = {"reply_broadcast": True} if loud else {}
        self._post(thread.channel, {**shown, "thread_ts": thread.ts, **more})

    def _post(self, channel: str, shown: Mapping[str, Any]) -> "SlackResponse":
        return self._ask(lambda client: client.chat_postMessage(channel=channel, **shown))

    def _masked(self, message: Message) -> Message:
        # Training may print its environment; the token must not get into a chat.
        return message.masked(Redactor([self.token]))

    def _ask(self, call: "Callable[[WebClient], SlackResponse]") -> "SlackResponse":
        from slack_sdk import WebClient  # noqa: PLC0415 - an extra, and only to send
        from slack_sdk.errors import SlackApiError, SlackClientError  # noqa: PLC0415

        # Its own log would show sent messages. It does not retry, because the outbox does.
        silent = logging.Logger("slack_sdk", logging.CRITICAL + 1)  # noqa: LOG001 - for this client alone
        fault: DeliveryError
        try:
            client = WebClient(
                self.token, self.url, timeout=max(1, round(self.limits.read_s)), logger=silent, retry_handlers=[]
            )
            return call(client)
        except SlackApiError as error:
            fault = self._refusal(error.response)
        except (SlackClientError, OSError, ValueError) as error:
            advice = f"check this machine's network, HTTPS_PROXY and {SLACK_BOT_URL.name}"
            fault = DeliveryError(
                f"{self.describe}: {web.calls.in_words(error, self.limits)}", retryable=True, advice=advice
            )
        # Raised outside of the handler, so that no exception with the request in it is chained.
        raise fault

    def _refusal(self, answer: "SlackResponse") -> DeliveryError:
        data = answer.data if isinstance(answer.data, dict) else {}
        word = fit(one_line(Redactor([self.token])(str(data.get("error") or ""))), 100)
        status = answer.status_code
        later = word in _PASSING or status in {408, 429} or status >= 500
        what = f"{self.describe} answered {word or status}"
        kind = _GoneError if word in _GONE else DeliveryError
        return kind(
            what,
            retryable=later,
            retry_after_s=web.posting.retry_after_s(_header(answer, "retry-after")) if later else None,
            advice="it should pass; alerts wait and are sent again" if later else _ADVICE.get(word, ""),
        )


class _GoneError(DeliveryError):
    """The given message does not exist, or cannot be edited or replied to."""


def _header(answer: "SlackResponse", name: str) -> str | None:
    found = (value for key, value in answer.headers.items() if str(key).lower() == name)
    return next((value if isinstance(value, str) else None for value in found), None)


def _written(thread: Thread) -> Receipt:
    row = [thread.channel, thread.ts, format_time(thread.order[0]), thread.order[1]]
    return Receipt(json.dumps(row, separators=(",", ":")))


def _read(receipt: Receipt | None) -> Thread | None:
    """The thread that the receipt names, or None if it is damaged."""
    try:
        row = json.loads(receipt or "null")
    except ValueError:
        return None
    if not (isinstance(row, list) and len(row) >= 4 and isinstance(row[3], int)):
        return None
    place, ts, at = row[0], row[1], parse_time(row[2])
    if not (isinstance(place, str) and place and isinstance(ts, str) and ts) or at is None:
        return None
    return Thread(place, ts, (at, row[3]))
