"""The infrastructure as CloudFormation gets it: what there is, who watches it, what may be done."""

import json
import subprocess
import sys
from typing import Any

import pytest

from support.row_by_row import labelled
from support.template import STACK, TEMPLATE, Stack, permissions, source, transformed


@pytest.fixture(scope="module")
def stack() -> Stack:
    return Stack(transformed(Bucket="runs"), {"Bucket": "runs"}, {})


def test_cfn_lint_finds_nothing() -> None:
    lint = (sys.executable, "-W", "ignore", "-c", "from cfnlint.runner import main; main()")
    command = [*lint, "--format", "json", str(TEMPLATE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (json.loads(done.stdout or "[]"), done.returncode) == ([], 0), done.stderr


def test_every_parameter_says_what_it_is_and_is_used() -> None:
    template = source()
    used = json.dumps({key: template[key] for key in ("Resources", "Conditions")})
    grouped = [
        name
        for group in template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
        for name in group["Parameters"]
    ]
    assert sorted(grouped) == sorted(template["Parameters"])
    for name, parameter in template["Parameters"].items():
        assert parameter["Description"].endswith("."), name
        assert f'"{name}"' in used or f"${{{name}}}" in used, name
    hidden = {name for name, parameter in template["Parameters"].items() if parameter.get("NoEcho")}
    assert hidden == {
        "SlackWebhookUrl", "SlackBotToken", "SlackSigningSecret", "PagerDutyKey", "PingUrl",
        "PageToken", "PageOperateToken",
    }  # fmt: skip


INTERVALS = [("1", "rate(1 minute)", 60), ("10", "rate(10 minutes)", 600)]


@pytest.mark.parametrize(("minutes", "rate", "seconds"), INTERVALS)
def test_the_schedule_and_all_that_goes_by_it(stack: Stack, minutes: str, rate: str, seconds: int) -> None:
    chosen = Stack(stack.template, {"Bucket": "runs", "IntervalMinutes": minutes}, {})
    (schedule,) = chosen.of_type("AWS::Scheduler::Schedule").values()
    assert schedule["ScheduleExpression"] == rate
    assert schedule["Target"]["Arn"] == "<Watchdog.Arn>"
    assert schedule["Target"]["DeadLetterConfig"] == {"Arn": "<LostEvents.Arn>"}
    variables = chosen.of_type("AWS::Lambda::Function")["Watchdog"]["Environment"]["Variables"]
    assert variables["LASTBEAT_INTERVAL_SECONDS"] == seconds
    silence = chosen.of_type("AWS::CloudWatch::Alarm")["SilenceAlarm"]
    assert (silence["Period"], silence["EvaluationPeriods"]) == (seconds, 3)


def test_our_own_silence_is_an_alarm(stack: Stack) -> None:
    silence = stack.of_type("AWS::CloudWatch::Alarm")["SilenceAlarm"]
    assert silence["TreatMissingData"] == "breaching"
    compared = (silence["Statistic"], silence["ComparisonOperator"], silence["Threshold"])
    assert compared == ("Sum", "LessThanThreshold", 1)
    assert (silence["Namespace"], silence["MetricName"]) == ("lastbeat", "PassesThatCouldSee")
    assert silence["Dimensions"] == [{"Name": "service", "Value": STACK}]


BOT = "xoxb-1234567890"
SECRET = "8f742231b10e8888abcd99baac85a5aa"
BOTS = [
    ("a bot and the app's secret", {"SlackBotToken": BOT, "SlackSigningSecret": SECRET}, f"{BOT} {SECRET}"),
    ("a bot alone", {"SlackBotToken": BOT}, BOT),
    ("a secret whose bot was taken away", {"SlackSigningSecret": SECRET}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("given", "told"), [row[1:] for row in BOTS], ids=[row[0] for row in BOTS])
def test_the_watchdog_gets_no_secret_without_a_bot(stack: Stack, given: dict[str, str], told: str) -> None:
    chosen = Stack(stack.template, {"Bucket": "runs", "PageOperateToken": "y" * 20, **given}, {})
    variables = chosen.of_type("AWS::Lambda::Function")["Watchdog"]["Environment"]["Variables"]
    assert variables["SLACK_BOT_TOKEN"] == told


DEPTH = "ApproximateNumberOfMessagesVisible"
ALARMS = {
    "ErrorsAlarm": ("AWS/Lambda", "Errors", {"Name": "FunctionName", "Value": "<Watchdog>"}),
    "ThrottlesAlarm": ("AWS/Lambda", "Throttles", {"Name": "FunctionName", "Value": "<Watchdog>"}),
    "LostWorkAlarm": ("AWS/SQS", DEPTH, {"Name": "QueueName", "Value": "<LostWork.QueueName>"}),
    "LostEventsAlarm": ("AWS/SQS", DEPTH, {"Name": "QueueName", "Value": "<LostEvents.QueueName>"}),
    "FailedAlertsAlarm": ("lastbeat", "AlertsFailed", {"Name": "service", "Value": STACK}),
}  # fmt: skip


def test_whatever_goes_wrong_is_an_alarm_that_people_get(stack: Stack) -> None:
    alarms = stack.of_type("AWS::CloudWatch::Alarm")
    assert set(alarms) == {"SilenceAlarm", *ALARMS}
    for name, (namespace, metric, dimension) in ALARMS.items():
        alarm = alarms[name]
        assert (alarm["Namespace"], alarm["MetricName"], alarm["Dimensions"]) == (namespace, metric, [dimension]), name
        assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (1, "GreaterThanOrEqualToThreshold"), name
        assert alarm["TreatMissingData"] == "notBreaching", name
    for name, alarm in alarms.items():
        assert alarm["AlarmActions"] == ["<Alerts>"], name
        assert alarm["AlarmDescription"].endswith("."), name


def test_the_metrics_are_those_that_the_function_writes(stack: Stack) -> None:
    variables = stack.of_type("AWS::Lambda::Function")["Watchdog"]["Environment"]["Variables"]
    assert variables["POWERTOOLS_SERVICE_NAME"] == STACK
    (dashboard,) = stack.of_type("AWS::CloudWatch::Dashboard").values()
    body = json.loads(dashboard["DashboardBody"])
    shown = {
        name for widget in body["widgets"] for line in widget["properties"].get("metrics", []) for name in line[1:2]
    }
    assert shown >= {
        "RunsActive", "RunsUnreadable", "Transitions", "AlertsSent", "AlertsFailed", "AlertsPending",
        "PassesThatCouldSee", "StoreRequests", "SweepSeconds",
    }  # fmt: skip


def test_a_sentinel_calls_the_function(stack: Stack) -> None:
    (rule,) = stack.of_type("AWS::Events::Rule").values()
    assert rule["EventPattern"] == {
        "source": ["aws.s3"],
        "detail-type": ["Object Created"],
        "detail": {
            "bucket": {"name": ["runs"]},
            "object": {
                "key": [
                    {"wildcard": "training-runs/*/_error"},
                    {"wildcard": "training-runs/*/_complete"},
                    {"wildcard": "training-runs/*/_preempted"},
                ]
            },
        },
    }
    (target,) = rule["Targets"]
    assert (target["Arn"], target["DeadLetterConfig"]) == ("<Watchdog.Arn>", {"Arn": "<LostEvents.Arn>"})


def test_nothing_that_is_on_its_way_gets_lost(stack: Stack) -> None:
    queues = stack.of_type("AWS::SQS::Queue")
    assert queues["Work"]["RedrivePolicy"] == {"deadLetterTargetArn": "<LostWork.Arn>", "maxReceiveCount": 3}
    function = stack.of_type("AWS::Lambda::Function")["Watchdog"]
    assert queues["Work"]["VisibilityTimeout"] >= 6 * function["Timeout"]
    (mapping,) = stack.of_type("AWS::Lambda::EventSourceMapping").values()
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    (invoked,) = stack.of_type("AWS::Lambda::EventInvokeConfig").values()
    assert invoked["DestinationConfig"]["OnFailure"]["Destination"] == "<LostEvents.Arn>"


def test_topic_and_queues_are_encrypted_and_alarms_may_use_the_topic(stack: Stack) -> None:
    assert all(queue["SqsManagedSseEnabled"] is True for queue in stack.of_type("AWS::SQS::Queue").values())
    (topic,) = stack.of_type("AWS::SNS::Topic").values()
    assert topic["KmsMasterKeyId"] == "<AlertsKey.Arn>"
    (key,) = stack.of_type("AWS::KMS::Key").values()
    allowed = [
        each for each in key["KeyPolicy"]["Statement"] if each["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    ]
    assert [each["Action"] for each in allowed] == [["kms:Decrypt", "kms:GenerateDataKey*"]]
    for policy in (*stack.of_type("AWS::SQS::QueuePolicy").values(), *stack.of_type("AWS::SNS::TopicPolicy").values()):
        denied = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Deny"]
        assert [each["Condition"] for each in denied] == [{"Bool": {"aws:SecureTransport": "false"}}]


@pytest.mark.parametrize("architecture", ["arm64", "x86_64"])
def test_the_function_as_it_is_made(stack: Stack, architecture: str) -> None:
    chosen = Stack(stack.template, {"Bucket": "runs", "Architecture": architecture}, {})
    function = chosen.of_type("AWS::Lambda::Function")["Watchdog"]
    assert function["Architectures"] == [architecture]
    assert function["Handler"] == "handler.handler"
    assert source()["Resources"]["Watchdog"]["Properties"]["CodeUri"] == "../build/lambda.zip"
    assert function["LoggingConfig"] == {"LogGroup": "<WatchdogLog>"}
    (log,) = chosen.of_type("AWS::Logs::LogGroup").values()
    assert log["RetentionInDays"] == "30"


WEBHOOKS: list[tuple[str, dict[str, str], str, set[str]]] = [
    ("nowhere", {}, "", set()),
    ("Parameter Store", {"SlackWebhookParameter": "/lastbeat/slack"}, "ssm:/lastbeat/slack", {"ssm:GetParameter"}),
    ("Secrets Manager", {"SlackWebhookSecret": "slack"}, "secretsmanager:slack", {"secretsmanager:GetSecretValue"}),
]


@pytest.mark.parametrize(("given", "place", "actions"), labelled(WEBHOOKS))
def test_the_webhook_may_be_read_where_it_lies_and_nowhere_else(
    stack: Stack, given: dict[str, str], place: str, actions: set[str]
) -> None:
    chosen = Stack(stack.template, {"Bucket": "runs", **given}, {})
    variables = chosen.of_type("AWS::Lambda::Function")["Watchdog"]["Environment"]["Variables"]
    assert variables["LASTBEAT_SLACK_WEBHOOK_FROM"] == place
    assert variables["SLACK_WEBHOOK_URL"] == ""
    allowed = list(permissions(chosen.policies()))
    found = {each.action: each.resource for each in allowed if each.action.startswith(("ssm:", "secretsmanager:"))}
    assert set(found) == actions
    assert all("slack" in resource for resource in found.values())


def test_mail_is_sent_only_to_who_is_named(stack: Stack) -> None:
    assert stack.of_type("AWS::SNS::Subscription") == {}
    named = Stack(stack.template, {"Bucket": "runs", "AlertEmail": "team@example.com"}, {})
    (subscription,) = named.of_type("AWS::SNS::Subscription").values()
    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "team@example.com")


def test_nothing_may_be_done_to_everything(stack: Stack) -> None:
    roles: dict[str, Any] = stack.of_type("AWS::IAM::Role")
    for role in roles.values():
        assert "ManagedPolicyArns" not in role
        for allowed in permissions(role["Policies"]):
            assert "*" not in allowed.action
            assert allowed.resource != "*"
            if allowed.resource.startswith("arn:aws:s3:::") and allowed.action != "s3:ListBucket":
                assert allowed.resource.startswith("arn:aws:s3:::runs/training-runs/")
