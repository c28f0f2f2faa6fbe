"""Options of the command line as values. Each function adds what is wrong to ``faults``, so that all faults are
reported at once."""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Final

from lastbeat import settings as configuration
from lastbeat.model.runid import InvalidRunIdError, check_run_id
from lastbeat.model.silence import InvalidSilenceError, check_glob
from lastbeat.model.times import parse_span
from lastbeat.settings import Settings, SettingsError
from lastbeat_cli import logs, options

log = logging.getLogger(__name__)
_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:e[+-]?\d{1,3})?|nan|inf(?:inity)?)", re.IGNORECASE
)
_LEAST_INTERVAL_S, _MOST_INTERVAL_S = 1.0, 3600.0
_LEAST_SINCE_S, _MOST_SINCE_S = 60.0, 3660 * 86400.0
_UNITS: Final = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"))


def settings(
    given: Mapping[str, str | None],
    faults: list[str],
    *,
    watching: bool = False,
    training: bool = False,
    warns: bool = False,
) -> Settings:
    """As :func:`load`. From now on logs follow these settings, and their secrets are masked.

    ``warns`` logs the doubts about these settings, too.
    """
    found = load(given, faults, watching=watching, training=training)
    logs.follow(found)
    for warning in found.warnings if warns else ():
        log.warning("%s", warning)
    return found


def load(
    given: Mapping[str, str | None],
    faults: list[str],
    *,
    watching: bool = False,
    training: bool = False,
    kept: Mapping[str, str] | None = None,
) -> Settings:
    """The settings from the options ``given`` and the environment.

    ``kept`` (name of a setting → text) overrides the environment, and ``given`` overrides both. ``training`` as for
    :func:`lastbeat.settings.load`. Raises :class:`SettingsError` with ``faults`` and all other faults, before any I/O.
    """
    try:
        found = configuration.load({**(kept or {}), **options.arguments(given)}, watching=watching, training=training)
    except SettingsError as wrong:
        raise SettingsError([*faults, *wrong.faults]) from None
    if faults:
        raise SettingsError(faults)
    return found


def run_id(text: str, faults: list[str]) -> str:
    """The checked run id, empty with a fault."""
    try:
        return check_run_id(text)
    except InvalidRunIdError as fault:
        faults.append(str(fault))
        return ""


def named_run(text: str | None, faults: list[str]) -> str:
    """As :func:`run_id`, of a run that has to be named."""
    if text is None:
        faults.append(options.missing_run())
        return ""
    return run_id(text, faults)


def whole(name: str, text: str | None, faults: list[str], *, least: int = 0) -> int | None:
    """A whole number of at least ``least``, or None. ``name`` is the option's."""
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 15 and int(text) >= least:
        return int(text)
    faults.append(f"{name}={text[:80]!r} is not a whole number from {least} on; use for example {max(least, 1)}000")
    return None


def count(name: str, text: str, faults: list[str], most: int) -> int:
    """A whole number from 0 to ``most``."""
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= most:
        return int(text)
    faults.append(f"{name}={text[:40]!r} is not a whole number up to {most:,}; use for example {name} 100")
    return 0


def number(name: str, text: str | None, faults: list[str]) -> float | None:
    """A number, or None. It may be nan or inf, as a loss may be."""
    if text is None:
        return None
    if _NUMBER.fullmatch(text.strip()):
        return float(text)
    faults.append(f"{name}={text[:80]!r} is not a number; use for example 2.5")
    return None


def span(  # noqa: PLR0913 - a value, its limits and how people write it
    name: str, text: str, faults: list[str], *, least_s: float, most_s: float, like: str, unit_s: float | None = 1.0
) -> float:
    """The value of an option that is a span, in seconds: ``30s``, ``1h30m``, or a bare number of ``unit_s`` seconds.

    ``like`` is an example for the fault. Without ``unit_s`` a bare number is one. Returns ``least_s`` with a fault.
    """
    found = parse_span(text, unit_s)
    if found is not None and least_s <= found <= most_s:
        return found
    bounds = f"{_short(least_s)} to {_short(most_s)}"
    faults.append(f"{name}={text[:80]!r} is not a time from {bounds}; use for example {like}")
    return least_s


def _short(seconds: float) -> str:
    return next((f"{seconds / unit_s:g}{unit}" for unit_s, unit in _UNITS if seconds and seconds % unit_s == 0),
                f"{seconds:g}s")  # fmt: skip


def interval(
    text: str, faults: list[str], *, least: float = _LEAST_INTERVAL_S, most: float = _MOST_INTERVAL_S
) -> float:
    """The value of ``--interval`` in seconds, from ``least`` to ``most``."""
    return span("--interval", text, faults, least_s=least, most_s=most, like="5 or 1m")


def since(text: str, faults: list[str]) -> float:
    """The value of ``--since`` in seconds."""
    return span("--since", text, faults, least_s=_LEAST_SINCE_S, most_s=_MOST_SINCE_S, like="24h or 7d", unit_s=None)


def check_globs(globs: Iterable[str], faults: list[str]) -> None:
    """Add what is wrong with each of ``globs``, patterns of run ids."""
    faults += filter(None, map(_glob_fault, globs))


def _glob_fault(glob: str) -> str:
    try:
        check_glob(glob)
    except InvalidSilenceError as fault:
        return str(fault)
    return ""
