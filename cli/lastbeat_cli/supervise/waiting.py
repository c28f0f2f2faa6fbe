"""Whose turn it is: of several supervisors of one run one works, and the others wait for its seat."""

import logging
import sys
from collections.abc import Callable
from datetime import datetime

from lastbeat.model.record import Record
from lastbeat.model.times import format_time
from lastbeat.record.repository import RecordRepository
from lastbeat.settings import SettingsError
from lastbeat.stores.port import ConflictError, StoreError
from lastbeat.supervision.seat import Seat
from lastbeat_cli.loop import Stop
from lastbeat_cli.supervise import asked

_log = logging.getLogger(__name__)


def take_seat(
    seat: Seat,
    repository: RecordRepository,
    clock: Callable[[], datetime],
    stop: Stop,
    interval_s: float,
) -> Record | None:
    """Wait until the seat is free, and take it. Returns the record then; None: a person asked for the end meanwhile.

    Raises :class:`SettingsError` where nobody supervises the run, and :class:`StoreError` that waiting does not mend.
    """
    said = None
    while True:
        try:
            record, taken = seat.take(repository, clock())
        except LookupError:
            raise SettingsError([asked.not_supervised(repository.key.partition("/")[0])]) from None
        except StoreError as error:
            if not (error.retryable or isinstance(error, ConflictError)):
                raise
            _log.warning("whether somebody supervises the run cannot be found out yet: %s", error)
        else:
            if taken is None:
                if said is not None:
                    print(f"{said.by} is gone: this supervisor takes over", file=sys.stderr, flush=True)
                return record
            if said is None or said.token != taken.token:
                print(
                    f"{record.run_id} is supervised by {taken.by} (process {taken.pid}) since "
                    f"{format_time(taken.since)}: this supervisor waits, and takes over when that one is gone",
                    file=sys.stderr,
                    flush=True,
                )
                said = taken
        if stop.wait(interval_s):
            return None


def leave_seat(seat: Seat, repository: RecordRepository, clock: Callable[[], datetime]) -> None:
    """Give the seat back. Where that fails, others wait until it is over."""
    try:
        seat.leave(repository, clock())
    except StoreError as error:
        _log.info("the seat of the supervisor is kept until it is over: %s", error)
