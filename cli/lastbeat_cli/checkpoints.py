"""``checkpoints``: list the checkpoints in a folder, and the one that a restart would take."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from lastbeat import settings as configuration
from lastbeat.jobs.checkpoints.survey import survey
from lastbeat.model.amounts import size
from lastbeat.model.as_json import picked
from lastbeat.model.checkpoint import Checkpoint, CheckpointSurvey
from lastbeat.model.record import Record
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import counted
from lastbeat.model.times import format_duration, parse_time
from lastbeat.settings import Settings, SettingsError, opening
from lastbeat.stores.port import MissingStoreError
from lastbeat.watch.decide.quarantine import quarantined
from lastbeat.watch.record.repository import RecordRepository
from lastbeat_cli import exits, logs, options, places, values
from lastbeat_cli.document import tell

SHOWN = 20
_EPILOG = """\
Exit status:
  0  there is a complete checkpoint
  1  there is none: a restart would begin at step 0
  3  the folder could not be read; also wrong settings or arguments

Examples:
  lastbeat restart checkpoints /scratch/run-7/checkpoints
  lastbeat restart checkpoints s3://bucket/run-7/ckpt --json | jq -r .chosen.url
  lastbeat restart checkpoints llama
"""


@click.command("checkpoints", cls=options.Grouped, epilog=_EPILOG)
@click.argument("place", metavar="PATH-OR-URL|RUN", required=False)
@options.option(
    "--run-id ID", "A supervised run: its checkpoint folder, unless one is given, and its quarantined checkpoints."
)
@options.option("--crashed-at TIME", "When training died: a checkpoint being written at that time does not count.")
@options.option("--all", f"Show all checkpoints, not only the newest {SHOWN}.", name="everything")
@options.option(
    "--settle SECONDS",
    "Time between two checks of files that were just written [2].",
    type=options.DurationRange(0, 600),
    default=2.0,
)
@options.place
@options.form
def command(
    *,
    place: str | None,
    run_id: str | None,
    crashed_at: str | None,
    everything: bool,
    settle: float,
    as_json: bool,
    **given: str | None,
) -> int:
    """List the checkpoints in PATH-OR-URL, or of a supervised RUN, newest first.

    Says why incomplete ones are incomplete. A name without a slash is a folder if there is one, and else a run.
    """
    is_word = place is not None and run_id is None and _may_be_run(place)
    if is_word:
        place, run_id = None, place
    crashed = parse_time(crashed_at)
    if crashed_at is not None and crashed is None:
        raise SettingsError([f"--crashed-at: {crashed_at!r} is no time; write it as 2026-01-31T12:00:00Z"])
    faults: list[str] = []
    name = values.run_id(run_id, faults) if run_id is not None else None
    if name is not None:
        settings = values.settings(given, faults)
    else:
        settings = configuration.load(options.arguments(given), channels=False)
    record = _supervised(settings, name, is_word=is_word) if name is not None else None
    place = place or (record.supervision.checkpoints if record is not None and record.supervision is not None else None)
    if not place:
        what = (
            "use for example lastbeat checkpoints ckpt, or --run-id of a run that is supervised with --checkpoint-dir"
        )
        raise SettingsError([f"no place is named: {what}"])
    store = opening.place(settings, place)
    kept_from = quarantined(record.restarts) if record is not None else {}
    with places.named_by("name another place"):
        found = survey(store, crashed_at=crashed, quarantined=kept_from, settle_s=settle)
    logs.hide(settings.redactor)
    shown = len(found.checkpoints) if everything else SHOWN
    tell(document(found), map(mask_tokens, lines(found, store.clock(), shown)), as_json=as_json)
    return exits.OK if found.chosen is not None else exits.WARNING


def _may_be_run(place: str) -> bool:
    return "/" not in place and not place.startswith(("~", ".")) and not Path(place).exists()


def _supervised(settings: Settings, run_id: str, *, is_word: bool) -> Record:
    """The record of a supervised run. ``is_word`` says that ``run_id`` may have meant a folder."""
    try:
        record = RecordRepository.of_run(opening.store(settings), run_id).reload()
    except MissingStoreError:
        if not is_word:
            raise
        record = None
    if record is None or record.supervision is None:
        what = "is not supervised, and there is no such folder" if is_word else "is not supervised"
        raise SettingsError([f"{run_id} {what}: name the place of its checkpoints"])
    return record


def document(found: CheckpointSurvey) -> dict[str, Any]:
    """A survey as a JSON document."""
    return {
        "place": found.url,
        "chosen": None if found.chosen is None else _checkpoint_document(found.chosen),
        "checkpoints": [_checkpoint_document(each) for each in found.checkpoints],
        "complete_listing": found.complete_listing,
        "notes": list(found.notes),
    }


def _checkpoint_document(each: Checkpoint) -> dict[str, Any]:
    return {**picked(each, "name url step layout completeness why saved_at files"), "bytes": each.size_bytes}


def lines(found: CheckpointSurvey, now: datetime, most: int) -> list[str]:
    """A survey as lines for people."""
    if not found.checkpoints:
        return [f"{found.url}: no checkpoints; training would begin from the start", *_notes(found)]
    head = f"{found.url}: {counted(len(found.checkpoints), 'checkpoint')}"
    if found.chosen is None:
        head += "; none is complete: training would begin from the start"
    else:
        step = "" if found.chosen.step is None else f" (step {found.chosen.step})"
        head += f"; a restart would take {found.chosen.name}{step}"
    shown = found.checkpoints[:most]
    older = len(found.checkpoints) - len(shown)
    more = [f"  … and {counted(older, 'older one')}; --all shows all"] if older else []
    return [head, *_table(found, shown, now), *more, *_notes(found)]


def _table(found: CheckpointSurvey, shown: Sequence[Checkpoint], now: datetime) -> list[str]:
    width = max(len(each.name) for each in shown)
    rows = []
    for each in shown:
        sign = ">" if each == found.chosen else " "
        age = f"{format_duration(now - each.saved_at)} ago"
        what = f"{size(each.size_bytes)}, {each.layout}"
        rows.append(f"{sign} {each.name:<{width}}  {age:>12}  {what:<24}  {each.completeness.value}: {each.why}")
    return rows


def _notes(found: CheckpointSurvey) -> list[str]:
    return [f"note: {note}" for note in found.notes]
