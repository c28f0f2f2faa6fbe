"""A channel's settings: what is taken, and what a person is told about what is not."""

import re

import pytest

from lastbeat.alerts.registry import module


def parse(channel: str, name: str, text: str) -> object:
    setting = next(each for each in module(channel).SETTINGS if each.name == name)
    return setting.read(text)


@pytest.mark.parametrize(
    ("channel", "name", "text"),
    [
        pytest.param("slack", "SLACK_WEBHOOK_URL", "https://hooks.slack.com/services/T0/B0/xyz", id="Slack itself"),
        pytest.param(
            "slack", "SLACK_WEBHOOK_URL", "https://chat.example.com/hooks/abc", id="a server that imitates it"
        ),
        pytest.param("slack", "SLACK_WEBHOOK_URL", "http://127.0.0.1:8080/services/T/B/X", id="http on this machine"),
        pytest.param("slack", "SLACK_WEBHOOK_URL", "http://[::1]:8080/hook", id="http on this machine by IPv6"),
        pytest.param("slack", "SLACK_WEBHOOK_URL", "http://localhost/hook", id="http on this machine by name"),
        pytest.param(
            "webhook", "LASTBEAT_WEBHOOK_URL", "http://alerts.internal:9000/x?y=1", id="http inside a network"
        ),
        pytest.param("sns", "SNS_TOPIC_ARN", "arn:aws:sns:us-east-1:123456789012:alerts", id="a topic"),
        pytest.param("sns", "SNS_TOPIC_ARN", "arn:aws-cn:sns:cn-north-1:123456789012:a-b_c", id="a topic in China"),
        pytest.param(
            "sns", "SNS_TOPIC_ARN", "arn:aws-us-gov:sns:us-gov-west-1:123456789012:a", id="one of a government"
        ),
        pytest.param("sns", "SNS_TOPIC_ARN", "arn:aws:sns:eu-west-1:123456789012:alerts.fifo", id="a FIFO topic"),
    ],
)
def test_taken(channel: str, name: str, text: str) -> None:
    assert parse(channel, name, f" {text} ") == text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("hooks.slack.com/services/T/B/Xsecret", "is not an https address", id="no scheme"),
        pytest.param("ftp://hooks.slack.com/services/T/B/Xsecret", "is not an https address", id="another scheme"),
        pytest.param("http://hooks.slack.com/services/T/B/Xsecret", "is an http address", id="not encrypted"),
        pytest.param("http://127.0.0.1.evil.example/Xsecret", "is an http address", id="almost this machine"),
        pytest.param("https:///services/T/B/Xsecret", "names no host", id="no host"),
        pytest.param("https://hooks..slack.com/Xsecret", "names no host", id="an empty label"),
        pytest.param(f"https://{'a' * 64}.com/Xsecret", "names no host", id="a label that DNS has no room for"),
        pytest.param("https://x:99999/Xsecret", "is not a web address", id="a port that does not exist"),
        pytest.param("https://[Xsecret", "is not a web address", id="a bracket left open"),
        pytest.param("https://hooks.slack.com/services/T/B/X secret", "contains a space", id="a space inside"),
        pytest.param("https://hooks.slack.com/services/T\n/Xsecret", "contains a space", id="a newline inside"),
        pytest.param("https://hooks.slack.com/services/T/Xsecreté", "contains a space", id="not ASCII"),
        pytest.param("'https://hooks.slack.com/services/T/B/Xsecret'", "begins with a quote", id="in quotes"),
        pytest.param("https://hooks.slack.com/" + "Xsecret" * 400, "has 2824 characters", id="far too long"),
        pytest.param("https://hooks.slack.com/workflows/Xsecret", "is not the address of an Incoming", id="a workflow"),
        pytest.param("https://hooks.slack.com", "is not the address of an Incoming", id="no path"),
    ],
)
def test_a_malformed_slack_address_is_told_without_being_shown(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^SLACK_WEBHOOK_URL {fault}") as caught:
        parse("slack", "SLACK_WEBHOOK_URL", text)
    assert "https://hooks.slack.com/services/T00000000/" in str(caught.value)
    assert "Xsecret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("alerts", id="a name alone"),
        pytest.param("arn:aws:sqs:us-east-1:123456789012:alerts", id="another service"),
        pytest.param("arn:aws:sns:us-east-1:12345:alerts", id="an account with too few digits"),
        pytest.param("arn:aws:sns:us-east-1:123456789012:alerts:sub-id", id="a subscription"),
        pytest.param("arn:aws:sns:us-east-1:123456789012:", id="no name"),
        pytest.param("arn:aws:sns:us-east-1:١٢٣٤٥٦٧٨٩٠١٢:alerts", id="digits of another script"),
        pytest.param("arn:aws:sns:us-east-1:123456789012:alerts\nX", id="a second line"),
    ],
)
def test_a_malformed_arn_is_told_with_an_example(text: str) -> None:
    fault = (
        f"SNS_TOPIC_ARN={text!r} is not the ARN of an SNS topic; use for example arn:aws:sns:us-east-1:123456789012:"
    )
    with pytest.raises(ValueError, match=re.escape(fault)):
        parse("sns", "SNS_TOPIC_ARN", text)
