"""What ``explain`` found, as the text and the JSON of it need it."""

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
    """The newest time that a line of it names: when the rank fell silent."""


@dataclass(frozen=True, slots=True)
class ExplainReport:
    """The answer, and what people need around it."""

    explanation: Explanation
    logs: Sequence[LogRead]
    error_types: Mapping[str, ErrorType]
    around: Sequence[tuple[int, str]] = ()
    """Lines of the cause's file from some before the evidence to some after it, with their numbers; cleaned."""
    notes: Sequence[str] = field(default=())
    """What was left out, for people."""
    fingerprint: str = ""
    """Of the cause; empty where nothing tells it from others."""
    similar: str | None = None
    """The last run of the fleet that failed of the same cause, in one line."""
    missing_end: Sequence[tuple[int, str]] = ()
    """The last lines of the first missing rank's log, with their numbers; cleaned."""


def restartable(cause: Cause, error_types: Mapping[str, ErrorType]) -> bool | None:
    """What the cause says, else its type."""
    known = error_types.get(cause.error_type)
    return cause.restartable if cause.restartable is not None or known is None else known.restartable


def hint(cause: Cause, error_types: Mapping[str, ErrorType]) -> str:
    """What the cause says, else its type."""
    known = error_types.get(cause.error_type)
    return cause.hint or (known.hint if known is not None else "")


def place(evidence: Evidence) -> str:
    """``file:line``, as editors and grep take it."""
    if evidence.file == "-":
        return f"line {evidence.line} of standard input" if evidence.line > 0 else "standard input"
    return f"{evidence.file}:{evidence.line}" if evidence.line > 0 else evidence.file
