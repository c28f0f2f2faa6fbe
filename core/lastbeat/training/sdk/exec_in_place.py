"""A run that ``lastbeat exec --max-restarts`` and the training below it both report.

``exec`` handles the failures of training. So training writes its error beside its rank (``ranks/{rank}.error``), and
``exec`` writes the run's ``_error``, once it does not restart training any more.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lastbeat.model.in_place import FIELD, VARIABLE, InPlace, in_variable, read_in_place
from lastbeat.model.times import parse_time
from lastbeat.training.sdk.beat_tasks import RunSharing
from lastbeat.training.sdk.documents import attempt_of, parsed, process_mark


@dataclass(frozen=True)
class BelowExec(RunSharing):
    """Training that ``starter`` restarts in place. It continues the attempt that ``starter`` has begun for it."""

    starter: InPlace

    def fields(self) -> dict[str, Any]:
        return self.starter.fields()

    def begun(self, metadata: bytes) -> tuple[int, float] | None:
        return adopted(metadata, self.starter)

    def defers(self) -> bool:
        return decides(self.starter)


@dataclass(frozen=True)
class ExecInPlace(RunSharing):
    """``lastbeat exec`` itself. What training says has precedence, from the moment at which ``reports`` finds it."""

    start: InPlace
    reports: Callable[[], bool]
    """Whether training reports itself."""
    has_precedence = False

    @property
    def wraps(self) -> bool:
        return True

    def fields(self) -> dict[str, Any]:
        # From the first document on, "wraps" distinguishes those of exec from training's.
        return {**self.start.fields(), "wraps": True}

    def yields(self) -> bool:
        return self.reports()

    def begun(self, metadata: bytes) -> tuple[int, float] | None:
        return adopted(metadata, self.start) if reported_by_training(metadata, self.start) else None


def started_by(run_id: str, wrapped: str | None) -> BelowExec | None:
    """How this training shares its run with the process that restarts it in place, or None if there is none.
    ``wrapped`` is the id of the run that ``lastbeat exec`` reports; it counts only if it is ``run_id``."""
    starter = in_variable(os.environ.get(VARIABLE)) if wrapped == run_id else None
    return BelowExec(starter) if starter is not None else None


def decides(starter: InPlace) -> bool:
    """Whether ``starter`` handles a failure of this training. True also if this process cannot check that ``starter``
    is alive, as on another machine."""
    here, there = process_mark(os.getpid()), starter.mark
    if here is None or there is None or here.rpartition("/")[0] != there.rpartition("/")[0]:
        return True
    return process_mark(starter.process) == there


def adopted(body: bytes, starter: InPlace) -> tuple[int, float] | None:
    """Number and start (Unix time in s) of the attempt that ``starter`` has begun for this training. None if the
    metadata.json in ``body`` belongs to another start."""
    document = parsed(body)
    said = read_in_place(document.get(FIELD))
    began = parse_time(document.get("start_time"))
    number = attempt_of(body)
    if said is None or said.token != starter.token or began is None or number < 1:
        return None
    return number, began.timestamp()


def reported_by_training(body: bytes, ours: InPlace) -> bool:
    """Whether the metadata.json in ``body`` was written by training that was started as ``ours``, not by ``lastbeat
    exec`` itself."""
    document = parsed(body)
    said = read_in_place(document.get(FIELD))
    return said is not None and said.token == ours.token and document.get("wraps") is not True
