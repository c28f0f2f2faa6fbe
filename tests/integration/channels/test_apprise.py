"""Alerts through the real Apprise: e-mail to an SMTP server on this machine, and services' web hooks."""

import json
import logging
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from email.message import Message as Mail
from email.policy import default

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP

from lastbeat.alerts.apprise_urls import AppriseUrl
from lastbeat.alerts.port import DeliveryError
from lastbeat.alerts.weburl import HttpTimeouts
from lastbeat.model.status import Event, Status
from support.http_sink import Answer, HttpSink, closed_port
from support.messages import FAILED, TIMED_OUT
from support.waiting import until

TOKEN = "abcdefghijklmnopqrstuvwx"
HOSTILE = replace(
    FAILED,
    reason="@everyone <img src=https://evil.example/x> [log in](https://evil.example) <!channel>",
    log_tail=("<script>alert(1)</script>", "**bold** & <b>"),
)


@dataclass
class Mailbox:
    """An SMTP server's."""

    port: int = 0
    refuse: str = ""
    mails: list[Mail] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)

    async def handle_DATA(  # noqa: N802 - aiosmtpd's name
        self, _server: object, _session: object, envelope: object
    ) -> str:
        if self.refuse:
            return self.refuse
        self.mails.append(message_from_bytes(envelope.content, policy=default))  # type: ignore[attr-defined]
        self.recipients += envelope.rcpt_tos  # type: ignore[attr-defined]
        return "250 OK"

    def url(self, to: str = "oncall@example.org") -> str:
        return f"mailto://127.0.0.1:{self.port}/?from=lastbeat@example.org&to={to}&format=text"


class SmtpServer(Controller):
    """Knows its connections: its end closes none of them."""

    def __init__(self, mailbox: Mailbox) -> None:
        super().__init__(mailbox, hostname="127.0.0.1", port=closed_port())
        self.connections: list[SMTP] = []

    def factory(self) -> SMTP:
        connection: SMTP = super().factory()  # type: ignore[no-untyped-call]
        self.connections.append(connection)
        return connection

    def finish(self) -> None:
        """Wait until all that was connected so far has been served and closed."""
        # It takes them in turn: who hears of this one has taken those before it.
        with socket.create_connection((self.hostname, self.port), timeout=10) as last:
            last.recv(100)
        until(lambda: [each.transport for each in self.connections], lambda left: not any(left))


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    made = Mailbox()
    server = SmtpServer(made)
    server.start()
    made.port = server.port
    try:
        yield made
    finally:
        server.finish()
        server.stop()


def text_of(mail: Mail) -> str:
    return "\n".join(
        part.get_content()  # type: ignore[attr-defined]
        for part in mail.walk()
        if part.get_content_type().startswith("text/")
    )


def test_an_alert_comes_by_e_mail_as_plain_text_and_nothing_is_attached(mailbox: Mailbox) -> None:
    AppriseUrl(mailbox.url()).send(HOSTILE)
    (mail,) = mailbox.mails
    assert mailbox.recipients == ["oncall@example.org"]
    assert "FAILED: mistral-20250804-171621" in mail["Subject"]
    assert {part.get_content_type() for part in mail.walk() if not part.is_multipart()} == {"text/plain"}
    text = text_of(mail)
    assert str(FAILED.action) in text.replace("\n", " ")
    assert "<img" not in text
    assert "](" not in text


def test_where_its_url_asks_for_html_training_writes_none_of_it(mailbox: Mailbox) -> None:
    AppriseUrl(mailbox.url().replace("format=text", "format=html")).send(HOSTILE)
    text = text_of(mailbox.mails[0])
    assert "script&gt;" in text or "script>" in text
    assert "<script" not in text
    assert "<img" not in text


def test_a_mail_server_that_refuses_is_told_and_asked_again_later(
    mailbox: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    mailbox.refuse = "451 try later, secret-of-the-server"
    with caplog.at_level(logging.DEBUG), pytest.raises(DeliveryError) as caught:
        AppriseUrl(mailbox.url("secret-recipient@example.org")).send(FAILED)
    assert caught.value.retryable
    assert "secret-recipient" not in str(caught.value)
    assert not [record.name for record in caplog.records if record.name != "mail.log"], "but for the server's own log"


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (FAILED, "failure"),
        (TIMED_OUT, "failure"),
        (replace(FAILED, event=Event.WARNING), "warning"),
        (replace(FAILED, event=Event.RECOVERED, status=Status.RUNNING), "success"),
        (replace(FAILED, event=Event.SUCCEEDED, status=Status.SUCCEEDED, conditions={}), "success"),
        (replace(FAILED, event=Event.RESTARTED, status=Status.RUNNING), "info"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.event.value,
)
def test_how_severe_it_is_becomes_the_notifications_type(sink: HttpSink, message: object, kind: str) -> None:
    AppriseUrl(sink.url.replace("http", "json") + f"/{TOKEN}").send(message)  # type: ignore[arg-type]
    (request,) = sink.requests
    assert json.loads(request.body)["type"] == kind
    assert not json.loads(request.body)["attachments"]


def test_a_chat_gets_no_mention_and_no_more_than_it_takes(sink: HttpSink) -> None:
    long = replace(HOSTILE, log_tail=tuple(f"<@U{n}> @here line {n}" for n in range(2000)))
    AppriseUrl(sink.url.replace("http", "mmost") + f"/{TOKEN}").send(long)
    (request,) = sink.requests
    text = json.loads(request.body)["text"]
    assert len(text) <= 4000
    assert "line 1999" in text
    for live in ("@everyone", "@here", "<@", "<!channel", "]("):
        assert live not in text


def test_one_that_is_down_says_why_without_its_secrets(sink: HttpSink, caplog: pytest.LogCaptureFixture) -> None:
    sink.otherwise = Answer(503, TOKEN.encode())
    with caplog.at_level(logging.DEBUG), pytest.raises(DeliveryError, match="503") as caught:
        AppriseUrl(sink.url.replace("http", "json") + f"/{TOKEN}").send(FAILED)
    assert caught.value.retryable
    assert TOKEN not in str(caught.value) + caplog.text


def test_one_that_answers_for_ever_is_given_up_in_time(sink: HttpSink) -> None:
    sink.otherwise = Answer(trickle=True)
    channel = AppriseUrl(sink.url.replace("http", "json"), HttpTimeouts(total_s=0.5))
    with pytest.raises(DeliveryError, match=r"no complete answer within 0\.5 s") as caught:
        channel.send(FAILED)
    assert caught.value.retryable


CHECKS = {
    "a service that Apprise knows": (f"discord://12345678/{TOKEN}", "knows the service Discord"),
    "a token where a host would be is not looked up": (f"ntfy://{TOKEN}", "knows the service ntfy"),
}


@pytest.mark.parametrize(("url", "says"), [pytest.param(*row, id=name) for name, row in CHECKS.items()])
def test_a_check_sends_nothing(url: str, says: str) -> None:
    assert says in AppriseUrl(url).check()


def test_a_check_reaches_for_a_server_of_ones_own(mailbox: Mailbox) -> None:
    assert "the host answers" in AppriseUrl(mailbox.url()).check()
    assert not mailbox.mails


@pytest.mark.parametrize("url", [f"nosuch://{TOKEN}", f"slack://{TOKEN}", "discord://x"])
@pytest.mark.parametrize("ask", ["send", "check"])
def test_a_url_that_apprise_does_not_know_is_refused_for_good(url: str, ask: str) -> None:
    channel = AppriseUrl(url)
    with pytest.raises(DeliveryError, match="cannot use this URL") as caught:
        channel.send(FAILED) if ask == "send" else channel.check()
    assert not caught.value.retryable
    assert TOKEN not in str(caught.value)
