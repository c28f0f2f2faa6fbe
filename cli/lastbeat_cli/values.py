"""Options of the command line as values. Each function adds what is wrong to ``faults``, so that all faults are
reported at once."""

import re
from collections.abc import Mapping
from typing import Final

from lastbeat import settings as configuration
from lastbeat.model.silence import InvalidSilenceError, check_glob
from lastbeat.model.times import parse_duration
from lastbeat.settings import Settings, SettingsError
from lastbeat_cli import options

_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:e[+-]?\d{1,3})?|nan|inf(?:inity)?)", re.IGNORECASE
)
_LEAST_INTERVAL_S, _MOST_INTERVAL_S = 1.0, 3600.0
_LEAST_SINCE_S, _MOST_SINCE_S = 60.0, 3660 * 86400.0


def settings(
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


def interval(text: str, faults: list[str], *, least: float = _LEAST_INTERVAL_S) -> float:
    """The value of ``--interval`` in seconds, at least ``least``."""
    found = number("--interval", text, faults)
    if found is None:
        return least
    if not least <= found <= _MOST_INTERVAL_S:
        faults.append(
            f"--interval={text[:40]!r} is not from {least:g} to {_MOST_INTERVAL_S:g} seconds; use for example 5"
        )
    return found


def since(text: str, faults: list[str]) -> float:
    """The value of ``--since`` in seconds."""
    length = parse_duration(text)
    seconds = length.total_seconds() if length is not None else 0.0
    if not _LEAST_SINCE_S <= seconds <= _MOST_SINCE_S:
        faults.append(f"--since={text[:40]!r} is not a time from 1m to ten years; use for example 24h or 7d")
    return seconds


def glob_fault(glob: str) -> str:
    """What is wrong with a glob of run ids; empty if it is valid."""
    try:
        check_glob(glob)
    except InvalidSilenceError as fault:
        return str(fault)
    return ""
