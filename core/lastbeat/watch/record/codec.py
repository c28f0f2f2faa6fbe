"""Records ↔ bytes: the JSON documents of runs, and of the ledger of groups, which extends a record."""

import json
from dataclasses import replace
from typing import Any, Final, TypeVar

from lastbeat.model.codec import DamagedError, codec, without_schema
from lastbeat.model.record import SCHEMA, Record

R = TypeVar("R", bound=Record)

RECORD_LIMIT_BYTES: Final = 3 * 1024 * 1024
LEDGER_LIMIT_BYTES: Final = 16 * 1024 * 1024
_UNREVIEWED: Final = "unreviewed"
"""Key in the details of a restart that a watcher of an earlier build requested without asking the launcher."""


def encode(record: Record) -> bytes:
    """One JSON object, readable for people: a line per field, and a line per entry of long lists."""
    document = {"schema": SCHEMA, **codec(type(record)).document(record)}
    text = ",\n".join(f" {json.dumps(name)}: {_text(value)}" for name, value in document.items())
    return f"{{\n{text}\n}}".encode("utf-8", "replace")


def _text(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        entries = ",\n".join(f"  {_dumps(entry)}" for entry in value)
        return f"[\n{entries}\n ]"
    return _dumps(value)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def decode(body: bytes, kind: type[R], skipped: list[str] | None = None) -> R:
    """The record that :func:`encode` wrote, of the class ``kind``. Fields with parts that only a newer lastbeat can
    read are added to ``skipped``. Raises :class:`DamagedError` if it cannot be read, and :class:`NewerError` if only a
    newer lastbeat can read it."""
    try:
        document = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"it is not JSON ({type(error).__name__})") from error
    record = codec(kind).read(without_schema(document, SCHEMA), skipped)
    return _without_remote_ruling(record) if record.ruling is not None and record.ruling.afar else record


def _without_remote_ruling(record: R) -> R:
    """``record`` without a restart decision that a watcher of an earlier build made without asking the launcher: the
    supervisor still has to decide. No executor of any build performs such a restart, so dropping it undoes nothing."""
    ruling = record.ruling
    remote = next((each for each in record.actions if not each.settled and _UNREVIEWED in each.details), None)
    if ruling is not None and not ruling.restart:
        return replace(record, ruling=None)
    if remote is None:
        return record
    actions = tuple(each for each in record.actions if each is not remote)
    return replace(record, ruling=None, actions=actions, restarts=record.restarts[:-1])


def decode_record(body: bytes) -> Record:
    """As :func:`decode`, for the record of a run."""
    return decode(body, Record)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number that a record holds")
