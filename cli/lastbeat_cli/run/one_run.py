"""The run named on the command line: its exit status, and the error message if there is no such run."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from lastbeat.model.status import Status
from lastbeat.settings import Settings
from lastbeat_cli import exits, options, values

if TYPE_CHECKING:
    from lastbeat.model.view import RunView

WHAT: Final = "Which run"
argument = options.argument("run", "RUN", "Its id: its folder's name below the fleet root.", group=WHAT)
"""The run, listed with the options."""
EXITS: Final = """\
  0  RUNNING without conditions, or SUCCEEDED
  1  RUNNING (WARNING), SUCCEEDED with a loss that is no number, PREEMPTED, or silent for too long, with no pass since
  2  FAILED, TIMED_OUT or CANCELLED
  3  there is no such run, or it could not be read; also wrong settings or arguments
  141  the reader closed the pipe, as head does"""
"""Exit statuses of the commands that show one run, for their help."""


def read(run_id: str, given: Mapping[str, str | None], faults: list[str]) -> Settings:
    """The settings; from now on their secrets are masked in output.

    Raises :class:`SettingsError` with ``faults``, a wrong id and wrong settings, before any I/O.
    """
    values.run_id(run_id, faults)
    return values.settings(given, faults)


def status(view: "RunView") -> int:
    """The exit status of ``view`` for Nagios, Icinga or Sensu, see :data:`EXITS`."""
    row = view.row
    if row.status is Status.UNKNOWN:
        return exits.UNKNOWN
    if row.status in {Status.FAILED, Status.TIMED_OUT, Status.CANCELLED}:
        return exits.CRITICAL
    warned = (
        row.conditions or row.status is Status.PREEMPTED or (row.status is Status.RUNNING and row.doubt is not None)
    )
    return exits.WARNING if warned else exits.OK
