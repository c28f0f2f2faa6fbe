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


def test_a_gateway_that_is_broken_is_asked_again_later_and_holds_no_pass_up(aws: HttpSink) -> None:
    aws.otherwise = Answer(502, b"<html>bad gateway")
    with pytest.raises(DeliveryError, match=r"answered 502|failed") as caught:
        SNS.send(FAILED)
    assert caught.value.retryable
    # botocore's own retries are bounded.
    assert 1 <= len(aws.requests) <= 2


def test_a_check_without_permission_is_no_failure(aws: HttpSink) -> None:
    refusal = b"<ErrorResponse><Error><Code>AuthorizationError</Code><Message>no</Message></Error></ErrorResponse>"
    aws.otherwise = Answer(403, refusal, {"Content-Type": "text/xml"})
    assert "cannot be checked without the permission sns:GetTopicAttributes" in SNS.check()
