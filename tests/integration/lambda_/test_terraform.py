"""The Terraform module beside the SAM template: the same rights, alarms, queues and settings."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from lastbeat import settings
from support.checkout import ROOT
from support.template import ACCOUNT, REGION, STACK, Permission, Stack, permissions, transformed

MODULE = ROOT / "infra" / "terraform"
GIVEN = {"Bucket": "runs", "Prefix": "training-runs", "KeyArns": "arn:aws:kms:us-east-1:1:key/a"}
VALUES = {
    "var.name": STACK,
    "var.bucket": "runs",
    "var.prefix": "training-runs",
    "var.slack_webhook_parameter": "/slack",
    "var.slack_webhook_secret": "slack",
    "var.key_arns": GIVEN["KeyArns"],
    "local.partition": "aws",
    "local.account": ACCOUNT,
    "local.region": REGION,
    "local.runs": "arn:aws:s3:::runs/training-runs",
    # What each is in the template.
    "aws_sns_topic.alerts.arn": "<Alerts>",
    "aws_kms_key.alerts.arn": "<AlertsKey.Arn>",
    "aws_sqs_queue.work.arn": "<Work.Arn>",
    "aws_sqs_queue.lost_events.arn": "<LostEvents.Arn>",
}
LOGS = {
    "${aws_cloudwatch_log_group.watchdog.arn}:*": "<WatchdogLog.Arn>",
    "${aws_cloudwatch_log_group.page[0].arn}:*": "<PageLog.Arn>",
}
"""CloudFormation's attribute ends in an asterisk, Terraform's does not."""


@pytest.fixture(scope="module")
def module() -> dict[str, dict[str, Any]]:
    """Kind of block → name → its values. A kind of resource or data is a kind of its own."""
    hcl2 = pytest.importorskip("hcl2", reason="python-hcl2 is not installed; the group dev has it")
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(MODULE.glob("*.tf")):
        parsed = plain(hcl2.loads(path.read_text(encoding="utf-8")))
        for blocks in parsed.pop("resource", []), parsed.pop("data", []):
            for block in blocks:
                for kind, named in block.items():
                    found.setdefault(kind, {}).update(named)
        for kind in ("variable", "locals"):
            for block in parsed.get(kind, []):
                found.setdefault(kind, {}).update(block)
    return found


def plain(value: Any) -> Any:
    """As parsed, without the quotes around texts and what the parser notes."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key.strip('"'): plain(each) for key, each in value.items() if not key.startswith("__")}
    return value.strip('"') if isinstance(value, str) else value


def resolved(text: str) -> str:
    return re.sub(r"\$\{([\w.]+)\}", lambda found: VALUES[found[1]], LOGS.get(text, text))


def allowed(document: dict[str, Any]) -> Iterator[Permission]:
    optional = [content for each in document["dynamic"] for content in each["statement"]["content"]]
    for statement in [*document["statement"], *optional]:
        assert statement.get("effect", "Allow") == "Allow"
        prefixes: tuple[str, ...] = ()
        for condition in statement.get("condition", []):
            assert (condition["test"], condition["variable"]) == ("StringLikeIfExists", "s3:prefix")
            prefixes = tuple(map(resolved, condition["values"]))
        resources = statement["resources"]
        for resource in resources if isinstance(resources, list) else [resources]:
            yield from (Permission(action, resolved(resource), prefixes) for action in statement["actions"])


def test_its_role_may_do_what_the_templates_may_and_no_more(module: dict[str, dict[str, Any]]) -> None:
    template = transformed(**GIVEN)
    ours: set[Permission] = set()
    for given in ({"SlackWebhookParameter": "/slack"}, {"SlackWebhookSecret": "slack"}):
        ours |= set(permissions(Stack(template, GIVEN | given, {}).policies()))
    theirs = set(allowed(module["aws_iam_policy_document"]["watchdog"]))
    assert len(ours) > 20
    assert theirs == ours
    assert set(module["aws_iam_role_policy"]) == {"watchdog", "page", "page_act"}


def test_the_pages_role_may_do_what_the_templates_may_and_both_exist_with_a_token_alone(
    module: dict[str, dict[str, Any]],
) -> None:
    documents = module["aws_iam_policy_document"]
    views, acts = set(allowed(documents["page"])), set(allowed(documents["page_act"]))
    for tokens, theirs in (
        ({"PageToken": "x" * 20}, views),
        ({"PageOperateToken": "y" * 20}, views | acts),
        ({"PageToken": "x" * 20, "PageOperateToken": "y" * 20}, views | acts),
    ):
        given = GIVEN | tokens
        stack = Stack(transformed(**given), given, {})
        assert set(permissions(stack.policies("PageRole"))) == theirs
    assert {each.action for each in views} >= {"s3:GetObject", "s3:ListBucket"}
    assert {each.action for each in acts} == {"s3:PutObject", "kms:GenerateDataKey"}
    everything = [each for kind, named in module.items() if kind.startswith("aws_") for each in named.items()]
    of_page = {name: each for name, each in everything if name.startswith("page")}
    counts = {name: each["count"] for name, each in of_page.items()}
    assert counts.pop("page_act") == "${local.act}"
    assert set(counts.values()) == {"${local.page}"}
    calls = stack.of_type("AWS::Lambda::Permission").values()
    ours = {each["Action"] for each in calls if each["Principal"] == "*"}
    assert {each["action"] for each in module["aws_lambda_permission"].values() if each["principal"] == "*"} == ours
    assert ours == {"lambda:InvokeFunctionUrl", "lambda:InvokeFunction"}
    # Without the condition anybody with an account of AWS could call the function.
    assert module["aws_lambda_permission"]["page_call"]["invoked_via_function_url"] is True


def test_its_alarms_are_the_templates(module: dict[str, dict[str, Any]]) -> None:
    stack = Stack(transformed(Bucket="runs"), {"Bucket": "runs"}, {})
    alarms = stack.of_type("AWS::CloudWatch::Alarm")
    silence = module["aws_cloudwatch_metric_alarm"]["silence"]
    text = json.dumps(module["locals"]["alarms"]) + json.dumps({"SilenceAlarm": silence})
    for name, alarm in alarms.items():
        for part in (name, alarm["AlarmDescription"]):
            assert part in text, name
    named = {alarm["MetricName"] for alarm in alarms.values()}
    held = [each for each in named if each in text + module["locals"]["depth"]]
    assert sorted(held) == sorted(named)


def test_it_has_the_templates_queues_and_limits(module: dict[str, dict[str, Any]]) -> None:
    stack = Stack(transformed(Bucket="runs"), {"Bucket": "runs"}, {})
    ours = {
        (each["MessageRetentionPeriod"], each.get("VisibilityTimeout"))
        for each in stack.of_type("AWS::SQS::Queue").values()
    }
    theirs = module["aws_sqs_queue"]
    assert len(theirs) == len(stack.of_type("AWS::SQS::Queue"))
    assert {
        (each["message_retention_seconds"], each.get("visibility_timeout_seconds")) for each in theirs.values()
    } == ours
    function = stack.of_type("AWS::Lambda::Function")["Watchdog"]
    made = module["aws_lambda_function"]["watchdog"]
    assert (made["timeout"], made["handler"]) == (function["Timeout"], function["Handler"])


def test_every_variable_is_declared_described_and_used(module: dict[str, dict[str, Any]]) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in MODULE.glob("*.tf"))
    assert set(re.findall(r"\bvar\.(\w+)", text)) == set(module["variable"])
    assert all(each["description"].endswith(".") for each in module["variable"].values())


def test_every_setting_is_one(module: dict[str, dict[str, Any]]) -> None:
    text = (MODULE / "main.tf").read_text(encoding="utf-8")
    named = set(re.findall(r"^ +([A-Z][A-Z_]+) += ", text, re.MULTILINE)) - {"POWERTOOLS_SERVICE_NAME"}
    assert len(named) > 8
    function = set(
        Stack(transformed(Bucket="runs"), {"Bucket": "runs"}, {}).of_type("AWS::Lambda::Function")["Watchdog"][
            "Environment"
        ]["Variables"]
    )
    assert named <= {each.name for each in settings.every_setting()} | function


def test_terraform_would_write_it_so() -> None:
    terraform = shutil.which("terraform")
    if terraform is None:
        pytest.skip("terraform is not installed")
    done = subprocess.run(
        [terraform, "fmt", "-check", "-diff", str(MODULE)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("", 0)
