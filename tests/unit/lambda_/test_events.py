"""What an event asks for, as a table; and that nothing anybody sends breaks the reading."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.fleet import Shard
from lastbeat.stores.kind import DIRECTORY, Root
from lastbeat_lambda.events import (
    CheckRequest,
    Ignored,
    InvalidRequest,
    ObjectEvents,
    QueueBatch,
    SweepRequest,
    read,
    read_message,
)
from support.row_by_row import labelled

ROOT = Root("s3", "runs", "training-runs")


def created(key: str, bucket: str = "runs") -> dict[str, Any]:
    detail = {"bucket": {"name": bucket}, "object": {"key": key}}
    return {"source": "aws.s3", "detail-type": "Object Created", "detail": detail}


def classic(key: str, name: str = "ObjectCreated:Put") -> dict[str, Any]:
    thing = {"bucket": {"name": "runs"}, "object": {"key": key}}
    return {"Records": [{"eventSource": "aws:s3", "eventName": name, "s3": thing}]}


ASKED: list[tuple[str, object, object]] = [
    ("nothing in particular is a pass", {}, SweepRequest()),
    ("a schedule is a pass", {"source": "aws.scheduler", "detail": {}}, SweepRequest()),
    ("one of the older kind, too", {"source": "aws.events", "detail-type": "Scheduled Event"}, SweepRequest()),
    ("and whatever means nothing else", {"anything": "else"}, SweepRequest()),
    ("a run by its name", {"run_id": "run-1"}, CheckRequest("run-1")),
    ("a sentinel", created("training-runs/run-1/_error"), CheckRequest("run-1")),
    ("a key of EventBridge is as it is", created("training-runs/a+b/_complete"), CheckRequest("a+b")),
    ("a preemption is news, too", created("training-runs/a/_preempted"), CheckRequest("a")),
    ("one of S3 itself is encoded", classic("training-runs/a%2Bb/_complete"), ObjectEvents((CheckRequest("a+b"),))),
]


@pytest.mark.parametrize(("event", "asked"), labelled(ASKED))
def test_what_is_asked_for(event: object, asked: object) -> None:
    assert read(event, ROOT) == asked


IGNORED: list[tuple[str, object]] = [
    ("a heartbeat", created("training-runs/run-1/metadata.json")),
    ("a sentinel in a folder of a run", created("training-runs/run-1/old/_error")),
    ("a folder whose name only begins alike", created("training-runs-2/run-1/_error")),
    ("the message that S3 sends once", {"Service": "Amazon S3", "Event": "s3:TestEvent"}),
    ("the watchdog's own folder", created("training-runs/_watchdog/_error")),
    ("another bucket", created("training-runs/run-1/_error", bucket="others")),
    ("no key at all", {"source": "aws.s3", "detail-type": "Object Created", "detail": {"object": {}}}),
    ("a deletion", created("training-runs/run-1/_error") | {"detail-type": "Object Deleted"}),
]


@pytest.mark.parametrize("event", labelled(IGNORED))
def test_what_is_none_of_ours_is_ignored(event: object) -> None:
    assert isinstance(read(event, ROOT), Ignored)


BAD: list[tuple[str, object, str]] = [
    ("a run id that leads out of its folder", {"run_id": "../secrets"}, "contains '/'"),
    ("the watchdog's own folder", {"run_id": "_watchdog"}, "starts with '_'"),
    ("no text", {"run_id": 7}, "run_id is a number"),
    ("no object", [1, 2], "send a JSON object"),
    ("records of another service", {"Records": [{"eventSource": "aws:kinesis"}]}, "Records holds something other"),
]


@pytest.mark.parametrize(("event", "why"), labelled(BAD))
def test_what_nobody_can_follow_is_refused_and_says_why(event: object, why: str) -> None:
    asked = read(event, ROOT)
    assert isinstance(asked, InvalidRequest)
    assert why in asked.why


def test_a_removal_in_the_classic_kind_is_ignored_and_says_so() -> None:
    asked = read(classic("training-runs/run-1/_error", "ObjectRemoved:Delete"), ROOT)
    assert isinstance(asked, ObjectEvents)
    assert [type(each) for each in asked.each] == [Ignored]


def test_a_fleet_at_the_top_of_a_bucket_has_its_sentinels_there() -> None:
    assert read(created("run-1/_error"), Root("s3", "runs", "")) == CheckRequest("run-1")


def test_a_fleet_in_a_directory_has_no_objects(tmp_path: Any) -> None:
    assert isinstance(read(created("training-runs/run-1/_error"), Root(DIRECTORY, str(tmp_path))), Ignored)


MESSAGES: list[tuple[str, object, object]] = [
    ("a run", {"run_id": "run-1"}, CheckRequest("run-1")),
    ("a part of the fleet", {"sweep": {"after": "a", "until": "m"}}, SweepRequest(Shard("a", "m"))),
    ("the last part", {"sweep": {"after": "m"}}, SweepRequest(Shard("m", ""))),
    ("an event with a queue between", created("training-runs/run-1/_error"), CheckRequest("run-1")),
    ("a notification of S3's own", classic("training-runs/run-1/_error"), ObjectEvents((CheckRequest("run-1"),))),
]


@pytest.mark.parametrize(("body", "asked"), labelled(MESSAGES))
def test_what_a_message_asks_for(body: object, asked: object) -> None:
    assert read_message(json.dumps(body), ROOT) == asked


REFUSED: list[tuple[str, object]] = [
    ("no text", None),
    ("JSON that is deeper than anybody reads", "[" * 100_000),
    ("no object", "[1]"),
    ("an object that says nothing: no message is a schedule", "{}"),
    ("a run that no run may be", '{"run_id": "../x"}'),
    ("bounds that are no texts", '{"sweep": {"after": 1}}'),
    ("bounds without end", json.dumps({"sweep": {"after": "x" * 201}})),
    ("a batch in a batch", json.dumps({"Records": [{"eventSource": "aws:sqs", "body": "{}"}]})),
]


@pytest.mark.parametrize("body", labelled(REFUSED))
def test_a_message_that_nobody_can_follow_is_refused_and_says_why(body: object) -> None:
    asked = read_message(body, ROOT)
    assert isinstance(asked, InvalidRequest)
    assert asked.why


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["Records", "run_id", "source", "detail", "detail-type", "bucket", "object", "key", "s3",
                         "eventSource", "eventName", "sweep", "after", "until", "name", "Event"]),
        inner | st.sampled_from(["aws.s3", "aws:s3", "aws:sqs", "Object Created", "ObjectCreated:Put", "runs"]),
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_whatever_comes_is_read_and_only_a_valid_run_is_ever_checked(event: object) -> None:
    for asked in (read(event, ROOT), read_message(json.dumps(event), ROOT)):
        assert isinstance(asked, (SweepRequest, CheckRequest, Ignored, ObjectEvents, InvalidRequest, QueueBatch))
