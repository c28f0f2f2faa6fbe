"""The page at the function's own address: the very zip, in AWS's own client, with payloads 2.0 as Lambda hands them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from integration.lambda_.conftest import PREFIX, SCHEDULE, Deployed
from support.doors import CHANNEL, ENVIRON, OPERATE, PAGE, pressed, slack_request
from support.lambda_runtime import Environment
from support.recorder import Recorder, run_recorder
from support.template import Call, Permission, Stack, permissions, transformed
from support.web_events import content, document, web

TOKEN = "a-token-of-some-length"


@pytest.fixture
def recorder(deployed: Deployed) -> Iterator[Recorder]:
    """What the page's function asks for; the watchdog's goes past it."""
    with run_recorder(deployed.server.url) as recording:
        yield recording


def watched(deployed: Deployed) -> None:
    """Runs of which the page shows something of every kind, and a pass over them."""
    for name in ("lives", "fails", "ends"):
        deployed.beat(name)
        deployed.put(name, "progress.json", '{"step": 5, "total_steps": 10, "loss": 2.5}')
    deployed.put("lives", "_alerts.json", json.dumps({"alerts": [{"id": "1", "title": "loss is high"}]}))
    deployed.put("lives", "ranks/0.json", '{"rank": 0, "step": 5}')
    deployed.put("lives", "curves/1.json", '{"curves": {"loss": {"columns": ["step"], "points": []}}}')
    deployed.put("lives", "_stop", json.dumps({"by": "alice", "at": "2026-01-01T00:00:00Z"}))
    deployed.put("fails", "logs/training_log_latest.txt", "epoch 1\nValueError: boom\n")
    deployed.put("fails", "_error", "ValueError: boom")
    deployed.put("ends", "_complete")
    deployed.put("leaves", "_preempted", '{"step": 5}')
    deployed.put("beats", "metadata.json", json.dumps({"run_id": "beats", "stop_seconds": 30}))
    deployed.start().invoke(SCHEDULE)


def address(deployed: Deployed, **more: str) -> Environment:
    return deployed.start(LASTBEAT_DASHBOARD_TOKEN=TOKEN, **more)


def test_a_team_looks_at_its_runs_without_a_server(deployed: Deployed) -> None:
    watched(deployed)
    running = address(deployed)
    closed = running.invoke(web("/data/fleet"))
    assert (closed["statusCode"], "lives" in content(closed)) == (401, False)
    (given,) = running.invoke(web("/", f"token={TOKEN}"))["cookies"]
    cookie = given.partition(";")[0]
    assert "App.start();" in content(running.invoke(web("/", cookie=cookie)))
    fleet = document(running.invoke(web("/data/fleet", cookie=cookie)))
    assert {(row["run_id"], row["status"]) for row in fleet["runs"]} == {
        ("lives", "RUNNING"), ("beats", "RUNNING"), ("fails", "FAILED"), ("ends", "SUCCEEDED"), ("leaves", "PREEMPTED"),
    }  # fmt: skip
    run = document(running.invoke(web("/data/runs/fails", cookie=cookie)))
    assert run["run"]["cause"] is not None
    assert running.invoke({"run_id": "lives"})["status"] == "RUNNING", "a pass and the page share one zip"
    assert "Function URL" not in running.log()
    assert TOKEN not in running.log()


def test_people_act_without_a_server_as_far_as_the_role_goes(deployed: Deployed, recorder: Recorder) -> None:
    watched(deployed)
    # What updates a message in Slack gets no further than this machine.
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:9", "AWS_ENDPOINT_URL": recorder.url}
    running = deployed.start(**ENVIRON, **nowhere)
    (given,) = running.invoke(web("/", f"token={OPERATE}"))["cookies"]

    def change(**asked: object) -> dict[str, Any]:
        sent = web("/api/changes", method="POST", body=json.dumps(asked), cookie=given.partition(";")[0], **PAGE)
        return document(running.invoke(sent))

    def slack(form: dict[str, str]) -> dict[str, Any]:
        body, headers = slack_request(form)
        return document(running.invoke(web("/slack", method="POST", body=body, **headers)))

    seen = deployed.record("fails")["transitions"]
    assert (
        change(acknowledge="fails", transition=seen, by="Ada")["acknowledged"]["by"]
        == "Ada, on the page from 192.0.2.7"
    )
    planned = change(stop="beats")
    assert change(stop="beats", seen=planned["seen"])["done"]
    assert change(runs="lives", for_s=3600)["matches"] == 1
    assert change(view="mine", filter="owner:ana")["done"] == "Saved"
    said = slack({"text": "silence fails 2h", "user_name": "ana", "channel_id": CHANNEL})
    assert "fails is silenced for 2h" in said["text"]
    assert slack({"payload": json.dumps(pressed("silence", "ends 1 SUCCEEDED"))}) == {}
    assert [each["runs"] for each in kept(deployed, "_watchdog/silences.json")["silences"]] == [
        "lives",
        "fails",
        "ends",
    ]
    assert [each["by"] for each in deployed.record("fails")["interventions"]][-1] == "ana, in Slack"
    assert kept(deployed, "beats/_stop")["by"].startswith("token holder, on the page")
    calls, allowed = set(recorder.calls), role(deployed, PageOperateToken=OPERATE)
    assert [str(call) for call in calls if not any(each.allows(call) for each in allowed)] == []
    writes = {each.resource for each in allowed if each.action == "s3:PutObject"}
    assert {each.action for each in allowed} == {"s3:ListBucket", "s3:GetObject", "s3:PutObject"}
    unused = [each for each in writes if not any(Permission("s3:PutObject", each).allows(call) for call in calls)]
    assert unused == [], "it may write only what acting writes"
    assert OPERATE not in running.log()


def kept(deployed: Deployed, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        deployed.s3.get_object(Bucket=deployed.bucket, Key=f"{PREFIX}/{name}")["Body"].read()
    )
    return found


def role(deployed: Deployed, **tokens: str) -> list[Permission]:
    given = {"Bucket": deployed.bucket, "Prefix": PREFIX, **(tokens or {"PageToken": TOKEN})}
    page = Stack(transformed(**given), given, {}).policies("PageRole")
    return [each for each in permissions(page) if each.action.startswith("s3:")]


def test_the_pages_role_allows_what_is_asked_for_and_nothing_else(deployed: Deployed, recorder: Recorder) -> None:
    watched(deployed)
    running = address(deployed, AWS_ENDPOINT_URL=recorder.url)
    for path in ("/data/fleet", *(f"/data/runs/{name}" for name in ("lives", "fails", "ends", "leaves"))):
        document(running.invoke(web(path, authorization=f"Bearer {TOKEN}")))
    document(running.invoke(web("/data/runs/lives/curves", authorization=f"Bearer {TOKEN}")))
    calls, allowed = set(recorder.calls), role(deployed)
    assert calls
    assert [str(call) for call in calls if not any(each.allows(call) for each in allowed)] == []
    assert {each.action for each in allowed} == {"s3:ListBucket", "s3:GetObject"}, "it writes nothing"
    top = f"arn:aws:s3:::{deployed.bucket}/{PREFIX}"
    for closed in (f"{top}/lives/checkpoints/model.bin", f"arn:aws:s3:::{deployed.bucket}/other/lives/metadata.json"):
        assert not any(each.allows(Call("s3:GetObject", closed)) for each in allowed)


def test_without_a_token_the_stack_has_no_page() -> None:
    given = {"Bucket": "runs"}
    stack = Stack(transformed(**given), given, {})
    assert stack.of_type("AWS::Lambda::Url") == {}
    assert set(stack.of_type("AWS::Lambda::Function")) == {"Watchdog"}
    assert "PageRole" not in stack.of_type("AWS::IAM::Role")
