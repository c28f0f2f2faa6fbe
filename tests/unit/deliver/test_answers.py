"""What answers mean: Retry-After, AWS's codes, a signature, a subject."""

import hashlib
import hmac
from dataclasses import replace
from typing import Any

import pytest
from botocore import exceptions
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.alerts import sns
from lastbeat.alerts.web.posting import retry_after_s
from lastbeat.alerts.webhook import signature
from support.messages import FAILED

ARN = "arn:aws:sns:us-east-1:123456789012:alerts"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        pytest.param(None, None, id="no header"),
        pytest.param("30", 30.0, id="seconds"),
        pytest.param("0", 0.0, id="at once"),
        pytest.param("86400", 3600.0, id="a day is an hour"),
        pytest.param("999999999999", 3600.0, id="thirty thousand years too"),
        pytest.param("Mon, 04 Aug 2025 17:17:00 GMT", 60.0, id="a date, measured from the answer's own"),
        pytest.param("Mon, 04 Aug 2025 17:00:00 GMT", 0.0, id="a date that has passed"),
        pytest.param("Mon, 04 Aug 2125 17:00:00 GMT", 3600.0, id="a date in the next century"),
        pytest.param("Mon, 04 Aug 2025 17:17:00", 60.0, id="a date without a zone"),
        pytest.param("1e9", None, id="a number that no header has"),
        pytest.param("٣", None, id="a digit of another script"),
        pytest.param("Mon, 99 Aug 99999 99:99:99 GMT", None, id="no such date"),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header, "Mon, 04 Aug 2025 17:16:00 GMT") == seconds


@given(st.text(), st.none() | st.text())
def test_a_nonsensical_retry_after_never_raises(header: str, date: str | None) -> None:
    wait = retry_after_s(header, date)
    assert wait is None or 0 <= wait <= 3600


def test_a_signature_is_that_of_the_timestamp_and_the_body() -> None:
    expected = hmac.new(b"key", b'1754327781.{"a": 1}', hashlib.sha256).hexdigest()
    assert signature(b'{"a": 1}', "key", 1754327781) == {
        "X-Lastbeat-Timestamp": "1754327781",
        "X-Lastbeat-Signature-256": f"sha256={expected}",
    }


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        pytest.param({}, "lastbeat FAILED: mistral-20250804-171621 (cuda_out_of_memory)", id="event, run and cause"),
        pytest.param({"cause": None}, "lastbeat FAILED: mistral-20250804-171621", id="no cause"),
        pytest.param(
            {"cause": "mémoire\n🔥"}, "lastbeat FAILED: mistral-20250804-171621 (m?moire ?)", id="ASCII alone"
        ),
        pytest.param({"run_id": "r" * 200}, f"lastbeat FAILED: {'r' * 80}...", id="100 characters at most"),
    ],
)
def test_subjects(changes: dict[str, Any], subject: str) -> None:
    assert sns.subject(replace(FAILED, **changes)) == subject


def test_a_fifo_topic_gets_its_group_and_its_key() -> None:
    message = replace(FAILED, run_id="r" * 200)
    first, again = (sns.request(ARN + ".fifo", message) for _ in range(2))
    other = sns.request(ARN + ".fifo", replace(message, key="another"))
    assert first["MessageDeduplicationId"] == again["MessageDeduplicationId"] != other["MessageDeduplicationId"]
    assert len(first["MessageGroupId"]) <= 128
    assert "MessageGroupId" not in sns.request(ARN, message)


def refused(code: str, status: int, message: str = "words") -> Exception:
    answer: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return exceptions.ClientError(answer, "Publish")


@pytest.mark.parametrize(
    ("error", "retryable", "words"),
    [
        pytest.param(refused("Throttling", 400), True, "answered Throttling", id="throttled"),
        pytest.param(refused("Whatever", 429), True, "answered Whatever", id="throttled by status"),
        pytest.param(
            refused("ExpiredToken", 403), True, "renew the AWS credentials", id="credentials that get renewed"
        ),
        pytest.param(refused("AuthorizationError", 403), False, "allow sns:Publish", id="not allowed"),
        pytest.param(refused("NotFound", 404), False, "check SNS_TOPIC_ARN", id="no such topic"),
        pytest.param(refused("InvalidClientTokenId", 403), False, "check the AWS credentials", id="no such caller"),
        pytest.param(
            refused("InvalidParameter", 400), False, "answered InvalidParameter: words", id="refused as invalid"
        ),
        pytest.param(
            refused("X", 400, "key AKIAIOSFODNN7EXAMPLE \x1b[31m" + "y" * 5000), False, "key *** y", id="hostile words"
        ),
    ],
)
def test_answers_of_aws(error: Any, retryable: bool, words: str) -> None:
    fault = sns._refusal(error, "SNS (alerts in us-east-1)")
    assert fault.retryable is retryable
    assert words in str(fault)
    assert fault.advice, "each has its remedy"
    assert len(str(fault)) < 400


@pytest.mark.parametrize(
    ("error", "retryable", "words"),
    [
        pytest.param(
            exceptions.NoCredentialsError(),
            True,
            "no AWS credentials were found: set AWS_ACCESS_KEY_ID",
            id="no credentials",
        ),
        pytest.param(exceptions.ProfileNotFound(profile="x"), True, "not found: check AWS_PROFILE", id="no profile"),
        pytest.param(
            exceptions.EndpointConnectionError(endpoint_url="http://u:pw@x"), True, "not be reached", id="nobody"
        ),
        pytest.param(exceptions.ProxyConnectionError(proxy_url="http://u:pw@x"), True, "the proxy", id="a proxy"),
        pytest.param(exceptions.ConnectTimeoutError(endpoint_url="http://u:pw@x"), True, "within 3 s", id="silence"),
        pytest.param(exceptions.ReadTimeoutError(endpoint_url="http://u:pw@x"), True, "within 5 s", id="no answer"),
        pytest.param(exceptions.ParamValidationError(report="pw"), False, "invalid", id="refused by boto3"),
        pytest.param(exceptions.HTTPClientError(error="pw"), True, "HTTPClientError", id="anything else"),
    ],
)
def test_troubles_on_the_way_to_aws(error: Exception, retryable: bool, words: str) -> None:
    fault = sns._trouble(error, "SNS (alerts in us-east-1)")
    assert fault.retryable is retryable
    assert words in str(fault)
    assert "pw" not in str(fault)
