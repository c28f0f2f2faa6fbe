"""What the function asks of AWS while every kind of event comes, against what its role allows: none missing, none
unused."""

import json
import uuid
from collections.abc import Iterator

import boto3
import pytest

from integration.lambda_.conftest import PREFIX, SCHEDULE, Deployed, message, object_created
from support.recorder import Recorder, run_recorder
from support.s3 import ACCESS_KEY, REGION, SECRET_KEY
from support.template import Call, Permission, Stack, permissions, transformed


@pytest.fixture
def recorder(deployed: Deployed) -> Iterator[Recorder]:
    with run_recorder(deployed.server.url) as recording:
        deployed.variables["AWS_ENDPOINT_URL"] = recording.url
        yield recording


def everything(deployed: Deployed, webhook: str) -> None:
    """Runs of every kind, and every kind of event."""
    beat = '{"step": 5, "total_steps": 10}'
    for name in ("lives", "other", "fails", "ends", "named"):
        deployed.beat(name)
        deployed.put(name, "progress.json", beat)
        deployed.put(name, "logs/training_log_latest.txt", "epoch 1\nTraceback (most recent call last):\n")
    address = f"https://127.0.0.1:9/services/T0/B0/{uuid.uuid4().hex}"
    session = boto3.Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, region_name=REGION)
    session.client("ssm", endpoint_url=deployed.server.url).put_parameter(
        Name=f"/{webhook}", Value=address, Type="SecureString"
    )
    session.client("secretsmanager", endpoint_url=deployed.server.url).create_secret(Name=webhook, SecretString=address)
    running = deployed.start(LASTBEAT_SWEEP="fanout:1")
    running.invoke(SCHEDULE)
    deployed.put("lives", "_alerts.json", json.dumps({"alerts": [{"id": "1", "title": "loss is high"}]}))
    deployed.put("fails", "_stop", json.dumps({"by": "alice", "at": "2026-01-01T00:00:00Z"}))
    deployed.put("fails", "_error", "ValueError: boom")
    deployed.put("fails", "ranks/0.json", '{"rank": 0, "step": 5}')
    deployed.put("ends", "_complete")
    deployed.put("leaves", "_preempted", '{"step": 5}')
    running.invoke(SCHEDULE)
    deployed.start(LASTBEAT_PAGE_MINUTES="5").invoke(SCHEDULE)
    for each in deployed.messages():
        running.invoke({"Records": [each]})
    running.invoke(object_created(deployed.bucket, f"{PREFIX}/fails/_error"))
    running.invoke({"Records": [message("1", {"run_id": "named"})]})
    other = deployed.start(LASTBEAT_SWEEP="fanout:1000", LASTBEAT_SLACK_WEBHOOK_FROM=f"ssm:/{webhook}")
    other.invoke({"run_id": "lives"})
    deployed.put("other", "_complete")
    for _ in range(2):
        other.invoke(SCHEDULE)
    deployed.start(LASTBEAT_SLACK_WEBHOOK_FROM=f"secretsmanager:{webhook}").invoke({"run_id": "lives"})


def allowed(deployed: Deployed, webhook: str) -> list[Permission]:
    """What the role allows; not what Lambda does in the function's name (the policy called ``run``), and not the
    key, which SNS uses when something is published."""
    given = {"Bucket": deployed.bucket, "Prefix": PREFIX}
    attributes = {
        ("Alerts", "Ref"): deployed.topic.arn,
        ("Work", "Arn"): f"arn:aws:sqs:us-east-1:123456789012:{deployed.queue_url.rpartition('/')[2]}",
    }
    template = transformed(**given)
    found: dict[Permission, None] = {}
    for name in ("SlackWebhookParameter", "SlackWebhookSecret"):
        where = f"/{webhook}" if name == "SlackWebhookParameter" else webhook
        stack = Stack(template, {**given, name: where}, attributes)
        found |= dict.fromkeys(permissions([each for each in stack.policies() if each["PolicyName"] != "run"]))
    return [each for each in found if each.resource != "<AlertsKey.Arn>"]


def test_the_role_allows_what_is_asked_for_and_nothing_else(deployed: Deployed, recorder: Recorder) -> None:
    webhook = f"webhook-{uuid.uuid4().hex[:8]}"
    everything(deployed, webhook)
    role, calls = allowed(deployed, webhook), set(recorder.calls)
    missing = sorted(str(call) for call in calls if not any(permission.allows(call) for permission in role))
    unused = sorted(str(permission) for permission in role if not any(permission.allows(call) for call in calls))
    assert (missing, unused) == ([], [])


def test_what_else_lies_in_the_bucket_is_out_of_reach(deployed: Deployed) -> None:
    top = f"arn:aws:s3:::{deployed.bucket}"
    role = allowed(deployed, "webhook")
    for call in (
        Call("s3:PutObject", f"{top}/{PREFIX}/run-1/metadata.json"),
        Call("s3:PutObject", f"{top}/{PREFIX}/run-1/_error"),
        Call("s3:PutObject", f"{top}/{PREFIX}/run-1/checkpoints/model.bin"),
        Call("s3:GetObject", f"{top}/{PREFIX}/run-1/checkpoints/model.bin"),
        Call("s3:GetObject", f"{top}/other/run-1/metadata.json"),
        Call("s3:DeleteObject", f"{top}/{PREFIX}/run-1/_watchdog.json"),
        Call("s3:ListBucket", top, ""),
        Call("s3:ListBucket", top, "other/"),
        Call("sns:Publish", "arn:aws:sns:us-east-1:123456789012:others"),
    ):
        assert not any(permission.allows(call) for permission in role), call
