"""How ``lastbeat exec --max-restarts`` and training recognize each other, in the environment and in metadata.json.

``exec`` ends training that hangs, and starts it again in its place.
"""

import json
from typing import Any, Final

from lastbeat.model.data import dataclass
from lastbeat.model.document_field import (
    UNSTAMPED,
    FieldType,
    declared,
    document_field,
    object_of,
    read_object,
    written,
)
from lastbeat.model.json_values import json_object

VARIABLE: Final = "_LASTBEAT_IN_PLACE"
"""In the environment of what is started."""
RESTARTS_VARIABLE: Final = "LASTBEAT_RESTARTS_IN_PLACE"
"""In the same, for training itself: 0 for the first start in a job, 1 for the next."""
RESUME_FROM: Final = "LASTBEAT_RESUME_FROM"
RESUME_STEP: Final = "LASTBEAT_RESUME_STEP"
"""In the same: the checkpoint that a start is to go on from, and its step."""
FIELD: Final = "in_place"
"""In metadata.json."""
COUNTS_MOST: Final = 10**6
LONGEST_S: Final = 3600.0
_NAME_CHARS: Final = 200
_TOKEN: Final = FieldType(
    lambda value, _: value if isinstance(value, str) and 0 < len(value) <= _NAME_CHARS else None, {"type": "string"}
)
_COUNT: Final = FieldType(
    lambda value, _: value if type(value) is int and 0 <= value <= COUNTS_MOST else None,
    {"type": "integer", "minimum": 0},
)


def _seconds(value: object, _: object) -> float | None:
    usual = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= LONGEST_S
    return float(value) if usual else None  # type: ignore[arg-type] # a number


_SPAN: Final = FieldType(_seconds, {"type": "number", "minimum": 0})


@dataclass(frozen=True, slots=True)
class InPlace:
    """One start."""

    token: str = document_field("token", _TOKEN, "Identifies this start.", required=True)
    """The same for all of its processes, and for no other."""
    restarts: int = document_field(
        "restarts", _COUNT, "How often it has been started again within its job.", required=True
    )
    left: int = document_field("left", _COUNT, "How often it still may be.", required=True)
    takes_s: float = document_field(
        "takes_s",
        _SPAN,
        "From a hang to the next start at most; until then nothing else needs to act.",
        required=True,
    )
    process: int = 0
    """The process that starts it. Only training gets this, not metadata.json."""
    mark: str | None = None
    """Which process that number means, see ``sdk.documents.process_mark``."""

    def fields(self) -> dict[str, Any]:
        """For metadata.json."""
        return {FIELD: written(self)}

    def variable(self) -> str:
        """For :data:`VARIABLE`."""
        return json.dumps({**written(self), "process": self.process, "mark": self.mark})


def read_in_place(value: object) -> InPlace | None:
    """What a document or the variable, decoded, says; None where it does not make sense. Never raises."""
    if not isinstance(value, dict):
        return None
    process, mark = value.get("process"), value.get("mark")
    who = process if type(process) is int and 0 < process < 1 << 31 else 0
    return read_object(InPlace, value, UNSTAMPED, process=who, mark=mark if isinstance(mark, str) else None)


IN_PLACE: Final = FieldType(lambda value, _: read_in_place(value), object_of(declared(InPlace).values()))


def in_variable(text: str | None) -> InPlace | None:
    """What :data:`VARIABLE` says. None: it is not there, or makes no sense. Never raises."""
    return read_in_place(json_object(text or ""))
