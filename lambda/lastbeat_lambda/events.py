"""What an event asks for. Pure: nothing in here asks anybody anything."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from lastbeat.model.fleet import Shard
from lastbeat.model.runid import COMPLETE, ERROR, check_run_id
from lastbeat.stores.kind import Root
from lastbeat.stores.s3 import SCHEME as S3


@dataclass(frozen=True)
class Pass:
    """A pass over the whole fleet, or over the shard that a message names."""

    shard: Shard | None = None


@dataclass(frozen=True)
class Check:
    """One run, now."""

    run_id: str


@dataclass(frozen=True)
class Ignored:
    """Nothing to do, and why."""

    why: str


@dataclass(frozen=True)
class Notices:
    """Several objects that changed, as S3 itself announces them."""

    each: tuple[Check | Ignored, ...]


@dataclass(frozen=True)
class Refused:
    """Asked for in a way that nobody can follow; ``why`` says what to send instead."""

    why: str


@dataclass(frozen=True)
class Messages:
    """A batch of an SQS queue; each message is read on its own, so that a bad one spoils nothing else."""

    event: dict[str, Any]


Request = Pass | Check | Ignored | Notices | Refused
"""What one message can ask for."""


def read(event: object, root: Root) -> Request | Messages:
    """Whatever has no other meaning is a schedule's event: those look as their makers like."""
    if not isinstance(event, dict):
        return Refused(f"the event is {_kind(event)}; send a JSON object, for example {{}} for a pass over the fleet")
    records = event.get("Records")
    if isinstance(records, list) and records and all(_source(each) == "aws:sqs" for each in records):
        return Messages(event)
    return _request(event, root) or Pass()


def read_message(body: object, root: Root) -> Request:
    """What the body of a message asks for."""
    try:
        asked = json.loads(body) if isinstance(body, str) else None
    except (ValueError, RecursionError):
        asked = None
    found = _request(asked, root) or _shard(asked) if isinstance(asked, dict) else None
    return found or Refused('the message\'s body is neither {"run_id": …} nor {"sweep": …} nor an event of S3')


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
        return Notices(tuple(_notice(each, root) for each in records))
    return Refused("Records holds something other than messages of SQS or notifications of S3")


def _check(run_id: object) -> Check | Refused:
    if not isinstance(run_id, str):
        return Refused(f"run_id is {_kind(run_id)}; send the run's folder name as a text")
    try:
        return Check(check_run_id(run_id))
    except ValueError as fault:
        return Refused(str(fault))


def _notice(record: Mapping[str, Any], root: Root) -> Check | Ignored:
    if not str(record.get("eventName", "")).startswith("ObjectCreated:"):
        return Ignored("a notification of S3 other than ObjectCreated")
    detail = record.get("s3")
    return _sentinel(detail if isinstance(detail, dict) else {}, root, encoded=True)


def _sentinel(detail: Mapping[str, Any], root: Root, *, encoded: bool) -> Check | Ignored:
    bucket, thing = detail.get("bucket"), detail.get("object")
    name = bucket.get("name") if isinstance(bucket, dict) else None
    key = thing.get("key") if isinstance(thing, dict) else None
    if not isinstance(name, str) or not isinstance(key, str):
        return Ignored("an event of S3 that names no object")
    # Notifications of the classic kind write keys as a form would; EventBridge passes them on as they are.
    key = unquote_plus(key) if encoded else key
    if root.scheme != S3 or name != root.place:
        return Ignored(f"an object of the bucket {name[:80]!r}, which holds no runs of this fleet")
    folder = f"{root.prefix}/" if root.prefix else ""
    run_id, slash, file = key.removeprefix(folder).partition("/")
    if not key.startswith(folder) or not slash or file not in {ERROR, COMPLETE}:
        return Ignored(f"{key[:200]!r} is no run's {ERROR} or {COMPLETE} below {folder or 'the top'}")
    try:
        return Check(check_run_id(run_id))
    except ValueError as fault:
        return Ignored(str(fault))


def _shard(event: Mapping[str, Any]) -> Pass | None:
    asked = event.get("sweep")
    if not isinstance(asked, dict):
        return None
    bounds = [asked.get("after", ""), asked.get("until", "")]
    if not all(isinstance(bound, str) and len(bound) <= 200 for bound in bounds):
        return None
    return Pass(Shard(*bounds))


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
