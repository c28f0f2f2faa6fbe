"""Slack and the webhook against a real HTTP server: what is sent, and what every answer means."""

import hashlib
import hmac
import json
import logging
import time
from dataclasses import replace

import pytest

from lastbeat import __version__
from lastbeat.alerts.port import DeliveryError
from lastbeat.alerts.slack import Slack
from lastbeat.alerts.webhook import Webhook
from lastbeat.alerts.weburl import HttpTimeouts
from support.http_sink import Answer, HttpSink
from support.messages import FAILED

TOKEN = "abcdefghijklmnopqrstuvwx"
PATH = f"/services/T0AAAAAAA/B0BBBBBBB/{TOKEN}"
QUICK = HttpTimeouts(connect_s=0.5, read_s=0.3, total_s=0.8)


@pytest.fixture(params=[pytest.param(Slack, id="Slack"), pytest.param(Webhook, id="webhook")])
def hook(request: pytest.FixtureRequest, sink: HttpSink) -> Slack | Webhook:
    made: Slack | Webhook = request.param(sink.url + PATH)
    return made


def test_slack_gets_the_very_payload_of_the_preview(sink: HttpSink) -> None:
    slack = Slack(sink.url + PATH)
    slack.send(FAILED)
    (request,) = sink.requests
    assert (request.method, request.path) == ("POST", PATH)
    assert request.headers["content-type"] == "application/json; charset=utf-8"
    assert request.headers["user-agent"] == f"lastbeat/{__version__}"
    assert json.loads(request.body) == json.loads(slack.preview(FAILED))


def test_the_webhook_gets_a_signed_document(sink: HttpSink) -> None:
    webhook = Webhook(sink.url + PATH, secret="correct-horse")
    webhook.send(replace(FAILED, figures=replace(FAILED.figures, loss=float("nan")), key="run/1/é\n"))
    (request,) = sink.requests
    assert request.headers["idempotency-key"] == "run/1/?"
    assert request.headers["content-type"] == "application/json; charset=utf-8"
    sent_at = request.headers["x-lastbeat-timestamp"]
    assert abs(time.time() - int(sent_at)) < 60
    expected = hmac.new(b"correct-horse", sent_at.encode() + b"." + request.body, hashlib.sha256).hexdigest()
    assert request.headers["x-lastbeat-signature-256"] == f"sha256={expected}"
    assert json.loads(request.body)["loss"] == "NaN"


def test_without_a_secret_nothing_is_signed(sink: HttpSink) -> None:
    Webhook(sink.url + PATH).send(FAILED)
    assert not [name for name in sink.requests[0].headers if name.startswith("x-lastbeat")]


@pytest.mark.parametrize(
    ("answer", "retryable", "retry_after_s", "words"),
    [
        pytest.param(
            Answer(429, b"rate_limited", {"Retry-After": "30"}), True, 30.0, "429 rate_limited", id="too many"
        ),
        pytest.param(Answer(503, b"", {"Retry-After": "7"}), True, 7.0, "503 Service Unavailable", id="unavailable"),
        pytest.param(Answer(408, b""), True, None, "408 Request Timeout", id="the server's own time-out"),
        pytest.param(Answer(404, b"no_service", {"Retry-After": "7"}), False, None, "404 no_service", id="gone"),
        pytest.param(Answer(400, b"<html>no"), False, None, "400 Bad Request", id="a page explains nothing"),
        pytest.param(
            Answer(400, b"\x1b[31mno\xff\n" + b"y" * 9999), False, None, "400 no\ufffd yyy", id="hostile words"
        ),
        pytest.param(
            Answer(302, b"", {"Location": "/elsewhere"}), False, None, "302 Found", id="no redirect is followed"
        ),
        pytest.param(Answer(400, PATH.encode()), False, None, r"400 \*\*\*", id="an echo does not show the secret"),
        pytest.param(Answer(500, b"z" * 100, endless=True), True, None, "500 zzz", id="an answer without end"),
        pytest.param(Answer(reset=True), True, None, "the connection broke", id="a reset"),
    ],
)
def test_answers(
    sink: HttpSink, hook: Slack | Webhook, answer: Answer, retryable: bool, retry_after_s: float | None, words: str
) -> None:
    sink.script.append(answer)
    with pytest.raises(DeliveryError, match=words) as caught:
        hook.send(FAILED)
    assert caught.value.retryable is retryable
    assert caught.value.retry_after_s == retry_after_s
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()
    # One send is one request: a reset after sending may have arrived, so a later pass decides.
    assert len(sink.requests) == 1


def test_slack_says_what_to_do_about_its_own_words(sink: HttpSink) -> None:
    sink.script.append(Answer(404, b"no_service"))
    with pytest.raises(DeliveryError, match="404 no_service: the webhook was removed or disabled; make a new webhook"):
        Slack(sink.url + PATH).send(FAILED)


@pytest.mark.parametrize("status", [200, 201, 204])
def test_any_success_is_one_however_its_body_goes_on(sink: HttpSink, hook: Slack | Webhook, status: int) -> None:
    sink.script.append(Answer(status, b"" if status == 204 else b"ok", endless=status == 201))
    hook.send(FAILED)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(Answer(delay_s=3600), "no answer within 0.3 s", id="silence"),
        pytest.param(Answer(trickle=True), "no complete answer within 0.8 s", id="a byte now and then"),
    ],
)
def test_no_server_holds_up_a_pass(sink: HttpSink, hook: Slack | Webhook, answer: Answer, words: str) -> None:
    sink.script.append(answer)
    with pytest.raises(DeliveryError, match=words) as caught:
        replace(hook, limits=QUICK).send(FAILED)
    assert caught.value.retryable


def test_what_urllib3_logs_is_masked(sink: HttpSink, hook: Slack | Webhook, caplog: pytest.LogCaptureFixture) -> None:
    # A header that cannot be parsed makes urllib3 warn with the whole address.
    sink.script.append(Answer(200, b"ok", {"Bad\r\nheader without colon": "x"}))
    with caplog.at_level(logging.DEBUG):
        hook.send(FAILED)
    assert "POST ***" in caplog.text
    assert TOKEN not in caplog.text


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(Answer(400, b"no_text"), "the webhook exists; nothing was posted", id="it wants a text"),
        pytest.param(Answer(200, b"ok"), "the address answers 200", id="something that imitates Slack"),
    ],
)
def test_slack_is_checked_with_a_message_that_cannot_be_posted(sink: HttpSink, answer: Answer, words: str) -> None:
    sink.script.append(answer)
    assert words in Slack(sink.url + PATH).check()
    assert sink.requests[0].body == b"{}"


@pytest.mark.parametrize(
    ("answer", "retryable"),
    [
        pytest.param(Answer(404, b"no_service"), False, id="removed"),
        pytest.param(Answer(403, b"invalid_token"), False, id="mistyped"),
        pytest.param(Answer(503, b""), True, id="down"),
    ],
)
def test_a_check_of_slack_that_fails(sink: HttpSink, answer: Answer, retryable: bool) -> None:
    sink.script.append(answer)
    with pytest.raises(DeliveryError, match=f"answered {answer.status}") as caught:
        Slack(sink.url + PATH).check()
    assert caught.value.retryable is retryable


def test_the_webhook_is_checked_without_a_request(sink: HttpSink) -> None:
    assert Webhook(sink.url + PATH).check().endswith("the host answers; nothing was sent")
    assert sink.requests == []


def test_a_host_behind_a_proxy_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:hunter2@127.0.0.1:9")
    said = Webhook("https://alerts.invalid/x").check()
    assert "not checked, because it is reached through a proxy" in said
    assert "hunter2" not in said


@pytest.mark.parametrize("channel", [Slack, Webhook])
def test_a_proxy_that_is_down_may_come_back(channel: type[Slack | Webhook], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:hunter2@127.0.0.1:9")
    with pytest.raises(DeliveryError, match="the proxy could not be used") as caught:
        channel("https://alerts.invalid" + PATH).send(FAILED)
    assert caught.value.retryable


@pytest.mark.parametrize("ask", [pytest.param("send", id="sending"), pytest.param("check", id="checking")])
@pytest.mark.parametrize("channel", [Slack, Webhook])
def test_a_name_that_does_not_resolve_may_resolve_later(channel: type[Slack | Webhook], ask: str) -> None:
    hook = channel("https://lastbeat.invalid" + PATH)
    with pytest.raises(DeliveryError, match="the host's name could not be resolved") as caught:
        hook.send(FAILED) if ask == "send" else hook.check()
    assert caught.value.retryable
