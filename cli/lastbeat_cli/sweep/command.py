"""``sweep``: watch the whole fleet, once or until stopped."""

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

import click

from lastbeat import wire
from lastbeat.model.fleet import PassReport
from lastbeat.settings import Settings, SettingsError, opening
from lastbeat.stores.clock import next_due, steady_clock
from lastbeat_cli import logs, options, values
from lastbeat_cli.loop import Stop
from lastbeat_cli.sweep.show import Shown
from lastbeat_cli.terminal.progress_line import ProgressLine

if TYPE_CHECKING:
    from lastbeat.fleet.one_pass import Progress
    from lastbeat_cli.metrics.exporter import Exporter

log = logging.getLogger(__name__)

WHAT = "What to watch"
METRICS = "Metrics for Prometheus"
EPILOG = """\
\b
Exit status, by the convention of monitoring plug-ins, of the last pass; it counts the runs that
are running or ended within a day:
  0  every run is RUNNING or SUCCEEDED, without conditions
  1  at least one is RUNNING (WARNING) or PREEMPTED
  2  at least one is FAILED, TIMED_OUT or CANCELLED
  3  the fleet, or one of its runs, could not be observed; also wrong settings or arguments

\b
Example:
  lastbeat sweep --bucket my-bucket --once

Any number of sweeps and watches may run at once: each transition is decided and reported once.
"""


PASS_LIMIT_S = 900.0
"""Longest time of one pass, in seconds."""


class Sweeper(Protocol):
    """Makes passes: :class:`lastbeat.fleet.sweep.Sweep`."""

    def run(self, *, deadline: float | None = None, progress: "Progress | None" = None) -> PassReport: ...


@click.command("sweep", cls=options.Grouped, epilog=EPILOG, context_settings=options.HELP)
@options.option("--once", is_flag=True, group=WHAT, help="Make one pass, for cron and Nagios.")
@options.option(
    "--interval", metavar="SECONDS", group=WHAT, help="Time between two passes [60]; with --once, between two calls."
)
@options.option("--stale-minutes", metavar="N", group=WHAT, help="A heartbeat older than this is stale [10].")
@options.place
@options.signals
@options.people
@options.option(
    "--metrics",
    "metrics_at",
    metavar="[HOST:]PORT",
    group=METRICS,
    help="Serve /metrics, only to this machine unless HOST is given.",
)
@options.option(
    "--metrics-file", metavar="PATH", group=METRICS, help="Write a .prom file for node-exporter's textfile collector."
)
@options.option("--dry-run", is_flag=True, help="Make one pass that writes and sends nothing; print the alerts.")
@options.form
def command(
    *,
    once: bool,
    dry_run: bool,
    metrics_at: str | None,
    metrics_file: str | None,
    as_json: bool,
    verbose: bool,
    **given: str | None,
) -> int:
    """Watch every run below the fleet root, and send an alert when one dies or recovers.

    Without --once, makes a pass each --interval (LASTBEAT_INTERVAL_SECONDS) until Ctrl-C, which lets the current pass
    finish.
    """
    logs.verbose(on=verbose)
    if dry_run:
        return _dry_run(given, as_json=as_json, metrics=metrics_at or metrics_file)
    settings, exporter = _prepared(given, metrics_at, metrics_file, once=once)
    channels = wire.channels(settings)
    sweep = wire.sweep(settings, channels, clock=steady_clock())
    if not channels and not once:
        log.warning("no channel is set up, so no alert will be sent; set for example SLACK_WEBHOOK_URL")
    shown = Shown(opening.root_url(settings), as_json=as_json)
    if exporter is not None:
        exporter.start()
    if once:
        report = _pass(sweep, exporter)
        shown.show(report)
    else:
        with Stop() as stop:
            shown.left = stop.ask
            report = _follow(partial(_pass, sweep, exporter), shown, stop, settings.fleet.interval_s)
    if exporter is not None:
        exporter.close()
    return report.exit_status


def _dry_run(given: Mapping[str, str | None], *, as_json: bool, metrics: str | None) -> int:
    from lastbeat_cli.sweep.planned import Nobody, Planned  # noqa: PLC0415 - only for a dry run

    faults = [] if metrics is None else ["--dry-run makes one pass that leaves nothing, so no metrics either"]
    settings = _loaded(given, faults)
    channels = wire.channels(settings)
    report = _run(wire.dry_sweep(settings, channels or (Nobody(),), clock=steady_clock()))
    Shown(opening.root_url(settings), as_json=as_json, planned=Planned(channels)).show(report)
    return report.exit_status


def _prepared(
    given: Mapping[str, str | None], metrics_at: str | None, metrics_file: str | None, *, once: bool
) -> "tuple[Settings, Exporter | None]":
    """The settings, and the exporter for Prometheus or None. Raises :class:`SettingsError`."""
    if metrics_at is None and metrics_file is None:
        return _loaded(given, []), None
    from lastbeat_cli.metrics.exporter import Exporter, check_token, wanted  # noqa: PLC0415 - only for metrics

    faults: list[str] = []
    exports = wanted(metrics_at, metrics_file, faults, once=once)
    settings = _loaded(given, faults)
    check_token(exports, settings, faults)
    if faults:
        raise SettingsError(faults)
    return settings, Exporter(exports, settings)


def _loaded(given: Mapping[str, str | None], faults: list[str]) -> Settings:
    settings = values.settings(given, faults, watching=True)
    logs.follow(settings)
    for warning in settings.warnings:
        log.warning("%s", warning)
    return settings


def _follow(make: Callable[[], PassReport], shown: Shown, stop: Stop, interval_s: float) -> PassReport:
    due = time.monotonic()
    while True:
        report = make()
        shown.show(report)
        due = next_due(due, time.monotonic(), interval_s)
        if stop.asked:
            return report
        if stop.wait(due - time.monotonic()):
            return report


def _pass(sweep: Sweeper, exporter: "Exporter | None") -> PassReport:
    report = _run(sweep)
    if exporter is not None:
        exporter.tell(report)
    return report


def _run(sweep: Sweeper) -> PassReport:
    # A hanging read must not block the sweep. Runs that this pass had no time for come first in the next one.
    with ProgressLine() as progress:
        return sweep.run(deadline=time.monotonic() + PASS_LIMIT_S, progress=progress.runs)
