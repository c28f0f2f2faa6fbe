"""Exit statuses, by the convention of monitoring plug-ins."""

from typing import TYPE_CHECKING, Final

from lastbeat.model.status import Status

if TYPE_CHECKING:
    # With it comes all that a watch knows: a fifth of what many a command takes.
    from lastbeat.model.outcome import Outcome

OK: Final = 0
WARNING: Final = 1
CRITICAL: Final = 2
UNKNOWN: Final = 3
INTERRUPTED: Final = 130
"""What a shell calls a program that Ctrl-C ended before it had an answer."""

READER_LEFT: Final = 141
"""What a shell calls a program that wrote into a pipe that nobody read any more.

A loop of ``watch`` or ``sweep`` ends then as on Ctrl-C, with the status of its last pass.
"""


def of(outcome: "Outcome") -> int:
    """The exit status that tells ``outcome`` to Nagios, Icinga or Sensu."""
    if outcome.status is Status.UNKNOWN or outcome.status.is_foreign:
        return UNKNOWN
    if outcome.status in {Status.FAILED, Status.TIMED_OUT, Status.CANCELLED}:
        return CRITICAL
    warned = outcome.status in {Status.RUNNING, Status.SUCCEEDED} and outcome.conditions
    if warned or outcome.status is Status.PREEMPTED:
        return WARNING
    return OK
