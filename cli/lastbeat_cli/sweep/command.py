"""``sweep``: the whole fleet, once or again and again."""

import logging
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

import click

from lastbeat import opening, wire
from lastbeat import settings as configuration
from lastbeat.model.fleet import PassReport
from lastbeat_cli import logs, options
from lastbeat_cli.loop import Stop, next_due, steady_clock
from lastbeat_cli.sweep.show import Shown

if TYPE_CHECKING:
    from lastbeat.fleet.passes import Progress

log = logging.getLogger(__name__)

WHAT = "What to watch"
EPILOG = """\
\b
Exit status, by the convention of monitoring plug-ins, of the last pass; runs count that run, or ended
within a day:
  0  every run is RUNNING or SUCCEEDED, without conditions
  1  at least one is RUNNING (WARNING)
  2  at least one is FAILED or TIMED_OUT
  3  the fleet, or one of its runs, could not be observed; also wrong settings or arguments

\b
Example:
  lastbeat sweep --bucket my-bucket --once

Any number of sweeps may run at once, beside watches too: each transition is decided and told once.
"""


PASS_LIMIT_S = 900.0


class Making(Protocol):
    """What makes passes: :class:`lastbeat.fleet.passes.Passes`."""

    def make(self, *, deadline: float | None = None, progress: "Progress | None" = None) -> PassReport: ...


@click.command("sweep", cls=options.Grouped, epilog=EPILOG, context_settings=options.HELP)
@options.option("--once", is_flag=True, group=WHAT, help="One pass, for cron and Nagios.")
@options.option(
    "--interval", metavar="SECONDS", group=WHAT, help="Time between two passes [60]; with --once, between two calls."
)
@options.option("--stale-minutes", metavar="N", group=WHAT, help="A heartbeat older than this is stale [10].")
@options.place
@options.signals
@options.people
@options.form
def command(*, once: bool, as_json: bool, verbose: bool, **given: str | None) -> int:
    """Watch every run below the fleet root: tell which of them live, and alert people when that changes.

    Without --once it makes a pass each --interval (LASTBEAT_INTERVAL_SECONDS) until Ctrl-C, which lets the
    pass that is under way end well.
    """
    logs.verbose(on=verbose)
    settings = configuration.load(options.arguments(given), watching=True)
    logs.follow(settings)
    for warning in settings.warnings:
        log.warning("%s", warning)
    channels = wire.channels(settings)
    passes = wire.passes(settings, channels, clock=steady_clock())
    if not channels and not once:
        log.warning("no channel is set up, so nobody will be alerted; set for example SLACK_WEBHOOK_URL")
    shown = Shown(opening.root_url(settings), as_json=as_json)
    if once:
        report = _pass(passes)
        shown.show(report)
        return report.exit_status
    with Stop() as stop:
        shown.left = stop.ask
        return _follow(passes, shown, stop, settings.fleet.interval_s)


def _follow(passes: Making, shown: Shown, stop: Stop, interval_s: float) -> int:
    due = time.monotonic()
    while True:
        report = _pass(passes)
        shown.show(report)
        due = next_due(due, time.monotonic(), interval_s)
        if stop.asked:
            return report.exit_status
        with _pause(due):
            if stop.wait(due - time.monotonic()):
                return report.exit_status


def _pass(passes: Making) -> PassReport:
    # A look that hangs must not hang the sweep; what there was no time for comes first in the next pass.
    deadline = time.monotonic() + PASS_LIMIT_S
    if not _is_terminal():
        return passes.make(deadline=deadline)
    from lastbeat_cli.sweep.live import Spinner  # noqa: PLC0415 - 40 ms, and only a terminal needs it

    with Spinner() as spinner:
        return passes.make(deadline=deadline, progress=spinner)


def _pause(due: float) -> AbstractContextManager[object]:
    if not _is_terminal():
        return nullcontext()
    from lastbeat_cli.sweep.live import Pause  # noqa: PLC0415 - as above

    return Pause(due)


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") not in {None, "", "dumb"}
