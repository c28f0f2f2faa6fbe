"""What the commands that report a run have in common."""

import logging
import os
import platform
import sys
from collections.abc import Mapping

from lastbeat import training
from lastbeat.model import runid
from lastbeat.model.runid import InvalidRunIdError, check_run_id
from lastbeat.sdk.ranks import Rank
from lastbeat.sdk.reporter import RunEnvironment
from lastbeat.sdk.run_ids import job_run_id, own_run_id
from lastbeat_cli import logs, options, values

log = logging.getLogger(__name__)

WHAT = "What is reported"
EPILOG = """\
\b
Exit status:
  0  it was written
  3  it could not be written; also wrong settings or arguments
"""


of_run = options.option(
    "--run-id", metavar="ID", group=WHAT, help="The run: its folder's name below the fleet root [the scheduler's job]."
)


def run_id(text: str | None, faults: list[str]) -> str:
    """The run id, checked, without one that of the scheduler's job; what is wrong with it is added to ``faults``."""
    text = job_run_id(os.environ) if text is None else text
    if text is None:
        faults.append("--run-id is missing; use for example --run-id mistral-20250804-171621")
        return ""
    try:
        return check_run_id(text)
    except InvalidRunIdError as fault:
        faults.append(str(fault))
        return ""


def named_run_id(text: str | None, program: str) -> tuple[str, str]:
    """The id of the run of ``program`` that its user calls ``text``, and what to say of that; blank is no name."""
    if text is not None and text.strip():
        return runid.safe_run_id(text)
    return runid.safe_run_id(own_run_id(os.environ, program, platform.node(), Rank()))


def tell(url: str, name: str, given: Mapping[str, str | None]) -> None:
    """Tell people on stderr of which run is reported, for those who gave it no id. ``given`` are the arguments."""
    print(logs.redact(training.told_place(url, name, given=given.get("root") is not None)), file=sys.stderr, flush=True)


def environment(given: Mapping[str, str | None], faults: list[str]) -> RunEnvironment:
    """The fleet root to report to. Raises :class:`SettingsError` with ``faults`` and what else is wrong."""
    settings = values.settings(given, faults, training=True)
    logs.follow(settings)
    for line in settings.ignored_told():
        log.warning("%s", line)
    return training.run_environment(settings)
