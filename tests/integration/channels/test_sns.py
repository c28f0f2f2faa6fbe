"""SNS for real: what a subscriber gets, and what failures are called."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lastbeat.alerts.port import DeliveryError
from lastbeat.alerts.sns import Sns
from support.http_sink import Answer, HttpSink, http_sink
from support.messages import FAILED, TIMED_OUT
from support.s3 import S3Server
from support.sns import topic


@pytest.fixture(autouse=True)
def credentials(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    # The topic's region counts, not this.
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


def test_a_subscriber_gets_subject_body_and_attributes(s3_server: S3Server) -> None:
    alerts = topic(s3_server)
    Sns(alerts.arn).send(replace(FAILED, figures=replace(FAILED.figures, loss=float("nan"))))
    (got,) = alerts.received()
    assert got["Subject"] == "lastbeat FAILED: mistral-20250804-171621 (cuda_out_of_memory)"
    assert {name: each["Value"] for name, each in got["MessageAttributes"].items()} == {
        "run_id": "mistral-20250804-171621",
        "status": "FAILED",
        "severity": "critical",
        "cause": "cuda_out_of_memory",
    }
    body = json.loads(got["Message"])
    assert body["reason"] == FAILED.reason
    assert body["loss"] == "NaN"


def test_a_filter_policy_chooses_by_cause(s3_server: S3Server) -> None:
    alerts = topic(s3_server, {"cause": ["cuda_out_of_memory", "none"]})
    for message in (FAILED, TIMED_OUT, replace(TIMED_OUT, cause=None)):
        Sns(alerts.arn).send(message)
    assert [json.loads(got["Message"])["cause"] for got in alerts.received()] == ["cuda_out_of_memory", None]


def test_a_fifo_topic_takes_one_alert_once(s3_server: S3Server) -> None:
    alerts = topic(s3_server, fifo=True)
    for _ in range(3):
        Sns(alerts.arn).send(FAILED)
    assert len(alerts.received()) == 1


def test_a_topic_that_is_not_there_is_permanent(s3_server: S3Server) -> None:
    gone = Sns("arn:aws:sns:us-east-1:123456789012:gone")
    with pytest.raises(DeliveryError, match="check SNS_TOPIC_ARN") as caught:
        gone.send(FAILED)
    assert not caught.value.retryable
    with pytest.raises(DeliveryError, match="check SNS_TOPIC_ARN"):
        gone.check()


def test_checking_publishes_nothing(s3_server: S3Server) -> None:
    alerts = topic(s3_server)
    assert Sns(alerts.arn).check().endswith("the topic exists; nothing was published")
    assert alerts.received() == []


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
