"""``watch`` without a run: watches the whole fleet, once or until stopped."""

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from lastbeat.fleet.configured import configured_sweep, dry_sweep
from lastbeat.model.fleet import PassReport
from lastbeat.settings import Settings, SettingsError, opening
from lastbeat.settings.channels import configured_channels
from lastbeat.stores.clock import next_due, steady_clock
from lastbeat.views.left_gists import left_for_views
from lastbeat_cli import metrics, values, watch
from lastbeat_cli.loop import Stop
from lastbeat_cli.terminal.progress_line import ProgressLine
from lastbeat_cli.watch.passes import Shown

if TYPE_CHECKING:
    from lastbeat.fleet.sweep import Sweep
    from lastbeat_cli.metrics.exporter import Exporter

log = logging.getLogger(__name__)

PASS_LIMIT_S = 900.0
"""Longest time of one pass, in seconds."""


def sweep_fleet(  # noqa: PLR0913 - each is an option
    given: Mapping[str, str | None],
    faults: list[str],
    metrics_at: str | None,
    metrics_file: str | None,
    *,
    once: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Watch every run below the fleet root. ``given`` are the options that are settings. Returns the exit status.

    Raises :class:`SettingsError` with ``faults`` and all others, before any I/O.
    """
    if dry_run:
        if metrics_at or metrics_file:
            faults.append("--dry-run makes one pass that leaves nothing, so no metrics either")
        return _dry_run(given, faults, as_json=as_json)
    settings, exporter = _prepared(given, faults, metrics_at, metrics_file, once=once)
    channels = configured_channels(settings)
    sweeper = configured_sweep(settings, channels, clock=steady_clock(), make_views=left_for_views)
    if not channels and not once:
        log.warning("no channel is set up, so no alert will be sent; set for example SLACK_WEBHOOK_URL")
    shown = Shown(opening.root_url(settings), as_json=as_json)
    if exporter is not None:
        exporter.start()
    if once:
        report = _pass(sweeper, exporter)
        shown.show(report)
    else:
        with Stop() as stop:
            shown.left = stop.ask
            report = _follow(partial(_pass, sweeper, exporter), shown, stop, settings.fleet.interval_s)
    if exporter is not None:
        exporter.close()
    return report.exit_status


def _dry_run(given: Mapping[str, str | None], faults: list[str], *, as_json: bool) -> int:
    settings = values.settings(given, faults, watching=True, warns=True)
    channels = configured_channels(settings)
    report = _run(dry_sweep(settings, channels or (watch.preview.Nobody(),), clock=steady_clock()))
    Shown(opening.root_url(settings), as_json=as_json, planned=watch.preview.Planned(channels)).show(report)
    return report.exit_status


def _prepared(
    given: Mapping[str, str | None], faults: list[str], metrics_at: str | None, metrics_file: str | None, *, once: bool
) -> "tuple[Settings, Exporter | None]":
    """The settings, and the exporter for Prometheus or None. Raises :class:`SettingsError`."""
    if metrics_at is None and metrics_file is None:
        return values.settings(given, faults, watching=True, warns=True), None
    exports = metrics.exporter.wanted(metrics_at, metrics_file, faults, once=once)
    settings = values.settings(given, faults, watching=True, warns=True)
    metrics.exporter.check_token(exports, settings, faults)
    if faults:
        raise SettingsError(faults)
    return settings, metrics.exporter.Exporter(exports, settings)


def _follow(make: Callable[[], PassReport], shown: Shown, stop: Stop, interval_s: float) -> PassReport:
    due = time.monotonic()
    while True:
        report = make()
        shown.show(report)
        due = next_due(due, time.monotonic(), interval_s)
        if stop.wait(due - time.monotonic()):
            return report


def _pass(sweeper: "Sweep", exporter: "Exporter | None") -> PassReport:
    report = _run(sweeper)
    if exporter is not None:
        exporter.tell(report)
    return report


def _run(sweeper: "Sweep") -> PassReport:
    # A hanging read must not block the sweep. Runs that this pass had no time for come first in the next one.
    with ProgressLine() as progress:
        return sweeper.run(deadline=time.monotonic() + PASS_LIMIT_S, progress=progress.runs)
