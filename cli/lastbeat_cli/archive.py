"""``archive``: hide runs from passes and from the fleet; they stay readable."""

from concurrent.futures import ThreadPoolExecutor

import click

from lastbeat.fleet.leaving import Leaving
from lastbeat.model.codec import DamagedError
from lastbeat.model.record import Record
from lastbeat.model.runid import RECORD
from lastbeat.model.silence import is_pattern
from lastbeat.model.text import counted
from lastbeat.model.times import format_time
from lastbeat.settings import opening
from lastbeat.stores.port import Store, StoreError
from lastbeat.views.choosing import choose
from lastbeat.watch.record.codec import RECORD_LIMIT_BYTES, decode_record
from lastbeat_cli import exits, options, values
from lastbeat_cli.author import author
from lastbeat_cli.document import tell
from lastbeat_cli.taken_out import confirm, refuse_the_living

WHAT = "What to archive"
EPILOG = """\
Exit status:
  0  done, or not confirmed
  3  not done because of an error; also wrong settings or arguments

Examples:
  lastbeat archive mistral-20250804-171621
  lastbeat archive 'mistral-2025*' --yes
  lastbeat archive --remove mistral-20250804-171621
"""


@click.command("archive", cls=options.Grouped, epilog=EPILOG)
@options.argument("runs", "[RUN]...", "Ids or quoted globs.", group=WHAT)
@options.option("--remove", "Return these runs to the fleet.", WHAT, name="undo", also=("--undo",))
@options.option("--list", "List the archived runs.", WHAT, name="listed")
@options.option("--force", "Include runs that are alive.")
@options.option("--yes", "Do not ask.")
@options.place
@options.form
def command(
    *,
    runs: tuple[str, ...],
    undo: bool,
    listed: bool,
    force: bool,
    yes: bool,
    as_json: bool,
    **given: str | None,
) -> int:
    """Hide runs from passes, alerts and the view of the fleet. 'lastbeat show' still shows them.

    An archived run returns when training writes to it again; a run that was alive returns with its next attempt.
    Pending alerts of archived runs are not sent.
    """
    faults: list[str] = []
    values.check_globs(runs, faults)
    if bool(runs) == listed:
        faults.append("ask for one thing: RUN…, or --list")
    settings = values.settings(given, faults)
    store = opening.store(settings)
    leaving = Leaving(store, author(), opening.state(settings))
    if listed:
        return _list(store, as_json=as_json)
    chosen = choose(settings, store, runs)
    if undo:
        done = [run.run_id for run in chosen if leaving.undo(run.run_id)]
        if not done:
            raise StoreError("none of these runs is archived", "see what is: lastbeat archive --list")
        tell({"undone": done}, (f"Back in the fleet: {run_id}" for run_id in done), as_json=as_json)
        return exits.OK
    unseen = [run.run_id for run in chosen if run.view is None]
    if unseen:
        raise StoreError(f"no watcher has seen {unseen[0]}: there is nothing to keep", f"lastbeat forget {unseen[0]}")
    if not force:
        refuse_the_living(chosen, "archive")
    many = f"Archive {counted(len(chosen), 'run')}?"
    if any(map(is_pattern, runs)) and not confirm(chosen, many, yes=yes):
        return exits.OK
    told = []
    for run in chosen:
        dropped = leaving.archive(run.run_id, alive=run.beat_s is not None)
        unsent = f"; {counted(dropped, 'alert that waited is', 'alerts that waited are')} not sent" if dropped else ""
        told.append(f"Archived: {run.run_id} ({run.status}){unsent}")
    tell({"archived": [run.run_id for run in chosen]}, told, as_json=as_json)
    return exits.OK


def _list(store: Store, *, as_json: bool) -> int:
    def read(run_id: str) -> Record | None:
        blob = store.read(f"{run_id}/{RECORD}", RECORD_LIMIT_BYTES)
        try:
            return None if blob is None else decode_record(blob.body)
        except DamagedError:
            return None  # The fleet shows such a run, with what is wrong.

    names = sorted(name for name in store.folders() if not name.startswith("_"))
    with ThreadPoolExecutor(8) as pool:
        records = [record for record in pool.map(read, names) if record is not None]
    held = [(each.run_id, each.left_out) for each in records if each.left_out and not each.left_out.forgotten]
    told = [f"{run_id} since {format_time(left.at.replace(microsecond=0))}, by {left.by}" for run_id, left in held]
    rows = [{"run_id": run_id, "at": format_time(left.at), "by": left.by} for run_id, left in held]
    tell({"archived": rows}, told or [f"no run in {store.url} is archived"], as_json=as_json)
    return exits.OK
