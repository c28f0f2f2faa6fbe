"""Calls off the start of a job that has not begun yet: a person wants the run to stay as it is."""

from dataclasses import dataclass, replace

from lastbeat.model.action import Action
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND
from lastbeat.watch.record.repository import RecordRepository


@dataclass(frozen=True, slots=True)
class CalledOff:
    """What was called off."""

    record: Record
    action: Action


class TooLateError(Exception):
    """Somebody has begun to start the job; ``str()`` says what to do."""


def call_off(repository: RecordRepository, by: str) -> CalledOff | None:
    """Call off the run's next job; None: there is none to come. One conditional write, as that which claims a start:
    either it is called off, or it begins.

    Raises :class:`TooLateError` and :class:`StoreError`.
    """
    waiting: Action | None = None

    def change(record: Record | None) -> Record | None:
        nonlocal waiting
        starts = () if record is None else tuple(each for each in record.actions if each.kind == RESTART_KIND)
        waiting = next((each for each in reversed(starts) if not each.settled), None)
        if record is None or waiting is None:
            return None
        # That the old job's end was asked for may stay so: the new one has not begun.
        if waiting.claimed_by is not None or waiting.in_doubt:
            raise TooLateError(f"job {waiting.name} is being started right now: ask again when it runs")
        return _called_off(record, waiting, by)

    record = repository.update(change)
    return CalledOff(record, waiting) if record is not None and waiting is not None else None


def _called_off(record: Record, waiting: Action, by: str) -> Record:
    why = f"stopped by {by}: what a person ended is not restarted"
    ruling = record.ruling
    if ruling is None or not ruling.restart:
        # The first job of all: it never happens.
        never = tuple(replace(each, failed=why) if each is waiting else each for each in record.actions)
        return replace(record, actions=never)
    # As if it had been ruled so.
    ruled = replace(ruling, restart=False, reason=why, resume_from=None, resume_step=None)
    others = tuple(each for each in record.actions if each is not waiting)
    return replace(record, actions=others, ruling=ruled, restarts=record.restarts[:-1])
