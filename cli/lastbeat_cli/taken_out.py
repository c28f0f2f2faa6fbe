"""Asks for confirmation before runs are taken out, for ``archive`` and ``forget``."""

import sys
from collections.abc import Sequence
from typing import Final

import click

from lastbeat.model.text import one_line
from lastbeat.model.times import format_duration
from lastbeat.settings import SettingsError
from lastbeat.stores.port import StoreError
from lastbeat.views.choosing import ChosenRun
from lastbeat_cli import logs

_SHOWN: Final = 20


def refuse_the_living(runs: Sequence[ChosenRun], verb: str) -> None:
    """Raise :class:`StoreError` if one of ``runs`` is alive, or has a job that still runs."""
    living = [run for run in runs if run.beat_s is not None or run.job is not None]
    if living:
        first = living[0]
        more = f", and {len(living) - 1} more" if len(living) > 1 else ""
        beat = f"it beat {format_duration(first.beat_s)} ago" if first.beat_s is not None else None
        what = f"{first.run_id} is alive: {beat or f'job {first.job} still runs'}{more}; nothing was done"
        raise StoreError(what, f"stop it first, or {verb} it all the same with --force")


def confirm(runs: Sequence[ChosenRun], question: str, *, yes: bool) -> bool:
    """List the runs and ask for confirmation. Raises :class:`SettingsError` without a terminal."""
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise SettingsError([f"{question} Nobody can be asked here: say --yes if that is what you want"])
    for run in runs[:_SHOWN]:
        print(one_line(logs.redact(f"  {run.run_id}  {run.status}")))
    if len(runs) > _SHOWN:
        print(f"  … and {len(runs) - _SHOWN} more")
    return click.confirm(question, default=False)
