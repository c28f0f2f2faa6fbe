"""``restart RUN``: continue a recorded supervision."""

import click

from lastbeat.jobs.supervision.configured import supervise
from lastbeat.model.record import Record
from lastbeat.model.restart import Supervision
from lastbeat.model.text import near_names
from lastbeat.settings import Settings, SettingsError
from lastbeat.stores import run_names
from lastbeat.stores.port import MissingStoreError
from lastbeat_cli import options, values
from lastbeat_cli.commands import restart
from lastbeat_cli.run import one_run
from lastbeat_cli.supervise import asked, following, plan
from lastbeat_cli.supervise.following import Manner

_EPILOG = f"""\
{following.EXITS}
Examples:
  lastbeat restart llama
  lastbeat restart llama --dry-run
"""


@click.command("resume", cls=options.Grouped, epilog=_EPILOG)
@options.run(one_run.WHAT, "The supervised run.", older="--resume")
@options.place
@options.option("--interval SECONDS", "Time between two passes [as it was begun].")
@click.option("--submit-only", is_flag=True, hidden=True)
@following.cancel_on_exit
@options.option("--dry-run", "Print the next job and its checkpoint, and start nothing.")
@asked.overrides
@options.form
def command(
    *,
    run_id: str | None,
    interval: str | None,
    submit_only: bool,
    cancel_on_exit: bool,
    dry_run: bool,
    as_json: bool,
    **given: str | None,
) -> int:
    """Continue the supervision of RUN, on any machine. 'lastbeat restart RUN' is the same.

    It goes on as it was begun. To change the command or the policy, begin again once the job has ended: 'lastbeat
    restart supervise'.
    """
    following.log_progress()
    faults: list[str] = []
    if run_id is None:
        raise click.UsageError(options.missing_run())
    interval_s = 0.0 if interval is None else values.interval(interval, faults, least=0.1)
    name = asked.checked(run_id, faults)
    settings = values.settings(given, faults, watching=True)
    record, supervision = _recorded(settings, name)
    if dry_run:
        settings = asked.as_recorded(given, supervision)
        supervised = supervise(settings, name, supervision, asked.restart_policy(settings, supervision))
        return plan.show(settings, supervised, supervision, record, as_json=as_json)
    manner = Manner(interval_s, as_json=as_json, submit_only=submit_only, cancel_on_exit=cancel_on_exit)
    return following.supervise(settings, name, given, manner, following.new_lease())


def _recorded(settings: Settings, run_id: str) -> tuple[Record, Supervision]:
    """The run's record and its supervision. Raises :class:`SettingsError` if the run is not supervised, and
    :class:`StoreError` if there is no such run."""
    found = asked.repository(settings, run_id)
    # A mistyped command is taken for a run.
    commands = [f"lastbeat restart {each}" for each in near_names(run_id, restart.entries, cutoff=0.7)]
    try:
        record = found.reload()
        if record is None and not found.store.list(f"{run_id}/", limit=1).entries:
            raise run_names.unknown(found.store, run_id, commands)
    except MissingStoreError:
        if commands:
            raise run_names.unknown(found.store, run_id, commands) from None
        raise
    if record is None or record.supervision is None:
        raise SettingsError([asked.not_supervised(run_id)])
    return record, record.supervision
