"""Shared by the commands that report a run."""

import logging
import os
import platform
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

import click

from lastbeat.model import runid
from lastbeat.model.runid import InvalidRunIdError, check_run_id
from lastbeat.training import entry as training
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.reporter import RunEnvironment
from lastbeat.training.sdk.run_ids import job_run_id, own_run_id
from lastbeat_cli import logs, options, values

log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])

WHAT = "What to report"
EPILOG = """\
\b
Exit status:
  0  the report was written
  3  the report could not be written; also wrong settings or arguments
"""


def of_run(command: F) -> F:
    """The run as RUN or as ``--run-id``, by default the scheduler's job: ``command`` gets ``run_id``, perhaps None."""
    return _with_run(command, WHAT, "The run: its folder's name below the fleet root [the scheduler's job].")


def of_named_run(group: str) -> Callable[[F], F]:
    """The run as RUN or as ``--run-id``, under the heading ``group``: ``command`` gets ``run_id``, perhaps None."""
    return lambda command: _with_run(command, group, "The run: its folder's name below the fleet root.")


def _with_run(command: F, group: str, help_text: str) -> F:
    @wraps(command)
    def with_run(*, run: str | None, run_id: str | None, **rest: object) -> object:
        return command(run_id=one_run(run, run_id), **rest)

    argument = options.argument(
        "run", required=False, metavar="RUN", group=group, listed=("RUN, --run-id RUN", help_text)
    )
    return cast("F", argument(click.option("--run-id", metavar="ID", hidden=True)(with_run)))


def one_run(run: str | None, run_id: str | None) -> str | None:
    """The run that an argument and ``--run-id`` name. Raises :class:`click.UsageError` if they name two."""
    if run is not None and run_id is not None and run != run_id:
        raise click.UsageError(f"RUN ({run[:80]!r}) and --run-id ({run_id[:80]!r}) name two runs: give one of them")
    return run if run is not None else run_id


def named_run(text: str | None, faults: list[str]) -> str:
    """The checked run id ``text``, which has to be given. Adds what is wrong with it to ``faults``."""
    return _checked(text, faults) if text is not None else _missing(faults)


def run_id(text: str | None, faults: list[str]) -> str:
    """The checked run id, by default that of the scheduler's job. Adds what is wrong with it to ``faults``."""
    text = job_run_id(os.environ) if text is None else text
    return _checked(text, faults) if text is not None else _missing(faults)


def _missing(faults: list[str]) -> str:
    faults.append("--run-id is missing; name the run, for example mistral-20250804-171621")
    return ""


def _checked(text: str, faults: list[str]) -> str:
    try:
        return check_run_id(text)
    except InvalidRunIdError as fault:
        faults.append(str(fault))
        return ""


def named_run_id(text: str | None, program: str) -> tuple[str, str]:
    """The run id made from ``text``, or from job and ``program`` if it is blank, and a note if it was changed."""
    if text is not None and text.strip():
        return runid.safe_run_id(text)
    return runid.safe_run_id(own_run_id(os.environ, program, platform.node(), Rank()))


def tell(url: str, name: str, given: Mapping[str, str | None]) -> None:
    """Print to stderr which run is reported, if the user gave no id. ``given`` are the arguments."""
    print(logs.redact(training.told_place(url, name, given=given.get("root") is not None)), file=sys.stderr, flush=True)


def environment(given: Mapping[str, str | None], faults: list[str]) -> RunEnvironment:
    """The environment of the report, with its store. Raises :class:`SettingsError` with ``faults`` and all other
    faults."""
    settings = values.settings(given, faults, training=True)
    logs.follow(settings)
    for line in settings.ignored_told():
        log.warning("%s", line)
    return training.run_environment(settings)
