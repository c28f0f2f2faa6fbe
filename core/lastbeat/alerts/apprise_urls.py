"""Apprise: e-mail, Teams, Discord, Telegram, ntfy and a hundred other services, each by its URL.

Each URL is a destination with deliveries of its own, so one that is down does not repeat the others. Use one URL for
each recipient. A URL is a secret as a whole; only its scheme is ever shown.

Alerts are sent as plain text, cut to the service's limit, with the log's newest lines. Apprise escapes plain text for
services that render HTML or Markdown. Some render Markdown even in plain text, and chats have mentions, so
:func:`harmless` breaks any text that could mention people or hide a link. Nothing is attached, no file is read, and
Apprise's own configuration, plug-ins and storage are not used.
"""

import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from lastbeat.alerts import web
from lastbeat.alerts.extra import demand, install, is_missing, within
from lastbeat.alerts.facts import headline, log_lines
from lastbeat.alerts.plain import lines
from lastbeat.alerts.port import DeliveryError, Receipt
from lastbeat.alerts.weburl import LIMITS, HttpTimeouts, fingerprint
from lastbeat.model.alert import Message
from lastbeat.model.data import dataclass
from lastbeat.model.secrets import SHORTEST, Redactor
from lastbeat.model.setting import Setting, SettingValues
from lastbeat.model.status import Event
from lastbeat.model.text import fit, newest, one_line

if TYPE_CHECKING:
    from apprise import NotifyBase

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,30}://", re.IGNORECASE)
_SEPARATOR = re.compile(rf"[\s,]+(?={_SCHEME.pattern})", re.IGNORECASE)
_NO_SERVICES: Final = frozenset({"file", "ftp", "ftps", "sftp", "config", "data"})
"""Schemes of files and configurations, which are refused even if Apprise supports them one day."""
_MOST_URLS: Final = 50
_TALKERS: Final = ("urllib3.connectionpool", "urllib3.connection", "urllib3.util.retry", "requests_oauthlib")


def _parse(text: str) -> tuple[str, ...]:
    urls = tuple(dict.fromkeys(url.strip(" ,\t\r\n") for url in _SEPARATOR.split(text)))
    if len(urls) > _MOST_URLS:
        raise ValueError(f"names {len(urls)} destinations, more than {_MOST_URLS}")
    for number, url in enumerate(urls, 1):
        scheme = _SCHEME.match(url)
        what = "" if len(urls) == 1 else f"has an address, number {number}, that "
        if scheme is None or len(url) == scheme.end() or not url.isprintable() or len(url) > 2048:
            raise ValueError(f"{what}is not a URL of Apprise")
        try:
            urlsplit(url)
        except ValueError:
            raise ValueError(f"{what}is not a URL of Apprise") from None
        if scheme.group().lower().removesuffix("://") in _NO_SERVICES:
            raise ValueError(f"{what}is a file or a configuration, which lastbeat does not hand to Apprise")
    return urls


APPRISE_URLS = Setting[tuple[str, ...] | None](
    "LASTBEAT_APPRISE_URLS",
    _parse,
    "Destinations of Apprise, between commas or spaces: each a service's URL with one recipient. Needs "
    "pip install 'lastbeat[apprise]'.",
    example="mailtos://user:password@example.com?to=oncall@example.com ntfys://ntfy.example.com/alerts",
    secret=True,
)
SETTINGS: tuple[Setting[Any], ...] = (APPRISE_URLS,)

_FAVOURABLE: Final = frozenset({Event.SUCCEEDED, Event.RECOVERED, Event.STARTED, Event.SIGHTED})
_JOINER: Final = "\u2060"
"""An invisible character without width, which is not part of any syntax."""
_LIVELY: Final = re.compile(
    rf"<(?=[^\s{_JOINER}])"  # HTML, Slack's links and mentions, Discord's mentions
    r"|\](?=[(\[:])"  # links and images of Markdown
    r"|(?<!\w)@(?=\w)"  # mentions by name
    r"|@(?=(?:all|channel|everyone|group|here|room)\b)",  # and of all, which Discord finds inside of words
    re.IGNORECASE,
)


def channels(values: SettingValues) -> "tuple[AppriseUrl, ...]":
    """A channel for each URL."""
    return tuple(AppriseUrl(url) for url in values[APPRISE_URLS] or ())


def doubts(values: SettingValues) -> Iterator[str]:
    """Likely mistakes in the settings, in a sentence each."""
    if values[APPRISE_URLS] and is_missing("apprise"):
        yield f"{APPRISE_URLS.name} is set, but Apprise is not installed, so its alerts wait; {install('apprise')}"


@dataclass(frozen=True, slots=True)
class AppriseUrl:
    """One URL."""

    url: str = field(repr=False)
    limits: HttpTimeouts = LIMITS

    @property
    def identity(self) -> str:
        return f"apprise-{self._scheme}:{fingerprint(self.url)}"

    @property
    def describe(self) -> str:
        # The fingerprint distinguishes two of one kind, because hosts and users may be secrets.
        return f"Apprise ({self._scheme} {fingerprint(self.url)[:4]})"

    def send(self, message: Message, receipt: Receipt | None = None) -> None:  # noqa: ARG002 - alerts are independent
        demand("apprise", "apprise", to=self.describe)
        within(self.limits.total_s, lambda: self._send(message.masked(self._mask)), to=self.describe)

    def preview(self, message: Message) -> str:
        """The whole text. Services with a lower limit get less."""
        hidden = message.masked(self._mask)
        return f"{harmless(headline(hidden))}\n\n{body(hidden, 30_000)}"

    def check(self) -> str:
        """Check that Apprise supports the service, and that a host in the URL can be reached. Sends nothing."""
        demand("apprise", "apprise", to=self.describe)
        return within(self.limits.total_s, self._check, to=self.describe)

    @property
    def _scheme(self) -> str:
        return self.url.partition("://")[0].lower()

    @property
    def _mask(self) -> Redactor:
        # Depending on the service, any part of the URL may be the token.
        place, _, query = self.url.partition("://")[2].partition("?")
        values = [pair.partition("=")[2] for pair in query.split("&")]
        parts = {part for text in (place, *values) for part in re.split(r"[/@:,]+", text) if len(part) >= SHORTEST}
        return Redactor([self.url, *parts, *map(unquote, parts)])

    def _send(self, message: Message) -> None:
        with _overheard() as said:
            from apprise import NotifyFormat, NotifyType, OverflowMode  # noqa: PLC0415 - an extra, and only to send
            from apprise.conversion import convert_between  # noqa: PLC0415

            convert: Callable[..., str] = convert_between
            kinds = {"critical": NotifyType.FAILURE, "warning": NotifyType.WARNING}
            good = NotifyType.SUCCESS if message.event in _FAVOURABLE else NotifyType.INFO
            plugin = self._plugin(said)
            shape = plugin.resolve_format(NotifyFormat.TEXT)
            title, first = harmless(headline(message)), ""
            if plugin.title_maxlen <= 0:
                title, first = "", f"{title}\n"
            wanted = room = plugin.body_maxlen
            text = first + body(message, room - len(first))
            # Escaping makes text longer.
            while (longer := len(convert(NotifyFormat.TEXT, shape, text))) > room and wanted > 1:
                wanted = max(1, min(wanted - 1, wanted * room // longer))
                text = fit(first + body(message, wanted - len(first)), wanted)
            try:
                done = plugin.notify(
                    body=text,
                    title=fit(title, plugin.title_maxlen),
                    notify_type=kinds.get(message.severity, good),
                    overflow=OverflowMode.TRUNCATE,
                    body_format=NotifyFormat.TEXT,
                )
            except Exception as error:  # noqa: BLE001 - plug-ins may raise anything, with the URL in the text
                raise DeliveryError(f"{self.describe}: it broke: {type(error).__name__}", retryable=True) from None
        if not done:
            advice = f"alerts wait and are sent again; if it stays so, check {APPRISE_URLS.name}"
            raise DeliveryError(f"{self.describe}: {self._why(said) or 'it failed'}", retryable=True, advice=advice)

    def _check(self) -> str:
        with _overheard() as said:
            plugin = self._plugin(said)
        place = _place(plugin)
        if place is None:
            return f"{self.describe}: Apprise knows the service {plugin.service_name}; nothing was sent"
        try:
            with socket.create_connection(place, timeout=self.limits.connect_s):
                pass
        except (OSError, UnicodeError) as error:
            advice = f"check the host and port in {APPRISE_URLS.name}, and this machine's network"
            raise DeliveryError(
                f"{self.describe}: {web.calls.in_words(error, self.limits)}", retryable=True, advice=advice
            ) from None
        return f"{self.describe}: the host answers; nothing was sent"

    def _plugin(self, said: list[str]) -> "NotifyBase":
        from apprise import Apprise, AppriseAsset  # noqa: PLC0415 - as in _send

        asset = AppriseAsset(
            async_mode=False,
            secure_logging=True,
            storage_mode="memory",
            interpret_emojis=False,
            app_id="lastbeat",
            app_desc="lastbeat",
            app_url="",
            image_url_mask="",
            image_url_logo="",
        )
        plugin = Apprise.instantiate(self.url, asset=asset)
        if plugin is None:
            why = self._why(said)
            raise DeliveryError(
                f"{self.describe}: Apprise cannot use this URL{f': {why}' if why else ''}",
                retryable=False,
                advice=f"correct it in {APPRISE_URLS.name}; https://github.com/caronc/apprise/wiki lists how they look",
            )
        # Its pauses between two requests are for many messages; this is one.
        plugin.request_rate_per_sec = 0.0
        return plugin

    def _why(self, said: list[str]) -> str:
        known = "; ".join(line.rstrip(".") for line in (one_line(self._mask(text)) for text in said) if line)
        return fit(known, 200)


def harmless(text: str) -> str:
    """``text`` with the same appearance, but without mentions of people or hidden links in any rendering."""
    return _LIVELY.sub(rf"\g<0>{_JOINER}", text)


def body(message: Message, limit: int) -> str:
    """The alert without its headline in at most ``limit`` characters: the facts, then the newest log lines that fit.
    Pure."""
    whole = harmless("\n".join(_after_headline(message)))
    if len(whole) <= limit:
        return whole
    facts = harmless("\n".join(_after_headline(replace(message, log_tail=(), stack=()))))
    log = tuple(map(harmless, message.stack or log_lines(message)))
    left = limit - len(facts) - 2
    if left < 40:
        return fit(facts, max(limit, 0))
    return "\n".join([facts, "", *newest(log, left, min(left - 2, 400))]).rstrip()


def _after_headline(message: Message) -> list[str]:
    return [fit(line, 500) for line in lines(message)][1:]


def _place(plugin: "NotifyBase") -> tuple[str, int] | None:
    """Host and port of a user's own server, or None for a public service. For those, the host part of the URL may be a
    token, which must not be resolved."""
    secure = bool(getattr(plugin, "secure", False))
    mail = getattr(plugin, "smtp_host", None)
    if isinstance(mail, str) and mail:
        return mail, int(plugin.port or (587 if secure else 25))
    host = plugin.host if "host" in plugin.template_tokens else None
    if not isinstance(host, str) or not (plugin.port or "." in host or host == "localhost"):
        return None
    return host, int(plugin.port or (443 if secure else 80))


@contextmanager
def _overheard() -> Iterator[list[str]]:
    """Collects the warnings and errors that Apprise and its libraries log in this thread. They are kept out of the log,
    because they may contain the URL."""
    said: list[str] = []
    here = threading.get_ident()

    def listen(record: logging.LogRecord) -> bool:
        if record.thread != here:
            return True
        if record.levelno >= logging.WARNING and record.name == "apprise" and len(said) < 3:
            said.append(record.getMessage())
        return False

    loggers = [logging.getLogger(name) for name in ("apprise", *_TALKERS)]
    for each in loggers:
        each.addFilter(listen)
    try:
        yield said
    finally:
        for each in loggers:
            each.removeFilter(listen)
