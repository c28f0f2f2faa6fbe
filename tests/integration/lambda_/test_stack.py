"""The transformed template, created: by moto, which says that all is well even for what it skips. So each resource
that it can make is asked for on its own; the others are held by the template's tests."""

import io
import json
import uuid
import zipfile
from typing import Any

import boto3

from support.s3 import ACCESS_KEY, REGION, SECRET_KEY, S3Server
from support.template import transformed


def client(server: S3Server, service: str) -> Any:
    session: Any = boto3.Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, region_name=REGION)
    return session.client(service, endpoint_url=server.url)


def test_what_can_be_made_here_is_made(s3_server: S3Server) -> None:
    s3 = client(s3_server, "s3")
    s3.create_bucket(Bucket="deployments")
    s3.put_object(Bucket="deployments", Key="lambda.zip", Body=_empty_zip())
    template, stack = transformed(Bucket="runs"), f"watchdog-{uuid.uuid4().hex[:8]}"
    formation = client(s3_server, "cloudformation")
    formation.create_stack(
        StackName=stack,
        TemplateBody=json.dumps(template),
        Parameters=[{"ParameterKey": "Bucket", "ParameterValue": "runs"}],
        Capabilities=["CAPABILITY_IAM"],
    )
    made = {
        each["LogicalResourceId"]: each["PhysicalResourceId"]
        for each in formation.describe_stack_resources(StackName=stack)["StackResources"]
        if each.get("LogicalResourceId") and each.get("PhysicalResourceId")
    }
    sqs, sns = client(s3_server, "sqs"), client(s3_server, "sns")
    for name in ("Work", "LostWork", "LostEvents"):
        queue = sqs.get_queue_attributes(QueueUrl=made[name], AttributeNames=["All"])["Attributes"]
        assert queue["SqsManagedSseEnabled"].lower() == "true", name
        assert ("RedrivePolicy" in queue) == (name == "Work")
    topic = sns.get_topic_attributes(TopicArn=made["Alerts"])["Attributes"]
    assert topic["KmsMasterKeyId"]
    function = client(s3_server, "lambda").get_function_configuration(FunctionName=made["Watchdog"])
    assert function["Environment"]["Variables"]["SNS_TOPIC_ARN"] == made["Alerts"]
    assert function["Environment"]["Variables"]["LASTBEAT_QUEUE_URL"] == made["Work"]
    rules = client(s3_server, "events").list_rules()["Rules"]
    assert any("_error" in rule.get("EventPattern", "") for rule in rules)
    groups = client(s3_server, "logs").describe_log_groups(logGroupNamePrefix=f"/aws/lambda/{stack}")["logGroups"]
    assert [group["retentionInDays"] for group in groups] == [30]
    iam = client(s3_server, "iam")
    assert set(iam.list_role_policies(RoleName=made["WatchdogRole"])["PolicyNames"]) == {"watch", "run"}


def _empty_zip() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("handler.py", "def handler(event, context): ...\n")
    return held.getvalue()
