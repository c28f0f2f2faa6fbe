"""A request to end a run, with its author, time and reason: ``_stop`` beside the run, for training and watchers."""

from dataclasses import MISSING
from datetime import datetime
from typing import Final

from lastbeat.model.data import dataclass
from lastbeat.model.document_field import (
    FLAG,
    PLAIN_TIME,
    UNSTAMPED,
    WHOLE,
    FieldType,
    document_field,
    line_of,
    read_object,
    written,
)
from lastbeat.model.json_values import encode, finite, json_object

WHY_LIMIT: Final = 200
GRACE_S: Final = 60.0
"""Time in s from SIGINT to SIGTERM, unless the request says otherwise."""
_GRACE_MOST_S: Final = 86400.0
_SAME_START_S: Final = 1.0


def _grace_s(value: object, _: object) -> float | None:
    grace_s = finite(value)
    return None if grace_s is None else min(max(grace_s, 0.0), _GRACE_MOST_S)


_BY: Final = FieldType(lambda value, reading: line_of(100).read(value, reading) or None, {"type": "string"})


@dataclass(frozen=True, slots=True)
class StopRequest:
    """A request to end one attempt; it never ends another."""

    by: str = document_field("by", _BY, default=MISSING)
    at: datetime | None = document_field("at", PLAIN_TIME, default=MISSING)
    why: str = document_field("why", line_of(WHY_LIMIT), default="")
    start_time: datetime | None = document_field("start_time", PLAIN_TIME)
    """Start of the attempt in its metadata.json. Like ``attempt``, its number, None if that file said nothing."""
    attempt: int | None = document_field("attempt", WHOLE)
    grace_s: float = document_field("grace_s", FieldType(_grace_s, {"type": "number"}), default=GRACE_S)
    """Between SIGINT and SIGTERM."""
    signalled: bool = document_field("signalled", FLAG, default=False)
    """The author sends SIGINT itself, on the machine where training runs."""
    after_checkpoint: bool = document_field("after_checkpoint", FLAG, default=False)
    """Training is to save a checkpoint first and to end by itself: no signal is sent."""

    @property
    def summary(self) -> str:
        """``stopped by ann@login1: wrong data``: one line, bounded."""
        return f"stopped by {self.by}{f': {self.why}' if self.why else ''}"

    def is_of(self, start_time: datetime | None, attempt: int | None) -> bool:
        """Whether it means the attempt that began at ``start_time`` with this number, as far as either is known."""
        if self.start_time is not None and start_time is not None:
            return abs((self.start_time - start_time).total_seconds()) <= _SAME_START_S
        if self.start_time is not None or start_time is not None:
            return False
        return self.attempt == attempt


def encode_request(request: StopRequest) -> bytes:
    """The document."""
    return encode({**written(request), "after_checkpoint": request.after_checkpoint or None})


def read_request(body: bytes) -> StopRequest | None:
    """The request in an untrusted document; None if it holds none."""
    document = json_object(body)
    return None if document is None else read_object(StopRequest, document, UNSTAMPED, by="somebody", at=None)
