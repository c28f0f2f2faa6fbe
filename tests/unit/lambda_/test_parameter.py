"""Where a secret lies, how it is read, and that what goes wrong is said without it."""

import json
from collections.abc import Iterator

import pytest

from lastbeat.settings import SettingsError, load, table
from lastbeat_lambda.parameter import read_secret
from lastbeat_lambda.secret_error import SecretError
from support.http_sink import Answer, HttpSink, closed_port, http_sink
from support.row_by_row import labelled

ADDRESS = "https://hooks.slack.com/services/T0/B0/made-up-for-this-test"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "made-up", "AWS_SESSION_TOKEN": "made-up-too"}


@pytest.fixture(scope="module")
def aws() -> Iterator[HttpSink]:
    with http_sink() as sink:
        yield sink


def answered(aws: HttpSink, body: object, status: int = 200) -> dict[str, str]:
    aws.requests.clear()
    aws.otherwise = Answer(status, body if isinstance(body, bytes) else json.dumps(body).encode())
    return KEYS | {"AWS_ENDPOINT_URL": aws.url}


READ: list[tuple[str, str, object]] = [
    ("one with a line's end", "ssm:/lastbeat/slack", {"Parameter": {"Value": f"{ADDRESS}\n"}}),
    ("a secret", "secretsmanager:slack", {"SecretString": ADDRESS}),
    ("a secret as the console makes it", "secretsmanager:slack", {"SecretString": json.dumps({"url": ADDRESS})}),
]


@pytest.mark.parametrize(("place", "body"), labelled(READ))
def test_it_is_read(aws: HttpSink, place: str, body: object) -> None:
    assert read_secret(place, answered(aws, body), "eu-west-1") == ADDRESS


def test_the_request_is_signed_for_the_service_and_its_region(aws: HttpSink) -> None:
    read_secret("ssm:/lastbeat/slack", answered(aws, {"Parameter": {"Value": ADDRESS}}), "eu-west-1")
    (asked,) = aws.requests
    assert asked.headers["x-amz-target"] == "AmazonSSM.GetParameter"
    assert json.loads(asked.body) == {"Name": "/lastbeat/slack", "WithDecryption": True}
    assert "/eu-west-1/ssm/aws4_request" in asked.headers["authorization"]
    assert asked.headers["x-amz-security-token"] == "made-up-too"


def test_an_arn_names_its_own_region(aws: HttpSink) -> None:
    arn = "arn:aws:secretsmanager:eu-north-1:123456789012:secret:slack-AbCdEf"
    read_secret(f"secretsmanager:{arn}", answered(aws, {"SecretString": ADDRESS}), "us-east-1")
    assert "/eu-north-1/secretsmanager/" in aws.requests[0].headers["authorization"]


WRONG: list[tuple[str, object, int, str]] = [
    ("it is not there", {"__type": "com.amazonaws#ParameterNotFound", "message": ADDRESS}, 400, "ParameterNotFound"),
    ("it may not be read", {"__type": "AccessDeniedException"}, 400, "the function's role may read it"),
    ("no JSON", b"<html>", 200, "answered 200"),
    ("an answer without end", b"x" * 1_000_000, 200, "answered 200"),
    ("no text in it", {"Parameter": {"Value": "  "}}, 200, "holds no text"),
    ("an object with two texts", {"Parameter": {"Value": '{"a": "x", "b": "y"}'}}, 200, "with 2 texts"),
]


@pytest.mark.parametrize(("body", "status", "message"), labelled(WRONG))
def test_what_goes_wrong_is_said_with_the_name_and_without_the_secret(
    aws: HttpSink, body: object, status: int, message: str
) -> None:
    with pytest.raises(SecretError) as fault:
        read_secret("ssm:/lastbeat/slack", answered(aws, body, status), "us-east-1")
    assert message in str(fault.value)
    assert "/lastbeat/slack" in str(fault.value)
    assert ADDRESS not in str(fault.value)


def test_a_service_that_cannot_be_reached_and_missing_credentials_are_said() -> None:
    nobody = f"http://127.0.0.1:{closed_port()}"
    with pytest.raises(SecretError, match="could not be reached"):
        read_secret("ssm:/x", KEYS | {"AWS_ENDPOINT_URL": nobody}, "us-east-1")
    with pytest.raises(SecretError, match="no AWS credentials"):
        read_secret("ssm:/x", {}, "us-east-1")


PLACES = [
    ("ssm:/lastbeat/slack", True),
    ("ssm:arn:aws:ssm:us-east-1:123456789012:parameter/slack", True),
    ("secretsmanager:arn:aws:secretsmanager:us-east-1:123456789012:secret:slack-AbCdEf", True),
    ("/lastbeat/slack", False),
    ("ssm:", False),
    ("ssm:/a b", False),
    ("vault:/x", False),
]


@pytest.mark.parametrize(("place", "good"), PLACES)
def test_what_names_a_place(place: str, good: bool) -> None:
    environ = {"LASTBEAT_SLACK_WEBHOOK_FROM": place, "MONITORING_BUCKET": "my-bucket", "HOME": "/nonexistent"}
    if good:
        assert load({}, environ)[table.SLACK_WEBHOOK_FROM] == place
    else:
        with pytest.raises(SettingsError, match="use for example ssm:/lastbeat/slack-webhook"):
            load({}, environ)
