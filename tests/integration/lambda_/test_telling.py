"""What the function writes: logs that name the run, metrics, and no secret in either."""

import base64
import uuid
from typing import Any

import boto3

from integration.lambda_.conftest import SCHEDULE, Deployed
from support.http_sink import closed_port
from support.s3 import ACCESS_KEY, REGION, SECRET_KEY

TOKEN = "XyZ0123456789abcdefSECRET"  # made up, as everything that looks like a secret here


def lines(documents: list[dict[str, Any]], run_id: str) -> list[str]:
    return [each["message"] for each in documents if each.get("run_id") == run_id]


def values(documents: list[dict[str, Any]], name: str) -> list[float]:
    return [value for each in documents for value in each.get(name, [])]


def test_each_line_about_a_run_names_it_and_each_metric_is_there(deployed: Deployed) -> None:
    deployed.beat("lives")
    deployed.put("fails", "_error", "ValueError: boom")
    running = deployed.start(POWERTOOLS_SERVICE_NAME="my-stack")
    answer = running.invoke(SCHEDULE)
    documents = running.documents()
    assert lines(documents, "fails") == ["FAILED: ValueError: boom"]
    assert len(lines(documents, "lives")) == 1
    for name, value in {
        "RunsActive": 1,
        "RunsUnreadable": 0,
        "AlertsSent": 1,
        "AlertsFailed": 0,
        "AlertsPending": 0,
        "PassesThatCouldSee": 1,
        "StoreRequests": sum(answer["requests"].values()),
        "SweepSeconds": answer["seconds"],
    }.items():
        assert [round(each, 3) for each in values(documents, name)] == [value], name
    transitions = {each["status"]: each["Transitions"] for each in documents if "Transitions" in each}
    assert transitions == {"RUNNING": [1.0], "FAILED": [1.0]}
    for each in documents:
        for metrics in each.get("_aws", {}).get("CloudWatchMetrics", []):
            assert metrics["Namespace"] == "lastbeat"
            assert metrics["Dimensions"] in ([["service"]], [["service", "status"]])
            assert each["service"] == "my-stack"


def test_a_webhook_from_elsewhere_is_read_and_never_shown(deployed: Deployed) -> None:
    # Nobody listens there, so that the failure would be a chance to tell the address.
    address = f"https://127.0.0.1:{closed_port()}/services/T0/B0/{TOKEN}"
    name = f"webhook-{uuid.uuid4().hex[:8]}"
    session = boto3.Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, region_name=REGION)
    session.client("ssm", endpoint_url=deployed.server.url).put_parameter(
        Name=f"/{name}", Value=address, Type="SecureString"
    )
    session.client("secretsmanager", endpoint_url=deployed.server.url).create_secret(
        Name=name, SecretString=f'{{"url": "{address}"}}'
    )
    deployed.put("fails", "_error", f"ValueError: could not post to {address}")
    for number, place in enumerate((f"ssm:/{name}", f"secretsmanager:{name}")):
        running = deployed.start(
            LASTBEAT_SLACK_WEBHOOK_FROM=place, LASTBEAT_STATE_DIR=str(deployed.scratch / f"state-{number}")
        )
        answer = running.invoke(SCHEDULE)
        if number == 0:
            # The topic had it, and Slack was tried.
            assert answer["alerts"] == {"sent": 1, "failed": 1, "pending": 1}
        shown = str(answer) + running.log() + str(deployed.topic.received()) + str(deployed.record("fails"))
        assert "fails" in shown
        for secret in (TOKEN, address, base64.b64encode(TOKEN.encode()).decode()):
            assert secret not in shown


def test_a_secret_that_is_not_there_is_an_error_because_nobody_would_be_told(deployed: Deployed) -> None:
    running = deployed.start(LASTBEAT_SLACK_WEBHOOK_FROM="ssm:/no/such/parameter")
    answer = running.invoke(SCHEDULE)
    assert answer["errorType"] == "SecretError"
    assert "ParameterNotFound" in answer["errorMessage"]
    assert "/no/such/parameter" in answer["errorMessage"]
