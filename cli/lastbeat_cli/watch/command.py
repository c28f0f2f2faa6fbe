"""``watch``: its options. The rest is imported when it is called, so that ``--help`` is fast."""

import click

from lastbeat_cli import logs, options

WHAT = "What to watch"
EPILOG = """\
\b
Exit status, by the convention of monitoring plug-ins:
  0  RUNNING without conditions, or SUCCEEDED
  1  RUNNING (WARNING), SUCCEEDED with a loss that is no number, or PREEMPTED
  2  FAILED, TIMED_OUT or CANCELLED
  3  UNKNOWN: the run could not be observed; also wrong settings or arguments

\b
Example:
  lastbeat watch mistral-20250804-171621 --bucket my-bucket --once

Every setting can also come from the environment or from a .env file in the current folder; .env.example
lists them all.
"""


@click.command("watch", cls=options.Grouped, epilog=EPILOG, context_settings=options.HELP)
@options.run(WHAT)
@options.option("--once", is_flag=True, group=WHAT, help="Make one pass, for cron and Nagios.")
@options.option("--interval", metavar="SECONDS", default="60", group=WHAT, help="Time between two passes [60].")
@options.option("--stale-minutes", metavar="N", group=WHAT, help="A heartbeat older than this is stale [10].")
@options.place
@options.option(
    "--log", multiple=True, metavar="PATH", group=options.LOGS, help="A log file on this machine; repeatable."
)
@options.signals
@options.people
@options.option(
    "--dry-run",
    is_flag=True,
    help="Write and send nothing; print the alerts, or with --json their payloads.",
)
@options.form
def command(  # noqa: PLR0913 - each is an option
    *,
    run_id: str | None,
    once: bool,
    interval: str,
    log: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    verbose: bool,
    **given: str | None,
) -> int:
    """Watch one training run: print its status, and send an alert when that changes.

    Without --once, watches until the run is SUCCEEDED, FAILED, TIMED_OUT, CANCELLED or PREEMPTED and its alerts are
    delivered, or until Ctrl-C.
    """
    from lastbeat_cli.watch.watching import watch_run  # noqa: PLC0415 - see above

    logs.verbose(on=verbose)
    told = {**given, "log": ",".join(log) if log else None}
    return watch_run(told, run_id=run_id, once=once, interval=interval, dry_run=dry_run, as_json=as_json)
