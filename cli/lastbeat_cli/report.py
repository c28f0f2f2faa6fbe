"""What the commands that report a run have in common."""

import re
from collections.abc import Mapping

from lastbeat import settings as configuration
from lastbeat import wire
from lastbeat.model.runid import InvalidRunIdError, check_run_id
from lastbeat.sdk.reporter import Surroundings
from lastbeat.settings import SettingsError
from lastbeat_cli import logs, options

WHAT = "What is reported"
EPILOG = """\
\b
Exit status:
  0  it was written
  3  it could not be written; also wrong settings or arguments
"""
_NUMBER = re.compile(r"[+-]?(?:(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:e[+-]?\d{1,3})?|nan|inf(?:inity)?)", re.IGNORECASE)


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


def whole(name: str, text: str | None, faults: list[str], *, least: int = 0) -> int | None:
    """A whole number from ``least`` on, or None; ``name`` is the option's."""
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 15 and int(text) >= least:
        return int(text)
    faults.append(f"{name}={text[:80]!r} is not a whole number from {least} on; use for example {max(least, 1)}000")
    return None


def number(name: str, text: str | None, faults: list[str]) -> float | None:
    """A number, which may be nan or inf as a loss may be; or None."""
    if text is None:
        return None
    if _NUMBER.fullmatch(text.strip()):
        return float(text)
    faults.append(f"{name}={text[:80]!r} is not a number; use for example 2.5")
    return None


def around(given: Mapping[str, str | None], faults: list[str]) -> Surroundings:
    """The fleet root to report to. Raises :class:`SettingsError` with ``faults`` and what else is wrong."""
    try:
        settings = configuration.load(options.arguments(given))
    except SettingsError as wrong:
        raise SettingsError([*faults, *wrong.faults]) from None
    if faults:
        raise SettingsError(faults)
    logs.hide(wire.redactor(settings))
    return wire.surroundings(settings)
