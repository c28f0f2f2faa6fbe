"""Every kind of event, to the zip that is deployed, in an execution environment that was cold and then is warm."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.lambda_.conftest import PREFIX, SCHEDULE, Deployed, deployment, message, object_created
from support.lambda_runtime import Environment
from support.proxy import FaultProxy, s3_error
from support.s3 import S3Server


@pytest.fixture(scope="module")
def shared(
    s3_server: S3Server, clients: tuple[Any, Any], function: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Deployed, Environment]]:
    """One environment for tests that ask it for runs of their own."""
    with deployment(s3_server, clients, function, tmp_path_factory.mktemp("shared")) as made:
        yield made, made.start()


def fleet(deployed: Deployed) -> None:
    """One run that lives, one that failed, one that is through."""
    deployed.beat("lives")
    deployed.beat("failed")
    deployed.put("failed", "_error", "RuntimeError: CUDA out of memory\nTraceback …")
    deployed.beat("through")
    deployed.put("through", "_complete")


def test_a_schedule_sweeps_the_fleet_and_a_warm_environment_says_nothing_twice(deployed: Deployed) -> None:
    fleet(deployed)
    running = deployed.start()
    for event, transitions in ((SCHEDULE, 3), ({}, 0)):
        answer = running.invoke(event)
        assert answer["statuses"] == {"RUNNING": 1, "FAILED": 1, "SUCCEEDED": 1}
        assert (answer["complete"], answer["blind"], answer["transitions_count"]) == (True, None, transitions)
    deployed.put("lives", "_error", "ValueError: boom")
    assert [each["run_id"] for each in running.invoke(SCHEDULE)["transitions"]] == ["lives"]
    assert deployed.alerts() == [("failed", "FAILED"), ("lives", "FAILED"), ("through", "SUCCEEDED")]


def test_a_sentinel_is_looked_at_at_once(shared: tuple[Deployed, Environment]) -> None:
    deployed, running = shared
    deployed.alerts()
    for run_id, name, status in (("run+1", "_error", "FAILED"), ("run+2", "_complete", "SUCCEEDED")):
        deployed.put(run_id, name)
        answer = running.invoke(object_created(deployed.bucket, f"{PREFIX}/{run_id}/{name}"))
        assert (answer["run_id"], answer["status"]) == (run_id, status)
    answer = running.invoke({"run_id": "run+1"})
    assert (answer["run_id"], answer["status"]) == ("run+1", "FAILED"), "by its name, too"
    assert answer["alerts"] == {"pending": 0, "delivered": 1, "failed": 0}
    # A notification of the classic kind encodes its key.
    deployed.put("run+3", "_error", "boom")
    thing = {"bucket": {"name": deployed.bucket}, "object": {"key": f"{PREFIX}/run%2B3/_error"}}
    record = {"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": thing}
    answer = running.invoke({"Records": [record]})
    assert [(each["run_id"], each["status"]) for each in answer["checked"]] == [("run+3", "FAILED")]
    assert deployed.alerts() == [("run+1", "FAILED"), ("run+2", "SUCCEEDED"), ("run+3", "FAILED")]


def test_what_there_is_nothing_to_do_about_is_not_asked_for(deployed: Deployed, fault_proxy: FaultProxy) -> None:
    deployed.through(fault_proxy)
    running = deployed.start()
    assert "contains '/'" in running.invoke({"run_id": "../secrets"})["error"]
    assert list(running.invoke(object_created(deployed.bucket, f"{PREFIX}/run-1/metadata.json"))) == ["ignored"]
    old = message("1", {"sweep": {"after": "", "until": "m"}}, SentTimestamp="1000000000000")
    answer = running.invoke({"Records": [old]})
    assert answer["batchItemFailures"] == []
    assert "waited too long" in answer["checked"][0]["ignored"], "newer messages have the same part"
    assert fault_proxy.passed == []


def test_of_a_batch_only_what_failed_comes_back(deployed: Deployed, fault_proxy: FaultProxy) -> None:
    fleet(deployed)
    deployed.beat("denied")
    deployed.through(fault_proxy)
    fault_proxy.inject(s3_error(403, "AccessDenied"), contains="denied")
    event = object_created(deployed.bucket, f"{PREFIX}/through/_complete")
    bodies: list[object] = [{"run_id": "failed"}, {"run_id": "denied"}, event, {}, "not JSON", {"run_id": "/"}]
    answer = deployed.start().invoke({"Records": [message(str(n), body) for n, body in enumerate(bodies)]})
    assert answer["batchItemFailures"] == [{"itemIdentifier": str(n)} for n in (1, 3, 4, 5)]
    assert [(each["run_id"], each["status"]) for each in answer["checked"]] == [
        ("failed", "FAILED"),
        ("through", "SUCCEEDED"),
    ]
    assert deployed.alerts() == [("failed", "FAILED"), ("through", "SUCCEEDED")]


NAMELESS = {"absent": ..., "a number": 7}


def test_a_message_without_an_id_costs_the_others_nothing(shared: tuple[Deployed, Environment]) -> None:
    deployed, asked = shared
    before = len(asked.documents())
    for kind, given in NAMELESS.items():
        run_ids = [f"{name}-{kind.replace(' ', '-')}" for name in ("first", "nameless", "last")]
        for run_id in run_ids:
            deployed.put(run_id, "_error", "boom")
        records = [message("first", {"run_id": run_ids[0]}), message("", {"run_id": run_ids[1]}),
                   message("", "no JSON"), message("refused", "no JSON either"),
                   message("last", {"run_id": run_ids[2]})]  # fmt: skip
        for record in records[1:3]:
            if given is ...:
                del record["messageId"]
            else:
                record["messageId"] = given
        answer = asked.invoke({"Records": records})
        # SQS takes a name that it does not know for a failure of the whole batch, so that one is told in the log alone.
        assert answer["batchItemFailures"] == [{"itemIdentifier": "refused"}], kind
        done = [(each["run_id"], each["status"]) for each in answer["checked"] if "run_id" in each]
        assert done == [(run_id, "FAILED") for run_id in run_ids], kind
        assert [each for each in answer["checked"] if "error" in each], kind
    told = [line for line in asked.documents()[before:] if "without an id" in line.get("message", "")]
    assert [line["level"] for line in told] == ["ERROR"] * len(NAMELESS)


def test_a_batch_comes_back_whole_where_nothing_could_be_done_or_nothing_says_what_failed(
    shared: tuple[Deployed, Environment],
) -> None:
    deployed, running = shared
    answer = running.invoke({"Records": [message("a", "x"), message("b", "y")]})
    assert answer == {"batchItemFailures": [{"itemIdentifier": "a"}, {"itemIdentifier": "b"}], "checked": []}
    deployed.beat("fine")
    records = [message("", {"run_id": "fine"}), message("", "no JSON")]
    assert running.invoke({"Records": records})["batchItemFailures"] == [{"itemIdentifier": ""}]
    assert running.invoke({"Records": records[:1]})["batchItemFailures"] == []


def test_a_large_fleet_is_split_over_the_queue_and_every_part_is_swept(deployed: Deployed) -> None:
    names = [f"run-{number}" for number in range(7)]
    for name in names:
        deployed.beat(name)
    running = deployed.start(LASTBEAT_SWEEP="fanout:2")
    assert running.invoke(SCHEDULE)["statuses"] == {"RUNNING": 7}
    for name in names:
        deployed.put(name, "_complete")
    split = running.invoke(SCHEDULE)
    assert split["shards"] == split["queued"] >= 3
    worker = deployed.start(LASTBEAT_SWEEP="fanout:2")
    for each in deployed.messages():
        assert worker.invoke({"Records": [each]})["batchItemFailures"] == []
    assert deployed.alerts() == [(name, "SUCCEEDED") for name in names]


def test_what_the_queue_does_not_take_is_swept_by_the_splitter_itself(deployed: Deployed) -> None:
    names = [f"run-{number}" for number in range(4)]
    for name in names:
        deployed.beat(name)
    running = deployed.start(LASTBEAT_SWEEP="fanout:2", LASTBEAT_QUEUE_URL=f"{deployed.queue_url}-gone")
    running.invoke(SCHEDULE)
    for name in names:
        deployed.put(name, "_complete")
    answer = running.invoke(SCHEDULE)
    assert (answer["queued"], len(answer["swept"])) == (0, answer["shards"])
    assert deployed.alerts() == [(name, "SUCCEEDED") for name in names]


def test_the_answer_and_the_log_are_json_whatever_a_run_wrote(shared: tuple[Deployed, Environment]) -> None:
    deployed, running = shared
    deployed.put("odd", "_error", 'RuntimeError: "quoted" \\ \x00 \x1b[31m \u2028 end')
    assert running.invoke({"run_id": "odd"})["status"] == "FAILED"
    assert all(json.dumps(each) for each in running.documents())
