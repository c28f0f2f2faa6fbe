"""What was given on the command line, as values: each of these adds what is wrong to ``faults``, so that all of it is
told at once."""

import re
from collections.abc import Mapping
from typing import Final

from lastbeat import settings as configuration
from lastbeat.settings import Settings, SettingsError
from lastbeat_cli import options

_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:e[+-]?\d{1,3})?|nan|inf(?:inity)?)", re.IGNORECASE
)
_LEAST_INTERVAL_S, _MOST_INTERVAL_S = 1.0, 3600.0


def settings(given: Mapping[str, str | None], faults: list[str], *, watching: bool = False) -> Settings:
    """The settings that the options ``given`` and the environment make. Raises :class:`SettingsError` with ``faults``
    and what else is wrong, before any I/O."""
    try:
        found = configuration.load(options.arguments(given), watching=watching)
    except SettingsError as wrong:
        raise SettingsError([*faults, *wrong.faults]) from None
    if faults:
        raise SettingsError(faults)
    return found


def whole(name: str, text: str | None, faults: list[str], *, least: int = 0) -> int | None:
    """A whole number from ``least`` on, or None; ``name`` is the option's."""
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
    """A number, which may be nan or inf as a loss may be; or None."""
    if text is None:
        return None
    if _NUMBER.fullmatch(text.strip()):
        return float(text)
    faults.append(f"{name}={text[:80]!r} is not a number; use for example 2.5")
    return None


def interval(text: str, faults: list[str], *, least: float = _LEAST_INTERVAL_S) -> float:
    """What ``--interval`` says, in seconds from ``least`` on."""
    found = number("--interval", text, faults)
    if found is None:
        return least
    if not least <= found <= _MOST_INTERVAL_S:
        faults.append(
            f"--interval={text[:40]!r} is not from {least:g} to {_MOST_INTERVAL_S:g} seconds; use for example 5"
        )
    return found
