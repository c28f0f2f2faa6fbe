"""Exit statuses, by the convention of monitoring plug-ins."""

from typing import TYPE_CHECKING, Final

from lastbeat.model.status import Status

if TYPE_CHECKING:
    # Importing it takes a fifth of the time of many a command.
    from lastbeat.model.outcome import Outcome

OK: Final = 0
WARNING: Final = 1
CRITICAL: Final = 2
UNKNOWN: Final = 3
INTERRUPTED: Final = 130
"""Ended by Ctrl-C before there was an answer: 128 + SIGINT, as shells show it."""

READER_LEFT: Final = 141
"""Wrote to a pipe whose reader had closed it: 128 + SIGPIPE, as shells show it.

A loop of ``watch`` or ``sweep`` ends then as on Ctrl-C, with the status of its last pass.
"""


def of(outcome: "Outcome") -> int:
    """The exit status of ``outcome`` for Nagios, Icinga or Sensu; :class:`PassReport` has that of a whole fleet."""
    if outcome.status is Status.UNKNOWN or outcome.status.is_foreign:
        return UNKNOWN
    if outcome.status in {Status.FAILED, Status.TIMED_OUT, Status.CANCELLED}:
        return CRITICAL
    warned = outcome.status in {Status.RUNNING, Status.SUCCEEDED} and outcome.conditions
    if warned or outcome.status is Status.PREEMPTED:
        return WARNING
    return OK
