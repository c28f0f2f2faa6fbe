"""What the commands that report a run have in common."""

from collections.abc import Mapping

from lastbeat import training
from lastbeat.model.runid import InvalidRunIdError, check_run_id
from lastbeat.sdk.reporter import RunEnvironment
from lastbeat_cli import logs, values

WHAT = "What is reported"
EPILOG = """\
\b
Exit status:
  0  it was written
  3  it could not be written; also wrong settings or arguments
"""


def run_id(text: str | None, faults: list[str]) -> str:
    """The run id, checked; what is wrong with it is added to ``faults``."""
    if text is None:
        faults.append("--run-id is missing; use for example --run-id mistral-20250804-171621")
        return ""
    try:
        return check_run_id(text)
    except InvalidRunIdError as fault:
        faults.append(str(fault))
        return ""


def environment(given: Mapping[str, str | None], faults: list[str]) -> RunEnvironment:
    """The fleet root to report to. Raises :class:`SettingsError` with ``faults`` and what else is wrong."""
    settings = values.settings(given, faults)
    logs.follow(settings)
    return training.run_environment(settings)
