"""Training below ``lastbeat exec --max-restarts``, which reports the same run and handles its failures.

Training writes its error beside its rank (``ranks/{rank}.error``). ``lastbeat exec`` writes the run's ``_error``, once
it does not restart training any more.
"""

import os
from datetime import datetime

from lastbeat.model.in_place import FIELD, VARIABLE, InPlace, in_variable, read_in_place
from lastbeat.model.times import parse_time
from lastbeat.training.sdk.documents import attempt_of, parsed, process_mark


def started_by(run_id: str, wrapped: str | None) -> InPlace | None:
    """The process that restarts this training in place, or None if there is none. ``wrapped`` is the id of the run that
    ``lastbeat exec`` reports; it counts only if it is ``run_id``."""
    return in_variable(os.environ.get(VARIABLE)) if wrapped == run_id else None


def decides(starter: InPlace | None) -> bool:
    """Whether ``starter`` handles a failure of this training. True also if this process cannot check that ``starter``
    is alive, as on another machine."""
    if starter is None:
        return False
    here, there = process_mark(os.getpid()), starter.mark
    if here is None or there is None or here.rpartition("/")[0] != there.rpartition("/")[0]:
        return True
    return process_mark(starter.process) == there


def adopted(body: bytes, starter: InPlace | None) -> tuple[int, float] | None:
    """Number and start (Unix time in s) of the attempt that ``starter`` has begun for this training. None if the
    metadata.json in ``body`` belongs to another start."""
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
    """Whether the metadata.json in ``body`` was written by training that was started as ``ours``, not by ``lastbeat
    exec`` itself."""
    document = parsed(body)
    said = read_in_place(document.get(FIELD))
    return said is not None and said.token == ours.token and document.get("wraps") is not True
