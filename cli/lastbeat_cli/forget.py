"""``forget``: remove lastbeat's records of runs, and with ``--delete`` also their files."""

import click

from lastbeat.fleet.leaving import Leaving, Removed
from lastbeat.model.amounts import size
from lastbeat.model.silence import is_pattern
from lastbeat.model.text import counted, one_line
from lastbeat.settings import opening
from lastbeat.views.choosing import choose
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.author import author
from lastbeat_cli.document import tell
from lastbeat_cli.taken_out import confirm, refuse_the_living

WHAT = "What to forget"
EPILOG = """\
Exit status:
  0  done, or not confirmed
  3  not done because of an error; also wrong settings or arguments

Examples:
  lastbeat forget mistral-20250804-171612
  lastbeat forget 'test-*' --delete
"""


@click.command("forget", cls=options.Grouped, epilog=EPILOG)
@options.argument("runs", "RUN...", "Ids or quoted globs.", group=WHAT)
@options.option("--delete", "Delete training's files, too: the whole folder of each run.", WHAT)
@options.option("--force", "Include runs that are alive.")
@options.option("--yes", "Do not ask.")
@options.place
@options.form
def command(
    *,
    runs: tuple[str, ...],
    delete: bool,
    force: bool,
    yes: bool,
    as_json: bool,
    **given: str | None,
) -> int:
    """Remove lastbeat's records of runs: status, history, alerts. This also removes a mistyped run.

    Training's files stay, and passes ignore them; if training writes again, that is a new run. With --delete the whole
    folder of the run is deleted, including checkpoints. Links are deleted, not their targets.
    """
    faults: list[str] = []
    values.check_globs(runs, faults)
    settings = values.settings(given, faults)
    store = opening.store(settings)
    chosen = choose(settings, store, runs)
    if not force:
        refuse_the_living(chosen, "forget")
    what = counted(len(chosen), "run")
    question = f"Forget {what} and delete all of their files?" if delete else f"Forget {what}?"
    if (delete or any(map(is_pattern, runs))) and not confirm(chosen, question, yes=yes):
        return exits.OK
    leaving = Leaving(store, author(), opening.state(settings))
    told: list[dict[str, object]] = []
    for run in chosen:
        removed = leaving.forget(run.run_id, alive=run.beat_s is not None, delete=delete)
        told.append({"run_id": run.run_id, "files": removed.count, "bytes": removed.size_bytes})
        if not as_json:
            gone = f", deleted {_files(removed)}" if delete else ""
            print(one_line(logs.redact(f"Forgotten: {run.run_id} ({run.status}){gone}")), flush=True)
    leaving.tidy([run.run_id for run in chosen])
    if as_json:
        tell({"forgotten": told}, (), as_json=True)
    return exits.OK


def _files(removed: Removed) -> str:
    return f"{counted(removed.count, 'file')} ({size(removed.size_bytes)})"
