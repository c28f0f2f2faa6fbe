"""Shared by the commands that report a run."""

import logging
import os
import platform
import sys
from collections.abc import Mapping

from lastbeat.model import runid
from lastbeat.training import entry as training
from lastbeat.training import features
from lastbeat.training.sdk.beat_tasks import RunEnvironment
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.run_ids import job_run_id, own_run_id
from lastbeat_cli import logs, options, values

log = logging.getLogger(__name__)

WHAT = "What to report"
EPILOG = """\
\b
Exit status:
  0  the report was written
  3  the report could not be written; also wrong settings or arguments
"""


of_run = options.run(WHAT, "The run: its folder's name below the fleet root [the scheduler's job].")


def named_run(text: str | None, faults: list[str]) -> str:
    """The checked run id ``text``, which has to be given. Adds what is wrong with it to ``faults``."""
    return values.run_id(text, faults) if text is not None else _missing(faults)


def run_id(text: str | None, faults: list[str]) -> str:
    """The checked run id, by default that of the scheduler's job. Adds what is wrong with it to ``faults``."""
    text = job_run_id(os.environ) if text is None else text
    return values.run_id(text, faults) if text is not None else _missing(faults)


def _missing(faults: list[str]) -> str:
    faults.append(options.missing_run())
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
    for line in settings.ignored_told():
        log.warning("%s", line)
    return features.run_environment(settings)
