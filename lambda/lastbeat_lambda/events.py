"""Events of Lambda → requests to the function. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from lastbeat.model.fleet import Shard
from lastbeat.model.json_values import json_object
from lastbeat.model.runid import SENTINELS, check_run_id
from lastbeat.stores.kind import Root
from lastbeat.stores.s3 import SCHEME as S3


@dataclass(frozen=True)
class SweepRequest:
    """Sweep the fleet, or the shard that a message names."""

    shard: Shard | None = None


@dataclass(frozen=True)
class CheckRequest:
    """Check one run now."""

    run_id: str


@dataclass(frozen=True)
class Ignored:
    """An event without work; ``why`` gives the reason."""

    why: str


@dataclass(frozen=True)
class ObjectEvents:
    """Changes of several objects, in the form that S3 itself sends."""

    each: tuple[CheckRequest | Ignored, ...]


@dataclass(frozen=True)
class InvalidRequest:
    """An event that is not understood; ``why`` says what to send instead."""

    why: str


@dataclass(frozen=True)
class QueueBatch:
    """A batch of messages from an SQS queue. Each is read on its own, so that a bad one does not affect the others."""

    event: dict[str, Any]


Request = SweepRequest | CheckRequest | Ignored | ObjectEvents | InvalidRequest
"""A request that one message can hold."""


def read(event: object, root: Root) -> Request | QueueBatch:
    """The request in ``event``. An object of unknown form is taken as a schedule's event, whose form is free."""
    if not isinstance(event, dict):
        return InvalidRequest(
            f"the event is {_kind(event)}; send a JSON object, for example {{}} for a pass over the fleet"
        )
    records = event.get("Records")
    if isinstance(records, list) and records and all(_source(each) == "aws:sqs" for each in records):
        return QueueBatch(event)
    return _request(event, root) or SweepRequest()


def is_web_request(event: object) -> bool:
    """Whether ``event`` came to the function's own address (payload 2.0). Lambda itself makes its context, so no
    request can look like another event, nor the other way round."""
    context = event.get("requestContext") if isinstance(event, dict) else None
    return isinstance(context, dict) and isinstance(context.get("http"), dict)


def read_message(body: object, root: Root) -> Request:
    """The request in the body of a message."""
    asked = json_object(body) if isinstance(body, str) else None
    found = _request(asked, root) or _shard(asked) if asked is not None else None
    return found or InvalidRequest('the message\'s body is neither {"run_id": …} nor {"sweep": …} nor an event of S3')


def _request(event: Mapping[str, Any], root: Root) -> Request | None:
    if "run_id" in event:
        return _check(event["run_id"])
    if event.get("source") == "aws.s3":
        detail = event.get("detail")
        if event.get("detail-type") != "Object Created" or not isinstance(detail, dict):
            return Ignored("an event of S3 other than Object Created")
        return _sentinel(detail, root, encoded=False)
    if event.get("Event") == "s3:TestEvent":
        return Ignored("the test message that S3 sends once")
    records = event.get("Records")
    if not isinstance(records, list):
        return None
    if records and all(_source(each) == "aws:s3" for each in records):
        return ObjectEvents(tuple(_notice(each, root) for each in records))
    return InvalidRequest("Records holds something other than messages of SQS or notifications of S3")


def _check(run_id: object) -> CheckRequest | InvalidRequest:
    if not isinstance(run_id, str):
        return InvalidRequest(f"run_id is {_kind(run_id)}; send the run's folder name as a text")
    try:
        return CheckRequest(check_run_id(run_id))
    except ValueError as fault:
        return InvalidRequest(str(fault))


def _notice(record: Mapping[str, Any], root: Root) -> CheckRequest | Ignored:
    if not str(record.get("eventName", "")).startswith("ObjectCreated:"):
        return Ignored("a notification of S3 other than ObjectCreated")
    detail = record.get("s3")
    return _sentinel(detail if isinstance(detail, dict) else {}, root, encoded=True)


def _sentinel(detail: Mapping[str, Any], root: Root, *, encoded: bool) -> CheckRequest | Ignored:
    bucket, thing = detail.get("bucket"), detail.get("object")
    name = bucket.get("name") if isinstance(bucket, dict) else None
    key = thing.get("key") if isinstance(thing, dict) else None
    if not isinstance(name, str) or not isinstance(key, str):
        return Ignored("an event of S3 that names no object")
    # S3's own notifications encode keys like form values; EventBridge does not.
    key = unquote_plus(key) if encoded else key
    if root.scheme != S3 or name != root.place:
        return Ignored(f"an object of the bucket {name[:80]!r}, which holds no runs of this fleet")
    folder = f"{root.prefix}/" if root.prefix else ""
    run_id, slash, file = key.removeprefix(folder).partition("/")
    if not key.startswith(folder) or not slash or file not in SENTINELS:
        return Ignored(
            f"{key[:200]!r} is no run's {', '.join(SENTINELS[:-1])} or {SENTINELS[-1]} below {folder or 'the top'}"
        )
    try:
        return CheckRequest(check_run_id(run_id))
    except ValueError as fault:
        return Ignored(str(fault))


def _shard(event: Mapping[str, Any]) -> SweepRequest | None:
    asked = event.get("sweep")
    if not isinstance(asked, dict):
        return None
    bounds = [asked.get("after", ""), asked.get("until", "")]
    if not all(isinstance(bound, str) and len(bound) <= 200 for bound in bounds):
        return None
    return SweepRequest(Shard(*bounds))


def _source(record: object) -> object:
    return record.get("eventSource") if isinstance(record, dict) else None


def _kind(value: object) -> str:
    names: Sequence[tuple[type, str]] = (
        (bool, "a truth value"),
        (str, "a text"),
        (list, "a list"),
        (dict, "an object"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "null" if value is None else "a number")
