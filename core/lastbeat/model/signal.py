"""What lastbeat looks for in logs: a signal is a named pattern with what it means."""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from lastbeat.model.error_type import ErrorType

Severity = Literal["critical", "error", "warning", "info"]
Role = Literal["root", "cascade", "confirmation"]
"""``root``: primary evidence, what went wrong. ``cascade``: what follows from something else that went wrong (a peer
that closed, a launcher's SIGTERM), a cause only where nothing better is known. ``confirmation``: says that something
ended or how, and never what the cause is (ChildFailedError, an exit status)."""
Verdict = Literal["crash", "stalled", "timeout", "success"]

_NONE: Final[Mapping[str, Any]] = {}

ROOT: Final = "root"
CASCADE: Final = "cascade"
CONFIRMATION: Final = "confirmation"

# Named tuples, of which hundreds are made in a moment, and whose classes are: each look at a run with a log needs them.


class Signal(NamedTuple):
    """One named pattern.

    ``pattern`` is searched for in each line *after* ANSI sequences and the prefixes of launchers and ranks are taken
    off (see ``splitting``). It is a regular expression in the syntax that Python's ``re`` and RE2 share, or plain text
    if ``substring``.
    """

    name: str
    pattern: str
    substring: bool = False
    ignore_case: bool = False
    verdict: Verdict | None = None
    kind: str | None = None
    """What a line of a healthy run is (``progress``, ``checkpoint``, ``validation``, ``retry``, ``advice``, …)."""
    error_type: str | None = None
    subsystem: str | None = None
    severity: Severity = "error"
    role: Role = "root"
    extract: Mapping[str, str] = _NONE
    """Field → named group of the pattern."""
    hint: str = ""
    """More specific than its error type's; ``{field}`` stands for what was extracted."""
    restartable: bool | None = None
    """None: as its error type says."""
    literals: tuple[str, ...] = ()
    """At least one of these (lower-cased if ``ignore_case``) is in every line that the pattern matches; empty: nothing
    is known, the pattern has to be tried on each line."""
    demand: str = ""
    """What the template of such a line contains, as ``line_templates.demand`` writes it; empty: nothing, or not worked
    out."""
    source: str = ""
    """The catalogue that it stands in."""


class Absence(NamedTuple):
    """A line that has to appear: within ``within_s`` of the attempt's start, and then again every ``every_s``."""

    name: str
    """Of the rule, and so of the condition that it raises."""
    signal: str
    """Name of the signal that has to be seen."""
    within_s: float
    every_s: float
    hint: str = ""


class Catalogue(NamedTuple):
    """Signals, absence rules, error types and limits, composed of one or more files."""

    name: str
    signals: tuple[Signal, ...] = ()
    absences: tuple[Absence, ...] = ()
    error_types: Mapping[str, ErrorType] = _NONE
    inactivity_s: float | None = None
    """No new line and no new step for this long is a stall. None: as LASTBEAT_STALL_MINUTES says."""
    inactivity_check_s: float | None = None
    """How often that is checked. None: at every look."""
    poll_s: float | None = None
    """How often logs are read. None: at every look."""
