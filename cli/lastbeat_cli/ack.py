"""``ack``: say that a person looks after a run that needs attention."""

import click

from lastbeat.model.silence import InvalidSilenceError, check_why
from lastbeat.settings import opening
from lastbeat.stores.port import StoreError
from lastbeat.views.acting.acknowledging import acknowledge_runs
from lastbeat.views.choosing import choose
from lastbeat.watch.record.acknowledging import withdraw
from lastbeat_cli import exits, options, values
from lastbeat_cli.author import author
from lastbeat_cli.document import tell

WHAT = "What to acknowledge"
EPILOG = """\
Exit status:
  0  done
  3  not done because of an error; also wrong settings or arguments

Examples:
  lastbeat ack mistral-20250804-171621 --note 'bad node, moving it'
  lastbeat ack 'mistral-*'
  lastbeat ack --remove mistral-20250804-171621
"""


@click.command("ack", cls=options.Grouped, epilog=EPILOG)
@options.argument("runs", "RUN...", "Ids or quoted globs.", group=WHAT)
@options.option("--note TEXT", "What you found, or do about it [none].", WHAT, default="")
@options.option("--remove", "Withdraw the acknowledgement of these runs.", WHAT, name="undo")
@options.place
@options.form
def command(*, runs: tuple[str, ...], note: str, undo: bool, as_json: bool, **given: str | None) -> int:
    """Acknowledge runs that failed, fell silent or have a warning: you look after them.

    Every view shows who acknowledged a run, and the run no longer counts among those that need attention. The next
    transition and the next new warning end that, and are alerted as always.
    """
    faults: list[str] = []
    values.check_globs(runs, faults)
    if undo and note:
        faults.append("--note belongs to an acknowledgement, not to --remove")
    try:
        check_why(note)
    except InvalidSilenceError as fault:
        faults.append(f"--note: {fault}")
    settings = values.settings(given, faults)
    store = opening.store(settings)
    if undo:
        done = [run.run_id for run in choose(settings, store, runs) if withdraw(store, run.run_id, author())]
        if not done:
            raise StoreError("none of these runs is acknowledged", "'lastbeat fleet' shows which are")
        tell({"withdrawn": done}, (f"Withdrawn: {name}" for name in done), as_json=as_json)
        return exits.OK
    names, about = acknowledge_runs(settings, store, runs, check_why(note), author())
    document = {"acknowledged": names, "by": about.by, "note": about.note}
    tell(document, (f"Acknowledged: {name}" for name in names), as_json=as_json)
    return exits.OK
