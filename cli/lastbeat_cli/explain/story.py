"""The result of ``explain``, for its text and its JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from lastbeat.model.as_json import Json, as_json, picked
from lastbeat.model.cause import Cause, Evidence, Explanation
from lastbeat.model.document import masked
from lastbeat.model.error_type import ErrorType
from lastbeat.views.rank_documents import missing_document, stuck_document

_NAMES: Final = frozenset(
    ["error_type", "subsystem", "signal", "file", "log", "time", "last_line_at", "since", "does", "until"]
)
"""Fields that hold no text of training."""


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


def story_document(story: ExplainReport, mask: Callable[[str], str]) -> Json:
    """The documented keys, always all of them; unknown values are null. ``mask`` cleans text from training."""
    found = story.explanation
    cause, second, peer, idle = found.cause, found.second, found.peer, found.idle
    document: Json = {
        "cause": None if cause is None else _cause(cause, story),
        # Where it is undecided which of two it is.
        "second": None if second is None else {**_cause(second, story), "hint": _hint(second, story)},
        "alternatives": [_cause(other, story) for other in found.alternatives],
        "downstream": as_json(found.downstream),
        "hint": None if cause is None else _hint(cause, story),
        "fingerprint": story.fingerprint or None,
        **picked(story, "similar notes"),
        **picked(found, "ended success"),
        "peer": None if peer is None else {**picked(peer, "rank host told"), "log": peer.log or None},
        "missing": None if found.missing is None else missing_document(found.missing),
        "stuck": None if found.stuck is None else stuck_document(found.stuck),
        "idle": None if idle is None else {**picked(idle, "at_most until"), "seconds": round(idle.seconds, 3)},
        "attempt": None if found.attempt is None else picked(found.attempt, "number file line"),
        "warned": [{"evidence": as_json(each.evidence), "hint": each.hint or None} for each in found.warned],
    }
    return {key: masked(value, mask, _NAMES) for key, value in document.items()}


def _hint(cause: Cause, story: ExplainReport) -> str | None:
    return hint(cause, story.error_types) or None


def _cause(cause: Cause, story: ExplainReport) -> Json:
    return {
        **picked(cause, "error_type subsystem evidence frames"),
        "confidence": round(cause.confidence, 3),
        "restartable": restartable(cause, story.error_types),
        "signal": cause.signal or None,
    }
