"""``ack``: say that a person looks after a run that needs attention."""

from collections.abc import Sequence
from dataclasses import replace

import click

from lastbeat.model.record import Acknowledgement
from lastbeat.model.silence import InvalidSilenceError, check_why
from lastbeat.model.view import RunView
from lastbeat.settings import Settings, opening
from lastbeat.stores.port import Store, StoreError
from lastbeat.views.order import NEEDS_PEOPLE, need
from lastbeat.watch.record.acknowledging import acknowledge, withdraw
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.author import author
from lastbeat_cli.document import tell
from lastbeat_cli.taken_out import ChosenRun, choose

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
    chosen = choose(settings, store, runs)
    if undo:
        done = [run.run_id for run in chosen if withdraw(store, run.run_id, author())]
        if not done:
            raise StoreError("none of these runs is acknowledged", "'lastbeat fleet' shows which are")
        tell({"withdrawn": done}, (f"Withdrawn: {name}" for name in done), as_json=as_json)
        return exits.OK
    names, about = _acknowledge(store, chosen, runs, check_why(note))
    document = {"acknowledged": names, "by": about.by, "note": about.note}
    tell(document, (f"Acknowledged: {name}" for name in names), as_json=as_json)
    return exits.OK


def acknowledge_runs(
    settings: Settings, store: Store, runs: Sequence[str], note: str, by: str | None = None
) -> list[str]:
    """Acknowledge those of ``runs`` that need attention, and return their ids. ``by`` is this user unless it says
    otherwise. Raises :class:`StoreError`."""
    return _acknowledge(store, choose(settings, store, runs), runs, note, by)[0]


def _acknowledge(
    store: Store, chosen: Sequence[ChosenRun], asked: Sequence[str], note: str, by: str | None = None
) -> tuple[list[str], Acknowledgement]:
    needy = _needy(chosen, asked)
    # The note is read in the record and on the page, so secrets are masked before it is stored.
    about = Acknowledgement(store.clock(), by or author(), logs.redact(note))
    for run_id, view in needy.items():
        acknowledge(store, run_id, replace(about, transition=view.transitions or 0, conditions=tuple(view.conditions)))
    return list(needy), about


def _needy(chosen: Sequence[ChosenRun], asked: Sequence[str]) -> dict[str, RunView]:
    """Those that need attention. Raises :class:`StoreError` if there is none, or if one that was named does not."""
    needy: dict[str, RunView] = {}
    for run in chosen:
        if run.view is None:
            if run.run_id in asked:
                advice = f"wait for it: lastbeat silence {run.run_id} --for 4h; or: lastbeat forget {run.run_id}"
                raise StoreError(f"{run.run_id} has not started: there is nothing to acknowledge", advice)
        elif need(run.view.row, run.view.at) <= NEEDS_PEOPLE:
            needy[run.run_id] = run.view
        elif run.run_id in asked:
            known = run.view.row.acknowledged is not None
            what = "acknowledged already" if known else f"{run.status}: there is nothing to acknowledge"
            raise StoreError(f"{run.run_id} is {what}", f"see it: lastbeat show {run.run_id}")
    if not needy:
        raise StoreError("none of these runs needs attention", "'lastbeat fleet' shows first the runs that do")
    return needy
