"""The result of ``explain``, for its text and its JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lastbeat.model.cause import Cause, Evidence, Explanation
from lastbeat.model.error_type import ErrorType


@dataclass(frozen=True, slots=True)
class LogRead:
    """One log, as far as it was read."""

    name: str
    rank: int | None = None
    lines: int = 0
    size_bytes: int = 0
    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    last_time: datetime | None = None
    """The newest time in its lines: when the rank fell silent."""


@dataclass(frozen=True, slots=True)
class ExplainReport:
    """The explanation, with what people need to check it."""

    explanation: Explanation
    logs: Sequence[LogRead]
    error_types: Mapping[str, ErrorType]
    around: Sequence[tuple[int, str]] = ()
    """The lines around the evidence in its file, with their numbers; cleaned."""
    notes: Sequence[str] = field(default=())
    """What was left out, as sentences."""
    fingerprint: str = ""
    """Fingerprint of the cause; empty if nothing distinguishes it from other causes."""
    similar: str | None = None
    """The last run of the fleet that failed with the same cause, in one line."""
    missing_end: Sequence[tuple[int, str]] = ()
    """The last lines of the first missing rank's log, with their numbers; cleaned."""
    dumps: int = 0
    """How many dumps of flight recorders were read."""


def restartable(cause: Cause, error_types: Mapping[str, ErrorType]) -> bool | None:
    """Whether a restart helps, by the cause itself, else by its error type; None if unknown."""
    known = error_types.get(cause.error_type)
    return cause.restartable if cause.restartable is not None or known is None else known.restartable


def hint(cause: Cause, error_types: Mapping[str, ErrorType]) -> str:
    """The hint of the cause itself, else of its error type; may be empty."""
    known = error_types.get(cause.error_type)
    return cause.hint or (known.hint if known is not None else "")


def place(evidence: Evidence) -> str:
    """``file:line``, in the form that editors and grep use."""
    if evidence.file == "-":
        return f"line {evidence.line} of standard input" if evidence.line > 0 else "standard input"
    return f"{evidence.file}:{evidence.line}" if evidence.line > 0 else evidence.file
