"""What lastbeat looks for in logs: a signal is a named pattern with its meaning."""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from lastbeat.model.error_type import ErrorType

Severity = Literal["critical", "error", "warning", "info"]
Role = Literal["root", "cascade", "confirmation"]
"""``root``: primary evidence of what went wrong. ``cascade``: a consequence (a peer that closed, a launcher's SIGTERM),
a cause only if nothing better is known. ``confirmation``: says that or how something ended, never why
(ChildFailedError, an exit status)."""
Verdict = Literal["crash", "stalled", "timeout", "success"]

_NONE: Final[Mapping[str, Any]] = {}

ROOT: Final = "root"
CASCADE: Final = "cascade"
CONFIRMATION: Final = "confirmation"

# Named tuples: each look at a run with a log creates hundreds of them, and they are cheap to create and to define.


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
    """More specific than its error type's. ``{field}`` is replaced by what was extracted."""
    restartable: bool | None = None
    """None: as its error type says."""
    envelope: bool = False
    """Whether the same line, or the lines right below it, name the failure. Such a detail takes its place as the cause.
    Without one, its role applies."""
    literals: tuple[str, ...] = ()
    """Every line that the pattern matches has at least one of these (lower-cased if ``ignore_case``). Empty: none are
    known, and the pattern is tried on each line."""
    demand: str = ""
    """What the template of such a line must contain, as ``line_templates.demand`` writes it. Empty: nothing, or not
    computed yet."""
    source: str = ""
    """The catalogue that defines it."""


class Absence(NamedTuple):
    """A line that has to appear: within ``within_s`` of the attempt's start, and then again every ``every_s``."""

    name: str
    """Name of the rule, and of the condition that it raises."""
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
    noticed: frozenset[str] = frozenset()
    """Signals whose latest new line is timed, besides those that absence rules wait for."""
