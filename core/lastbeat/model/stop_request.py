"""A request to end a run, with its author, time and reason: ``_stop`` beside the run, for training and watchers."""

import json
from datetime import datetime
from typing import Final

from lastbeat.model.data import dataclass
from lastbeat.model.numbers import finite, whole
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import format_time, parse_time

WHY_LIMIT: Final = 200
_BY_LIMIT: Final = 100
GRACE_S: Final = 60.0
"""Time in s from SIGINT to SIGTERM, unless the request says otherwise."""
_GRACE_MOST_S: Final = 86400.0
_SAME_START_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class StopRequest:
    """A request to end one attempt; it never ends another."""

    by: str
    at: datetime | None
    why: str = ""
    start_time: datetime | None = None
    """Start of the attempt in its metadata.json. Like ``attempt``, its number, None if that file said nothing."""
    attempt: int | None = None
    grace_s: float = GRACE_S
    """Between SIGINT and SIGTERM."""
    signalled: bool = False
    """The author sends SIGINT itself, on the machine where training runs."""
    after_checkpoint: bool = False
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
    document = {
        "by": request.by,
        "at": format_time(request.at),
        "why": request.why,
        "start_time": format_time(request.start_time),
        "attempt": request.attempt,
        "grace_s": request.grace_s,
        "signalled": request.signalled,
        "after_checkpoint": request.after_checkpoint or None,
    }
    known = {name: value for name, value in document.items() if value is not None}
    return json.dumps(known, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def read_request(body: bytes) -> StopRequest | None:
    """The request in an untrusted document; None if it holds none."""
    try:
        document = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    grace_s = finite(document.get("grace_s"))
    return StopRequest(
        by=_text(document.get("by"), _BY_LIMIT) or "somebody",
        at=parse_time(document.get("at")),
        why=_text(document.get("why"), WHY_LIMIT),
        start_time=parse_time(document.get("start_time")),
        attempt=whole(document.get("attempt")),
        grace_s=min(max(grace_s, 0.0), _GRACE_MOST_S) if grace_s is not None else GRACE_S,
        signalled=document.get("signalled") is True,
        after_checkpoint=document.get("after_checkpoint") is True,
    )


def _text(value: object, limit: int) -> str:
    return fit(one_line(value), limit) if isinstance(value, str) else ""
