"""An AWS that answers what the in-memory one never does."""

from collections.abc import Iterator

import pytest

from lastbeat.alerts.port import DeliveryError
from lastbeat.alerts.sns import Sns
from support.http_sink import Answer, HttpSink, http_sink
from support.messages import FAILED

SNS = Sns("arn:aws:sns:us-east-1:123456789012:alerts")


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpSink]:
    with http_sink() as sink:
        monkeypatch.setenv("AWS_ENDPOINT_URL", sink.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testtest")
        yield sink


def error(status: int, code: str) -> Answer:
    body = f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>no</Message></Error></ErrorResponse>"
    return Answer(status, body.encode(), {"Content-Type": "text/xml"})


@pytest.mark.parametrize(
    ("answer", "retryable", "words"),
    [
        pytest.param(error(403, "ExpiredToken"), True, "ExpiredToken", id="expired credentials are renewed"),
        pytest.param(error(403, "AuthorizationError"), False, "allow sns:Publish", id="not allowed"),
        pytest.param(Answer(502, b"<html>bad gateway"), True, "answered 502|failed", id="a page of a gateway"),
        pytest.param(Answer(reset=True), True, "could not|failed|no answer", id="reset"),
    ],
)
def test_refusals(aws: HttpSink, answer: Answer, retryable: bool, words: str) -> None:
    aws.otherwise = answer
    with pytest.raises(DeliveryError, match=words) as caught:
        SNS.send(FAILED)
    assert caught.value.retryable is retryable
    # botocore's own retries are bounded: a channel that is down must not hold up a pass.
    assert 1 <= len(aws.requests) <= 2


def test_a_check_without_permission_is_no_failure(aws: HttpSink) -> None:
    aws.otherwise = error(403, "AuthorizationError")
    assert "cannot be checked without the permission sns:GetTopicAttributes" in SNS.check()
