"""Training below ``lastbeat exec --max-restarts``, which reports the same run and decides what becomes of a failure.

What training says of its end is kept beside its rank (``ranks/{rank}.error``), and is no ``_error`` of the run yet:
that is written by whoever starts it, once it is not started again.
"""

import json
import os
from datetime import datetime
from typing import Any

from lastbeat.model.in_place import FIELD, VARIABLE, InPlace, in_variable, read_in_place
from lastbeat.model.times import parse_time
from lastbeat.sdk.attempts import attempt_of
from lastbeat.sdk.process_mark import process_mark


def started_by(run_id: str, wrapped: str | None) -> InPlace | None:
    """Who starts this training again, if anybody does: of ``run_id``, where ``wrapped`` is the run that ``lastbeat
    exec`` reports."""
    return in_variable(os.environ.get(VARIABLE)) if wrapped == run_id else None


def decides(starter: InPlace | None) -> bool:
    """Whether somebody else decides what becomes of a failure: who starts this training lives, or is where nobody here
    can tell."""
    if starter is None:
        return False
    own, theirs = process_mark(os.getpid()), starter.mark
    if own is None or theirs is None or own.rpartition("/")[0] != theirs.rpartition("/")[0]:
        return True
    return process_mark(starter.process) == theirs


def adopted(body: bytes, starter: InPlace | None) -> tuple[int, float] | None:
    """Number and start, as Unix time, of the attempt that whoever starts this training has begun for it; None where
    the metadata.json in ``body`` is another one's."""
    if starter is None:
        return None
    document = parsed(body)
    said = read_in_place(document.get(FIELD))
    began = parse_time(document.get("start_time"))
    number = attempt_of(body)
    if said is None or said.token != starter.token or began is None or not isinstance(began, datetime) or number < 1:
        return None
    return number, began.timestamp()


def reported_by_training(body: bytes, ours: InPlace) -> bool:
    """Whether the metadata.json in ``body`` was written by what was started as ``ours``, and not by who started it."""
    document = parsed(body)
    said = read_in_place(document.get(FIELD))
    return said is not None and said.token == ours.token and document.get("wraps") is not True


def parsed(body: bytes) -> dict[str, Any]:
    """A document of training's; empty where it is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
