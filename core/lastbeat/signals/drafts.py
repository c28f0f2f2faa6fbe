"""A catalogue file as it was read, before it is put together with those that it extends."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from lastbeat.model.signal import Signal

NAMED_LIMITS: Final = ("inactivity_s", "inactivity_check_s", "poll_s")
BUILT_IN: Final = 0
"""The line of what comes from a built-in catalogue: it was checked when lastbeat was made."""
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})

# Named tuples, because a watchdog that looks once a minute has these classes made for each look.


class Entry(NamedTuple):
    """One signal, absence rule or error type of a file."""

    fields: Mapping[str, Any]
    """By the names that ``model.signal`` has for them; only what was said."""
    line: int = BUILT_IN
    lines: Mapping[str, int] = _NONE
    """Key → line of what it says."""


class Draft(NamedTuple):
    """One file."""

    file: str
    extends: Mapping[str, int] | None = None
    """Name or path → line. None: the file does not say."""
    description: str = ""
    signals: Mapping[str, Entry] = _NONE
    made: Mapping[str, Signal] = _NONE
    """The signals of a built-in catalogue, which are whole."""
    absences: Mapping[str, Entry] = _NONE
    error_types: Mapping[str, Entry] = _NONE
    limits: Mapping[str, float] = _NONE
    silence: Mapping[str, int] = _NONE
    """Name → line."""


class Fault(NamedTuple):
    """Something that is wrong with a catalogue."""

    file: str
    line: int
    what: str
    """What is wrong; what to do."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}" if self.line else f"{self.file}: {self.what}"


def nearest(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)``, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for who mistyped

    near = get_close_matches(name[:100], list(known), n=1, cutoff=0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""
