"""``watch``: its options."""

import click

from lastbeat_cli import options, watch

WHAT = "What to watch"
METRICS = "Metrics of a fleet, for Prometheus"
EPILOG = """\
Exit status, by the convention of monitoring plug-ins; of a fleet the worst of
the last pass, of runs that are running or ended within a day:
  0  RUNNING without conditions, or SUCCEEDED
  1  RUNNING (WARNING), SUCCEEDED with a loss that is no number, or PREEMPTED
  2  FAILED, TIMED_OUT or CANCELLED
  3  UNKNOWN: it could not be observed; also wrong settings or arguments

Example:
  lastbeat watch mistral-20250804-171621 --bucket my-bucket --once
  lastbeat watch --bucket my-bucket

Any number of watches may run at once: each transition is decided and reported once.

Every setting can also come from the environment or from a .env file in the current folder; .env.example
lists them all.
"""


@click.command("watch", cls=options.Grouped, epilog=EPILOG)
@options.run(WHAT, "The run: its folder's name below the fleet root [every run of the fleet].")
@options.option("--once", "Make one pass, for cron and Nagios.", WHAT)
@options.option("--interval SECONDS", "Time between two passes [60]; of a fleet with --once, two calls.", WHAT)
@options.stale_minutes(WHAT)
@options.whole_place
@options.option("--log PATH", "A log file of RUN on this machine; repeatable.", options.LOGS, multiple=True)
@options.signals
@options.people
@options.option(
    "--metrics [HOST:]PORT", "Serve /metrics, only to this machine unless HOST is given.", METRICS, name="metrics_at"
)
@options.option("--metrics-file PATH", "Write a .prom file for node-exporter's textfile collector.", METRICS)
@options.option(
    "--dry-run", "Write and send nothing; print the alerts, or with --json their payloads. Of a fleet: one pass."
)
@options.form
def command(  # noqa: PLR0913 - each is an option
    *,
    run_id: str | None,
    once: bool,
    interval: str | None,
    log: tuple[str, ...],
    metrics_at: str | None,
    metrics_file: str | None,
    dry_run: bool,
    as_json: bool,
    **given: str | None,
) -> int:
    """Watch one training run, or every run of the fleet: print its status, and send an alert when that changes.

    Without --once, watches RUN until it is SUCCEEDED, FAILED, TIMED_OUT, CANCELLED or PREEMPTED and its alerts are
    delivered, or until Ctrl-C. A fleet is watched until Ctrl-C, which lets the current pass finish.
    """
    told = {**given, "log": ",".join(log) if log else None}
    faults: list[str] = []
    # cli/monitor.py, whose command has no parent, watches one run.
    if run_id is None and click.get_current_context().parent is not None:
        if log:
            faults.append("--log is a log of one run; name the run, too")
        return watch.sweeping.sweep_fleet(
            {**told, "interval": interval},
            faults,
            metrics_at,
            metrics_file,
            once=once,
            dry_run=dry_run,
            as_json=as_json,
        )
    if metrics_at is not None or metrics_file is not None:
        faults.append("--metrics and --metrics-file are of a fleet; leave the run out, or them")
    return watch.watching.watch_run(
        told, faults, run_id=run_id, once=once, interval=interval or "60", dry_run=dry_run, as_json=as_json
    )
